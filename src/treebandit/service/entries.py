"""What the log holds: entries to append, entries read back, and what an append answers."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import msgspec

Kind = Literal[
    "config", "event", "decision", "reward", "activation", "close", "publish", "upload", "rollback", "erasure"
]


class DecisionBody(msgspec.Struct, omit_defaults=True):
    """A decision as it is logged. `chosen` are places in `arms`, what was offered."""

    context: dict[str, Any]
    arms: list[str]
    chosen: list[int]
    probability: float
    probabilities: list[float] | None = None
    arm_contexts: list[dict[str, Any]] | None = None
    policy: str = "agent"
    mode: str = "online"
    excluded: list[str] = []
    baseline: str | None = None
    #: What the agent would have chosen where it did not decide.
    shadow: list[str] | None = None
    slot: str | None = None
    several: bool = False
    aggregation: str = "first"


class DecisionTerms(msgspec.Struct):
    """What a decision's rewards are judged by; the part of its body that is read for each of them."""

    chosen: list[int]
    aggregation: str = "first"

    def takes(self, value: float | list[float]) -> bool:
        """Whether a reward is one number, or one per chosen row."""
        return not isinstance(value, list) or len(value) == len(self.chosen)

    def total(self, value: float | list[float]) -> float:
        """What a decision has earned: one number is for each of the chosen rows."""
        return sum(value) if isinstance(value, list) else value * len(self.chosen)


class RewardBody(msgspec.Struct, omit_defaults=True):
    """A reward: one number, or one per chosen row."""

    value: float | list[float]


class NewDecision(NamedTuple):
    """A decision to append; `wait` in microseconds, None where it awaits its activation. chosen: how many arms."""

    id: str
    body: bytes
    arm: str
    probability: float
    version: int
    holdout: bool
    wait: int | None
    subject: str | None = None
    chosen: int = 1


class NewEvent(NamedTuple):
    """Stands before the decisions of its slots, so that its id is taken; `slots` are their names, in order."""

    id: str
    slots: list[str]
    subject: str | None = None


class NewReward(NamedTuple):
    """A reward to append.

    key: the caller's, or one made for it (`made`). only_first: whether the first reward counts; a decision that is
    known tells so itself. Under `first` a reward without a key of the caller's is the only one of its decision, and has
    an empty key in the log.
    """

    decision: str
    key: str
    value: float
    body: bytes
    only_first: bool
    made: bool = False


class NewActivation(NamedTuple):
    """The caller has used a deferred decision: its wait begins."""

    decision: str
    wait: int


class NewEntry(NamedTuple):
    """Any other entry."""

    kind: Kind
    body: bytes


New = NewEvent | NewDecision | NewReward | NewActivation | NewEntry


class Entry(NamedTuple):
    """An entry of the log."""

    place: int
    time: int
    kind: Kind
    decision: str | None
    reward_key: str | None
    due: int | None
    t: int | None
    version: int | None
    holdout: bool
    body: bytes


class Stored(NamedTuple):
    """What an append answers: where it stands, and whether it was there before.

    body: of the decision or event that was stored under this id first. status: of a reward or an activation; `event`
    for an event; `refused` where nothing was stored because one of the entries cannot be. says: why. unfit: rewards
    that came before their decision and do not fit it.
    """

    place: int
    time: int
    repeated: bool = False
    body: bytes = b""
    version: int = 0
    holdout: bool = False
    status: str = ""
    says: str = ""
    unfit: int = 0


_decode_decision = msgspec.json.Decoder(DecisionBody).decode
_decode_terms = msgspec.json.Decoder(DecisionTerms).decode
_decode_slots = msgspec.json.Decoder(list[str]).decode
_decode_reward = msgspec.json.Decoder(RewardBody).decode


def decision_body(body: bytes) -> DecisionBody:
    """A decision read back."""
    return _decode_decision(body)


def decision_terms(body: bytes) -> DecisionTerms:
    """What a decision's rewards are judged by."""
    return _decode_terms(body)


def slot_names(body: bytes) -> list[str]:
    """The slots of an event read back."""
    return _decode_slots(body)


def slot_id(event: str, slot: str) -> str:
    """What a slot's decision is called in the log; an event's id has no `#`."""
    return f"{event}#{slot}"


def event_of(decision: str) -> str:
    """The event of a slot's decision; of any other, its own id."""
    return decision.partition("#")[0]


def early_subject(event: str) -> str:
    """The subject of a slot's reward that came before its event, which finds it by the event; others are hashes."""
    return f"#{event}"


def reward_body(body: bytes) -> RewardBody:
    """A reward read back."""
    return _decode_reward(body)
