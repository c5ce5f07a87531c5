"""What a policy is: how the estimate of a reward model becomes scores to choose by."""

from __future__ import annotations

from typing import Protocol

from treebandit.core import Candidates, Floats, Random
from treebandit.models.model import RewardModel


class Policy(Protocol):
    """Turns what a model knows of the candidates into scores; the oracle chooses the rows of greatest total score."""

    def scores(self, model: RewardModel, rows: Candidates, *, t: int, random: Random) -> Floats:
        """One score per candidate, (n,), for the decision of round t."""

    def draws(self, model: RewardModel, rows: Candidates, *, t: int, random: Random, size: int) -> Floats:
        """`size` independent decisions' scores, (size, n): the policy's probabilities are counted in them."""
