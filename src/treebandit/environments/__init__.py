"""Who pays: tables, roads and synthetic problems as bandits."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from treebandit.environments.classification import Classification
    from treebandit.environments.delayed import Delayed
    from treebandit.environments.navigation import Navigation
    from treebandit.environments.synthetic import DescribedArms, Synthetic

_HOMES = {
    "Classification": "classification",
    "Delayed": "delayed",
    "DescribedArms": "synthetic",
    "Navigation": "navigation",
    "Synthetic": "synthetic",
}

__all__ = [
    "Classification",
    "Delayed",
    "DescribedArms",
    "Navigation",
    "Synthetic",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"treebandit.environments.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
