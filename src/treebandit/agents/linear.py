"""LinUCB and LinTS: a ridge regression per arm, or one with an intercept per arm, kept up to date row by row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from treebandit.agents.model_agent import ModelAgent
from treebandit.drift import MemoryRule, check_memory
from treebandit.errors import ParameterError
from treebandit.features.encoding import RowForm
from treebandit.models.forgetting import Forgetting
from treebandit.models.model import RewardModel
from treebandit.models.plain_ridge import PlainRidge
from treebandit.models.ridge import Ridge, SharedRidge
from treebandit.parameters import check_number
from treebandit.policies import UCB, Policy, Thompson

_SMALLEST_RIDGE = 1e-8


@dataclass(eq=False)
class _LinearAgent(ModelAgent):
    """Ridge regression on (1, standardised numbers, one-hot categories), with LinUCB's policy or LinTS's.

    exploration: ν (α in Li et al. 2010), in standard deviations of the rewards; 0 is greedy.
    ridge: λ, the weight of the prior: coefficients start at 0 with variance 1/λ.
    shared: False, each arm has coefficients of its own (the disjoint model). True, all arms share them and each
        has an intercept of its own (a hybrid model): what one arm teaches helps the others.
    standardise: rewards are standardised by those learned so far, so that choices do not depend on their unit. False,
        as in the papers: they are taken as they are, with ν and a prior around 0 in their unit.
    features: 'scaled', as above; 'raw', numbers and the codes of categories as they are and no intercept; 'unit', the
        same with each row divided by its length, as in the code of Zhang et al. (2021). Both are for comparison: they
        need standardise=False, shared=False and new_columns=False.
    memory: 'all' rows count for ever; a number, only as many of the newest (and up to an eighth more); 'auto', the rows
        before a change are dropped when predictions have become worse. All but 'all' keep the rows.
    """

    _policy: ClassVar[type[UCB] | type[Thompson]]

    exploration: float = 0.5
    ridge: float = 1.0
    shared: bool = False
    standardise: bool = True
    features: RowForm = "scaled"
    memory: MemoryRule = "all"
    seed: int | None = None

    def _parts(self) -> tuple[RewardModel, Policy]:
        check_number("ridge", self.ridge, least=_SMALLEST_RIDGE)
        check_memory(self.memory)
        model = self._model() if self.memory == "all" else Forgetting(self._model, self.memory)
        return model, self._policy(self.exploration)

    def _model(self) -> Ridge | SharedRidge | PlainRidge:
        if self.features == "scaled":
            kind = SharedRidge if self.shared else Ridge
            return kind(self.ridge, standardise=self.standardise)
        if self.shared or self.standardise or self.new_columns:
            raise ParameterError(
                f"features={self.features!r} with shared={self.shared}, standardise={self.standardise} and "
                f"new_columns={self.new_columns}; such rows are for regressions per arm on rewards as they are, whose "
                "columns stay the same: give shared=False, standardise=False and new_columns=False"
            )
        return PlainRidge(self.ridge, unit=self.features == "unit")


@dataclass(eq=False)
class LinUCB(_LinearAgent):
    """Linear upper confidence bound (Li et al. 2010): U = z·θ + ν s √(z'A⁻¹z), A = λI + Σ zz', s the sd of rewards.

    >>> from treebandit import LinUCB
    >>> agent = LinUCB(seed=0)
    >>> agent.learn([[1.0], [2.0], [3.0]], [1.0, 2.0, 3.0], arms=["a", "a", "a"])
    >>> bool(agent.estimate([2.5], arms=["a"]).mean[0] > 2)
    True
    """

    _policy = UCB


@dataclass(eq=False)
class LinTS(_LinearAgent):
    """Linear Thompson sampling (Agrawal and Goyal 2013): z·θ̃ with θ̃ drawn from N(θ, ν² s² A⁻¹), once per arm.

    >>> from treebandit import LinTS
    >>> agent = LinTS(seed=0)
    >>> decision = agent.decide([1.0, 2.0], arms=["a", "b"])
    >>> agent.learn(decision, 1.0)
    """

    _policy = Thompson
    exploration: float = 0.25
