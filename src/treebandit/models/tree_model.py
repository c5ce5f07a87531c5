"""One tree ensemble for all arms, rebuilt as rows come, its leaves telling how sure it is (paper, Algorithm 1)."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from treebandit import schema
from treebandit.core import Candidates, Estimate, Features, Floats
from treebandit.errors import NotFittedError, ParameterError, SavedFileError
from treebandit.features.encoding import ArmEncoding, CategoryEncoding, Encoder, check_encoding
from treebandit.features.reward_scale import RewardScale
from treebandit.models.history import History
from treebandit.models.model import Commit, copy_of
from treebandit.models.schedule import Schedule
from treebandit.trees.forest import Forest, GroupedTreeLearner, Masked, TreeLearner
from treebandit.trees.leaf_statistics import LeafOutput, LeafStatistics
from treebandit.trees.limits import check_learner

StatisticsFrom = Literal["all", "held_out", "out_of_bag"]


@dataclass(frozen=True, slots=True)
class TreeSettings:
    """What a tree model is made of; the arguments of the agents that have one, under the same names."""

    trees: TreeLearner
    rebuild: str = "8 ln t"
    arm_encoding: ArmEncoding = "auto"
    categories: CategoryEncoding = "codes"
    leaf_output: LeafOutput = "library"
    statistics: StatisticsFrom = "all"
    held_out_share: float = 0.5
    prior_rows: float = 0.0
    standardise: bool = True

    def __post_init__(self) -> None:
        check_encoding(self.arm_encoding, self.categories)
        choices = {
            "leaf_output": ("library", "average"),
            "statistics": ("all", "held_out", "out_of_bag"),
            "standardise": (True, False),
        }
        for name, allowed in choices.items():
            if getattr(self, name) not in allowed:
                raise ParameterError(
                    f"{name}={getattr(self, name)!r}; choose one of {', '.join(map(str, allowed))}"
                )
        if not 0 < self.held_out_share < 1:
            raise ParameterError(f"held_out_share={self.held_out_share!r}; expected a share between 0 and 1")
        if not (self.prior_rows >= 0 and math.isfinite(self.prior_rows)):
            raise ParameterError(f"prior_rows={self.prior_rows!r}; expected a number of at least 0")
        check_learner(self.trees)


class TreeModel:
    """Rows learned so far, the ensemble that was fitted to them last, and the statistics of its leaves.

    Whenever the schedule's level has grown, the ensemble is fitted anew to all rows; in between, rows change the
    leaves they reach.
    """

    def __init__(self, settings: TreeSettings) -> None:
        self.settings = settings
        self._schedule = Schedule.parse(settings.rebuild)
        self.history = History()
        self.leaves: LeafStatistics | None = None
        self.scale = RewardScale()
        self.encoder: Encoder | None = None
        self.level = 0
        #: Wall seconds spent fitting so far.
        self.rebuild_seconds = 0.0

    @property
    def fitted(self) -> bool:
        """Whether there are trees yet."""
        return self.leaves is not None

    def prepared(
        self, rows: Candidates, rewards: Floats, *, t: int, random: np.random.Generator, started: bool = True
    ) -> Commit:
        """Rows to learn; the trees are fitted anew where it is time (Algorithm 1, lines 5-11)."""
        history = self.history.appended(rows, rewards)
        level = self._schedule.level(t + 1)
        if self.leaves is None:
            due = started and len(history) >= 2
        else:
            due = level > self.level or not self.scale.fits(rewards)
        if due:
            return self._rebuilt(history, rows, random, level)
        if self.leaves is None:
            return lambda: setattr(self, "history", history)
        update = self._prepared_update(rows, self.scale.standardised(rewards))

        def commit() -> None:
            update()
            self.history = history

        return commit

    def _prepared_update(self, rows: Candidates, targets: Floats) -> Commit:
        """Let rows change the leaves they reach, between rebuilds."""
        leaves, features = self._encoded(rows)
        return leaves.prepared_update(features, targets)

    def _rebuilt(
        self, history: History, newest: Candidates, random: np.random.Generator, level: int
    ) -> Commit:
        """Fit the ensemble to all rows and set the leaf values (Algorithm 1, line 7)."""
        started = time.perf_counter()
        drawn = copy_of(random)
        scale = RewardScale.of(history.rewards) if self.settings.standardise else RewardScale()
        targets = scale.standardised(history.rewards)
        rows = history.rows(newest.columns)
        encoder, features = self._fitted_encoder(rows, targets, drawn)
        leaves = self._measured(encoder, features, targets, drawn)
        self._completed(encoder, leaves, rows, features, targets)
        seconds = self.rebuild_seconds + time.perf_counter() - started

        def commit() -> None:
            self.history, self.leaves, self.scale, self.encoder = history, leaves, scale, encoder
            self.level, self.rebuild_seconds = level, seconds
            random.bit_generator.state = drawn.bit_generator.state

        return commit

    def _fitted_encoder(
        self, rows: Candidates, targets: Floats, random: np.random.Generator
    ) -> tuple[Encoder, Features]:
        """How rows enter the trees from now on, and the (n, width) features of these rows."""
        settings = self.settings
        encoder = Encoder(
            rows.columns, rows.arms, arm_encoding=settings.arm_encoding, categories=settings.categories
        )
        return encoder, encoder(rows.contexts, rows.arms)

    def _completed(
        self, encoder: Encoder, leaves: LeafStatistics, rows: Candidates, features: Features, targets: Floats
    ) -> None:
        """What else is learned from the rows of a rebuild, kept with the encoder."""

    def _restored_encoder(self, state: dict[str, Any]) -> Encoder:
        return Encoder.restored(state, categories=self.settings.categories)

    def _grown(self, encoder: Encoder, features: Features, targets: Floats, seed: int) -> Forest:
        """Trees on these rows; a learner that can use it is told which features are one category's."""
        trees = self.settings.trees
        if isinstance(trees, GroupedTreeLearner):
            groups, masked = encoder.column_groups, self._masked(encoder)
            return trees.fit(features, targets, seed=seed, column_groups=groups, masked=masked)
        return trees.fit(features, targets, seed=seed)

    def _masked(self, encoder: Encoder) -> Masked:
        """Features, and the share of the trees that may not see them."""
        return (), 0.0

    def _measured(
        self, encoder: Encoder, features: Features, targets: Floats, random: np.random.Generator
    ) -> LeafStatistics:
        settings, seed = self.settings, int(random.integers(2**31 - 1))
        if settings.statistics == "held_out" and len(targets) >= 4:
            order = random.permutation(len(targets))
            cut = min(max(round(len(targets) * settings.held_out_share), 1), len(targets) - 2)
            held, grown = np.sort(order[:cut]), np.sort(order[cut:])
            forest = self._grown(encoder, features[grown], targets[grown], seed)
            features, targets = features[held], targets[held]
        else:
            forest = self._grown(encoder, features, targets, seed)
        return LeafStatistics.measure(
            forest,
            features,
            targets,
            output=settings.leaf_output,
            out_of_bag=settings.statistics == "out_of_bag",
            prior_rows=settings.prior_rows,
        )

    def _encoded(self, rows: Candidates) -> tuple[LeafStatistics, Features]:
        if self.leaves is None or self.encoder is None:
            raise NotFittedError(
                f"no trees yet after {len(self.history)} rows; learn more before asking for an estimate"
            )
        return self.leaves, self.encoder(rows.contexts, rows.arms)

    def estimate(self, rows: Candidates) -> Estimate:
        """Sums over the leaves that each row reaches (Algorithm 1, lines 14-18)."""
        leaves, features = self._encoded(rows)
        return self.scale.original(leaves.estimate(features))

    def sample(
        self, rows: Candidates, draws: int, random: np.random.Generator, *, scale: float = 1.0
    ) -> Floats:
        """Joint draws, (draws, n): each leaf's output is drawn, so rows in one leaf share its draw."""
        leaves, features = self._encoded(rows)
        key = int(random.integers(2**63))
        samples = leaves.sample(features, draws=draws, exploration=scale, key=key)
        return self.scale.mean + self.scale.deviation * samples

    def state(self, *, history: bool = True) -> dict[str, Any]:
        """All that is needed to go on elsewhere; without history, to estimate and sample."""
        state: dict[str, Any] = {
            "history": self.history.state(history=history),
            "level": self.level,
            "rebuild_seconds": self.rebuild_seconds,
            "scale": self.scale.state(),
            "leaves": None,
        }
        if self.leaves is not None and self.encoder is not None:
            state["leaves"] = {**self.leaves.state(history=history), "encoder": self.encoder.state()}
        return state

    def restore(self, state: dict[str, Any]) -> None:
        """Take up what `state` gave."""
        self.history = History.restored(schema.part(state, "history"))
        self.level = schema.whole(state, "level")
        self.rebuild_seconds = schema.number(state, "rebuild_seconds", least=0.0)
        self.scale = RewardScale.restored(schema.value(state, "scale"), self.history.rewards)
        saved = schema.optional(state, "leaves")
        if saved is None:
            return
        self.encoder = self._restored_encoder(schema.part(saved, "encoder"))
        self.leaves = LeafStatistics.restored(saved, prior_rows=self.settings.prior_rows)
        columns = self.encoder.columns
        row = Candidates(np.zeros((1, len(columns)), np.float32), np.zeros(1, np.intp), columns)
        if len(self.history) < 2 or self._encoded(row)[1].shape[1] != self.leaves.forest.n_features:
            raise SavedFileError("the saved trees do not have the features that rows are encoded as")
