"""Agents without a model of the contexts, and ε-greedy over anybody's model."""

from __future__ import annotations

import math
import reprlib
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np

from treebandit import schema
from treebandit.agents.base import BaseAgent
from treebandit.agents.linear import LinUCB
from treebandit.agents.model_agent import ModelAgent
from treebandit.core import Candidates, Estimate, Floats
from treebandit.errors import NotFittedError, ParameterError
from treebandit.models.arm_means import ArmMeans, ArmStatistics
from treebandit.models.model import Commit
from treebandit.parameters import check_number
from treebandit.policies.floor import ScoreDraws


@dataclass(eq=False)
class Uniform(BaseAgent):
    """Any choice is as likely as any other; the baseline against which learning is measured.

    >>> from treebandit import Uniform
    >>> Uniform(seed=0).probabilities(None, arms=["a", "b"]).tolist()
    [0.5, 0.5]
    """

    seed: int | None = None

    def _scores(self, candidates: Candidates) -> Floats:
        return self._random.random(len(candidates))

    def _draws(self, candidates: Candidates, size: int) -> ScoreDraws:
        return ScoreDraws.random(len(candidates))

    def _prepared(self, chosen: Candidates, rewards: Floats, *, t: int) -> Commit:
        return _nothing


@dataclass(eq=False)
class EpsilonGreedy(BaseAgent):
    """With probability ε any choice, otherwise the best one by another agent's estimate.

    agent: whose estimate; a fresh one made from its arguments learns every row and never decides. Where it has
        no seed, it gets one drawn from this agent's. As long as it has no estimate, choices are random.
    epsilon: ε, between 0 and 1.

    >>> from treebandit import EpsilonGreedy, LinUCB
    >>> agent = EpsilonGreedy(LinUCB(), epsilon=0.1, seed=0)
    >>> decision = agent.decide([1.0, 2.0], arms=["a", "b"])
    >>> agent.learn(decision, 1.0)
    """

    agent: BaseAgent = field(default_factory=LinUCB)
    epsilon: float = 0.1
    seed: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("epsilon", self.epsilon, least=0, most=1)
        if not isinstance(self.agent, BaseAgent):
            raise ParameterError(
                f"agent={reprlib.repr(self.agent)} is no agent of this package; give one such as LinUCB()"
            )
        if self.agent.columns is not None:
            raise ParameterError(
                f"the agent of EpsilonGreedy declares columns={self.agent.columns!r:.60}; declare them on EpsilonGreedy"
            )
        seed = self.agent.seed
        if seed is None and self.seed is not None:
            seed = int(np.random.SeedSequence(self.seed, spawn_key=(1,)).generate_state(1)[0])
        self._base = self._new_base(seed)

    def _new_base(self, seed: int | None) -> BaseAgent:
        """The agent whose estimates are followed; its rows are encoded already."""
        base: BaseAgent = replace(cast("Any", self.agent), seed=seed, new_columns=self.new_columns)
        return base

    def _scores(self, candidates: Candidates) -> Floats:
        means, scores = self._base_means(candidates), self._random.random(len(candidates))
        return scores if means is None or self._random.random() < self.epsilon else means

    def _draws(self, candidates: Candidates, size: int) -> ScoreDraws:
        means = self._base_means(candidates)
        return ScoreDraws.random(len(candidates)) if means is None else ScoreDraws(means[None], self.epsilon)

    def _base_means(self, candidates: Candidates) -> Floats | None:
        """The other agent's estimate, if it has one yet."""
        try:
            return self._base.estimate(candidates).mean
        except NotFittedError:
            return None

    def wait(self, timeout: float | None = None) -> bool:
        """End the rebuild of the other agent that is under way, if any; False where it still works after a timeout."""
        return self._base._waited(timeout, self) if isinstance(self._base, ModelAgent) else True

    def _finish(self) -> None:
        super()._finish()
        self._base._finish()

    def _prepared(self, chosen: Candidates, rewards: Floats, *, t: int) -> Commit:
        return self._base._prepared_learning(chosen, rewards, None) or _nothing

    def _estimate(self, candidates: Candidates) -> Estimate:
        return self._base.estimate(candidates)

    @property
    def rebuild_seconds(self) -> float:
        """Wall seconds that the other agent spent rebuilding models."""
        return self._base.rebuild_seconds

    def _state(self) -> dict[str, Any]:
        return {"adviser": self._base._whole_state(), "adviser_seed": self._base.seed}

    def _deciding_state(self) -> dict[str, Any]:
        return {"adviser": self._base._whole_state(history=False), "adviser_seed": self._base.seed}

    def _restore(self, state: dict[str, Any]) -> None:
        self._base = self._new_base(state["adviser_seed"])
        self._base._resume(schema.part(state, "adviser"))


@dataclass(eq=False)
class _IndexAgent(BaseAgent):
    """Plays the arm of greatest index, whatever the contexts; a subclass writes the index."""

    seed: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.model = self._new_model()

    def _new_model(self) -> ArmMeans:
        return ArmMeans()

    def _index(self, seen: ArmStatistics) -> Floats:
        """The index of arms with these statistics, (n,); NaN for one to be tried first."""
        raise NotImplementedError

    def _scores(self, candidates: Candidates) -> Floats:
        with np.errstate(divide="ignore", invalid="ignore"):
            index = self._index(self.model.statistics(candidates))
        first = np.isnan(index)
        if first.any():
            greatest = np.max(index, where=~first, initial=0.0)
            index[first] = greatest + abs(greatest) + 1.0
        return index

    def _prepared(self, chosen: Candidates, rewards: Floats, *, t: int) -> Commit:
        return self.model.prepared(chosen, rewards, t=t, random=self._random)

    def _estimate(self, candidates: Candidates) -> Estimate:
        return self.model.estimate(candidates)

    def _state(self) -> dict[str, Any]:
        return self.model.state()

    def _restore(self, state: dict[str, Any]) -> None:
        self.model.restore(state)


@dataclass(eq=False)
class _UnitIndexAgent(_IndexAgent):
    """An index that is made for rewards in [0, 1].

    standardise: rewards are shares of the range seen so far; False, they are taken as they are.
    """

    standardise: bool = True

    def _new_model(self) -> ArmMeans:
        return ArmMeans(unit_range=self.standardise)


@dataclass(eq=False)
class UCB1(_UnitIndexAgent):
    """UCB1 (Auer et al. 2002): x̄ + √(2 ln n / n_j) after n plays, n_j of them of arm j, for rewards in [0, 1].

    >>> from treebandit import UCB1
    >>> agent = UCB1(seed=0)
    >>> agent.learn(None, [0.0, 1.0, 1.0, 1.0], arms=["a", "b", "b", "a"])
    >>> agent.estimate(None, arms=["a", "b"]).mean.tolist()
    [0.5, 1.0]
    """

    def _index(self, seen: ArmStatistics) -> Floats:
        index: Floats = seen.means + np.sqrt(2.0 * math.log(max(seen.plays, 1.0)) / seen.counts)
        return np.where(seen.counts > 0, index, np.nan)


@dataclass(eq=False)
class UCB1Tuned(_UnitIndexAgent):
    """UCB1-Tuned (Auer et al. 2002): x̄ + √(ln n / n_j · min(1/4, s² + √(2 ln n / n_j))), for rewards in [0, 1].

    >>> from treebandit import UCB1Tuned
    >>> agent = UCB1Tuned(seed=0)
    >>> agent.learn(None, [0.0, 1.0, 1.0, 1.0], arms=["a", "b", "b", "a"])
    >>> agent.estimate(None, arms=["a", "b"]).mean.tolist()
    [0.5, 1.0]
    """

    def _index(self, seen: ArmStatistics) -> Floats:
        share = math.log(max(seen.plays, 1.0)) / seen.counts
        width = np.minimum(0.25, seen.variances + np.sqrt(2.0 * share))
        index: Floats = seen.means + np.sqrt(share * width)
        return np.where(seen.counts > 0, index, np.nan)


@dataclass(eq=False)
class UCB1Normal(_IndexAgent):
    """UCB1-Normal (Auer et al. 2002): x̄ + √(16 s² ln(n-1) / n_j) in round n, s² the sample variance (ddof 1).

    An arm played fewer than ⌈8 ln n⌉ times, or fewer than twice, comes first. The rule knows no unit of rewards.

    >>> from treebandit import UCB1Normal
    >>> agent = UCB1Normal(seed=0)
    >>> agent.learn(None, [0.0, 1.0, 1.0, 1.0], arms=["a", "b", "b", "a"])
    >>> agent.estimate(None, arms=["a", "b"]).mean.tolist()
    [0.5, 1.0]
    """

    def _index(self, seen: ArmStatistics) -> Floats:
        sample_variances = seen.variances * seen.counts / (seen.counts - 1.0)
        growth = 16.0 * math.log(max(seen.plays, 1.0))
        index: Floats = seen.means + np.sqrt(growth * sample_variances / seen.counts)
        return np.where(seen.counts >= max(math.ceil(8.0 * math.log(seen.plays + 1.0)), 2), index, np.nan)


def _nothing() -> None:
    """The commit of an agent that keeps nothing."""
