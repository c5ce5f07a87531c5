"""What the dashboard reads: all queries that only look, in one place."""

from __future__ import annotations

from typing import Any, NamedTuple

from treebandit.service.store import BanditRow, Store

#: A decision and the first reward that came before the end of its wait.
_JOINED = """FROM entries d LEFT JOIN entries r ON r.bandit = d.bandit AND r.decision = d.decision
    AND r.kind = 'reward' AND (d.due IS NULL OR r.time < d.due)
    WHERE d.bandit = ? AND d.kind = 'decision' AND d.time >= ? AND d.time < ?"""


class Bucket(NamedTuple):
    """Decisions of one span of time: how many, how many have a reward, the sum of these and of their squares."""

    start: int
    holdout: bool
    decisions: int
    rewards: int
    total: float
    squares: float


class ArmShare(NamedTuple):
    """How often an arm was chosen, and what it earned."""

    arm: str
    holdout: bool
    decisions: int
    rewards: int
    total: float


def rewards_over_time(store: Store, row: BanditRow, since: int, until: int, step: int) -> list[Bucket]:
    """Rewards in spans of `step` microseconds, of the policy and of the holdout."""
    found = store.rows(
        f"SELECT (d.time / ?) * ?, d.holdout, count(*), count(r.value), sum(r.value), sum(r.value * r.value) {_JOINED} "
        "GROUP BY 1, 2 ORDER BY 1, 2",
        (step, step, row.id, since, until),
    )
    return [
        Bucket(each[0], bool(each[1]), each[2], each[3], each[4] or 0.0, each[5] or 0.0) for each in found
    ]


def arms(store: Store, row: BanditRow, since: int, until: int) -> list[ArmShare]:
    """Share and reward of each arm."""
    found = store.rows(
        f"SELECT d.arm, d.holdout, count(*), count(r.value), sum(r.value) {_JOINED} AND d.arm IS NOT NULL "
        "GROUP BY 1, 2 ORDER BY 3 DESC",
        (row.id, since, until),
    )
    return [ArmShare(each[0], bool(each[1]), each[2], each[3], each[4] or 0.0) for each in found]


def delays(store: Store, row: BanditRow, since: int, until: int, limit: int = 10_000) -> list[int]:
    """Microseconds from decisions to their rewards, of the newest decisions."""
    found = store.rows(
        f"SELECT r.time - d.time {_JOINED} AND r.time IS NOT NULL ORDER BY d.place DESC LIMIT {int(limit)}",
        (row.id, since, until),
    )
    return [each[0] for each in found]


def probabilities(
    store: Store, row: BanditRow, since: int, until: int, step: int
) -> list[tuple[int, float, int]]:
    """Mean probability of what was chosen, and the number of decisions, in spans of time."""
    found = store.rows(
        "SELECT (d.time / ?) * ?, avg(d.probability), count(*) FROM entries d WHERE d.bandit = ? "
        "AND d.kind = 'decision' AND d.time >= ? AND d.time < ? GROUP BY 1 ORDER BY 1",
        (step, step, row.id, since, until),
    )
    return [(each[0], float(each[1] or 0.0), each[2]) for each in found]


def versions(store: Store, row: BanditRow, limit: int = 100) -> list[tuple[int, bytes]]:
    """When models were published, newest first, and the bodies of these entries (`models.Published`)."""
    found = store.rows(
        f"SELECT time, body FROM entries WHERE bandit = ? AND kind = 'publish' ORDER BY time DESC LIMIT {int(limit)}",
        (row.id,),
    )
    return [(each[0], bytes(each[1])) for each in found]


def counts(store: Store, row: BanditRow) -> dict[str, Any]:
    """Entries of each kind."""
    return dict(store.rows("SELECT kind, count(*) FROM entries WHERE bandit = ? GROUP BY kind", (row.id,)))
