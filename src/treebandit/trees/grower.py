"""The compiled growth of regression trees on binned rows: whole trees, or only the path that one row takes.

A node's rows lie side by side in one array of row numbers, and a split parts them in place. Per column, the rows'
moments are added up by code (a histogram), and one pass over the codes finds the best cut. Four tricks:

- A moment is one complex number, so that one addition adds a row: its imaginary part is weight · target, its real part
  weight + ROW. Sums of real parts hold the weight (a bootstrap counts a row several times) below ROW, and the number of
  different rows (what the least size of a leaf is about) above.
- Of two large siblings only the smaller is added up, for all columns; the histogram of the other is the parent's minus
  that. The smaller one is grown first, so that log₂ n histograms are enough.
- A split sends codes in [low, high) to the right, whatever the column: one comparison without branches parts numbers,
  with missing values on either side, and one-hot categories.
- A node draws its columns by a key that it has from its parent. So a path is that of the whole tree, bit by bit.
"""
# mypy: disallow_untyped_decorators=False
# ruff: noqa: ANN001, ANN201, ANN202

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import int64, uint64
from numpy.typing import NDArray

from treebandit.compiled import njit
from treebandit.core import Floats

ROW = 2.0**26
NO_LIMIT = 1 << 30
#: Right end of a split that sends all higher codes to the right, missing values included.
ALL_CODES = (1 << 31) - 1
#: Nodes of fewer rows are added up for the columns they try, without a histogram to subtract from; so are all nodes
#: where a column has more than _WIDE bins.
_LARGE = 64
_WIDE = 256
#: Columns added up at a time, so that their histograms stay in the first-level cache.
_BLOCK = 32
_STEP = np.uint64(0x9E3779B97F4A7C15)
_HALF = np.uint64(32)

_FIELDS = {
    "c16": "moment",
    "u8": "key",
    "i4": "left right group low high depth start stop next",
    "i2": "slot sibling",
}
#: A node: its children, -1 at a leaf; its split (group, low, high); the moment of its rows. The others are for growing:
#: its rows, its histogram (0: none), that of its sibling if its rows must be subtracted there, and which node is next.
NODE = np.dtype([(name, kind) for kind, names in _FIELDS.items() for name in names.split()], align=True)


class Table(NamedTuple):
    """(n, groups) codes; the number of each group's bins, which is its code of missing values; which are one-hot.

    levels: (groups, most bins + 1), what the codes of a column stand for, rising, ∞ from its width on.
    """

    codes: NDArray[np.uint8] | NDArray[np.uint32]
    widths: NDArray[np.int64]
    one_hot: NDArray[np.bool_]
    levels: NDArray[np.float32]


class Sample(NamedTuple):
    """What a tree is grown on: (n,) targets, how often each row counts, (n,), and how many of the rows are drawn."""

    targets: Floats
    weights: NDArray[np.int32]
    size: int


class Limits(NamedTuple):
    """How large a tree may get; how many groups a node tries, and of which; the seed of these draws."""

    max_depth: int
    min_leaf: int
    tried: int
    groups: NDArray[np.int64]
    seed: int = 0


class Paths(NamedTuple):
    """The codes of a row whose path is grown; in how many trees, and whether each has a bootstrap of its own."""

    row: NDArray[np.uint8] | NDArray[np.uint32]
    n_trees: int
    bagged: bool


class Work(NamedTuple):
    """Arrays to work in, for any number of trees on one table. The first histogram is that of small nodes."""

    rows: NDArray[np.uint32]
    aside: NDArray[np.uint32]
    moments: NDArray[np.complex128]
    histograms: NDArray[np.complex128]
    columns: NDArray[np.uint32]
    bins: NDArray[np.uint32]


def most_nodes(table: Table, limits: Limits) -> int:
    """The most nodes that a tree can have."""
    leaves = max(1, len(table.codes) // limits.min_leaf)
    return 2 * min(leaves, 1 << min(limits.max_depth, 30)) - 1


def workspace(table: Table, limits: Limits) -> Work:
    """Arrays for trees within these limits."""
    n, groups = table.codes.shape
    # Where few columns are tried, adding up all of them for a difference would cost more than it saves.
    widest = int(table.widths.max(initial=0))
    large = n // _LARGE if 3 * limits.tried >= groups and widest <= _WIDE else 0
    return Work(
        rows=np.empty(n + 1, np.uint32),
        aside=np.empty(n + 1, np.uint32),
        moments=np.empty(n, np.complex128),
        histograms=np.zeros((1 + large.bit_length(), groups, widest + 1), np.complex128),
        columns=np.empty((2, groups + 1), np.uint32),
        bins=np.empty(widest + 2, np.uint32),
    )


def means(nodes: NDArray[np.void]) -> Floats:
    """Σ weight · target / Σ weight of each node's rows."""
    moments = nodes["moment"]
    mean: Floats = moments.imag / (moments.real % ROW)
    return mean


def _inner() -> Any:
    """A function that only other kernels call: nothing is compiled to call it from Python, and nothing kept on disk."""
    return njit(cache=False, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)


@_inner()
def _mix(bits):  # type: ignore[no-untyped-def]
    """64 random bits from any others (the finish of splitmix64)."""
    bits = (bits ^ (bits >> uint64(30))) * uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> uint64(27))) * uint64(0x94D049BB133111EB)
    return bits ^ (bits >> uint64(31))


@_inner()
def _below(n, key, place):  # type: ignore[no-untyped-def]
    """The number at `place` in the stream of random whole numbers below n that belongs to the key."""
    return int64(((_mix(key + _STEP * uint64(place)) >> _HALF) * uint64(n)) >> _HALF)


@_inner()
def _add_all(codes, moments, rows, histogram, sign):  # type: ignore[no-untyped-def]
    """Add the moments of rows, times the sign, to the histograms of all groups."""
    groups = codes.shape[1]
    for first in range(0, groups, _BLOCK):
        last = first + _BLOCK if first + _BLOCK < groups else groups
        for row in rows:
            moment = moments[row] if sign > 0 else -moments[row]
            for group in range(first, last):
                histogram[group, codes[row, group]] += moment


@_inner()
def _add_some(codes, moments, rows, groups, histogram):  # type: ignore[no-untyped-def]
    """Add the moments of rows to the histograms of some groups."""
    for row in rows:
        moment = moments[row]
        for group in groups:
            histogram[group, codes[row, group]] += moment


@_inner()
def _move(histogram, other, clear):  # type: ignore[no-untyped-def]
    """Subtract another histogram from this one, or clear it."""
    for group in range(len(histogram)):
        for code in range(histogram.shape[1]):
            histogram[group, code] = 0.0 if clear else histogram[group, code] - other[group, code]


@_inner()
def _sorted_codes(codes, rows, group, bins):  # type: ignore[no-untyped-def]
    """List the codes of a few rows in one group, rising; returns how many different ones (shell sort)."""
    size, gap = len(rows), 1
    for i in range(size):
        bins[i] = codes[rows[i], group]
    while 3 * gap + 1 < size:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(gap, size):
            code, j = bins[i], i
            while j >= gap and bins[j - gap] > code:
                bins[j] = bins[j - gap]
                j -= gap
            bins[j] = code
        gap //= 3
    count = 1
    for i in range(1, size):
        bins[count] = bins[i]
        count += bins[i] != bins[count - 1]
    return count


@_inner()
def _filled_bins(codes, rows, group, histogram, bins):  # type: ignore[no-untyped-def]
    """List the codes that a node has in one group, whose histogram may be much longer than that; returns how many."""
    if 8 * len(rows) < len(histogram) and len(histogram) > _WIDE:
        return _sorted_codes(codes, rows, group, bins)
    count = 0
    for code in range(len(histogram)):
        bins[count] = code
        count += histogram[code].real > 0.0
    return count


@_inner()
def _best_cut(table, group, histogram, bins, node, min_leaf):  # type: ignore[no-untyped-def]
    """Split gain of the best cut of one group, of which the node has the codes `bins`; -1 for none.

    Then the codes that it parts, neighbours in this node (of one-hot codes, the one that goes right, twice), and
    whether missing values go left.

    The gain is (S - w · mean)² / (w · (W - w)), with S the sum of targets and w the weight of a side, mean and W those
    of the node: what the squared error falls by, but for a factor. Fractions are compared by products, which saves a
    division per code.
    """
    width, one_hot, all_rows = table.widths[group], table.one_hot[group], node.moment.real
    weight = all_rows - ROW * (node.stop - node.start)
    mean = node.moment.imag / weight
    least, most = min_leaf * ROW, all_rows - min_leaf * ROW
    count, missing = len(bins), 0j
    if bins[count - 1] == width:
        count -= 1
        missing = histogram[width]
    gain, divisor, best, missing_left = -1.0, 1.0, -1, False
    for left_too in range(2 if missing.real > 0.0 else 1):
        side = missing if left_too else 0j
        for i in range(count):
            code = bins[i]
            side = histogram[code] if one_hot else side + histogram[code]
            if least <= side.real <= most and (code > 0 or not one_hot):
                side_weight = side.real - ROW * np.floor(side.real / ROW)
                excess = side.imag - mean * side_weight
                product = side_weight * (weight - side_weight)
                if excess * excess * divisor > gain * product:
                    gain, divisor, best = excess * excess, product, i
                    # Where a node has no missing values, they will go where more of its rows go.
                    missing_left = left_too == 1 or (missing.real == 0.0 and 2.0 * side.real >= all_rows)
    if best < 0:
        return -1.0, 0, 0, False
    below = int64(bins[best])
    above = below if one_hot else width if best == count - 1 else int64(bins[best + 1])
    return gain / divisor, below, above, missing_left


@_inner()
def _set_split(table, node, below, above, missing_left):  # type: ignore[no-untyped-def]
    """Put the threshold halfway between two codes, as far as what they stand for goes."""
    group = node.group
    if below == above:  # one-hot
        node.low, node.high = below, below + 1
        return
    levels = table.levels[group]
    middle = 0.5 * levels[below] + 0.5 * levels[above]
    low = below + 1
    while low < above:
        probe = (low + above) // 2
        if levels[probe] < middle:
            low = probe + 1
        else:
            above = probe
    node.low, node.high = low, table.widths[group] if missing_left else ALL_CODES


@_inner()
def _draw_columns(columns, untried, wanted, key):  # type: ignore[no-untyped-def]
    """Move `wanted` of the first `untried` columns[0] to columns[1], any as likely as the others; both stay sorted."""
    drawn, kept = 0, 0
    for j in range(untried):
        group = columns[0, j]
        taken = _below(untried - j, key, j) < wanted - drawn
        columns[1, drawn] = group
        columns[0, kept] = group
        drawn += taken
        kept += 1 - taken


@njit(cache=False, error_model="numpy", inline="always")
def _best_split(table, limits, work, node):  # type: ignore[no-untyped-def]
    """Give the node the best split among `tried` groups drawn at random; returns its gain, negative for none.

    A group of which the node has one code only does not count as tried. Of equal gains a random one is taken, not that
    of the first column.
    """
    columns, histogram, key = work.columns, work.histograms[node.slot], node.key
    rows = work.rows[node.start : node.stop]
    untried, wanted = len(limits.groups), limits.tried
    for j in range(untried):
        columns[0, j] = limits.groups[j]
    best, below, above, missing_left = -1.0, 0, 0, False
    while wanted > 0 and untried > 0:
        drawn = wanted if wanted < untried else untried
        _draw_columns(columns, untried, drawn, key)
        untried -= drawn
        key = _mix(key)
        if node.slot == 0:
            _add_some(table.codes, work.moments, rows, columns[1, :drawn], histogram)
        for j in range(drawn):
            group = int64(columns[1, j])
            filled = histogram[group, : table.widths[group] + 1]
            count = _filled_bins(table.codes, rows, group, filled, work.bins)
            if count > 1:
                wanted -= 1
                bins = work.bins[:count]
                gain, first, second, left = _best_cut(table, group, filled, bins, node, limits.min_leaf)
                tied = gain == best >= 0.0
                if gain > best or (tied and _mix(key + uint64(group)) > _mix(key + uint64(node.group))):
                    best, node.group = gain, group
                    below, above, missing_left = first, second, left
            if node.slot == 0:
                for i in range(count):
                    histogram[group, work.bins[i]] = 0.0
    if best >= 0.0:
        _set_split(table, node, below, above, missing_left)
    return best


@_inner()
def _part_rows(codes, rows, aside, node):  # type: ignore[no-untyped-def]
    """Put the rows that go left before those that go right, both in their order; returns how many go left."""
    left, right = 0, 0
    for row in rows:
        code = codes[row, node.group]
        goes_right = (code >= node.low) & (code < node.high)
        rows[left] = row
        aside[right] = row
        right += goes_right
        left += 1 - goes_right
    for k in range(right):
        rows[left + k] = aside[k]
    return left


@_inner()
def _sum_rows(targets, moments, rows):  # type: ignore[no-untyped-def]
    """Sum of the rows' moments, and whether their targets differ."""
    moment, lowest, highest = 0j, np.inf, -np.inf
    for row in rows:
        moment += moments[row]
        target = targets[row]
        lowest = target if target < lowest else lowest
        highest = target if target > highest else highest
    return moment, highest - lowest > 1e-12 * (abs(highest) + abs(lowest))


@_inner()
def _draw_rows(sample, work, key):  # type: ignore[no-untyped-def]
    """Draw rows without replacement, list those of positive weight with their moments; returns how many."""
    n, count, drawn = len(sample.targets), 0, 0
    for row in range(n):
        taken = sample.size == n or _below(n - row, key, row) < sample.size - drawn
        drawn += taken
        weight = float(sample.weights[row])
        work.moments[row] = complex(weight + ROW, weight * sample.targets[row])
        work.rows[count] = row
        count += taken and weight > 0.0
    return count


@njit(error_model="numpy")
def grow_tree(table, sample, limits, follow, nodes, work):  # type: ignore[no-untyped-def]
    """Grow one tree on the rows of positive weight, from the root at nodes[0]; returns its number of nodes.

    follow: the codes of a row, (groups,): only the nodes that this row passes are grown. Empty for a whole tree.
    """
    histograms = work.histograms
    root = nodes[0]
    root.key = _mix(uint64(limits.seed))
    root.start, root.stop, root.depth, root.next = 0, _draw_rows(sample, work, uint64(limits.seed)), 0, -1
    root.slot, root.sibling = 0, 0
    size, place = 1, 0
    while place >= 0:
        node = nodes[place]
        place = node.next
        rows = work.rows[node.start : node.stop]
        moment, mixed = _sum_rows(sample.targets, work.moments, rows)
        node.moment, node.left, node.right = moment, -1, -1
        node.group, node.low, node.high = 0, 0, 0
        splittable = mixed and node.depth < limits.max_depth and len(rows) >= 2 * limits.min_leaf
        fresh = splittable and node.slot == 0 and len(rows) >= _LARGE and len(histograms) > 1
        if fresh:
            node.slot = node.sibling + 1
            _move(histograms[node.slot], histograms[node.slot], True)
        if fresh or node.sibling:
            to = node.slot if fresh else node.sibling
            _add_all(table.codes, work.moments, rows, histograms[to], 1 if fresh else -1)
        if fresh and node.sibling:
            _move(histograms[node.sibling], histograms[node.slot], False)
        if not splittable or _best_split(table, limits, work, node) < 0.0:
            continue
        left = _part_rows(table.codes, rows, work.aside, node)
        larger = 0 if 2 * left > len(rows) else 1
        followed = -1
        if len(follow):
            followed = 1 if node.low <= follow[node.group] < node.high else 0
        # The larger child takes its parent's histogram over; until the smaller one is grown, that holds both.
        heir = followed != 1 - larger and (left if larger == 0 else len(rows) - left) >= _LARGE
        heir = heir and node.depth + 1 < limits.max_depth
        node.left, node.right = size, size + 1
        for i in range(2):
            side = larger if i == 0 else 1 - larger
            child = nodes[size + side]
            child.start = node.start if side == 0 else node.start + left
            child.stop = node.start + left if side == 0 else node.stop
            child.slot = node.slot if heir and i == 0 else 0
            child.sibling = node.slot if heir and i == 1 else 0
            child.key = _mix(node.key - _STEP * uint64(side + 1))
            child.depth = node.depth + 1
            if followed == 1 - side:  # never split; only looked at where the sibling's histogram needs it
                child.depth = limits.max_depth
                if child.sibling == 0:
                    continue
            child.next = place
            place = size + side
        size += 2
    return size


@njit(error_model="numpy")
def predict_paths(table, targets, limits, paths, nodes, work):  # type: ignore[no-untyped-def]
    """Mean prediction for a row by trees on one bootstrap sample of all rows, each grown along the row's path.

    Where trees are bagged, each is grown on a bootstrap of that sample.
    """
    n, key = len(targets), uint64(limits.seed)
    drawn, weights = np.empty(n, np.uint32), np.empty(n, np.int32)
    for i in range(n):
        drawn[i] = _below(n, key, i)
    total = 0.0
    for _ in range(paths.n_trees):
        key = _mix(key)
        for i in range(n):
            weights[i] = 0
        for i in range(n):
            weights[drawn[_below(n, key, i) if paths.bagged else i]] += 1
        own = Limits(limits.max_depth, limits.min_leaf, limits.tried, limits.groups, int64(key))
        grow_tree(table, Sample(targets, weights, n), own, paths.row, nodes, work)
        node = nodes[0]
        while node.left >= 0:
            goes_right = node.low <= paths.row[node.group] < node.high
            node = nodes[node.right if goes_right else node.left]
        total += node.moment.imag / (node.moment.real - ROW * (node.stop - node.start))
    return total / paths.n_trees
