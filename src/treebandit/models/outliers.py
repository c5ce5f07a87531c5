"""Rewards with heavy tails: a few amounts must not outweigh all other rows of a regression."""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np

from treebandit import schema
from treebandit.core import Floats

#: Rewards are cut off no nearer than this many standard deviations of all rewards from what was expected.
_NEAREST = 4.0


class Outliers:
    """Rewards further from what was expected than a limit count as being there; what that takes is given to all rows.

    The limit is that of the truncated mean for rewards with heavy tails (Bubeck, Cesa-Bianchi and Lugosi, 2013), with
    confidence 1 - n⁻⁴: σ √(n / (4 ln n)) for arms with n rows each. It grows with the rows, so that what is cut off is
    always less than what chance does to a mean. Rewards of two values have no outliers.

    limit: from what was expected. shift: what is added to all rewards, so that their mean stays.
    """

    __slots__ = ("limit", "shift")

    def __init__(self, limit: float = math.inf, shift: float = 0.0) -> None:
        self.limit, self.shift = limit, shift

    @classmethod
    def of(cls, rewards: Floats, arms: int) -> Self:
        """The limit for (n,) rewards of so many arms."""
        if ((rewards == rewards.min()) | (rewards == rewards.max())).all():
            return cls()
        n = max(len(rewards) / arms, math.e)
        return cls(float(rewards.std()) * max(_NEAREST, math.sqrt(n / (4.0 * math.log(n)))))

    @property
    def limited(self) -> bool:
        """Whether there can be outliers."""
        return self.limit < math.inf

    def fit(self, rewards: Floats, expected: Floats) -> Floats:
        """Learn the shift; the rewards without outliers, themselves where there are none."""
        errors = rewards - expected
        beyond = errors - np.clip(errors, -self.limit, self.limit)
        self.shift = float(beyond.mean())
        return rewards - beyond + self.shift if beyond.any() else rewards

    def bounded(self, rewards: Floats, expected: Floats) -> Floats:
        """(n,) rewards as regressions learn them, where so much was expected."""
        if not self.limited:
            return rewards
        errors = np.clip(rewards - expected, -self.limit, self.limit)
        return np.asarray(expected + errors + self.shift, np.float64)

    def state(self) -> dict[str, Any] | None:
        """Both numbers; None where there can be no outliers."""
        return {"limit": self.limit, "shift": self.shift} if self.limited else None

    @classmethod
    def restored(cls, state: dict[str, Any] | None) -> Self:
        """What `state` described."""
        if state is None:
            return cls()
        return cls(schema.number(state, "limit", least=0.0), schema.number(state, "shift"))
