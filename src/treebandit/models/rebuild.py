"""A rebuild that takes its time, in shares or on a thread, while the model of before decides and learns."""

from __future__ import annotations

import atexit
import threading
import time
from collections.abc import Generator
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakSet

import numpy as np

from treebandit import schema
from treebandit.core import Columns, Features, Floats
from treebandit.errors import SavedFileError
from treebandit.features.encoding import Encoder
from treebandit.features.reward_scale import RewardScale
from treebandit.models.history import History
from treebandit.models.schedule import Schedule, rows_until_overdue
from treebandit.trees.leaf_statistics import LeafStatistics

if TYPE_CHECKING:
    from treebandit.models.tree_model import TreeModel

#: A rebuild is spread over the first of so many parts of the rounds, or rows, until the next one.
_PARTS_PER_LEVEL = 48
#: Rows that a fit takes in at once when it catches up, and how few a thread leaves to the call that takes the fit over.
_CHUNK, _FEW = 256, 16


class Fit(NamedTuple):
    """What a rebuild makes: how rewards and rows are seen, and the leaves of the trees."""

    scale: RewardScale
    encoder: Encoder
    leaves: LeafStatistics


class Measured(NamedTuple):
    """New trees and the (n, d) features they were measured on; found: what these predict of the rows, where known."""

    leaves: LeafStatistics
    features: Features
    found: Floats | None

    def predicted(self) -> Floats:
        """What the trees predict of all rows, (n,)."""
        return self.leaves.estimate(self.features).mean if self.found is None else self.found


#: Yields the share that is done, below 1.
Steps = Generator[float, None, Fit]


class Rebuild:
    """A fit to the first rows of a history, and to those that came while it was made.

    It is described by these rows, their columns and rounds and a seed, and can be made anew from that: after an
    exception, in a copy, in a forked process, from a saved file. Only what it was described by is copied and saved.

    history, columns: what the trees are grown on. rounds: there were until then. level: of the schedule, that this is
        the rebuild of. since: how many rows there were before those with which it became overdue, where it did: then
        rows tell how much of it is to be done, else rounds.
    """

    def __init__(
        self,
        history: History,
        columns: Columns,
        *,
        rounds: int,
        level: int,
        seed: int,
        since: int | None = None,
    ) -> None:
        self.history, self.columns, self.level, self._seed = history, columns, level, seed
        self.since = since
        self.fitted_at = len(history), rounds
        #: What steps have read of the model as it was then, so that a rebuild made anew reads the same.
        self.snapshot: dict[str, Floats] = {}
        self._forget()

    def _forget(self) -> None:
        self.fit: Fit | None = None
        #: Seconds spent on it.
        self.seconds = 0.0
        self._seen, self._done = len(self.history), 0.0
        self._steps: Steps | None = None
        self._thread: threading.Thread | None = None
        self._stopped = threading.Event()
        #: Whether a thread has finished it.
        self.ready = False
        #: What has ended the thread.
        self.error: BaseException | None = None

    def __getstate__(self) -> dict[str, Any]:
        own = ("history", "columns", "level", "fitted_at", "_seed", "since")
        # A copy of what was read: a thread may go on reading while this is written.
        return {name: value for name, value in vars(self).items() if name in own} | {
            "snapshot": self.snapshot.copy()
        }

    def __setstate__(self, members: dict[str, Any]) -> None:
        vars(self).update(members)
        self._forget()

    def share(self, schedule: Schedule, rows: int, t: int) -> float:
        """How much of it is to be done once there are so many rows, in round t.

        It is spread over the first 1/48 of its level's rounds: after 10,000 rows 27 of them with '8 ln t', about 59
        with '4 ln t', none up to 360. One that was overdue is spread over the first 1/48 of the rows until the next:
        104 after 10,000, none up to 95.
        """
        if self.since is not None:
            return (rows - self.since) / (1 + rows_until_overdue(self.fitted_at[0]) // _PARTS_PER_LEVEL)
        first, lasting = schedule.rounds(self.level)
        return (t + 2 - first) / (1 + lasting // _PARTS_PER_LEVEL)

    def advance(self, model: TreeModel, share: float) -> None:
        """Go on until a share of the work is done; an exception on the way means to start anew."""
        began = time.perf_counter()
        try:
            if self._steps is None:
                random = np.random.default_rng(self._seed)
                self._steps = model.fit_steps(
                    self.history, self.columns, random, rounds=self.fitted_at[1], snapshot=self.snapshot
                )
            while self.fit is None and self._done < share and not self._stopped.is_set():
                # Inside the outer try: an interruption here, too, means to start anew.
                try:
                    self._done = next(self._steps)
                except StopIteration as end:
                    self.fit = end.value
        except BaseException:
            self._forget()
            raise
        self.seconds += time.perf_counter() - began

    def catch_up(self, model: TreeModel, few: int = 0) -> Fit:
        """The fit, once it has taken in the rows that the model has learned meanwhile, but for a few."""
        assert self.fit is not None
        try:
            while (known := model.history) and len(known) - self._seen > few and not self._stopped.is_set():
                assert known.columns is not None
                stop = min(self._seen + _CHUNK, len(known))
                rows = known.first(stop).rows(known.columns, self._seen)
                rewards = known.rewards[self._seen : stop]
                model.prepared_update(self.fit, rows, rewards, weighed=False)()
                self._seen = stop
        except BaseException:
            self._forget()
            raise
        return self.fit

    def start(self, model: TreeModel) -> None:
        """Go on with it on a thread, unless that is done or under way; one that a fork left behind starts anew."""
        if self.ready or self.error or (self._thread is not None and self._thread.is_alive()):
            return
        self._forget()
        self._thread = threading.Thread(
            target=self._run, args=(model,), name="treebandit-rebuild", daemon=True
        )
        _stop_at_exit()
        _RUNNING.add(self)
        try:
            self._thread.start()
        except RuntimeError as error:  # no more threads
            self.error = error

    def _run(self, model: TreeModel) -> None:
        try:
            self.advance(model, 1.0)
            if self.fit is not None:
                self.catch_up(model, _FEW)
        except BaseException as error:
            self.error = error
        else:
            self.ready = not self._stopped.is_set()
        finally:
            _RUNNING.discard(self)

    def join(self, timeout: float | None = None) -> bool:
        """Wait for the thread; False where it has not finished in so many seconds."""
        if self._thread is not None:
            self._thread.join(timeout)
        return self._thread is None or not self._thread.is_alive()

    def stop(self) -> None:
        """Let the thread end after its present step."""
        self._stopped.set()

    def state(self, newest: Columns) -> dict[str, Any]:
        """What describes it, and the newest columns of the model."""
        columns, newest_columns = schema.columns_state(self.columns), schema.columns_state(newest)
        rows, rounds = self.fitted_at
        own = {
            "rows": rows,
            "rounds": rounds,
            "level": self.level,
            "seed": self._seed,
            "since": self.since,
            "read": dict(self.snapshot),
        }
        return {**own, "columns": columns, "newest": newest_columns}

    @classmethod
    def restored(cls, state: dict[str, Any], history: History, size: int) -> Rebuild:
        """What `state` described, with the model's history, with its newest columns.

        size: how many numbers a step reads of the model.
        """
        columns, newest = (schema.columns_in(schema.part(state, name)) for name in ("columns", "newest"))
        rows, seed = schema.whole(state, "rows", least=2), schema.whole(state, "seed", most=2**63 - 1)
        if rows > len(history) or not history.whole:
            raise SavedFileError("a rebuild is saved that needs more rows than there are")
        fits = len(columns) <= len(newest) == history.contexts.shape[1]
        codes = ((columns, rows), (newest, len(history)))
        if not fits or not all(_are_codes(history.contexts[:n], kinds) for kinds, n in codes):
            raise SavedFileError("a rebuild is saved that does not have the columns of the rows")
        history.columns = newest
        rounds, level = schema.whole(state, "rounds", least=1), schema.whole(state, "level")
        since = None if schema.value(state, "since") is None else schema.whole(state, "since", most=rows)
        restored = cls(history.first(rows), columns, rounds=rounds, level=level, seed=seed, since=since)
        read = schema.part(state, "read")
        restored.snapshot = {name: schema.array(read, name, np.float64, (size,)) for name in read}
        return restored


def _are_codes(contexts: Features, columns: Columns) -> bool:
    """Whether the columns of categories hold codes of these, or nothing."""
    for count, column in zip(columns.categories, contexts.T, strict=False):
        codes = column[~np.isnan(column)] if count else column[:0]
        if ((codes < 0) | (codes >= count) | (codes % 1 != 0)).any():
            return False
    return True


#: Those that a thread works on.
_RUNNING: WeakSet[Rebuild] = WeakSet()


@cache
def _stop_at_exit() -> None:
    atexit.register(_stop_all)


def _stop_all() -> None:
    """End all threads, each after its present step: the interpreter must not be taken down under compiled code."""
    for each in list(_RUNNING):
        each.stop()
        each.join()
