"""Candidates that come again and again: which rows a tree treats alike is found once, and no row is walked any more.

Where many candidates are scored round after round, most columns describe the candidate (a road's ends, an article)
and do not change; the others describe the round (the time of day, a visitor) and are the same for all candidates.
A split of an own column sends each row one way for good; a split of a shared column sends all rows one way, another one
in each round. So rows that no own column parts are one group of a tree, and each leaf has a list of the groups that
end in it whenever the shared columns lead there. A round follows the shared columns down each tree once, hands what
each leaf says to its groups, and lets every row add up what its groups were told.
"""
# mypy: disallow_untyped_decorators=False
# ruff: noqa: ANN001, ANN201, ANN202

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import uint32, uint64
from numpy.typing import NDArray

from treebandit.compiled import njit
from treebandit.core import Features, Floats
from treebandit.trees.forest import Forest
from treebandit.trees.kernels import CHAINS, NEXT_DRAW, ForestArrays, add_draws, hashed, helper, lay_out

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


class GroupArrays(NamedTuple):
    """Groups of rows. Those of all trees are numbered on; the last number is for the trees that fill up a block.

    groups: (blocks * CHAINS, n), each row's group in each tree, less the tree's first. first: (blocks * CHAINS,).
    lists: the groups that may end in each leaf. spans: (nodes, 2), a leaf's start and stop in `lists`; of other nodes
    only whether these differ counts: there are rows that may come.
    """

    groups: NDArray[np.uint16]
    first: NDArray[np.int64]
    lists: NDArray[np.uint16]
    spans: NDArray[np.int64]


class LeafCache:
    """Watches the rows that a forest is asked about, and groups those that come again and again.

    What leaves know is read anew every time, so learning changes nothing here, and answers are those of the walk to the
    last bit. hits: how often grouped rows came again. Takes at most 64 MB of lists, 2 bytes per row and tree, 16 per
    node, and two copies of the rows.
    """

    __slots__ = ("_forest", "_held", "_last", "_repeats", "hits")

    def __init__(self, forest: Forest) -> None:
        self._forest = forest
        self._last: NDArray[np.uint32] | None = None
        #: The rows, their shared columns and their groups: set at once, so that no interruption parts them.
        self._held: tuple[NDArray[np.uint32], NDArray[np.bool_], tuple[NDArray[Any], ...]] | None = None
        self._repeats = 0
        self.hits = 0

    def score(self, table: Floats, features: Features) -> Floats | None:
        """`kernels.score_rows` of (n, d) rows, (3, n); None where they must be walked."""
        if not self._recall(features) or self._held is None:
            return None
        _, shared, groups = self._held
        ended = find_group_leaves(self._forest.arrays, features, shared, groups)
        sums: Floats = add_groups(groups, hand_out(groups, ended, table))
        return sums

    def sample(
        self, table: Floats, features: Features, key: int, exploration: float, draws: int
    ) -> Floats | None:
        """`kernels.sample_rows` of (n, d) rows, (draws, n); None where they must be walked."""
        if not self._recall(features) or self._held is None:
            return None
        _, shared, groups = self._held
        ended = find_group_leaves(self._forest.arrays, features, shared, groups)
        samples = np.empty((draws, len(features)))
        for k in range(0, draws, _WIDE):
            noise = np.uint64((key + k * NEXT_DRAW) % 2**64), exploration
            drawn = draw_groups(groups, ended, table, noise, min(draws - k, _WIDE))
            samples[k : k + _WIDE] = add_groups(groups, drawn)
        return samples

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
            rows, shared, _ = self._held
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
        groups, spans = np.zeros((trees, n), np.uint16), np.zeros((nodes, 2), np.int64)
        found = GroupArrays(groups, np.zeros(trees, np.int64), lists, spans)
        used = group_rows(forest.arrays, features, shared, draft, tuple(found))
        if used < 0:
            return False
        lists.resize(used, refcheck=False)
        self._held = bits.copy(), shared, tuple(found)
        return True


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
def group_rows(forest, features, shared, draft, found):  # type: ignore[no-untyped-def]
    """Fill GroupArrays; returns the length of the lists, -1 where they do not fit.

    Every node gets a list of the rows that may come to it; nodes come after their parents. A split of an own column
    parts its list in place; one of a shared column hands the list to its left child and copies it for the right one.
    A row's code is the sum of the hashes, 64 bits each, of the leaves that list it; rows of one code are a group.
    draft: scratch for the lists of one tree. Of these the leaves keep one entry per group.
    """
    trees, kept = ForestArrays(*forest), GroupArrays(*found)
    nodes, spans, (n, width) = trees.nodes, kept.spans, features.shape
    mask, shift = uint32((1 << trees.bits) - 1), uint32(trees.bits)
    rows, columns = np.empty((n, 2 * width), np.float32), np.empty((2 * width, n), np.float32)
    lay_out(features, 0, n, rows)
    for i in range(n):  # `columns[:] = rows.T` would compile three times as long, for the text of its error
        for j in range(2 * width):
            columns[j, i] = rows[i, j]
    right, codes, leader = np.empty(n, np.uint16), np.empty(n, np.uint64), np.empty(n, np.bool_)
    slots = np.empty(4 * n, np.int32)
    used, number = 0, 0
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
            if step == 0:
                for at in range(start, stop):
                    codes[draft[at]] += hashed(uint64(0), uint64(node))
            elif shared[column % width]:
                if drafted + stop - start > draft.shape[0]:
                    return -1
                spans[left, 0], spans[left, 1] = start, stop
                spans[left + 1, 0], spans[left + 1, 1] = drafted, drafted + stop - start
                for at in range(start, stop):
                    draft[drafted] = draft[at]
                    drafted += 1
            else:
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
            if nodes[node].step == 0:
                if used + spans[node, 1] - spans[node, 0] > kept.lists.shape[0]:
                    return -1
                start = used
                for at in range(spans[node, 0], spans[node, 1]):
                    if leader[draft[at]]:
                        kept.lists[used] = kept.groups[tree, draft[at]]
                        used += 1
                spans[node, 0], spans[node, 1] = start, used
    kept.first[trees.n_trees :] = number
    return used


@njit(cache=True)
def find_group_leaves(forest, features, shared, found):  # type: ignore[no-untyped-def]
    """The leaves that groups end in, shared columns being as in these rows, and the tree of each."""
    trees, kept = ForestArrays(*forest), GroupArrays(*found)
    nodes, spans, width = trees.nodes, kept.spans, features.shape[1]
    mask, shift = uint32((1 << trees.bits) - 1), uint32(trees.bits)
    row = np.empty((1, 2 * width), np.float32)
    lay_out(features, 0, 1, row)
    waiting, leaves = np.empty(nodes.shape[0], np.int64), np.empty(nodes.shape[0], np.uint64)
    tree_of = np.empty(nodes.shape[0], np.uint16)
    count = 0
    for tree in range(trees.n_trees):
        waiting[0], head, tail = trees.roots[tree], 0, 1
        while head < tail:
            node = waiting[head]
            head += 1
            step = nodes[node].step
            left, column = node + np.int64(step >> shift), np.int64(step & mask)
            if spans[node, 0] == spans[node, 1]:
                continue
            if step == 0:
                leaves[count], tree_of[count] = node, tree
                count += 1
            elif shared[column % width]:
                waiting[tail] = left + np.int64(row[0, column] >= nodes[node].threshold)
                tail += 1
            else:
                waiting[tail], waiting[tail + 1] = left, left + 1
                tail += 2
    return leaves[:count], tree_of[:count]


@helper
def _tell(kept, leaf, tree, said, values):  # type: ignore[no-untyped-def]
    """Write what a leaf says to all groups that end in it."""
    first = uint64(kept.first[tree])
    for at in range(uint64(kept.spans[leaf, 0]), uint64(kept.spans[leaf, 1])):
        for k in range(uint64(values.shape[1])):
            values[first + uint64(kept.lists[at]), k] = said[k]


@njit(cache=True)
def hand_out(found, ended, table):  # type: ignore[no-untyped-def]
    """The first _WIDE columns of the leaf table for each group: (groups, _WIDE), 0 where no tree is."""
    kept, (leaves, trees) = GroupArrays(*found), ended
    values = np.empty((kept.first[-1] + kept.groups.shape[1], _WIDE))
    values[kept.first[-1]] = 0.0
    for i in range(leaves.shape[0]):
        _tell(kept, leaves[i], trees[i], table[leaves[i]], values)
    return values


@njit(cache=True)
def draw_groups(found, ended, table, noise, wide):  # type: ignore[no-untyped-def]
    """`wide` draws of o + exploration · √(s²/c) · noise of each group's leaf: (groups, wide), 0 where no tree is."""
    kept, (leaves, trees), (key, exploration) = GroupArrays(*found), ended, noise
    values, drawn = np.empty((kept.first[-1] + kept.groups.shape[1], wide)), np.empty(wide)
    values[kept.first[-1]] = 0.0
    for i in range(leaves.shape[0]):
        drawn[:] = 0.0
        add_draws(table, leaves[i], key, exploration, drawn)
        _tell(kept, leaves[i], trees[i], drawn, values)
    return values


@njit(cache=True)
def add_groups(found, values):  # type: ignore[no-untyped-def]
    """Sums over the trees of the (groups, wide) values of each row's groups: (wide, n)."""
    kept = GroupArrays(*found)
    groups, n = kept.groups, kept.groups.shape[1]
    sums = np.zeros((values.shape[1], n))
    for block in range(uint64(0), uint64(groups.shape[0]), uint64(CHAINS)):
        for k in range(values.shape[1]):
            for i in range(uint64(n)):
                total = sums[k, i]
                for j in range(uint64(CHAINS)):
                    total += values[uint64(kept.first[block + j]) + uint64(groups[block + j, i]), k]
                sums[k, i] = total
    return sums
