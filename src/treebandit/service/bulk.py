"""Bodies of many decisions or many rewards, taken apart before anything is made of their parts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET, Raw, UnsetType

from treebandit.service.bodies import DecisionRequest
from treebandit.service.exchange import decoded
from treebandit.service.refusals import Refused

#: Lines of one body of rewards.
_MOST_LINES = 1_000_000
#: Lines, and bytes, after which others have their turn.
_LINES_AT_ONCE, _BYTES_AT_ONCE = 500, 1 << 18

#: How many decisions of the body that is being read may yet come.
_left: ContextVar[int] = ContextVar("left")


class _TooManyError(Exception):
    """A batch is longer than it may be."""


class _Counted(msgspec.Struct):
    """A decision of a batch whose parts are not read yet; one too many ends the reading of its batch."""

    def __post_init__(self) -> None:
        if not (left := _left.get()):
            raise _TooManyError
        _left.set(left - 1)


_Parts: Any = msgspec.defstruct(
    "_Parts",
    [(each.name, Raw | UnsetType, UNSET) for each in msgspec.structs.fields(DecisionRequest)],
    bases=(_Counted,),
    forbid_unknown_fields=True,
)
_Batch: Any = msgspec.defstruct("_Batch", [("decisions", list[_Parts])], forbid_unknown_fields=True)


class Line(NamedTuple):
    """A line of a body and its number, from 1."""

    number: int
    data: bytes


def decisions_of(data: bytes, *, most: int, longest: int) -> list[bytes]:
    """Each decision of a batch as JSON, all of them good by themselves; `longest` of its bytes.

    Their values become objects one decision at a time: objects take up to thirty times the bytes of their JSON.
    """
    _left.set(most)
    try:
        parts = decoded(data, _Batch).decisions
    except _TooManyError:
        raise Refused(400, "TooMany", f"more than {most} decisions; send at most {most} at once") from None
    if not parts:
        raise Refused(400, "InvalidRequest", "there are no decisions; send at least one")
    found = [msgspec.json.encode(each) for each in parts]
    for place, each in enumerate(found):
        if len(each) > longest:
            raise Refused(
                413, "TooLarge", f"decisions[{place}] is longer than {longest:,} bytes; send less in it"
            )
        try:
            decoded(each, DecisionRequest)
        except Refused as refused:
            said = refused.message.replace("`$", f"`$.decisions[{place}]")
            raise Refused(refused.status, refused.code, said) from refused
    return found


def lines_of(data: bytes) -> Iterator[Sequence[Line]]:
    """The lines that are not empty, a few at a time."""
    if (count := data.count(b"\n")) > _MOST_LINES:
        raise Refused(413, "TooLarge", f"{count:,} lines; send at most {_MOST_LINES:,} at once")
    part: list[Line] = []
    size = start = 0
    for number in range(1, count + 2):
        end = data.find(b"\n", start)
        line = data[start:] if end < 0 else data[start:end]
        start = end + 1
        if line.strip():
            part.append(Line(number, line))
            size += len(line)
        if number % _LINES_AT_ONCE == 0 or size >= _BYTES_AT_ONCE:
            yield part
            part, size = [], 0
    yield part
