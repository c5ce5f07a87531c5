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

from typing import NamedTuple

import numpy as np
from numba import uint32, uint64
from numpy.typing import NDArray

from treebandit.compiled import helper, long_kernel, njit
from treebandit.core import Floats
from treebandit.trees.kernels import STEP, mix
from treebandit.trees.split_search import ROW, WIDE, add_all, best_split, draw_below, move

NO_LIMIT = 1 << 30
#: Nodes of fewer rows are added up for the columns they try, without a histogram to subtract from; so are all nodes
#: where a column has more than WIDE bins.
_LARGE = 64

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

    levels: (groups, most bins + 1), the values of a column's codes, rising, ∞ from its width on.
    starts: (groups + 1,), where a group's bins begin in a histogram.
    """

    codes: NDArray[np.uint8] | NDArray[np.uint32]
    widths: NDArray[np.int64]
    one_hot: NDArray[np.bool_]
    levels: NDArray[np.float32]
    starts: NDArray[np.uint64]


class Sample(NamedTuple):
    """What trees are grown on: (n,) targets, how often each row counts, (n,), and how many of the rows each draws.

    in_bag: (trees, n), becomes whether each row was drawn; or empty.
    """

    targets: Floats
    weights: NDArray[np.int32]
    size: int
    in_bag: NDArray[np.bool_]


class Limits(NamedTuple):
    """How large a tree may get; how many groups a node tries, and of which."""

    max_depth: int
    min_leaf: int
    tried: int
    groups: NDArray[np.int64]


class Paths(NamedTuple):
    """The codes of a row whose path is grown; in how many trees, whether each has a bootstrap of its own; a seed."""

    row: NDArray[np.uint8] | NDArray[np.uint32]
    n_trees: int
    bagged: bool
    seed: int


class Work(NamedTuple):
    """Arrays to work in, for any number of trees on one table. The first histogram is that of small nodes.

    words: (groups, words), a bit for each bin of a group that is tried.
    """

    rows: NDArray[np.uint32]
    aside: NDArray[np.uint32]
    moments: NDArray[np.complex128]
    histograms: NDArray[np.complex128]
    columns: NDArray[np.uint32]
    bins: NDArray[np.uint32]
    words: NDArray[np.uint64]


def most_nodes(table: Table, limits: Limits) -> int:
    """The most nodes that a tree can have."""
    leaves = max(1, len(table.codes) // limits.min_leaf)
    return 2 * min(leaves, 1 << min(limits.max_depth, 30)) - 1


def starts_of(widths: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Where the bins of each group begin in a histogram, and where the last ones end: (groups + 1,)."""
    return np.concatenate([[0], np.cumsum(widths + 1)]).astype(np.uint64)


def workspace(table: Table, limits: Limits) -> Work:
    """Arrays for trees within these limits."""
    n, groups = table.codes.shape
    # Where few columns are tried, adding up all of them for a difference would cost more than it saves.
    widest = max(table.widths.tolist(), default=0)
    large = n // _LARGE if 3 * limits.tried >= groups and widest <= WIDE else 0
    return Work(
        rows=np.empty(n + 1, np.uint32),
        aside=np.empty(n + 1, np.uint32),
        moments=np.empty(n, np.complex128),
        histograms=np.zeros((1 + large.bit_length(), int(table.starts[-1])), np.complex128),
        columns=np.empty((2, groups + 1), np.uint32),
        bins=np.empty(widest + 2, np.uint32),
        words=np.zeros((groups, widest // 64 + 1), np.uint64),
    )


def means(nodes: NDArray[np.void]) -> Floats:
    """Σ weight · target / Σ weight of each node's rows."""
    moments, rows = nodes["moment"], nodes["stop"] - nodes["start"]
    mean: Floats = moments.imag / (moments.real - ROW * rows)
    return mean


@helper
def _part_rows(codes, rows, aside, moments, node):  # type: ignore[no-untyped-def]
    """Put the rows that go left before those that go right, both in their order.

    Returns how many go left, and the sums of the moments of both sides.
    """
    left, right, left_sum, right_sum, group = 0, 0, 0j, 0j, uint64(node.group)
    low, beyond = uint32(node.low), uint32(node.high) - uint32(node.low)
    for row in rows:
        # One comparison for both ends: codes below `low` wrap around to large numbers.
        goes_right = uint32(uint32(codes[row, group]) - low) < beyond
        rows[left] = row
        aside[right] = row
        right += goes_right
        left += 1 - goes_right
        moment = moments[row]
        right_sum += moment if goes_right else 0j
        left_sum += 0j if goes_right else moment
    for k in range(right):
        rows[left + k] = aside[k]
    return left, left_sum, right_sum


@helper
def _differ(targets, rows):  # type: ignore[no-untyped-def]
    """Whether the targets of rows differ by more than rounding."""
    lowest, highest = np.inf, -np.inf
    for row in rows:
        target = targets[row]
        lowest = target if target < lowest else lowest
        highest = target if target > highest else highest
        if highest - lowest > 1e-12 * (abs(highest) + abs(lowest)):
            return True
    return False


@helper
def _draw_rows(sample, rows, moments, key, tree):  # type: ignore[no-untyped-def]
    """Draw rows without replacement, list those of positive weight with their moments; how many, and their sum."""
    n, count, drawn, total = len(sample.targets), 0, 0, 0j
    noted = len(sample.in_bag) > 0
    for row in range(n):
        taken = sample.size == n or draw_below(n - row, key, row) < sample.size - drawn
        drawn += taken
        weight = float(sample.weights[row])
        moment = complex(weight + ROW, weight * sample.targets[row])
        moments[row] = moment
        rows[count] = row
        counts = taken and weight > 0.0
        if noted:
            sample.in_bag[tree, row] = counts
        count += counts
        total += moment if counts else 0j
    return count, total


@long_kernel
def grow_trees(table_, sample_, limits_, follow, keys, drafts, sizes, work_):  # type: ignore[no-untyped-def]
    """Grow trees on the rows of positive weight, one for each key, one behind the other; sizes: their nodes.

    table_, sample_, limits_, work_: Table, Sample, Limits and Work, as plain tuples. The root of a tree is its first
    node, and children are numbered within the tree.
    follow: the codes of a row, (groups,): only the nodes that this row passes are grown. Empty for whole trees.
    """
    table, sample, limits, work = Table(*table_), Sample(*sample_), Limits(*limits_), Work(*work_)
    codes, histograms, used = table.codes, work.histograms, 0
    for tree in range(len(keys)):
        nodes = drafts[used:]
        root = nodes[0]
        root.key = mix(keys[tree])
        root.stop, root.moment = _draw_rows(sample, work.rows, work.moments, keys[tree], tree)
        root.start, root.depth, root.next, root.slot, root.sibling, root.left = 0, 0, -1, 0, 0, -1
        size, place = 1, 0
        while place >= 0:
            node = nodes[place]
            place = node.next
            rows = work.rows[node.start : node.stop]
            passed = node.left == -1
            node.left, node.right = -1, -1
            node.group, node.low, node.high = 0, 0, 0
            splittable = node.depth < limits.max_depth and len(rows) >= 2 * limits.min_leaf
            splittable = splittable and _differ(sample.targets, rows)
            fresh = splittable and node.slot == 0 and len(rows) >= _LARGE and len(histograms) > 1
            if fresh:
                node.slot = node.sibling + 1
                move(histograms, node.slot, node.slot)
            if fresh or node.sibling:
                to = node.slot if fresh else node.sibling
                add_all(codes, rows, work.moments, histograms[to], table.starts, 1 if fresh else -1)
            if fresh and node.sibling:
                move(histograms, node.sibling, node.slot)
            if not (splittable and passed) or best_split(table, limits, work, node) < 0.0:
                continue
            left, left_sum, right_sum = _part_rows(codes, rows, work.aside, work.moments, node)
            larger = 0 if 2 * left > len(rows) else 1
            followed = -1
            if len(follow):
                followed = 1 if node.low <= follow[node.group] < node.high else 0
            # The larger child takes its parent's histogram over; until the smaller one is grown, that holds both.
            inherits = followed != 1 - larger and (left if larger == 0 else len(rows) - left) >= _LARGE
            inherits = inherits and node.depth + 1 < limits.max_depth
            node.left, node.right = size, size + 1
            for i in range(2):
                side = larger if i == 0 else 1 - larger
                child = nodes[size + side]
                child.start = node.start if side == 0 else node.start + left
                child.stop = node.start + left if side == 0 else node.stop
                child.moment = left_sum if side == 0 else right_sum
                child.slot = node.slot if inherits and i == 0 else 0
                child.sibling = node.slot if inherits and i == 1 else 0
                child.key = mix(node.key - STEP * uint64(side + 1))
                child.depth, child.left = node.depth + 1, -1
                # Never split, and only looked at where its sibling's histogram needs it: which is then subtracted
                # from in the same way as in a whole tree, or ties could fall otherwise by rounding.
                if followed == 1 - side:
                    if child.sibling == 0:
                        continue
                    child.left = -2
                child.next = place
                place = size + side
            size += 2
        sizes[tree] = size
        used += size


@njit(error_model="numpy")
def predict_paths(table, targets, limits, paths, nodes, work):  # type: ignore[no-untyped-def]
    """Mean prediction for a row by trees on one bootstrap sample of all rows, each grown along the row's path.

    Where trees are bagged, each is grown on a bootstrap of that sample.
    """
    n, key = len(targets), uint64(paths.seed)
    drawn, weights, no_bags = np.empty(n, np.uint32), np.empty(n, np.int32), np.empty((0, 0), np.bool_)
    keys, sizes = np.empty(1, np.uint64), np.empty(1, np.int64)
    for i in range(n):
        drawn[i] = draw_below(n, key, i)
    total = 0.0
    for _ in range(paths.n_trees):
        key = mix(key)
        for i in range(n):
            weights[i] = 0
        for i in range(n):
            weights[drawn[draw_below(n, key, i) if paths.bagged else i]] += 1
        keys[0] = key
        grow_trees(table, Sample(targets, weights, n, no_bags), limits, paths.row, keys, nodes, sizes, work)
        node = nodes[0]
        while node.left >= 0:
            goes_right = node.low <= paths.row[node.group] < node.high
            node = nodes[node.right if goes_right else node.left]
        total += node.moment.imag / (node.moment.real - ROW * (node.stop - node.start))
    return total / paths.n_trees
