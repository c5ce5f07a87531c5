"""Many runs, in parallel and resumable, on this machine or on a Dask cluster."""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Generator, Iterable, Iterator
from pathlib import Path

from treebandit.errors import DamagedRecordError, StudyError
from treebandit.experiments.build import check_runs
from treebandit.experiments.cluster import DaskCluster
from treebandit.experiments.leases import Leases
from treebandit.experiments.pool import LocalPool
from treebandit.experiments.progress import Backend, ProgressEvent
from treebandit.experiments.provenance import CurrentCode
from treebandit.experiments.records import (
    merge_plan,
    read_provenance,
    record_path,
    remove_leftovers,
    trim_plan,
)
from treebandit.experiments.spec import RunSpec, Study

WAIT_SECONDS = 1.0


def execute(
    specs: Iterable[RunSpec],
    folder: str | Path,
    *,
    workers: int = 1,
    cluster: str | None = None,
    again: bool = False,
    study: Study | None = None,
) -> Generator[ProgressEvent, None, None]:
    """Play the runs that `folder` does not hold yet, `workers` at a time or on a Dask cluster; yield events.

    again: also play runs whose records were made by other code.
    study: the whole study that the runs are of, where they may be some of them only; what the folder's plan has of its
    file, and it no longer has, is removed.
    A failing run is an event like any other, and the
    rest goes on. Leaving the loop ends the runs under way.
    """
    folder, specs = Path(folder), list(specs)
    if workers < 1:
        raise StudyError(f"{workers} workers; give at least 1")
    check_runs(specs, rounds=True, roads=cluster is None)
    backend: Backend = LocalPool(workers, folder) if cluster is None else DaskCluster(cluster, folder)
    with contextlib.closing(backend):
        try:
            if study is not None:
                trim_plan(folder, study)
            merge_plan(folder, [spec.plan_row() for spec in specs])
            remove_leftovers(folder)
            leases = Leases(folder)
        except OSError as error:
            raise StudyError(
                f"{folder} cannot hold records ({error.strerror}: {error.filename}); give another folder"
            ) from error
        with contextlib.closing(leases):
            yield from _Execution(folder, backend, leases, again).events(specs)


class _Execution:
    """One command at work on a folder."""

    def __init__(self, folder: Path, backend: Backend, leases: Leases, again: bool) -> None:
        self._folder, self._backend, self._leases, self._again = folder, backend, leases, again

    def events(self, specs: list[RunSpec]) -> Iterator[ProgressEvent]:
        codes = {spec.folders: CurrentCode(spec.folders) for spec in specs}
        waiting: deque[RunSpec] = deque()
        for spec in specs:
            event = self._existing(spec, codes[spec.folders])
            if event is not None:
                yield event
            if event is None or event.kind == "damaged":
                waiting.append(spec)
        under_way = 0
        while waiting or under_way:
            for event in self._start(waiting):
                under_way += event.kind == "started"
                yield event
            events = self._backend.wait(WAIT_SECONDS)
            for event in events:
                if event.kind in ("finished", "failed"):
                    under_way -= 1
                    self._leases.release(event.spec.run_id)
                yield event
            if not under_way and waiting and not events:
                time.sleep(WAIT_SECONDS)  # all that is left is under way in another command
            self._leases.refresh()

    def _start(self, waiting: deque[RunSpec]) -> Iterator[ProgressEvent]:
        """Start as many of the waiting runs as there is capacity for; those leased to others wait on."""
        for _ in range(len(waiting)):
            if self._backend.capacity() <= 0:
                return
            spec = waiting.popleft()
            if not self._leases.acquire(spec.run_id):
                waiting.append(spec)
                continue
            event = self._existing(spec, CurrentCode(spec.folders))
            if event is not None and event.kind == "skipped":  # finished elsewhere since the first look
                self._leases.release(spec.run_id)
                yield event
            else:
                self._backend.start(spec)
                yield ProgressEvent("started", spec)

    def _existing(self, spec: RunSpec, code: CurrentCode) -> ProgressEvent | None:
        """What is to be said of the record that is there already; None where the run is to be played."""
        path = record_path(self._folder, spec.run_id)
        if not path.exists():
            return None
        try:
            provenance = read_provenance(path)
        except DamagedRecordError as error:
            return ProgressEvent("damaged", spec, reason=str(error))
        reason = code.stale_reason(provenance)
        if reason and self._again:
            return None
        return ProgressEvent("skipped", spec, seconds=float(provenance["duration"]), reason=reason)
