"""What all agents share: the input checks for arrays, frames and candidates, the clock, and the file they live in."""

from __future__ import annotations

import os
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from treebandit.agents import saving
from treebandit.core import Candidates, Estimate, Floats, Indices, Oracle
from treebandit.errors import NotFittedError, SavedFileError
from treebandit.features.inputs import Inputs
from treebandit.oracles import best_arm


class BaseAgent:
    """An agent for tables: subclasses are dataclasses whose fields describe them completely.

    A subclass writes `_scores(candidates)` and `_learn(chosen, rewards)`, and, for what it keeps, `_state` and
    `_restore`. The base checks every input before anything changes, counts the rounds (`clock`, t in the paper:
    one per decision, and one per row learned before the first decision), and saves and loads.
    """

    seed: int | None
    #: Wall seconds spent rebuilding models so far.
    rebuild_seconds: float

    def __post_init__(self) -> None:
        self.clock = 0
        self.rebuild_seconds = 0.0
        self._decided = False
        self._inputs = Inputs()
        self._random = np.random.default_rng(self.seed)

    def choose(self, contexts: Any, arms: Any = None, *, oracle: Oracle = best_arm) -> Indices:
        """The rows to play.

        contexts: Candidates, an array or a frame with one row per candidate; or one row (d,) that all `arms` share.
        arms: (n,) integers or strings; None where the contexts describe the arms already.
        oracle: scores -> feasible rows; `best_arm` (ties at random) picks one.
        """
        candidates = self._inputs.enter(contexts, arms)
        if oracle is best_arm:
            return best_arm(self.score(candidates), self._random)
        before = self.clock, self._decided, self._random.bit_generator.state
        try:
            return oracle(self.score(candidates))
        except Exception:
            self.clock, self._decided, self._random.bit_generator.state = before
            raise

    def score(self, candidates: Candidates) -> Floats:
        """One score per candidate, (n,): advances the clock and the random stream, and learns nothing."""
        self._inputs.check(candidates)
        before = self.clock, self._decided
        self.clock += 1
        self._decided = True
        try:
            return self._scores(candidates)
        except BaseException:
            self.clock, self._decided = before
            raise

    def learn(self, contexts: Any, rewards: ArrayLike, arms: Any = None) -> None:
        """Take in rows and their rewards, any number of them, at any time after they were chosen.

        contexts, arms: as in `choose`, the chosen rows only. rewards: one finite number per row.
        """
        chosen, values, after = self._inputs.enter_to_learn(contexts, rewards, arms)
        if not len(values):
            return
        clock = self.clock
        if not self._decided:
            self.clock += len(values)
        inputs, self._inputs = self._inputs, after
        try:
            self._learn(chosen, values)
        except BaseException:
            self.clock, self._inputs = clock, inputs
            raise

    def estimate(self, contexts: Any, arms: Any = None) -> Estimate:
        """What the agent believes of each row: mean reward, variance of that mean, and the rows it rests on."""
        candidates = self._inputs.enter(contexts, arms)
        self._inputs.check(candidates)
        return self._estimate(candidates)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the agent to one file: a zip of arrays and JSON."""
        saving.write(path, description=saving.describe(self), state=self._whole_state())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """The agent that `save` wrote; it goes on exactly as the saved one would have."""
        description, state = saving.read(path)
        try:
            agent = saving.build(description)
            if not isinstance(agent, cls):
                raise SavedFileError(
                    f"{path} holds a {type(agent).__name__}, not a {cls.__name__}; use {type(agent).__name__}.load"
                )
            agent._resume(state)
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            raise SavedFileError(f"{path} does not hold a whole agent ({error!r}); save it again") from error
        return agent

    def _whole_state(self) -> dict[str, Any]:
        return {
            "clock": self.clock,
            "decided": self._decided,
            "rebuild_seconds": self.rebuild_seconds,
            "random": _plain(self._random.bit_generator.state),
            "inputs": self._inputs.state(),
            "own": self._state(),
        }

    def _resume(self, state: dict[str, Any]) -> None:
        """Take up the whole state of an agent that was made with the same arguments."""
        self.clock = int(state["clock"])
        self._decided = bool(state["decided"])
        self.rebuild_seconds = float(state["rebuild_seconds"])
        self._random.bit_generator.state = state["random"]
        self._inputs = Inputs.restored(state["inputs"])
        self._restore(state["own"])

    def _scores(self, candidates: Candidates) -> Floats:
        raise NotImplementedError

    def _learn(self, chosen: Candidates, rewards: Floats) -> None:
        raise NotImplementedError

    def _estimate(self, candidates: Candidates) -> Estimate:
        raise NotFittedError(f"{type(self).__name__} keeps no estimate of rewards; use score or choose")

    def _state(self) -> dict[str, Any]:
        return {}

    def _restore(self, state: dict[str, Any]) -> None:
        return None


def _plain(value: Any) -> Any:
    """Random states of some generators hold arrays and numpy numbers; JSON does not."""
    if isinstance(value, dict):
        return {key: _plain(member) for key, member in value.items()}
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value
