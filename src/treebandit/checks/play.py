"""Rounds that agents are checked on, and what their contracts share."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from functools import cached_property
from typing import Any

import numpy as np

from treebandit.checks.contracts import Subject, same
from treebandit.core import Agent, Candidates, Columns, Floats
from treebandit.errors import ArmsError, CheckError, NoEstimateError, NotFittedError

ARMS, FEATURES = 3, 4


class Problem:
    """Rounds to decide: one context for labelled arms, or arms that differ by their features alone."""

    def __init__(self, seed: int, *, with_arms: bool) -> None:
        self._random = np.random.default_rng(seed)
        self._with_arms = with_arms
        self._columns = Columns.numeric(FEATURES)

    def candidates(self, n: int = ARMS, *, first_arm: int = 0) -> Candidates:
        """`n` candidates with a context of their own each, or one that all share."""
        if not self._with_arms:
            contexts = self._random.uniform(-1.0, 1.0, (n, FEATURES)).astype(np.float32)
            return Candidates(contexts, None, self._columns)
        row = self._random.uniform(-1.0, 1.0, FEATURES).astype(np.float32)
        arms = np.arange(first_arm, first_arm + n, dtype=np.intp)
        return Candidates(np.repeat(row[None], n, axis=0), arms, self._columns)

    def rewards(self, chosen: Candidates) -> Floats:
        """A noisy number for each chosen row."""
        arms = np.zeros(len(chosen)) if chosen.arms is None else chosen.arms
        means = np.where(chosen.contexts[:, 0] > 0, 1.0, 0.2 * (arms % 3))
        noisy = means + 0.3 * self._random.standard_normal(len(chosen))
        return noisy.astype(np.float32).astype(np.float64)


class AgentSubject(Subject[Agent]):
    """An agent to examine, and how to play with it."""

    @cached_property
    def with_arms(self) -> bool:
        """Whether to examine it with labelled arms; where it refuses them it must do without."""
        refusals = []
        for with_arms in (True, False):
            try:
                self.play(self.make(), Problem(0, with_arms=with_arms), 2)
            except ArmsError as refusal:
                refusals.append(str(refusal))
                continue
            return with_arms
        raise CheckError(
            f"{self.name}: an agent takes candidates with arms or without, but: {'; '.join(refusals)}"
        )

    def problem(self, seed: int) -> Problem:
        """Rounds of the kind that the agent accepts."""
        return Problem(seed, with_arms=self.with_arms)

    def play(
        self, agent: Agent, problem: Problem, rounds: int, *, scale: float = 1.0, shift: float = 0.0
    ) -> list[Floats]:
        """Play on and return the scores of every round, which alone make the choices; rewards: scale · r + shift."""
        seen = []
        for _ in range(rounds):
            candidates = problem.candidates()
            seen.append(self.scored(agent, candidates))
            chosen = candidates[np.array([int(seen[-1].argmax())])]
            agent.learn(chosen, shift + scale * problem.rewards(chosen))
        return seen

    def plays_alike(self, one: Agent, other: Agent, *, seed: int, rounds: int) -> bool:
        """Whether two agents score the same in the same rounds while both learn."""
        return same(*(self.play(agent, self.problem(seed), rounds) for agent in (one, other)))

    def goes_on_alike(self, agent: Agent, other: Agent) -> bool:
        """Whether two agents estimate and score the same, now and while both learn; both are left as they are."""
        one, two = deepcopy(agent), deepcopy(other)
        probe = self.problem(16).candidates()
        alike = same(estimated(one, probe), estimated(two, probe))
        return alike and self.plays_alike(one, two, seed=8, rounds=4)

    def scored(self, agent: Agent, candidates: Candidates) -> Floats:
        """The agent's scores, after a look at their shape and values."""
        scores, n = np.asarray(agent.score(candidates)), len(candidates)
        contract = "score returns one finite number per candidate"
        self.require(scores.shape == (n,), contract, f"{n} candidates got shape {scores.shape}")
        kept = scores.dtype.kind in "fiu" and np.isfinite(scores).all()
        self.require(kept, contract, f"it returned {scores.tolist()}")
        return scores

    def experienced(self) -> Iterator[Agent]:
        """A new agent, and one that has played."""
        problem = self.problem(1)
        yield self.make()
        agent = self.make()
        self.play(agent, problem, self.size)
        yield agent


def estimated(agent: Any, candidates: Candidates) -> Any:
    """The agent's estimate as arrays, None where it has none to give."""
    if not hasattr(agent, "estimate"):
        return None
    try:
        estimate = agent.estimate(candidates)
    except (NoEstimateError, NotFittedError):
        return None
    return [estimate.mean, estimate.variance, estimate.count]
