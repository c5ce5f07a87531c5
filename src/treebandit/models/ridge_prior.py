"""How strong the prior of ridge regressions should be, learned from the rows of all arms."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from treebandit import schema
from treebandit.core import Candidates, Columns, Floats, Indices
from treebandit.models.ridge import Ridge
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
#: What a prior has taken from the level of an arm is given back as if the arm had so many rows more.
_LEVEL_ROWS = 10.0


class LearnedPrior(NamedTuple):
    """ridge: λ. evidence: the greatest, also of λ above `most`. noisy: whether the rewards are nearly all noise."""

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
    ridge, strength, sums = 1.0, 1.0, _sums(parts)
    greatest, explained = _evidence(parts, sums, ridge)
    while strength < (_STRONGEST if explained < _NOISE else most):
        strength = min(_STEP * strength, most if strength < most else _STRONGEST)
        evidence, share = _evidence(parts, sums, strength)
        if not evidence > greatest:
            break
        greatest = evidence
        if strength <= most:
            ridge, explained = strength, share
    return LearnedPrior(ridge, greatest, noisy=explained < _NOISE)


def lost_levels(ridge: Ridge, arms: Indices) -> Floats:
    """What a learned prior has taken from the levels of (n,) arms that it was not learned from, (n,).

    An arm that comes later may pay far more or less than those before. By the first row of Aθ = Σ z (r - m) a
    regression leaves λθ₀ of its n rows' rewards; λθ₀ / (n + 10) is given back to each of its predictions.
    """
    if ridge.ridge <= 1.0:
        return np.zeros(len(arms))
    nothing = np.full((len(arms), len(ridge.categories)), np.nan, np.float32)
    level, _, rows = ridge.predict(Candidates(nothing, arms, Columns(ridge.categories)))
    return ridge.ridge * (level - ridge.reward_moments[0]) / (rows + _LEVEL_ROWS)


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
    return _evidence(parts, _sums(parts), ridge)


def _evidence(parts: Parts, sums: list[Floats], ridge: float) -> tuple[float, float]:
    numbers, explained, determinant = parts[-1], 0.0, 0.0
    n, total = numbers[REWARDS], numbers[REWARD_SQUARES]
    if n == 0.0 or total <= 0.0:
        return 0.0, 1.0
    for matrix in sums:
        size, root = len(matrix) - 1, matrix.copy()
        root.reshape(-1)[:-1][:: size + 2] += ridge  # the diagonal but for the corner
        diagonal = np.linalg.cholesky(root).diagonal()
        explained += 2.0 * total - float(diagonal[-1]) ** 2
        determinant += 2.0 * float(np.log(diagonal[:-1]).sum()) - size * math.log(ridge)
    share = explained / total
    return float(-0.5 * (n * math.log(max(1.0 - share, 1e-12)) + determinant)), share


def _sums(parts: Parts) -> list[Floats]:
    """Of each arm that has rows Σ zz', below it b, and in the corner 2 Σ r² of all; only what a Cholesky factor reads.

    The corner of the factor of such a matrix, with λ on its diagonal, is the root of 2 Σ r² - b'A⁻¹b: so one factor
    tells both b'A⁻¹b and the determinant.
    """
    _, blocks, _, store, numbers = parts
    found = []
    for size, capacity, start in blocks[blocks[:, SIZE] > 0][:, [SIZE, CAPACITY, START]].tolist():
        if store[SUMS, start] > 0.0:  # not of arms not seen, which have no rows
            matrix, middle = np.zeros((size + 1, size + 1)), start + capacity * (capacity + 1) // 2
            packed = store[SUMS, start : start + size * (size + 1) // 2]
            matrix[:size, :size][np.tri(size, dtype=np.bool_)] = packed
            # Σ z is the first column: the first entry of every z is 1.
            matrix[size, :size] = store[SUMS, middle : middle + size]
            matrix[size, :size] -= numbers[REWARD_MEAN] * matrix[:size, 0]
            matrix[size, size] = 2.0 * numbers[REWARD_SQUARES]
            found.append(matrix)
    return found
