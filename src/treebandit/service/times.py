"""Times as the store keeps them (microseconds since 1970) and as people read them (ISO 8601, UTC)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from treebandit.errors import InputError

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def iso(microseconds: int) -> str:
    """2026-11-16T18:00:00.123456Z."""
    return (_EPOCH + timedelta(microseconds=microseconds)).isoformat(timespec="microseconds")[:26] + "Z"


def microseconds(text: str) -> int:
    """A time as somebody wrote it; without a zone it is UTC."""
    try:
        given = datetime.fromisoformat(text.strip())
        moment = given if given.tzinfo else given.replace(tzinfo=UTC)
        return (moment - _EPOCH) // timedelta(microseconds=1)
    except (ValueError, OverflowError) as error:
        raise InputError(f"the time {text[:40]!r}; write it as 2026-11-16T18:00:00Z") from error
