"""How much of a second prediction would have been best beside a first one, by errors on rows not yet learned."""

from __future__ import annotations

import numpy as np

from treebandit.core import Floats

#: What a row's error weighs in the blend after the next row: a thousand rows are remembered.
_DECAY = 0.999


def weight(errors: Floats) -> float:
    """Σ (r - f)(g - f) / Σ (g - f)², within [0, 1]: how much of a prediction g beside f would have been best."""
    product, square = errors.tolist()
    return min(max(product / square, 0.0), 1.0) if square > 0.0 else 0.0


def compared(errors: Floats, predicted: Floats, scores: Floats, targets: Floats) -> Floats:
    """The sums of `weight` after these rows too, what they held before forgotten little by little.

    predicted: f, by the trees before the update. scores: g, by the regressions.
    """
    product, square = errors.tolist()
    for f, g, r in zip(predicted.tolist(), scores.tolist(), targets.tolist(), strict=True):
        product = _DECAY * product + (r - f) * (g - f)
        square = _DECAY * square + (g - f) * (g - f)
    return np.array([product, square])


def with_kernel(errors: Floats, predicted: Floats, kernel: Floats, targets: Floats) -> Floats:
    """The same of the kernel regression beside what both others predict, and how many rows it has predicted."""
    return np.array([*compared(errors[:2], predicted, kernel, targets).tolist(), errors[2] + len(targets)])
