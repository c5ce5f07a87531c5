"""The log as others read it: one record per decision, with its reward (the schema of `treebandit.evaluation`)."""

from __future__ import annotations

import io
from datetime import datetime
from typing import Any

import msgspec

from treebandit.errors import MissingExtraError
from treebandit.service.entries import Entry, decision_body
from treebandit.service.outcomes import outcome
from treebandit.service.store import BanditRow, Store
from treebandit.service.times import iso

_encode = msgspec.json.Encoder().encode


def records(
    store: Store, row: BanditRow, *, after: int = 0, limit: int = 1000, since: int = 0, until: int = 1 << 62
) -> tuple[list[dict[str, Any]], int | None]:
    """Decisions behind a place, and the place to go on from; None at the end. Erased ones are left out."""
    places = store.rows(
        "SELECT place FROM entries WHERE bandit = ? AND kind = 'decision' AND place > ? AND time >= ? AND time < ? "
        f"ORDER BY place LIMIT {int(limit)}",
        (row.id, after, since, until),
    )
    if not places:
        return [], None
    first, last = places[0][0], places[-1][0]
    entries = [
        entry
        for entry in store.entries(row.id, first - 1, last - first + 1)
        if entry.kind == "decision" and entry.place <= last and since <= entry.time < until
    ]
    about = store.about(row.id, [str(entry.decision) for entry in entries])
    found = [_record(entry, about[str(entry.decision)], row) for entry in entries if entry.body]
    return found, last if len(places) == limit else None


def _record(entry: Entry, about: list[Entry], row: BanditRow) -> dict[str, Any]:
    body = decision_body(entry.body)
    reward, time = outcome(about)
    wait = (
        entry.due if entry.due is not None else next((e.due for e in about if e.kind == "activation"), None)
    )
    if reward is None and wait is not None and wait <= row.closed_until:
        reward, time = row.config.reward_default, wait
    # One number is learned for each of the chosen rows.
    each = reward if isinstance(reward, list) or reward is None else [reward] * len(body.chosen)
    several = isinstance(reward, list) or len(body.chosen) > 1
    record = {
        "id": entry.decision,
        "time": iso(entry.time),
        "arms": body.arms,
        "context": body.context,
        "arm_contexts": body.arm_contexts,
        "chosen": body.chosen,
        "probability": body.probability,
        "probabilities": body.probabilities or None,
        "reward": None if each is None else sum(each),
        "rewards": each if several else None,
        "reward_time": None if time is None or reward is None else iso(time),
        "policy": body.policy,
        "version": str(entry.version or 0),
        "holdout": entry.holdout,
    }
    return {key: value for key, value in record.items() if value is not None}


def ndjson(found: list[dict[str, Any]]) -> bytes:
    """One JSON object per line."""
    return b"".join(_encode(record) + b"\n" for record in found)


def parquet(found: list[dict[str, Any]]) -> bytes:
    """A Parquet file with the columns of the schema."""
    try:
        import polars as pl
    except ImportError as error:
        raise MissingExtraError("polars", "service") from error
    from treebandit.evaluation.columns import SCHEMA

    rows = [_flat(record) for record in found]
    frame = pl.DataFrame({name: [row.get(name) for row in rows] for name in SCHEMA}, schema=SCHEMA)
    file = io.BytesIO()
    frame.write_parquet(file)
    return file.getvalue()


def _flat(record: dict[str, Any]) -> dict[str, Any]:
    flat = dict(record)
    for name in ("time", "reward_time"):
        if name in flat:
            flat[name] = datetime.fromisoformat(flat[name])
    flat["context"] = _encode(record["context"]).decode()
    if "arm_contexts" in record:
        flat["arm_contexts"] = [_encode(each).decode() for each in record["arm_contexts"]]
    return flat
