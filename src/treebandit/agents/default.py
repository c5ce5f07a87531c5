"""The agent to take when nothing is known of the problem."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from treebandit.agents.linear_scores import ArmRidges, LinearEncoder
from treebandit.agents.tree_ensemble import TETS, RandomStart
from treebandit.core import Candidates, Estimate, Features, Floats
from treebandit.errors import ParameterError
from treebandit.features.encoding import CategoryEncoding, Encoder
from treebandit.models import ridge_kernels
from treebandit.trees.forest import TreeLearner
from treebandit.trees.histogram_forest import HistogramForest
from treebandit.trees.leaf_statistics import LeafStatistics

#: What a row's error weighs in the blend after the next row: a thousand rows are remembered.
_MEMORY = 0.999


def _default_forest() -> HistogramForest:
    return HistogramForest(n_trees=80, max_depth=14, bootstrap=False, subsample=0.8, blind_share=0.5)


@dataclass(eq=False)
class Bandit(TETS):
    """The default agent: a forest that sees a linear model, blended with that model by what each foretold.

    It is TETS with other defaults, chosen once on many problems (docs/default-agent.md), and with a ridge regression
    per arm, kept up to date row by row. Its score z·θ is the last column of the features, which the forest's
    `blind_share` of trees does without. A candidate's score is

        (1 - w) · draw of the forest + w · z·θ + linear_exploration · doubt · s · √(log₂ K / width) · √(h / (1 + h)),

    where h = z'A⁻¹z is how strange the row is to the arm, s the standard deviation of all rewards and K the number of
    arms. The doubt is 1, but where even the best candidate falls short of the mean reward by more than s, it is the
    square of that shortfall in units of s: a round that seems lost costs little and may teach much.

    linear: False, no linear model at all.
    blend: w is what would have been best so far, each row foretold before it was learned; False, w = 0.
    linear_exploration: how much the bonus weighs.
    doubt: False, the bonus is the same in all rounds.
    """

    trees: TreeLearner = field(default_factory=_default_forest)
    random_rounds: int = 2
    random_start: RandomStart = "in_turn"
    categories: CategoryEncoding = "one_hot"
    sampling: Literal["candidates", "leaves"] = "leaves"
    linear: bool = True
    blend: bool = True
    linear_exploration: float = 0.5
    doubt: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        self._errors = np.zeros(2)

    def _check_arguments(self) -> None:
        super()._check_arguments()
        if self.categories != "one_hot":
            raise ParameterError(
                f"categories={self.categories!r}; linear models need 'one_hot', take TETS for integer codes"
            )
        if not (self.linear_exploration >= 0 and math.isfinite(self.linear_exploration)):
            raise ParameterError(
                f"linear_exploration={self.linear_exploration!r}; expected a number of at least 0"
            )

    @property
    def linear_weight(self) -> float:
        """w, the share of the linear model in the scores: Σ (r - f)(z·θ - f) / Σ (z·θ - f)², within [0, 1]."""
        product, square = self._errors.tolist()
        return min(max(product / square, 0.0), 1.0) if square > 0.0 else 0.0

    def _scores(self, candidates: Candidates) -> Floats:
        ridges = self._ridges
        if ridges is None or self._leaves is None or self.clock <= self.start_rounds:
            return super()._scores(candidates)
        features, leverage = self._look_up(candidates)
        scores = self._explore(self._leaves, features)
        best = ridge_kernels.blend(scores, features, self.linear_weight)
        bonus = self.linear_exploration * ridges.unit * (ridges.doubt(best) if self.doubt else 1.0)
        ridge_kernels.add_bonus(scores, leverage, bonus)
        return scores

    def _estimate(self, candidates: Candidates) -> Estimate:
        ridges = self._ridges
        if ridges is None or self._leaves is None:
            return super()._estimate(candidates)
        features, leverage = self._look_up(candidates)
        trees, w = self._leaves.estimate(features), self.linear_weight
        variance = (1.0 - w) ** 2 * trees.variance + (w * ridges.spread) ** 2 * leverage
        ridge_kernels.blend(trees.mean, features, w)
        return Estimate(trees.mean, variance, trees.count)

    def _update(self, leaves: LeafStatistics, chosen: Candidates, rewards: Floats) -> None:
        encoder = self._encoder
        assert isinstance(encoder, LinearEncoder)
        features = encoder(chosen.contexts, chosen.arms)
        foretold = leaves.update(features, rewards)
        if self.linear and self.blend:
            ridge_kernels.compare(foretold, features, rewards, _MEMORY, self._errors)
        encoder.update(features, chosen.arms, rewards)

    @property
    def _ridges(self) -> ArmRidges | None:
        return self._encoder.ridges if isinstance(self._encoder, LinearEncoder) else None

    def _look_up(self, candidates: Candidates) -> tuple[Features, Floats]:
        assert isinstance(self._encoder, LinearEncoder)
        return self._encoder.look_up(candidates.contexts, candidates.arms)

    def _fit_encoder(self, rows: Candidates, targets: Floats) -> tuple[Encoder, Features]:
        return LinearEncoder.fit(rows, targets, arm_encoding=self.arm_encoding, linear=self.linear)

    def _restored_encoder(self, state: dict[str, Any]) -> Encoder:
        return LinearEncoder.from_state(state)

    def _state(self) -> dict[str, Any]:
        return {**super()._state(), "errors": self._errors}

    def _restore(self, state: dict[str, Any]) -> None:
        super()._restore(state)
        self._errors = np.array(state["errors"], np.float64)
