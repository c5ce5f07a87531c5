"""The ensemble as a scikit-learn regressor that knows how sure it is."""

from __future__ import annotations

from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from treebandit.core import Estimate, Features, Floats
from treebandit.errors import ParameterError
from treebandit.trees.forest import TreeLearner
from treebandit.trees.leaf_statistics import LeafOutput, LeafStatistics
from treebandit.trees.xgboost_trees import XGBoostTrees

StatisticsFrom = Literal["all", "held_out", "out_of_bag"]

_LARGEST_SEED = 2**31 - 1


class TreeEnsembleRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Predicts y = Σ o over the trees with standard deviation √(Σ s²/c), the paper's uncertainty estimate.

    trees: the tree library and its settings; None for `XGBoostTrees()`.
    leaf_output: o as the 'library' set it, or the plain 'average' of what the rows suggest.
    statistics: from 'all' rows, from a 'held_out' share of them that no tree is grown on, or 'out_of_bag'.
    random_state: a seed, a `numpy.random.RandomState`, or None for a new one each time.

    Features are taken as 32-bit floats, NaN for missing. After `fit`: `leaves_`, the LeafStatistics, and
    scikit-learn's `n_features_in_` and `feature_names_in_`.
    """

    def __init__(
        self,
        trees: TreeLearner | None = None,
        *,
        leaf_output: LeafOutput = "library",
        statistics: StatisticsFrom = "all",
        held_out_share: float = 0.5,
        random_state: Any = None,
    ) -> None:
        self.trees = trees
        self.leaf_output = leaf_output
        self.statistics = statistics
        self.held_out_share = held_out_share
        self.random_state = random_state

    def fit(self, X: Any, y: ArrayLike) -> Self:
        """Grow the trees on (n, d) features and (n,) targets and measure their leaves."""
        self._check_arguments()
        features, targets = self._validated(X, y, reset=True)
        self.leaves_ = self._measured(features, targets)
        return self

    def partial_fit(self, X: Any, y: ArrayLike) -> Self:
        """Let further rows change the leaves they reach, without new trees; the first call is `fit`."""
        if not hasattr(self, "leaves_"):
            return self.fit(X, y)
        features, targets = self._validated(X, y, reset=False)
        self.leaves_.update(features, targets)
        return self

    def predict(self, X: Any, *, return_std: bool = False) -> Floats | tuple[Floats, Floats]:
        """Predictions (n,) of (n, d) features; with `return_std` their standard deviations (n,) too."""
        estimate = self.estimate(X)
        return (estimate.mean, np.sqrt(estimate.variance)) if return_std else estimate.mean

    def estimate(self, X: Any) -> Estimate:
        """Σ o, Σ s²/c and Σ c over the leaves that each row reaches: (n,) each."""
        check_is_fitted(self)
        features: Features = validate_data(
            self, X, reset=False, dtype=np.float32, order="C", ensure_all_finite="allow-nan"
        )
        return self.leaves_.estimate(features)

    def _validated(self, X: Any, y: ArrayLike, *, reset: bool) -> tuple[Features, Floats]:
        rows = 2 if reset else 1
        features, targets = validate_data(
            self,
            X,
            y,
            reset=reset,
            dtype=np.float32,
            order="C",
            ensure_all_finite="allow-nan",
            ensure_min_samples=rows,
            y_numeric=True,
        )
        return features, np.asarray(targets, np.float64)

    def _measured(self, features: Features, targets: Floats) -> LeafStatistics:
        random = check_random_state(self.random_state)
        trees = XGBoostTrees() if self.trees is None else self.trees
        seed = int(random.randint(_LARGEST_SEED))
        grown, measured = features, features
        grown_targets, measured_targets = targets, targets
        if self.statistics == "held_out" and len(targets) >= 4:
            order = random.permutation(len(targets))
            cut = min(max(round(len(targets) * self.held_out_share), 1), len(targets) - 2)
            held, rest = np.sort(order[:cut]), np.sort(order[cut:])
            grown, grown_targets = features[rest], targets[rest]
            measured, measured_targets = features[held], targets[held]
        return LeafStatistics.measure(
            trees.fit(grown, grown_targets, seed=seed),
            measured,
            measured_targets,
            output=self.leaf_output,
            out_of_bag=self.statistics == "out_of_bag",
        )

    def _check_arguments(self) -> None:
        if self.leaf_output not in ("library", "average"):
            raise ParameterError(f"leaf_output={self.leaf_output!r}; choose 'library' or 'average'")
        if self.statistics not in ("all", "held_out", "out_of_bag"):
            raise ParameterError(f"statistics={self.statistics!r}; choose 'all', 'held_out' or 'out_of_bag'")
        if not 0 < self.held_out_share < 1:
            raise ParameterError(f"held_out_share={self.held_out_share!r}; expected a share between 0 and 1")
        if not (self.trees is None or isinstance(self.trees, TreeLearner)) or isinstance(self.trees, type):
            raise ParameterError(f"trees={self.trees!r} has no method fit(features, targets, *, seed)")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags
