"""Random forests and extra trees of scikit-learn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from treebandit.bandit import Features, Floats
from treebandit.trees.forest import Forest, less_or_equal
from treebandit.trees.limits import check_limits


@dataclass(frozen=True)
class _AveragedTrees:
    """What scikit-learn's two averaging ensembles share.

    max_depth: None for no limit. max_features: share (float) or number (int) of the columns tried at each split.
    """

    n_trees: int = 100
    max_depth: int | None = 10
    min_samples_leaf: int = 2
    max_features: float | int = 1.0
    bootstrap: bool = True
    threads: int = 1

    def __post_init__(self) -> None:
        check_limits(self)

    def fit(self, features: Features, targets: Floats, *, seed: int) -> Forest:
        """Grow `n_trees` trees on (n, d) features and (n,) targets."""
        ensemble = self._ensemble()(
            n_estimators=self.n_trees,
            max_depth=self.max_depth,
            min_samples_leaf=self.min_samples_leaf,
            max_features=self.max_features,
            bootstrap=self.bootstrap,
            n_jobs=self.threads,
            random_state=seed,
        ).fit(features, targets)
        return read_ensemble(ensemble, len(features))

    def _ensemble(self) -> Any:
        raise NotImplementedError


@dataclass(frozen=True)
class RandomForestTrees(_AveragedTrees):
    """scikit-learn's random forest with squared error; the defaults are the paper's, the rest scikit-learn's."""

    def _ensemble(self) -> Any:
        from sklearn.ensemble import RandomForestRegressor

        return RandomForestRegressor


@dataclass(frozen=True)
class ExtraTrees(_AveragedTrees):
    """scikit-learn's extremely randomised trees: thresholds drawn at random, all rows in every tree."""

    bootstrap: bool = False

    def _ensemble(self) -> Any:
        from sklearn.ensemble import ExtraTreesRegressor

        return ExtraTreesRegressor


def read_ensemble(ensemble: Any, n_rows: int) -> Forest:
    """The forest inside a fitted scikit-learn forest regressor that was grown on `n_rows` rows."""
    trees = [estimator.tree_ for estimator in ensemble.estimators_]
    nodes = np.concatenate([tree.__getstate__()["nodes"] for tree in trees])
    left = nodes["left_child"]
    return Forest.from_nodes(
        sizes=[tree.node_count for tree in trees],
        left=left,
        right=nodes["right_child"],
        feature=np.where(left < 0, 0, nodes["feature"]),
        threshold=less_or_equal(np.where(left < 0, 0.0, nodes["threshold"])),
        missing_left=nodes["missing_go_to_left"].astype(np.bool_),
        value=np.concatenate([tree.value.ravel() for tree in trees]) / len(trees),
        n_features=ensemble.n_features_in_,
        in_bag=_bags(ensemble, n_rows) if ensemble.bootstrap else None,
    )


def _bags(ensemble: Any, n_rows: int) -> Any:
    bags = np.zeros((n_rows, len(ensemble.estimators_)), np.bool_)
    for tree, rows in enumerate(ensemble.estimators_samples_):
        bags[rows, tree] = True
    return bags
