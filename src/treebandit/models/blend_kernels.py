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
def blend(scores, features, weight):  # type: ignore[no-untyped-def]
    """(1 - w) · score + w · last feature, in place of (n,) scores; the greatest of them."""
    last, best = features.shape[1] - 1, -np.inf
    for i in range(scores.shape[0]):
        scores[i] += weight * (features[i, last] - scores[i])
        best = max(best, scores[i])
    return best


@kernel
def add_bonus(scores, leverage, bonus):  # type: ignore[no-untyped-def]
    """Add bonus · √(h / (1 + h)) to (n,) scores, h the leverage."""
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
