"""What a process of the service holds: the store, the writer of the log, the deployed agents, the learner."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Literal, TypeVar

import numpy as np

from treebandit.errors import SavedFileError, StoreError
from treebandit.service import jobs, models
from treebandit.service.deciding import DeployedAgent, fresh_deployed, own_stream
from treebandit.service.failures import Failure, Failures
from treebandit.service.jobs import Jobs
from treebandit.service.keys import KeyRing
from treebandit.service.learner import Learner
from treebandit.service.learner_process import LearnerProcess
from treebandit.service.metrics import Metrics
from treebandit.service.rates import Rates
from treebandit.service.refusals import Refused
from treebandit.service.store import BanditRow, Store
from treebandit.service.threads import in_store
from treebandit.service.writer import LogWriter

_log = logging.getLogger("treebandit.service")

#: Seconds until a model that could not be loaded is tried again.
_PAUSE = 5.0
#: Seconds to read a model, which may be large, from the store.
_LOAD_SECONDS = 60.0

_START, _STORE = Failure("start"), Failure("store")
_Made = TypeVar("_Made")
LearnerPlace = Literal["thread", "process", "none"]


@dataclass(frozen=True)
class Limits:
    """What a request may ask for.

    body, bulk: bytes of one request, of one with many. candidates, slots: in a decision. features: of one row, after
    nested ones are taken apart. text: characters of a feature, or of its name. rate: requests per second and key, None
    without a limit. seconds: for one request. concurrency: requests at the same time. evaluations: that run or wait.
    """

    body: int = 1 << 20
    bulk: int = 64 << 20
    candidates: int = 1000
    slots: int = 100
    features: int = 2000
    text: int = 10_000
    batch: int = 1000
    rate: float | None = None
    seconds: float = 10.0
    concurrency: int = 2000
    evaluations: int = 20


class Runtime:
    """One process of the service; made before its event loop runs, started inside it."""

    def __init__(
        self,
        store: Store,
        *,
        limits: Limits | None = None,
        learner: LearnerPlace = "thread",
        poll: float = 0.25,
        keys_required: bool = False,
    ) -> None:
        self.store = store
        self.limits = limits or Limits()
        self.metrics = Metrics()
        self.keys = KeyRing(store)
        #: Also where there was never a key: others than this machine can reach the service.
        self.keys_required = keys_required
        self.rates = Rates()
        self.jobs = Jobs(store, self.limits.evaluations)
        self.random = np.random.default_rng()
        self.writer = LogWriter(store, observe=self.metrics.committed)
        #: Requests that are not answered yet.
        self.under_way = 0
        self.learner: Learner | LearnerProcess | None = None
        if learner == "thread":
            self.learner = Learner(store, published=self._wake)
        elif learner == "process":
            self.learner = LearnerProcess(store.secret_url, published=self._wake)
        self._poll = poll
        self._deployed: dict[str, DeployedAgent] = {}
        self._rows: dict[str, BanditRow] = {}
        #: Models that could not be loaded: bandit -> version, and when to try it again.
        self._refused: dict[int, tuple[int, float]] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._look = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._refreshing = asyncio.Lock()
        self._next_look: asyncio.Task[None] | None = None
        #: What keeps this process from being ready: what is missing -> why.
        self.missing: Failures = {_START: "starting"}
        self._warnings: Failures = {}

    @property
    def warnings(self) -> Failures:
        """What is wrong while it is ready all the same: an older model decides, nothing is learned, or stored."""
        found = {Failure("settings", name): why for name, why in self.store.unreadable.items()}
        if self.writer.failure:
            found[Failure("log")] = self.writer.failure
        return {**self._warnings, **found, **({} if self.learner is None else self.learner.failures)}

    async def start(self) -> None:
        """Read the store, begin to write and to learn, and compile what decisions need."""
        self._loop = asyncio.get_running_loop()
        await asyncio.to_thread(jobs.sweep)
        self.writer.start()
        if self.learner is not None:
            self.learner.start()
        try:
            await self.refresh()
        except StoreError as error:
            self.missing[_STORE] = str(error)
        self._tasks = [
            asyncio.create_task(work) for work in (self._watch(), self._watch_keys(), self._warm_up())
        ]

    async def stop(self) -> None:
        """Store what was accepted, keep a checkpoint, and end."""
        for task in self._tasks:
            task.cancel()
        await self.jobs.stop()
        if self.learner is not None:
            await asyncio.to_thread(self.learner.stop)
        await asyncio.to_thread(self.writer.stop)
        self.store.close()

    async def deployed(self, name: str) -> DeployedAgent | None:
        """What decides for a bandit; the store is asked where this process does not know it yet."""
        if name not in self._deployed:
            await self.look_anew()
        found = self._deployed.get(name)
        if found is None and (name in self._rows or name in self.store.unreadable):
            why = "this replica cannot load the bandit; /health/ready says why"
            raise Refused(503, "BanditUnavailable", why, {"Retry-After": "1"})
        return found

    async def look_anew(self) -> None:
        """A look at the store that begins after this call; those who ask at the same time share it."""
        if self._next_look is None:
            self._next_look = asyncio.create_task(self.refresh())
        # Where nobody waits any more, nobody asks what became of it.
        self._next_look.add_done_callback(lambda look: look.cancelled() or look.exception())
        try:
            async with asyncio.timeout(self.limits.seconds):
                await asyncio.shield(self._next_look)
        except TimeoutError:
            raise StoreError(
                f"the store has not answered within {self.limits.seconds:g} seconds; try again"
            ) from None

    def rows(self) -> dict[str, BanditRow]:
        """The bandits as the store had them a moment ago."""
        return self._rows

    async def refresh(self) -> None:
        """Take up settings and snapshots that are new in the store."""
        async with self._refreshing:
            self._next_look = None  # who asks from here on needs another look
            rows = {row.name: row for row in await self._in_store(self.store.bandits)}
            for name, row in rows.items():
                deployed = self._deployed.get(name)
                if deployed is not None and deployed.bandit != row.id:
                    deployed = None
                if deployed is not None and deployed.revision != row.revision:
                    # Whether or not the newest model can be read here.
                    deployed = replace(deployed, config=row.config, revision=row.revision)
                    self._deployed[name] = deployed
                if deployed is None or deployed.version != row.version:
                    await self._renew(row, deployed)
            unreadable = self.store.unreadable
            for gone in self._deployed.keys() - rows.keys() - unreadable.keys():
                del self._deployed[gone]
            for name in self._rows.keys() - rows.keys():
                self._clear_problem(name)
            self._rows = rows
            self.missing.pop(_STORE, None)

    async def _in_store(self, work: Callable[[], _Made]) -> _Made:
        return await in_store(self.limits.seconds, work)

    def _tell(self, what: str, why: str) -> None:
        """Warn of something, or no more where there is nothing to say."""
        if why:
            self._warnings[Failure(what)] = why
        else:
            self._warnings.pop(Failure(what), None)

    async def _renew(self, row: BanditRow, deployed: DeployedAgent | None) -> None:
        """Take up the newest model of one bandit; where that fails, the others must not suffer."""
        refused, again = self._refused.get(row.id, (-1, 0.0))
        if refused == row.version and time.monotonic() < again:
            return
        try:
            above = self._known(row, deployed)
            self._deployed[row.name], unreadable = await in_store(_LOAD_SECONDS, self._loaded, row, above)
        except Exception as error:
            self._refuse(row, deployed, error)
        else:
            self._refused.pop(row.id, None)
            self._clear_problem(row.name)
            if unreadable is not None:
                self._refuse(row, self._deployed[row.name], unreadable)

    def _known(self, row: BanditRow, deployed: DeployedAgent | None) -> int:
        """The last version that need not be looked at: it decides, or could not be read."""
        if deployed is None or deployed.version > row.version:
            return 0
        refused, again = self._refused.get(row.id, (0, 0.0))
        return max(deployed.version, refused if again == math.inf and refused < row.version else 0)

    def _refuse(self, row: BanditRow, deployed: DeployedAgent | None, error: Exception) -> None:
        """Go on with an older model or, where none can be read, as at the beginning, and say so."""
        # One that another version of treebandit has written will not be readable later either.
        unreadable = isinstance(error, SavedFileError)
        self._refused[row.id] = row.version, math.inf if unreadable else time.monotonic() + _PAUSE
        why = str(error) or type(error).__name__
        if unreadable and deployed is None:
            with suppress(Exception):  # its agent cannot be made here either
                self._deployed[row.name] = fresh_deployed(row.id, row.name, row.config, row.revision)
                why += "; no older one either, so that it decides as one that has learned nothing"
        self._warnings[Failure("model", row.name)] = why
        _log.warning("a model cannot be loaded: %s", error, extra={"bandit": row.name})

    def _clear_problem(self, name: str) -> None:
        self._warnings.pop(Failure("model", name), None)

    def _loaded(self, row: BanditRow, above: int) -> tuple[DeployedAgent, SavedFileError | None]:
        """What decides with the newest model that can be read, and why a newer one cannot."""
        found = None
        if row.version:
            found = models.newest_readable(self.store, row.id, above=above)
            found = found or models.newest_readable(self.store, row.id)
        if found is None:
            return fresh_deployed(row.id, row.name, row.config, row.revision, row.version), None
        model, agent, unreadable = found
        own = own_stream(agent)
        return DeployedAgent(row.id, row.name, row.config, row.revision, model.version, own), unreadable

    def wake(self) -> None:
        """Let the learner look at once for what is new in the log."""
        if self.learner is not None:
            self.learner.wake()

    def _wake(self) -> None:
        if self._loop is not None:
            try:
                self._loop.call_soon_threadsafe(self._look.set)
            except RuntimeError:
                return

    async def _watch(self) -> None:
        """Look for what is new, again and again."""
        while True:
            try:
                async with asyncio.timeout(self._poll):
                    await self._look.wait()
            except TimeoutError:
                pass
            self._look.clear()
            await self._try("bandits", self.refresh)

    async def _watch_keys(self) -> None:
        """By itself: however long models take to load, a key that was removed is useless within a second."""
        while True:
            await self._try("keys", lambda: self._in_store(self.keys.refresh))
            await asyncio.sleep(self._poll)

    async def _try(self, what: str, look: Callable[[], Awaitable[None]]) -> None:
        try:
            await look()
            self._tell(what, "")
        except StoreError as error:
            self.missing[_STORE] = str(error)
        except Exception as error:
            self._tell(what, f"cannot be looked at: {type(error).__name__}: {error}")
            _log.exception("looking for what is new failed")

    async def _warm_up(self) -> None:
        """Compile the kernels of the default agent before the service is called ready."""
        from treebandit.agents.warming import warm_up

        try:
            await asyncio.to_thread(warm_up)
        except Exception:
            _log.exception("warming up failed")
        self.missing.pop(_START, None)
