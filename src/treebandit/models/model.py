"""What a reward model is: what a row will pay, and how sure that is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from treebandit.core import Candidates, Estimate, Floats, Indices, Random

#: Makes changes that were prepared; cannot fail, and may be called again where it was cut short.
Commit = Callable[[], None]


class RewardModel(Protocol):
    """Learns rewards of rows and estimates those of others.

    >>> from treebandit import LinUCB
    >>> agent = LinUCB(seed=0)
    >>> agent.learn([[1.0], [2.0], [3.0]], [1.0, 2.0, 3.0], arms=["a", "a", "a"])
    >>> agent.model.fitted
    True
    """

    @property
    def fitted(self) -> bool:
        """Whether `estimate` and `sample` have something to tell."""

    def prepared(
        self, rows: Candidates, rewards: Floats, *, t: int, random: Random, started: bool = True
    ) -> Commit:
        """Learn rows, in two steps: this one does all that may fail and changes nothing, the commit makes the changes.

        t: the round. random: chance where the model needs it; the commit advances it. started: False during a random
            start, when rows are only kept.
        """

    def estimate(self, rows: Candidates) -> Estimate:
        """Mean reward of each row, variance of that mean, and the count of rows it rests on, (n,) each."""

    def sample(self, rows: Candidates, draws: int, random: Random, *, scale: float = 1.0) -> Floats:
        """Joint draws of the rows' mean rewards, (draws, n), deviations from the estimate multiplied by `scale`."""

    def state(self, *, history: bool = True) -> dict[str, Any]:
        """All that is needed to go on elsewhere, plain values and arrays; without history, to estimate and sample."""

    def restore(self, state: dict[str, Any]) -> None:
        """Take up what `state` gave; a SavedFileError where it cannot be right."""


class CopiedModel:
    """What models have in common whose members are replaced, never changed in place: a copy learns, and is taken over.

    A subclass writes `_learn`.
    """

    def prepared(
        self, rows: Candidates, rewards: Floats, *, t: int, random: Random, started: bool = True
    ) -> Commit:
        """Rows to learn; the commit takes over the members of a copy that has learned them."""
        after = object.__new__(type(self))
        vars(after).update(vars(self))
        drawn = after._learn(rows, rewards, t=t, random=random, started=started)

        def commit() -> None:
            vars(self).update(vars(after))
            if drawn is not None:
                random.bit_generator.state = drawn.bit_generator.state

        return commit

    def _learn(
        self, rows: Candidates, rewards: Floats, *, t: int, random: Random, started: bool
    ) -> Random | None:
        """Learn rows, as in `prepared`; returns the copy of `random` that was drawn from, if any."""
        raise NotImplementedError


def arms_of(rows: Candidates) -> Indices:
    """The arm of each row; one model, that of arm 0, serves all rows that have none."""
    return np.zeros(len(rows), np.intp) if rows.arms is None else rows.arms


def copy_of(random: Random) -> Random:
    """A generator that goes on by itself from where `random` is."""
    twin = np.random.Generator(type(random.bit_generator)(0))
    twin.bit_generator.state = random.bit_generator.state
    return twin
