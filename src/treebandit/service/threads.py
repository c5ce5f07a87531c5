"""Threads for what asks the store, which may never answer: nobody waits for them without end."""

from __future__ import annotations

import asyncio
import contextvars
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from typing import Any, TypeVar

from treebandit.errors import StoreError

_Made = TypeVar("_Made")


class DaemonThreads(Executor):
    """At most so many threads, started when they are needed; a process that ends does not wait for them."""

    def __init__(self, most: int, name: str) -> None:
        self._most, self._name = most, name
        self._given: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]]] = queue.SimpleQueue()
        self._idle = threading.Semaphore(0)
        self._lock = threading.Lock()
        self._threads = 0

    def submit(self, work: Callable[..., _Made], /, *given: Any, **more: Any) -> Future[_Made]:
        """Do it on the next thread that is free."""
        future: Future[_Made] = Future()
        self._given.put((future, partial(work, *given, **more)))
        with self._lock:
            if not self._idle.acquire(blocking=False) and self._threads < self._most:
                self._threads += 1
                name = f"{self._name} {self._threads}"
                threading.Thread(target=self._run, name=name, daemon=True).start()
        return future

    def _run(self) -> None:
        while True:
            try:
                future, work = self._given.get_nowait()
            except queue.Empty:
                self._idle.release()
                future, work = self._given.get()
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(work())
                except BaseException as error:
                    future.set_exception(error)


_THREADS = DaemonThreads(16, "store")


async def in_store(
    seconds: float,
    work: Callable[..., _Made],
    *given: Any,
    threads: DaemonThreads | None = None,
    **more: Any,
) -> _Made:
    """Do on a thread what asks the store; a StoreError where that takes longer. The thread then goes on by itself."""
    run = partial(contextvars.copy_context().run, work, *given, **more)
    try:
        async with asyncio.timeout(seconds):
            return await asyncio.get_running_loop().run_in_executor(threads or _THREADS, run)
    except TimeoutError:
        said = f"the store has not answered within {seconds:g} seconds; it may do it all the same; try again"
        raise StoreError(said) from None
