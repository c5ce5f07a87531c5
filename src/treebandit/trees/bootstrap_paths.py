"""A tree on a bootstrap sample, grown only along the path that one row takes.

A tree that is asked about a single row and then thrown away need not be grown whole: the nodes that the row
does not pass have no say in its prediction. Rows are kept sorted by every column, so that a split is found
without sorting.
"""
# mypy: disallow_untyped_decorators=False

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numba import uint64
from numpy.typing import NDArray

from treebandit.compiled import njit
from treebandit.core import Features, Floats

#: Values closer than this are not told apart, as in scikit-learn.
_SAME = 1e-7
#: A node whose variance is below this is a leaf, as in scikit-learn.
_PURE = np.finfo(np.float64).eps
_NO_LIMIT = np.iinfo(np.int32).max
#: Beyond as many new rows at once, sorting anew is faster than putting each in its place.
_FEW = 8


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


class SortedRows:
    """Rows with their targets, kept sorted by every column; new rows may be added at any time."""

    __slots__ = ("_length", "_orders", "_targets", "_values")

    def __init__(self, width: int) -> None:
        self._values = np.empty((width, 0), np.float32)
        self._orders = np.empty((width, 0), np.int32)
        self._targets = np.empty(0)
        self._length = 0

    def __len__(self) -> int:
        return self._length

    @property
    def features(self) -> Features:
        """(n, d), a view."""
        return self._values[:, : self._length].T

    @property
    def targets(self) -> Floats:
        """(n,), a view."""
        return self._targets[: self._length]

    def append(self, features: Features, targets: Floats) -> None:
        """Add (k, d) rows with their (k,) targets."""
        start, stop = self._length, self._length + len(features)
        if stop > len(self._targets):
            capacity = max(16, stop, int(1.25 * len(self._targets)))
            self._values = _widened(self._values, capacity, start)
            self._orders = _widened(self._orders, capacity, start)
            self._targets = _widened(self._targets, capacity, start)
        self._values[:, start:stop] = features.T
        self._targets[start:stop] = targets
        if stop - start > _FEW:
            self._orders[:, :stop] = np.argsort(self._values[:, :stop], axis=1, kind="stable")
        else:
            for row in range(start, stop):
                _insert(self._values, self._orders, row)
        self._length = stop

    def truncate(self, length: int) -> None:
        """Forget all rows from `length` on."""
        if length < self._length:
            kept = self._orders[:, : self._length]
            self._orders[:, :length] = kept[kept < length].reshape(len(kept), length)
            self._length = length

    def predict_bootstrap(self, row: Features, limits: PathLimits, *, seed: int) -> float:
        """What a tree grown on a bootstrap sample of all rows says of one (d,) row; `seed` decides the sample.

        Rows asked with the same seed meet the same tree.
        """
        return float(
            _predict_bootstrap(
                self._values,
                self._orders,
                self._targets,
                self._length,
                row,
                *_numbers(limits),
                np.uint64(seed),
            )
        )

    def predict_weighted(self, row: Features, weights: Floats, limits: PathLimits, *, seed: int) -> float:
        """What one tree says of (d,) `row` if it is grown on these rows with the (n,) `weights`."""
        scratch = (np.asarray(weights) > 0).astype(np.uint8)
        size = int(scratch.sum())
        node = np.empty((len(self._orders), size + 1), np.int32)
        pairs = np.column_stack((weights, weights * self.targets))
        _keep_positive(self._orders, self._length, scratch, node)
        return float(
            _grow_path(
                self._values,
                self._targets,
                pairs,
                node,
                size,
                scratch,
                row,
                *_numbers(limits),
                np.uint64(seed),
            )
        )


def _numbers(limits: PathLimits) -> tuple[int, int, int]:
    depth = _NO_LIMIT if limits.max_depth is None else limits.max_depth
    return depth, limits.min_samples_leaf, limits.max_features


def _widened(array: NDArray[Any], capacity: int, used: int) -> NDArray[Any]:
    widened = np.empty((*array.shape[:-1], capacity), array.dtype)
    widened[..., :used] = array[..., :used]
    return widened


@njit(cache=True)
def _insert(values, orders, row):  # type: ignore[no-untyped-def]
    """Put `row` in its place in the order of every column, missing values last."""
    for j in range(values.shape[0]):
        new = values[j, row]
        low, high = 0, row
        while low < high:
            middle = (low + high) // 2
            old = values[j, orders[j, middle]]
            if old <= new or new != new:
                low = middle + 1
            else:
                high = middle
        for i in range(row, low, -1):
            orders[j, i] = orders[j, i - 1]
        orders[j, low] = row


@njit(cache=True)
def next_state(state):  # type: ignore[no-untyped-def]
    """The next state of a splitmix64 stream."""
    return state + uint64(0x9E3779B97F4A7C15)


@njit(cache=True)
def draw_below(state, n):  # type: ignore[no-untyped-def]
    """A whole number below n < 2³² from a splitmix64 state."""
    z = state
    z = (z ^ (z >> uint64(30))) * uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> uint64(27))) * uint64(0x94D049BB133111EB)
    z = z ^ (z >> uint64(31))
    return ((z >> uint64(32)) * uint64(n)) >> uint64(32)


@njit(cache=True)
def _keep_positive(orders, length, positive, node):  # type: ignore[no-untyped-def]
    """Copy the positive rows into `node`, which has a spare place, column by column in their order."""
    for j in range(orders.shape[0]):
        kept = 0
        for i in range(length):
            row = orders[j, i]
            node[j, kept] = row
            kept += positive[row]


@njit(cache=True)
def _weigh_targets(pairs, targets, positive):  # type: ignore[no-untyped-def]
    """Complete the pairs (weight, weight x target) and mark those of positive weight; returns how many."""
    distinct = 0
    for i in range(len(pairs)):
        positive[i] = pairs[i, 0] > 0.0
        distinct += positive[i]
        pairs[i, 1] = pairs[i, 0] * targets[i]
    return distinct


@njit(cache=True)
def _predict_bootstrap(  # type: ignore[no-untyped-def]
    values, orders, targets, length, row, max_depth, min_leaf, n_try, seed
):
    """What a tree grown on a bootstrap sample says of `row`."""
    state = seed
    pairs = np.zeros((length, 2))
    for _ in range(length):
        state = next_state(state)
        pairs[draw_below(state, length), 0] += 1.0
    scratch = np.empty(length, np.uint8)
    distinct = _weigh_targets(pairs, targets, scratch)
    node = np.empty((orders.shape[0], distinct + 1), np.int32)
    _keep_positive(orders, length, scratch, node)
    return _grow_path(values, targets, pairs, node, distinct, scratch, row, max_depth, min_leaf, n_try, state)


@njit(cache=True)
def _grow_path(  # type: ignore[no-untyped-def]
    values, targets, pairs, node, size, scratch, row, max_depth, min_leaf, n_try, state
):
    """Split the node that `row` is in until it is a leaf; its mean. `node` (d, size) is overwritten."""
    width = node.shape[0]
    columns = np.arange(width)
    depth = 0
    while True:
        weight, total, squares = 0.0, 0.0, 0.0
        for i in range(size):
            r = node[0, i]
            weight += pairs[r, 0]
            total += pairs[r, 1]
            squares += pairs[r, 1] * targets[r]
        mean = total / weight
        if depth >= max_depth or size < 2 * min_leaf or squares / weight - mean * mean <= _PURE:
            return mean
        best, column, threshold, missing_left, tried = -np.inf, -1, 0.0, False, 0
        for k in range(width):
            if tried >= n_try:
                break
            state = next_state(state)
            pick = k + np.int64(draw_below(state, width - k))
            columns[k], columns[pick] = columns[pick], columns[k]
            j = columns[k]
            gain, cut, to_left, constant = _best_cut(
                values[j], pairs, node[j], size, weight, total, min_leaf, best
            )
            tried += not constant
            if gain > best:
                best, column, threshold, missing_left = gain, j, cut, to_left
        if column < 0:
            return mean
        size = _follow(values[column], node, size, scratch, row[column], threshold, missing_left)
        depth += 1


@njit(cache=True)
def _best_cut(x, pairs, order, size, weight, total, min_leaf, best):  # type: ignore[no-untyped-def]
    """The cut of one column that lowers the squared error most, if it beats `best`.

    Returns its gain Σ S²/W over both sides, its threshold (at most: left), where missing values go, and
    whether the column is constant here.
    """
    present = size
    while present > 0 and x[order[present - 1]] != x[order[present - 1]]:
        present -= 1
    missing = size - present
    if present == 0 or (missing == 0 and x[order[size - 1]] <= x[order[0]] + _SAME):
        return -np.inf, 0.0, False, True
    missing_weight, missing_total = 0.0, 0.0
    for i in range(present, size):
        missing_weight += pairs[order[i], 0]
        missing_total += pairs[order[i], 1]
    found, place, to_left = best, -1, False
    for search in range(2 if missing else 1):
        w = missing_weight if search else 0.0
        s = missing_total if search else 0.0
        apart = missing if search else 0
        before = x[order[0]]
        for i in range(present):
            r = order[i]
            here = x[r]
            if here > before + _SAME and i + apart >= min_leaf and size - i - apart >= min_leaf:
                rest, left = weight - w, total - s
                gain = (s * s * rest + left * left * w) / (w * rest)
                if gain > found:
                    found, place, to_left = gain, i, search == 1
            before = here
            w += pairs[r, 0]
            s += pairs[r, 1]
        if missing and not search and present >= min_leaf and missing >= min_leaf:
            gain = s * s / w + missing_total * missing_total / missing_weight
            if gain > found:
                found, place, to_left = gain, present, False
    if place < 0:
        return -np.inf, 0.0, False, False
    if place == present:
        return found, np.inf, False, False
    below, above = np.float64(x[order[place - 1]]), np.float64(x[order[place]])
    threshold = below / 2.0 + above / 2.0
    if threshold == above:
        threshold = below
    if missing == 0:
        to_left = place > size - place
    return found, threshold, to_left, False


@njit(cache=True)
def _follow(x, node, size, scratch, value, threshold, missing_left):  # type: ignore[no-untyped-def]
    """Keep in `node` the rows on the side of the cut on which `value` lies; returns how many."""
    goes_left = value <= threshold or (value != value and missing_left)
    for i in range(size):
        r = node[0, i]
        other = x[r]
        left = other <= threshold or (other != other and missing_left)
        scratch[r] = left == goes_left
    kept = 0
    for j in range(node.shape[0]):
        kept = 0
        for i in range(size):
            r = node[j, i]
            node[j, kept] = r
            kept += scratch[r]
    return kept
