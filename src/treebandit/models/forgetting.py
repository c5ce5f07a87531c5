"""A model that keeps sums of rows, made to forget: it is fitted anew to the rows that are kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from treebandit import schema
from treebandit.core import Candidates, Estimate, Floats, Random
from treebandit.drift import MemoryRule
from treebandit.errors import NoEstimateError, SavedFileError
from treebandit.features.reward_scale import RewardScale
from treebandit.models.attribution import Attribution, Explains
from treebandit.models.history import History
from treebandit.models.memory import Memory
from treebandit.models.model import Commit, RewardModel
from treebandit.models.prequential import BULK, split_bulk

#: Rows beyond a fixed number are dropped when they are so large a share of it: refits then cost eight updates a row.
_SURPLUS = 0.125


class Forgetting:
    """A reward model, the rows it has learned, and which of them it still counts.

    make: gives the model without rows, to begin with and for every refit.
    rule: "auto", or how many of the newest rows count; up to an eighth more do.
    """

    def __init__(self, make: Callable[[], RewardModel], rule: MemoryRule) -> None:
        self._make = make
        self.model, self.history, self.memory = make(), History(), Memory(rule)
        #: The unit of errors: renewed when rows have doubled, and at refits.
        self._scale = RewardScale()

    @property
    def fitted(self) -> bool:
        """Whether any row was learned."""
        return self.model.fitted

    def prepared(
        self, rows: Candidates, rewards: Floats, *, t: int, random: Random, started: bool = True
    ) -> Commit:
        """All that may fail of learning rows; a refit, where it is time, goes into a new model."""
        history, memory, scale = self.history.appended(rows, rewards), self.memory, self._scale
        if memory.watches(self.history):
            errors = (rewards - self.model.estimate(rows).mean) / scale.deviation
            memory = memory.after(rows.arms, errors, history.contexts)
        elif memory.rule == "auto" and not self.fitted and len(rewards) >= BULK:
            memory = self._first_errors(rows, rewards, t, started=started)
        kept = memory.kept(history)
        if isinstance(memory.rule, int) and len(history) < (1.0 + _SURPLUS) * memory.rule:
            kept = None
        if kept is not None:
            history = history.only(kept)
        anew = kept is not None or len(history).bit_length() > len(self.history).bit_length()
        memory = memory.fitted(history, new=None if anew else len(rewards))
        if anew or not scale.holds(rewards):
            scale = RewardScale.of(history.rewards)
        model = self.model if kept is None else self._make()
        new, targets = (rows, rewards) if kept is None else (history.rows(rows.columns), history.rewards)
        learn = model.prepared(new, targets, t=t, random=random, started=started)

        def commit() -> None:
            learn()
            self.model, self.history, self.memory, self._scale = model, history, memory, scale

        return commit

    def _first_errors(self, rows: Candidates, rewards: Floats, t: int, *, started: bool) -> Memory:
        """The memory once it has seen the errors of the newest of many first rows, by a model of those before them."""
        model, (first, newest) = self._make(), split_bulk(len(rewards))
        random = np.random.default_rng(len(rewards))
        model.prepared(rows[first], rewards[first], t=t, random=random, started=started)()
        memory = self.memory.fitted(History().appended(rows[first], rewards[first]))
        errors = rewards[newest] - model.estimate(rows[newest]).mean
        errors /= RewardScale.of(rewards[first]).deviation
        return memory.after(rows[newest].arms, errors, rows.contexts)

    def estimate(self, rows: Candidates) -> Estimate:
        """The model's estimate."""
        return self.model.estimate(rows)

    def attribution(self, rows: Candidates) -> Attribution:
        """The model's attribution, where it has one."""
        if not isinstance(self.model, Explains):
            raise NoEstimateError(f"a {type(self.model).__name__} cannot tell what a feature adds")
        return self.model.attribution(rows)

    def sample(self, rows: Candidates, draws: int, random: Random, *, scale: float = 1.0) -> Floats:
        """The model's draws."""
        return self.model.sample(rows, draws, random, scale=scale)

    def state(self, *, history: bool = True) -> dict[str, Any]:
        """All that is needed to go on elsewhere; without history, to estimate and sample."""
        return {
            "model": self.model.state(history=history),
            "history": self.history.state(history=history),
            "memory": self.memory.state(history=history),
            "scale": self._scale.state(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Take up what `state` gave."""
        self.history = History.restored(schema.part(state, "history"))
        self.memory = Memory.restored(schema.value(state, "memory"), self.memory.rule, self.history)
        self._scale = RewardScale.restored(schema.value(state, "scale"), self.history.rewards)
        self.model = self._make()
        self.model.restore(schema.part(state, "model"))
        if self.model.fitted != (len(self.history) > 0):
            raise SavedFileError("a model is saved without its rows, or rows without their model")
