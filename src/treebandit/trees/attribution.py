"""What each feature adds to a prediction of a forest: path-dependent TreeSHAP (Lundberg, Erion and Lee 2018)."""
# ruff: noqa: ANN001, ANN202

from __future__ import annotations

import numpy as np

from treebandit.compiled import njit, part
from treebandit.core import Features, Floats
from treebandit.trees.forest import Forest
from treebandit.trees.kernels import COUNT, OUTPUT, ForestArrays


def attributions(forest: Forest, table: Floats, features: Features) -> tuple[Floats, float]:
    """What each feature adds to the prediction of each row, (n, n_features), and the prediction that they add to.

    They are the Shapley values of the game in which a row's unknown features are left to the rows that the trees
    know: where a split needs one, both ways are gone, by the share of the learned rows that went each. Rows of
    attributions and the mean prediction add up to the prediction.

    table: of the leaves, whose outputs and counts are used.
    """
    covers = table[:, COUNT].copy()
    kernel_arrays = forest.arrays, table[:, OUTPUT].copy(), covers
    _add_up_covers(forest.arrays, covers)
    found: Floats = _attribute(kernel_arrays, forest.checked(features), forest.n_features)
    return found[:, :-1], float(forest.base + _mean_output(*kernel_arrays))


#: Rows of arrays are copied here, for which numba needs its reference counts.
helper = part()


@njit(cache=True)
def _add_up_covers(forest, covers):  # type: ignore[no-untyped-def]
    """Set the rows of inner nodes, which follow their parents: from the last one back."""
    trees = ForestArrays(*forest)
    for node in range(trees.nodes.shape[0] - 2, -1, -1):
        step = trees.nodes[node].step >> np.uint32(trees.bits)
        if step:
            covers[node] = covers[node + step] + covers[node + step + 1]


@njit(cache=True)
def _mean_output(forest, outputs, covers):  # type: ignore[no-untyped-def]
    """The mean of the trees' sum over the rows that they know."""
    trees, total = ForestArrays(*forest), 0.0
    shares = np.zeros(trees.nodes.shape[0])
    for tree in range(trees.n_trees):
        shares[trees.roots[tree]] = 1.0
    for node in range(trees.nodes.shape[0] - 1):
        step = trees.nodes[node].step >> np.uint32(trees.bits)
        if step:
            for child in (node + step, node + step + 1):
                shares[child] = shares[node] * _ratio(covers, child, node)
        else:
            total += shares[node] * outputs[node]
    return total


@helper
def _ratio(covers, child, node):  # type: ignore[no-untyped-def]
    """The share of a node's rows that go to a child; half of them where there are none."""
    return covers[child] / covers[node] if covers[node] > 0.0 else 0.5


@helper
def _add_leaf(path, length, value, weights, sums):  # type: ignore[no-untyped-def]
    """Add what a leaf of this value gives to the features on its path.

    path: (depth, 3) different features, the share of rows that stay on the path at their splits, and whether the row
    does. weights[k] becomes the sum over all sets of k of these features, each weighed as in the Shapley value.
    """
    weights[0] = 1.0
    for k in range(1, length + 1):
        share, stays = path[k - 1, 1], path[k - 1, 2]
        weights[k] = 0.0
        for i in range(k - 1, -1, -1):
            weights[i + 1] += stays * weights[i] * (i + 1) / (k + 1)
            weights[i] *= share * (k - i) / (k + 1)
    for k in range(length):
        share, stays = path[k, 1], path[k, 2]
        # The same sum without this feature: the recursion above, solved backwards.
        total, rest = 0.0, weights[length]
        for i in range(length - 1, -1, -1):
            if stays:
                without = rest * (length + 1) / (i + 1)
                total += without
                rest = weights[i] - without * share * (length - i) / (length + 1)
            elif share > 0.0:
                total += weights[i] * (length + 1) / (share * (length - i))
        sums[int(path[k, 0])] += total * (stays - share) * value


@helper
def _merged(edges, depth, path):  # type: ignore[no-untyped-def]
    """Write the edges down to a node as different features; returns how many there are."""
    length = 0
    for d in range(depth):
        place = 0
        while place < length and path[place, 0] != edges[d, 0]:
            place += 1
        if place == length:
            path[place] = edges[d]
            length += 1
        else:
            path[place, 1] *= edges[d, 1]
            path[place, 2] *= edges[d, 2]
    return length


@njit(cache=True)
def _attribute(arrays, features, width):  # type: ignore[no-untyped-def]
    """Attributions of (n, width) features, (n, width + 1); the last column stays 0.

    Every leaf is visited for itself with the path that leads to it (as on GPUs: Mitchell, Frank and Holmes 2022), which
    needs no copies of paths as the recursion does.
    """
    forest, outputs, covers = arrays
    trees = ForestArrays(*forest)
    mask, bits = np.uint32((1 << trees.bits) - 1), np.uint32(trees.bits)
    deepest = trees.depths.max() + 1
    found = np.zeros((features.shape[0], width + 1))
    edges, path = np.empty((deepest, 3)), np.empty((deepest, 3))
    weights = np.empty(deepest + 1)
    waiting, depths = np.empty(2 * deepest + 2, np.int64), np.empty(2 * deepest + 2, np.int64)
    incoming = np.empty((2 * deepest + 2, 3))
    for i in range(features.shape[0]):
        for tree in range(trees.n_trees):
            waiting[0], depths[0], open_ = np.int64(trees.roots[tree]), 0, 1
            while open_:
                open_ -= 1
                node, depth = waiting[open_], depths[open_]
                if depth:
                    edges[depth - 1] = incoming[open_]
                step = trees.nodes[node].step
                if not step >> bits:
                    length = _merged(edges, depth, path)
                    _add_leaf(path, length, outputs[node], weights, found[i])
                    continue
                column = np.int64(step & mask)
                value = features[i, column % width]
                right = column >= width if value != value else value >= trees.nodes[node].threshold
                for side in range(2):
                    child = node + np.int64(step >> bits) + side
                    waiting[open_], depths[open_] = child, depth + 1
                    incoming[open_, 0] = column % width
                    incoming[open_, 1] = _ratio(covers, child, node)
                    incoming[open_, 2] = 1.0 if right == (side == 1) else 0.0
                    open_ += 1
    return found
