"""Boosted trees, as many as cross-validation says: with few rows few, so that what is learned is never overdone."""

from __future__ import annotations

import reprlib
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from treebandit.core import Features, Floats
from treebandit.errors import ParameterError
from treebandit.parameters import check_number
from treebandit.trees.forest import Forest, TreeLearner
from treebandit.trees.growing import grow
from treebandit.trees.limits import check_learner
from treebandit.trees.xgboost_trees import XGBoostTrees


@dataclass(frozen=True)
class CrossValidatedTrees:
    """Boosted trees cut off where the squared error on rows left out is least.

    The folds are drawn anew at every fit, so that the number of trees, and with it a greedy choice, varies by chance
    where the data leave it open: exploration by regularisation. With TEUCB(exploration=0) that is a greedy agent in the
    manner of RIE-Greedy (2026). A fit takes `folds` + 1 fits of `trees`.

    trees: boosted trees, of which the first few are a smaller ensemble. folds: in how many parts rows are left out.

    >>> import numpy as np
    >>> from treebandit import CrossValidatedTrees
    >>> features = np.random.default_rng(0).normal(size=(60, 3)).astype(np.float32)
    >>> noise = np.random.default_rng(1).normal(size=60)
    >>> CrossValidatedTrees().fit(features, noise, seed=0).n_trees < 20  # nothing to learn
    True
    """

    trees: TreeLearner = field(default_factory=XGBoostTrees)
    folds: int = 3

    def __post_init__(self) -> None:
        check_learner(self.trees)
        check_number("CrossValidatedTrees.folds", self.folds, least=2, most=100, whole=True)
        forest = getattr(self.trees, "mode", None) == "forest" or not hasattr(self.trees, "learning_rate")
        if forest or not hasattr(self.trees, "n_trees"):
            raise ParameterError(
                f"trees is {reprlib.repr(self.trees)}; give boosted trees such as XGBoostTrees()"
            )

    def fit(self, features: Features, targets: Floats, *, seed: int) -> Forest:
        """Find the number of trees on (n, d) features and (n,) targets, and grow them on all rows."""
        boosted: Any = self.trees
        random = np.random.default_rng(seed)
        fold = random.permutation(len(targets)) % self.folds
        errors = np.zeros(boosted.n_trees)
        # Fewer than two rows in a part can neither grow a tree nor tell of one.
        if len(targets) >= 2 * self.folds:
            for left_out in range(self.folds):
                grown, held = fold != left_out, fold == left_out
                forest = _boosted(boosted, features[grown], targets[grown], seed=seed)
                errors += _squared_errors(forest, features[held], targets[held], boosted.n_trees)
        best = int(errors.argmin()) + 1
        return _boosted(replace(boosted, n_trees=best), features, targets, seed=seed)


def _boosted(trees: Any, features: Features, targets: Floats, *, seed: int) -> Forest:
    """The forest that `trees` grow, of which the first few are a smaller one; a ParameterError where they are not."""
    forest = grow(trees, features, targets, seed=seed)
    if forest.learning_rate == 0.0:
        raise ParameterError(
            f"{reprlib.repr(trees)} grow a forest of trees that are averaged, so the first few are no forest; give "
            "boosted trees such as XGBoostTrees()"
        )
    return forest


def _squared_errors(forest: Forest, features: Features, targets: Floats, n_trees: int) -> Floats:
    """The sum of squared errors of the first tree, of the first two, ..., (n_trees,).

    A forest that stopped growing before predicts with all that it has.
    """
    outputs = forest.values[forest.find_leaves(np.ascontiguousarray(features))]
    predictions = forest.base + np.cumsum(outputs, axis=1)
    errors: Floats = np.square(predictions - targets[:, None]).sum(axis=0)
    return errors[np.minimum(np.arange(n_trees), len(errors) - 1)]
