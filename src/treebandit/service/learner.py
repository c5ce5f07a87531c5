"""The learner: reads the log of every bandit that it holds, learns, closes waits, publishes snapshots, checkpoints."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from functools import partial

from treebandit.errors import SavedFileError, StoreError
from treebandit.service import erasure, models
from treebandit.service.database import LearnerSession
from treebandit.service.failures import Failure, Failures
from treebandit.service.fold import Fold
from treebandit.service.models import Published
from treebandit.service.saved_agents import loaded, publishable, saved_bytes
from treebandit.service.store import BanditRow, Store

_log = logging.getLogger("treebandit.learner")

#: Seconds between looks at the log where nobody tells that it has grown.
POLL = 0.2
#: Seconds that a process which is told to end gives its learner.
STOP_SECONDS = 20.0
#: Publishing and checkpointing may take these shares of the learner's time.
_PUBLISH_SHARE, _CHECKPOINT_SHARE = 0.2, 0.05
_PUBLISH_SECONDS, _CHECKPOINT_SECONDS = 0.5, 30.0
_PURGE_SECONDS = 600.0
#: Seconds until a bandit whose step has failed is tried again: longer each time.
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0
_STORE = Failure("the learner's store")


class BanditLearner:
    """The learner of one bandit, for as long as its session holds it."""

    def __init__(self, store: Store, session: LearnerSession, row: BanditRow) -> None:
        self._store, self._session, self._bandit = store, session, row.id
        self.name = row.name
        self.fold = Fold.at(store, row.id, row.place)
        #: The places that the newest snapshot and the newest checkpoint were made at.
        self.published = self._place_of_snapshot() if row.version else 0
        self.saved = self.fold.taken_up
        self._rebuilds = 0
        self._rebuild_seconds = self._published_rebuild_seconds = self._total_rebuild_seconds()
        self._next_publish = self._next_checkpoint = 0.0
        #: The last entry that makes the agent anew, as far as looked; and the last one that was published at once.
        self._renewal, self._renewed = self._last_renewal(), 0

    def step(self) -> bool:
        """Read on a little, and do what is due; whether there may be more to do at once."""
        models.close_waits(self._store, self._session.connection, self._bandit)
        more = self.fold.advance() > 0
        self._watch_rebuilds()
        now = time.monotonic()
        self._renewal = self._last_renewal() if more else self._renewal
        # Also at the start: an erasure may have come while nobody learned for this bandit.
        anew = self._renewed < self._renewal <= self.fold.place
        try:
            if self.fold.changed > self.published and (now >= self._next_publish or anew):
                self.publish()
        finally:  # also where it fails, so that the next try need not read all of the log
            if self.fold.changed > self.saved and (now >= self._next_checkpoint or anew):
                self.checkpoint()
        if anew:
            self._forget_erased()
            self._renewed = self._renewal
        return more

    def publish(self) -> None:
        """Make what was learned the newest version."""
        started = time.monotonic()
        data = publishable(self.fold.agent)
        what = Published(
            version=0,
            learned=self.fold.place,
            t=self.fold.t,
            rows=self.fold.rows,
            rebuilds=self._rebuilds,
            rebuild_seconds=round(self._rebuild_seconds - self._published_rebuild_seconds, 3),
            skipped=self.fold.skipped,
        )
        version = models.publish(self._store, self._session.connection, self._bandit, data, what)
        self.published = self.fold.place
        self._rebuilds, self._published_rebuild_seconds = 0, self._rebuild_seconds
        took = time.monotonic() - started
        self._next_publish = time.monotonic() + max(_PUBLISH_SECONDS, took / _PUBLISH_SHARE)
        _log.info("published", extra={"bandit": self.name, "version": version, "rows": self.fold.rows})

    def checkpoint(self) -> None:
        """Keep the whole agent, so that a restart reads only what comes after."""
        started = time.monotonic()
        data = saved_bytes(self.fold.agent)
        models.checkpoint(
            self._store, self._session.connection, self._bandit, data, self.fold.place, self.fold.note()
        )
        self.saved = self.fold.place
        took = time.monotonic() - started
        self._next_checkpoint = time.monotonic() + max(_CHECKPOINT_SECONDS, took / _CHECKPOINT_SHARE)

    def _place_of_snapshot(self) -> int:
        """Where the newest snapshot was made; 0 where it cannot be loaded, so that one that can be is published."""
        last = models.newest(self._store, self._bandit, "snapshot")
        try:
            if last is not None:
                loaded(last.data)
        except SavedFileError:
            return 0
        return 0 if last is None else last.place

    def _watch_rebuilds(self) -> None:
        """Publish at once after a rebuild."""
        total = self._total_rebuild_seconds()
        if total != self._rebuild_seconds:
            self._rebuilds += 1
            self._rebuild_seconds, self._next_publish = total, 0.0

    def _total_rebuild_seconds(self) -> float:
        return float(getattr(self.fold.agent, "rebuild_seconds", 0.0))

    def _last_renewal(self) -> int:
        found = self._store.last_entry(self._bandit, ["erasure", "upload", "rollback"], 1 << 62)
        return 0 if found is None else found.place

    def _forget_erased(self) -> None:
        """Delete the models from before the last erasure: there are newer ones now."""
        erased = self._store.last_entry(self._bandit, ["erasure"], self.fold.place)
        if erased is not None:
            models.forget_before(self._session.connection, self._bandit, erased.place)
            self._store.scrub()


class Learner:
    """All bandits of a store that no other process learns for; one thread, or a process of its own."""

    def __init__(self, store: Store, *, published: Callable[[], None] = lambda: None) -> None:
        self._store = store
        self._published = published
        self._session: LearnerSession | None = None
        self._learners: dict[int, BanditLearner] = {}
        #: When to look for what is to be deleted, by bandit and why; kept when a learner of one is thrown away.
        self._next_purge: dict[tuple[int, Failure], float] = {}
        #: Bandits whose last step has failed: when to try again, and the seconds that this is after the failure.
        self._paused: dict[int, tuple[float, float]] = {}
        self._wake = threading.Event()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self.run, name="learner", daemon=True)
        #: What went wrong last, for the health page; empty while all is well.
        self.failures: Failures = {}

    def start(self) -> None:
        """Learn on a thread of this process."""
        self._thread.start()

    def wake(self) -> None:
        """The log has grown."""
        self._wake.set()

    def stop(self) -> None:
        """Finish the step under way, keep checkpoints, and end; without, where that takes too long."""
        self._stopped.set()
        self._wake.set()
        if self._thread.ident is not None:
            self._thread.join(STOP_SECONDS)

    @property
    def places(self) -> dict[str, int]:
        """How far each bandit has been read."""
        return {each.name: each.fold.place for each in list(self._learners.values())}

    def run(self) -> None:
        """Learn until `stop`."""
        while not self._stopped.is_set():
            try:
                more = self._round()
                self.failures.pop(_STORE, None)
            except Exception as error:
                self._lose(error)
                more = False
                self._stopped.wait(1.0)
            if not more and not self._stopped.is_set():
                self._wake.wait(POLL)
            self._wake.clear()
        self._finish()

    def _round(self) -> bool:
        if self._session is None:
            self._session = self._store.database.learner_session()
        more = False
        rows = {row.id: row for row in self._store.bandits()}
        self._forget_failures({row.name for row in rows.values()})
        for gone in self._learners.keys() - rows.keys():
            del self._learners[gone]
        self._paused = {bandit: pause for bandit, pause in self._paused.items() if bandit in rows}
        deleted = erasure.deleted(self._store)
        there = {*rows, *deleted}
        self._session.keep(there)
        self._next_purge = {key: moment for key, moment in self._next_purge.items() if key[0] in there}
        for bandit in deleted:
            if self._session.hold(bandit):
                part = partial(erasure.delete_part, self._store, bandit)
                more = self._delete(bandit, Failure("deletion"), part) or more
        for row in rows.values():
            if self._stopped.is_set():
                return False
            if not self._session.hold(row.id) or self._is_paused(row):
                continue
            try:
                more = self._step(row) or more
                self.failures.pop(Failure("learner", row.name), None)
                self._paused.pop(row.id, None)
            except Exception as error:
                if self._is_gone(row.id):
                    self._learners.pop(row.id, None)
                    continue
                if isinstance(error, (StoreError, *self._store.database.unavailable)):
                    raise
                # A fault of one bandit must not stop the others; its state is read anew from the log.
                self._learners.pop(row.id, None)
                self._pause(row)
                self.failures[Failure("learner", row.name)] = f"{type(error).__name__}: {error}"
                _log.exception("learning failed", extra={"bandit": row.name})
        return more

    def _is_gone(self, bandit: int) -> bool:
        """Whether a bandit was deleted meanwhile."""
        return not self._store.rows("SELECT 1 FROM bandits WHERE id = ? AND deleted IS NULL", (bandit,))

    def _is_paused(self, row: BanditRow) -> bool:
        return time.monotonic() < self._paused.get(row.id, (0.0, 0.0))[0]

    def _pause(self, row: BanditRow) -> None:
        before = self._paused.get(row.id, (0.0, _FIRST_PAUSE / 2))[1]
        seconds = min(2 * before, _LONGEST_PAUSE)
        self._paused[row.id] = time.monotonic() + seconds, seconds

    def _forget_failures(self, names: set[str]) -> None:
        """Of bandits that are gone. Settings that cannot be read are told by whoever decides."""
        for each in list(self.failures):
            if each.bandit is not None and each.bandit not in names:
                del self.failures[each]

    def _step(self, row: BanditRow) -> bool:
        assert self._session is not None
        if row.id not in self._learners:
            self._learners[row.id] = BanditLearner(self._store, self._session, row)
        learner = self._learners[row.id]
        learner.name = row.name
        before = learner.published
        purge = partial(erasure.purge_part, self._store, row)
        self._delete(row.id, Failure("retention", row.name), lambda: purge() is not None)
        more = learner.step()
        if learner.published != before:
            self._published()
        return more

    def _delete(self, bandit: int, what: Failure, part: Callable[[], bool]) -> bool:
        """Delete a part of what should be gone; whether there may be more. Where that fails, it is tried again later.

        Then others have their turn: who waits for the lock of a file looks for it now and then only.
        """
        started = time.monotonic()
        if started < self._next_purge.get((bandit, what), 0.0):
            return False
        more = False
        try:
            more = part()
            self.failures.pop(what, None)
        except Exception as error:
            self.failures[what] = f"{type(error).__name__}: {error}"
            _log.warning("%s: cannot be deleted: %s", what, error)
        if more:
            self._stopped.wait(min(time.monotonic() - started, POLL))
        else:
            self._next_purge[bandit, what] = time.monotonic() + _PURGE_SECONDS
        return more

    def _lose(self, error: Exception) -> None:
        """The store is gone, and with it the right to learn: all is read anew once it is back."""
        self.failures[_STORE] = str(error)
        self._learners.clear()
        session, self._session = self._session, None
        if session is not None:
            try:
                session.close()
            except Exception:
                _log.debug("the learner's session was gone already")
        _log.warning("the learner has lost its store: %s", error)

    def _finish(self) -> None:
        try:
            for learner in self._learners.values():
                if learner.fold.changed > learner.saved:
                    learner.checkpoint()
            if self._session is not None:
                self._session.close()
        except Exception as error:
            _log.warning("no checkpoint at the end: %s", error)
