"""Runs in processes of this machine, one thread each; a process that dies ends its own run only."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path

from treebandit.errors import MissingExtraError
from treebandit.experiments.progress import ProgressEvent
from treebandit.experiments.records import write_record
from treebandit.experiments.run import THREAD_VARIABLES, play, warm_up
from treebandit.experiments.spec import RunSpec

#: How often a run is handed to a worker before its loss counts as a failure of the run.
ATTEMPTS = 3


@dataclass
class _Worker:
    process: SpawnProcess
    pipe: Connection
    spec: RunSpec | None = None
    begun: bool = False


class LocalPool:
    """A number of worker processes, each of which plays one run at a time and writes its record."""

    def __init__(self, workers: int, folder: Path) -> None:
        self._context = multiprocessing.get_context("spawn")
        self._folder = folder
        self._limit = workers
        self._workers: list[_Worker] = []
        self._failed: list[ProgressEvent] = []
        self._attempts: Counter[str] = Counter()

    def capacity(self) -> int:
        """How many more runs can be started now."""
        return self._limit - sum(worker.spec is not None for worker in self._workers)

    def start(self, spec: RunSpec, reason: str = "") -> None:
        """Hand a run to an idle worker or to a new one; `reason` tells what became of the worker that had it."""
        while self._attempts[spec.run_id] < ATTEMPTS:
            self._attempts[spec.run_id] += 1
            worker = next((worker for worker in self._workers if worker.spec is None), None)
            try:
                worker = worker or self._spawn()
                worker.spec, worker.begun = spec, False
                worker.pipe.send(spec)
                return
            except OSError:
                reason = traceback.format_exc() if worker is None else self._remove(worker)
        self._failed.append(ProgressEvent("failed", spec, traceback=reason))

    def wait(self, timeout: float) -> list[ProgressEvent]:
        """Wait for events, at most `timeout` seconds."""
        busy = {worker.pipe: worker for worker in self._workers if worker.spec is not None}
        ready = wait(list(busy), 0.0 if self._failed else timeout) if busy else []
        events = [self._receive(busy[pipe]) for pipe in ready if isinstance(pipe, Connection)]
        failed, self._failed = self._failed, []
        return failed + [event for event in events if event is not None]

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

    def _spawn(self) -> _Worker:
        ours, theirs = self._context.Pipe()
        process = self._context.Process(target=_work, args=(theirs, str(self._folder)), daemon=True)
        with _one_thread():
            process.start()
        theirs.close()
        self._workers.append(_Worker(process, ours))
        return self._workers[-1]

    def _remove(self, worker: _Worker) -> str:
        worker.pipe.close()
        worker.process.join()
        self._workers.remove(worker)
        return f"the worker process died with exit code {worker.process.exitcode}\n"

    def _receive(self, worker: _Worker) -> ProgressEvent | None:
        spec = worker.spec
        assert spec is not None
        try:
            kind, number, text = worker.pipe.recv()
        except (EOFError, OSError):
            reason = self._remove(worker)
            if worker.begun:
                return ProgressEvent("failed", spec, traceback=reason)
            self.start(spec, reason)  # it died before it took the run, which is not to blame
            return None
        worker.begun = True
        if kind == "begun":
            return None
        if kind == "progress":
            return ProgressEvent("progress", spec, share=number)
        worker.spec = None
        if kind == "failed":
            return ProgressEvent("failed", spec, traceback=text)
        return ProgressEvent("finished", spec, seconds=number)


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
    """A worker: play every run that comes through the pipe until it is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_exit_with_parent, daemon=True).start()
    while True:
        try:
            spec: RunSpec = pipe.recv()
        except (EOFError, OSError):
            return
        pipe.send(("begun", 0.0, ""))
        try:
            start = time.perf_counter()
            warm_up(spec)
            record = play(spec, progress=lambda done, total: pipe.send(("progress", done / total, "")))
            write_record(record, folder)
            pipe.send(("finished", time.perf_counter() - start, ""))
        except MissingExtraError as error:  # one sentence says all, and every run of this agent fails alike
            pipe.send(("failed", 0.0, f"{error}\n"))
        except Exception:
            pipe.send(("failed", 0.0, traceback.format_exc()))


def _exit_with_parent() -> None:
    """End this process as soon as the command that started it is gone, however it ended."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)
