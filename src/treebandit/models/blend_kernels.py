"""The compiled loops of the default agent: features of trees, and what trees and regression say together."""
# mypy: disallow_untyped_decorators=False
# ruff: noqa: ANN001, ANN201

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from treebandit.models.packed import kernel


@kernel
def encode(contexts, layout, features, front, scores):  # type: ignore[no-untyped-def]
    """Write (n, d) contexts into (n, width) features from column `front` on, and (n,) scores into the last column.

    layout: for each column its context, a code, and whether it tells that the context is this code.
    """
    sources, codes, coded = layout
    for i in range(contexts.shape[0]):
        for j in range(sources.shape[0]):
            value = contexts[i, sources[j]]
            if coded[j]:
                value = np.float32(value == codes[j])
            features[i, front + j] = value
        features[i, features.shape[1] - 1] = scores[i]


class Terms(NamedTuple):
    """Weight of the linear model; bonus; mean reward, and its standard deviation, 0 for no boost."""

    weight: float
    bonus: float
    reward_mean: float
    reward_sd: float


@kernel
def explore(draws, features, leverage, terms):  # type: ignore[no-untyped-def]
    """Blend (draws, n) scores of trees with the last feature, and add the bonus, in place.

    A score becomes (1 - w) · score + w · last feature + boost · bonus · √(h / (1 + h)), h the leverage. The boost is 1,
    or, where the best candidate of a draw is more than a standard deviation below the mean reward, the square of how
    many it is. All in one call: of two candidates, calls from Python are most of the time.
    """
    last, sd = features.shape[1] - 1, terms.reward_sd
    for scores in draws:
        best = -np.inf
        for i in range(scores.shape[0]):
            scores[i] += terms.weight * (features[i, last] - scores[i])
            best = max(best, scores[i])
        missed, bonus = terms.reward_mean - best, terms.bonus
        if missed > sd > 0.0:
            bonus *= (missed / sd) ** 2
        for i in range(scores.shape[0]):
            scores[i] += bonus * np.sqrt(leverage[i] / (1.0 + leverage[i]))


@kernel
def compare(predicted, features, rewards, memory, errors):  # type: ignore[no-untyped-def]
    """Add (r - f)(z·θ - f) and (z·θ - f)² of each row to `errors`, what they held before times `memory`.

    f is what the trees predicted before the update, z·θ the last feature.
    """
    last = features.shape[1] - 1
    for i in range(predicted.shape[0]):
        step = features[i, last] - predicted[i]
        errors[0] = memory * errors[0] + (rewards[i] - predicted[i]) * step
        errors[1] = memory * errors[1] + step * step
