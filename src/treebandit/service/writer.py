"""Group commit: one thread stores whatever waits in one transaction, and answers all of it once that is on disk.

A request that is alone may be stored on its own thread, where that is quick.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from treebandit.errors import StoreError
from treebandit.service.database import Connection
from treebandit.service.entries import New, Stored
from treebandit.service.log import Group
from treebandit.service.store import Store

_log = logging.getLogger("treebandit.service")

_MOST_AT_ONCE = 1000
_MOST_WAITING = 20_000
#: Seconds that the writer's thread waits for others who write to a local file.
_PATIENCE = 5.0
#: Requests are stored on their own thread while the last commits were of one request each, and took so many seconds.
_COMMITS, _QUICK = 8, 0.02


class _Waiting(NamedTuple):
    group: Group
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[list[Stored]]
    deadline: float


class LogWriter:
    """Stores groups of entries in the order in which they are given; started once, from any thread."""

    def __init__(
        self, store: Store, *, observe: Callable[[int, float], None] = lambda size, seconds: None
    ) -> None:
        self._store = store
        self._observe = observe
        #: None: all that was given before is to be stored, and then nothing more.
        self._given: queue.SimpleQueue[_Waiting | None] = queue.SimpleQueue()
        self._stopped = False
        self._connection: Connection | None = None
        self._in_use = threading.Lock()
        #: Commits in a row, up to now, that were quick and of one request.
        self._quick = 0
        self._thread = threading.Thread(target=self._run, name="log writer", daemon=True)
        #: Why the last commit has failed; empty while all is well.
        self.failure = ""

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self, seconds: float = 10.0) -> None:
        """Store what waits, then end; where the store does not answer for so long, without."""
        self._stopped = True
        self._given.put(None)
        if self._thread.ident is not None:
            self._thread.join(seconds)

    @property
    def waiting(self) -> int:
        """Groups that wait to be stored."""
        return self._given.qsize()

    async def append(self, bandit: int, entries: list[New], *, timeout: float = 10.0) -> list[Stored]:
        """Store entries together; done when they are durable. A StoreError where that cannot be known in time."""
        if self._stopped:
            raise StoreError("the service is stopping; try again with the same id")
        if self._given.qsize() >= _MOST_WAITING:
            raise StoreError(f"{self.waiting} requests wait for the store already; try again later")
        loop = asyncio.get_running_loop()
        future: asyncio.Future[list[Stored]] = loop.create_future()
        timer = loop.call_later(timeout, _expire, future, timeout)
        self._given.put(_Waiting(Group(bandit, entries), loop, future, time.monotonic() + timeout))
        try:
            return await future
        finally:
            timer.cancel()

    def append_here(self, bandit: int, entries: list[New]) -> list[Stored] | None:
        """Store entries on this thread, if that is quick; None where they are for `append`.

        The way to the writer's thread and back takes longer than to store one entry. Quick: in a local file that nobody
        else writes to at the moment. Many requests are better stored together, and a slow disk must not stop the loop.
        """
        if not self.ready_here or not self._in_use.acquire(blocking=False):
            return None
        started = time.monotonic()
        try:
            stored = self._store.append([Group(bandit, entries)], self._connected(patience=0.0))[0]
        except Exception:
            return None  # the writer's thread tries again, has patience with others, and tells what is wrong
        finally:
            self._in_use.release()
        self.failure = ""
        self._note(1, time.monotonic() - started)
        return stored

    @property
    def ready_here(self) -> bool:
        """Whether `append_here` may be worth it."""
        return self._quick >= _COMMITS and not self._stopped and not self._given.qsize()

    def _note(self, size: int, seconds: float) -> None:
        quick = self._store.database.local and size == 1 and seconds < _QUICK
        self._quick = self._quick + 1 if quick else 0
        self._observe(size, seconds)

    def _run(self) -> None:
        given: _Waiting | None = None
        while (given := self._given.get()) is not None:
            batch = [given]
            while given is not None and len(batch) < _MOST_AT_ONCE:
                try:
                    given = self._given.get_nowait()
                except queue.Empty:
                    break
                if given is not None:
                    batch.append(given)
            # Nobody waits any more for what is overdue: it was refused, and is not stored.
            now = time.monotonic()
            late = [each for each in batch if each.deadline < now]
            if late:
                batch = [each for each in batch if each.deadline >= now]
                _answer(late, [StoreError("not stored in time; try again with the same id")] * len(late))
            if batch:
                with self._in_use:
                    outcomes = self._stored(batch)
                self._note(len(batch), time.monotonic() - now)
                _answer(batch, outcomes)  # last, as who waits goes on at once, and needs the interpreter
            if given is None:
                break
        self._drop()

    def _stored(self, batch: list[_Waiting]) -> list[Any]:
        """What became of each group: its answers, or an error."""
        try:
            return list(self._append([each.group for each in batch]))
        except StoreError as error:
            return [error] * len(batch)
        except Exception as error:
            # One of them may be what cannot be stored: the others are stored without it.
            if len(batch) == 1:
                return [StoreError(f"it could not be stored ({type(error).__name__})")]
            return [outcome for each in batch for outcome in self._stored([each])]

    def _connected(self, *, patience: float) -> Connection:
        if self._connection is None:
            self._connection = self._store.database.connect()
        self._connection.wait_for_others(patience)
        return self._connection

    def _append(self, groups: list[Group]) -> list[list[Stored]]:
        database = self._store.database
        try:
            stored = self._store.append(groups, self._connected(patience=_PATIENCE))
        except database.collision:
            raise
        except database.unavailable as error:
            if not database.is_lost(error):
                raise  # one of the groups cannot be stored, and must not fail the others
            self._drop()
            said = str(error).strip().partition("\n")[0]
            failure = f"the store {self._store.url} cannot be written: {said}"
            if not self.failure:
                _log.warning(failure)
            self.failure = failure
            raise StoreError(failure) from error
        self.failure = ""
        return stored

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _answer(batch: list[_Waiting], outcomes: list[Any]) -> None:
    loops: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[list[Stored]], Any]]] = {}
    for each, outcome in zip(batch, outcomes, strict=True):
        loops.setdefault(each.loop, []).append((each.future, outcome))
    for loop, pairs in loops.items():
        try:
            loop.call_soon_threadsafe(_resolve, pairs)
        except RuntimeError:  # the loop has ended, and nobody waits
            continue


def _expire(future: asyncio.Future[list[Stored]], seconds: float) -> None:
    if not future.done():
        said = f"the store has not answered within {seconds:g} seconds; try again with the same id"
        future.set_exception(StoreError(said))


def _resolve(pairs: list[tuple[asyncio.Future[list[Stored]], Any]]) -> None:
    for future, outcome in pairs:
        if future.done():
            continue
        if isinstance(outcome, BaseException):
            future.set_exception(outcome)
        else:
            future.set_result(outcome)
