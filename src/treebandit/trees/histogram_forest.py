"""A random forest of our own, grown on binned features: compiled, small, and fast to rebuild."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treebandit.core import Features, Floats
from treebandit.errors import ParameterError
from treebandit.features.encoding import ColumnGroups
from treebandit.parameters import check_flag, check_number
from treebandit.steps import exhausted
from treebandit.trees import grower
from treebandit.trees.bins import MOST_BINS, Bins
from treebandit.trees.forest import Forest, Masked
from treebandit.trees.kernels import draw_key
from treebandit.trees.limits import check_limits, check_max_features

_NO_ROW = np.empty(0, np.uint8)


@dataclass(frozen=True)
class HistogramForest:
    """A random forest with squared error on binned features.

    n_trees: how many.
    max_depth: None for no limit.
    min_samples_leaf: the fewest rows in a leaf.
    max_features: share (float) or number (int) of the columns tried at each split, where the columns of one category's
        one-hot count as one.
    bins: of a column with more different values than that.
    bootstrap: each tree sees as many rows as there are, drawn with replacement, whatever `subsample` says;
        `min_samples_leaf` counts different rows.
    subsample: share of the rows that each tree sees, drawn without replacement.

    >>> import numpy as np
    >>> from treebandit import HistogramForest
    >>> features = np.arange(20, dtype=np.float32).reshape(-1, 1)
    >>> forest = HistogramForest(n_trees=5).fit(features, np.where(features[:, 0] < 10, 0.0, 1.0), seed=0)
    >>> forest.n_trees
    5
    """

    n_trees: int = 100
    max_depth: int | None = 10
    min_samples_leaf: int = 2
    max_features: float | int = 0.5
    bins: int = 64
    subsample: float = 1.0
    bootstrap: bool = True

    def __post_init__(self) -> None:
        check_limits(self)
        check_number("HistogramForest.bins", self.bins, least=2, most=MOST_BINS, whole=True)
        check_max_features(self, self.max_features)
        check_flag("HistogramForest.bootstrap", self.bootstrap)
        check_number("HistogramForest.subsample", self.subsample, above=0.0, most=1.0)

    def fit(
        self,
        features: Features,
        targets: Floats,
        *,
        seed: int,
        column_groups: ColumnGroups = (),
        masked: Masked = ((), 0.0),
    ) -> Forest:
        """Grow `n_trees` trees on (n, d) features and (n,) targets.

        column_groups: (start, stop) of the columns that are one category's one-hot, or the arm's.
        masked: columns, and the share of the trees that may not see them.
        """
        steps = self.fit_steps(features, targets, seed=seed, column_groups=column_groups, masked=masked)
        return exhausted(steps)

    def fit_steps(
        self,
        features: Features,
        targets: Floats,
        *,
        seed: int,
        column_groups: ColumnGroups = (),
        masked: Masked = ((), 0.0),
    ) -> Generator[float, None, Forest]:
        """`fit` tree by tree; yields the share of the trees that are grown, and returns the forest."""
        growth = _Growth(self, features, column_groups, masked)
        n, random = len(targets), np.random.default_rng(seed)
        base = float(np.mean(targets))
        centred, weights = targets - base, np.ones(n, np.int32)
        size = n if self.bootstrap else min(n, max(2, round(self.subsample * n)))
        bags = np.zeros((self.n_trees, n), np.bool_)
        for tree, bag in enumerate(bags):
            yield tree / self.n_trees
            if self.bootstrap:
                drawn = random.integers(0, n, n, dtype=np.int32)
                weights = np.bincount(drawn, minlength=n).astype(np.int32)
            growth.grow((centred, weights, size, bag), seed=draw_key(random))
        values = (base + grower.means(growth.nodes)) / self.n_trees
        return growth.forest(values, in_bag=bags.T if self.bootstrap or size < n else None)


class _Growth:
    """The trees grown so far on one table."""

    def __init__(
        self, learner: HistogramForest, features: Features, groups: ColumnGroups, masked: Masked
    ) -> None:
        self._bins = Bins.fit(features, learner.bins, groups)
        table = self._bins.table(self._bins.encode(features))
        self._width = features.shape[1]
        every = np.arange(len(self._bins.first))
        columns, share = masked
        if not (0 <= share <= 1 and all(0 <= column < self._width for column in columns)):
            raise ParameterError(
                f"masked={masked!r}; expected some of the columns 0 to {self._width - 1} and a share in [0, 1]"
            )
        hidden = np.searchsorted(self._bins.first, columns, side="right") - 1
        self._n_trees = learner.n_trees
        self._seeing = learner.n_trees - round(share * learner.n_trees)
        self._limits = _limits(learner, every), _limits(learner, np.setdiff1d(every, hidden))
        self._most = grower.most_nodes(table, self._limits[0])
        #: As kernels take them: a plain tuple is handed over in a tenth of the time.
        self._table, self._work = tuple(table), tuple(grower.workspace(table, self._limits[0]))
        self._nodes = np.empty(self._most, grower.NODE)
        self._sizes: list[int] = []
        self._end = 0

    @property
    def nodes(self) -> NDArray[np.void]:
        """Those of all trees."""
        return self._nodes[: self._end]

    def grow(self, sample: tuple[Any, ...], *, seed: int) -> None:
        """Grow one more tree on a grower.Sample; the last trees do not see what is masked."""
        *limits, _ = self._limits[len(self._sizes) >= self._seeing]
        if self._end + self._most > len(self._nodes):
            # As many as all trees will have if they are like those so far: copies of long arrays cost time.
            left = max(self._n_trees - len(self._sizes), 1)
            more = left * (self._end // len(self._sizes))
            longer = np.empty(self._end + more + more // 16 + self._most, grower.NODE)
            longer[: self._end] = self.nodes
            self._nodes = longer
        nodes = self._nodes[self._end :]
        size = grower.grow_tree(self._table, sample, (*limits, seed), _NO_ROW, nodes, self._work)
        self._sizes.append(size)
        self._end += size

    def forest(self, values: Floats, **rest: Any) -> Forest:
        """All trees; `values` are what their nodes predict if they are leaves."""
        nodes = self.nodes
        columns, thresholds, missing_left = self._bins.thresholds(nodes)
        return Forest.from_nodes(
            sizes=self._sizes,
            left=nodes["left"],
            right=nodes["right"],
            feature=np.where(nodes["left"] < 0, 0, columns),
            threshold=thresholds,
            missing_left=missing_left,
            value=values,
            n_features=self._width,
            **rest,
        )


def _limits(learner: HistogramForest, groups: NDArray[np.int64]) -> grower.Limits:
    depth = grower.NO_LIMIT if learner.max_depth is None else int(learner.max_depth)
    share, count = learner.max_features, len(groups)
    tried = max(1, int(share * count)) if isinstance(share, float | np.floating) else min(share, count)
    return grower.Limits(depth, int(learner.min_samples_leaf), int(tried), groups)
