"""Durations as Personalizer's clients write them: ISO 8601 (PT10M), or hours, minutes and seconds (00:10:00)."""

from __future__ import annotations

import re
from typing import Any

from treebandit.errors import InputError

_ISO = re.compile(
    r"P(?:(?P<days>\d+(?:\.\d+)?)D)?(?:T(?:(?P<hours>\d+(?:\.\d+)?)H)?(?:(?P<minutes>\d+(?:\.\d+)?)M)?"
    r"(?:(?P<seconds>\d+(?:\.\d+)?)S)?)?"
)
_CLOCK = re.compile(r"(?:(?P<days>\d+)\.)?(?P<hours>\d+):(?P<minutes>\d+):(?P<seconds>\d+(?:\.\d+)?)")
_SECONDS = {"days": 86_400.0, "hours": 3_600.0, "minutes": 60.0, "seconds": 1.0}


def seconds(text: Any) -> float:
    """A duration in seconds."""
    readable = isinstance(text, str) and len(text) < 60
    match = (_ISO.fullmatch(text) or _CLOCK.fullmatch(text)) if readable else None
    parts = {name: value for name, value in match.groupdict().items() if value} if match else {}
    if not parts:
        raise InputError(f"the duration {str(text)[:60]!r}; write it as PT10M, or 00:10:00")
    return sum(_SECONDS[name] * float(value) for name, value in parts.items())


def duration(length: float) -> str:
    """Seconds as ISO 8601."""
    days, rest = divmod(length, 86_400.0)
    hours, rest = divmod(rest, 3_600.0)
    minutes, rest = divmod(rest, 60.0)
    clock = "".join(f"{n:g}{unit}" for n, unit in ((hours, "H"), (minutes, "M"), (rest, "S")) if n)
    parts = f"{days:g}D" * bool(days) + f"T{clock}" * bool(clock)
    return f"P{parts or 'T0S'}"
