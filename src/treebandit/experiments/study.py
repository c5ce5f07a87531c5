"""Many runs: parallel, resumable, loud on failure; on this machine or on a Dask cluster."""

from __future__ import annotations

import contextlib
import sys
import time
import traceback
from collections import deque
from collections.abc import Generator, Iterable, Iterator
from pathlib import Path
from typing import Any

from treebandit.errors import MissingExtraError, StudyError
from treebandit.experiments.build import check_table
from treebandit.experiments.leases import Leases
from treebandit.experiments.events import Backend, Event
from treebandit.experiments.pool import LocalPool
from treebandit.experiments.records import RunRecord, merge_plan, read_provenance, record_path, write_record
from treebandit.experiments.run import limit_threads, play, warm_up
from treebandit.experiments.spec import RunSpec

WAIT_SECONDS = 1.0
CONNECT_SECONDS = 20


def execute(
    specs: Iterable[RunSpec], folder: str | Path, *, workers: int = 1, cluster: str | None = None
) -> Generator[Event, None, None]:
    """Play the runs that `folder` does not hold yet, `workers` at a time or on a Dask cluster; yield news.

    A failing run is an event like any other, and the rest goes on. Leaving the loop ends the runs under way.
    """
    folder, specs = Path(folder), list(specs)
    if workers < 1:
        raise StudyError(f"{workers} workers; give at least 1")
    check_specs(specs)
    backend: Backend = DaskCluster(cluster, folder) if cluster else LocalPool(workers, folder)
    with contextlib.closing(backend):
        merge_plan(folder, [spec.plan_row() for spec in specs])
        with contextlib.closing(Leases(folder)) as leases:
            yield from _execute(specs, folder, backend, leases)


def check_specs(specs: Iterable[RunSpec]) -> None:
    """Find wrong names and keys before the first run starts; a missing library fails its own runs only."""
    seen: list[Any] = []
    for spec in specs:
        for kind, table in (("agent", spec.agent), ("environment", spec.environment)):
            if table in seen:
                continue
            seen.append(table)
            with contextlib.suppress(ImportError):
                check_table(table, kind)


def _execute(specs: list[RunSpec], folder: Path, backend: Backend, leases: Leases) -> Iterator[Event]:
    waiting: deque[RunSpec] = deque()
    for spec in specs:
        if record_path(folder, spec.run_id).exists():
            yield _skipped(spec, folder)
        else:
            waiting.append(spec)
    under_way = 0
    while waiting or under_way:
        for _ in range(len(waiting)):
            if backend.room() <= 0:
                break
            spec = waiting.popleft()
            if not leases.acquire(spec.run_id):
                waiting.append(spec)
            elif record_path(folder, spec.run_id).exists():  # finished elsewhere since the first look
                leases.release(spec.run_id)
                yield _skipped(spec, folder)
            else:
                backend.start(spec)
                under_way += 1
                yield Event("started", spec)
        news = backend.wait(WAIT_SECONDS)
        for event in news:
            if event.kind in ("finished", "failed"):
                under_way -= 1
                leases.release(event.spec.run_id)
            yield event
        if not under_way and waiting and not news:
            time.sleep(WAIT_SECONDS)  # all that is left is under way in another command
        leases.refresh()


def _skipped(spec: RunSpec, folder: Path) -> Event:
    provenance = read_provenance(record_path(folder, spec.run_id))
    return Event("skipped", spec, seconds=float(provenance["duration"]))


class DaskCluster:
    """Runs as tasks of a Dask scheduler; records come back through it, so no folder needs to be shared."""

    def __init__(self, address: str, folder: Path) -> None:
        try:
            from distributed import Client
        except ImportError as error:
            raise MissingExtraError("dask.distributed", "cluster") from error
        try:
            self._client = Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
        except (OSError, ValueError) as error:
            raise StudyError(
                f"no Dask scheduler answers at {address!r} ({error}); start one with: dask scheduler"
            ) from error
        self._folder = folder
        self._futures: dict[Any, RunSpec] = {}
        self._check_threads()

    def _check_threads(self) -> None:
        threads = self._client.nthreads()
        if any(count > 1 for count in threads.values()):
            self._client.close()
            raise StudyError(
                "the cluster has workers with several threads, where runs would disturb each other's times; "
                "start them with: dask worker ADDRESS --nthreads 1"
            )

    def room(self) -> int:
        """How many more runs can be started now: two per worker, so that none is ever idle."""
        return 2 * max(1, len(self._client.nthreads())) - len(self._futures)

    def start(self, spec: RunSpec) -> None:
        """Submit a run; should its worker die, the scheduler gives it to another."""
        future = self._client.submit(play_remotely, spec.to_dict(), list(sys.path), pure=False)
        self._futures[future] = spec

    def wait(self, timeout: float) -> list[Event]:
        """Wait for news, at most `timeout` seconds."""
        from distributed import wait

        if not self._futures:
            return []
        with self._client.as_current(), contextlib.suppress(TimeoutError):
            wait(list(self._futures), timeout=timeout, return_when="FIRST_COMPLETED")
        done = [future for future in self._futures if future.done()]
        return [self._collect(future, self._futures.pop(future)) for future in done]

    def _collect(self, future: Any, spec: RunSpec) -> Event:
        try:
            outcome: RunRecord | str = future.result()
        except Exception:
            return Event("failed", spec, trouble=traceback.format_exc())
        finally:
            future.release()
        if isinstance(outcome, str):
            return Event("failed", spec, trouble=outcome)
        write_record(outcome, self._folder)
        return Event("finished", spec, seconds=float(outcome.provenance["duration"]))

    def close(self) -> None:
        """Withdraw what is not finished, and leave the cluster."""
        self._client.cancel(list(self._futures))
        self._client.close()


def play_remotely(table: dict[str, Any], paths: list[str]) -> RunRecord | str:
    """Play a run on a cluster's worker: the record, or the traceback of what went wrong."""
    limit_threads()
    sys.path.extend(path for path in paths if path not in sys.path)
    spec = RunSpec.from_dict(table)
    try:
        warm_up(spec)
        return play(spec)
    except Exception:
        return traceback.format_exc()
