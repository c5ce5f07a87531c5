"""Forests on bootstrap samples, each tree grown only along the path that one row takes.

As in `bootstrap_paths`, but for a hundred trees at a time: columns are cut into at most 255 bins, and a split is
found from sums per bin, as histogram libraries do.
"""
# mypy: disallow_untyped_decorators=False
# ruff: noqa: ANN001, ANN202

from __future__ import annotations

from typing import Any

import numpy as np
from numba import uint64
from numpy.typing import NDArray

from treebandit.compiled import njit
from treebandit.core import Features, Floats
from treebandit.trees.bootstrap_paths import PathLimits, draw_below, next_state

#: Edges between the bins of a column; bin 0 holds missing values.
_EDGES = 254
_PURE = np.finfo(np.float64).eps


class BinnedRows:
    """Rows with their targets, every column cut into bins that follow what was seen; rows may be added at any time.

    A bin's code counts the bins of all columns before it, so that sums per bin lie side by side.
    """

    __slots__ = ("_binned", "_codes", "_edges", "_length", "_starts", "_targets", "_values")

    def __init__(self, width: int) -> None:
        self._values = np.empty((0, width), np.float32)
        self._codes = np.empty((0, width), np.uint32)
        self._targets = np.empty(0)
        self._edges = np.full((width, _EDGES), np.inf, np.float32)
        self._starts = np.zeros(width + 1, np.int64)
        self._length = self._binned = 0

    def __len__(self) -> int:
        return self._length

    @property
    def features(self) -> Features:
        """(n, d), a view."""
        return self._values[: self._length]

    @property
    def targets(self) -> Floats:
        """(n,), a view."""
        return self._targets[: self._length]

    def append(self, features: Features, targets: Floats) -> None:
        """Add (k, d) rows with their (k,) targets."""
        start, stop = self._length, self._length + len(features)
        if stop > len(self._targets):
            capacity = max(16, stop, int(1.25 * len(self._targets)))
            self._values = _lengthened(self._values, capacity, start)
            self._codes = _lengthened(self._codes, capacity, start)
            self._targets = _lengthened(self._targets, capacity, start)
        self._values[start:stop], self._targets[start:stop] = features, targets
        self._length = stop
        if self._bin(stop):
            start = 0
        _encode(self._values[start:stop], self._edges, self._starts, self._codes[start:stop])

    def truncate(self, length: int) -> None:
        """Forget all rows from `length` on."""
        if length < self._length:
            self._length = length
            if self._bin(length):
                _encode(self._values[:length], self._edges, self._starts, self._codes[:length])

    def _bin(self, length: int) -> bool:
        """Cut the columns anew where rows have grown by an eighth; the same for the same rows, however they came."""
        binned = 0
        while binned + max(1, binned // 8) <= length:
            binned += max(1, binned // 8)
        if binned == self._binned:
            return False
        self._binned = binned
        self._edges.fill(np.inf)
        for column, values in enumerate(self._values[:binned].T):
            edges = _cut(values[~np.isnan(values)])
            self._edges[column, : len(edges)] = edges
            self._starts[column + 1] = self._starts[column] + len(edges) + 2
        return True

    def predict_bootstrap(self, row: Features, limits: PathLimits, *, seed: int) -> float:
        """What a forest grown on a bootstrap sample of all rows says of one (d,) row; `seed` decides the sample."""
        codes = np.empty((1, len(row)), np.uint32)
        _encode(row[None], self._edges, self._starts, codes)
        depth = np.iinfo(np.int32).max if limits.max_depth is None else limits.max_depth
        return float(
            _predict_forest(
                self._codes[: self._length],
                self.targets,
                codes[0],
                self._starts,
                limits.n_trees,
                limits.bagged,
                depth,
                limits.min_samples_leaf,
                limits.max_features,
                np.uint64(seed),
            )
        )


def _cut(values: Features) -> Features:
    """Edges between different values, or quantiles where these are too many; a value equal to an edge is below it."""
    levels = np.unique(values)
    if len(levels) > _EDGES:
        shares = np.arange(1, _EDGES + 1) / (_EDGES + 1)
        return np.unique(np.quantile(values, shares, method="inverted_cdf")).astype(np.float32)
    below, above = levels[:-1], levels[1:]
    middle = below / 2 + above / 2
    return np.where(middle < above, middle, below)


def _lengthened(array: NDArray[Any], capacity: int, used: int) -> NDArray[Any]:
    lengthened = np.empty((capacity, *array.shape[1:]), array.dtype)
    lengthened[:used] = array[:used]
    return lengthened


@njit(cache=True)
def _encode(values, edges, starts, codes):  # type: ignore[no-untyped-def]
    """The bin of each value: its column's first if missing, else the one after as many as there are edges below."""
    for i in range(values.shape[0]):
        for j in range(values.shape[1]):
            value = values[i, j]
            low, high = 0, edges.shape[1]
            while low < high:
                middle = (low + high) // 2
                if edges[j, middle] < value:
                    low = middle + 1
                else:
                    high = middle
            codes[i, j] = starts[j] + (0 if value != value else low + 1)


@njit(cache=True)
def _predict_forest(  # type: ignore[no-untyped-def]
    codes, targets, row, starts, n_trees, bagged, max_depth, min_leaf, n_try, seed
):
    """Mean over `n_trees` trees on one bootstrap sample; where `bagged`, each on a bootstrap of that sample."""
    length, width = codes.shape
    state = seed
    drawn = np.empty(length, np.int32)
    for i in range(length):
        state = next_state(state)
        drawn[i] = draw_below(state, length)
    sums = np.zeros((starts[width], 3))
    members = np.empty(length + 1, np.int32)
    weights = np.empty(length)
    total = 0.0
    for _ in range(n_trees):
        weights[:] = 0.0
        for i in range(length):
            if bagged:
                state = next_state(state)
                weights[drawn[draw_below(state, length)]] += 1.0
            else:
                weights[drawn[i]] += 1.0
        size = 0
        for i in range(length):
            members[size] = i
            size += weights[i] > 0.0
        state = next_state(state)
        total += _grow_path(
            codes, targets, weights, members, size, row, starts, sums, max_depth, min_leaf, n_try, state
        )
    return total / n_trees


@njit(cache=True)
def _grow_path(  # type: ignore[no-untyped-def]
    codes, targets, weights, members, size, row, starts, sums, max_depth, min_leaf, n_try, state
):
    """Split the node that `row` is in until it is a leaf; its mean. `members` is overwritten."""
    width = codes.shape[1]
    columns = np.arange(width)
    depth = 0
    while True:
        weight, total, squares = 0.0, 0.0, 0.0
        for i in range(size):
            r = members[i]
            w, y = weights[r], targets[r]
            weight += w
            total += w * y
            squares += w * y * y
        mean = total / weight
        if depth >= max_depth or size < 2 * min_leaf or squares / weight - mean * mean <= _PURE:
            return mean
        _sum_bins(codes, targets, weights, members, size, sums)
        best, column, cut, tried = -np.inf, -1, np.int64(0), 0
        for k in range(width):
            if tried >= n_try:
                break
            state = next_state(state)
            pick = k + np.int64(draw_below(state, width - k))
            columns[k], columns[pick] = columns[pick], columns[k]
            j = columns[k]
            gain, place, constant = _best_cut(sums, starts[j], starts[j + 1], size, weight, total, min_leaf)
            tried += not constant
            if gain > best:
                best, column, cut = gain, j, place
        if column < 0:
            return mean
        goes_left = row[column] <= cut
        kept = 0
        for i in range(size):
            r = members[i]
            members[kept] = r
            kept += (codes[r, column] <= cut) == goes_left
        size = kept
        depth += 1


@njit(cache=True)
def _sum_bins(codes, targets, weights, members, size, sums):  # type: ignore[no-untyped-def]
    """Weight, weighted target and number of rows in each bin of each column."""
    sums[:] = 0.0
    for i in range(size):
        r = uint64(members[i])
        w = weights[r]
        s = w * targets[r]
        for j in range(codes.shape[1]):
            code = uint64(codes[r, uint64(j)])
            sums[code, uint64(0)] += w
            sums[code, uint64(1)] += s
            sums[code, uint64(2)] += 1.0


@njit(cache=True)
def _best_cut(bins, start, stop, size, weight, total, min_leaf):  # type: ignore[no-untyped-def]
    """The gain Σ S²/W of the best cut, the last bin on its left, and whether only one bin holds rows."""
    w, s, n, last, found, cut, constant = 0.0, 0.0, 0.0, start, -np.inf, start, True
    for b in range(start, stop):
        here = bins[b, 2]
        if here == 0.0:
            continue
        if n > 0.0:
            constant = False
            if n >= min_leaf and size - n >= min_leaf:
                rest, left = weight - w, total - s
                gain = (s * s * rest + left * left * w) / (w * rest)
                if gain > found:
                    found, cut = gain, last
        w += bins[b, 0]
        s += bins[b, 1]
        n += here
        last = b
        if n == size:
            break
    return found, cut, constant
