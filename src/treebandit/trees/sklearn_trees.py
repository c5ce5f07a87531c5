"""Random forests, extra trees and single decision trees of scikit-learn."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from treebandit.core import Features, Floats
from treebandit.docstrings import inherit_arguments
from treebandit.parameters import check_flag
from treebandit.trees.bootstrap_paths import PathLimits
from treebandit.trees.forest import Forest, less_or_equal
from treebandit.trees.limits import check_installed, check_limits, check_max_features

#: scikit-learn takes values for equal that are no more than 1e-7 apart, so it gets columns as large as 2 to this power.
_LARGE = 100


@dataclass(frozen=True)
class _AveragedTrees:
    """What scikit-learn's two averaging ensembles share.

    n_trees: how many.
    max_depth: None for no limit.
    min_samples_leaf: the fewest rows in a leaf; two, so that every leaf has a variance.
    max_features: share (float) or number (int) of the columns tried at each split.
    bootstrap: each tree sees rows drawn with replacement; False, all rows.
    threads: of scikit-learn (`n_jobs`).
    """

    #: Its class in `sklearn.ensemble`.
    _regressor = "RandomForestRegressor"

    n_trees: int = 100
    max_depth: int | None = 10
    min_samples_leaf: int = 2
    max_features: float | int = 1.0
    bootstrap: bool = True
    threads: int = 1

    def __init_subclass__(cls) -> None:
        inherit_arguments(cls)

    def __post_init__(self) -> None:
        check_limits(self)
        check_max_features(self, self.max_features)
        check_flag(f"{type(self).__name__}.bootstrap", self.bootstrap)
        check_installed("sklearn", "scikit-learn", "sklearn")

    def fit(self, features: Features, targets: Floats, *, seed: int) -> Forest:
        """Grow `n_trees` trees on (n, d) features and (n,) targets."""
        units = _units(features)
        ensemble = getattr(import_module("sklearn.ensemble"), self._regressor)(
            n_estimators=self.n_trees,
            max_depth=self.max_depth,
            min_samples_leaf=self.min_samples_leaf,
            max_features=self.max_features,
            bootstrap=self.bootstrap,
            n_jobs=self.threads,
            random_state=seed,
        ).fit(features / units, targets)
        return read_ensemble(ensemble, len(features), units)


@dataclass(frozen=True)
class RandomForestTrees(_AveragedTrees):
    """scikit-learn's random forest with squared error; the defaults are the paper's, the rest scikit-learn's.

    >>> import numpy as np
    >>> from treebandit import RandomForestTrees
    >>> features = np.arange(20, dtype=np.float32).reshape(-1, 1)
    >>> forest = RandomForestTrees(n_trees=5).fit(features, np.where(features[:, 0] < 10, 0.0, 1.0), seed=0)
    >>> forest.n_trees
    5
    """

    def path_limits(self, width: int) -> PathLimits:
        """What bounds its trees over `width` columns, for growing single paths."""
        share = self.max_features
        tried = max(1, int(share * width)) if isinstance(share, float) else share
        return PathLimits(self.n_trees, self.bootstrap, self.max_depth, self.min_samples_leaf, tried)


@dataclass(frozen=True)
class ExtraTrees(_AveragedTrees):
    """scikit-learn's extremely randomised trees: thresholds drawn at random, all rows in every tree.

    >>> import numpy as np
    >>> from treebandit import ExtraTrees
    >>> features = np.arange(20, dtype=np.float32).reshape(-1, 1)
    >>> forest = ExtraTrees(n_trees=5).fit(features, np.where(features[:, 0] < 10, 0.0, 1.0), seed=0)
    >>> forest.n_trees
    5
    """

    _regressor = "ExtraTreesRegressor"
    bootstrap: bool = False


@dataclass(frozen=True)
class DecisionTreeTrees:
    """One decision tree of scikit-learn (CART) with squared error, grown to the end unless limited.

    Its leaves may hold a single row: good for a point prediction, too few for a leaf's variance.

    max_depth: None for no limit.
    min_samples_leaf: the fewest rows in a leaf.

    >>> import numpy as np
    >>> from treebandit import DecisionTreeTrees
    >>> features = np.arange(20, dtype=np.float32).reshape(-1, 1)
    >>> forest = DecisionTreeTrees(max_depth=2).fit(features, np.where(features[:, 0] < 10, 0.0, 1.0), seed=0)
    >>> forest.n_trees
    1
    """

    max_depth: int | None = None
    min_samples_leaf: int = 1

    def __post_init__(self) -> None:
        check_limits(self, fewest_in_leaf=1)
        check_installed("sklearn", "scikit-learn", "sklearn")

    def fit(self, features: Features, targets: Floats, *, seed: int) -> Forest:
        """Grow the tree on (n, d) features and (n,) targets."""
        from sklearn.tree import DecisionTreeRegressor

        units = _units(features)
        tree = DecisionTreeRegressor(
            max_depth=self.max_depth, min_samples_leaf=self.min_samples_leaf, random_state=seed
        ).fit(features / units, targets)
        return _read_trees([tree.tree_], units)

    def path_limits(self, width: int) -> PathLimits:
        """What bounds the tree over `width` columns, for growing single paths."""
        return PathLimits(1, False, self.max_depth, self.min_samples_leaf, width)


def read_ensemble(ensemble: Any, n_rows: int, units: Features) -> Forest:
    """The forest inside a fitted scikit-learn forest regressor that was grown on `n_rows` rows, in these units."""
    trees = [estimator.tree_ for estimator in ensemble.estimators_]
    bags = _bags(ensemble, n_rows) if ensemble.bootstrap else None
    return _read_trees(trees, units, in_bag=bags)


def _units(features: Features) -> Features:
    """A power of two for each of (n, d) columns, in which neighbouring 32-bit numbers are far more than 1e-7 apart."""
    exponents = np.frexp(np.fmax.reduce(np.abs(features), axis=0))[1]
    units: Features = np.ldexp(np.ones(len(exponents), np.float32), np.clip(exponents - _LARGE, -126, 0))
    return units


def _read_trees(trees: list[Any], units: Features, *, in_bag: Any = None) -> Forest:
    nodes = np.concatenate([tree.__getstate__()["nodes"] for tree in trees])
    left = nodes["left_child"]
    feature = np.where(left < 0, 0, nodes["feature"])
    return Forest.from_nodes(
        sizes=[tree.node_count for tree in trees],
        left=left,
        right=nodes["right_child"],
        feature=feature,
        threshold=less_or_equal(np.where(left < 0, 0.0, nodes["threshold"] * units[feature])),
        missing_left=nodes["missing_go_to_left"].astype(np.bool_),
        value=np.concatenate([tree.value.ravel() for tree in trees]) / len(trees),
        n_features=len(units),
        in_bag=in_bag,
    )


def _bags(ensemble: Any, n_rows: int) -> Any:
    bags = np.zeros((n_rows, len(ensemble.estimators_)), np.bool_)
    for tree, rows in enumerate(ensemble.estimators_samples_):
        bags[rows, tree] = True
    return bags
