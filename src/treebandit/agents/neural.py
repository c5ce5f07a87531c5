"""NeuralUCB and NeuralTS: a small network, its output's gradient telling how sure it is (Zhou 2020, Zhang 2021)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from treebandit.agents.model_agent import ModelAgent
from treebandit.models.network import NetworkSettings
from treebandit.models.neural_model import NeuralModel
from treebandit.parameters import check_number, shared_fields
from treebandit.policies import UCB, Policy, Thompson


@dataclass(eq=False)
class _NeuralAgent(ModelAgent):
    """A network f over scaled numbers and one-hot categories, with NeuralUCB's policy or NeuralTS's.

    exploration, regularisation: ν and λ. A row's score deviates from f by s, s² = λ ν g'U⁻¹g with g the gradient of f
        by all its parameters, and U = λI + Σ gg' over the rows learned; g is not divided by the width of the network,
        as in the authors' code, so that λ here is λ times the width in their papers.
    hidden: units of each hidden layer (ReLU). dropout: their share left out at random while training.
    arm_encoding: 'disjoint', the features in a block of inputs per arm (the first layer then has one weight
        matrix per arm); 'none', one network over the features alone, as where there are no arms.
    rebuild: when to train: 'every 100', '8 ln t' or 'never' (after the first time); weights are kept and go on.
    epochs, batch_size, learning_rate, optimiser: passes over all rows a training, and its steps; weight decay is λ/n.
    early_stopping: end a training when an epoch's squared error has not fallen.
    matrix: 'diagonal' keeps the diagonal of U only, 'full' all of it (small networks).
    standardise: give the network rewards of mean 0 and standard deviation 1, so that s is in standard deviations of the
        rewards seen; False, the rewards as they are.
    features: 'scaled', numbers standardised and categories one-hot; 'unit', for comparison, numbers and codes as they
        are, each row divided by its length, as in the code of Zhang et al. (2021).
    """

    _policy: ClassVar[type[UCB] | type[Thompson]]

    exploration: float = 1e-3
    regularisation: float = 1e-3
    hidden: Sequence[int] = (100,)
    dropout: float = 0.2
    arm_encoding: Literal["disjoint", "none"] = "disjoint"
    rebuild: str = "8 ln t"
    epochs: int = 10
    batch_size: int = 64
    learning_rate: float = 1e-3
    optimiser: Literal["adam", "sgd"] = "adam"
    early_stopping: bool = False
    matrix: Literal["diagonal", "full"] = "diagonal"
    standardise: bool = True
    features: Literal["scaled", "unit"] = "scaled"
    seed: int | None = None

    def _parts(self) -> tuple[NeuralModel, Policy]:
        self.hidden = tuple(self.hidden)
        settings = shared_fields(NetworkSettings, self)
        check_number("exploration", self.exploration, least=0)
        model = NeuralModel(settings, int(self._random.integers(2**62)))
        return model, self._policy(math.sqrt(self.exploration))

    @property
    def note(self) -> str:
        """How the network was trained, for a run's record."""
        return f"trained {self.rebuild}"


@dataclass(eq=False)
class NeuralUCB(_NeuralAgent):
    """Neural upper confidence bound (Zhou et al. 2020): U = f + s.

    >>> from treebandit import NeuralUCB
    >>> agent = NeuralUCB(hidden=(8,), epochs=1, seed=0)
    >>> decision = agent.decide([1.0, 2.0], arms=["a", "b"])
    >>> agent.learn(decision, 1.0)
    """

    _policy = UCB


@dataclass(eq=False)
class NeuralTS(_NeuralAgent):
    """Neural Thompson sampling (Zhang et al. 2021): a draw from N(f, s²) per candidate.

    >>> from treebandit import NeuralTS
    >>> agent = NeuralTS(hidden=(8,), epochs=1, seed=0)
    >>> decision = agent.decide([1.0, 2.0], arms=["a", "b"])
    >>> agent.learn(decision, 1.0)
    """

    _policy = Thompson
