"""A forest that sees a linear model, averaged with it by how well each predicted so far."""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treebandit import schema
from treebandit.core import Candidates, Estimate, Features, Floats, Indices
from treebandit.features.encoding import Encoder
from treebandit.models import blend_kernels
from treebandit.models.arm_effects import COUNT, FEW_FIRST_ROWS, ArmEffects
from treebandit.models.attribution import Attribution
from treebandit.models.blend_weights import compared, weight, with_kernel
from treebandit.models.linear_scores import LinearEncoder
from treebandit.models.model import Commit
from treebandit.models.rebuild import Fit, Measured
from treebandit.models.tree_model import TreeModel
from treebandit.models.tree_settings import TreeSettings
from treebandit.models.unseen_arms import UnseenArms, unseen_arms
from treebandit.trees.forest import Masked, TreeLearner
from treebandit.trees.histogram_forest import HistogramForest
from treebandit.trees.kernels import draw_key
from treebandit.trees.leaf_statistics import LeafStatistics

#: The kernel regression is given up for good where it has less than this weight after so many rows that it predicted.
_LEAST_WEIGHT, _TRIAL = 0.01, 1000
#: What leverage under the kernel weighs in the bonus, times v and a standard deviation of the rewards.
_KERNEL_BONUS = 0.5
#: Draws of effects deviate by so much of their standard deviation: a path of sixty roads is the best of very many by
#: chance, and jams make the deviation larger than what a good road could bring.
_EFFECTS = 0.5
#: Draws of arms that the trees do not know deviate by so much of √(h / (1 + h)) standard deviations of the rewards.
_LATER = 0.5
#: With more rows a round than this, choices are paths: new arms come along with them, and to look for more costs more
#: than it finds. A tree then sees so many rows at most: the same roads are driven again and again. For the same reason
#: the newest so many rows of an arm stand for all when effects are fitted.
_LONG_SETS, _MOST_PATH_ROWS, _NEWEST_ROWS = 8, 16_384, 16
#: Draws of trees deviate by so much more on paths of many arms: all trees hold the same few rows of a road, and a leaf
#: with one jam among three rows seems surer than it is. Those of effects deviate by less then.
_PATH_DRAWS, _PATH_EFFECTS = 3.0, 0.25


class Blend(TreeModel):
    """(1 - w) · forest + w · z·θ: a tree model, and a ridge regression per arm whose score is a column of its features.

    linear: False, no linear model at all.
    weighted: w is what would have been best so far, each row predicted before it was learned; False, w = 0.
    without_linear: share of the trees that do not see the linear score.
    effects: arms too many for a regression each have a random effect on top.
    kernel: where there are many numbers, a kernel regression (`models/kernel_scores.py`) is blended in likewise.
    """

    _snapshot_size, has_weights = 7, True

    def __init__(
        self,
        settings: TreeSettings,
        *,
        linear: bool = True,
        weighted: bool = True,
        without_linear: float = 0.5,
        effects: bool = True,
        kernel: bool = True,
    ) -> None:
        super().__init__(settings)
        self._without_linear = without_linear
        self._linear, self._weighted, self._effects, self._kernel = linear, weighted, effects, kernel
        self.errors = np.zeros(2)
        #: The same of the kernel regression, and how many rows it has predicted.
        self.kernel_errors = np.zeros(3)

    @property
    def linear_weight(self) -> float:
        """w, the share of the linear model: Σ (r - f)(z·θ - f) / Σ (z·θ - f)², within [0, 1]."""
        return weight(self.errors)

    @property
    def kernel_weight(self) -> float:
        """v, the share of the kernel regression in the scores, found in the same way."""
        return weight(self.kernel_errors[:2])

    def _fitted_encoder(
        self, rows: Candidates, targets: Floats, random: np.random.Generator
    ) -> tuple[Encoder, Features]:
        arm_encoding = self.settings.arm_encoding
        return LinearEncoder.fit(rows, targets, arm_encoding=arm_encoding, random=random, linear=self._linear)

    def _masked(self, encoder: Encoder) -> Masked:
        scored = isinstance(encoder, LinearEncoder) and encoder.scored
        return ((encoder.width,), self._without_linear) if scored else super()._masked(encoder)

    def _fit_beside(
        self, encoder: Encoder, rows: Candidates, targets: Floats, rounds: int, snapshot: dict[str, Floats]
    ) -> Generator[float, None, UnseenArms | None]:
        assert isinstance(encoder, LinearEncoder)
        random = np.random.default_rng(len(rows))
        _, kernel_errors, first = self._snapshot("beside", snapshot)
        encoder.paths = encoder.many_arms and _long(len(rows), rounds)
        effects = self._effects and encoder.many_arms and not encoder.paths
        if effects and first[COUNT] < FEW_FIRST_ROWS:
            # There may be more when the rebuild ends: `ArmEffects.fit` then leaves this out.
            return (yield from unseen_arms(rows, targets, self.settings, linear=self._linear, random=random))
        if self._kernel and (kernel_errors[2] < _TRIAL or weight(kernel_errors[:2]) > _LEAST_WEIGHT):
            yield from encoder.fit_kernel(rows, targets, random)
        return None

    def _completed(
        self,
        encoder: Encoder,
        rows: Candidates,
        targets: Floats,
        measured: Measured,
        beside: UnseenArms | None,
        snapshot: dict[str, Floats],
    ) -> None:
        """Learn the effects of arms too many for a regression each."""
        assert isinstance(encoder, LinearEncoder)
        if rows.arms is None or not (self._effects and encoder.many_arms):
            return
        errors, _, first = self._snapshot("completed", snapshot)
        arms, w, units, counts = rows.arms, weight(errors), None, None
        if encoder.paths:
            newest, counts = _newest(arms, _NEWEST_ROWS)
            rows, arms, targets = rows[newest], arms[newest], targets[newest]
            sums = measured.leaves.leaf_sums(measured.features[newest])
            predicted, units = sums.mean, measured.leaves.deviations(sums)
        else:
            predicted = measured.predicted()
        if w > 0.0:
            _, scores, *_ = encoder.look_up(rows.contexts, arms)
            predicted += w * (scores - predicted)
        unseen = None if beside is None else (beside.arms, beside.predicted(w), beside.rewards)
        encoder.effects = ArmEffects.fit(
            arms, predicted, targets, units=units, counts=counts, first=first, unseen=unseen
        )

    def _trees(self, n: int, rounds: int) -> TreeLearner:
        trees = self.settings.trees
        if not _long(n, rounds) or not isinstance(trees, HistogramForest) or trees.bootstrap:
            return trees
        return replace(trees, subsample=min(trees.subsample, _MOST_PATH_ROWS / n))

    def _later(self, encoder: LinearEncoder, rows: Candidates) -> NDArray[np.bool_] | None:
        """Whether rows are of arms that trees and kernel do not know; None where they know all.

        To the trees such an arm is like the one beside it, so the regressions alone tell of it until the next rebuild.
        """
        return encoder.came_later(rows.arms) if self._weighted else None

    def _weights(
        self, encoder: LinearEncoder, later: NDArray[np.bool_] | None
    ) -> tuple[float | Floats, float | Floats]:
        """w and v; (n,) of each where rows are of such arms."""
        w, v = self.linear_weight, self.kernel_weight if encoder.kernel is not None else 0.0
        return (w, v) if later is None else (np.where(later, 1.0, w), np.where(later, 0.0, v))

    def _snapshot(self, step: str, snapshot: dict[str, Floats]) -> tuple[Floats, Floats, Floats]:
        """Both models' errors as a step reads them, and those on first rows of new arms; as it has, if it has."""
        if step not in snapshot:
            known = self.encoder.effects if isinstance(self.encoder, LinearEncoder) else None
            first = np.zeros(2) if known is None else known.first
            snapshot[step] = np.concatenate([self.errors, self.kernel_errors, first])
        return snapshot[step][:2], snapshot[step][2:5], snapshot[step][5:]

    def _restored_encoder(self, state: dict[str, Any]) -> Encoder:
        return LinearEncoder.from_state(state)

    def _look_up(
        self, rows: Candidates
    ) -> tuple[LeafStatistics, LinearEncoder, Features, Floats, Floats, Floats]:
        """Leaves and encoder, and features, linear score, leverage and rows of its arm for each row."""
        if self.leaves is None or not isinstance(self.encoder, LinearEncoder):
            raise self._no_trees_yet()
        return self.leaves, self.encoder, *self.encoder.look_up(rows.contexts, rows.arms)

    def prepared_update(self, fit: Fit, rows: Candidates, rewards: Floats, *, weighed: bool = True) -> Commit:
        """Let rows change leaves, regressions and effects; weighed: and all weights, by what each predicted."""
        encoder, targets = fit.encoder, fit.scale.standardised(rewards)
        assert isinstance(encoder, LinearEncoder)
        features, scores, learn = encoder.scored_update(rows, targets)
        if (later := self._later(encoder, rows)) is not None:
            rows, features, scores, targets = rows[~later], features[~later], scores[~later], targets[~later]
        update = fit.leaves.prepared_update(features, targets)
        kernel = encoder.kernel_scores(rows) if weighed and encoder.kernel is not None else None
        before, kernel_before, w = self.errors, self.kernel_errors, 0.0
        predicted, change = update.predicted, None
        if kernel is not None or encoder.effects is not None:
            predicted, w = np.empty(len(targets)), self.linear_weight
        if encoder.effects is not None and rows.arms is not None:
            units = _units(fit.leaves, encoder, features)
            change = encoder.effects.prepared_update(
                rows.arms, predicted, targets, units=units, new_rows=weighed
            )

        def commit() -> None:
            update()
            # All from what was before, so that this may be repeated.
            if learn is not None:
                if self._weighted and weighed:
                    self.errors = compared(before, update.predicted, scores, targets)
                learn()
            if predicted is not update.predicted:
                predicted[:] = update.predicted + w * (scores - update.predicted)
            if kernel is not None:
                self.kernel_errors = with_kernel(kernel_before, predicted, kernel, targets)
            if change is not None:
                change()

        return commit

    def prequential_weights(self, rows: Candidates, rewards: Floats) -> dict[str, Any]:
        """Both sums of `weight`, once the present fit has predicted these rows."""
        leaves, encoder, features, scores, *_ = self._look_up(rows)
        targets, predicted = self.scale.standardised(rewards), leaves.estimate(features).mean
        if (later := self._later(encoder, rows)) is not None:
            rows, predicted, scores, targets = (
                rows[~later],
                predicted[~later],
                scores[~later],
                targets[~later],
            )
        errors, kernel_errors = self.errors, self.kernel_errors
        if self._weighted and encoder.ridge is not None:
            errors = compared(errors, predicted, scores, targets)
        if encoder.kernel is not None:
            blended = predicted + weight(errors) * (scores - predicted)
            kernel_errors = with_kernel(kernel_errors, blended, encoder.kernel_scores(rows), targets)
        return {"errors": errors, "kernel_errors": kernel_errors}

    def estimate(self, rows: Candidates) -> Estimate:
        """Mean of forest and linear model by their weights plus the arm's effect, and the variance that follows."""
        leaves, encoder, features, scores, leverage, counts = self._look_up(rows)
        sums, later = leaves.leaf_sums(features), self._later(encoder, rows)
        trees, (w, v) = leaves.calibrated(sums), self._weights(encoder, later)
        mean, variance = trees.mean, trees.variance
        if encoder.ridge is not None:
            variance = (1.0 - w) ** 2 * variance + (w * encoder.ridge.reward_sd) ** 2 * leverage
            mean = mean + w * (scores - mean)
        if encoder.kernel is not None and np.any(v):
            kernel, kernel_leverage = encoder.kernel_look_up(rows)
            mean = mean + v * (kernel - mean)
            variance = (1.0 - v) ** 2 * variance + (v * encoder.kernel.reward_sd) ** 2 * kernel_leverage
        if encoder.effects is not None and encoder.effects.active and rows.arms is not None:
            units = leaves.deviations(sums) if encoder.paths else None
            effect, effect_variance = encoder.effects.estimate(rows.arms, mean, units=units)
            mean, variance = mean + effect, variance + effect_variance
        count = trees.count if later is None else np.where(later, counts, trees.count)
        return self.scale.original(Estimate(mean, variance, count))

    def attribution(self, rows: Candidates) -> Attribution:
        """What columns and arm add to the mean of each row, by the forest and by the linear model."""
        trees = super().attribution(rows)
        leaves, encoder, features, scores, *_ = self._look_up(rows)
        scale, found = self.scale, trees
        w, v = self._weights(encoder, self._later(encoder, rows))
        if encoder.ridge is not None:
            linear = encoder.attribution(rows.contexts, rows.arms)
            linear = linear._replace(linear_model=scores - linear.mean)
            found = trees.scaled(1.0 - w).plus(linear.scaled(w * scale.deviation, w * scale.mean))
        if encoder.kernel is not None and np.any(v):
            kernel = encoder.kernel_attribution(rows).scaled(v * scale.deviation, v * scale.mean)
            found = found.scaled(1.0 - v).plus(kernel)
        if encoder.effects is not None and encoder.effects.active and rows.arms is not None:
            predicted, units = scale.standardised(found.mean), _units(leaves, encoder, features)
            effect, _ = encoder.effects.estimate(rows.arms, predicted, units=units)
            found = found._replace(arm=found.arm + scale.deviation * effect)
        return found

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
        """Draws as in `sample`, with bonuses for rows that the arm's regression knows little of: (draws, n).

        Arms that were never tried and that one tree, drawn each time, cannot tell apart share the draw of their effect.

        Regressions extrapolate; what they say counts as the least reward seen where it is below. Else an arm that is
        thought to pay far less than nothing would never be tried beside one that pays nothing.

        bonus: multiplies √(h / (1 + h)) with h = z'A⁻¹z the leverage, in the unit of `LinearEncoder.bonus_of`; and
            √(ln(m / n) / n) where the arm has only n = width (1 + h) / h rows like this one, m a quarter of an arm's
            share of all rows (after MOSS, Audibert and Bubeck 2009): an arm that failed in its first trials is tried
            again. The unit is a standard deviation of the rewards, or by how much the best candidate falls short of
            the greatest reward seen, whichever is less. The kernel regression has a leverage of its own.
        boost: where even the best candidate of a draw falls short of the mean reward by more than a standard deviation,
            the bonus is multiplied by the square of that shortfall: a round that seems lost costs little to explore.
        """
        leaves, encoder, features, scores, leverage, counts = self._look_up(rows)
        samples, units = _drawn(leaves, features, draws, random, scale=scale, paths=encoder.paths)
        effects, later = encoder.effects, self._later(encoder, rows)
        w, v = self._weights(encoder, later)
        if later is not None and encoder.ridge is not None:
            scores = np.maximum(scores, self.scale.least)
            samples += w * (scores - samples)
            noise, h = random.standard_normal((draws, np.count_nonzero(later))), leverage[later]
            samples[:, later] += _LATER * scale * encoder.ridge.reward_sd * np.sqrt(h / (1.0 + h)) * noise
            w = 0.0
        if effects is not None or encoder.kernel is not None:
            scores = np.maximum(scores, self.scale.least)
        if effects is not None and effects.active and rows.arms is not None:
            samples += w * (scores - samples)
            tree = int(random.integers(leaves.forest.n_trees))
            groups = leaves.find_leaves_of(tree, features)
            share = scale * (_PATH_EFFECTS if encoder.paths else _EFFECTS)
            samples += effects.sample(
                rows.arms, samples, draws, random, scale=share, groups=groups, units=units
            )
            w = 0.0
        if encoder.kernel is not None and np.any(v):
            samples += w * (scores - samples)
            kernel, g = encoder.kernel_look_up(rows)
            samples += v * (np.maximum(kernel, self.scale.least) - samples)
            samples += v * _KERNEL_BONUS * bonus * encoder.kernel.reward_sd * np.sqrt(g / (1.0 + g))
            w = 0.0
        if encoder.ridge is not None:
            mean, deviation = encoder.ridge.reward_moments
            bonuses = bonus * encoder.bonus_of(deviation), float(bonus), *encoder.few_rows
            if rows.arms is not None:
                counts = encoder.rows_known(rows.arms, counts)
            rewards = mean if boost else -math.inf, deviation, self.scale.greatest
            unit = self.scale.mean, self.scale.deviation, self.scale.least
            blend_kernels.explore(samples, scores, (leverage, counts), w, bonuses, rewards, unit)
            return samples
        return self.scale.mean + self.scale.deviation * samples

    def state(self, *, history: bool = True) -> dict[str, Any]:
        """All that is needed to go on elsewhere; without history, to estimate and sample."""
        return {
            **super().state(history=history),
            "errors": self.errors,
            "kernel_errors": self.kernel_errors,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Take up what `state` gave."""
        super().restore(state)
        for seen in () if self.rebuild is None else self.rebuild.snapshot.values():
            if (seen[[1, 3, 4, 5, 6]] < 0.0).any():  # the others are sums of products
                raise schema.refused("what a rebuild has read", seen, "counts and sums of squares")
        self.errors = schema.array(state, "errors", np.float64, (2,))
        self.kernel_errors = schema.array(state, "kernel_errors", np.float64, (3,))


def _long(n: int, rounds: int) -> bool:
    """Whether n rows of so many rounds are paths."""
    return n > _LONG_SETS * rounds


def _newest(arms: Indices, most: int) -> tuple[Indices, Indices]:
    """Of each arm the newest rows of (n,), at most so many; and how many rows the arm of each of them has."""
    order = np.argsort(arms, kind="stable")
    _, first, count = np.unique(arms[order], return_index=True, return_counts=True)
    counts = np.repeat(count, count)
    newest = np.arange(len(arms)) >= np.repeat(first, count) + counts - most
    return order[newest], counts[newest]


def _units(leaves: LeafStatistics, encoder: LinearEncoder, features: Features) -> Floats | None:
    """How far rewards deviate in the leaves that rows reach, (n,), which is the unit of effects on paths."""
    return leaves.deviations(leaves.leaf_sums(features)) if encoder.paths else None


def _drawn(
    leaves: LeafStatistics,
    features: Features,
    draws: int,
    random: np.random.Generator,
    *,
    scale: float,
    paths: bool,
) -> tuple[Floats, Floats | None]:
    """Draws of what the trees say of (n,) rows, (draws, n); on paths, and the rows' units.

    Each row of a path then has a draw of its own: the leaves are looked up once for draws and units.
    """
    if not paths:
        return leaves.sample(features, draws=draws, exploration=scale, key=draw_key(random)), None
    sums = leaves.leaf_sums(features)
    trees = leaves.calibrated(sums)
    deviation = _PATH_DRAWS * scale * np.sqrt(trees.variance)
    noise = random.standard_normal((draws, len(features)))
    return trees.mean + deviation * noise, leaves.deviations(sums)
