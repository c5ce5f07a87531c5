"""Candidates that come again and again: which rows a tree treats alike is found once, and no row is walked any more.

Where many candidates are scored round after round, most columns describe the candidate (a road's ends, an article)
and do not change; the others describe the round (the time of day, a visitor) and are the same for all candidates.
A split of an own column sends each row one way for good; a split of a shared column sends all rows one way, another one
in each round. So rows that no own column parts are one group of a tree, and each leaf has a list of the groups that
end in it whenever the shared columns lead there. Each split of a shared column has two sides, of which one is open in a
round, if its split is on an open side itself. So a round looks at these splits alone, one after the other, lists the
leaves on open sides, hands what each of them says to its groups, and lets every row add up what its groups were told.
"""
# mypy: disallow_untyped_decorators=False
# ruff: noqa: ANN001, ANN201, ANN202

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import uint8, uint32, uint64
from numpy.typing import NDArray

from treebandit.compiled import helper, kernel, njit
from treebandit.core import Features, Floats
from treebandit.trees.forest import Forest
from treebandit.trees.kernels import (
    CHAINS,
    NEXT_DRAW,
    OUTPUT,
    VARIANCE,
    ForestArrays,
    hashed,
    lay_out,
    leaf_noise,
)

#: Fewer rows are walked faster than they are compared with those of the last time.
FEWEST_ROWS = 256
#: Rows and groups are 16-bit numbers.
MOST_ROWS = 1 << 16
#: Entries of the lists per row while one tree is grouped, and in all (64 MB); with more, rows are walked.
MOST_ENTRIES_EACH = 256
MOST_ENTRIES = 1 << 25
#: Grouping costs as much as ten walks: rows must have come again this often, and this often where others are grouped.
REPEATS, PATIENCE = 3, 16
#: Columns of the leaf table, or draws, that are added up together.
_WIDE = 3
_Arrays = tuple[NDArray[Any], ...]


class GroupArrays(NamedTuple):
    """Groups of rows. Those of all trees are numbered on; the last number is for the trees that fill up a block.

    groups: (blocks * CHAINS, n), each row's group in each tree, less the tree's first. first: (blocks * CHAINS,).
    lists: the groups that may end in each leaf.
    splits: (2, s), of all splits by a shared column, the column of a laid-out row, and the side that the split is on.
    Split k has the sides 2k + 1, left, and 2k + 2, right; side 0 is always open. A split comes after those above it.
    thresholds: (s,), of these splits.
    leaves: (4, k + 1), of all leaves that rows may come to, the node, the side it is on, where its list starts, and its
    tree. The last one only tells where the lists end.
    """

    groups: NDArray[np.uint16]
    first: NDArray[np.int64]
    lists: NDArray[np.uint16]
    splits: NDArray[np.int32]
    thresholds: NDArray[np.float32]
    leaves: NDArray[np.int32]


class LeafCache:
    """Watches the rows that a forest is asked about, and groups those that come again and again.

    What leaves know is read anew every time, so learning changes nothing here, and answers are those of the walk to the
    last bit. hits: how often grouped rows came again. Takes at most 64 MB of lists, 2 bytes per row and tree, up to 16
    per node, and two copies of the rows.
    """

    __slots__ = ("_ended", "_forest", "_held", "_last", "_repeats", "hits")

    def __init__(self, forest: Forest) -> None:
        self._forest = forest
        self._last: NDArray[np.uint32] | None = None
        #: The rows, their shared columns, their groups and scratch: set at once, so that no interruption parts them.
        self._held: tuple[NDArray[np.uint32], NDArray[np.bool_], _Arrays, _Arrays] | None = None
        #: The first of the rows whose leaves are listed in the scratch, and how many leaves these are.
        self._ended: tuple[bytes, int] | None = None
        self._repeats = 0
        self.hits = 0

    def score(self, table: Floats, features: Features) -> Floats | None:
        """`kernels.score_rows` of (n, d) rows, (3, n); None where they must be walked."""
        if not self._recall(features) or self._held is None:
            return None
        groups, ended = self._held[2], self._leaves(features)
        values = _values(groups, _WIDE)
        hand_out(groups, ended, table, values)
        return _added(groups, values)

    def sample(
        self, table: Floats, features: Features, key: int, exploration: float, draws: int
    ) -> Floats | None:
        """`kernels.sample_rows` of (n, d) rows, (draws, n); None where they must be walked."""
        if not self._recall(features) or self._held is None:
            return None
        groups, ended = self._held[2], self._leaves(features)
        samples = np.empty((draws, len(features)))
        for k in range(0, draws, _WIDE):
            noise = np.uint64((key + k * NEXT_DRAW) % 2**64), exploration
            wide = min(draws - k, _WIDE)
            drawn, values = np.empty((ended[1], wide)), _values(groups, wide)
            draw_groups(groups, ended, table, noise, drawn, values)
            samples[k : k + _WIDE] = _added(groups, values)
        return samples

    def find_leaves_of(self, tree: int, features: Features) -> NDArray[np.int32] | None:
        """`Forest.find_leaves_of` of (n, d) rows, (n,); None where they must be walked."""
        if self._held is None or not self._recall(features):
            return None
        kept, (leaves, count) = GroupArrays(*self._held[2]), self._leaves(features)
        of_tree = leaves[:count].searchsorted(kept.leaves[3, :-1].searchsorted((tree, tree + 1)))
        mine = leaves[slice(*of_tree)]
        starts, sizes = kept.leaves[2, mine], kept.leaves[2, mine + 1] - kept.leaves[2, mine]
        entries = np.arange(sizes.sum()) + np.repeat(starts - np.cumsum(sizes) + sizes, sizes)
        nodes = np.empty(len(features), np.int32)  # of each group, of which there are no more than rows
        nodes[kept.lists[entries]] = np.repeat(kept.leaves[0, mine], sizes)
        found: NDArray[np.int32] = nodes[kept.groups[tree]]
        return found

    def _leaves(self, features: Features) -> tuple[NDArray[np.uint32], int]:
        """The leaves that the grouped rows end in now, and how many they are; listed once a round."""
        assert self._held is not None
        _, _, groups, scratch = self._held
        first = features[0].tobytes()  # other rows differ from it as they did before
        if self._ended is None or self._ended[0] != first:
            self._ended = None  # an interruption must not leave it beside another list
            self._ended = first, find_group_leaves(features, groups, scratch)
        return scratch[1], self._ended[1]

    def expect(self, before: LeafCache) -> None:
        """Group the rows that another forest's cache holds as soon as they come to this one, not after repeats."""
        if before._held is not None and self._held is None:
            self._last, self._repeats = before._held[0], REPEATS - 1

    def _recall(self, features: Features) -> bool:
        """Whether these rows are grouped, perhaps since now."""
        if not FEWEST_ROWS <= len(features) <= MOST_ROWS:
            return False
        bits = features.view(np.uint32)
        if self._held is not None:
            rows, shared, _, _ = self._held
            columns = np.flatnonzero(shared)
            rows[:, columns] = bits[0, columns]
            if np.array_equal(rows, bits):
                self.hits += 1
                return True
        if self._last is None or not _alike(bits, self._last):
            self._last, self._repeats = bits.copy(), 0
            return False
        self._repeats += 1
        return self._repeats == (REPEATS if self._held is None else PATIENCE) and self._group(features)

    def _group(self, features: Features) -> bool:
        """Group these rows; False where the lists would grow too long."""
        forest, n = self._forest, len(features)
        bits = features.view(np.uint32)
        shared = ~_differs(bits, bits[0])
        # Memory that is never written to is never taken, so the longest lists may be allowed for.
        lists, draft = np.empty(MOST_ENTRIES, np.uint16), np.empty(MOST_ENTRIES_EACH * n, np.uint16)
        trees, nodes = len(forest.arrays[1]), len(forest.nodes)
        groups, first = np.zeros((trees, n), np.uint16), np.zeros(trees, np.int64)
        splits, thresholds = np.empty((2, nodes), np.int32), np.empty(nodes, np.float32)
        leaves, used = np.empty((4, nodes + 1), np.int32), np.zeros(3, np.int64)
        found = GroupArrays(groups, first, lists, splits, thresholds, leaves)
        if not group_rows(forest.arrays, features, shared, draft, tuple(found), used):
            return False
        entries, n_splits, n_leaves = used.tolist()
        lists.resize(entries, refcheck=False)
        found = found._replace(
            splits=splits[:, :n_splits].copy(),
            thresholds=thresholds[:n_splits].copy(),
            leaves=leaves[:, : n_leaves + 1].copy(),
        )
        sides, ended = np.empty(2 * n_splits + 1, np.uint8), np.empty(n_leaves + 1, np.uint32)
        row = np.empty((1, 2 * features.shape[1]), np.float32)
        self._ended = None
        self._held = bits.copy(), shared, tuple(found), (sides, ended, row)
        return True


def _values(groups: _Arrays, wide: int) -> Floats:
    """(groups, wide), with as many as the last tree may have; 0 for trees that fill up a block."""
    last = int(groups[1][-1])
    values = np.empty((last + groups[0].shape[1], wide))
    values[last] = 0.0
    return values


def _added(groups: _Arrays, values: Floats) -> Floats:
    """Sums over the trees of the (groups, wide) values of each row's groups: (wide, n)."""
    sums = np.zeros((values.shape[1], groups[0].shape[1]))
    add = add_groups if values.shape[1] < _WIDE else add_wide_groups
    add(groups, values, sums)
    return sums


def _differs(now: NDArray[np.uint32], before: NDArray[np.uint32]) -> NDArray[np.bool_]:
    """Which columns have a bit that is not as before, (d,)."""
    differs: NDArray[np.bool_] = np.bitwise_or.reduce(now ^ before, axis=0) != 0
    return differs


def _alike(now: NDArray[np.uint32], before: NDArray[np.uint32]) -> bool:
    """Whether each column is as before or the same for all rows; new rows are found by the first few."""
    if now.shape != before.shape or (len(now) > 64 and not _alike(now[:64], before[:64])):
        return False
    changed = np.flatnonzero(_differs(now, before))
    return not _differs(now[:, changed], now[0, changed]).any()


@njit(cache=True)
def group_rows(forest, features, shared, draft, found, used):  # type: ignore[no-untyped-def]
    """Fill GroupArrays; returns whether the lists fit. used: becomes the number of entries, splits and leaves.

    Every node gets a list of the rows that may come to it; nodes come after their parents. A split of an own column
    parts its list in place; one of a shared column hands the list to its left child and copies it for the right one.
    A row's code is the sum of the hashes, 64 bits each, of the leaves that list it; rows of one code are a group.
    draft: scratch for the lists of one tree. Of these the leaves keep one entry per group.
    """
    trees, kept = ForestArrays(*forest), GroupArrays(*found)
    nodes, (n, width) = trees.nodes, features.shape
    mask, shift = uint32((1 << trees.bits) - 1), uint32(trees.bits)
    # Of each node the list of rows, and the side of a shared split that it is on.
    spans, sides = np.zeros((nodes.shape[0], 2), np.int64), np.zeros(nodes.shape[0], np.int32)
    rows, columns = np.empty((n, 2 * width), np.float32), np.empty((2 * width, n), np.float32)
    lay_out(features, 0, n, rows)
    for i in range(n):  # `columns[:] = rows.T` would compile three times as long, for the text of its error
        for j in range(2 * width):
            columns[j, i] = rows[i, j]
    right, codes, leader = np.empty(n, np.uint16), np.empty(n, np.uint64), np.empty(n, np.bool_)
    slots = np.empty(4 * n, np.int32)
    number = 0
    for tree in range(trees.n_trees):
        root = np.int64(trees.roots[tree])
        end = np.int64(trees.roots[tree + 1]) if tree + 1 < trees.n_trees else nodes.shape[0] - 1
        for i in range(n):
            draft[i] = i
        codes[:] = 0
        spans[root, 1], drafted = n, n
        for node in range(root, end):
            step, start, stop = nodes[node].step, spans[node, 0], spans[node, 1]
            left, column = node + np.int64(step >> shift), np.int64(step & mask)
            if start == stop:
                continue
            if step == 0:
                for at in range(start, stop):
                    codes[draft[at]] += hashed(uint64(0), uint64(node))
            elif shared[column % width]:
                if drafted + stop - start > draft.shape[0]:
                    return False
                kept.splits[0, used[1]], kept.splits[1, used[1]] = column, sides[node]
                kept.thresholds[used[1]] = nodes[node].threshold
                sides[left], sides[left + 1] = 2 * used[1] + 1, 2 * used[1] + 2
                used[1] += 1
                spans[left, 0], spans[left, 1] = start, stop
                spans[left + 1, 0], spans[left + 1, 1] = drafted, drafted + stop - start
                for at in range(start, stop):
                    draft[drafted] = draft[at]
                    drafted += 1
            else:
                sides[left], sides[left + 1] = sides[node], sides[node]
                # Without branches: each row is written to both sides, and only the side it belongs to moves on.
                threshold, values = nodes[node].threshold, columns[column]
                low, high = uint64(start), uint64(0)
                for at in range(uint64(start), uint64(stop)):
                    row = draft[at]
                    goes_right = uint64(values[uint64(row)] >= threshold)
                    draft[low] = row
                    right[high] = row
                    low += uint64(1) - goes_right
                    high += goes_right
                for at in range(high):
                    draft[low + at] = right[at]
                spans[left, 0], spans[left, 1] = start, np.int64(low)
                spans[left + 1, 0], spans[left + 1, 1] = np.int64(low), stop
        kept.first[tree] = number
        slots[:] = -1
        for i in range(n):
            slot = codes[i] % uint64(4 * n)
            while slots[slot] >= 0 and codes[slots[slot]] != codes[i]:
                slot = (slot + uint64(1)) % uint64(4 * n)
            leader[i] = slots[slot] < 0
            if leader[i]:
                slots[slot] = i
                kept.groups[tree, i] = number - kept.first[tree]
                number += 1
            kept.groups[tree, i] = kept.groups[tree, slots[slot]]
        for node in range(root, end):
            if nodes[node].step == 0 and spans[node, 0] < spans[node, 1]:
                if used[0] + spans[node, 1] - spans[node, 0] > kept.lists.shape[0]:
                    return False
                kept.leaves[0, used[2]], kept.leaves[1, used[2]] = node, sides[node]
                kept.leaves[2, used[2]], kept.leaves[3, used[2]] = used[0], tree
                used[2] += 1
                for at in range(spans[node, 0], spans[node, 1]):
                    if leader[draft[at]]:
                        kept.lists[used[0]] = kept.groups[tree, draft[at]]
                        used[0] += 1
    kept.leaves[2, used[2]] = used[0]
    kept.first[trees.n_trees :] = number
    return True


@kernel
def find_group_leaves(features, found, scratch):  # type: ignore[no-untyped-def]
    """List the leaves that groups end in, shared columns being as in these rows; returns how many.

    scratch: which sides are open, the numbers of the leaves on them, and a row as laid out. No branch depends on what
    is found.
    """
    kept, (is_open, ended, row) = GroupArrays(*found), scratch
    splits, leaves = kept.splits, kept.leaves
    lay_out(features, 0, 1, row)
    is_open[0] = 1
    for k in range(uint64(splits.shape[1])):
        above, value = is_open[uint64(splits[1, k])], row[0, uint64(splits[0, k])]
        goes_right = uint8(value >= kept.thresholds[k])
        is_open[uint64(2) * k + uint64(1)] = above & (uint8(1) ^ goes_right)
        is_open[uint64(2) * k + uint64(2)] = above & goes_right
    count = uint64(0)
    for k in range(uint64(leaves.shape[1] - 1)):
        ended[count] = k
        count += uint64(is_open[uint64(leaves[1, k])])
    return count


@helper
def _write_leaf(kept, leaf, given, values):  # type: ignore[no-untyped-def]
    """Write what a leaf says to all groups that end in it."""
    first = uint64(kept.first[kept.leaves[3, leaf]])
    for at in range(uint64(kept.leaves[2, leaf]), uint64(kept.leaves[2, leaf + uint64(1)])):
        for k in range(uint64(values.shape[1])):
            values[first + uint64(kept.lists[at]), k] = given[k]


@kernel
def hand_out(found, ended, table, values):  # type: ignore[no-untyped-def]
    """Write the first columns of the leaf table for each group into (groups, _WIDE) values."""
    kept, (leaves, count) = GroupArrays(*found), ended
    for i in range(count):
        leaf = uint64(leaves[i])
        _write_leaf(kept, leaf, table[uint64(kept.leaves[0, leaf])], values)


@kernel
def draw_groups(found, ended, table, noise, drawn, values):  # type: ignore[no-untyped-def]
    """Write draws of o + exploration · √(s²/c) · noise of each group's leaf into (groups, wide) values.

    drawn: scratch, (leaves, wide). All leaves are drawn first, without branches, so that one need not wait until what
    another knows has come from memory.
    """
    kept, (leaves, count), (key, exploration) = GroupArrays(*found), ended, noise
    for i in range(count):
        node = uint64(kept.leaves[0, uint64(leaves[i])])
        output, deviation = table[node, OUTPUT], exploration * np.sqrt(table[node, VARIANCE])
        for k in range(uint64(drawn.shape[1])):
            drawn[i, k] = output + deviation * leaf_noise(key + k * uint64(NEXT_DRAW), node)
    for i in range(count):
        _write_leaf(kept, uint64(leaves[i]), drawn[i], values)


@kernel
def add_groups(found, values, sums):  # type: ignore[no-untyped-def]
    """Add the (groups, wide) values of each row's groups to (wide, n) sums, tree by tree."""
    kept = GroupArrays(*found)
    groups, n = kept.groups, kept.groups.shape[1]
    for block in range(uint64(0), uint64(groups.shape[0]), uint64(CHAINS)):
        for k in range(values.shape[1]):
            for i in range(uint64(n)):
                total = sums[k, i]
                for j in range(uint64(CHAINS)):
                    total += values[uint64(kept.first[block + j]) + uint64(groups[block + j, i]), k]
                sums[k, i] = total


@kernel
def add_wide_groups(found, values, sums):  # type: ignore[no-untyped-def]
    """The same for `_WIDE` values of each group: where a group is, is read once for all."""
    kept = GroupArrays(*found)
    groups, n = kept.groups, kept.groups.shape[1]
    for block in range(uint64(0), uint64(groups.shape[0]), uint64(CHAINS)):
        for i in range(uint64(n)):
            a, b, c = sums[0, i], sums[1, i], sums[2, i]
            for j in range(uint64(CHAINS)):
                group = uint64(kept.first[block + j]) + uint64(groups[block + j, i])
                a += values[group, 0]
                b += values[group, 1]
                c += values[group, 2]
            sums[0, i], sums[1, i], sums[2, i] = a, b, c
