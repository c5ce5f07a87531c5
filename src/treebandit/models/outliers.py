"""Rewards with heavy tails: a few amounts must not outweigh all other rows of a regression."""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np

from treebandit import schema
from treebandit.core import Floats, Indices
from treebandit.features.arm_index import ArmIndex
from treebandit.features.reward_scale import LARGEST

#: Rewards are cut off no nearer than this many standard deviations from what was expected.
_NEAREST = 4.0


class Outliers:
    """Rewards further from what was expected than a limit are learned as if they lay at the limit.

    The limit is that of the truncated mean for rewards with heavy tails (Bubeck, Cesa-Bianchi and Lugosi, 2013), with
    confidence 1 - n⁻⁴: σ √(n / (4 ln n)) for an arm with n rows, and σ the deviation of its rewards, or of all rewards
    where that is more. So an arm that pays rarely and much has a far limit, and all limits grow with the rows. The mean
    of what is cut off is added to every reward, so that the mean of all stays. Rewards of two values have no outliers,
    nor have arms that were not seen yet.

    limits: (arms + 1,), of each arm; the first, of arms not seen, is infinite. shift: what is added to every reward.
    """

    __slots__ = ("_arms", "limits", "shift")

    def __init__(self, arms: ArmIndex, limits: Floats, shift: float = 0.0) -> None:
        self._arms, self.limits, self.shift = arms, limits, shift

    @classmethod
    def of(cls, rewards: Floats, arms: Indices) -> Self | None:
        """The limits for (n,) rewards of their arms; None where there can be no outliers."""
        deviation = float(rewards.std())
        if not deviation > 0.0 or ((rewards == rewards.min()) | (rewards == rewards.max())).all():
            return None
        index = ArmIndex()
        places = index.register(arms)
        rows = np.bincount(places)[1:]
        errors = rewards - (np.bincount(places, rewards)[1:] / rows)[places - 1]
        deviations = np.maximum(np.sqrt(np.bincount(places, errors**2)[1:] / rows), deviation)
        n = np.maximum(rows, math.e)
        limits = deviations * np.maximum(_NEAREST, np.sqrt(n / (4.0 * np.log(n))))
        return cls(index, np.append(np.inf, limits))

    def fit(self, rewards: Floats, expected: Floats, arms: Indices) -> Floats:
        """Learn the shift; the rewards without outliers, themselves where there are none."""
        cut = rewards - expected - self._within(rewards - expected, arms)
        self.shift = float(cut.mean())
        return rewards - cut + self.shift if cut.any() else rewards

    def bounded(self, rewards: Floats, expected: Floats, arms: Indices) -> Floats:
        """(n,) rewards as regressions learn them, where so much was expected of their arms."""
        return np.asarray(expected + self._within(rewards - expected, arms) + self.shift, np.float64)

    def _within(self, errors: Floats, arms: Indices) -> Floats:
        limits = self.limits[self._arms.find(arms)]
        return np.clip(errors, -limits, limits)

    def state(self) -> dict[str, Any]:
        """All of it as arrays."""
        return {"arms": self._arms.labels, "limits": self.limits[1:], "shift": self.shift}

    @classmethod
    def restored(cls, state: dict[str, Any]) -> Self:
        """What `state` described."""
        labels = schema.labels(state, "arms")
        limits = schema.array(state, "limits", np.float64, (len(labels),), least=0.0)
        shift = schema.number(state, "shift", least=-LARGEST, most=LARGEST)
        return cls(ArmIndex(labels), np.append(np.inf, limits), shift)
