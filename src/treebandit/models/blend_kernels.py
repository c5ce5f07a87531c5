"""The compiled loops of the default agent: features of trees, and what trees and regression say together."""
# mypy: disallow_untyped_decorators=False
# ruff: noqa: ANN001, ANN201

from __future__ import annotations

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


@kernel
def explore(samples, scores, leverage, weight, bonus, rewards):  # type: ignore[no-untyped-def]
    """(1 - w) · draw of the forest + w · score + bonus · √(h / (1 + h)), in place of (draws, n) samples.

    leverage: h, (n,). rewards: mean and standard deviation of the rewards; where the best candidate of a draw falls
        short of that mean by more than a deviation, the bonus is multiplied by the square of the deviations it is.
        A deviation of 0, and it is always the same.
    """
    mean, deviation = rewards
    for k in range(samples.shape[0]):
        best, more = -np.inf, 1.0
        for i in range(samples.shape[1]):
            samples[k, i] += weight * (scores[i] - samples[k, i])
            best = samples[k, i] if samples[k, i] > best else best
        if mean - best > deviation > 0.0:
            more = ((mean - best) / deviation) ** 2
        for i in range(samples.shape[1]):
            samples[k, i] += bonus * more * np.sqrt(leverage[i] / (1.0 + leverage[i]))


@kernel
def compare(predicted, scores, rewards, memory, errors):  # type: ignore[no-untyped-def]
    """Add (r - f)(z·θ - f) and (z·θ - f)² of each row to `errors`, what they held before times `memory`.

    f is what the trees predicted before the update, z·θ the linear score.
    """
    for i in range(predicted.shape[0]):
        step = scores[i] - predicted[i]
        errors[0] = memory * errors[0] + (rewards[i] - predicted[i]) * step
        errors[1] = memory * errors[1] + step * step
