"""Agents without a model of the contexts, and ε-greedy over anybody's model."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from treebandit.agents.base import BaseAgent
from treebandit.agents.linear import LinUCB
from treebandit.core import Candidates, Estimate, Floats, Indices
from treebandit.errors import ArmsError, NotFittedError, ParameterError
from treebandit.features.arm_index import ArmIndex


@dataclass(eq=False)
class Uniform(BaseAgent):
    """Any choice as likely as its rivals; what learning is worth is measured against it."""

    seed: int | None = None

    def _scores(self, candidates: Candidates) -> Floats:
        return self._random.random(len(candidates))

    def _learn(self, chosen: Candidates, rewards: Floats) -> None:
        return None


@dataclass(eq=False)
class EpsilonGreedy(BaseAgent):
    """With probability ε any choice, otherwise the best one by another agent's estimate.

    agent: whose estimate; a fresh one made from its arguments learns every row and never decides. Where it has
        no seed, it gets one drawn from this agent's. As long as it has no estimate, choices are random.
    epsilon: ε, between 0 and 1.
    """

    agent: BaseAgent = field(default_factory=LinUCB)
    epsilon: float = 0.1
    seed: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.epsilon <= 1:
            raise ParameterError(f"epsilon={self.epsilon!r}; expected a probability from 0 to 1")
        if not isinstance(self.agent, BaseAgent):
            raise ParameterError(
                f"agent={self.agent!r} is no agent of this package; give one such as LinUCB()"
            )
        seed = self.agent.seed
        if seed is None and self.seed is not None:
            seed = int(np.random.SeedSequence(self.seed, spawn_key=(1,)).generate_state(1)[0])
        self._adviser: BaseAgent = replace(self.agent, seed=seed)  # type: ignore[type-var]

    def _scores(self, candidates: Candidates) -> Floats:
        advice: Floats | None
        try:
            advice = self._adviser.estimate(candidates).mean
        except NotFittedError:
            advice = None
        scores = self._random.random(len(candidates))
        return scores if advice is None or self._random.random() < self.epsilon else advice

    def _learn(self, chosen: Candidates, rewards: Floats) -> None:
        self._adviser.learn(chosen, rewards)
        self.rebuild_seconds = self._adviser.rebuild_seconds

    def _estimate(self, candidates: Candidates) -> Estimate:
        return self._adviser.estimate(candidates)

    def _state(self) -> dict[str, Any]:
        return {"adviser": self._adviser._whole_state(), "adviser_seed": self._adviser.seed}

    def _restore(self, state: dict[str, Any]) -> None:
        self._adviser = replace(self.agent, seed=state["adviser_seed"])  # type: ignore[type-var]
        self._adviser._resume(state["adviser"])


@dataclass(eq=False)
class _ArmStatistics(BaseAgent):
    """Mean and spread of each arm's rewards, whatever the contexts, and an index that a subclass writes."""

    seed: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self._slots = ArmIndex()
        self._counts, self._means, self._squares = np.zeros((3, 1))

    def _index(self, counts: Floats, means: Floats, variances: Floats, plays: float) -> Floats:
        """The index of arms with these statistics, (n,), after `plays` plays; NaN for one to be tried first."""
        raise NotImplementedError

    def _scores(self, candidates: Candidates) -> Floats:
        slots = self._slots.find(self._need_arms(candidates))
        counts, plays = self._counts[slots], float(self._counts.sum())
        with np.errstate(divide="ignore", invalid="ignore"):
            index = self._index(counts, self._means[slots], self._squares[slots] / counts, plays)
        first = np.isnan(index)
        if first.any():
            index[first] = np.max(index, where=~first, initial=0.0) + 1.0
        return index

    def _learn(self, chosen: Candidates, rewards: Floats) -> None:
        slots = self._slots.meet(self._need_arms(chosen))
        room = len(self._slots) - len(self._counts)
        if room > 0:
            self._counts, self._means, self._squares = (
                np.pad(array, (0, room)) for array in (self._counts, self._means, self._squares)
            )
        for slot, reward in zip(slots, rewards, strict=True):
            self._counts[slot] += 1.0
            error = reward - self._means[slot]
            self._means[slot] += error / self._counts[slot]
            self._squares[slot] += error * (reward - self._means[slot])

    def _estimate(self, candidates: Candidates) -> Estimate:
        slots = self._slots.find(self._need_arms(candidates))
        if not len(self._slots.labels):
            raise NotFittedError("no rows learned yet; learn some before asking for an estimate")
        counts = self._counts[slots]
        variance = self._squares[slots] / np.maximum(counts - 1.0, 1.0) / np.maximum(counts, 1.0)
        return Estimate(self._means[slots], variance, counts)

    def _need_arms(self, candidates: Candidates) -> Indices:
        if candidates.arms is None:
            raise ArmsError(
                f"{type(self).__name__} keeps one value per arm and was given no arms; give `arms`, one label per row"
            )
        return candidates.arms

    def _state(self) -> dict[str, Any]:
        statistics = np.stack([self._counts, self._means, self._squares])
        return {"labels": self._slots.labels, "statistics": statistics}

    def _restore(self, state: dict[str, Any]) -> None:
        self._slots = ArmIndex(state["labels"])
        self._counts, self._means, self._squares = state["statistics"].copy()


@dataclass(eq=False)
class UCB1(_ArmStatistics):
    """UCB1 (Auer et al. 2002): x̄ + √(2 ln n / n_j) after n plays, n_j of them of arm j; rewards in [0, 1]."""

    def _index(self, counts: Floats, means: Floats, variances: Floats, plays: float) -> Floats:
        index: Floats = means + np.sqrt(2.0 * math.log(max(plays, 1.0)) / counts)
        return np.where(counts > 0, index, np.nan)


@dataclass(eq=False)
class UCB1Tuned(_ArmStatistics):
    """UCB1-Tuned (Auer et al. 2002): x̄ + √(ln n / n_j · min(1/4, s² + √(2 ln n / n_j))); rewards in [0, 1]."""

    def _index(self, counts: Floats, means: Floats, variances: Floats, plays: float) -> Floats:
        share = math.log(max(plays, 1.0)) / counts
        index: Floats = means + np.sqrt(share * np.minimum(0.25, variances + np.sqrt(2.0 * share)))
        return np.where(counts > 0, index, np.nan)


@dataclass(eq=False)
class UCB1Normal(_ArmStatistics):
    """UCB1-Normal (Auer et al. 2002): x̄ + √(16 s² ln(n-1) / n_j) in round n, s² the sample variance (ddof 1).

    An arm played fewer than ⌈8 ln n⌉ times, or fewer than twice, comes first.
    """

    def _index(self, counts: Floats, means: Floats, variances: Floats, plays: float) -> Floats:
        sample_variances = variances * counts / (counts - 1.0)
        index: Floats = means + np.sqrt(16.0 * sample_variances * math.log(max(plays, 1.0)) / counts)
        return np.where(counts >= max(math.ceil(8.0 * math.log(plays + 1.0)), 2), index, np.nan)
