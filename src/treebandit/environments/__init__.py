"""Who pays: tables, roads and synthetic problems as bandits."""

from importlib import import_module
from typing import Any

_HOMES = {
    "Classification": "classification",
    "Delayed": "delayed",
    "DescribedArms": "synthetic",
    "Synthetic": "synthetic",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
