"""A forest that sees a linear model, averaged with it by how well each predicted so far."""

from __future__ import annotations

from typing import Any

import numpy as np

from treebandit import schema
from treebandit.core import Candidates, Estimate, Features, Floats
from treebandit.errors import NotFittedError
from treebandit.features.encoding import Encoder
from treebandit.models import blend_kernels
from treebandit.models.attribution import Attribution
from treebandit.models.linear_scores import LinearEncoder
from treebandit.models.model import Commit
from treebandit.models.rebuild import Fit
from treebandit.models.tree_model import TreeModel, TreeSettings
from treebandit.trees.forest import Masked
from treebandit.trees.leaf_statistics import LeafStatistics

#: What a row's error weighs in the blend after the next row: a thousand rows are remembered.
_MEMORY = 0.999


class Blend(TreeModel):
    """(1 - w) · forest + w · z·θ: a tree model, and a ridge regression per arm whose score is a column of its features.

    linear: False, no linear model at all.
    weighted: w is what would have been best so far, each row predicted before it was learned; False, w = 0.
    without_linear: share of the trees that do not see the linear score.
    """

    def __init__(
        self,
        settings: TreeSettings,
        *,
        linear: bool = True,
        weighted: bool = True,
        without_linear: float = 0.5,
    ) -> None:
        super().__init__(settings)
        self._without_linear = without_linear
        self._linear, self._weighted = linear, weighted
        self.errors = np.zeros(2)

    @property
    def linear_weight(self) -> float:
        """w, the share of the linear model: Σ (r - f)(z·θ - f) / Σ (z·θ - f)², within [0, 1]."""
        product, square = self.errors.tolist()
        return min(max(product / square, 0.0), 1.0) if square > 0.0 else 0.0

    def _fitted_encoder(
        self, rows: Candidates, targets: Floats, random: np.random.Generator
    ) -> tuple[Encoder, Features]:
        arm_encoding = self.settings.arm_encoding
        return LinearEncoder.fit(rows, targets, arm_encoding=arm_encoding, random=random, linear=self._linear)

    def _masked(self, encoder: Encoder) -> Masked:
        return ((encoder.width,), self._without_linear) if self._linear else super()._masked(encoder)

    def _restored_encoder(self, state: dict[str, Any]) -> Encoder:
        return LinearEncoder.from_state(state)

    def _look_up(self, rows: Candidates) -> tuple[LeafStatistics, LinearEncoder, Features, Floats]:
        """Leaves, encoder, features with the linear score as their last column, and the leverage of each row."""
        if self.leaves is None or not isinstance(self.encoder, LinearEncoder):
            raise NotFittedError(
                f"no trees yet after {len(self.history)} rows; learn more before asking for an estimate"
            )
        features, leverage = self.encoder.look_up(rows.contexts, rows.arms)
        return self.leaves, self.encoder, features, leverage

    def prepared_update(self, fit: Fit, rows: Candidates, rewards: Floats, *, weighed: bool = True) -> Commit:
        """Let rows change leaves and regressions; weighed: and the weight of both, by what they predicted."""
        encoder, targets = fit.encoder, fit.scale.standardised(rewards)
        features = encoder(rows.contexts, rows.arms)
        update = fit.leaves.prepared_update(features, targets)
        if not isinstance(encoder, LinearEncoder) or encoder.ridge is None:
            return update
        learn, before = encoder.prepared_update(rows, targets), self.errors

        def commit() -> None:
            update()
            if self._weighted and weighed:
                # From the errors as they were, so that this may be repeated.
                errors = before.copy()
                blend_kernels.compare(update.predicted, features, targets, _MEMORY, errors)
                self.errors = errors
            learn()

        return commit

    def estimate(self, rows: Candidates) -> Estimate:
        """Mean of forest and linear model by their weights, and the variance that follows from theirs."""
        leaves, encoder, features, leverage = self._look_up(rows)
        trees = leaves.estimate(features)
        if encoder.ridge is not None:
            w = self.linear_weight
            variance = (1.0 - w) ** 2 * trees.variance + (w * encoder.ridge.reward_sd) ** 2 * leverage
            mean = trees.mean + w * (features[:, -1] - trees.mean)
            trees = Estimate(mean, variance, trees.count)
        return self.scale.original(trees)

    def attribution(self, rows: Candidates) -> Attribution:
        """What columns and arm add to the mean of each row, by the forest and by the linear model."""
        trees = super().attribution(rows)
        _, encoder, features, _ = self._look_up(rows)
        if encoder.ridge is None:
            return trees
        w, scale = self.linear_weight, self.scale
        linear = encoder.attribution(rows.contexts, rows.arms)
        # The score is a 32-bit feature; what rounding has changed belongs to it.
        linear = linear._replace(linear_model=features[:, -1] - linear.mean)
        return trees.scaled(1.0 - w).plus(linear.scaled(w * scale.deviation, w * scale.mean))

    def sample(
        self, rows: Candidates, draws: int, random: np.random.Generator, *, scale: float = 1.0
    ) -> Floats:
        """Draws of the forest's leaves, averaged with the linear model: (draws, n)."""
        return self.explore(rows, draws, random, scale=scale, bonus=0.0, boost=False)

    def explore(
        self,
        rows: Candidates,
        draws: int,
        random: np.random.Generator,
        *,
        scale: float,
        bonus: float,
        boost: bool,
    ) -> Floats:
        """Draws as in `sample`, with a bonus for rows that the arm's regression knows little of: (draws, n).

        bonus: multiplies √(h / (1 + h)) with h = z'A⁻¹z the leverage, in the unit of `LinearEncoder.bonus`.
        boost: where even the best candidate of a draw falls short of the mean reward by more than a standard deviation,
            the bonus is multiplied by the square of that shortfall: a round that seems lost costs little to explore.
        """
        leaves, encoder, features, leverage = self._look_up(rows)
        samples = leaves.sample(features, draws=draws, exploration=scale, key=int(random.integers(2**63)))
        if encoder.ridge is not None:
            mean, deviation = encoder.ridge.reward_moments
            bonus, rewards = bonus * encoder.bonus, (mean, deviation if boost else 0.0)
            blend_kernels.explore(samples, features, leverage, self.linear_weight, bonus, rewards)
        return self.scale.mean + self.scale.deviation * samples

    def state(self, *, history: bool = True) -> dict[str, Any]:
        """All that is needed to go on elsewhere; without history, to estimate and sample."""
        return {**super().state(history=history), "errors": self.errors}

    def restore(self, state: dict[str, Any]) -> None:
        """Take up what `state` gave."""
        super().restore(state)
        self.errors = schema.array(state, "errors", np.float64, (2,))
