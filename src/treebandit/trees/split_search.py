"""The compiled search for the best split of a node, and the random numbers that trees are grown by.

What the arguments are is said in `grower`, which grows trees with it.
"""
# mypy: disallow_untyped_decorators=False
# ruff: noqa: ANN001, ANN201, ANN202

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import int64, types, uint64
from numba.core.cgutils import get_item_pointer
from numba.cpython.unsafe.numbers import trailing_zeros
from numba.extending import intrinsic

from treebandit.compiled import helper, part
from treebandit.trees.kernels import STEP, mix

#: What a row adds to the real part of a moment besides its weight.
ROW = 2.0**26
#: Right end of a split that sends all higher codes to the right, missing values included.
ALL_CODES = (1 << 31) - 1
#: Columns added up at a time, so that their histograms stay in the first-level cache.
_BLOCK = 32
_HALF = np.uint64(32)
WIDE = 256


@intrinsic
def _add_moment(context, histogram, place, moment):  # type: ignore[no-untyped-def]
    """histogram[place] += moment. numba adds the two parts of a complex number one by one; here they are one vector."""

    def lower(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        array, pair = signature.args[0], ir.VectorType(ir.DoubleType(), 2)
        values = context.make_array(array)(context, builder, arguments[0])
        pointer = get_item_pointer(context, builder, array, values, arguments[1:2])
        pointer = builder.bitcast(pointer, pair.as_pointer())
        added = ir.Constant(pair, ir.Undefined)
        for i in range(2):
            added = builder.insert_element(added, builder.extract_value(arguments[2], i), ir.IntType(32)(i))
        builder.store(builder.fadd(builder.load(pointer, align=8), added), pointer, align=8)
        return context.get_dummy_value()

    return types.void(histogram, place, moment), lower


@helper
def draw_below(n, key, place):  # type: ignore[no-untyped-def]
    """The number at `place` in the stream of random whole numbers below n that belongs to the key."""
    return int64(((mix(key + STEP * uint64(place)) >> _HALF) * uint64(n)) >> _HALF)


@helper
def add_all(codes, rows, moments, histogram, starts, sign):  # type: ignore[no-untyped-def]
    """Add the moments of rows, times the sign, to the histograms of all groups."""
    groups = len(starts) - 1
    for first in range(0, groups, _BLOCK):
        last = first + _BLOCK if first + _BLOCK < groups else groups
        for row in rows:
            moment = moments[row] if sign > 0 else -moments[row]
            for group in range(uint64(first), uint64(last)):
                _add_moment(histogram, starts[group] + codes[row, group], moment)


@helper
def _add_drawn(codes, starts, rows, moments, histogram, groups, words):  # type: ignore[no-untyped-def]
    """Add the moments of rows to the empty histograms of these groups.

    A code sets its bit in a word, so that no empty bin is looked at: in most nodes nearly all are. Additions to one
    group wait for each other, so several are added up at a time, unless their histograms are too long for the cache.
    """
    drawn, block = len(groups), _BLOCK if words.shape[1] <= WIDE // 64 + 1 else 1
    for first in range(0, drawn, block):
        last = first + block if first + block < drawn else drawn
        for row in rows:
            moment = moments[row]
            for j in range(uint64(first), uint64(last)):
                group = uint64(groups[j])
                code = uint64(codes[row, group])
                _add_moment(histogram, starts[group] + code, moment)
                words[j, code >> uint64(6)] |= uint64(1) << (code & uint64(63))


@helper
def _noted_bins(words, bins):  # type: ignore[no-untyped-def]
    """List the codes whose bits are set, rising, and clear the bits; returns how many."""
    count = 0
    for word in range(uint64(len(words))):
        left = words[word]
        words[word] = 0
        while left:
            bins[count] = (word << uint64(6)) + uint64(trailing_zeros(left))
            count += 1
            left &= left - uint64(1)
    return count


@helper
def move(histograms, to, other):  # type: ignore[no-untyped-def]
    """Subtract the histogram `other` from the histogram `to`; from itself: clear it."""
    for place in range(uint64(histograms.shape[1])):
        histograms[to, place] = 0.0 if to == other else histograms[to, place] - histograms[other, place]


@helper
def _filled_bins(histogram, bins):  # type: ignore[no-untyped-def]
    """List the codes that a node has in one group; returns how many."""
    count = 0
    for code in range(uint64(len(histogram))):
        bins[count] = code
        count += histogram[code].real > 0.0
    return count


@helper
def _best_cut(histogram, bins, one_hot, rows, moment, min_leaf):  # type: ignore[no-untyped-def]
    """Split gain of the best cut of one group, of which a node has the codes `bins`; -1 for none.

    Then the codes that it parts, neighbours in this node (of one-hot codes, the one that goes right, twice), and
    whether missing values go left.

    The gain is (S - w · mean)² / (w · (W - w)), with S the sum of targets and w the weight of a side, mean and W those
    of the node: what the squared error falls by, but for a factor. Fractions are compared by products, which saves a
    division per code.
    """
    width, all_rows = len(histogram) - 1, moment.real
    weight = all_rows - ROW * rows
    mean = moment.imag / weight
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


@helper
def _set_split(levels, width, node, below, above, missing_left):  # type: ignore[no-untyped-def]
    """Put the threshold halfway between two codes, in the values of the column."""
    if below == above:  # one-hot
        node.low, node.high = below, below + 1
        return
    middle = 0.5 * levels[below] + 0.5 * levels[above]
    low = below + 1
    while low < above:
        probe = (low + above) // 2
        if levels[probe] < middle:
            low = probe + 1
        else:
            above = probe
    node.low, node.high = low, width if missing_left else ALL_CODES


@helper
def _draw_columns(columns, untried, wanted, key):  # type: ignore[no-untyped-def]
    """Move `wanted` of the first `untried` columns[0] to columns[1], any as likely as the others; both stay sorted."""
    drawn, kept = 0, 0
    for j in range(untried):
        group = columns[0, j]
        taken = draw_below(untried - j, key, j) < wanted - drawn
        columns[1, drawn] = group
        columns[0, kept] = group
        drawn += taken
        kept += 1 - taken


@part(error_model="numpy", _nrt=False, inline="always")
def best_split(table, limits, work, node):  # type: ignore[no-untyped-def]
    """Give the node the best split among `tried` groups drawn at random; returns its gain, negative for none.

    A group of which the node has one code only does not count as tried. Of equal gains a random one is taken, not that
    of the first column.
    """
    columns, key, starts = work.columns, node.key, table.starts
    rows = work.rows[node.start : node.stop]
    untried, wanted = len(limits.groups), limits.tried
    for j in range(untried):
        columns[0, j] = limits.groups[j]
    # Not plain numbers: numba would compile what they are handed to once more for these.
    best, below, above, missing_left = -1.0, int64(0), int64(0), untried < 0
    while wanted > 0 and untried > 0:
        drawn = wanted if wanted < untried else untried
        _draw_columns(columns, untried, drawn, key)
        untried -= drawn
        key = mix(key)
        if node.slot == 0:
            groups, empty = columns[1, :drawn], work.histograms[0]
            _add_drawn(table.codes, starts, rows, work.moments, empty, groups, work.words)
        for j in range(drawn):
            group = int64(columns[1, j])
            histogram = work.histograms[node.slot, starts[group] : starts[group + 1]]
            if node.slot == 0:
                count = _noted_bins(work.words[j, : (len(histogram) + 63) // 64], work.bins)
            else:
                count = _filled_bins(histogram, work.bins)
            if count > 1:
                wanted -= 1
                bins = work.bins[:count]
                one_hot = table.one_hot[group]
                gain, first, second, left = _best_cut(
                    histogram, bins, one_hot, len(rows), node.moment, limits.min_leaf
                )
                tied = gain == best >= 0.0
                if gain > best or (tied and mix(key + uint64(group)) > mix(key + uint64(node.group))):
                    best, node.group = gain, group
                    below, above, missing_left = first, second, left
            if node.slot == 0:
                for i in range(count):
                    histogram[work.bins[i]] = 0.0
    if best >= 0.0:
        levels, width = table.levels[node.group], table.widths[node.group]
        _set_split(levels, width, node, below, above, missing_left)
    return best
