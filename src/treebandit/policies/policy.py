"""What a policy is: how the estimate of a reward model becomes scores to choose by."""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np

from treebandit.core import Candidates, Floats
from treebandit.errors import ParameterError
from treebandit.models.model import RewardModel


class Policy(Protocol):
    """Turns what a model knows of the candidates into scores; the oracle chooses the rows of greatest total score."""

    def scores(self, model: RewardModel, rows: Candidates, *, t: int, random: np.random.Generator) -> Floats:
        """One score per candidate, (n,), for the decision of round t."""

    def draws(
        self, model: RewardModel, rows: Candidates, *, t: int, random: np.random.Generator, size: int
    ) -> Floats:
        """`size` independent decisions' scores, (size, n): the policy's probabilities are counted in them."""


def check_exploration(exploration: float, name: str = "exploration") -> None:
    """Raise a ParameterError where it is not a number of at least 0."""
    plain = isinstance(exploration, int | float | np.number) and not isinstance(exploration, bool)
    if not (plain and exploration >= 0 and math.isfinite(exploration)):
        raise ParameterError(f"{name}={exploration!r}; expected a number of at least 0")
