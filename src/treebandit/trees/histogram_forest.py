"""A random forest of our own, grown on binned features: compiled, small, and fast to rebuild."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass

import numpy as np

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
#: Trees on few rows are grown several at a time, which together see so many rows.
_ROWS_AT_ONCE = 8192


@dataclass(frozen=True)
class HistogramForest:
    """A random forest with squared error on binned features.

    n_trees: how many.
    max_depth: None for no limit.
    min_samples_leaf: the fewest rows in a leaf.
    max_features: share (float) or number (int) of the columns tried at each split, where the columns of one category's
        one-hot count as one.
    bins: how many a column is cut into that has more different values; others have one per value.
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
        """`fit` in steps of one tree, or several on few rows; yields the share that is grown, returns the forest."""
        (n, width), random = features.shape, np.random.default_rng(seed)
        bins = Bins.fit(features, self.bins, column_groups)
        table = bins.table(bins.encode(features))
        limits, seeing = self._limits(bins, width, masked)
        # As kernels take them: a plain tuple is handed over in a tenth of the time.
        given, work = tuple(table), tuple(grower.workspace(table, limits[0]))
        base = float(np.mean(targets))
        centred, weights = targets - base, np.ones(n, np.int32)
        size = n if self.bootstrap else min(n, max(2, round(self.subsample * n)))
        bags, sizes = np.zeros((self.n_trees, n), np.bool_), np.zeros(self.n_trees, np.int64)
        at_once = 1 if self.bootstrap else max(1, _ROWS_AT_ONCE // max(n, 1))
        draft = np.empty(at_once * grower.most_nodes(table, limits[0]), grower.NODE)
        # Bytes, since arrays of records are copied field by field.
        grown = bytearray()
        for own, begin, end in ((limits[0], 0, seeing), (limits[1], seeing, self.n_trees)):
            for first in range(begin, end, at_once):
                yield first / self.n_trees
                trees = slice(first, min(first + at_once, end))
                if self.bootstrap:
                    drawn = random.integers(0, n, n, dtype=np.int32)
                    weights = np.bincount(drawn, minlength=n).astype(np.int32)
                sample = centred, weights, size, bags[trees]
                keys = np.array([draw_key(random) for _ in sizes[trees]], np.uint64)
                grower.grow_trees(given, sample, tuple(own), _NO_ROW, keys, draft, sizes[trees], work)
                grown += draft[: int(sizes[trees].sum())].tobytes()
        nodes = np.frombuffer(grown, grower.NODE)
        left, (columns, thresholds, missing_left) = nodes["left"].astype(np.int64), bins.thresholds(nodes)
        columns[left < 0] = 0
        return Forest.from_nodes(
            sizes=sizes,
            left=left,
            right=nodes["right"],
            feature=columns,
            threshold=thresholds,
            missing_left=missing_left,
            value=(base + grower.means(nodes)) / self.n_trees,
            n_features=width,
            in_bag=bags.T if self.bootstrap or size < n else None,
        )

    def _limits(self, bins: Bins, width: int, masked: Masked) -> tuple[list[grower.Limits], int]:
        """Limits of the first trees and of the last, which do not see what is masked; and how many the first are."""
        columns, share = masked
        if not (0 <= share <= 1 and all(0 <= column < width for column in columns)):
            raise ParameterError(
                f"masked={masked!r}; expected some of the columns 0 to {width - 1} and a share in [0, 1]"
            )
        every = np.arange(len(bins.first))
        hidden = np.searchsorted(bins.first, columns, side="right") - 1
        depth, tried = grower.NO_LIMIT if self.max_depth is None else int(self.max_depth), self.max_features
        limits = []
        for groups in (every, np.delete(every, hidden)):
            count = len(groups)
            most = max(1, int(tried * count)) if isinstance(tried, float | np.floating) else min(tried, count)
            limits.append(grower.Limits(depth, int(self.min_samples_leaf), int(most), groups))
        return limits, self.n_trees - round(share * self.n_trees)
