"""One tree ensemble for all arms, rebuilt as rows come, its leaves telling how sure it is (paper, Algorithm 1)."""

from __future__ import annotations

import time
from collections.abc import Generator
from copy import copy
from functools import partial
from typing import Any

import numpy as np

from treebandit import schema
from treebandit.core import Candidates, Columns, Estimate, Features, Floats, Indices, Random
from treebandit.errors import SavedFileError, TreebanditError
from treebandit.features.encoding import Encoder
from treebandit.models.attribution import Attribution, of_features
from treebandit.models.history import History, HistoryModel
from treebandit.models.memory import Memory
from treebandit.models.model import Commit, copy_of
from treebandit.models.prequential import Prequential, predicted_first
from treebandit.models.rebuild import Fit, Measured, Rebuild, Steps
from treebandit.models.schedule import Dropped
from treebandit.models.tree_settings import TreeSettings
from treebandit.steps import exhausted, scaled
from treebandit.trees.attribution import attributions
from treebandit.trees.calibration_fit import calibrate_steps
from treebandit.trees.forest import Forest, Masked, SteppedTreeLearner, TreeLearner
from treebandit.trees.growing import grow, grow_steps
from treebandit.trees.kernels import draw_key
from treebandit.trees.leaf_statistics import LeafStatistics, held_out

#: Share of a rebuild that is done when rows are encoded, and when the trees are grown.
_ENCODED, _GROWN = 0.1, 0.9
#: The same when the trees are grown and when they are measured, where trees of parts of the rows follow.
_BEFORE_CALIBRATION = 0.35, 0.4


class TreeModel(HistoryModel):
    """Rows learned so far, the ensemble that was fitted to them last, and the statistics of its leaves.

    Whenever the schedule's level has grown, or rows have grown far more than rounds, the ensemble is fitted anew to all
    rows that `memory` keeps; in between, rows change the leaves they reach. Where a fit would take long, it is spread
    over the next rounds, or made on a thread: until it is done the old ensemble decides and learns, and then the new
    one takes in the rows that came meanwhile.
    """

    #: How many numbers a step of a rebuild reads of the model; and whether `prequential_weights` tells anything.
    _snapshot_size, has_weights = 0, False

    def __init__(self, settings: TreeSettings) -> None:
        super().__init__(settings.rebuild, standardise=settings.standardise)
        self.settings, self._stepped = settings, isinstance(settings.trees, SteppedTreeLearner)
        self.leaves: LeafStatistics | None = None
        self.encoder: Encoder | None = None
        self.memory = Memory(settings.memory, per_arm=self._per_arm)
        self.level = 0
        self.dropped = Dropped()
        #: The rebuild that is under way.
        self.rebuild: Rebuild | None = None

    @property
    def _per_arm(self) -> bool:
        """Whether the model tells arms apart."""
        return self.settings.arm_encoding != "none"

    @property
    def fitted(self) -> bool:
        """Whether there are trees yet."""
        return self.leaves is not None

    def prepared(
        self, rows: Candidates, rewards: Floats, *, t: int, random: Random, started: bool = True
    ) -> Commit:
        """Rows to learn; the trees are fitted anew where it is time (Algorithm 1, lines 5-11)."""
        history, job = self.history.appended(rows, rewards), self.rebuild
        if not self.fitted and not (started and len(history) >= 2):
            return lambda: setattr(self, "history", history)
        prequential, dropped = predicted_first(self, history, rows, rewards, t), self.dropped
        changed = prequential.memory.alarm or not self.scale.fits(rewards)
        if self.leaves is None or self.encoder is None or changed:
            return self.rebuilt(history, prequential, rows, t, random)
        newest = self.fitted_at if job is None else job.fitted_at
        overdue = self._schedule.overdue((len(history), dropped.left(t + 1)), newest)
        level = self._schedule.level(t + 1 - dropped.by_schedule)
        if job is not None and (level > job.level or overdue) and not self.settings.background:
            job = None  # there is a newer one to make
        drawn = random
        if job is None and (level > self.level or overdue):
            before, (history, dropped, level) = history, self._kept(history, prequential.memory, t)
            drawn, since = copy_of(random), max(len(history) - len(rewards), 0) if overdue else None
            seed, rounds = int(drawn.integers(2**63)), dropped.left(t + 1)
            job = Rebuild(history, rows.columns, rounds=rounds, level=level, seed=seed, since=since)
            if self._share(job, len(history), t - dropped.by_schedule) >= 1.0:
                return self.rebuilt(before, prequential, rows, t, random)
        elif job is not None and self.settings.background:
            self.drop_failed()  # one that has finished is taken over by `prepared_swap`
        elif job is not None:
            share = self._share(job, len(history), t - dropped.by_schedule)
            job.advance(self, share)
            if share >= 1.0:
                return self._swapped(job, history, prequential.memory, rows, rewards)
        update = self.prepared_update(Fit(self.scale, self.encoder, self.leaves), rows, rewards)

        def commit() -> None:
            update()
            self.history, self.rebuild, self.memory, self.dropped = history, job, prequential.memory, dropped
            if drawn is not random:
                random.bit_generator.state = drawn.bit_generator.state
            if job is not None and self.settings.background:
                job.start(self)

        return commit

    def prequential_weights(self, rows: Candidates, rewards: Floats) -> dict[str, Any]:
        """Members that tell how well the model has predicted, once it has predicted these rows too."""
        return {}

    def _kept(self, history: History, memory: Memory, t: int) -> tuple[History, Dropped, int]:
        """The rows that a rebuild in round t fits, the rounds of all rows dropped, and its level.

        For the schedule, as if the rows kept had been all since the first round, and the last of them the first of
        their level: then the next rebuild is a whole level away.
        """
        dropped, kept = self.dropped, memory.kept(history)
        scheduled = t + 1 - dropped.by_schedule
        if kept is None:
            return history, dropped, self._schedule.level(scheduled)
        level = self._schedule.level(max(int(scheduled * kept.mean()), 1))
        rounds = max(round(dropped.left(t + 1) * kept.mean()), 1), self._schedule.rounds(level)[0]
        return history.only(kept), Dropped(*(max(t + 1 - each, 0) for each in rounds)), level

    def _share(self, job: Rebuild, rows: int, t: int) -> float:
        """How much of a rebuild is to be done with so many rows, in round t; below 1 only where it has steps."""
        if self.settings.background:
            return 0.0
        return job.share(self._schedule, rows, t) if self._stepped else 1.0

    def drop_failed(self) -> None:
        """Raise what ended a rebuild on a thread; it is given up."""
        if self.rebuild is not None and (error := self.rebuild.error) is not None:
            self.level, self.rebuild = self.rebuild.level - 1, None  # so that one is due
            raise TreebanditError(
                f"a rebuild in the background failed ({type(error).__name__}: {error}); nothing was learned by this "
                "call, decisions go on with the trees of before, and the next `learn` starts a rebuild anew"
            ) from error

    def prepared_swap(self, *, at_once: bool = False) -> Commit | None:
        """What puts the fit of a thread that has finished in the place of the present one.

        at_once: a rebuild without a thread, all of which is done now.
        """
        job = self.rebuild
        if job is not None and at_once:
            job.advance(self, 1.0)
        if job is None or not (job.ready or at_once):
            return None
        return self._swapped(job, self.history, self.memory)

    def _swapped(
        self,
        job: Rebuild,
        history: History,
        memory: Memory,
        rows: Candidates | None = None,
        rewards: Floats | None = None,
    ) -> Commit:
        """Put the fit of a rebuild in the place of the present one; rows learned at the same time come last."""
        fit, seconds = job.catch_up(self), self.rebuild_seconds + job.seconds
        update = None if rows is None or rewards is None else self.prepared_update(fit, rows, rewards)
        fitted = memory.fitted(job.history)

        def commit() -> None:
            if update is not None:
                update()
            self._take_up(fit, history, fitted, level=job.level, fitted_at=job.fitted_at, seconds=seconds)

        return commit

    def _take_up(
        self,
        fit: Fit,
        history: History,
        memory: Memory,
        *,
        level: int,
        fitted_at: tuple[int, int],
        seconds: float,
    ) -> None:
        """Put a fit in the place of the present one; no rebuild is under way then."""
        if self.leaves is not None:
            fit.leaves.cache.expect(self.leaves.cache)
        self.history, self.memory, self.rebuild = history, memory, None
        self.scale, self.encoder, self.leaves = fit
        self.level, self.fitted_at, self.rebuild_seconds = level, fitted_at, seconds

    def prepared_update(self, fit: Fit, rows: Candidates, rewards: Floats, *, weighed: bool = True) -> Commit:
        """Let rows change the leaves they reach, between rebuilds."""
        features = fit.encoder(rows.contexts, rows.arms)
        return fit.leaves.prepared_update(features, fit.scale.standardised(rewards))

    def rebuilt(
        self, history: History, seen: Prequential, newest: Candidates, t: int, random: Random
    ) -> Commit:
        """Fit the ensemble to all rows that are kept and set the leaf values (Algorithm 1, line 7)."""
        started, model = time.perf_counter(), copy(self)
        vars(model).update(seen.weights)
        history, dropped, level = self._kept(history, seen.memory, t)
        memory = seen.memory.fitted(history)
        drawn, fitted_at = copy_of(random), (len(history), dropped.left(t + 1))
        fit = exhausted(model.fit_steps(history, newest.columns, drawn, rounds=fitted_at[1], snapshot={}))
        seconds = self.rebuild_seconds + time.perf_counter() - started

        def commit() -> None:
            if self.rebuild is not None:
                self.rebuild.stop()
            self._take_up(fit, history, memory, level=level, fitted_at=fitted_at, seconds=seconds)
            vars(self).update(seen.weights)
            self.dropped = dropped
            random.bit_generator.state = drawn.bit_generator.state

        return commit

    def fit_steps(
        self, history: History, columns: Columns, random: Random, *, rounds: int, snapshot: dict[str, Floats]
    ) -> Steps:
        """All that a rebuild does, in steps of a few milliseconds where the trees can be grown in steps.

        rounds: in which the rows were learned. snapshot: what steps have read of the model, or will.
        """
        scale = self._scale_of(history)
        targets, rows = scale.standardised(history.rewards), history.rows(columns)
        encoder, features = self._fitted_encoder(rows, targets, random)
        beside = yield from scaled(self._fit_beside(encoder, rows, targets, rounds, snapshot), 0.0, _ENCODED)
        yield _ENCODED
        measured = self._measured(self._trees(len(targets), rounds), encoder, features, targets, random)
        leaves, predicted = yield from measured
        self._completed(encoder, rows, targets, Measured(leaves, features, predicted), beside, snapshot)
        return Fit(scale, encoder, leaves)

    def _fitted_encoder(self, rows: Candidates, targets: Floats, random: Random) -> tuple[Encoder, Features]:
        """How rows enter the trees from now on, and the (n, width) features of these rows."""
        arms, codes = self.settings.arm_encoding, self.settings.categories
        encoder = Encoder(rows.columns, rows.arms, arm_encoding=arms, categories=codes)
        return encoder, encoder(rows.contexts, rows.arms)

    def _fit_beside(
        self, encoder: Encoder, rows: Candidates, targets: Floats, rounds: int, snapshot: dict[str, Floats]
    ) -> Generator[float, None, Any]:
        """What is fitted beside the trees, in steps, and kept with the encoder or returned for `_completed`."""
        yield from ()

    def _completed(
        self,
        encoder: Encoder,
        rows: Candidates,
        targets: Floats,
        measured: Measured,
        beside: Any,
        snapshot: dict[str, Floats],
    ) -> None:
        """What is learned from what the new trees leave open, and kept with the encoder.

        measured: the new trees on the rows. beside: what `_fit_beside` returned.
        """

    def _restored_encoder(self, state: dict[str, Any]) -> Encoder:
        return Encoder.restored(state, categories=self.settings.categories)

    def _trees(self, n: int, rounds: int) -> TreeLearner:
        """What grows the trees on n rows that were learned in so many rounds."""
        return self.settings.trees

    def _grown(
        self, trees: TreeLearner, encoder: Encoder, features: Features, targets: Floats, seed: int
    ) -> Generator[float, None, Forest]:
        """Trees on these rows; a learner that can use it learns which features are one category's."""
        if not isinstance(trees, SteppedTreeLearner):
            return grow(trees, features, targets, seed=seed)
        groups, masked = encoder.column_groups, self._masked(encoder)
        grown = grow_steps(trees, features, targets, seed=seed, column_groups=groups, masked=masked)
        return (yield from grown)

    def _masked(self, encoder: Encoder) -> Masked:
        """Features, and the share of the trees that may not see them."""
        return (), 0.0

    def _measured(
        self, trees: TreeLearner, encoder: Encoder, features: Features, targets: Floats, random: Random
    ) -> Generator[float, None, tuple[LeafStatistics, Floats | None]]:
        """The leaves of new trees, and what these predict of all rows, where measuring has found that."""
        settings, seed = self.settings, int(random.integers(2**31 - 1))
        grown = held = np.arange(len(targets))
        if settings.statistics == "held_out" and len(targets) >= 4:
            held, grown = held_out(len(targets), settings.held_out_share, random)
        whole = len(grown) == len(targets)
        own = (features, targets) if whole else (features[grown], targets[grown])
        calibrated = settings.variance == "calibrated"
        grown_at, measured_at = _BEFORE_CALIBRATION if calibrated else (_GROWN, 1.0)
        forest = yield from scaled(self._grown(trees, encoder, *own, seed), _ENCODED, grown_at)
        if not whole:
            features, targets = features[held], targets[held]
        predicted = np.empty(len(targets))
        measuring = LeafStatistics.measure_steps(
            forest,
            features,
            targets,
            output=settings.leaf_output,
            out_of_bag=settings.statistics == "out_of_bag",
            prior_rows=settings.prior_rows,
            predicted=predicted,
        )
        leaves = yield from scaled(measuring, grown_at, measured_at)
        if calibrated:
            again, seed = partial(self._grown, trees, encoder), int(random.integers(2**31 - 1))
            learning = calibrate_steps(again, leaves, *own, seed=seed)
            leaves.calibration = yield from scaled(learning, measured_at, 1.0)
        return leaves, predicted if whole and settings.leaf_output == "library" else None

    def _encoded(self, rows: Candidates) -> tuple[LeafStatistics, Features]:
        if self.leaves is None or self.encoder is None:
            raise self._no_trees_yet()
        return self.leaves, self.encoder(rows.contexts, rows.arms)

    def estimate(self, rows: Candidates) -> Estimate:
        """Sums over the leaves that each row reaches (Algorithm 1, lines 14-18)."""
        leaves, features = self._encoded(rows)
        return self.scale.original(leaves.estimate(features))

    def attribution(self, rows: Candidates) -> Attribution:
        """What columns and arm add to the mean of each row."""
        leaves, features = self._encoded(rows)
        assert self.encoder is not None
        found, baseline = attributions(leaves.forest, leaves.table, features)
        summed = of_features(found, baseline, self.encoder.sources, self.encoder.columns)
        return summed.scaled(self.scale.deviation, self.scale.mean)

    def similar(self, rows: Candidates, most: int) -> tuple[Indices, Floats]:
        """Of each row, the learned rows that share most leaves with it, (n, most), and the share of trees it is."""
        leaves, features = self._encoded(rows)
        learned = self._encoded(self.history.rows(self.history.columns or rows.columns))[1]
        here, there = leaves.forest.find_leaves(features), leaves.forest.find_leaves(learned)
        order = np.empty((len(here), min(most, len(there))), np.intp)
        found = np.empty(order.shape)
        for i, each in enumerate(here):  # one at a time: the shares of all with all would take much memory
            shares = (there == each).mean(1)
            order[i] = np.argsort(-shares, kind="stable")[: order.shape[1]]
            found[i] = shares[order[i]]
        return order, found

    def sample(self, rows: Candidates, draws: int, random: Random, *, scale: float = 1.0) -> Floats:
        """Joint draws, (draws, n): each leaf's output is drawn, so rows in one leaf share its draw."""
        leaves, features = self._encoded(rows)
        samples = leaves.sample(features, draws=draws, exploration=scale, key=draw_key(random))
        return self.scale.mean + self.scale.deviation * samples

    def state(self, *, history: bool = True) -> dict[str, Any]:
        """All that is needed to go on elsewhere; without history, to estimate and sample."""
        state: dict[str, Any] = {
            **super().state(history=history),
            "level": self.level,
            "memory": self.memory.state(history=history),
            "dropped": self.dropped._asdict(),
            "leaves": None,
            "rebuild": None,
        }
        if self.leaves is not None and self.encoder is not None:
            state["leaves"] = {**self.leaves.state(history=history), "encoder": self.encoder.state()}
        if self.rebuild is not None and history:
            state["rebuild"] = self.rebuild.state(self.history.columns or self.rebuild.columns)
        return state

    def restore(self, state: dict[str, Any]) -> None:
        """Take up what `state` gave."""
        super().restore(state)
        self.level = schema.whole(state, "level", least=-1)
        self.dropped = Dropped.restored(schema.part(state, "dropped"))
        self.memory = Memory.restored(
            schema.value(state, "memory"), self.settings.memory, self.history, per_arm=self._per_arm
        )
        saved, job = schema.optional(state, "leaves"), schema.optional(state, "rebuild")
        if job is not None:
            self.rebuild = Rebuild.restored(job, self.history, self._snapshot_size)
        if saved is None:
            return
        self.encoder = self._restored_encoder(schema.part(saved, "encoder"))
        self.leaves = LeafStatistics.restored(saved, prior_rows=self.settings.prior_rows)
        if (self.leaves.calibration is not None) != (self.settings.variance == "calibrated"):
            raise SavedFileError(f"the saved trees do not fit variance={self.settings.variance!r}")
        columns = self.encoder.columns
        row = Candidates(np.zeros((1, len(columns)), np.float32), np.zeros(1, np.intp), columns)
        if len(self.history) < 2 or self._encoded(row)[1].shape[1] != self.leaves.forest.n_features:
            raise SavedFileError("the saved trees do not have the features that rows are encoded as")
