"""A bandit's settings in Personalizer's words, and back."""

from __future__ import annotations

from typing import Any

from treebandit.errors import InputError
from treebandit.service.config import BanditConfig
from treebandit.service.durations import duration, seconds
from treebandit.service.times import iso

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


def patched(given: dict[str, Any]) -> dict[str, Any]:
    """What a service configuration changes in the settings."""
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
    patch: dict[str, Any] = {
        ours: read(given[name]) for name, (ours, read) in known.items() if given.get(name) is not None
    }
    patch["personalizer"] = {name: given[name] for name in kept if given.get(name) is not None}
    return patch


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > _LARGEST:
        raise InputError(f"{str(value)[:40]!r} in the configuration; give a number within ±{_LARGEST:g}")
    return float(value)


def _named(value: Any, names: dict[str, str], what: str) -> str:
    for name, ours in names.items():
        if str(value).casefold() == name.casefold():
            return ours
    raise InputError(f"{what} is {str(value)[:40]!r}; choose from {', '.join(names)}")
