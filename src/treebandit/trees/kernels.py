"""The compiled loops over trees: find leaves, score rows, measure leaves, update leaves.

Several trees are walked in step, because one walk alone waits for memory at every node. A node takes 8 bytes: its
threshold, and its feature and the distance to its left child packed in one word; the right child follows the left
one, and a leaf stands at distance 0 from itself under a threshold that nothing reaches (NaN), so every walk takes the
same number of steps without a branch. A missing value costs nothing in the walk: each row is laid out twice, its NaN
as -inf in the first half (goes left) and as +inf in the second (goes right), and a node reads the half it wants.
"""

from __future__ import annotations

import numpy as np
from numba import float64, uint32, uint64

from treebandit.compiled import njit

#: Trees walked in step; a forest's roots are padded to a multiple of it.
CHAINS = 10
#: Rows laid out at a time, so that they stay in the cache.
ROWS = 1024

#: Columns of a leaf table: leaf output o, s²/c, count c, mean of the suggested outputs.
OUTPUT, SPREAD, COUNT, MEAN = 0, 1, 2, 3


#: The sum of four uniforms on 0..65535 has variance (65536² - 1) / 3.
NOISE_SCALE = (3.0 / (65536.0**2 - 1.0)) ** 0.5


@njit(cache=True)
def lay_out(features, start, stop, rows):  # type: ignore[no-untyped-def]
    """Copy features[start:stop] into both halves of `rows`."""
    width = features.shape[1]
    for i in range(stop - start):
        for j in range(width):
            value = features[start + i, j]
            if value != value:
                rows[i, j] = -np.inf
                rows[i, j + width] = np.inf
            else:
                rows[i, j] = value
                rows[i, j + width] = value


@njit(cache=True)
def _descend(nodes, roots, block, depths, bits, rows, i, leaves):  # type: ignore[no-untyped-def]
    """Walk row i down the CHAINS trees of a block; `leaves` gets the nodes where it ends."""
    mask = uint32((1 << bits) - 1)
    shift = uint32(bits)
    first = uint64(block) * uint64(CHAINS)
    for j in range(CHAINS):
        leaves[uint64(j)] = roots[first + uint64(j)]
    for _ in range(depths[block]):
        for j in range(CHAINS):
            node = leaves[uint64(j)]
            step = nodes[node].step
            goes_right = rows[uint64(i), uint64(step & mask)] >= nodes[node].threshold
            leaves[uint64(j)] = node + uint64(step >> shift) + uint64(goes_right)


@njit(cache=True)
def find_leaves(nodes, roots, depths, bits, n_trees, features):  # type: ignore[no-untyped-def]
    """The node at which each row ends in each tree: (n, n_trees)."""
    n = features.shape[0]
    found = np.empty((n, n_trees), np.int32)
    leaves = np.empty(CHAINS, np.uint64)
    rows = np.empty((min(n, ROWS), 2 * features.shape[1]), np.float32)
    for start in range(0, n, ROWS):
        stop = min(n, start + ROWS)
        lay_out(features, start, stop, rows)
        for block in range(depths.shape[0]):
            width = min(CHAINS, n_trees - block * CHAINS)
            for i in range(stop - start):
                _descend(nodes, roots, block, depths, bits, rows, i, leaves)
                for j in range(width):
                    found[start + i, block * CHAINS + j] = leaves[uint64(j)]
    return found


@njit(cache=True)
def score_rows(nodes, roots, depths, bits, table, features):  # type: ignore[no-untyped-def]
    """Sums over the trees of leaf output, s²/c and count: (3, n)."""
    n = features.shape[0]
    sums = np.zeros((3, n))
    leaves = np.empty(CHAINS, np.uint64)
    rows = np.empty((min(n, ROWS), 2 * features.shape[1]), np.float32)
    for start in range(0, n, ROWS):
        stop = min(n, start + ROWS)
        lay_out(features, start, stop, rows)
        for block in range(depths.shape[0]):
            for i in range(stop - start):
                _descend(nodes, roots, block, depths, bits, rows, i, leaves)
                output, spread, count = 0.0, 0.0, 0.0
                for j in range(CHAINS):
                    leaf = leaves[uint64(j)]
                    output += table[leaf, uint64(OUTPUT)]
                    spread += table[leaf, uint64(SPREAD)]
                    count += table[leaf, uint64(COUNT)]
                sums[0, start + i] += output
                sums[1, start + i] += spread
                sums[2, start + i] += count
    return sums


@njit(cache=True)
def leaf_noise(key, leaf):  # type: ignore[no-untyped-def]
    """A draw of mean 0 and variance 1 that belongs to this leaf under this key: the sum of four 16-bit uniforms."""
    bits = key + (leaf + uint64(1)) * uint64(0x9E3779B97F4A7C15)
    bits = (bits ^ (bits >> uint64(30))) * uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> uint64(27))) * uint64(0x94D049BB133111EB)
    bits ^= bits >> uint64(31)
    low = uint64(0xFFFF)
    drawn = (bits & low) + ((bits >> uint64(16)) & low) + ((bits >> uint64(32)) & low) + (bits >> uint64(48))
    return (float64(drawn) - 131070.0) * NOISE_SCALE


@njit(cache=True)
def sample_rows(nodes, roots, depths, bits, table, features, key, exploration):  # type: ignore[no-untyped-def]
    """Σ (o + exploration · √(s²/c) · noise of the leaf) over the trees, (n,): rows in one leaf share its noise."""
    n = features.shape[0]
    samples = np.zeros(n)
    leaves = np.empty(CHAINS, np.uint64)
    rows = np.empty((min(n, ROWS), 2 * features.shape[1]), np.float32)
    for start in range(0, n, ROWS):
        stop = min(n, start + ROWS)
        lay_out(features, start, stop, rows)
        for block in range(depths.shape[0]):
            for i in range(stop - start):
                _descend(nodes, roots, block, depths, bits, rows, i, leaves)
                sample = 0.0
                for j in range(CHAINS):
                    leaf = leaves[uint64(j)]
                    deviation = np.sqrt(table[leaf, uint64(SPREAD)])
                    sample += table[leaf, uint64(OUTPUT)] + exploration * deviation * leaf_noise(key, leaf)
                samples[start + i] += sample
    return samples


@njit(cache=True)
def measure_leaves(  # type: ignore[no-untyped-def]
    nodes, roots, depths, bits, n_trees, values, base, rate, features, targets, in_bag, table, tree_moments
):
    """Fill MEAN, COUNT and (for now) the sum of squared deviations in SPREAD, and in `tree_moments`, (n_trees, 3),
    each tree's first suggestion y₀, Σ(y - y₀) and Σ(y - y₀)².

    The output that row i suggests to tree n is y = rate * (target - prefix prediction) where trees are added up
    (rate > 0), and target / n_trees where they are averaged (rate = 0). A row in the bag of a tree is left out
    there; `in_bag` is (n, n_trees), or empty where all rows count.
    """
    n = features.shape[0]
    bags = in_bag.shape[0] > 0
    leaves = np.empty(CHAINS, np.uint64)
    rows = np.empty((min(n, ROWS), 2 * features.shape[1]), np.float32)
    prefix = np.empty(min(n, ROWS))
    for start in range(0, n, ROWS):
        stop = min(n, start + ROWS)
        lay_out(features, start, stop, rows)
        prefix[:] = base
        for block in range(depths.shape[0]):
            width = min(CHAINS, n_trees - block * CHAINS)
            for i in range(stop - start):
                _descend(nodes, roots, block, depths, bits, rows, i, leaves)
                target = targets[start + i]
                for j in range(width):
                    leaf = leaves[uint64(j)]
                    tree = block * CHAINS + j
                    suggested = rate * (target - prefix[i]) if rate > 0.0 else target / n_trees
                    prefix[i] += values[leaf]
                    if start + i == 0:
                        tree_moments[tree, 0] = suggested
                    shifted = suggested - tree_moments[tree, 0]
                    tree_moments[tree, 1] += shifted
                    tree_moments[tree, 2] += shifted * shifted
                    if bags and in_bag[start + i, tree]:
                        continue
                    count = table[leaf, COUNT] + 1.0
                    off = suggested - table[leaf, MEAN]
                    table[leaf, COUNT] = count
                    table[leaf, MEAN] += off / count
                    table[leaf, SPREAD] += off * (suggested - table[leaf, MEAN])


@njit(cache=True)
def update_leaves(  # type: ignore[no-untyped-def]
    nodes, roots, depths, bits, n_trees, base, rate, features, targets, prior, prior_rows, table
):
    """Let each row change the leaves it reaches: running output, mean, variance and count, no refit.

    A boosted tree is suggested rate * (target - prefix), the prefix being that of the trees before it as they are
    now, each after its own update: then the steps of all trees together never exceed the gap that the largest of
    them sees, while steps against a fixed prefix add up and overshoot. s² is (Σ squared deviations + prior_rows ·
    prior) / (c - 1 + prior_rows). Returns the prediction of each row just before it changed the leaves, (n,).
    """
    n = features.shape[0]
    predicted = np.empty(n)
    leaves = np.empty(CHAINS, np.uint64)
    rows = np.empty((1, 2 * features.shape[1]), np.float32)
    for i in range(n):
        lay_out(features, i, i + 1, rows)
        prefix, predicted[i] = base, base
        for block in range(depths.shape[0]):
            _descend(nodes, roots, block, depths, bits, rows, 0, leaves)
            for j in range(min(CHAINS, n_trees - block * CHAINS)):
                leaf = leaves[uint64(j)]
                suggested = rate * (targets[i] - prefix) if rate > 0.0 else targets[i] / n_trees
                predicted[i] += table[leaf, OUTPUT]
                before = table[leaf, COUNT]
                count = before + 1.0
                assumed = prior_rows * prior[block * CHAINS + j]
                deviations = 0.0
                if before > 1.0:
                    deviations = table[leaf, SPREAD] * before * (before - 1.0 + prior_rows) - assumed
                off = suggested - table[leaf, MEAN]
                table[leaf, COUNT] = count
                table[leaf, MEAN] += off / count
                table[leaf, OUTPUT] += (suggested - table[leaf, OUTPUT]) / count
                prefix += table[leaf, OUTPUT]
                if count > 1.0:
                    deviations += off * (suggested - table[leaf, MEAN])
                    table[leaf, SPREAD] = (deviations + assumed) / (count * (count - 1.0 + prior_rows))
                else:
                    table[leaf, SPREAD] = prior[block * CHAINS + j]
    return predicted
