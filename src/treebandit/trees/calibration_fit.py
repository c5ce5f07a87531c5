"""Learns how far off the means of an ensemble are, from ensembles grown on parts of the same rows.

Held-out errors hold noise, which the mean is not to blame for. Two things are free of it: how much two ensembles grown
on different rows differ (their variance), and products of the held-out errors of two rows that are alike (their common
bias, since the noise of one row does not know that of the other).
"""
# mypy: disallow_untyped_decorators=False
# ruff: noqa: ANN001, ANN201

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from treebandit.compiled import njit
from treebandit.core import Features, Floats, Random
from treebandit.steps import scaled
from treebandit.trees.calibration import PROBABILITIES, Calibration, deviations, scale_of
from treebandit.trees.forest import Forest
from treebandit.trees.histogram_forest import HistogramForest
from treebandit.trees.leaf_statistics import LeafStatistics

#: Grows trees on some rows with a seed; yields the share that is done.
Grow = Callable[[Features, Floats, int], Generator[float, None, Forest]]

#: With fewer rows nothing is learned, and a mean may be as far off as the targets are from theirs.
FEWEST_ROWS = 20
#: Parts of the rows. Each ensemble is grown on two of them, and two ensembles have not seen a fifth part.
_PARTS = 5
#: From so many rows on, one part is held out, which is enough; below, each of them in turn.
_MANY_ROWS = 50_000
#: With fewer rows the parts are drawn anew, so that about as many rows are held out, but not for ever.
_FEW_ROWS, _MOST_REPEATS = 2000, 3
#: Held-out rows that are compared, and trees of each ensemble that tell which of them are alike.
_MOST_HELD_OUT, _MOST_TREES = 4000, 50
_NEIGHBOURS = 3
#: Rows that share this share of their leaves have the same bias; below, it fades in proportion.
_SAME_BIAS = 0.625
#: Squared bias by variance: the range within which it is looked for.
_LEAST_BIAS, _MOST_BIAS = 0.06, 50.0
#: Both rows of a pair are often each other's neighbours, so that products are fewer than they seem.
_PAIRED = 1.3
_TINY = 1e-300
#: Share of the work that growing the trees is.
_GROWN = 0.9
#: How much more variance ensembles of 2/5 of the rows have: its range, as the leaf variances tell it.
_LEAST_RATIO, _MOST_RATIO = 1.1, 2.5
#: The variance falls a little faster with the rows than leaf variances do, the bias much more slowly (found by trial).
_FALLS_FASTER = 1.15


class HeldOut(NamedTuple):
    """Rows that two ensembles have not seen.

    targets: (n,). predicted, scales: (2, n), and how much less sure each row is than the mean row, as a factor of
    variances. neighbours, shares: (n, k), the rows most like each, and the share of the trees in
    which they are in one leaf. companion: (n,), the mean prediction of the forests that tell which rows are alike.
    """

    targets: Floats
    predicted: Floats
    scales: Floats
    neighbours: NDArray[np.int64]
    shares: Floats
    companion: Floats


def calibrate_steps(
    grow: Grow, leaves: LeafStatistics, features: Features, targets: Floats, *, seed: int
) -> Generator[float, None, Calibration]:
    """Learn the errors of `leaves`, whose trees `grow` has grown on (n, d) features and (n,) targets."""
    n = len(targets)
    now = float(leaves.estimate(features).variance.mean())
    if n < FEWEST_ROWS:
        # Each of the mean's error and the noise may be all of the deviations.
        quantiles, variance = np.quantile(targets - targets.mean(), PROBABILITIES), float(np.var(targets))
        return Calibration(variance, now, variance, np.sqrt(2.0) * quantiles)
    random, parts, variances = np.random.default_rng(seed), [], []
    repeats = min(-(-_FEW_ROWS // n), _MOST_REPEATS)
    for repeat in range(repeats):
        learning = _split_steps(grow, features, targets, random)
        held_out, told = yield from scaled(learning, repeat / repeats, (repeat + 1) / repeats)
        parts += held_out
        variances += told
    whole = LeafStatistics.measure(leaves.forest, features, targets).estimate(features).variance.mean()
    ratio = float(np.mean(variances) / whole) if whole > 0.0 else _LEAST_RATIO
    return _calibration(parts, min(max(ratio, _LEAST_RATIO), _MOST_RATIO), now)


def _split_steps(
    grow: Grow, features: Features, targets: Floats, random: Random
) -> Generator[float, None, tuple[list[HeldOut], list[float]]]:
    """Grow ensembles on two of five parts of the rows each; what they tell of the others, and their leaf variances."""
    n = len(targets)
    part = random.permutation(n) % _PARTS
    held_out = range(_PARTS if n < _MANY_ROWS else 1)
    first = sorted({(out + by) % _PARTS for out in held_out for by in (1, 3)})
    measured, companions = {}, {}
    for number, start in enumerate(first):
        own = (part == start) | (part == (start + 1) % _PARTS)
        rows = features[own], targets[own]
        grown = grow(*rows, int(random.integers(2**31 - 1)))
        forest = yield from scaled(grown, _GROWN * number / len(first), _GROWN * (number + 1) / len(first))
        leaves = LeafStatistics.measure(forest, *rows)
        measured[start] = leaves, float(leaves.estimate(rows[0]).variance.mean())
        companions[start] = forest
        if forest.learning_rate:
            # Boosted trees tell less well which rows are alike: late trees are grown on what is nearly noise.
            companions[start] = HistogramForest().fit(*rows, seed=int(random.integers(2**31 - 1)))
    parts = []
    for out in held_out:
        yield _GROWN + (1.0 - _GROWN) * out / len(held_out)
        rows_out = np.flatnonzero(part == out)[:_MOST_HELD_OUT]
        pair = [(out + by) % _PARTS for by in (1, 3)]
        pairs = [measured[i] for i in pair], [companions[i] for i in pair]
        parts.append(_held_out(features[rows_out], targets[rows_out], *pairs))
    return parts, [variance for _, variance in measured.values()]


def _held_out(
    features: Features,
    targets: Floats,
    measured: list[tuple[LeafStatistics, float]],
    companions: list[Forest],
) -> HeldOut:
    estimates = [leaves.estimate(features) for leaves, _ in measured]
    predicted = np.stack([estimate.mean for estimate in estimates])
    scales = np.stack(
        [
            scale_of(estimate.variance, typical)
            for estimate, (_, typical) in zip(estimates, measured, strict=True)
        ]
    )
    ends = [forest.find_leaves(features)[:, :_MOST_TREES] for forest in companions]
    # 16 bits tell the leaves of one tree apart, and are compared twice as fast as 32.
    trees = np.ascontiguousarray(np.hstack(ends).T.astype(np.int16))
    neighbours, shared = find_neighbours(trees, _NEIGHBOURS)
    companion = np.mean([forest.predict(features) for forest in companions], axis=0)
    shares = shared / sum(end.shape[1] for end in ends)
    return HeldOut(targets, predicted, scales, neighbours, shares, companion)


def _calibration(parts: list[HeldOut], ratio: float, leaf_variance: float) -> Calibration:
    """Put together what the parts tell. ratio: of the variance of their ensembles to that of the whole one."""
    targets = np.concatenate([part.targets for part in parts])
    predicted = np.concatenate([part.predicted for part in parts], axis=1)
    errors = targets - predicted
    variance = float(np.square(predicted[0] - predicted[1]).mean()) / 2
    # The product of both errors of a row is its squared bias and noise; the rest takes the noise away.
    biased = float((errors[0] * errors[1]).mean())
    measured, uncertainty = noise_variance(parts)
    bias = _squared_bias(biased - measured, uncertainty, variance, max(biased, 0.0))
    error = variance / (_FALLS_FASTER * ratio) + bias / np.cbrt(ratio)
    noise = max(biased - bias, 0.0)
    shrunk = np.sqrt((noise + error) / max(float(np.square(errors).mean()), _TINY))
    deviation = deviations(noise, variance + bias, np.concatenate([part.scales for part in parts], axis=1))
    quantiles = np.quantile(shrunk * errors / deviation, PROBABILITIES)
    return Calibration(float(error), leaf_variance, noise, quantiles)


def noise_variance(parts: list[HeldOut]) -> tuple[float, float]:
    """The variance of the noise, and the standard error of that.

    Of the errors of the best linear combination of all predictions, what is common to rows alike is no noise.
    """
    targets = np.concatenate([part.targets for part in parts])
    told = [np.ones(len(targets)), np.concatenate([part.companion for part in parts])]
    told.append(np.concatenate([part.predicted.mean(0) for part in parts]))
    columns = np.stack(told, axis=1)
    errors = targets - columns @ np.linalg.lstsq(columns, targets, rcond=None)[0]
    products, start = [], 0
    for part in parts:
        own = errors[start : start + len(part.targets)]
        products.append(own * own[part.neighbours].mean(1))
        start += len(own)
    common = np.concatenate(products)
    shares = np.concatenate([part.shares for part in parts])
    fading = max(float(np.minimum(shares / _SAME_BIAS, 1.0).mean()), _TINY)
    deviation = float(common.std()) / np.sqrt(len(common)) * _PAIRED
    return float(np.square(errors).mean() - common.mean() / fading), deviation / fading


def _squared_bias(measured: float, uncertainty: float, variance: float, most: float) -> float:
    """The posterior mean of a squared bias, of which no order of magnitude is more likely beforehand than another."""
    if variance <= 0.0 or uncertainty <= 0.0:
        return min(max(measured, 0.0), most)
    values = variance * np.geomspace(_LEAST_BIAS, _MOST_BIAS, 200)
    values = values[values <= max(most, values[0])]
    weights = -0.5 * np.square((measured - values) / uncertainty)
    weights = np.exp(weights - weights.max())
    return float(weights @ values / weights.sum())


@njit(cache=True, nogil=True)
def find_neighbours(leaves, k):  # type: ignore[no-untyped-def]
    """Of each of n rows, the k others that share most leaves with it, and how many, by (trees, n) leaves: (n, k) each.

    Where fewer than k share any, the rest are whatever rows come first.
    """
    trees, n = leaves.shape
    found, shared = np.zeros((n, k), np.int64), np.zeros((n, k))
    counts = np.empty(n, np.int16)
    for i in range(n):
        counts[:] = 0
        for tree in range(trees):
            leaf = leaves[tree, i]
            for j in range(n):
                counts[j] += np.int16(leaves[tree, j] == leaf)
        counts[i] = -1
        for place in range(k):
            best = 0
            for j in range(1, n):
                if counts[j] > counts[best]:
                    best = j
            found[i, place], shared[i, place] = best, max(counts[best], 0)
            counts[best] = -1
    return found, shared
