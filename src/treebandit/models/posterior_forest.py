"""Draws from the posterior of Bayesian additive regression trees, one posterior per arm, made anew as rows come."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from treebandit import schema
from treebandit.core import Candidates, Estimate, Floats, Random
from treebandit.errors import NotFittedError, SavedFileError
from treebandit.features.encoding import CategoryEncoding, Encoder
from treebandit.features.reward_scale import RewardScale
from treebandit.models.history import HistoryModel
from treebandit.models.model import arms_of, copy_of
from treebandit.trees.bart import MIN_SAMPLES_LEAF, PosteriorSettings, predictions, sample_posterior
from treebandit.trees.forest import Forest


@dataclass(frozen=True, slots=True, eq=False)
class _Arm:
    """The draws of one arm, in units of its scale, and the level of the schedule at which they were made."""

    level: int
    scale: RewardScale
    encoder: Encoder
    forest: Forest


class PosteriorForestModel(HistoryModel):
    """Rows learned so far, and per arm the ensembles drawn from the posterior that its rows gave at its last rebuild.

    In between, rows are only kept. Of an arm with too few rows for a tree nothing is known but the scale of all
    rewards: its draws are normal ones of their mean and standard deviation.
    """

    def __init__(self, posterior: PosteriorSettings, *, rebuild: str, categories: CategoryEncoding) -> None:
        super().__init__(rebuild)
        self.posterior, self._categories = posterior, categories
        self._arms: dict[int, _Arm] = {}

    @property
    def fitted(self) -> bool:
        """Whether any arm has draws yet."""
        return bool(self._arms)

    def _learn(
        self, rows: Candidates, rewards: Floats, *, t: int, random: Random, started: bool
    ) -> Random | None:
        """The posterior of an arm is sampled anew where it is time, by the number of its own rows."""
        self.history = history = self.history.appended(rows, rewards)
        if not started:
            return None
        began, drawn, arms = time.perf_counter(), copy_of(random), dict(self._arms)
        known = history.rows(rows.columns)
        labels = arms_of(known)
        for label in np.unique(arms_of(rows) if arms else labels).tolist():
            own = np.flatnonzero(labels == label)
            level, arm = self._schedule.level(len(own)), arms.get(label)
            current = arm is not None and level <= arm.level and arm.scale.fits(rewards)
            if len(own) > 2 * MIN_SAMPLES_LEAF and not current:
                arms[label] = self._sampled(known, history.rewards, own, level, int(drawn.integers(2**31)))
        if arms != self._arms:
            self._arms, self.scale = arms, RewardScale.of(history.rewards)
        self.rebuild_seconds += time.perf_counter() - began
        return drawn

    def _sampled(self, rows: Candidates, rewards: Floats, own: Any, level: int, seed: int) -> _Arm:
        """The posterior of the arm whose rows are `own`."""
        encoder = Encoder(rows.columns, None, arm_encoding="none", categories=self._categories)
        scale = RewardScale.of(rewards[own])
        features, targets = encoder(rows.contexts[own], None), scale.standardised(rewards[own])
        return _Arm(level, scale, encoder, sample_posterior(features, targets, self.posterior, seed=seed))

    def sample(self, rows: Candidates, draws: int, random: Random, *, scale: float = 1.0) -> Floats:
        """What an ensemble of the arm, picked at random, expects of its rows, `draws` times: (draws, n)."""
        samples = np.empty((draws, len(rows)))
        for label, places in self._places(rows).items():
            found = self._predictions(label, rows, places)
            if found is None:
                samples[:, places] = self.scale.mean
                samples[:, places] += scale * self.scale.deviation * random.standard_normal((draws, 1))
            else:
                mean = found.mean(0)
                samples[:, places] = mean + scale * (found[random.integers(len(found), size=draws)] - mean)
        return samples

    def estimate(self, rows: Candidates) -> Estimate:
        """Mean and variance over the draws, and the rows of the arm."""
        mean = np.full(len(rows), self.scale.mean)
        variance = np.full(len(rows), self.scale.deviation**2)
        for label, places in self._places(rows).items():
            if (found := self._predictions(label, rows, places)) is not None:
                mean[places], variance[places] = found.mean(0), found.var(0)
        return Estimate(mean, variance, self.history.counts(arms_of(rows)))

    def _places(self, rows: Candidates) -> dict[int, Any]:
        if not self._arms:
            raise NotFittedError(
                f"no trees yet after {len(self.history)} rows; an arm needs more than {2 * MIN_SAMPLES_LEAF}"
            )
        labels = arms_of(rows)
        return {label: np.flatnonzero(labels == label) for label in np.unique(labels).tolist()}

    def _predictions(self, label: int, rows: Candidates, places: Any) -> Floats | None:
        """What each draw of an arm expects of its rows, (draws, rows); None where it has none."""
        arm = self._arms.get(label)
        if arm is None:
            return None
        features = arm.encoder(rows.contexts[places], None)
        found = predictions(arm.forest, features, self.posterior.draws)
        return arm.scale.mean + arm.scale.deviation * found

    def state(self, *, history: bool = True) -> dict[str, Any]:
        """All that is needed to go on elsewhere; without history, to estimate and sample."""
        return {
            **super().state(history=history),
            "arms": [
                {
                    "arm": label,
                    "level": arm.level,
                    "scale": arm.scale.state(),
                    "encoder": arm.encoder.state(),
                    "forest": arm.forest.state(),
                }
                for label, arm in self._arms.items()
            ],
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Take up what `state` gave."""
        super().restore(state)
        for saved in schema.items(state, "arms", most=len(self.history)):
            label = schema.whole(saved, "arm", least=-schema.LARGEST_LABEL, most=schema.LARGEST_LABEL)
            encoder = Encoder.restored(schema.part(saved, "encoder"), categories=self._categories)
            forest = Forest.restored(schema.part(saved, "forest"))
            if (
                forest.n_features != encoder.width
                or forest.n_trees != self.posterior.draws * self.posterior.n_trees
            ):
                raise SavedFileError("the saved trees do not have the features that rows are encoded as")
            rewards = self.history.rewards
            own = rewards if self.history.arms is None else rewards[self.history.arms == label]
            scale = RewardScale.restored(schema.value(saved, "scale"), own)
            self._arms[label] = _Arm(schema.whole(saved, "level"), scale, encoder, forest)
