"""A bandit's settings in Personalizer's words, and back."""

from __future__ import annotations

import re
from typing import Any

from treebandit.errors import InputError
from treebandit.service.config import BanditConfig
from treebandit.service.times import iso

#: Durations as its clients write them: ISO 8601 (PT10M), or hours, minutes and seconds (00:10:00).
_ISO = re.compile(
    r"P(?:(?P<days>\d+(?:\.\d+)?)D)?(?:T(?:(?P<hours>\d+(?:\.\d+)?)H)?(?:(?P<minutes>\d+(?:\.\d+)?)M)?"
    r"(?:(?P<seconds>\d+(?:\.\d+)?)S)?)?"
)
_CLOCK = re.compile(r"(?:(?P<days>\d+)\.)?(?P<hours>\d+):(?P<minutes>\d+):(?P<seconds>\d+(?:\.\d+)?)")
_SECONDS = {"days": 86_400.0, "hours": 3_600.0, "minutes": 60.0, "seconds": 1.0}
_AGGREGATIONS = {"earliest": "first", "sum": "sum", "latest": "last", "mean": "mean"}
_LARGEST = 1e30
_MODES = {"Online": "online", "Apprentice": "apprentice", "LoggingOnly": "log-only"}


def shown(config: BanditConfig, edited: int) -> dict[str, Any]:
    """Settings as Personalizer's service configuration; `edited` is when they were changed last."""
    names = {ours: theirs for theirs, ours in _AGGREGATIONS.items()}
    modes = {ours: theirs for theirs, ours in _MODES.items()}
    return {
        "modelExportFrequency": "PT1S",
        "modelRetrainDays": 0,
        "isAutoOptimizationEnabled": False,
        "logMirrorEnabled": False,  # its address holds a secret, which is not kept
        **config.personalizer,
        "rewardWaitTime": duration(config.wait),
        "defaultReward": config.reward_default or 0.0,
        "rewardAggregation": names[config.aggregation],
        "explorationPercentage": config.floor,
        "logRetentionDays": -1 if config.retention is None else round(config.retention),
        "learningMode": modes[config.mode],
        "lastConfigurationEditDate": iso(edited),
    }


def patched(given: dict[str, Any], before: BanditConfig) -> dict[str, Any]:
    """What a service configuration changes in the settings.

    Its words are coarser than the settings (no default reward is 0, a retention is whole days): what comes back as it
    was shown leaves the setting as it is.
    """
    known = {
        "rewardWaitTime": ("wait", seconds),
        "defaultReward": ("reward_default", _number),
        "rewardAggregation": ("aggregation", lambda value: _named(value, _AGGREGATIONS, "rewardAggregation")),
        "explorationPercentage": ("floor", _number),
        "logRetentionDays": ("retention", lambda value: None if _number(value) < 0 else _number(value)),
        "learningMode": ("mode", lambda value: _named(value, _MODES, "learningMode")),
    }
    kept = (
        "modelExportFrequency",
        "modelRetrainDays",
        "isAutoOptimizationEnabled",
        "autoOptimizationFrequency",
        "autoOptimizationStartDate",
    )
    was = shown(before, 0)
    patch: dict[str, Any] = {
        ours: value
        for name, (ours, read) in known.items()
        if given.get(name) is not None and (value := read(given[name])) != read(was[name])
    }
    own = {name: given[name] for name in kept if given.get(name) is not None and given[name] != was.get(name)}
    return {**patch, "personalizer": {**before.personalizer, **own}}


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > _LARGEST:
        raise InputError(f"{str(value)[:40]!r} in the configuration; give a number within ±{_LARGEST:g}")
    return float(value)


def _named(value: Any, names: dict[str, str], what: str) -> str:
    for name, ours in names.items():
        if str(value).casefold() == name.casefold():
            return ours
    raise InputError(f"{what} is {str(value)[:40]!r}; choose from {', '.join(names)}")


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
