"""Agents without a model of the contexts."""

from __future__ import annotations

from dataclasses import dataclass

from treebandit.agents.base import BaseAgent
from treebandit.bandit import Candidates, Floats


@dataclass(eq=False)
class Uniform(BaseAgent):
    """Any choice as likely as its rivals; what learning is worth is measured against it."""

    seed: int | None = None

    def _scores(self, candidates: Candidates) -> Floats:
        return self._random.random(len(candidates))

    def _learn(self, chosen: Candidates, rewards: Floats) -> None:
        return None
