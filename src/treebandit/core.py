"""The words of the house: what may be chosen, who decides, who pays, and one round of the game."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

Features = NDArray[np.float32]
Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

#: Scores, one per candidate -> rows of the feasible choice of greatest total score.
Oracle = Callable[[Floats], Indices]


@dataclass(frozen=True, slots=True)
class Columns:
    """What the columns of a table are: `categories[j]` is 0 for a number, else the number of categories."""

    categories: tuple[int, ...]
    names: tuple[str, ...] = ()

    @classmethod
    def numeric(cls, width: int) -> Columns:
        """`width` columns of plain numbers."""
        return cls((0,) * width)

    def __len__(self) -> int:
        return len(self.categories)


@dataclass(frozen=True, slots=True)
class Candidates:
    """What may be chosen this round.

    contexts: (n, d) float32, one row per candidate; categories as integer codes, missing values as NaN.
    arms: (n,), which arm each row is (class, edge, article); None where the contexts describe the arms already.
    columns: what the d columns are; the same in every round of one environment.
    """

    contexts: Features
    arms: Indices | None
    columns: Columns

    def __getitem__(self, rows: Any) -> Candidates:
        """The candidates in `rows` (an index array, a slice or a mask)."""
        return Candidates(self.contexts[rows], None if self.arms is None else self.arms[rows], self.columns)

    def __len__(self) -> int:
        return len(self.contexts)


@dataclass(frozen=True, slots=True)
class Round:
    """One decision to make: the candidates, and the oracle that turns scores into a feasible choice."""

    candidates: Candidates
    oracle: Oracle


@dataclass(frozen=True, slots=True)
class Feedback:
    """Rows and rewards that the agent gets to see now; they may stem from any earlier rounds."""

    chosen: Candidates
    rewards: Floats


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a choice brought: one reward per chosen row (semi-bandit feedback), and its regret in expectation.

    feedback: what the agent learns now, where rewards come late; None for this choice's own rewards, at once.
    """

    rewards: Floats
    regret: float
    feedback: Feedback | None = None


@dataclass(frozen=True, slots=True)
class Estimate:
    """What an agent believes of each row: mean reward, variance of that mean, rows it rests on. Each (n,)."""

    mean: Floats
    variance: Floats
    count: Floats


@runtime_checkable
class Agent(Protocol):
    """Who decides: the two methods that the loop needs."""

    def score(self, candidates: Candidates) -> Floats:
        """One score per candidate; advances the clock and the random stream, and learns nothing."""

    def learn(self, chosen: Candidates, rewards: Floats, /) -> None:
        """Take in any number of rows with their rewards, at any time after they were chosen."""


@runtime_checkable
class Environment(Protocol):
    """Who pays."""

    def observe(self) -> Round:
        """The next round."""

    def pull(self, choice: Indices) -> Outcome:
        """The outcome of choosing these rows of the round observed last."""


def play_round(agent: Agent, environment: Environment) -> tuple[Indices, Outcome]:
    """One round: observe, score, choose, pull, learn."""
    this_round = environment.observe()
    choice = this_round.oracle(agent.score(this_round.candidates))
    outcome = environment.pull(choice)
    feedback = outcome.feedback or Feedback(this_round.candidates[choice], outcome.rewards)
    if len(feedback.rewards):
        agent.learn(feedback.chosen, feedback.rewards)
    return choice, outcome
