"""Requests and answers of the API; the OpenAPI document is made from them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from treebandit.errors import InputError

#: The end of a text in patterns of Python, where `$` is also before a newline at the end, and in those of JSON Schema.
END = "$(?!\\n)"
#: No control characters.
TEXT_PATTERN = f"^[^\\x00-\\x1f\\x7f]+{END}"
#: `#` separates an event from its slot in the log; `.` and `..` cannot stand in a path: clients and proxies take them
#: for folders.
ID_PATTERN = f"^(?!\\.{{1,2}}$)[^\\x00-\\x1f\\x7f#]+{END}"
DecisionId = Annotated[
    str,
    Meta(
        min_length=1, max_length=256, pattern=ID_PATTERN, description="of a decision; no `#`, not `.` or `..`"
    ),
]
ArmName = Annotated[str, Meta(min_length=1, max_length=512, pattern=TEXT_PATTERN)]
Key = Annotated[str, Meta(min_length=1, max_length=256, pattern=TEXT_PATTERN)]
SlotId = Annotated[str, Meta(min_length=1, max_length=256, pattern=TEXT_PATTERN)]
#: What may be in a log; that of older versions may have a newline at the end.
StoredId = Annotated[str, Meta(min_length=1, max_length=256, pattern=f"^[^\\x00-\\x1f\\x7f#]+\\n?{END}")]
StoredKey = Annotated[str, Meta(min_length=1, max_length=256, pattern=f"^[^\\x00-\\x1f\\x7f]+\\n?{END}")]
Features = dict[str, Any]

#: UTF-8 bytes of an id, of a slot's id and of a key: together they are in one row of an index, which PostgreSQL gives
#: 2,704 bytes. Enough for 256 characters of every living script.
_MOST_BYTES = 768


def check_bytes(what: str, given: str | None) -> None:
    """Refuse a name that is too long for the store's indexes; JSON Schema counts characters only."""
    size = 0 if given is None else len(given.encode())
    if size > _MOST_BYTES:
        raise InputError(f"the {what} has {size:,} bytes in UTF-8; send at most {_MOST_BYTES}")


class Arm(msgspec.Struct, forbid_unknown_fields=True):
    """An arm with features of its own."""

    name: ArmName
    features: Features = {}


class Slot(msgspec.Struct, forbid_unknown_fields=True):
    """A place on a page that gets one arm; no arm is in two of them."""

    id: SlotId
    features: Features = {}
    excluded: list[ArmName] = []
    baseline: ArmName | None = None

    def __post_init__(self) -> None:
        check_bytes("slot", self.id)


class DecisionRequest(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """What to decide.

    context: features that all arms share; nested objects and lists are allowed. arms: names, or objects with features,
    which hide those of the context that have the same name. choose: how many. slots: instead, one arm for each.
    excluded: arms that may not be chosen. baseline: what the caller would choose; the first arm where left out; slots
    have their own. baseline_probability: with which the caller drew it, where one arm is chosen; logged wherever the
    baseline is answered. id: made where left out; the same id again has the same answer. subject: whose decision it is,
    to erase it by; only its hash is stored. deferred: it counts only once it is activated.
    """

    arms: Annotated[list[ArmName | Arm], Meta(min_length=1)]
    context: Features = {}
    choose: Annotated[int, Meta(ge=1)] = 1
    slots: Annotated[list[Slot], Meta(min_length=1)] | None = None
    excluded: list[ArmName] = []
    baseline: ArmName | None = None
    baseline_probability: Annotated[float, Meta(gt=0.0, le=1.0)] | None = None
    id: DecisionId | None = None
    subject: Key | None = None
    deferred: bool = False

    def __post_init__(self) -> None:
        check_bytes("id", self.id)


class BatchRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Several decisions; each is answered as if it had come alone."""

    decisions: Annotated[list[DecisionRequest], Meta(min_length=1)]


class SlotAnswer(msgspec.Struct):
    """What was chosen for one slot, and with which probability, given the slots before it."""

    slot: str
    arm: str
    probability: float
    probabilities: dict[str, float]


class DecisionAnswer(msgspec.Struct, kw_only=True):
    """A decision.

    arm, arms: what was chosen. probability: of this choice. probabilities: of each arm that was offered. version: of
    the model; 0 before the first. holdout: made by the holdout policy. repeated: this id was decided before.
    rewards_refused: so many rewards came before this decision and do not fit it: lists of another length than the
    chosen arms, or none of its slots named. They do not count; there only where there are any.
    """

    id: str
    arm: str | UnsetType = UNSET
    arms: list[str] | UnsetType = UNSET
    probability: float | UnsetType = UNSET
    probabilities: dict[str, float] | UnsetType = UNSET
    slots: list[SlotAnswer] | UnsetType = UNSET
    version: Annotated[int, Meta(ge=0)] = 0
    holdout: bool = False
    repeated: bool = False
    time: str = ""
    rewards_refused: int | UnsetType = UNSET


class Problem(msgspec.Struct):
    """What is wrong, and what to do."""

    code: str
    message: str


class ErrorAnswer(msgspec.Struct, omit_defaults=True):
    """The body of every answer that is not a success."""

    error: Problem
    request_id: str = ""


class BatchItem(msgspec.Struct, omit_defaults=True):
    """A decision, or why it could not be made."""

    decision: DecisionAnswer | None = None
    error: Problem | None = None


class BatchAnswer(msgspec.Struct):
    """The answers in the order of the requests."""

    decisions: list[BatchItem]


class RewardRequest(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """What a decision earned.

    value: a number; or one per chosen arm. slot: which slot earned it. key: the same key again counts once.
    """

    value: float | list[float]
    slot: SlotId | None = None
    key: Key | None = None

    def __post_init__(self) -> None:
        check_bytes("slot", self.slot)
        check_bytes("key", self.key)


class RewardAnswer(msgspec.Struct):
    """What became of a reward. One that does not fit its decision is a 400.

    counted: it counts. repeated: it was here before, and counts once. superseded: another was first. early: its
    decision is not known yet; it counts where that comes. late: it came after the wait; it is logged, not learned.
    erased: its decision was erased; it is not stored.
    """

    id: str
    status: Literal["counted", "repeated", "superseded", "early", "late", "erased"]


class RewardLine(RewardRequest, forbid_unknown_fields=True, kw_only=True):
    """One line of a bulk of rewards."""

    id: DecisionId


class RewardsAnswer(msgspec.Struct, omit_defaults=True):
    """How many rewards had each status; lines that could not be read, by their number."""

    received: int
    statuses: dict[str, int]
    errors: dict[str, str] = {}


class ActivationAnswer(msgspec.Struct):
    """A deferred decision that counts now."""

    id: str
    status: Literal["active"]
    repeated: bool


class BanditAnswer(msgspec.Struct):
    """A bandit and how far it is. place: entries of its log."""

    name: str
    settings: dict[str, Any]
    created: str
    decisions: int
    place: int
    version: int


class BanditsAnswer(msgspec.Struct):
    """All bandits."""

    bandits: list[BanditAnswer]


class VersionAnswer(msgspec.Struct, omit_defaults=True):
    """A version of the model, made of the log up to `learned`.

    rows: learned. skipped: rewards until then that the model could not learn, such as those of a feature whose type had
    changed between the decision and its reward.
    """

    version: int
    learned: int
    t: int
    rows: int
    time: str
    rebuilds: int = 0
    rebuild_seconds: float = 0.0
    bytes: int = 0
    kept: bool = False
    skipped: int = 0


class VersionsAnswer(msgspec.Struct):
    """The newest versions first."""

    version: int
    versions: list[VersionAnswer]


class RollbackRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Which version to go back to."""

    version: Annotated[int, Meta(ge=1)]


class PlaceAnswer(msgspec.Struct):
    """Where in the log it stands; the learner acts on it when it gets there."""

    place: int


class ErasureRequest(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Which decisions to erase: by their ids, or all of a subject. uploads: uploaded models, too."""

    ids: list[StoredId] = []
    subject: StoredKey | None = None
    uploads: bool = False


class ErasureAnswer(msgspec.Struct, omit_defaults=True):
    """How many decisions were erased. uploads: models that were uploaded, and may hold them; these are as they were."""

    erased: int
    uploads: int = 0


class HealthAnswer(msgspec.Struct, omit_defaults=True):
    """Whether it is ready; what is missing where it is not. warnings: what else is wrong.

    Both are for a key with the role `read`; others see the status only.
    """

    status: Literal["ok", "not ready"]
    missing: dict[str, str] = {}
    warnings: dict[str, str] = {}
