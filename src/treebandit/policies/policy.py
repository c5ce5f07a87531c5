"""What a policy is, how the estimate of a reward model becomes scores to choose by; and the simplest one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from treebandit.core import Candidates, Floats, Random
from treebandit.models.model import RewardModel


class Policy(Protocol):
    """Turns what a model knows of the candidates into scores; the oracle chooses the rows of greatest total score.

    >>> treebandit.LinUCB(exploration=0.3).policy
    UCB(exploration=0.3, growing=False, divided=False)
    """

    def scores(self, model: RewardModel, rows: Candidates, *, t: int, random: Random) -> Floats:
        """One score per candidate, (n,), for the decision of round t."""

    def draws(self, model: RewardModel, rows: Candidates, *, t: int, random: Random, size: int) -> Floats:
        """`size` independent decisions' scores, (size, n): the policy's probabilities are counted in them."""


@dataclass(frozen=True, slots=True)
class Greedy:
    """The estimated mean reward. Its scores, and those of policies made from it, hold no chance.

    >>> from treebandit.policies import Greedy
    >>> Greedy()
    Greedy()
    """

    def scores(self, model: RewardModel, rows: Candidates, *, t: int, random: Random) -> Floats:
        """The mean of each candidate, (n,)."""
        return model.estimate(rows).mean

    def draws(self, model: RewardModel, rows: Candidates, *, t: int, random: Random, size: int) -> Floats:
        """The same scores `size` times, (size, n)."""
        scores = self.scores(model, rows, t=t, random=random)
        return np.broadcast_to(scores, (size, len(scores)))
