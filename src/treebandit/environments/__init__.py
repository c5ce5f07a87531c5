"""Who pays: tables, roads and synthetic problems as bandits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from treebandit.lazy import lazy_names

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

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
