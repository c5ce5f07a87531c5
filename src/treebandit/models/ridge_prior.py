"""How strong the prior of ridge regressions should be, learned from the rows of all arms."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from treebandit import schema
from treebandit.models.ridge_arrays import (
    CAPACITY,
    REWARD_MEAN,
    REWARD_SQUARES,
    REWARDS,
    RIDGE,
    SIZE,
    START,
    SUMS,
    Parts,
)

#: λ is looked for among 1, 4, 16, ...: the evidence hardly tells values between them apart.
_STEP = 4.0
#: A prior as strong as this leaves no slopes at all.
_STRONGEST = 1e9
#: Where regressions explain less than this share of the rewards' squares, these are nearly all noise.
_NOISE = 0.1


class LearnedPrior(NamedTuple):
    """ridge: λ. evidence: the greatest of any λ, allowed or not. noisy: whether the rewards are nearly all noise."""

    ridge: float
    evidence: float
    noisy: bool


def learned_prior(parts: Parts, most: float) -> LearnedPrior:
    """λ of the greatest evidence for regressions with standardised rewards, from 1 to `most`; 1 where noise is small.

    From 1 upwards until the evidence falls: where slopes are plain to see this takes two factors per arm. Only under
    noise is the evidence beyond `most` asked for.
    """
    if most <= 1.0:
        return LearnedPrior(1.0, 0.0, noisy=False)
    ridge = strength = 1.0
    greatest, explained = evidence_of(parts, ridge)
    while strength < (_STRONGEST if explained < _NOISE else most):
        strength = min(_STEP * strength, most if strength < most else _STRONGEST)
        evidence, share = evidence_of(parts, strength)
        if not evidence > greatest:
            break
        greatest = evidence
        if strength <= most:
            ridge, explained = strength, share
    return LearnedPrior(ridge, greatest, noisy=explained < _NOISE)


def saved_ridge(state: dict[str, Any]) -> float:
    """λ of regressions that were saved; 1 where they had no rows."""
    if schema.value(state, "columns") is None:
        return 1.0
    ridge = float(schema.array(state, "numbers", np.float64, (8,))[RIDGE])
    if not 1.0 <= ridge <= schema.MOST:
        raise schema.refused("λ", ridge, f"a number from 1 to {schema.MOST}")
    return ridge


def evidence_of(parts: Parts, ridge: float) -> tuple[float, float]:
    """Log of the probability of all rewards, and the share of their squares that the regressions explain.

    If every coefficient has the prior N(0, σ²/λ), up to a constant, so that it is 0 without regressions. σ² is the one
    that makes it greatest, Q / n; so it is - n/2 · ln(Q / Σ r²) - ½ Σ ln det(I + Σ zz' / λ) over arms, with
    Q = Σ r² - Σ b'A⁻¹b, r less the mean of all rewards and b = Σ zr.
    """
    _, blocks, _, store, numbers = parts
    n, total, explained, determinant = numbers[REWARDS], numbers[REWARD_SQUARES], 0.0, 0.0
    if n == 0.0 or total <= 0.0:
        return 0.0, 1.0
    for size, capacity, start in blocks[blocks[:, SIZE] > 0][:, [SIZE, CAPACITY, START]].tolist():
        dense, middle = np.zeros((size, size)), start + capacity * (capacity + 1) // 2
        dense[np.tril_indices(size)] = store[SUMS, start : start + size * (size + 1) // 2]
        # Σ z is the first column: the first entry of every z is 1.
        moment = store[SUMS, middle : middle + size] - numbers[REWARD_MEAN] * dense[:, 0]
        matrix = np.tril(dense, -1).T + dense
        matrix[np.diag_indices(size)] += ridge
        explained += float(moment @ np.linalg.solve(matrix, moment))
        determinant += float(np.linalg.slogdet(matrix)[1]) - size * math.log(ridge)
    share = explained / total
    return float(-0.5 * (n * math.log(max(1.0 - share, 1e-12)) + determinant)), share
