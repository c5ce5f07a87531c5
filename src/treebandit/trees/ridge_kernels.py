"""The compiled loops of ridge regressions that are kept up to date row by row."""
# mypy: disallow_untyped_decorators=False
# ruff: noqa: ANN001, ANN201, ANN202

from __future__ import annotations

import numpy as np
from numba import njit

#: Sums may be taken in any order; NaN must stay NaN, since it stands for a missing number.
_LOOSE = {"reassoc", "contract", "nsz"}


@njit(cache=True, fastmath=_LOOSE, error_model="numpy")
def _lay_out(x, means, scales, places, z):  # type: ignore[no-untyped-def]
    """Fill `places` and `z` with what is not 0 of (1, scaled x); how many they are. A missing number is 0."""
    places[0], z[0], filled = 0, 1.0, 1
    for j in range(means.shape[0]):
        value = (x[j] - means[j]) / scales[j]
        if value == value and value != 0.0:
            places[filled], z[filled] = j + 1, value
            filled += 1
    return filled


@njit(cache=True, fastmath=_LOOSE, error_model="numpy")
def add_up(x, targets, slots, means, scales, grams, moments):  # type: ignore[no-untyped-def]
    """Add zz' and z · target of (n, d) rows to (slots, width, width) grams and (slots, width) moments."""
    width = means.shape[0] + 1
    places, z = np.empty(width, np.int64), np.empty(width)
    for i in range(x.shape[0]):
        filled = _lay_out(x[i], means, scales, places, z)
        gram, moment = grams[slots[i]], moments[slots[i]]
        for a in range(filled):
            moment[places[a]] += z[a] * targets[i]
            row = gram[places[a]]
            for b in range(a + 1):
                row[places[b]] += z[a] * z[b]
    for gram in grams:
        for a in range(width):
            for b in range(a):
                gram[b, a] = gram[a, b]


@njit(cache=True, fastmath=_LOOSE, error_model="numpy")
def look_up(x, slots, means, scales, thetas, inverses):  # type: ignore[no-untyped-def]
    """z·θ and z'A⁻¹z of (n, d) rows under the regressions in their slots: (2, n), for the cost of what is not 0."""
    n, width = x.shape[0], means.shape[0] + 1
    found = np.empty((2, n))
    places, z = np.empty(width, np.int64), np.empty(width)
    for i in range(n):
        filled = _lay_out(x[i], means, scales, places, z)
        theta, inverse = thetas[slots[i]], inverses[slots[i]]
        mean, variance = 0.0, 0.0
        for a in range(filled):
            mean += theta[places[a]] * z[a]
            row = inverse[places[a]]
            half = 0.5 * row[places[a]] * z[a]
            for b in range(a):
                half += row[places[b]] * z[b]
            variance += 2.0 * half * z[a]
        found[0, i] = mean
        found[1, i] = max(variance, 0.0)
    return found


@njit(cache=True, fastmath=_LOOSE, error_model="numpy")
def learn_rows(x, targets, slots, last, means, scales, thetas, inverses):  # type: ignore[no-untyped-def]
    """Let (n, d) rows change the regressions in slots before `last`, one after the other (Sherman and Morrison)."""
    width = means.shape[0] + 1
    places, z, image = np.empty(width, np.int64), np.empty(width), np.empty(width)
    for i in range(x.shape[0]):
        if slots[i] >= last:
            continue
        filled = _lay_out(x[i], means, scales, places, z)
        theta, inverse = thetas[slots[i]], inverses[slots[i]]
        image[:] = 0.0
        error = targets[i]
        for a in range(filled):
            error -= theta[places[a]] * z[a]
            for b in range(width):
                image[b] += inverse[places[a], b] * z[a]
        growth = 1.0
        for a in range(filled):
            growth += image[places[a]] * z[a]
        for a in range(width):
            share = image[a] / growth
            theta[a] += share * error
            for b in range(width):
                inverse[a, b] -= share * image[b]


@njit(cache=True, error_model="numpy")
def blend(scores, features, leverage, weight, bonus):  # type: ignore[no-untyped-def]
    """(1 - w) · score + w · last feature + bonus · √leverage, in place of (n,) scores."""
    last = features.shape[1] - 1
    for i in range(scores.shape[0]):
        scores[i] += weight * (features[i, last] - scores[i]) + bonus * np.sqrt(leverage[i])
