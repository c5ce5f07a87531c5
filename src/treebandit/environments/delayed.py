"""Any environment, its rewards handed over in batches."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from treebandit.core import Candidates, Columns, Environment, Feedback, Indices, Outcome, Round
from treebandit.errors import InputError, ParameterError


@dataclass(eq=False)
class Delayed:
    """An environment whose rewards reach the agent in batches of `batch` rounds, and never earlier.

    An incomplete batch at the end stays unseen. Rewards and regret of the outcome itself are those of its
    round, for the record alone.
    """

    environment: Environment
    batch: int = field(default=100, kw_only=True)

    def __post_init__(self) -> None:
        if isinstance(self.batch, bool) or not isinstance(self.batch, int) or self.batch < 1:
            raise ParameterError(f"batch is {self.batch!r}; give a whole number of rounds of at least 1")
        self._shown: Candidates | None = None
        self._waiting: list[Feedback] = []
        self._nothing: Feedback | None = None

    @property
    def horizon(self) -> int | None:
        """How many rounds the environment has in all; None where it has no end."""
        horizon: int | None = getattr(self.environment, "horizon", None)
        return horizon

    @property
    def columns(self) -> Columns:
        """What the columns of the contexts are."""
        columns: Columns = self.environment.columns  # type: ignore[attr-defined]
        return columns

    def observe(self) -> Round:
        """The environment's next round."""
        this_round = self.environment.observe()
        self._shown = this_round.candidates
        return this_round

    def pull(self, choice: Indices) -> Outcome:
        """The environment's outcome; its feedback is the whole batch when it is full, else empty."""
        if self._shown is None:
            raise InputError("a choice without a round; call observe before every pull")
        outcome = self.environment.pull(choice)
        own = outcome.feedback or Feedback(self._shown[choice], outcome.rewards)
        self._waiting.append(own)
        self._shown = None
        if len(self._waiting) == self.batch:
            feedback = _join(self._waiting)
            self._waiting = []
        else:
            if self._nothing is None:
                self._nothing = Feedback(own.chosen[:0], own.rewards[:0])
            feedback = self._nothing
        return Outcome(outcome.rewards, outcome.regret, feedback)


def _join(parts: list[Feedback]) -> Feedback:
    arms = [part.chosen.arms for part in parts]
    known = [labels for labels in arms if labels is not None]
    return Feedback(
        Candidates(
            np.concatenate([part.chosen.contexts for part in parts]),
            np.concatenate(known) if len(known) == len(arms) else None,
            parts[0].chosen.columns,
        ),
        np.concatenate([part.rewards for part in parts]),
    )
