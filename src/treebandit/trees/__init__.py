"""Tree ensembles, seen as leaves. The export list is the registry of tree learners."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from treebandit.trees.forest import Forest, TreeLearner
    from treebandit.trees.histogram_forest import HistogramBoosting, HistogramForest
    from treebandit.trees.leaf_statistics import LeafStatistics
    from treebandit.trees.lightgbm_trees import LightGBMTrees
    from treebandit.trees.regressor import TreeEnsembleRegressor
    from treebandit.trees.sklearn_trees import DecisionTreeTrees, ExtraTrees, RandomForestTrees
    from treebandit.trees.xgboost_trees import XGBoostTrees

_HOMES = {
    "DecisionTreeTrees": "sklearn_trees",
    "ExtraTrees": "sklearn_trees",
    "Forest": "forest",
    "HistogramBoosting": "histogram_forest",
    "HistogramForest": "histogram_forest",
    "LeafStatistics": "leaf_statistics",
    "LightGBMTrees": "lightgbm_trees",
    "RandomForestTrees": "sklearn_trees",
    "TreeEnsembleRegressor": "regressor",
    "TreeLearner": "forest",
    "XGBoostTrees": "xgboost_trees",
}

__all__ = [
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
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"treebandit.trees.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
