"""The compiled loops over trees: find leaves, score rows, draw rows, let rows change leaves.

Kernels take plain tuples of arrays and name their members inside (`ForestArrays(*forest)`): numba unpacks a plain
tuple in a tenth of the time of a named one. The kernels of a rebuild let go of Python's lock, so that decisions go on
meanwhile; those of a decision keep it, since another thread might then hold it for milliseconds. Helpers that only
kernels call have no Python wrapper, which saves a third of their compile time. Kernels allocate nothing and return no
array, but write into what they are given: that saves numba's reference counts, and compile time.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numba import float64, uint32, uint64
from numpy.typing import NDArray

from treebandit.compiled import helper, kernel, long_kernel
from treebandit.core import Features, Floats, Random

#: Trees walked in step; a forest's roots are padded to a multiple of it.
CHAINS = 10
#: Rows laid out at a time: at most so many, since leaves are fetched into the cache for all of them; and fewer, but not
#: less than the second number, where they would not stay in the cache themselves, which holds so many of their numbers.
ROWS, _FEWEST_ROWS, _CACHED = 8192, 1024, 1 << 18
#: Scratch for so many rows is kept from one decision to the next.
_FEW_ROWS = 16

#: threshold: go right at or above it; step: distance to the left child << bits | column of the laid-out row.
NODE = np.dtype([("threshold", np.float32), ("step", np.uint32)])

#: Columns of a leaf table: leaf output o, s²/c, count c, mean of the suggested outputs.
OUTPUT, VARIANCE, COUNT, MEAN = 0, 1, 2, 3

#: The sum of four uniforms on 0..65535 has variance (65536² - 1) / 3.
NOISE_SCALE = (3.0 / (65536.0**2 - 1.0)) ** 0.5
#: Draw k of a key is the first draw of the key k times this number further on, modulo 2⁶⁴.
NEXT_DRAW = 0xD1342543DE82EF95
#: From one number of a splitmix64 stream to the next.
STEP = np.uint64(0x9E3779B97F4A7C15)


class ForestArrays(NamedTuple):
    """A forest as kernels see it. The last node is a leaf of output 0 that fills up the last block of roots.

    roots: (blocks * CHAINS,). depths: (blocks,), of the deepest tree of each block. bits: of a step, for the column.
    """

    nodes: NDArray[np.void]
    roots: NDArray[np.uint64]
    depths: NDArray[np.int64]
    bits: int
    n_trees: int
    base: float
    rate: float


class LeafArrays(NamedTuple):
    """What leaves know. version: (1,), how many updates there were."""

    table: Floats
    prior: Floats
    prior_rows: float
    version: NDArray[np.int64]


class RowArrays(NamedTuple):
    """Rows to learn. in_bag: (n, trees), rows that a tree was grown on and must not count; or empty."""

    features: Features
    targets: Floats
    in_bag: NDArray[np.bool_]


def scratch(n: int, width: int) -> tuple[Features, NDArray[np.uint64]]:
    """For n rows of so many features: rows as laid out, and where they are in the trees of a block."""
    size = n or 1
    if n > _FEWEST_ROWS:
        size = min(n, ROWS, max(_FEWEST_ROWS, _CACHED // max(2 * width, 1)))
    return np.empty((size, 2 * width), np.float32), np.empty((size, CHAINS), np.uint64)


@lru_cache(maxsize=64)
def _kept_scratch(n: int, width: int) -> tuple[Features, NDArray[np.uint64]]:
    """`scratch` for few rows, as for most decisions, once for all kernels that keep Python's lock: only one at a time
    writes into it, and nothing is read from it later.
    """
    return scratch(n, width)


def decision_scratch(n: int, width: int) -> tuple[Features, NDArray[np.uint64]]:
    """`scratch` for a kernel that keeps Python's lock."""
    return _kept_scratch(n, width) if n <= _FEW_ROWS else scratch(n, width)


def draw_key(random: Random) -> int:
    """A random key below 2⁶³, the one that `random.integers(2**63)` would draw, in a sixth of its time."""
    source = random.bit_generator
    return source.random_raw() >> 1 if isinstance(source, np.random.PCG64) else int(random.integers(2**63))


@helper
def lay_out(features, start, n, rows):  # type: ignore[no-untyped-def]
    """Copy n rows of the features from `start` on into both halves of `rows`.

    A missing value is -inf in the first half and +inf in the second. A node whose missing values go left reads the
    first half, any other node the second, so the walk needs no test for missing values.
    """
    width = features.shape[1]
    for i in range(n):
        for j in range(width):
            value = features[start + i, j]
            missing = value != value
            rows[i, j] = -np.inf if missing else value
            rows[i, j + width] = np.inf if missing else value


@helper
def _walk(forest, block, rows, n, found):  # type: ignore[no-untyped-def]
    """Walk n rows down the trees of a block: found[i, j] becomes the node at which row i ends in its tree j.

    One walk alone waits for memory at every node, so CHAINS trees are walked in step. A node takes 8 bytes, its right
    child follows the left one, and a leaf is at distance 0 from itself under a threshold that nothing reaches (NaN):
    every walk takes the same number of steps and has no branch to mispredict. Unsigned indices save a sign test each.
    """
    mask, shift = uint32((1 << forest.bits) - 1), uint32(forest.bits)
    nodes, roots, depth = forest.nodes, forest.roots, forest.depths[block]
    first = uint64(block) * uint64(CHAINS)
    for i in range(uint64(n)):
        for j in range(uint64(CHAINS)):
            found[i, j] = roots[first + j]
        for _ in range(depth):
            for j in range(uint64(CHAINS)):
                node = found[i, j]
                step = nodes[node].step
                goes_right = rows[i, uint64(step & mask)] >= nodes[node].threshold
                found[i, j] = node + uint64(step >> shift) + uint64(goes_right)


@kernel
def find_leaves(forest, features, ends, scratch):  # type: ignore[no-untyped-def]
    """Note the node at which each row ends in each tree, in (n, n_trees) ends."""
    trees, (rows, found) = ForestArrays(*forest), scratch
    n, most = features.shape[0], rows.shape[0]
    for start in range(0, n, most):
        size = n - start if n - start < most else most
        lay_out(features, start, size, rows)
        for block in range(trees.depths.shape[0]):
            _walk(trees, block, rows, size, found)
            for i in range(size):
                for j in range(min(CHAINS, trees.n_trees - block * CHAINS)):
                    ends[start + i, block * CHAINS + j] = found[i, j]


@kernel
def score_rows(forest, table, features, sums, scratch):  # type: ignore[no-untyped-def]
    """Add the leaf output, s²/c and count of each tree to (3, n) sums."""
    trees, (rows, found) = ForestArrays(*forest), scratch
    n, most = features.shape[0], rows.shape[0]
    for start in range(0, n, most):
        size = n - start if n - start < most else most
        lay_out(features, start, size, rows)
        for block in range(trees.depths.shape[0]):
            _walk(trees, block, rows, size, found)
            for i in range(size):
                row = start + i
                output, variance, count = sums[0, row], sums[1, row], sums[2, row]
                for j in range(CHAINS):
                    leaf = found[i, j]
                    output += table[leaf, OUTPUT]
                    variance += table[leaf, VARIANCE]
                    count += table[leaf, COUNT]
                sums[0, row], sums[1, row], sums[2, row] = output, variance, count


def sum_rows(forest: tuple[Any, ...], table: Floats, features: Features) -> Floats:
    """`score_rows` from 0: (3, n)."""
    sums = np.zeros((3, len(features)))
    score_rows(forest, table, features, sums, decision_scratch(*features.shape))
    return sums


@helper
def mix(bits):  # type: ignore[no-untyped-def]
    """64 random bits from any others (the finish of splitmix64)."""
    bits = (bits ^ (bits >> uint64(30))) * uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> uint64(27))) * uint64(0x94D049BB133111EB)
    return bits ^ (bits >> uint64(31))


@helper
def hashed(key, leaf):  # type: ignore[no-untyped-def]
    """splitmix64: 64 bits that look random and always are the same for this key and leaf."""
    return mix(key + (leaf + uint64(1)) * STEP)


@helper
def leaf_noise(key, leaf):  # type: ignore[no-untyped-def]
    """A draw of mean 0 and variance 1 that belongs to this leaf under this key.

    The four 16-bit parts of a hash, added up: near enough to normal for a sum over many leaves, the same wherever it
    is asked for, and without a table of draws.
    """
    bits, low = hashed(key, leaf), uint64(0xFFFF)
    drawn = (bits & low) + ((bits >> uint64(16)) & low) + ((bits >> uint64(32)) & low) + (bits >> uint64(48))
    return (float64(uint32(drawn)) - 131070.0) * NOISE_SCALE


@helper
def add_draws(table, leaf, key, exploration, drawn):  # type: ignore[no-untyped-def]
    """Add to each of (draws,) numbers its own draw of o + exploration · √(s²/c) · noise of a leaf."""
    output, deviation = table[leaf, OUTPUT], exploration * np.sqrt(table[leaf, VARIANCE])
    if deviation == 0.0:  # as in leaves of equal rewards, which are many
        for k in range(uint64(drawn.shape[0])):
            drawn[k] += output
        return
    for k in range(uint64(drawn.shape[0])):
        drawn[k] += output + deviation * leaf_noise(key + k * uint64(NEXT_DRAW), leaf)


@helper
def _add_shared_draws(table, found, noise, samples, scratch):  # type: ignore[no-untyped-def]
    """`add_draws` of all rows in the trees of a block; a leaf that several rows reach is drawn once.

    Rows that differ only in the arm, as most candidates of one decision do, mostly share their leaves.
    noise: key and exploration. scratch: for the different leaves of one tree, and for their draws.
    """
    (key, exploration), (leaves, drawn) = noise, scratch
    for j in range(CHAINS):
        different = 0
        for i in range(samples.shape[0]):
            leaf, place = found[i, j], 0
            while place < different and leaves[place] != leaf:
                place += 1
            if place == different:
                leaves[place] = leaf
                drawn[place] = 0.0
                add_draws(table, leaf, key, exploration, drawn[place])
                different += 1
            for k in range(drawn.shape[1]):
                samples[i, k] += drawn[place, k]


@kernel
def sample_rows(forest, table, features, noise, samples, scratch):  # type: ignore[no-untyped-def]
    """Add o + exploration · √(s²/c) · noise of the leaf, of each tree, to (n, draws) samples.

    Rows are walked once for all draws, and rows in one leaf share its noise, draw by draw.
    noise: key and exploration.
    """
    trees, (rows, found), (key, exploration) = ForestArrays(*forest), scratch, noise
    n, most = features.shape[0], rows.shape[0]
    for start in range(0, n, most):
        size = n - start if n - start < most else most
        lay_out(features, start, size, rows)
        for block in range(trees.depths.shape[0]):
            _walk(trees, block, rows, size, found)
            for i in range(size):
                for j in range(CHAINS):
                    add_draws(table, found[i, j], key, exploration, samples[start + i])


@kernel
def sample_few_rows(forest, table, features, noise, samples, scratch):  # type: ignore[no-untyped-def]
    """The same of so few rows that one piece of scratch holds all, by `_add_shared_draws`.

    A kernel of its own, since choices with one draw each need not compile it. scratch: and for that, at the end.
    """
    trees, (rows, found, leaves, drawn) = ForestArrays(*forest), scratch
    lay_out(features, 0, features.shape[0], rows)
    for block in range(trees.depths.shape[0]):
        _walk(trees, block, rows, features.shape[0], found)
        _add_shared_draws(table, found, noise, samples, (leaves, drawn))


def draw_rows(
    forest: tuple[Any, ...], table: Floats, features: Features, noise: tuple[np.uint64, float], draws: int
) -> Floats:
    """`sample_rows` from 0: (n, draws)."""
    n = len(features)
    samples, work = np.zeros((n, draws)), decision_scratch(n, features.shape[1])
    # Comparing leaves costs time, too: with one draw, or few of many rows, more than it saves.
    if draws > 1 and 1 < n < 4 * draws and n <= _FEWEST_ROWS:
        shared = np.empty(n, np.uint64), np.empty((n, draws))
        sample_few_rows(forest, table, features, noise, samples, (*work, *shared))
    else:
        sample_rows(forest, table, features, noise, samples, work)
    return samples


@long_kernel
def learn_rows(forest, leaves, rows_, expected, fixed, made):  # type: ignore[no-untyped-def]
    """Let each row change the leaves it reaches: running output, mean, variance and count, no refit.

    The output that a row suggests to tree n is rate * (target - p) where trees are added up (rate > 0), p being the
    prediction of the trees before it as they are now, each after its own update; target / n_trees where they are
    averaged (rate = 0). s² is (Σ squared deviations + prior_rows · prior) / (c - 1 + prior_rows).

    expected: does nothing unless this is the version of the leaves, and counts it up in the end, so that an update
        can be asked for again by someone who does not know whether it was done.
    fixed: outputs stay as they are. made: (n,), becomes the prediction of each row just before it is learned; then
        scratch.

    Trees are walked block by block, all rows in each: a block's leaves stay in the cache. The result is that of one
    row after the other, because a row sees of the other blocks only its own prefix.
    """
    trees, known, given = ForestArrays(*forest), LeafArrays(*leaves), RowArrays(*rows_)
    predicted, prefix, rows, found = made
    if known.version[0] != expected:
        return
    table, features, in_bag = known.table, given.features, given.in_bag
    n, most = features.shape[0], rows.shape[0]
    prior_rows, bags = known.prior_rows, in_bag.shape[0] > 0
    for start in range(0, n, most):
        size = n - start if n - start < most else most
        lay_out(features, start, size, rows)
        for i in range(size):
            prefix[i] = trees.base
            predicted[start + i] = trees.base
        for block in range(trees.depths.shape[0]):
            _walk(trees, block, rows, size, found)
            left = trees.n_trees - block * CHAINS
            for i in range(size):
                target = given.targets[start + i]
                for j in range(left if left < CHAINS else CHAINS):
                    leaf, tree = found[i, j], block * CHAINS + j
                    boosted = trees.rate > 0.0
                    suggested = trees.rate * (target - prefix[i]) if boosted else target / trees.n_trees
                    predicted[start + i] += table[leaf, OUTPUT]
                    if not (bags and in_bag[start + i, tree]):
                        before = table[leaf, COUNT]
                        count = before + 1.0
                        off = suggested - table[leaf, MEAN]
                        mean = table[leaf, MEAN] + off / count
                        # c (c - 1 + prior_rows) times the old s²/c is the old Σ squared deviations, prior included.
                        variance = known.prior[tree]
                        if count > 1.0:
                            deviations = prior_rows * variance
                            if before > 1.0:
                                deviations = table[leaf, VARIANCE] * before * (before - 1.0 + prior_rows)
                            deviations += off * (suggested - mean)
                            variance = deviations / (count * (count - 1.0 + prior_rows))
                        table[leaf, COUNT], table[leaf, MEAN], table[leaf, VARIANCE] = count, mean, variance
                        if not fixed:
                            table[leaf, OUTPUT] += (suggested - table[leaf, OUTPUT]) / count
                    prefix[i] += table[leaf, OUTPUT]
    known.version[0] = expected + 1
