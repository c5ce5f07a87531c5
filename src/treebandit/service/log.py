"""Appending to the log: many requests in one transaction, each stored once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from treebandit.service.database import Connection, Row, StoreClock
from treebandit.service.entries import (
    New,
    NewActivation,
    NewDecision,
    NewEntry,
    NewEvent,
    NewReward,
    Stored,
)

_COLUMNS = (
    "bandit, place, time, kind, decision, reward_key, due, t, value, arm, probability, version, holdout, "
    "subject, body"
)
_INSERT = f"INSERT INTO entries ({_COLUMNS}) VALUES ({', '.join('?' * 15)})"
#: Values in one `IN (...)`; SQLite takes 32,766.
_CHUNK = 500


class Group(NamedTuple):
    """Entries of one bandit that are stored together or not at all."""

    bandit: int
    entries: Sequence[New]


class _Known(NamedTuple):
    """What the log holds about one decision id."""

    rewards: dict[str, int]
    decision: Row | None = None
    event: Row | None = None
    activation: int | None = None


class _Batch:
    """The entries of one transaction for one bandit, in their order."""

    def __init__(self, row: Row, time: int, known: dict[str, _Known]) -> None:
        self.bandit, self.place, self.decisions = row
        self.time = time
        self.known = known
        self.rows: list[Row] = []

    def add_all(self, entries: Sequence[New]) -> list[Stored]:
        """An event and its slots are stored together: where the id was there before, nothing is."""
        answers = [self.add(entry) for entry in entries[:1]]
        if answers and answers[0].repeated and isinstance(entries[0], NewEvent):
            return answers
        return answers + [self.add(entry) for entry in entries[1:]]

    def add(self, entry: New) -> Stored:
        if isinstance(entry, NewDecision):
            return self._decision(entry)
        if isinstance(entry, NewEvent):
            return self._event(entry)
        if isinstance(entry, NewReward):
            return self._reward(entry)
        if isinstance(entry, NewActivation):
            return self._activation(entry)
        return self._store(entry.kind, body=entry.body)

    def _store(self, kind: str, *, body: bytes = b"", **columns: Any) -> Stored:
        self.place += 1
        names = (
            "decision",
            "reward_key",
            "due",
            "t",
            "value",
            "arm",
            "probability",
            "version",
            "holdout",
            "subject",
        )
        self.rows.append(
            (self.bandit, self.place, self.time, kind, *(columns.get(name) for name in names), body)
        )
        return Stored(self.place, self.time)

    def _about(self, decision: str) -> _Known:
        return self.known.setdefault(decision, _Known({}))

    def _stored_before(self, decision: str) -> Stored | None:
        """The decision or event that has this id already."""
        known = self._about(decision)
        if known.decision is not None:
            place, time, _, body, version, holdout = known.decision
            return Stored(place, time, True, bytes(body), version or 0, bool(holdout))
        if known.event is not None:
            place, time, body = known.event
            return Stored(place, time, True, bytes(body), status="event")
        return None

    def _event(self, new: NewEvent) -> Stored:
        if before := self._stored_before(new.id):
            return before
        body = msgspec.json.encode(new.slots)
        stored = self._store("event", decision=new.id, reward_key="", subject=new.subject, body=body)
        self.known[new.id] = self._about(new.id)._replace(event=(stored.place, stored.time, body))
        return stored._replace(body=body, status="event")

    def _decision(self, new: NewDecision) -> Stored:
        if before := self._stored_before(new.id):
            return before
        self.decisions += 1
        due = None if new.wait is None else self.time + new.wait
        stored = self._store(
            "decision",
            decision=new.id,
            reward_key="",
            due=due,
            t=self.decisions,
            arm=new.arm,
            probability=new.probability,
            version=new.version,
            holdout=int(new.holdout),
            subject=new.subject,
            body=new.body,
        )
        kept = (stored.place, stored.time, due, new.body, new.version, new.holdout)
        self.known[new.id] = self._about(new.id)._replace(decision=kept)
        return stored._replace(body=new.body, version=new.version, holdout=new.holdout)

    def _reward(self, new: NewReward) -> Stored:
        known = self._about(new.decision)
        if known.decision is not None and not known.decision[3]:
            return Stored(0, self.time, status="erased")
        if new.key in known.rewards:
            return Stored(known.rewards[new.key], self.time, True, status="repeated")
        stored = self._store(
            "reward", decision=new.decision, reward_key=new.key, value=new.value, body=new.body
        )
        status = self._status(known, new)
        known.rewards[new.key] = stored.place
        return stored._replace(status=status)

    def _status(self, known: _Known, new: NewReward) -> str:
        if known.decision is None:
            return "early"
        due = known.decision[2] if known.activation is None else known.activation
        if due is not None and self.time >= due:
            return "late"
        return "superseded" if new.only_first and known.rewards else "counted"

    def _activation(self, new: NewActivation) -> Stored:
        known = self._about(new.decision)
        if known.decision is None:
            return Stored(0, self.time, status="unknown")
        if known.decision[2] is not None or known.activation is not None:
            return Stored(known.decision[0], self.time, True, status="active")
        due = self.time + new.wait
        stored = self._store("activation", decision=new.decision, reward_key="", due=due)
        self.known[new.decision] = known._replace(activation=due)
        return stored._replace(status="active")


def append(
    connection: Connection, groups: Sequence[Group], clock: StoreClock, for_update: str
) -> list[list[Stored]]:
    """Store all groups in the transaction that is open; what became of each entry.

    The rows of the bandits are locked in the order of their numbers, until the transaction ends: so the places of a
    bandit have no gaps, and nobody sees a later one before an earlier one.
    """
    wall = connection.wall()
    by_bandit: dict[int, list[int]] = defaultdict(list)
    for number, group in enumerate(groups):
        by_bandit[group.bandit].append(number)
    answers: list[list[Stored]] = [[] for _ in groups]
    for bandit in sorted(by_bandit):
        found = connection.rows(
            f"SELECT id, place, decisions, time FROM bandits WHERE id = ? AND deleted IS NULL {for_update}",
            (bandit,),
        )
        if not found:  # deleted since; others in this transaction must not suffer
            for number in by_bandit[bandit]:
                answers[number] = [Stored(0, 0, status="deleted")] * len(groups[number].entries)
            continue
        *row, last = found[0]
        entries = [entry for number in by_bandit[bandit] for entry in groups[number].entries]
        batch = _Batch(tuple(row), clock.now(wall, last), _about_decisions(connection, bandit, entries))
        for number in by_bandit[bandit]:
            answers[number] = batch.add_all(groups[number].entries)
        if batch.rows:
            connection.many(_INSERT, batch.rows)
            connection.rows(
                "UPDATE bandits SET place = ?, decisions = ?, time = ? WHERE id = ?",
                (batch.place, batch.decisions, batch.time, bandit),
            )
    return answers


def _about_decisions(connection: Connection, bandit: int, entries: Sequence[New]) -> dict[str, _Known]:
    ids = {_id_of(entry) for entry in entries} - {None}
    known: dict[str, _Known] = {}
    for rows in in_chunks(
        connection,
        "SELECT kind, decision, reward_key, place, time, due, version, holdout, "
        "CASE WHEN kind IN ('decision', 'event') THEN body END FROM entries WHERE bandit = ? AND decision IN ({marks})",
        bandit,
        sorted(filter(None, ids)),
    ):
        kind, decision, key, place, time, due, version, holdout, body = rows
        about = known.setdefault(decision, _Known({}))
        if kind == "decision":
            known[decision] = about._replace(decision=(place, time, due, body, version, holdout))
        elif kind == "event":
            known[decision] = about._replace(event=(place, time, body))
        elif kind == "activation":
            known[decision] = about._replace(activation=due)
        else:
            about.rewards[key] = place
    return known


def _id_of(entry: New) -> str | None:
    if isinstance(entry, NewDecision | NewEvent):
        return entry.id
    return None if isinstance(entry, NewEntry) else entry.decision


def in_chunks(connection: Connection, sql: str, bandit: int, values: Sequence[Any]) -> list[Row]:
    """The rows of a query with `IN ({marks})`, however many values there are."""
    found: list[Row] = []
    for start in range(0, len(values), _CHUNK):
        part = values[start : start + _CHUNK]
        found += connection.rows(sql.format(marks=", ".join("?" * len(part))), (bandit, *part))
    return found
