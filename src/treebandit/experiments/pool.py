"""Runs in processes of this machine, one thread each; a process that dies takes down its own run only."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any

from treebandit.experiments.events import Event
from treebandit.experiments.records import write_record
from treebandit.experiments.run import THREAD_VARIABLES, play, warm_up
from treebandit.experiments.spec import RunSpec


@dataclass
class _Worker:
    process: SpawnProcess
    pipe: Connection
    spec: RunSpec | None = None


class LocalPool:
    """So many worker processes, each of which plays one run at a time and writes its record."""

    def __init__(self, workers: int, folder: Path) -> None:
        self._context = multiprocessing.get_context("spawn")
        self._folder = folder
        self._limit = workers
        self._workers: list[_Worker] = []

    def room(self) -> int:
        """How many more runs can be started now."""
        return self._limit - sum(worker.spec is not None for worker in self._workers)

    def start(self, spec: RunSpec) -> None:
        """Hand a run to an idle worker, or to a new one."""
        worker = next((worker for worker in self._workers if worker.spec is None), None) or self._hire()
        worker.spec = spec
        worker.pipe.send(spec.to_dict())

    def wait(self, timeout: float) -> list[Event]:
        """Wait for news, at most `timeout` seconds."""
        busy = {worker.pipe: worker for worker in self._workers if worker.spec is not None}
        if not busy:
            return []
        return [self._hear(busy[pipe]) for pipe in wait(list(busy), timeout) if isinstance(pipe, Connection)]

    def close(self) -> None:
        """End the workers, and the runs under way with them."""
        for worker in self._workers:
            worker.pipe.close()
            if worker.spec is not None:
                worker.process.terminate()
        for worker in self._workers:
            worker.process.join(10.0)
            if worker.process.exitcode is None:
                worker.process.kill()
        self._workers.clear()

    def _hire(self) -> _Worker:
        ours, theirs = self._context.Pipe()
        process = self._context.Process(target=_work, args=(theirs, str(self._folder)), daemon=True)
        with _one_thread():
            process.start()
        theirs.close()
        worker = _Worker(process, ours)
        self._workers.append(worker)
        return worker

    def _hear(self, worker: _Worker) -> Event:
        spec = worker.spec
        assert spec is not None
        try:
            kind, number, text = worker.pipe.recv()
        except (EOFError, OSError):
            worker.process.join()
            self._workers.remove(worker)
            code = worker.process.exitcode
            return Event("failed", spec, trouble=f"the worker process died with exit code {code}\n")
        if kind == "progress":
            return Event("progress", spec, share=number)
        worker.spec = None
        if kind == "failed":
            return Event("failed", spec, trouble=text)
        return Event("finished", spec, seconds=number)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Processes started inside load their numeric libraries with one thread each."""
    before = {name: os.environ.get(name) for name in THREAD_VARIABLES}
    os.environ.update(dict.fromkeys(THREAD_VARIABLES, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _work(pipe: Connection, folder: str) -> None:
    """The life of a worker: play what comes through the pipe until it is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_leave_with_parent, daemon=True).start()
    while True:
        try:
            spec = RunSpec.from_dict(pipe.recv())
        except (EOFError, OSError):
            return
        try:
            start = time.perf_counter()
            warm_up(spec)
            record = play(spec, progress=lambda done, total: _tell(pipe, "progress", done / total))
            write_record(record, folder)
            _tell(pipe, "finished", time.perf_counter() - start)
        except Exception:
            _tell(pipe, "failed", 0.0, traceback.format_exc())


def _tell(pipe: Connection, *news: Any) -> None:
    pipe.send((*news, "")[:3])


def _leave_with_parent() -> None:
    """End this process as soon as the command that started it is gone, however it went."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)
