"""Who decides. The export list is the registry of agents: studies and contract tests find them here by name."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from treebandit.agents.base import BaseAgent
    from treebandit.agents.linear import LinTS, LinUCB
    from treebandit.agents.simple import Uniform
    from treebandit.agents.tree_bootstrap import TreeBootstrap
    from treebandit.agents.tree_ensemble import TETS, TEUCB

_HOMES = {
    "BaseAgent": "base",
    "LinTS": "linear",
    "LinUCB": "linear",
    "TETS": "tree_ensemble",
    "TEUCB": "tree_ensemble",
    "TreeBootstrap": "tree_bootstrap",
    "Uniform": "simple",
}

__all__ = ["BaseAgent", "LinTS", "LinUCB", "TETS", "TEUCB", "TreeBootstrap", "Uniform"]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"treebandit.agents.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
