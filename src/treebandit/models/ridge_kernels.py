"""The compiled loops of ridge regressions that are kept up to date row by row."""
# mypy: disallow_untyped_decorators=False
# ruff: noqa: ANN001, ANN201, ANN202

from __future__ import annotations

import numpy as np

from treebandit.compiled import njit

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


@njit(cache=True)
def _slot_of(arms, i, known):  # type: ignore[no-untyped-def]
    """Which regression serves row i: its arm's, the only one, or the last, which knows the mean reward alone."""
    if known.shape[0] == 0:
        return 0
    slot = np.searchsorted(known, arms[i])
    return slot if slot < known.shape[0] and known[slot] == arms[i] else known.shape[0]


@njit(cache=True, fastmath=_LOOSE, error_model="numpy")
def add_up(x, targets, arms, known, means, scales, grams, moments):  # type: ignore[no-untyped-def]
    """Add zz' and z · target of (n, d) rows to (slots, width, width) grams and (slots, width) moments."""
    width = means.shape[0] + 1
    places, z = np.empty(width, np.int64), np.empty(width)
    for i in range(x.shape[0]):
        filled = _lay_out(x[i], means, scales, places, z)
        slot = _slot_of(arms, i, known)
        gram, moment = grams[slot], moments[slot]
        for a in range(filled):
            moment[places[a]] += z[a] * targets[i]
            row = gram[places[a]]
            for b in range(a + 1):
                row[places[b]] += z[a] * z[b]
    for gram in grams:
        for a in range(width):
            for b in range(a):
                gram[b, a] = gram[a, b]


@njit(cache=True)
def encode(contexts, sources, codes, coded, features, front):  # type: ignore[no-untyped-def]
    """Write (n, d) contexts into the columns of (n, width) features from `front` on.

    Column j has context sources[j], or whether that context is codes[j] where coded[j].
    """
    for i in range(contexts.shape[0]):
        for j in range(sources.shape[0]):
            value = contexts[i, sources[j]]
            if coded[j]:
                value = np.float32(value == codes[j])
            features[i, front + j] = value


@njit(cache=True, fastmath=_LOOSE, error_model="numpy")
def look_up(x, arms, known, base, means, scales, thetas, inverses):  # type: ignore[no-untyped-def]
    """base + z·θ and z'A⁻¹z of (n, d) rows under their arms' regressions: (2, n), for the cost of what is not 0."""
    n, width = x.shape[0], means.shape[0] + 1
    found = np.empty((2, n))
    places, z = np.empty(width, np.int64), np.empty(width)
    for i in range(n):
        filled = _lay_out(x[i], means, scales, places, z)
        slot = _slot_of(arms, i, known)
        theta, inverse = thetas[slot], inverses[slot]
        mean, variance = base, 0.0
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


@njit(cache=True)
def encode_and_look_up(  # type: ignore[no-untyped-def]
    contexts, sources, codes, coded, features, front, arms, known, base, means, scales, thetas, inverses
):
    """Encode, put the score into the last column of (n, front + width + 1) features, and return the leverage, (n,)."""
    encode(contexts, sources, codes, coded, features, front)
    last = features.shape[1] - 1
    found = look_up(features[:, front:last], arms, known, base, means, scales, thetas, inverses)
    for i in range(contexts.shape[0]):
        features[i, last] = found[0, i]
    return found[1]


@njit(cache=True, fastmath=_LOOSE, error_model="numpy")
def learn_rows(x, targets, arms, known, base, means, scales, thetas, inverses):  # type: ignore[no-untyped-def]
    """Let (n, d) rows change the regressions of their arms, one after the other (Sherman and Morrison)."""
    width = means.shape[0] + 1
    places, z, image = np.empty(width, np.int64), np.empty(width), np.empty(width)
    for i in range(x.shape[0]):
        slot = _slot_of(arms, i, known)
        if slot > 0 and slot == known.shape[0]:
            continue
        filled = _lay_out(x[i], means, scales, places, z)
        theta, inverse = thetas[slot], inverses[slot]
        image[:] = 0.0
        error = targets[i] - base
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
def blend(scores, features, weight):  # type: ignore[no-untyped-def]
    """(1 - w) · score + w · last feature, in place of (n,) scores; the greatest of them."""
    last, best = features.shape[1] - 1, -np.inf
    for i in range(scores.shape[0]):
        scores[i] += weight * (features[i, last] - scores[i])
        best = max(best, scores[i])
    return best


@njit(cache=True, error_model="numpy")
def add_bonus(scores, leverage, bonus):  # type: ignore[no-untyped-def]
    """Add bonus · √(h / (1 + h)) to (n,) scores, h the leverage."""
    for i in range(scores.shape[0]):
        scores[i] += bonus * np.sqrt(leverage[i] / (1.0 + leverage[i]))


@njit(cache=True, error_model="numpy")
def compare(foretold, features, rewards, memory, errors):  # type: ignore[no-untyped-def]
    """Add (r - f)(z·θ - f) and (z·θ - f)² of each row to `errors`, what they held before times `memory`.

    f is what the trees foretold, z·θ the last feature.
    """
    last = features.shape[1] - 1
    for i in range(foretold.shape[0]):
        step = features[i, last] - foretold[i]
        errors[0] = memory * errors[0] + (rewards[i] - foretold[i]) * step
        errors[1] = memory * errors[1] + step * step
