"""Forests and boosted trees of our own, grown on binned features: compiled, small, and fast to rebuild."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treebandit.core import Features, Floats
from treebandit.docstrings import inherit_arguments
from treebandit.errors import ParameterError
from treebandit.trees import histogram_kernels as kernels
from treebandit.trees.bins import MOST_BINS, BinnedFeatures
from treebandit.trees.forest import Forest
from treebandit.trees.limits import check_limits

_NO_LIMIT = 1 << 30


@dataclass(frozen=True)
class _HistogramTrees:
    """What both ensembles share.

    n_trees: how many.
    max_depth: None for no limit.
    min_samples_leaf: the fewest rows in a leaf.
    max_features: share (float) or number (int) of the columns tried at each split, where the columns of one one-hot
        coding count as one.
    bins: of a column with more different values than that.
    subsample: share of the rows that each tree sees, drawn without replacement.
    """

    n_trees: int = 100
    max_depth: int | None = 10
    min_samples_leaf: int = 2
    max_features: float | int = 1.0
    bins: int = 64
    subsample: float = 1.0

    def __init_subclass__(cls) -> None:
        inherit_arguments(cls)

    def __post_init__(self) -> None:
        self._check()

    def _check(self) -> None:
        check_limits(self)
        name = type(self).__name__
        if not 2 <= self.bins <= MOST_BINS:
            raise ParameterError(f"{name}(bins={self.bins!r}); expected 2 to {MOST_BINS}")
        share = self.max_features
        if not (0 < share <= 1 if isinstance(share, float) else share >= 1):
            raise ParameterError(
                f"{name}(max_features={share!r}); expected a share in (0, 1] or a whole number"
            )
        if not 0 < self.subsample <= 1:
            raise ParameterError(f"{name}(subsample={self.subsample!r}); expected a share in (0, 1]")

    @property
    def threads(self) -> int:
        """Always one."""
        return 1

    def _tried(self, groups: int) -> int:
        share = self.max_features
        return max(1, int(share * groups)) if isinstance(share, float) else min(share, groups)

    def _sample(self, n: int, random: np.random.Generator) -> NDArray[np.int32]:
        """How often each of n rows counts."""
        if self.subsample == 1:
            return np.ones(n, np.int32)
        weights = np.zeros(n, np.int32)
        weights[random.permutation(n)[: max(2, round(self.subsample * n))]] = 1
        return weights


@dataclass(frozen=True)
class HistogramForest(_HistogramTrees):
    """A random forest with squared error on binned features.

    bootstrap: each tree sees as many rows as there are, drawn with replacement, whatever `subsample` says;
        `min_samples_leaf` counts different rows.
    blind_share: share of the trees that do not see the last column, for a column that would crowd out the others.

    >>> import numpy as np
    >>> from treebandit import HistogramForest
    >>> features = np.arange(20, dtype=np.float32).reshape(-1, 1)
    >>> forest = HistogramForest(n_trees=5).fit(features, np.where(features[:, 0] < 10, 0.0, 1.0), seed=0)
    >>> forest.n_trees
    5
    """

    max_features: float | int = 0.5
    bootstrap: bool = True
    blind_share: float = 0.0

    def __post_init__(self) -> None:
        self._check()
        if not 0 <= self.blind_share <= 1:
            raise ParameterError(
                f"HistogramForest(blind_share={self.blind_share!r}); expected a share in [0, 1]"
            )

    def fit(self, features: Features, targets: Floats, *, seed: int) -> Forest:
        """Grow `n_trees` trees on (n, d) features and (n,) targets."""
        n = len(features)
        random = np.random.default_rng(seed)
        base = float(np.mean(targets))
        growth = _Growth(self, features)
        bags = np.empty((self.n_trees, n), np.bool_)
        seeing = self.n_trees - round(self.blind_share * self.n_trees)
        for tree in range(self.n_trees):
            weights = self._sample(n, random)
            groups = growth.groups if tree < seeing else max(1, growth.groups - 1)
            growth.grow(targets - base, weights, groups, seed=int(random.integers(2**63)))
            np.greater(weights, 0, out=bags[tree])
        whole = not self.bootstrap and self.subsample == 1
        return growth.forest(
            scale=1.0 / self.n_trees, shift=base / self.n_trees, in_bag=None if whole else bags.T
        )

    def _sample(self, n: int, random: np.random.Generator) -> NDArray[np.int32]:
        if self.bootstrap:
            return np.bincount(random.integers(0, n, n, dtype=np.int32), minlength=n).astype(np.int32)
        return super()._sample(n, random)


@dataclass(frozen=True)
class HistogramBoosting(_HistogramTrees):
    """Gradient boosting with squared error on binned features.

    learning_rate: η. ridge: λ, rows' weight of the prior that a leaf's output is 0.

    >>> import numpy as np
    >>> from treebandit import HistogramBoosting
    >>> features = np.arange(20, dtype=np.float32).reshape(-1, 1)
    >>> forest = HistogramBoosting(n_trees=5).fit(features, np.where(features[:, 0] < 10, 0.0, 1.0), seed=0)
    >>> forest.n_trees
    5
    """

    max_depth: int | None = 6
    learning_rate: float = 0.1
    ridge: float = 1.0

    def __post_init__(self) -> None:
        self._check()
        if not self.ridge >= 0:
            raise ParameterError(f"HistogramBoosting(ridge={self.ridge!r}); expected 0 or more")

    def fit(self, features: Features, targets: Floats, *, seed: int) -> Forest:
        """Grow `n_trees` trees, each on what the trees before it leave of (n,) targets."""
        n = len(features)
        random = np.random.default_rng(seed)
        base = float(np.mean(targets))
        growth = _Growth(self, features)
        predictions = np.full(n, base)
        for _ in range(self.n_trees):
            weights, tree_seed = self._sample(n, random), int(random.integers(2**63))
            growth.grow(targets - predictions, weights, growth.groups, seed=tree_seed, ridge=self.ridge)
            growth.add_last(predictions, self.learning_rate)
        return growth.forest(scale=self.learning_rate, base=base, learning_rate=self.learning_rate)


@dataclass
class _Growth:
    """Trees grown so far on one table."""

    learner: _HistogramTrees
    features: Features
    _trees: list[tuple[NDArray[Any], ...]] = field(default_factory=list)

    def __post_init__(self) -> None:
        learner, n = self.learner, len(self.features)
        self.binned = BinnedFeatures.of(self.features, learner.bins)
        self.depth = _NO_LIMIT if learner.max_depth is None else learner.max_depth
        room = 2 * max(1, n // learner.min_samples_leaf) - 1
        if self.depth < 30:
            room = min(room, 2 ** (self.depth + 1) - 1)
        self._scratch = np.empty((room, 2), np.int32), np.empty((room, 3), np.int32), np.empty(room)

    @property
    def groups(self) -> int:
        """How many columns there are to try, those of one one-hot coding counted as one."""
        return len(self.binned.codes)

    @property
    def _table(self) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.bool_]]:
        return self.binned.codes, self.binned.widths, self.binned.singles

    def grow(
        self, targets: Floats, weights: NDArray[np.int32], groups: int, *, seed: int, ridge: float = 0.0
    ) -> None:
        """Grow one more tree on the first `groups` of them."""
        table = (part[:groups] for part in self._table)
        limits = self.depth, self.learner.min_samples_leaf, self.learner._tried(groups)
        size = kernels.grow_tree(*table, targets, weights, *limits, ridge, seed, *self._scratch)
        self._trees.append(tuple(part[:size].copy() for part in self._scratch))

    def add_last(self, predictions: Floats, rate: float) -> None:
        """Add the newest tree's say, times the rate, to (n,) predictions."""
        children, splits, values = self._trees[-1]
        kernels.add_tree(*self._table, children, splits, rate * values, predictions)

    def forest(self, *, scale: float, shift: float = 0.0, **rest: Any) -> Forest:
        """All trees, their leaf outputs times `scale` plus `shift`."""
        children, splits, values = (np.concatenate(parts) for parts in zip(*self._trees, strict=True))
        columns, thresholds = self.binned.thresholds(splits[:, 0], splits[:, 1])
        return Forest.from_nodes(
            sizes=[len(values) for _, _, values in self._trees],
            left=children[:, 0],
            right=children[:, 1],
            feature=np.where(children[:, 0] < 0, 0, columns),
            threshold=thresholds,
            missing_left=splits[:, 2] == 1,
            value=scale * values + shift,
            n_features=self.features.shape[1],
            **rest,
        )
