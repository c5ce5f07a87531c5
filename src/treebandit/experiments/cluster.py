"""Runs on a Dask cluster."""

from __future__ import annotations

import contextlib
import socket
import sys
import traceback
from pathlib import Path
from typing import Any

from treebandit.errors import MissingExtraError, StudyError
from treebandit.experiments.build import import_classes
from treebandit.experiments.own_code import forget_changed, other_code, own_digests, use_folders
from treebandit.experiments.progress import ProgressEvent
from treebandit.experiments.records import RunRecord, write_record
from treebandit.experiments.run import limit_threads, play, warm_up
from treebandit.experiments.spec import RunSpec

CONNECT_SECONDS = 20


class DaskCluster:
    """Runs as tasks of a Dask scheduler; records come back through it, so no folder needs to be shared."""

    def __init__(self, address: str, folder: Path) -> None:
        try:
            from distributed import Client
        except ImportError as error:
            raise MissingExtraError("dask.distributed", "cluster") from error
        try:
            _connect(address)
            self._client = Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
        except (OSError, ValueError) as error:
            raise StudyError(
                f"no Dask scheduler answers at {address!r} ({' '.join(str(error).split())}); "
                "start one with: dask scheduler, and give the address that it prints"
            ) from error
        self._folder = folder
        self._futures: dict[Any, RunSpec] = {}
        if any(count > 1 for count in self._client.nthreads().values()):
            self._client.close()
            raise StudyError(
                "the cluster has workers with several threads, where runs would disturb each other's times; "
                "start them with: dask worker ADDRESS --nthreads 1"
            )

    def capacity(self) -> int:
        """How many more runs can be started now: two per worker, so that none is ever idle."""
        return 2 * max(1, len(self._client.nthreads())) - len(self._futures)

    def start(self, spec: RunSpec) -> None:
        """Submit a run; should its worker die, the scheduler gives it to another."""
        future = self._client.submit(play_remotely, spec, *_code(spec), pure=False)
        self._futures[future] = spec

    def wait(self, timeout: float) -> list[ProgressEvent]:
        """Wait for events, at most `timeout` seconds."""
        from distributed import wait

        if not self._futures:
            return []
        with self._client.as_current(), contextlib.suppress(TimeoutError):
            wait(list(self._futures), timeout=timeout, return_when="FIRST_COMPLETED")
        done = [future for future in self._futures if future.done()]
        return [self._collect(future, self._futures.pop(future)) for future in done]

    def _collect(self, future: Any, spec: RunSpec) -> ProgressEvent:
        try:
            outcome: RunRecord | str = future.result()
            if isinstance(outcome, str):
                return ProgressEvent("failed", spec, traceback=outcome)
            write_record(outcome, self._folder)
        except Exception:
            return ProgressEvent("failed", spec, traceback=traceback.format_exc())
        finally:
            future.release()
        return ProgressEvent("finished", spec, seconds=float(outcome.provenance["duration"]))

    def close(self) -> None:
        """Withdraw what is not finished, and leave the cluster."""
        self._client.cancel(list(self._futures))
        self._client.close()


def play_remotely(spec: RunSpec, paths: list[str], code: dict[str, str]) -> RunRecord | str:
    """Play a run on a cluster's worker: the record, or the traceback of what went wrong.

    paths: where the caller looks for modules, after the study's folders.
    code: hashes of the modules that the caller has loaded; a worker with others does not play.
    """
    limit_threads()
    try:
        use_folders(spec.folders, paths)
        forget_changed(code)
        import_classes(spec)
        if others := other_code(code):
            raise StudyError(
                f"{', '.join(others)}: this worker has other code than the machine that started the study; "
                "give both the same files, and start worker and study again"
            )
        warm_up(spec)
        return play(spec)
    except MissingExtraError as error:
        return f"{error}\n"
    except Exception:
        return traceback.format_exc()


def _code(spec: RunSpec) -> tuple[list[str], dict[str, str]]:
    """What a worker needs to play a run with the code of this process."""
    use_folders(spec.folders)
    named: list[str] = []
    with contextlib.suppress(Exception):  # a library that is missing here may be there
        named = import_classes(spec)
    return [str(Path(path).absolute()) for path in sys.path], own_digests(named)


def _connect(address: str) -> None:
    """Find out whether anybody listens, without a Dask client: one that fails to connect may hang when collected."""
    scheme, _, place = address.rpartition("://")
    host, _, port = place.rpartition(":")
    if scheme == "inproc":
        return
    if scheme not in ("", "tcp", "tls") or not host or not (port.isascii() and port.isdecimal()):
        raise ValueError("it is no address such as tcp://host:8786")
    if int(port) > 65535:
        raise ValueError(f"there is no port {port}")
    socket.create_connection((host.strip("[]"), int(port)), CONNECT_SECONDS).close()
