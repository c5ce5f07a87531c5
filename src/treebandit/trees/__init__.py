"""Tree ensembles, seen as leaves. The export list is the registry of tree learners."""

from __future__ import annotations

from typing import TYPE_CHECKING

from treebandit.lazy import lazy_names

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

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
