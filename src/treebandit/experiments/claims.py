"""Who is at work on which run, so that two commands on one folder share the work."""

from __future__ import annotations

import json
import os
import socket
import time
from pathlib import Path

REFRESH_SECONDS = 10.0
STALE_SECONDS = 120.0


class Claims:
    """Files `.claims/<run id>` with host and process id of the command that plays a run.

    A claim lapses when its process is gone, or was not refreshed for two minutes (another machine's). Should
    two commands play the same run all the same, the later record replaces an equal one.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder / ".claims"
        self._folder.mkdir(parents=True, exist_ok=True)
        self._mine: set[str] = set()
        self._refreshed = time.monotonic()

    def take(self, run_id: str) -> bool:
        """Claim a run; false if another command has it."""
        path = self._folder / run_id
        for _ in range(2):
            try:
                handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
            except FileExistsError:
                if not _has_lapsed(path):
                    return False
                path.unlink(missing_ok=True)
                continue
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump({"host": socket.gethostname(), "pid": os.getpid()}, file)
            self._mine.add(run_id)
            return True
        return False

    def release(self, run_id: str) -> None:
        """Give a run up, finished or not."""
        self._mine.discard(run_id)
        (self._folder / run_id).unlink(missing_ok=True)

    def refresh(self) -> None:
        """Show other machines that the claims still stand."""
        if time.monotonic() - self._refreshed < REFRESH_SECONDS:
            return
        self._refreshed = time.monotonic()
        for run_id in self._mine:
            try:
                os.utime(self._folder / run_id)
            except FileNotFoundError:
                continue

    def close(self) -> None:
        """Give everything up."""
        for run_id in list(self._mine):
            self.release(run_id)


def _has_lapsed(path: Path) -> bool:
    try:
        age = time.time() - path.stat().st_mtime
        owner = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return True
    except ValueError:  # its owner is just writing it, or was killed while doing so
        return age > REFRESH_SECONDS
    if age > STALE_SECONDS:
        return True
    return bool(owner["host"] == socket.gethostname() and not _is_alive(int(owner["pid"])))


def _is_alive(pid: int) -> bool:
    if os.name != "posix":
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
