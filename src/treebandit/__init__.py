"""Contextual bandits with tree ensembles: one ensemble scores all options, its leaves tell how sure it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from treebandit.lazy import lazy_names

if TYPE_CHECKING:
    from treebandit.agents import (
        TETS,
        TEUCB,
        UCB1,
        Bandit,
        BanditForest,
        BaseAgent,
        EpsilonGreedy,
        LinTS,
        LinUCB,
        NeuralTS,
        NeuralUCB,
        TreeBootstrap,
        UCB1Normal,
        UCB1Tuned,
        Uniform,
    )
    from treebandit.checks import check_agent, check_environment, check_tree_learner
    from treebandit.core import (
        Agent,
        Candidates,
        Columns,
        Environment,
        Estimate,
        Feedback,
        Oracle,
        Outcome,
        Round,
        play_round,
    )
    from treebandit.oracles import Assignment, ShortestPath, TopK, best_arm
    from treebandit.trees import (
        DecisionTreeTrees,
        ExtraTrees,
        Forest,
        HistogramBoosting,
        HistogramForest,
        LeafStatistics,
        LightGBMTrees,
        RandomForestTrees,
        TreeEnsembleRegressor,
        TreeLearner,
        XGBoostTrees,
    )

__version__ = "0.1.0"

_HOMES = {
    "agents": (
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
    ),
    "core": (
        "Agent",
        "Candidates",
        "Columns",
        "Environment",
        "Estimate",
        "Feedback",
        "Oracle",
        "Outcome",
        "Round",
        "play_round",
    ),
    "checks": ("check_agent", "check_environment", "check_tree_learner"),
    "oracles": ("Assignment", "ShortestPath", "TopK", "best_arm"),
    "trees": (
        "DecisionTreeTrees",
        "ExtraTrees",
        "Forest",
        "HistogramBoosting",
        "HistogramForest",
        "LeafStatistics",
        "LightGBMTrees",
        "RandomForestTrees",
        "TreeEnsembleRegressor",
        "TreeLearner",
        "XGBoostTrees",
    ),
}
_ROOM_OF = {name: room for room, names in _HOMES.items() for name in names}

__all__ = [
    "Agent",
    "Assignment",
    "Bandit",
    "BanditForest",
    "BaseAgent",
    "Candidates",
    "Columns",
    "DecisionTreeTrees",
    "Environment",
    "EpsilonGreedy",
    "Estimate",
    "ExtraTrees",
    "Feedback",
    "Forest",
    "HistogramBoosting",
    "HistogramForest",
    "LeafStatistics",
    "LightGBMTrees",
    "LinTS",
    "LinUCB",
    "NeuralTS",
    "NeuralUCB",
    "Oracle",
    "Outcome",
    "RandomForestTrees",
    "Round",
    "ShortestPath",
    "TETS",
    "TEUCB",
    "TopK",
    "TreeBootstrap",
    "TreeEnsembleRegressor",
    "TreeLearner",
    "UCB1",
    "UCB1Normal",
    "UCB1Tuned",
    "Uniform",
    "XGBoostTrees",
    "best_arm",
    "check_agent",
    "check_environment",
    "check_tree_learner",
    "play_round",
]

__getattr__, __dir__ = lazy_names(__name__, _ROOM_OF)
