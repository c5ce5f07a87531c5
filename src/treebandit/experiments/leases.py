"""Leases on runs, so that several commands on one folder share the work."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import time
from pathlib import Path

from treebandit.files import locked

REFRESH_SECONDS = 10.0
STALE_SECONDS = 120.0


class Leases:
    """Files `.leases/<run id>` with host and process id of the command that plays a run.

    A lease lapses when its process is gone, or when it was not refreshed for two minutes. Files dated in the
    future and files that nobody can read lapse as well, once they have been watched without a change for that
    long. Should two commands play the same run all the same, the later record replaces an equal one.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder / ".leases"
        self._folder.mkdir(parents=True, exist_ok=True)
        self._mine: set[str] = set()
        self._refreshed = time.monotonic()
        self._watched: dict[str, tuple[int, float]] = {}

    def acquire(self, run_id: str) -> bool:
        """Take the lease of a run; false if another command has it."""
        path = self._folder / run_id
        for _ in range(2):
            try:
                handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
            except FileExistsError:
                if not self._remove_lapsed(path):
                    return False
                continue
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump({"host": socket.gethostname(), "pid": os.getpid()}, file)
            self._mine.add(run_id)
            return True
        return False

    def release(self, run_id: str) -> None:
        """Give up the lease of a run, finished or not."""
        self._mine.discard(run_id)
        (self._folder / run_id).unlink(missing_ok=True)

    def refresh(self) -> None:
        """Show other commands that the leases are in use."""
        if time.monotonic() - self._refreshed < REFRESH_SECONDS:
            return
        self._refreshed = time.monotonic()
        for run_id in self._mine:
            with contextlib.suppress(FileNotFoundError):
                os.utime(self._folder / run_id)

    def close(self) -> None:
        """Give up all leases."""
        for run_id in list(self._mine):
            self.release(run_id)

    def _remove_lapsed(self, path: Path) -> bool:
        # One command at a time, or a slow one would remove the lease that a quicker one has just taken.
        with locked(self._folder):
            try:
                lapsed = self._has_lapsed(path.name, path.stat().st_mtime_ns, path.read_bytes())
            except FileNotFoundError:
                return True
            if lapsed:
                path.unlink(missing_ok=True)
            return lapsed

    def _has_lapsed(self, name: str, changed: int, content: bytes) -> bool:
        limit = STALE_SECONDS
        try:
            owner = json.loads(content)
            host, pid = str(owner["host"]), int(owner["pid"])
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
            limit = REFRESH_SECONDS  # its owner is just writing it, or was killed while doing so
        else:
            if host == socket.gethostname() and not _is_alive(pid):
                return True
        age = time.time() - changed / 1e9
        if age > limit:
            return True
        # Clocks of two machines may differ, so time without a change counts from when it was first seen.
        seen, since = self._watched.get(name, (None, 0.0))
        if seen != changed:
            self._watched[name] = changed, time.monotonic()
            return False
        return time.monotonic() - since > limit


def _is_alive(pid: int) -> bool:
    if os.name != "posix":
        return True
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return pid > 0
