"""The compiled loop over draws of scores."""
# mypy: disallow_untyped_decorators=False
# ruff: noqa: ANN001, ANN201

from __future__ import annotations

import numpy as np

from treebandit.compiled import kernel


@kernel
def count_best(scores, counts):  # type: ignore[no-untyped-def]
    """Add to (n,) counts how often each candidate is the best of (draws, n) scores.

    False where that is not all there is to say: equals, a NaN, or a candidate that may not be chosen (-inf).
    """
    for k in range(scores.shape[0]):
        best, place, alone = -np.inf, 0, False
        for i in range(scores.shape[1]):
            value = scores[k, i]
            if not value > -np.inf:
                return False
            if value > best:
                best, place, alone = value, i, True
            elif value == best:
                alone = False
        if not alone:
            return False
        counts[place] += 1.0
    return True
