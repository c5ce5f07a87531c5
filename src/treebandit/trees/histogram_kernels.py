"""The compiled growth of one regression tree on binned features.

A node's rows lie side by side in one array of row numbers; a split parts them in place. For each column that a node
tries, the rows' weights and targets are added up by code, and one pass over the codes finds the best cut. Weight and
number of different rows share one number: a bootstrap counts a row several times, a leaf's least size does not.
"""
# mypy: disallow_untyped_decorators=False
# ruff: noqa: ANN001, ANN201, ANN202

from __future__ import annotations

import numpy as np
from numba import uint64

from treebandit.compiled import njit

#: A row of weight w adds w + ROW to a histogram: its weight below, one row above.
ROW = 2.0**26
_SHARE = 1.0 / ROW


@njit(cache=True)
def _next(state):  # type: ignore[no-untyped-def]
    """The next 64 random bits (splitmix64)."""
    state[0] += uint64(0x9E3779B97F4A7C15)
    bits = state[0]
    bits = (bits ^ (bits >> uint64(30))) * uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> uint64(27))) * uint64(0x94D049BB133111EB)
    return bits ^ (bits >> uint64(31))


@njit(cache=True)
def _worth(weights, total, all_weights, all_total, min_leaf):  # type: ignore[no-untyped-def]
    """Σ (sum of targets)² / weight of the two sides, one of which is given; -inf where a side has too few rows."""
    rows = np.floor(weights * _SHARE)
    other_weights = all_weights - weights
    other_rows = np.floor(other_weights * _SHARE)
    if rows < min_leaf or other_rows < min_leaf:
        return -np.inf
    other = all_total - total
    return total * total / (weights - rows * ROW) + other * other / (other_weights - other_rows * ROW)


@njit(cache=True)
def best_cut(histogram, low, high, width, single, all_weights, all_total, min_leaf):  # type: ignore[no-untyped-def]
    """Worth, cut and whether missing values go left, of a node's histogram of one group with codes in [low, high)."""
    best, cut, missing_left = -np.inf, 0, False
    if single:
        for code in range(max(low, 1), high):
            weights = histogram[code, 0]
            if weights > 0.0:
                worth = _worth(weights, histogram[code, 1], all_weights, all_total, min_leaf)
                if worth > best:
                    best, cut, missing_left = worth, code, True
        return best, cut, missing_left
    missing, missing_total = histogram[width, 0], histogram[width, 1]
    weights, total, last = 0.0, 0.0, -1
    for code in range(low, high):
        here = histogram[uint64(code), uint64(0)]
        if here == 0.0:
            continue
        if last >= 0:
            worth = _worth(weights, total, all_weights, all_total, min_leaf)
            if worth > best:
                best, cut, missing_left = worth, (last + code + 1) // 2, False
            if missing > 0.0:
                worth = _worth(weights + missing, total + missing_total, all_weights, all_total, min_leaf)
                if worth > best:
                    best, cut, missing_left = worth, (last + code + 1) // 2, True
        weights += here
        total += histogram[uint64(code), uint64(1)]
        last = code
    if missing > 0.0:
        worth = _worth(weights, total, all_weights, all_total, min_leaf)
        if worth > best:
            best, cut, missing_left = worth, width, False
    return best, cut, missing_left


@njit(cache=True)
def _part(codes, group, cut, width, single, missing_left, rows, start, stop, aside):  # type: ignore[no-untyped-def]
    """Part rows[start:stop] into those that go left and those that go right; where the right ones start."""
    place, right = start, 0
    for k in range(start, stop):
        row = rows[k]
        code = codes[group, row]
        if single:
            goes_right = code == cut
        elif code == width:
            goes_right = not missing_left
        else:
            goes_right = code >= cut
        if goes_right:
            aside[right] = row
            right += 1
        else:
            rows[place] = row
            place += 1
    for k in range(right):
        rows[place + k] = aside[k]
    return place


@njit(cache=True)
def _best_split(codes, widths, singles, rows, start, stop, moments, node, limits, order, histogram, state):  # type: ignore[no-untyped-def]
    """Group, cut and missing_left of the best split among `tried` groups drawn at random; group -1 for none.

    Groups of which the node has one code only do not count as tried.
    """
    min_leaf, tried = limits
    all_weights, all_total = node
    best, best_group, best_cut_, best_left = -np.inf, -1, 0, False
    left = order.shape[0]
    while left > 0 and tried > 0:
        drawn = int(_next(state) % uint64(left))
        left -= 1
        group = order[drawn]
        order[drawn] = order[left]
        order[left] = group
        width = widths[group]
        column = codes[group]
        low, high = width, 0
        for k in range(start, stop):
            code = column[uint64(rows[uint64(k)])]
            histogram[uint64(code), uint64(0)] += moments[uint64(k), uint64(0)]
            histogram[uint64(code), uint64(1)] += moments[uint64(k), uint64(1)]
            low = min(low, code)
            high = max(high, code)
        if low == high:
            histogram[low, 0] = histogram[low, 1] = 0.0
            continue
        tried -= 1
        worth, cut, missing_left = best_cut(
            histogram, low, min(high + 1, width), width, singles[group], all_weights, all_total, min_leaf
        )
        for code in range(low, high + 1):
            histogram[uint64(code), uint64(0)] = 0.0
            histogram[uint64(code), uint64(1)] = 0.0
        if worth > best:
            best, best_group, best_cut_, best_left = worth, group, cut, missing_left
    return best_group, best_cut_, best_left


@njit(cache=True)
def grow_tree(  # type: ignore[no-untyped-def]
    codes,
    widths,
    singles,
    targets,
    weights,
    max_depth,
    min_leaf,
    tried,
    ridge,
    seed,
    children,
    splits,
    values,
):
    """Grow one tree on the rows of positive weight; returns its number of nodes.

    children: (nodes, 2), left and right child, -1 at a leaf. splits: (nodes, 3), group, cut and missing_left.
    values: (nodes,), Σ weight · target / (Σ weight + ridge).
    """
    n = 0
    rows = np.empty(targets.shape[0], np.int32)
    for row in range(targets.shape[0]):
        if weights[row] > 0:
            rows[n] = row
            n += 1
    aside = np.empty(n, np.int32)
    moments = np.empty((n, 2))
    order = np.arange(codes.shape[0])
    histogram = np.zeros((257, 2))
    state = np.array([seed], np.uint64)
    starts, stops = np.zeros(children.shape[0], np.int64), np.zeros(children.shape[0], np.int64)
    depths = np.zeros(children.shape[0], np.int64)
    stops[0], size, node = n, 1, 0
    while node < size:
        start, stop = starts[node], stops[node]
        weight, total, squares = 0.0, 0.0, 0.0
        for k in range(start, stop):
            w, target = float(weights[rows[k]]), targets[rows[k]]
            moments[k, 0] = w + ROW
            moments[k, 1] = w * target
            weight += w
            total += w * target
            squares += w * target * target
        values[node] = total / (weight + ridge)
        children[node, 0] = children[node, 1] = -1
        splits[node, 0] = splits[node, 1] = splits[node, 2] = 0
        pure = squares - total * total / weight <= 1e-12 * squares
        if not pure and stop - start >= 2 * min_leaf and depths[node] < max_depth:
            whole = (weight + ROW * (stop - start), total)
            group, cut, missing_left = _best_split(
                codes,
                widths,
                singles,
                rows,
                start,
                stop,
                moments,
                whole,
                (min_leaf, tried),
                order,
                histogram,
                state,
            )
            if group >= 0:
                middle = _part(
                    codes, group, cut, widths[group], singles[group], missing_left, rows, start, stop, aside
                )
                if cut < widths[group] and not singles[group] and not missing_left:
                    missing_left = _no_missing(codes, group, widths[group], rows, start, stop) and (
                        2 * (middle - start) >= stop - start
                    )
                splits[node, 0], splits[node, 1], splits[node, 2] = group, cut, missing_left
                children[node, 0], children[node, 1] = size, size + 1
                starts[size], stops[size] = start, middle
                starts[size + 1], stops[size + 1] = middle, stop
                depths[size] = depths[size + 1] = depths[node] + 1
                size += 2
        node += 1
    return size


@njit(cache=True)
def _no_missing(codes, group, width, rows, start, stop):  # type: ignore[no-untyped-def]
    for k in range(start, stop):  # noqa: SIM110
        if codes[group, rows[k]] == width:
            return False
    return True


@njit(cache=True)
def add_tree(codes, widths, singles, children, splits, values, predictions):  # type: ignore[no-untyped-def]
    """Add what one tree says of every binned row to (n,) predictions."""
    for row in range(predictions.shape[0]):
        node = 0
        while children[node, 0] >= 0:
            group, cut = splits[node, 0], splits[node, 1]
            code = codes[group, row]
            if singles[group]:
                goes_right = code == cut
            elif code == widths[group]:
                goes_right = splits[node, 2] == 0
            else:
                goes_right = code >= cut
            node = children[node, 1 if goes_right else 0]
        predictions[row] += values[node]
