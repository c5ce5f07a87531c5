"""Rewards in units of their standard deviation, so that no choice depends on the unit in which rewards are given."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from treebandit import schema
from treebandit.core import Estimate, Floats
from treebandit.errors import SavedFileError

#: Standardised rewards are 32-bit numbers to some tree libraries.
LARGEST = float(np.finfo(np.float32).max)
#: Numbers below have fewer digits the smaller they are, and a share of them may be 0.
_SMALLEST = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True, slots=True)
class RewardScale:
    """Standardised reward = (reward - mean) / deviation.

    varies: whether the rewards that it was made from differ; where they do not, deviation is their size.
    least, greatest: of them, standardised; without any, no bounds.
    """

    mean: float = 0.0
    deviation: float = 1.0
    varies: bool = True
    least: float = -LARGEST
    greatest: float = LARGEST

    @classmethod
    def of(cls, rewards: Floats) -> RewardScale:
        """Mean and standard deviation of (n,) rewards; multiplied by a power of two they scale without rounding."""
        # Sums around the first reward keep all digits of 1e9 + {0, 1}; divided by the largest, squares do not overflow.
        shifted = rewards - rewards[0]
        mean = float(rewards[0] + shifted.mean())
        centred = rewards - mean
        largest = float(np.abs(centred).max())
        if not largest > 0.0:
            size = max(abs(mean), _SMALLEST) if mean else 1.0
            return cls(mean, size, varies=False, least=0.0, greatest=0.0)
        deviation = max(largest * math.sqrt(float(np.square(centred / largest).mean())), _SMALLEST)
        least, greatest = float(centred.min()) / deviation, float(centred.max()) / deviation
        return cls(mean, deviation, least=least, greatest=greatest)

    def standardised(self, rewards: Floats) -> Floats:
        """(n,) rewards in these units."""
        if len(rewards) == 1:  # as in most lessons: a third of numpy's time
            return np.array([(rewards.item() - self.mean) / self.deviation])
        return (rewards - self.mean) / self.deviation

    def original(self, estimate: Estimate) -> Estimate:
        """An estimate in these units, in the unit of the rewards."""
        if self.mean == 0.0 and self.deviation == 1.0:
            return estimate
        return Estimate(
            self.mean + self.deviation * estimate.mean,
            self.deviation * self.deviation * estimate.variance,  # ∞ where `**` would raise
            estimate.count,
        )

    def fits(self, rewards: Floats) -> bool:
        """Whether these rewards can be expressed in these units: not where they are the first to differ."""
        return self.holds(rewards) if self.varies else bool((rewards == self.mean).all())

    def holds(self, rewards: Floats) -> bool:
        """Whether 32 bits hold these rewards in these units."""
        return self._largest(rewards) <= LARGEST

    def _largest(self, rewards: Floats) -> float:
        """The greatest size of (n,) rewards in these units."""
        if len(rewards) == 1:
            return abs((rewards.item() - self.mean) / self.deviation)
        with np.errstate(over="ignore"):
            return float(np.abs(self.standardised(rewards)).max(initial=0.0))

    def state(self) -> list[Any]:
        """All of it as JSON values."""
        return [self.mean, self.deviation, self.varies, self.least, self.greatest]

    @classmethod
    def restored(cls, state: Any, rewards: Floats) -> RewardScale:
        """The scale that `state` described, if these (n,) rewards can be expressed in it."""
        names = ("mean", "deviation", "varies", "least", "greatest")
        values = dict(zip(names, schema.items({"scale": state}, "scale", most=5), strict=True))
        scale = cls(
            schema.number(values, "mean"),
            schema.number(values, "deviation", least=_SMALLEST),
            schema.flag(values, "varies"),
            schema.number(values, "least", most=0.0),
            schema.number(values, "greatest", least=0.0),
        )
        largest = scale._largest(rewards)
        if not largest <= LARGEST:
            raise SavedFileError(
                f"rewards of up to {largest:g} deviations are saved; expected {LARGEST:g} at most"
            )
        return scale
