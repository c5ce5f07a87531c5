"""Upper confidence bounds: optimism in proportion to what is not known."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from treebandit.core import Candidates, Floats, Random
from treebandit.models.model import RewardModel
from treebandit.parameters import check_number
from treebandit.policies.policy import Greedy


@dataclass(frozen=True, slots=True)
class UCB(Greedy):
    """U = μ + ν √(σ² · growth / division), σ² the variance of the estimated mean.

    exploration: ν.
    growing: growth is ln(t - 1) (TEUCB); otherwise 1 (LinUCB, NeuralUCB).
    divided: division is the count of rows c, as Algorithm 1 prints it although σ² holds a division by c already;
        otherwise 1.

    >>> treebandit.TEUCB().policy
    UCB(exploration=1.0, growing=True, divided=True)
    """

    exploration: float
    growing: bool = False
    divided: bool = False

    def __post_init__(self) -> None:
        check_number("exploration", self.exploration, least=0)

    def scores(self, model: RewardModel, rows: Candidates, *, t: int, random: Random) -> Floats:
        """The upper bound of each candidate, (n,)."""
        estimate = model.estimate(rows)
        variance = estimate.variance
        if self.divided:
            variance = variance / np.maximum(estimate.count, 1.0)
        growth = math.log(max(t - 1, 1)) if self.growing else 1.0
        return estimate.mean + np.sqrt(self.exploration**2 * growth * variance)
