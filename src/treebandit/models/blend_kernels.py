"""The compiled loop of the default agent: what trees and regression say together."""
# mypy: disallow_untyped_decorators=False
# ruff: noqa: ANN001, ANN201

from __future__ import annotations

import numpy as np

from treebandit.compiled import kernel


@kernel
def explore(samples, scores, known, weight, bonus, rewards, unit=(0.0, 1.0, -np.inf)):  # type: ignore[no-untyped-def]
    """(1 - w) · draw of the forest + w · score + bonuses, in place of (draws, n) samples.

    known: h, the leverage, and how many rows the arm has, (n,) each.
    bonus: what a row has that its arm knows nothing of, √(h / (1 + h)) of it by others; then a scale, how many rows of
        an arm are few, the width of a row, and, of the rows that a prior with λ > 1 is like, how many are taken off and
        how many count. Where an arm has fewer rows like this one, n = width (1 + h) / h, the bonus is greater by
        scale · √(ln(few / n) / n) standard deviations, or times what can still be won if that is less. n is less by
        those taken off, and no more than width, all rows of the arm and those that count.
    rewards: mean, standard deviation and greatest of the rewards. Where the best candidate of a draw falls short of
        that mean by more than a deviation, the first bonus is multiplied by the square of the deviations it is. A mean
        of -inf, and it is always the same.
    unit: mean and deviation that samples are turned back to in the end; and the least reward, which scores count as
        where they are below.
    """
    mean, deviation, greatest = rewards
    leverage_bonus, scale, few, width, left_out, counted = bonus
    (leverage, counts), (origin, size, least) = known, unit
    for k in range(samples.shape[0]):
        best, boost = -np.inf, 1.0
        for i in range(samples.shape[1]):
            score = least if scores[i] < least else scores[i]
            samples[k, i] += weight * (score - samples[k, i])
            best = samples[k, i] if samples[k, i] > best else best
        if mean - best > deviation > 0.0:
            boost = (mean - best) / deviation
            boost *= boost
        # Little is left to be won where the best candidate is expected to pay nearly the greatest reward.
        rare_bonus = scale * (deviation if greatest - best > deviation else greatest - best)
        for i in range(samples.shape[1]):
            h = leverage[i]
            samples[k, i] += leverage_bonus * boost * np.sqrt(h / (1.0 + h))
            if rare_bonus > 0.0 and h > 0.0:
                rows = width * (1.0 + h) / h
                if left_out > 0.0:
                    most = width + counts[i] + counted
                    rows = rows - left_out if rows - left_out < most else most
                    rows = rows if rows > width else width
                if rows < few:
                    samples[k, i] += rare_bonus * np.sqrt(np.log(few / rows) / rows)
            samples[k, i] = origin + size * samples[k, i]
