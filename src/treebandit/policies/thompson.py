"""Thompson sampling: a draw from what the model holds possible."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from treebandit.core import Candidates, Floats, Random
from treebandit.models.model import RewardModel
from treebandit.parameters import check_number


@dataclass(frozen=True, slots=True)
class Thompson:
    """A draw of each candidate's mean reward, its deviation from the estimate multiplied by ν.

    exploration: ν.
    joint: candidates share what the model is unsure of in common (leaves, coefficients); otherwise each is drawn
        from N(μ, ν² σ²) on its own, as Algorithm 1 prints it.

    >>> treebandit.TETS(sampling="leaves").policy
    Thompson(exploration=1.0, joint=True)
    """

    exploration: float
    joint: bool = True

    def __post_init__(self) -> None:
        check_number("exploration", self.exploration, least=0)

    def scores(self, model: RewardModel, rows: Candidates, *, t: int, random: Random) -> Floats:
        """One draw per candidate, (n,)."""
        scores: Floats = self.draws(model, rows, t=t, random=random, size=1)[0]
        return scores

    def draws(self, model: RewardModel, rows: Candidates, *, t: int, random: Random, size: int) -> Floats:
        """`size` draws per candidate, (size, n)."""
        if self.joint:
            return model.sample(rows, size, random, scale=self.exploration)
        estimate = model.estimate(rows)
        noise = random.standard_normal((size, len(estimate.mean)))
        return estimate.mean + self.exploration * np.sqrt(estimate.variance) * noise
