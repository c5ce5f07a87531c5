"""Per arm, tree models on bootstrap samples of the arm's own rows (Elmachtoub et al., 2017)."""

from __future__ import annotations

import time
from copy import copy
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from treebandit import schema
from treebandit.core import Candidates, Columns, Estimate, Features, Floats, Random
from treebandit.errors import NotFittedError, SavedFileError
from treebandit.features.encoding import CategoryEncoding, Encoder
from treebandit.features.reward_scale import RewardScale
from treebandit.models.history import HistoryModel
from treebandit.models.model import arms_of, copy_of
from treebandit.parameters import check_number
from treebandit.trees.bootstrap_paths import BinnedRows, PathLearner, PathLimits, RankedRows
from treebandit.trees.forest import Forest, TreeLearner
from treebandit.trees.growing import grow
from treebandit.trees.limits import check_learner

#: Up to as many rows of one arm, growing a path for each is cheaper than growing whole trees.
_FEW_ROWS = 4
_RESCALE_GROWTH = 1.125
#: Encoded rows of a saved history take at most 8 GiB.
_MOST_CELLS = 1 << 31


@dataclass(frozen=True, slots=True)
class BootstrapSettings:
    """What the model is made of; the arguments of TreeBootstrap under the same names."""

    trees: TreeLearner
    mode: Literal["exact", "replicates"] = "exact"
    replicates: int = 10
    rebuild: str = "8 ln t"
    optimistic_reward: float | None = None
    constant_rewards: Literal["drawn", "trusted"] = "drawn"
    categories: CategoryEncoding = "codes"
    standardise: bool = True

    def __post_init__(self) -> None:
        check_number("replicates", self.replicates, least=1, whole=True)
        check_number("optimistic_reward", self.optimistic_reward, optional=True)
        check_learner(self.trees)


class _Arm:
    """Rows of one arm, and the models fitted to them last."""

    __slots__ = ("constant", "forests", "level", "rows", "scale", "varied")

    def __init__(self, rows: Any) -> None:
        #: BootstrapRows, or what is known of rows that were not saved.
        self.rows = rows
        #: The models, and the scale of the rewards they were fitted to.
        self.forests: list[Forest] = []
        self.scale = RewardScale()
        self.level = 0
        #: Whether all rows have the same reward, and whether the models know different ones.
        self.constant, self.varied = True, False

    def appended(self, features: Features, targets: Floats) -> _Arm:
        """This arm with more rows; this one stays as it is."""
        arm = copy(self)
        arm.rows = self.rows.appended(features, targets)
        arm.constant = self.constant and bool((targets == arm.rows.targets[0]).all())
        return arm


class BootstrapModel(HistoryModel):
    """One tree model per arm and draw, fitted to a bootstrap sample of the arm's rows.

    In exact mode a draw fits new models; otherwise it takes one of `replicates` models per arm, fitted by the schedule
    of the arm's own rows, so that a wrong model of a rare arm does not stay for long; and at once when an arm pays
    something new after always the same.
    """

    def __init__(self, settings: BootstrapSettings) -> None:
        super().__init__(settings.rebuild, standardise=settings.standardise)
        self.settings, self._scaled_rows = settings, 0
        self._encoder: Encoder | None = None
        self.arms: dict[int, _Arm] = {}
        #: Greatest reward and variance of the rewards, where the rows themselves are gone.
        self._moments: tuple[float, float] | None = None

    @property
    def fitted(self) -> bool:
        """Whether any row was learned."""
        return bool(self.arms)

    def _learn(
        self, rows: Candidates, rewards: Floats, *, t: int, random: Random, started: bool
    ) -> Random | None:
        """Each row joins its arm's, and replicates are fitted anew where it is time."""
        self.history = self.history.appended(rows, rewards)
        self._add(rows, rewards)
        if not started or self.settings.mode == "exact":
            return None
        drawn = copy_of(random)
        self._renew_replicates(rewards, drawn)
        return drawn

    def _add(self, rows: Candidates, rewards: Floats) -> None:
        """Give each row to its arm; all rows anew where columns have gained categories or rewards a new scale.

        Replicates have scales of their own, so their rows keep the rewards as they came.
        """
        history = self.history
        grown = len(history) >= _RESCALE_GROWTH * self._scaled_rows or not self.scale.fits(rewards)
        rescale = grown and self.settings.standardise and self.settings.mode == "exact"
        if rescale:
            self.scale, self._scaled_rows = RewardScale.of(history.rewards), len(history)
        if rescale or self._encoder is None or self._encoder.columns.categories != rows.columns.categories:
            self._share_out(rows.columns)
        else:
            self.arms = self._with_rows(self.arms, rows, self.scale.standardised(rewards))

    def _share_out(self, columns: Columns) -> None:
        """Give the whole history to new arms."""
        self._encoder = Encoder(columns, None, arm_encoding="none", categories=self.settings.categories)
        targets = self.scale.standardised(self.history.rewards)
        self.arms = self._with_rows({}, self.history.rows(columns), targets)

    def _restore_without_rows(self, state: dict[str, Any]) -> None:
        """Arms whose replicates are all that is left of them."""
        if schema.value(state, "rewards") is None:
            return
        moments = dict(zip(("greatest", "variance"), schema.items(state, "rewards", most=2), strict=True))
        self._moments = schema.number(moments, "greatest"), schema.number(moments, "variance", least=0.0)
        columns = schema.columns([], state["categories"])
        self._encoder = Encoder(columns, None, arm_encoding="none", categories=self.settings.categories)
        for saved in schema.items(state, "models"):
            label = schema.whole(saved, "arm", least=-schema.LARGEST_LABEL, most=schema.LARGEST_LABEL)
            names = ("length", "reward", "constant")
            rows = dict(zip(names, schema.items(saved, "rows", most=3), strict=True))
            gone = _Gone(schema.whole(rows, "length", least=1), schema.number(rows, "reward"))
            arm = self.arms[label] = _Arm(gone)
            arm.constant = schema.flag(rows, "constant")
            if self.settings.mode == "exact" or not schema.items(saved, "forests"):
                raise SavedFileError(f"arm {label} has neither rows nor models")

    def _with_rows(self, arms: dict[int, _Arm], rows: Candidates, targets: Floats) -> dict[int, _Arm]:
        features = self._encoded(rows)
        width = features.shape[1]
        trees = self.settings.trees
        single = isinstance(trees, PathLearner) and trees.path_limits(width).n_trees == 1
        arms = dict(arms)
        for label, places in _rows_by_arm(rows).items():
            arm = arms.get(label) or _Arm(RankedRows(width) if single else BinnedRows(width))
            arms[label] = arm.appended(features[places], targets[places])
        return arms

    def _renew_replicates(self, rewards: Floats, random: Random) -> None:
        """Fit the replicates of the arms whose rows have grown enough, and at once those of new arms.

        Those of all arms, where rewards that were learned last need another scale.
        """
        began = time.perf_counter()
        scale = self._scale_of(self.history)
        for label, arm in self.arms.items():
            grown = self._schedule.level(len(arm.rows)) > arm.level
            if not arm.forests or grown or arm.varied == arm.constant or not arm.scale.holds(rewards):
                self.arms = {**self.arms, label: self._renewed(arm, random, scale)}
        self.rebuild_seconds += time.perf_counter() - began

    def _renewed(self, arm: _Arm, random: Random, scale: RewardScale) -> _Arm:
        """This arm with replicates fitted to its rows; this one stays as it is."""
        renewed = copy(arm)
        renewed.forests = [self._fit(arm, random, scale) for _ in range(self.settings.replicates)]
        renewed.level = self._schedule.level(len(arm.rows))
        renewed.varied, renewed.scale = not arm.constant, scale
        return renewed

    def _arms_with_replicates(self) -> dict[int, _Arm]:
        """All arms, those that have no replicates yet with some of their own; the same for the same rows learned."""
        if all(arm.forests for arm in self.arms.values()):
            return self.arms
        random, scale = np.random.default_rng(len(self.history)), self._scale_of(self.history)
        return {
            label: arm if arm.forests else self._renewed(arm, random, scale)
            for label, arm in self.arms.items()
        }

    def _fit(self, arm: _Arm, random: Random, scale: RewardScale) -> Forest:
        """A model on a bootstrap sample of the arm's rows, in units of the scale."""
        sample = random.integers(len(arm.rows), size=len(arm.rows))
        features = np.ascontiguousarray(arm.rows.features[sample])
        seed = int(random.integers(2**31 - 1))
        return grow(self.settings.trees, features, scale.standardised(arm.rows.targets[sample]), seed=seed)

    def _encoded(self, rows: Candidates) -> Features:
        assert self._encoder is not None
        return self._encoder(rows.contexts, None)

    def _optimism(self) -> float:
        """What an arm without rows is expected to pay, in units of the scale."""
        best = self.settings.optimistic_reward
        reward = self._reward_moments()[0] if best is None else float(best)
        return (reward - self.scale.mean) / self.scale.deviation

    def _reward_moments(self) -> tuple[float, float]:
        """The greatest reward learned, and the variance of all."""
        if self._moments is not None:
            return self._moments
        return float(self.history.rewards.max()), float(self.history.rewards.var())

    def sample(self, rows: Candidates, draws: int, random: Random, *, scale: float = 1.0) -> Floats:
        """What one bootstrap model per arm predicts for its rows, `draws` times: (draws, n)."""
        features, groups = self._encoded(rows), _rows_by_arm(rows)
        trees, optimism = self.settings.trees, self._optimism()
        limits = trees.path_limits(features.shape[1]) if isinstance(trees, PathLearner) else None
        samples = np.full((draws, len(rows)), optimism)
        for draw in samples:
            for label, places in groups.items():
                if (arm := self.arms.get(label)) is not None:
                    draw[places] = self._drawn(arm, features[places], random, limits, optimism)
        samples = self.scale.mean + self.scale.deviation * samples
        if scale != 1.0:
            mean = self.estimate(rows).mean
            samples = mean + scale * (samples - mean)
        return samples

    def _drawn(
        self, arm: _Arm, features: Features, random: Random, limits: PathLimits | None, optimism: float
    ) -> Floats:
        """What one bootstrap model of the arm predicts for each row: (n,); limits: where paths can be grown alone."""
        if self.settings.constant_rewards == "drawn" and arm.constant:
            # All bootstrap samples agree; a uniform prior leaves this much to the chance of a better reward.
            reward = float(arm.rows.targets[0])
            better = max(optimism - reward, 0.0)
            return np.full(len(features), reward + better * random.beta(1.0, len(arm.rows)))
        if arm.forests:
            predicted = arm.forests[random.integers(len(arm.forests))].predict(features)
            return arm.scale.mean + arm.scale.deviation * predicted
        if limits is not None and len(features) <= _FEW_ROWS:
            seed = int(random.integers(2**63))
            return np.array([arm.rows.predict_bootstrap(row, limits, seed=seed) for row in features])
        return self._fit(arm, random, RewardScale()).predict(features)

    def estimate(self, rows: Candidates) -> Estimate:
        """Mean and variance over `replicates` bootstrap models; the same for the same rows learned."""
        if not self.arms:
            raise NotFittedError("no rows learned yet; learn some before asking for an estimate")
        random = np.random.default_rng(len(self.history))
        samples = self.sample(rows, self.settings.replicates, random)
        mean, variance, count = samples.mean(0), samples.var(0), np.zeros(len(rows))
        for label, places in _rows_by_arm(rows).items():
            if label in self.arms:
                count[places] = len(self.arms[label].rows)
        variance[count == 0] = self._reward_moments()[1]
        return Estimate(mean, variance, count)

    def state(self, *, history: bool = True) -> dict[str, Any]:
        """All that is needed to go on elsewhere; without history, to estimate and sample from replicates.

        Arms get their first replicates at the end of the random start. Without history, those that have none yet get
        them now, because later their rows are gone.
        """
        if not history and self.settings.mode == "exact":
            raise SavedFileError(
                "in exact mode it draws from its rows at every decision; save it with history=True, or make it with "
                "mode='replicates'"
            )
        arms = self.arms if history else self._arms_with_replicates()
        return {
            **super().state(history=history),
            "rewards": list(self._reward_moments()) if arms and not history else None,
            "scaled_rows": self._scaled_rows,
            "categories": None if self._encoder is None else list(self._encoder.columns.categories),
            "models": [
                {
                    "arm": label,
                    "level": arm.level,
                    "varied": arm.varied,
                    "scale": arm.scale.state(),
                    "forests": [forest.state() for forest in arm.forests],
                    "rows": None if history else [len(arm.rows), float(arm.rows.targets[0]), arm.constant],
                }
                for label, arm in arms.items()
            ],
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Take up what `state` gave."""
        super().restore(state)
        history = self.history
        self._scaled_rows = schema.whole(state, "scaled_rows", most=len(history))
        if (schema.value(state, "categories") is None) != (len(history) == 0):
            raise SavedFileError("the saved rows and their columns do not fit each other")
        if not history.whole:
            self._restore_without_rows(state)
        elif len(history):
            columns = schema.columns([], state["categories"])
            history.check(columns, history.arms is not None)
            if len(history) * sum(max(count, 1) for count in columns.categories) > _MOST_CELLS:
                raise SavedFileError(f"more than {_MOST_CELLS} cells of encoded rows")
            self._share_out(columns)
        for saved in schema.items(state, "models", most=len(self.arms)):
            arm = self.arms.get(schema.whole(saved, "arm", least=-schema.LARGEST_LABEL))
            if arm is None:
                raise SavedFileError(f"models of arm {saved['arm']} are saved without its rows")
            arm.level, arm.varied = schema.whole(saved, "level"), schema.flag(saved, "varied")
            arm.scale = RewardScale.restored(schema.value(saved, "scale"), history.rewards)
            forests = schema.items(saved, "forests", most=self.settings.replicates)
            arm.forests = [Forest.restored(members) for members in forests]
            if self._encoder is None or any(f.n_features != self._encoder.width for f in arm.forests):
                raise SavedFileError("the saved trees do not have the features that rows are encoded as")


class _Gone:
    """What is left of an arm's rows: how many there were, and the reward of the first."""

    def __init__(self, length: int, reward: float) -> None:
        self._length, self.targets = length, np.array([reward])

    def __len__(self) -> int:
        return self._length


def _rows_by_arm(candidates: Candidates) -> dict[int, list[int]]:
    """The candidates' rows under their arm's label, in the order in which labels appear."""
    groups: dict[int, list[int]] = {}
    for row, label in enumerate(arms_of(candidates).tolist()):
        groups.setdefault(label, []).append(row)
    return groups
