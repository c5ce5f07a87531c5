"""The greatest estimated reward, without exploration."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from treebandit.core import Candidates, Floats, Random
from treebandit.models.model import RewardModel


class Deterministic:
    """A policy whose scores hold no chance: all draws of one round are equal."""

    def scores(self, model: RewardModel, rows: Candidates, *, t: int, random: Random) -> Floats:
        """One score per candidate, (n,)."""
        raise NotImplementedError

    def draws(self, model: RewardModel, rows: Candidates, *, t: int, random: Random, size: int) -> Floats:
        """The same scores `size` times, (size, n)."""
        scores = self.scores(model, rows, t=t, random=random)
        return np.broadcast_to(scores, (size, len(scores)))


@dataclass(frozen=True, slots=True)
class Greedy(Deterministic):
    """The estimated mean reward."""

    def scores(self, model: RewardModel, rows: Candidates, *, t: int, random: Random) -> Floats:
        """The mean of each candidate, (n,)."""
        return model.estimate(rows).mean
