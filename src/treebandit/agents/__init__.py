"""Who decides. The export list is the registry of agents: studies and contract tests find them here by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from treebandit.lazy import lazy_names

if TYPE_CHECKING:
    from treebandit.agents.bandit_forest import BanditForest
    from treebandit.agents.base import BaseAgent
    from treebandit.agents.default import Bandit
    from treebandit.agents.linear import LinTS, LinUCB
    from treebandit.agents.neural import NeuralTS, NeuralUCB
    from treebandit.agents.simple import UCB1, EpsilonGreedy, UCB1Normal, UCB1Tuned, Uniform
    from treebandit.agents.tree_bootstrap import TreeBootstrap
    from treebandit.agents.tree_ensemble import TETS, TEUCB

_HOMES = {
    "Bandit": "default",
    "BanditForest": "bandit_forest",
    "BaseAgent": "base",
    "EpsilonGreedy": "simple",
    "LinTS": "linear",
    "LinUCB": "linear",
    "NeuralTS": "neural",
    "NeuralUCB": "neural",
    "TETS": "tree_ensemble",
    "TEUCB": "tree_ensemble",
    "TreeBootstrap": "tree_bootstrap",
    "UCB1": "simple",
    "UCB1Normal": "simple",
    "UCB1Tuned": "simple",
    "Uniform": "simple",
}

__all__ = [
    "Bandit",
    "BanditForest",
    "BaseAgent",
    "EpsilonGreedy",
    "LinTS",
    "LinUCB",
    "NeuralTS",
    "NeuralUCB",
    "TETS",
    "TEUCB",
    "TreeBootstrap",
    "UCB1",
    "UCB1Normal",
    "UCB1Tuned",
    "Uniform",
]

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
