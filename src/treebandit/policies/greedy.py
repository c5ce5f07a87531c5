"""The greatest estimated reward, without exploration."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from treebandit.core import Candidates, Floats, Random
from treebandit.models.model import RewardModel


@dataclass(frozen=True, slots=True)
class Greedy:
    """The estimated mean reward. Its scores, and those of policies made from it, hold no chance."""

    def scores(self, model: RewardModel, rows: Candidates, *, t: int, random: Random) -> Floats:
        """The mean of each candidate, (n,)."""
        return model.estimate(rows).mean

    def draws(self, model: RewardModel, rows: Candidates, *, t: int, random: Random, size: int) -> Floats:
        """The same scores `size` times, (size, n)."""
        scores = self.scores(model, rows, t=t, random=random)
        return np.broadcast_to(scores, (size, len(scores)))
