"""Whether errors of predictions have begun to go with features: a slope that turns round leaves their mean near 0."""
# mypy: disallow_untyped_decorators=False
# ruff: noqa: ANN001, ANN202

from __future__ import annotations

import math

import numpy as np

from treebandit.compiled import helper, kernel
from treebandit.core import Features, Floats, Indices
from treebandit.models.packed import cholesky, dot, row_start

#: Wider rows are not looked at: with many slopes to learn from few rows there is little to see, at a high cost.
MOST_COLUMNS = 32
#: How many of the newest rows may be those since a change, each a half more than the one before or a third.
_LENGTHS = np.array([16, 24, 32, 48, 64, 96, 128], np.intp)
#: The rows looked at: those since a change are at most half of them.
MOST_ROWS = 2 * int(_LENGTHS[-1])
#: λ: slopes are expected to change by 1 / √λ.
_PRECISION = 16.0
#: Errors are taken to have at least this share of the rewards' variance: smaller ones matter little.
_LEAST_VARIANCE = 0.25
#: Features count as so many standard deviations at most.
_BOUND = 5.0


def rows_since_change(contexts: Features, errors: Floats, variance: float, delta: float) -> int:
    """In how many of the newest of these rows errors go with features, as they did not before; 0 where they do not.

    The evidence for it has to exceed ln(1/δ), and by as much twice that of as many rows just before, and errors have to
    be greater than usual: a model that was never quite right there has not become worse. At most half of the rows are
    taken to be since a change.

    contexts: (n, d), the oldest first. errors: (n,), in standard deviations of the rewards. variance: mean square of
        all errors of the arm.
    delta: δ, how likely a false alarm is at most, each time and for each length.
    """
    needed = -math.log(delta)
    lengths = _LENGTHS[: np.searchsorted(_LENGTHS, len(errors) // 2, side="right")]
    evidence, count = slope_evidence(contexts, errors, variance, lengths)
    if evidence <= needed or np.mean(np.square(errors[-count:])) <= variance:
        return 0
    before, _ = slope_evidence(contexts[:-count], errors[:-count], variance, np.array([count], np.intp))
    return count if evidence - 2.0 * max(before, 0.0) > needed else 0


def slope_evidence(
    contexts: Features, errors: Floats, variance: float, lengths: Indices
) -> tuple[float, int]:
    """Evidence that errors go with features in the newest rows: the greatest for these numbers of rows, and its number.

    For errors e with mean 0 and variance σ², whatever came before, z the features in front of which there is a 1,
    m = Σ ze and V = Σ zz' (e² + 2σ²) / 3, exp(u·m - ½ u'Vu) has at most the expectation 1 for every u (Delyon 2009,
    for any distribution of e). So has its mean over u drawn from N(0, I/λ), an e-value whose logarithm is

        ½ m'(λI + V)⁻¹m - ½ ln |I + V/λ|.

    While the model is right, it exceeds ln(1/δ) with probability δ at most.
    """
    size = contexts.shape[1] + 1
    vectors, sums = np.empty((3, size)), np.empty((2, size * (size + 1) // 2))
    scratch, found = (np.empty((2, size)), *vectors, *sums), np.array([-math.inf, 0.0])
    _greatest(contexts, errors, max(variance, _LEAST_VARIANCE), lengths, scratch, found)
    return float(found[0]), int(found[1])


@helper
def _scale(contexts, scales):  # type: ignore[no-untyped-def]
    """Mean and 1 / deviation of each column, missing values apart."""
    for j in range(contexts.shape[1]):
        count, mean, squares = 0.0, 0.0, 0.0
        for i in range(contexts.shape[0]):
            value = np.float64(contexts[i, j])
            if value == value:
                count += 1.0
                step = value - mean
                mean += step / count
                squares += step * (value - mean)
        scales[0, j] = mean
        # Rounding alone gives a constant column a deviation of about 1e-8 of its size.
        scales[1, j] = np.sqrt(count / squares) if squares > 1e-12 * count * mean * mean else 0.0


@helper
def _add(sums, moment, z, error, variance):  # type: ignore[no-untyped-def]
    """Take a row into V and m."""
    weight = (error * error + 2.0 * variance) / 3.0
    for i in range(z.shape[0]):
        moment[i] += z[i] * error
        row = sums[row_start(i) :]
        for j in range(i + 1):
            row[j] += weight * z[i] * z[j]


@helper
def _evidence_of(sums, moment, root, solved):  # type: ignore[no-untyped-def]
    """The logarithm of the e-value of V and m; root and solved are scratch."""
    size, evidence = moment.shape[0], 0.0
    for i in range(sums.shape[0]):
        root[i] = sums[i]
    cholesky(root, size, _PRECISION)
    for i in range(size):
        # L⁻¹m, whose square is m'(λI + V)⁻¹m.
        row = root[row_start(i) :]
        solved[i] = (moment[i] - dot(row, solved, i)) / row[i]
        evidence += 0.5 * solved[i] * solved[i] - np.log(row[i]) + 0.5 * np.log(_PRECISION)
    return evidence


@kernel
def _greatest(contexts, errors, variance, lengths, scratch, found):  # type: ignore[no-untyped-def]
    """The greatest evidence of all lengths, and of how many rows it is, into `found`."""
    scales, z, moment, solved, sums, root = scratch
    n, taken = errors.shape[0], 0
    _scale(contexts, scales)
    for i in range(sums.shape[0]):
        sums[i] = 0.0
    for i in range(moment.shape[0]):
        moment[i] = 0.0
    z[0] = 1.0
    for k in range(lengths.shape[0]):
        while taken < lengths[k]:
            taken += 1
            for j in range(contexts.shape[1]):
                value = (np.float64(contexts[n - taken, j]) - scales[0, j]) * scales[1, j]
                z[j + 1] = min(max(value, -_BOUND), _BOUND) if value == value else 0.0
            _add(sums, moment, z, errors[n - taken], variance)
        evidence = _evidence_of(sums, moment, root, solved)
        if evidence > found[0]:
            found[0], found[1] = evidence, np.float64(taken)
