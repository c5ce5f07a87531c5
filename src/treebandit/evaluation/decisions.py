"""Decisions of an agent as a log, and a log as something to learn from."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np

from treebandit.core import Decision
from treebandit.errors import InputError, LogError
from treebandit.evaluation.log import DecisionLog
from treebandit.evaluation.policies import labels_of, rows_of
from treebandit.features.given import repeated
from treebandit.parameters import check_flag

#: Rows that an agent learns at once.
_CHUNK = 10_000


def log_decisions(
    decisions: Decision | Sequence[Decision],
    rewards: Any = None,
    *,
    policy: str | None = None,
    version: str | int | None = None,
    time: datetime | None = None,
    holdout: bool = False,
) -> DecisionLog:
    """What `agent.decide` decided, as a log to write or append.

    rewards: one per decision, a list of numbers for a decision of several rows, None where it has not come yet; append
        `{"id": ..., "reward": ...}` later. time: of all decisions; now, where none is given.
    """
    many = [decisions] if isinstance(decisions, Decision) else list(decisions)
    paid = [rewards] if isinstance(decisions, Decision) else rewards
    paid = [None] * len(many) if paid is None else list(paid)
    if len(paid) != len(many):
        raise InputError(
            f"{len(paid)} rewards for {len(many)} decisions; give one per decision, None where there is none"
        )
    moment = (time or datetime.now(UTC)).astimezone(UTC).isoformat().replace("+00:00", "Z")
    records = []
    for decision, reward in zip(many, paid, strict=True):
        record: dict[str, Any] = {
            "id": decision.id,
            "time": moment,
            "arms": None if decision.labels is None else [str(label) for label in decision.labels],
            **_contexts(decision),
            "chosen": decision.rows.tolist(),
            "probability": float(decision.probability),
            "probabilities": [float(each) for each in decision.probabilities],
            "policy": policy,
            "version": None if version is None else str(version),
            "holdout": holdout,
        }
        if isinstance(reward, Sequence | np.ndarray):
            record |= {"rewards": [float(each) for each in reward], "reward": float(np.sum(reward))}
        elif reward is not None:
            record["reward"] = float(reward)
        records.append(record)
    return DecisionLog.from_records(records, source="the decisions")


def _contexts(decision: Decision) -> dict[str, Any]:
    """`context` where all candidates share one row, else `arm_contexts`."""
    given, size = decision.given, len(decision.candidates)
    if given is None:
        names = decision.candidates.columns.names
        rows = decision.candidates.contexts.tolist()
        plain = [dict(zip(names, row, strict=True)) if names else row for row in rows]
        return {"arm_contexts": [_plain(row) for row in plain]}
    rows = given.rows(np.arange(size))
    if rows is None:
        return {"arm_contexts": [None] * size}
    table = repeated(rows, size)
    listed = table.tolist() if isinstance(table, np.ndarray) else table
    shared = given.shared is not None and decision.labels is not None
    return {"context": _plain(listed[0])} if shared else {"arm_contexts": [_plain(row) for row in listed]}


def _plain(value: Any) -> Any:
    """A value as JSON has it: numpy numbers as numbers, what is missing as null."""
    if isinstance(value, Mapping):
        return {str(name): _plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [_plain(inner) for inner in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if type(value).__name__ in ("NAType", "NaTType"):
        return None
    try:
        return float(value)
    except (TypeError, ValueError):
        return str(value)


def warm_start(agent: Any, log: DecisionLog, *, numbered_arms: bool = False) -> int:
    """Let an agent learn all decisions of a log that have rewards, as `agent.learn(log)`; gives how many rows.

    The rows are learned in the order of the log, as if the agent had chosen them itself. It does not correct for how
    they were chosen: an old policy that rarely played an arm leaves the agent unsure of it, which it then explores.

    numbered_arms: a log has arms as text; True learns '7' as the whole number 7. An agent that knows numbered arms
        already does so by itself.
    """
    check_flag("numbered_arms", numbered_arms)
    log.check()
    learned = 0
    rows: list[Any] = []
    rewards: list[float] = []
    arms: list[Any] = []
    for record in log.records():
        paid = record.get("rewards") or ([record["reward"]] if "reward" in record else None)
        if paid is None:
            continue
        if len(paid) != len(record["chosen"]):
            raise LogError(
                f"decision {record['id']!r} chose {len(record['chosen'])} rows and tells only the sum of their "
                "rewards; log `rewards`, one per chosen row"
            )
        names, own = record.get("arms"), record.get("arm_contexts")
        given = rows_of(record.get("context"), own)
        labels = labels_of(agent, names, numbered=numbered_arms)
        for row, reward in zip(record["chosen"], paid, strict=True):
            rows.append(given if own is None or given is None else given[row])
            rewards.append(reward)
            arms.append(None if labels is None else labels[row])
        if len(rewards) >= _CHUNK:
            learned += _learned(agent, rows, rewards, arms)
            rows, rewards, arms = [], [], []
    return learned + _learned(agent, rows, rewards, arms)


def _learned(agent: Any, rows: list[Any], rewards: list[float], arms: list[Any]) -> int:
    if not rewards:
        return 0
    contexts: Any = rows
    empty = [row is None for row in rows]
    if all(empty):
        contexts = None
    elif any(empty):
        raise LogError(
            f"{sum(empty):,} of {len(rows):,} rows have no context, and the others do; log what is missing as null "
            "in the context, or filter these decisions out"
        )
    elif not isinstance(rows[0], Mapping):
        contexts = np.array(rows, np.float64)
    agent.learn(contexts, rewards, **({} if arms[0] is None else {"arms": arms, "new_arms": True}))
    return len(rewards)
