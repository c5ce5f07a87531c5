"""Appending to the log: many requests in one transaction, each stored once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
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
#: From `decision` to `subject`.
_NO_COLUMNS = (None,) * 10
_ABOUT = (
    "SELECT kind, decision, reward_key, place, time, due, version, holdout, "
    "CASE WHEN kind IN ('decision', 'event') THEN body END FROM entries WHERE bandit = ? AND decision IN ({marks})"
)
#: Values in one `IN (...)`; SQLite takes 32,766.
_CHUNK = 512


class Group(NamedTuple):
    """Entries of one bandit that are stored together or not at all."""

    bandit: int
    entries: Sequence[New]


@dataclass(slots=True)
class _Known:
    """What the log holds about one decision id. decision: an answer, and when its wait ends."""

    rewards: dict[str, int] = field(default_factory=dict)
    decision: tuple[Stored, int | None] | None = None
    event: Stored | None = None
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
        if isinstance(entry, NewReward):
            return self._reward(entry)
        if isinstance(entry, NewEvent):
            return self._event(entry)
        if isinstance(entry, NewActivation):
            return self._activation(entry)
        self._store(entry.kind, _NO_COLUMNS, entry.body)
        return Stored(self.place, self.time)

    def _store(self, kind: str, columns: Row, body: bytes) -> None:
        self.place += 1
        self.rows.append((self.bandit, self.place, self.time, kind, *columns, body))

    def _about(self, decision: str) -> _Known:
        found = self.known.get(decision)
        if found is None:
            found = self.known[decision] = _Known()
        return found

    def _event(self, new: NewEvent) -> Stored:
        known = self._about(new.id)
        if before := _stored_before(known):
            return before
        body = msgspec.json.encode(new.slots)
        self._store("event", (new.id, "", *_NO_COLUMNS[3:], new.subject), body)
        known.event = Stored(self.place, self.time, body=body, status="event")
        return known.event

    def _decision(self, new: NewDecision) -> Stored:
        known = self._about(new.id)
        if before := _stored_before(known):
            return before
        self.decisions += 1
        due = None if new.wait is None else self.time + new.wait
        chosen = (new.arm, new.probability, new.version, int(new.holdout), new.subject)
        self._store("decision", (new.id, "", due, self.decisions, None, *chosen), new.body)
        stored = Stored(self.place, self.time, False, new.body, new.version, new.holdout)
        known.decision = (stored, due)
        return stored

    def _reward(self, new: NewReward) -> Stored:
        known = self._about(new.decision)
        if known.decision is not None and not known.decision[0].body:
            return Stored(0, self.time, status="erased")
        if new.key in known.rewards:
            return Stored(known.rewards[new.key], self.time, True, status="repeated")
        status = self._status(known, new)
        self._store(
            "reward", (new.decision, new.key, None, None, new.value, None, None, None, None, None), new.body
        )
        known.rewards[new.key] = self.place
        return Stored(self.place, self.time, status=status)

    def _status(self, known: _Known, new: NewReward) -> str:
        if known.decision is None:
            return "early"
        due = known.decision[1] if known.activation is None else known.activation
        if due is not None and self.time >= due:
            return "late"
        return "superseded" if new.only_first and known.rewards else "counted"

    def _activation(self, new: NewActivation) -> Stored:
        known = self._about(new.decision)
        if known.decision is None:
            return Stored(0, self.time, status="unknown")
        decision, due = known.decision
        if due is not None or known.activation is not None:
            return Stored(decision.place, self.time, True, status="active")
        known.activation = self.time + new.wait
        self._store("activation", (new.decision, "", known.activation, *_NO_COLUMNS[3:]), b"")
        return Stored(self.place, self.time, status="active")


def _stored_before(known: _Known) -> Stored | None:
    """The decision or event that has this id already."""
    found = known.event if known.decision is None else known.decision[0]
    return None if found is None else found._replace(repeated=True)


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
    for kind, decision, key, place, time, due, version, holdout, body in in_chunks(
        connection, _ABOUT, bandit, sorted(filter(None, ids))
    ):
        about = known.get(decision)
        if about is None:
            about = known[decision] = _Known()
        if kind == "reward":
            about.rewards[key] = place
        elif kind == "decision":
            about.decision = (Stored(place, time, False, bytes(body), version or 0, bool(holdout)), due)
        elif kind == "event":
            about.event = Stored(place, time, body=bytes(body), status="event")
        elif kind == "activation":
            about.activation = due
    return known


def _id_of(entry: New) -> str | None:
    if isinstance(entry, NewDecision | NewEvent):
        return entry.id
    return None if isinstance(entry, NewEntry) else entry.decision


def in_chunks(connection: Connection, sql: str, bandit: int, values: Sequence[Any]) -> list[Row]:
    """The rows of a query with `IN ({marks})`, however many values there are.

    There are as many marks as the next power of two, the last value again and again: few statements, which the driver
    has prepared before.
    """
    found: list[Row] = []
    for start in range(0, len(values), _CHUNK):
        part = list(values[start : start + _CHUNK])
        size = 1 << (len(part) - 1).bit_length()
        part += part[-1:] * (size - len(part))
        found += connection.rows(sql.format(marks=", ".join("?" * size)), (bandit, *part))
    return found
