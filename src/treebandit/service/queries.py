"""What the dashboard reads: all queries that only look, in one place; the same SQL for both stores."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, pairwise
from typing import NamedTuple

import msgspec

from treebandit.service.config import Aggregation, BanditConfig
from treebandit.service.database import Row
from treebandit.service.log import in_chunks
from treebandit.service.store import BanditRow, Store

_OF_DECISION = "x.bandit = d.bandit AND x.decision = d.decision"
#: The kind, and with it time and place, as expressions: else SQLite looks through all rewards for each decision, by
#: the index of kinds or of places, and not by the decision.
_KIND = "(x.kind || '')"
_NO_END = 1 << 62
#: The fourth power of a smaller reward is no number above 0, and PostgreSQL refuses to make it 0.
_LEAST_POWERED = 1e-70
#: Bytes of decisions that are in memory at once: as objects they take some ten times as much.
_MOST_BYTES = 1 << 24
#: How several rewards of a decision, all before the end of its wait, become one.
_VALUE = {
    "first": "(SELECT x.value {} ORDER BY x.place + 0 LIMIT 1)",
    "last": "(SELECT x.value {} ORDER BY x.place + 0 DESC LIMIT 1)",
    "sum": "(SELECT sum(x.value) {})",
    "mean": "(SELECT avg(x.value) {})",
}


#: All settings that a bandit has had, and the places where they were set.
_Configs = list[tuple[int, BanditConfig]]


class Window(NamedTuple):
    """Decisions with since <= time < until, in microseconds since 1970."""

    since: int
    until: int


class Cell(NamedTuple):
    """Decisions of one arm, by the policy or the holdout, in one span of time.

    final: of how many the reward is known for good; total, squares, cubes, fourths: sums of these rewards and of their
    powers. answered: of how many a reward came. probability: the sum of the probabilities of what was chosen.
    """

    bucket: int
    holdout: bool
    arm: str
    decisions: int
    final: int
    total: float
    squares: float
    cubes: float
    fourths: float
    answered: int
    probability: float


class Delay(NamedTuple):
    """Microseconds from a decision to its first reward, and whether that was in time."""

    microseconds: int
    counted: bool


class SampledDecision(NamedTuple):
    """A decision with its body (`entries.DecisionBody`)."""

    time: int
    holdout: bool
    body: bytes


def window(store: Store, row: BanditRow, since: int, until: int, most: int) -> tuple[Window, bool]:
    """From the first decision at or after `since`, yet no more than the newest `most`; whether some were left out."""
    where = "FROM entries WHERE bandit = ? AND kind = 'decision' AND time >= ? AND time < ?"
    values = (row.id, since, until)
    further = store.rows(f"SELECT time {where} ORDER BY time DESC LIMIT 1 OFFSET {int(most)}", values)
    if further:
        return Window(further[0][0] + 1, until), True
    first = store.rows(f"SELECT min(time) {where}", values)[0][0]
    return Window(until if first is None else first, until), False


def cells(store: Store, row: BanditRow, seen: Window, step: int) -> list[Cell]:
    """What was decided and earned in spans of `step` microseconds, counted from the beginning of the window.

    A reward is final where the wait of its decision has ended; where no default stands in for rewards that never
    come, under `first`, as soon as it is there. To count what has come before its wait is over would count those who
    buy at once and leave out those who never do. A default is earned by each chosen arm; decisions of 0.2 and
    before have not logged how many these are, and count one.
    """
    configs = _configs(store, row)
    defaults, hows = _defaults(store, row, configs), _aggregations(row, configs)
    default = "CASE " + "WHEN v.due <= ? THEN CAST(? AS DOUBLE PRECISION) " * len(defaults) + "END"
    in_time = f"{_OF_DECISION} AND {_KIND} = 'reward' AND x.time + 0 < d.due AND x.value IS NOT NULL"
    rewards = f"FROM entries x WHERE {in_time}"
    value = "CASE " + " ".join(
        f"WHEN d.place < {place} THEN {_VALUE[how].format(rewards)}" for place, how in hows
    )
    at_once = " ".join(f"WHEN v.place < {place} THEN {int(how == 'first')}" for place, how in hows)
    known = f"WHEN v.due IS NOT NULL AND CASE {at_once} END = 1 THEN v.value"
    found = store.rows(
        f"""WITH due AS (
            SELECT d.bandit, d.decision, d.place, d.time, d.holdout, d.arm, d.probability,
                coalesce(d.value, 1) AS chosen, coalesce(d.due,
                (SELECT x.due FROM entries x WHERE {_OF_DECISION} AND {_KIND} = 'activation')) AS due
            FROM entries d
            WHERE d.bandit = ? AND d.kind = 'decision' AND d.time >= ? AND d.time < ? AND d.arm IS NOT NULL),
        valued AS MATERIALIZED (SELECT d.*, {value} END AS value FROM due d),
        earned AS MATERIALIZED (
            SELECT v.*, CASE WHEN v.due <= ? THEN coalesce(v.value, v.chosen * {default})
                {known if row.config.reward_default is None else ""} END AS reward FROM valued v)
        SELECT (time - ?) / ?, holdout, arm, count(*), count(reward), sum(reward), sum(base * base),
            sum(base * base * base), sum(base * base * base * base), count(value), sum(probability)
        FROM (SELECT e.*, CASE WHEN abs(reward) > {_LEAST_POWERED} THEN reward ELSE 0 END AS base FROM earned e) AS x
        GROUP BY 1, 2, 3 ORDER BY 1, 2, 3""",
        (row.id, *seen, row.closed_until, *chain.from_iterable(defaults), seen.since, step),
    )
    return [
        Cell(
            bucket=int(bucket),
            holdout=bool(holdout),
            arm=arm,
            decisions=decisions,
            final=final,
            total=float(total or 0),
            squares=float(squares or 0),
            cubes=float(cubes or 0),
            fourths=float(fourths or 0),
            answered=answered,
            probability=float(probability or 0),
        )
        for bucket, holdout, arm, decisions, final, total, squares, cubes, fourths, answered, probability in found
    ]


def delays(store: Store, row: BanditRow, seen: Window, most: int = 2000) -> list[Delay]:
    """How late the first rewards of the newest decisions came; rewards received before their decision have 0."""
    found = store.rows(
        f"""SELECT d.time, coalesce(d.due,
            (SELECT x.due FROM entries x WHERE {_OF_DECISION} AND {_KIND} = 'activation')),
            (SELECT min(x.time) FROM entries x WHERE {_OF_DECISION} AND {_KIND} = 'reward')
        FROM entries d WHERE d.bandit = ? AND d.kind = 'decision' AND d.time >= ? AND d.time < ?
            AND d.arm IS NOT NULL ORDER BY d.time DESC LIMIT {int(most)}""",
        (row.id, *seen),
    )
    return [
        Delay(max(0, came - time), due is not None and came < due)
        for time, due, came in found
        if came is not None
    ]


def sample(
    store: Store, row: BanditRow, seen: Window, every: int, most: int = 2000
) -> Iterator[SampledDecision]:
    """Every so-many-th decision with its body, in the order of time; some are read at a time."""
    listed = store.rows(
        f"""SELECT place, length(body) FROM entries WHERE bandit = ? AND kind = 'decision' AND time >= ? AND time < ?
            AND arm IS NOT NULL AND t - (t / ?) * ? = 0 ORDER BY time DESC, place DESC LIMIT {int(most)}""",
        (row.id, *seen, every, every),
    )
    sql = "SELECT time, holdout, body FROM entries WHERE bandit = ? AND place IN ({marks}) ORDER BY place"
    for part in parts(listed[::-1]):
        with store.session() as connection:
            found = in_chunks(connection, sql, row.id, [each[0] for each in part])
        for time, holdout, body in found:
            yield SampledDecision(time, bool(holdout), bytes(body))


def parts(listed: Sequence[Row]) -> Iterator[list[Row]]:
    """What is listed, with its size in bytes at the end of each row, in parts that may be read at once."""
    part: list[Row] = []
    size = 0
    for each in listed:
        if part and size + each[-1] > _MOST_BYTES:
            yield part
            part, size = [], 0
        part.append(each)
        size += each[-1]
    if part:
        yield part


def newest_decision(store: Store, bandit: int) -> bytes | None:
    """The body of the last decision that is not erased."""
    found = store.rows(
        "SELECT body FROM entries WHERE bandit = ? AND kind = 'decision' AND arm IS NOT NULL "
        "ORDER BY time DESC, place DESC LIMIT 1",
        (bandit,),
    )
    return bytes(found[0][0]) if found else None


def default_rewards(store: Store, row: BanditRow) -> list[tuple[int, float | None]]:
    """Default rewards in the order of time, each with the last end of a wait that was closed with it."""
    return _defaults(store, row, _configs(store, row))


def _defaults(store: Store, row: BanditRow, configs: _Configs) -> list[tuple[int, float | None]]:
    found: list[tuple[int, float | None]] = []
    for (_, before), (place, after) in pairwise(configs):
        if after.reward_default != before.reward_default:
            close = store.last_entry(row.id, ["close"], place)
            until = 0 if close is None else msgspec.json.decode(close.body)["until"]
            found.append((until, before.reward_default))
    return [*found, (_NO_END, row.config.reward_default)]


def _aggregations(row: BanditRow, configs: _Configs) -> list[tuple[int, Aggregation]]:
    """How rewards of a decision become one, in the order of time, each with the place before which it was so."""
    changes = [
        (place, before.aggregation)
        for (_, before), (place, after) in pairwise(configs)
        if after.aggregation != before.aggregation
    ]
    return [*changes, (_NO_END, row.config.aggregation)]


def _configs(store: Store, row: BanditRow) -> _Configs:
    found: _Configs = []
    while entries := store.entries(row.id, found[-1][0] if found else 0, 500, kind="config"):
        found += [(each.place, msgspec.json.decode(each.body, type=BanditConfig)) for each in entries]
    return found


def decided_between(store: Store, row: BanditRow, seen: Window, *, after: int = 0) -> int:
    """How many decisions there are, erased ones left out. after: only those behind this place."""
    sql = (
        "SELECT count(*) FROM entries WHERE bandit = ? AND kind = 'decision' AND time >= ? AND time < ? "
        "AND place > ? AND arm IS NOT NULL"
    )
    return int(store.rows(sql, (row.id, *seen, after))[0][0])


def awaiting(store: Store, row: BanditRow, seen: Window) -> int:
    """Decisions whose wait is not over, erased ones left out."""
    found = store.rows(
        f"""SELECT count(*) FROM entries d WHERE bandit = ? AND due > ? AND kind IN ('decision', 'activation')
            AND time >= ? AND (arm IS NOT NULL OR EXISTS (
                SELECT 1 FROM entries x WHERE {_OF_DECISION} AND {_KIND} = 'decision' AND x.arm IS NOT NULL))""",
        (row.id, row.closed_until, seen.since),
    )
    return int(found[0][0])


def place_before(store: Store, row: BanditRow, until: int, most: int) -> int:
    """The place behind which the newest `most` decisions before a time stand."""
    found = store.rows(
        "SELECT place FROM entries WHERE bandit = ? AND kind = 'decision' AND time < ? "
        f"ORDER BY time DESC, place DESC LIMIT 1 OFFSET {int(most)}",
        (row.id, until),
    )
    return int(found[0][0]) if found else 0


def unlearned(store: Store, row: BanditRow, learned: int) -> int:
    """How many entries came after a place, but for those that the learner logs itself."""
    sql = "SELECT count(*) FROM entries WHERE bandit = ? AND place > ? AND kind NOT IN ('publish', 'close')"
    return int(store.rows(sql, (row.id, learned))[0][0])


def last_time(store: Store, row: BanditRow, kind: str) -> int | None:
    """When the newest entry of a kind was stored."""
    found: int | None = store.rows(
        "SELECT max(time) FROM entries WHERE bandit = ? AND kind = ?", (row.id, kind)
    )[0][0]
    return found


def versions(
    store: Store, row: BanditRow, limit: int = 100, *, times: Sequence[int] = ()
) -> list[tuple[int, bytes]]:
    """When models were published, newest first, and the bodies of these entries (`models.Published`).

    times: those that were published then are there, too.
    """
    where = "FROM entries WHERE bandit = ? AND kind = 'publish'"
    newest = store.rows(
        f"SELECT time, body {where} ORDER BY time DESC, place DESC LIMIT {int(limit)}", (row.id,)
    )
    if older := [each for each in times if newest and each < newest[-1][0]]:
        with store.session() as connection:
            sql = f"SELECT time, body {where} AND time IN ({{marks}})"
            newest += sorted(in_chunks(connection, sql, row.id, older), reverse=True)
    return [(each[0], bytes(each[1])) for each in newest]
