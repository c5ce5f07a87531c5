"""Trees on a bootstrap sample, grown only along the path that one row takes.

A tree that is asked about a single row and then thrown away need not be grown whole: the nodes that the row does not
pass have no say in its prediction.
"""
# mypy: disallow_untyped_decorators=False
# ruff: noqa: ANN001, ANN201

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from treebandit.compiled import njit
from treebandit.core import Features, Floats
from treebandit.trees import grower
from treebandit.trees.bins import MOST_BINS, Bins


@dataclass(frozen=True, slots=True)
class PathLimits:
    """What bounds the trees: how many, whether each gets its own bootstrap, and when a node is a leaf.

    max_features: columns tried at each split.
    min_samples_leaf: different rows, not their copies in the bootstrap.
    """

    n_trees: int
    bagged: bool
    max_depth: int | None
    min_samples_leaf: int
    max_features: int


@runtime_checkable
class PathLearner(Protocol):
    """A tree learner whose trees do not depend on each other, so that a path can be grown alone."""

    def path_limits(self, width: int) -> PathLimits:
        """The limits of its trees over `width` columns."""


class BootstrapRows:
    """Rows with their targets; `appended` gives them with more rows. Subclasses tell their codes.

    The object itself never changes. It shares arrays with those it is appended to, so only the newest may be.
    """

    __slots__ = ("_features", "_length", "_targets")

    def __init__(self, width: int) -> None:
        self._features = np.empty((0, width), np.float32)
        self._targets = np.empty(0)
        self._length = 0

    def __len__(self) -> int:
        return self._length

    @property
    def features(self) -> Features:
        """(n, d), a view."""
        return self._features[: self._length]

    @property
    def targets(self) -> Floats:
        """(n,), a view."""
        return self._targets[: self._length]

    def appended(self, features: Features, targets: Floats) -> Self:
        """These rows and (k, d) more with their (k,) targets."""
        after = copy(self)
        after._length = stop = self._length + len(features)
        if stop > len(self._targets):
            capacity = max(16, stop, int(1.25 * len(self._targets)))
            after._features = _longer(self._features, capacity)
            after._targets = _longer(self._targets, capacity)
        after._features[self._length : stop] = features
        after._targets[self._length : stop] = targets
        return after

    def predict_bootstrap(self, row: Features, limits: PathLimits, *, seed: int) -> float:
        """What trees grown on a bootstrap sample of all rows predict for one (d,) row; `seed` decides the sample.

        Rows asked about with the same seed get the same trees.
        """
        if self._length == 1:
            return float(self._targets[0])
        table, codes = self._encoded(row)
        depth = grower.NO_LIMIT if limits.max_depth is None else limits.max_depth
        bounds = grower.Limits(depth, limits.min_samples_leaf, limits.max_features, np.arange(len(row)))
        paths = grower.Paths(codes, limits.n_trees, limits.bagged, seed)
        nodes = np.empty(grower.most_nodes(table, bounds), grower.NODE)
        work = grower.workspace(table, bounds)
        return float(grower.predict_paths(table, self.targets, bounds, paths, nodes, work))

    def _encoded(self, row: Features) -> tuple[grower.Table, NDArray[Any]]:
        """The codes of all rows, and of the one that is asked about."""
        raise NotImplementedError


class BinnedRows(BootstrapRows):
    """Rows whose columns are cut into at most 255 bins: quick where many trees are grown on them.

    Bins are cut when they are first needed, and anew when rows have grown by an eighth: the same for the same rows,
    however they came.
    """

    __slots__ = ("_binned", "_bins", "_codes", "_encoded_rows")

    def __init__(self, width: int) -> None:
        super().__init__(width)
        self._bins = Bins.fit(self._features, MOST_BINS)
        self._codes = np.empty((0, width), np.uint8)
        #: Number of rows that the bins were cut from, and that have their codes.
        self._binned = self._encoded_rows = 0

    def _encoded(self, row: Features) -> tuple[grower.Table, NDArray[Any]]:
        binned = 0
        while binned + max(1, binned // 8) <= self._length:
            binned += max(1, binned // 8)
        if binned != self._binned:
            self._bins = Bins.fit(self._features[:binned], MOST_BINS)
            self._binned, self._encoded_rows = binned, 0
            self._codes = np.empty((len(self._targets), len(row)), np.uint8)
        if self._encoded_rows < self._length:
            new = slice(self._encoded_rows, self._length)
            if len(self._codes) < self._length:
                self._codes = _longer(self._codes, len(self._targets))
            self._codes[new] = self._bins.encode(self._features[new])
            self._encoded_rows = self._length
        return self._bins.table(self._codes[: self._length]), self._bins.encode(row[None])[0]


class RankedRows(BootstrapRows):
    """Rows whose codes are the ranks of their values: a tree on them is exact.

    Bins would not do for a single tree without limits: it may have to part one rare value from its neighbours.
    """

    __slots__ = ("_ranked", "_table")

    def __init__(self, width: int) -> None:
        super().__init__(width)
        # As levels, the different values of each column, rising.
        levels, widths = np.full((width, 1), np.inf, np.float32), np.zeros(width, np.int64)
        codes, one_hot = np.empty((0, width), np.uint32), np.zeros(width, np.bool_)
        self._table = grower.Table(codes, widths, one_hot, levels, grower.starts_of(widths))
        #: Number of rows that have their codes.
        self._ranked = 0

    def _encoded(self, row: Features) -> tuple[grower.Table, NDArray[Any]]:
        if self._ranked < self._length:
            # A new value changes the ranks of those above it, and the codes may be shared with fewer rows.
            codes = np.empty((self._length, len(row)), np.uint32)
            codes[: self._ranked] = self._table.codes
            widths, levels = self._table.widths.copy(), self._table.levels
            most = int(widths.max(initial=0)) + self._length - self._ranked
            spare = most + 1 - levels.shape[1]
            more = spare + most // 4 if spare > 0 else 0
            levels = np.pad(levels, ((0, 0), (0, more)), constant_values=np.inf)
            insert_ranks(codes, levels, widths, self.features, self._ranked)
            one_hot, starts = self._table.one_hot, grower.starts_of(widths)
            self._table, self._ranked = grower.Table(codes, widths, one_hot, levels, starts), self._length
        return self._table, find_ranks(self._table.levels, self._table.widths, row)


@njit(error_model="numpy")
def insert_ranks(codes, levels, widths, features, first):  # type: ignore[no-untyped-def]
    """Give the rows from `first` on their codes: the ranks of their values; missing ones come after all others."""
    for row in range(first, len(features)):
        for column in range(len(widths)):
            value, width = features[row, column], widths[column]
            rank = width
            if value == value:
                rank = np.searchsorted(levels[column, :width], value)
                if rank == width or levels[column, rank] != value:
                    for i in range(width, rank, -1):
                        levels[column, i] = levels[column, i - 1]
                    levels[column, rank] = value
                    widths[column] += 1
                    for other in range(row):
                        codes[other, column] += codes[other, column] >= rank
            codes[row, column] = rank


@njit(error_model="numpy")
def find_ranks(levels, widths, row):  # type: ignore[no-untyped-def]
    """For each column, the rank of the value nearest to that of the row."""
    ranks = np.empty(len(row), np.uint32)
    for column in range(len(row)):
        value, width = row[column], widths[column]
        rank = width
        if value == value:
            rank = np.searchsorted(levels[column, :width], value)
            if rank > 0 and (
                rank == width or value - levels[column, rank - 1] < levels[column, rank] - value
            ):
                rank -= 1
        ranks[column] = rank
    return ranks


def _longer(array: NDArray[Any], capacity: int) -> NDArray[Any]:
    longer = np.empty((capacity, *array.shape[1:]), array.dtype)
    longer[: len(array)] = array
    return longer
