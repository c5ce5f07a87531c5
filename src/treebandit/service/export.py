"""The log as others read it: one record per decision, with its reward (the schema of `treebandit.evaluation`)."""

from __future__ import annotations

import io
from datetime import datetime
from typing import Any

import msgspec

from treebandit.errors import MissingExtraError
from treebandit.service import queries
from treebandit.service.entries import Entry, decision_body
from treebandit.service.outcomes import About, due_of, is_first, outcome
from treebandit.service.store import BanditRow, Store
from treebandit.service.times import iso

_encode = msgspec.json.Encoder().encode


def records(
    store: Store,
    row: BanditRow,
    *,
    after: int = 0,
    limit: int = 1000,
    since: int = 0,
    until: int = 1 << 62,
    closed: bool = False,
) -> tuple[list[dict[str, Any]], int | None]:
    """Decisions behind a place, and the place to go on from; None at the end. Erased ones are left out.

    limit: so many are looked at, fewer where they are large.
    closed: only decisions whose reward is final: their wait is over, or, where no default reward stands in for what
    never comes, the first reward is there. Of the others those who buy at once would be in, and those who never do not.
    """
    listed = store.rows(
        "SELECT place, decision, length(body) FROM entries WHERE bandit = ? AND kind = 'decision' AND place > ? "
        f"AND time >= ? AND time < ? ORDER BY place LIMIT {int(limit)}",
        (row.id, after, since, until),
    )
    page = next(queries.parts(listed), [])
    about = store.about(row.id, [each[1] for each in page])
    defaults = queries.default_rewards(store, row)
    found = []
    for place, decision, _ in page:
        # As it is by now: it may have been erased or deleted since it was listed.
        known = about.get(decision, ())
        entry = next((each for each in known if each.place == place and each.body), None)
        if entry is not None:
            record, final = _record(entry, about, row, defaults)
            found += [record] if final or not closed else []
    return found, page[-1][0] if len(page) < len(listed) or len(listed) == limit else None


def _record(
    entry: Entry, about: About, row: BanditRow, defaults: list[tuple[int, float | None]]
) -> tuple[dict[str, Any], bool]:
    """A decision with its reward, and whether that is final."""
    body = decision_body(entry.body)
    reward, time = outcome(about[str(entry.decision)])
    due = due_of(entry, about, before=1 << 62)
    final = due is not None and due <= row.closed_until
    if reward is None and due is not None and final:
        # The default of that time: it was learned.
        reward, time = next(default for until, default in defaults if due <= until), due
    final = final or (reward is not None and row.config.reward_default is None and is_first(entry))
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
    return {key: value for key, value in record.items() if value is not None}, final


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
