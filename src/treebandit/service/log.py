"""Appending to the log: many requests in one transaction, each stored once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from treebandit.service.database import Connection, Row, StoreClock
from treebandit.service.entries import (
    DecisionTerms,
    New,
    NewActivation,
    NewDecision,
    NewEntry,
    NewEvent,
    NewReward,
    Stored,
    decision_terms,
    early_subject,
    reward_body,
    slot_names,
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
    "body FROM entries WHERE bandit = ? AND decision IN ({marks})"
)
#: Values in one `IN (...)`; SQLite takes 32,766.
_CHUNK = 512
#: Rewards of one decision, of which each new one looks at all.
_MOST_REWARDS = 10_000


class Group(NamedTuple):
    """Entries of one bandit that are stored together or not at all."""

    bandit: int
    entries: Sequence[New]


@dataclass(slots=True)
class _Known:
    """What the log holds about one decision id. rewards: places and bodies. decision: an answer, and when it is due."""

    rewards: dict[str, tuple[int, bytes]] = field(default_factory=dict)
    decision: tuple[Stored, int | None] | None = None
    event: Stored | None = None
    activation: int | None = None
    #: `terms` and `fitting`, read from bodies once.
    _terms: DecisionTerms | None = None
    _fitting: set[str] | None = None

    @property
    def stored(self) -> Stored | None:
        """The decision or event that has this id."""
        return self.event if self.decision is None else self.decision[0]

    @property
    def terms(self) -> DecisionTerms | None:
        """What rewards are judged by; None where the decision is not known, or is erased."""
        if self._terms is None and self.decision and self.decision[0].body:
            self._terms, self._fitting = decision_terms(self.decision[0].body), None
        return self._terms

    @property
    def fitting(self) -> set[str]:
        """The keys of rewards that count, or may yet."""
        terms = self.terms
        if self._fitting is None:
            self._fitting = {
                key
                for key, (_, body) in self.rewards.items()
                if terms is None or terms.takes(reward_body(body).value)
            }
        return self._fitting

    def add_reward(self, key: str, place: int, body: bytes) -> None:
        """One that was just stored: it fits."""
        self.fitting.add(key)
        self.rewards[key] = place, body

    def only_first(self, new: NewReward) -> bool:
        """Whether the first reward counts, as was set when the decision was made."""
        return new.only_first if self.terms is None else self.terms.aggregation == "first"

    def key_of(self, new: NewReward) -> str:
        """The key under which a reward is stored."""
        return "" if new.made and self.only_first(new) else new.key


class _Batch:
    """The entries of one transaction for one bandit, in their order."""

    def __init__(self, row: Row, time: int, known: dict[str, _Known]) -> None:
        self.bandit, self.place, self.decisions = row
        self.time = time
        self.known = known
        self.rows: list[Row] = []
        #: What rewards that came before their decision are worth: value, bandit, place.
        self.values: list[Row] = []

    def add_all(self, entries: Sequence[New]) -> list[Stored]:
        """Entries are stored together: where one is refused, or an event's id was there before, none is."""
        refusals = [self._refusal(entry) if isinstance(entry, NewReward) else "" for entry in entries]
        if any(refusals):
            return [Stored(0, self.time, status="refused" if why else "", says=why) for why in refusals]
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
        if known.stored is not None:
            return known.stored._replace(repeated=True)
        body = msgspec.json.encode(new.slots)
        self._store("event", (new.id, "", *_NO_COLUMNS[3:], new.subject), body)
        known.event = Stored(self.place, self.time, body=body, status="event")
        return known.event._replace(unfit=len(known.rewards))  # an event has none: its slots have

    def _decision(self, new: NewDecision) -> Stored:
        known = self._about(new.id)
        if known.stored is not None:
            return known.stored._replace(repeated=True)
        self.decisions += 1
        due = None if new.wait is None else self.time + new.wait
        chosen = (new.arm, new.probability, new.version, int(new.holdout), new.subject)
        # The value of a decision is what a reward of 1 for each of its arms comes to.
        self._store("decision", (new.id, "", due, self.decisions, float(new.chosen), *chosen), new.body)
        stored = Stored(self.place, self.time, False, new.body, new.version, new.holdout)
        known.decision = (stored, due)
        if known.rewards and (terms := known.terms) is not None:
            fitting = known.fitting
            for key, (place, body) in known.rewards.items():
                worth = terms.total(reward_body(body).value) if key in fitting else None
                self.values.append((worth, self.bandit, place))
            return stored._replace(unfit=len(known.rewards) - len(fitting))
        return stored

    def _refusal(self, new: NewReward) -> str:
        """Why a reward can never count, by the decision or the event that has its id; empty where it may."""
        event, slotted, slot = new.decision.partition("#")
        known = self._about(new.decision)
        if (terms := known.terms) is not None:
            value = reward_body(new.body).value
            if isinstance(value, list) and not terms.takes(value):
                counts = f"{len(value)} rewards for {len(terms.chosen)} chosen arms"
                return f"{counts}; send one number, or one per chosen arm"
            before = known.rewards.get(new.key)
            if before and not terms.takes(reward_body(before[1]).value):
                return f"the key {new.key!r} is that of a reward that does not fit this decision; send another key"
            return _too_many(known, new)
        if known.decision is not None:
            return ""
        whole = self._about(event)
        if whole.event is not None and whole.event.body:
            names = ", ".join(map(repr, slot_names(whole.event.body)[:20]))
            given = f"no slot {slot!r}" if slotted else "slots, and the reward names none"
            return f"the decision {event!r} has {given}; name the slot that earned it: {names}"
        if slotted and whole.terms is not None:
            return (
                f"the decision {event!r} has no slots, and the reward names {slot!r}; send it without a slot"
            )
        return _too_many(known, new)

    def _reward(self, new: NewReward) -> Stored:
        known = self._about(new.decision)
        whole = self._about(new.decision.partition("#")[0])
        if any(each is not None and not each.body for each in (known.stored, whole.stored)):
            return Stored(0, self.time, status="erased")
        terms, key = known.terms, known.key_of(new)
        if key in known.fitting:
            return Stored(known.rewards[key][0], self.time, True, status="repeated")
        key = new.key if key in known.rewards else key
        status = self._status(known, superseded=known.only_first(new) and bool(known.fitting))
        value = new.value if terms is None else terms.total(reward_body(new.body).value)
        event, slotted, _ = new.decision.partition("#")
        # Its slot may turn out not to exist: an erasure of the event finds it all the same.
        subject = early_subject(event) if slotted and status == "early" else None
        self._store("reward", (new.decision, key, None, None, value, *_NO_COLUMNS[6:], subject), new.body)
        known.add_reward(key, self.place, new.body)
        return Stored(self.place, self.time, status=status)

    def _status(self, known: _Known, *, superseded: bool) -> str:
        if known.decision is None:
            return "early"
        due = known.decision[1] if known.activation is None else known.activation
        if due is not None and self.time >= due:
            return "late"
        return "superseded" if superseded else "counted"

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


def _too_many(known: _Known, new: NewReward) -> str:
    """Why a reward is one too many; empty where it is not, or was here before."""
    if len(known.rewards) < _MOST_REWARDS or known.key_of(new) in known.rewards:
        return ""
    return (
        f"the decision {new.decision!r} has {len(known.rewards):,} rewards already; send at most {_MOST_REWARDS:,}, "
        "such as sums of several, and look whether its id is meant"
    )


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
            for worth in batch.values:
                connection.rows("UPDATE entries SET value = ? WHERE bandit = ? AND place = ?", worth)
            connection.rows(
                "UPDATE bandits SET place = ?, decisions = ?, time = ? WHERE id = ?",
                (batch.place, batch.decisions, batch.time, bandit),
            )
    return answers


def _about_decisions(connection: Connection, bandit: int, entries: Sequence[New]) -> dict[str, _Known]:
    ids = {each for entry in entries for each in _ids_of(entry)}
    known: dict[str, _Known] = {}
    for kind, decision, key, place, time, due, version, holdout, body in in_chunks(
        connection, _ABOUT, bandit, sorted(ids)
    ):
        about = known.get(decision)
        if about is None:
            about = known[decision] = _Known()
        if kind == "reward":
            about.rewards[key] = place, bytes(body)
        elif kind == "decision":
            about.decision = (Stored(place, time, False, bytes(body), version or 0, bool(holdout)), due)
        elif kind == "event":
            about.event = Stored(place, time, body=bytes(body), status="event")
        elif kind == "activation":
            about.activation = due
    return known


def _ids_of(entry: New) -> tuple[str, ...]:
    """What has to be known for an entry: of a slot's reward, its event too."""
    if isinstance(entry, NewDecision | NewEvent):
        return (entry.id,)
    if isinstance(entry, NewReward) and "#" in entry.decision:
        return (entry.decision, entry.decision.partition("#")[0])
    return () if isinstance(entry, NewEntry) else (entry.decision,)


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
