"""The compiled loops over settled rows: which rows may end in which leaf, and sums over those leaves.

A split of an own column sends each row one way for good; a split of a shared column sends all rows one way, another
one in each round. So every node has a list of the rows that come to it whenever the shared columns lead there.
"""
# mypy: disallow_untyped_decorators=False
# ruff: noqa: ANN001, ANN201, ANN202

from __future__ import annotations

import numpy as np
from numba import uint32, uint64

from treebandit.compiled import njit
from treebandit.trees.kernels import CHAINS, COUNT, OUTPUT, SPREAD, leaf_noise

#: Rows compared between two looks at whether they can still be alike.
_STRIDE = 64
#: Entries of the lists of one tree while it is settled (8 MB), where 4 times the allowed average is more.
_LONGEST_DRAFT = 1 << 22


@njit(cache=True)
def find_shared(now, before, shared):  # type: ignore[no-untyped-def]
    """Whether each column of `now` is either the same for all rows or the same as in `before`, (n, d) bits each.

    shared: (d,), set where a column is the same for all rows.
    """
    n, width = now.shape
    spread = np.zeros(width, np.uint32)
    moved = np.zeros(width, np.uint32)
    for start in range(0, n, _STRIDE):
        for i in range(start, min(n, start + _STRIDE)):
            for j in range(width):
                spread[j] |= now[i, j] ^ now[0, j]
                moved[j] |= now[i, j] ^ before[i, j]
        for j in range(width):
            if spread[j] and moved[j]:
                return False
    for j in range(width):
        shared[j] = spread[j] == 0
    return True


@njit(cache=True)
def are_settled(now, before, varying):  # type: ignore[no-untyped-def]
    """Whether `now` is `before` but for columns that are the same for all rows; (n, d) bits each.

    varying: (d,), all bits set where a column is shared, none where it is each row's own.
    """
    n, width = now.shape
    for start in range(0, n, _STRIDE):
        differs = uint32(0)
        for i in range(start, min(n, start + _STRIDE)):
            for j in range(width):
                expected = (before[i, j] & ~varying[j]) | (now[0, j] & varying[j])
                differs |= now[i, j] ^ expected
        if differs:
            return False
    return True


@njit(cache=True)
def _list_rows(nodes, first, last, bits, columns, shared, spans, rows, used):  # type: ignore[no-untyped-def]
    """List in rows[used:] which rows come to each node of a tree, its root's list being given; the end of the lists.

    Both ways of a shared split have the list of the split itself. -1 where there is no room.
    """
    mask, shift = uint32((1 << bits) - 1), uint32(bits)
    for node in range(first, last):
        start, stop = spans[node, 0], spans[node, 1]
        step = nodes[node].step
        if step == 0:
            continue
        left, column = node + np.int64(step >> shift), np.int64(step & mask)
        if shared[column] or start == stop:
            spans[left, 0], spans[left, 1] = start, stop
            spans[left + 1, 0], spans[left + 1, 1] = start, stop
            continue
        end = used + stop - start
        if end > rows.shape[0]:
            return -1
        threshold, values = nodes[node].threshold, columns[column]
        low, high = uint64(used), uint64(end - 1)
        for at in range(uint64(start), uint64(stop)):
            row = rows[at]
            goes_right = uint64(values[uint64(row)] >= threshold)
            rows[low] = row
            rows[high] = row
            low += uint64(1) - goes_right
            high -= goes_right
        spans[left, 0], spans[left, 1] = used, np.int64(low)
        spans[left + 1, 0], spans[left + 1, 1] = np.int64(low), end
        used = end
    return used


@njit(cache=True)
def _group_rows(nodes, first, last, bits, shared, spans, rows, group, fresh, stamp):  # type: ignore[no-untyped-def]
    """Number the rows so that two have one number where they come to the same nodes; `rows` is what they list.

    Every split of an own column parts its rows: those on the smaller side get a new number for each old one.
    """
    mask, shift = uint32((1 << bits) - 1), uint32(bits)
    group[:] = 0
    numbers = 1
    for node in range(first, last):
        step = nodes[node].step
        if step == 0 or shared[np.int64(step & mask)]:
            continue
        left = node + np.int64(step >> shift)
        start, middle, stop = spans[left, 0], spans[left, 1], spans[left + 1, 1]
        if middle - start < stop - middle:
            stop = middle
        else:
            start = middle
        for at in range(uint64(start), uint64(stop)):
            row = uint64(rows[at])
            old = uint64(group[row])
            if stamp[old] != node:
                stamp[old] = node
                fresh[old] = numbers
                numbers += 1
            group[row] = fresh[old]
    return numbers


@njit(cache=True)
def settle_rows(  # type: ignore[no-untyped-def]
    nodes, roots, bits, n_trees, columns, shared, most_each, spans, rows, stands_for
):
    """For each tree, let one row stand for all that come to the same nodes, and list these rows at each node.

    columns: (2 d, n), the features laid out as in `kernels`, one line per column. shared: (2 d,).
    most_each: how long the lists of all rows may be on average, per row and tree.
    spans: (nodes, 2), becomes the start and stop in `rows` of each node's list. stands_for: (roots, n), becomes
    the row that stands for each row. The length of the lists; -1 where there is no room for them.
    """
    n = columns.shape[1]
    draft = np.empty(min(4 * most_each * n, max(_LONGEST_DRAFT, 2 * n)), np.uint16)
    group = np.empty(n, np.int32)
    fresh = np.empty(draft.shape[0] + 1, np.int32)
    stamp = np.full(draft.shape[0] + 1, -1, np.int32)
    speaker = np.empty(draft.shape[0] + 1, np.int32)
    left_over, used = most_each * n * n_trees, 0
    for i in range(n):
        draft[i] = i
    for tree in range(n_trees):
        first = np.int64(roots[tree])
        last = np.int64(roots[tree + 1]) if tree + 1 < n_trees else nodes.shape[0] - 1
        spans[first, 0], spans[first, 1] = 0, n
        drafted = _list_rows(nodes, first, last, bits, columns, shared, spans, draft, n)
        left_over -= drafted
        if drafted < 0 or left_over < 0:
            return -1
        numbers = _group_rows(nodes, first, last, bits, shared, spans, draft, group, fresh, stamp)
        speaker[:numbers] = -1
        start = used
        if used + n > rows.shape[0]:
            return -1
        for i in range(n):
            if speaker[group[i]] < 0:
                speaker[group[i]] = i
                rows[used] = i
                used += 1
            stands_for[tree, i] = speaker[group[i]]
        spans[first, 0], spans[first, 1] = start, used
        used = _list_rows(nodes, first, last, bits, columns, shared, spans, rows, used)
        if used < 0:
            return -1
    return used


@njit(cache=True)
def _open_leaves(nodes, root, mask, shift, row, shared, spans, pending, found):  # type: ignore[no-untyped-def]
    """The leaves of a tree that rows end in now that shared columns are as in `row`; how many there are."""
    waiting, count = 1, 0
    pending[0] = root
    while waiting:
        waiting -= 1
        node = pending[waiting]
        while spans[node, 0] < spans[node, 1]:
            step = nodes[node].step
            if step == 0:
                found[count] = node
                count += 1
                break
            node += np.int64(step >> shift)
            column = np.int64(step & mask)
            if shared[column]:
                node += np.int64(row[column] >= nodes[node - np.int64(step >> shift)].threshold)
            else:
                pending[waiting] = node + 1
                waiting += 1
    return count


@njit(cache=True)
def _place_rows(nodes, roots, bits, tree, row, shared, spans, rows, pending, found, places):  # type: ignore[no-untyped-def]
    """Find the open leaves of a tree, and note for each row that stands for others which of them it ends in."""
    mask, shift = uint32((1 << bits) - 1), uint32(bits)
    count = _open_leaves(nodes, np.int64(roots[tree]), mask, shift, row, shared, spans, pending, found)
    for k in range(count):
        leaf = found[k]
        for at in range(uint64(spans[leaf, 0]), uint64(spans[leaf, 1])):
            places[uint64(rows[at])] = k
    return count


@njit(cache=True)
def score_settled(  # type: ignore[no-untyped-def]
    nodes, roots, depths, bits, n_trees, table, row, shared, spans, rows, stands_for
):
    """As `kernels.score_rows`, to the last bit: sums over the trees of leaf output, s²/c and count, (3, n)."""
    n = stands_for.shape[1]
    pending, found = np.empty(depths.max() + 2, np.int64), np.empty(n, np.int64)
    places = np.zeros((CHAINS, n), np.uint16)
    values = np.empty((CHAINS, n, 3))
    sums = np.zeros((3, n))
    for first in range(0, n_trees, CHAINS):
        for j in range(min(CHAINS, n_trees - first)):
            count = _place_rows(
                nodes, roots, bits, first + j, row, shared, spans, rows, pending, found, places[j]
            )
            for k in range(count):
                values[j, k, 0] = table[found[k], OUTPUT]
                values[j, k, 1] = table[found[k], SPREAD]
                values[j, k, 2] = table[found[k], COUNT]
        for j in range(n_trees - first, CHAINS):
            values[j, 0], places[j, 0] = 0.0, 0
        for i in range(uint64(n)):
            output, spread, count = 0.0, 0.0, 0.0
            for j in range(uint64(CHAINS)):
                k = uint64(places[j, uint64(stands_for[uint64(first) + j, i])])
                output += values[j, k, uint64(0)]
                spread += values[j, k, uint64(1)]
                count += values[j, k, uint64(2)]
            sums[uint64(0), i] += output
            sums[uint64(1), i] += spread
            sums[uint64(2), i] += count
    return sums


@njit(cache=True)
def sample_settled(  # type: ignore[no-untyped-def]
    nodes, roots, depths, bits, n_trees, table, row, shared, spans, rows, stands_for, key, exploration
):
    """As `kernels.sample_rows`, to the last bit: Σ (o + exploration · √(s²/c) · noise of the leaf), (n,)."""
    n = stands_for.shape[1]
    pending, found = np.empty(depths.max() + 2, np.int64), np.empty(n, np.int64)
    places = np.zeros((CHAINS, n), np.uint16)
    values = np.empty((CHAINS, n))
    samples = np.zeros(n)
    for first in range(0, n_trees, CHAINS):
        for j in range(min(CHAINS, n_trees - first)):
            count = _place_rows(
                nodes, roots, bits, first + j, row, shared, spans, rows, pending, found, places[j]
            )
            for k in range(count):
                leaf = found[k]
                deviation = np.sqrt(table[leaf, SPREAD])
                values[j, k] = table[leaf, OUTPUT] + exploration * deviation * leaf_noise(key, uint64(leaf))
        for j in range(n_trees - first, CHAINS):
            values[j, 0], places[j, 0] = 0.0, 0
        for i in range(uint64(n)):
            sample = 0.0
            for j in range(uint64(CHAINS)):
                sample += values[j, uint64(places[j, uint64(stands_for[uint64(first) + j, i])])]
            samples[i] += sample
    return samples
