"""Any environment, its rewards handed over in batches."""

from __future__ import annotations

import reprlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from treebandit.core import Candidates, Columns, Environment, Feedback, Indices, Outcome, Round, optional
from treebandit.environments.rounds import OneRoundAtATime
from treebandit.errors import ParameterError
from treebandit.parameters import check_number


@dataclass(eq=False)
class Delayed(OneRoundAtATime):
    """An environment whose rewards reach the agent in batches of `batch` rounds, and never earlier.

    environment: any.
    batch: how many rounds are handed over at once.

    An incomplete batch at the end stays unseen. Rewards and regret of the outcome itself are those of its
    round, for the record alone.

    >>> from treebandit import Uniform, play_round
    >>> from treebandit.environments import Delayed, Synthetic
    >>> environment = Delayed(Synthetic(seed=0), batch=10)
    >>> choice, outcome = play_round(Uniform(seed=0), environment)
    >>> outcome.regret >= 0
    True
    """

    environment: Environment
    batch: int = field(default=100, kw_only=True)

    def __post_init__(self) -> None:
        if isinstance(self.environment, type) or not isinstance(self.environment, Environment):
            raise ParameterError(
                f"environment is {reprlib.repr(self.environment)}; give an object with observe and pull"
            )
        check_number("batch", self.batch, least=1, whole=True)
        self._waiting: list[Feedback] = []

    @property
    def horizon(self) -> int | None:
        """How many rounds the environment has in all; None where it has no end."""
        horizon: int | None = optional(self.environment, "horizon")
        return horizon

    @property
    def unit(self) -> str:
        """The unit of rewards and regret; "" where the environment names none."""
        return str(optional(self.environment, "unit", ""))

    @property
    def note(self) -> str:
        """How the environment has used its rounds, where it tells."""
        return str(optional(self.environment, "note", ""))

    def __getattr__(self, name: str) -> Any:
        # Asked of an environment that has it alone.
        if name == "final_candidates" and "environment" in vars(self):
            return getattr(self.environment, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @property
    def columns(self) -> Columns:
        """What the columns of the contexts are."""
        columns: Columns = self.environment.columns  # type: ignore[attr-defined]
        return columns

    def _next_round(self) -> Round:
        return self.environment.observe()

    def _outcome(self, rows: Indices) -> Outcome:
        """The environment's outcome; its feedback is the whole batch when it is full, else empty."""
        chosen = self.observe().candidates[rows]
        outcome = self.environment.pull(rows)
        own = outcome.feedback or Feedback(chosen, outcome.rewards)
        self._waiting.append(own)
        if len(self._waiting) == self.batch:
            chosen = Candidates.joined([part.chosen for part in self._waiting])
            feedback = Feedback(chosen, np.concatenate([part.rewards for part in self._waiting]))
            self._waiting = []
        else:
            feedback = Feedback(own.chosen[:0], own.rewards[:0])
        return Outcome(outcome.rewards, outcome.regret, feedback)
