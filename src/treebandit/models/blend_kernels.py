"""The compiled loops of the default agent: features of trees, and what trees and regression say together."""
# mypy: disallow_untyped_decorators=False
# ruff: noqa: ANN001, ANN201

from __future__ import annotations

import numpy as np

from treebandit.models.packed import kernel
from treebandit.models.ridge_kernels import predict_rows


@kernel
def look_up(parts, contexts, arms, layout, made, scratch):  # type: ignore[no-untyped-def]
    """`ridge_kernels.predict`, and features: contexts one-hot, then the score, at the end.

    layout: for each column its context, a code, and whether it tells that the context is this code.
    arms: (n,), or none: then contexts become features, and nothing is predicted. made: features and predictions.
    """
    (sources, codes, coded), (features, found) = layout, made
    front = features.shape[1] - 1 - sources.shape[0]
    predict_rows(parts, contexts, arms, found, scratch)
    for i in range(contexts.shape[0]):
        for j in range(sources.shape[0]):
            value = contexts[i, sources[j]]
            if coded[j]:
                value = np.float32(value == codes[j])
            features[i, front + j] = value
    for i in range(arms.shape[0]):
        features[i, features.shape[1] - 1] = found[0, i]


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
