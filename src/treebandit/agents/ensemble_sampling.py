"""Ensemble Sampling: Thompson sampling from a fixed number of models that learn side by side (Lu and Van Roy, 2017)."""

from __future__ import annotations

from dataclasses import dataclass

from treebandit.agents.model_agent import ModelAgent
from treebandit.models.ensemble import EnsembleModel, EnsembleSettings
from treebandit.parameters import check_number, shared_fields
from treebandit.policies import Policy, Thompson


@dataclass(eq=False)
class EnsembleSampling(ModelAgent):
    """Keeps `members` linear models per arm that differ by prior and noise; each decision follows one, drawn at random.

    members: M, how many models.
    exploration: ν, deviation of the noise that each member sees added to every reward, in standard deviations of the
        rewards; the prior coefficients of a member have deviation ν / √λ. 0 is greedy.
    ridge: λ, the weight of the prior.
    rebuild: when numbers and rewards are standardised anew: '8 ln t', 'every 100' or 'never' (after the first time).
    standardise: learn rewards of mean 0 and standard deviation 1; False, rewards as they are.

    >>> agent = treebandit.EnsembleSampling(members=10, seed=0)
    >>> agent.learn([[1.0], [2.0], [3.0]], [1.0, 2.0, 3.0], arms=["a", "a", "a"])
    >>> agent.decide([2.5], arms=["a", "b"]).arm in ("a", "b")
    True
    """

    members: int = 30
    exploration: float = 0.25
    ridge: float = 1.0
    rebuild: str = "8 ln t"
    standardise: bool = True
    seed: int | None = None

    def _parts(self) -> tuple[EnsembleModel, Policy]:
        check_number("members", self.members, least=1, most=10_000, whole=True)
        check_number("ridge", self.ridge, least=1e-8)
        check_number("exploration", self.exploration, least=0)
        model = EnsembleModel(shared_fields(EnsembleSettings, self), int(self._random.integers(2**62)))
        return model, Thompson(1.0)
