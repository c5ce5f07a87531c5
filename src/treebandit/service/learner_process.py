"""The learner in a process of its own, so that a rebuild takes no time from decisions; restarted where it dies.

The child gets the store's URL as its first line of input and one more line whenever the log has grown; it ends when
its input does, which is also when the parent has died. It tells how far it is in lines of JSON.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from treebandit.service.database import shown_url
from treebandit.service.failures import Failure, Failures

_log = logging.getLogger("treebandit.learner")
_CODE = "from treebandit.service.learner_process import main; main()"
_LONGEST_PAUSE = 10.0
_PROCESS = Failure("the learner's process")


class LearnerProcess:
    """Starts the child, wakes it, starts it again; has the face of `Learner`."""

    def __init__(
        self, url: str, *, published: Callable[[], None] = lambda: None, level: str = "warning"
    ) -> None:
        self._url, self._published, self._level = url, published, level
        self._child: subprocess.Popen[str] | None = None
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="learner watch", daemon=True)
        self._woken = 0.0
        self.failures: Failures = {}
        self.places: dict[str, int] = {}

    def start(self) -> None:
        """Start the child, and watch it."""
        self._thread.start()

    @property
    def pid(self) -> int | None:
        """Of the child."""
        return None if self._child is None else self._child.pid

    def wake(self) -> None:
        """The log has grown; notified at most twenty times a second, as each time wakes a process.

        A child that does not read has enough lines to wake it: nobody waits for it here.
        """
        now = time.monotonic()
        child = self._child
        if child is not None and child.stdin is not None and now - self._woken > 0.05:
            self._woken = now
            with contextlib.suppress(OSError, ValueError):
                os.write(child.stdin.fileno(), b"\n")

    def stop(self) -> None:
        """Let the child keep a checkpoint and end."""
        self._stopped.set()
        child = self._child
        if child is not None and child.stdin is not None:
            with contextlib.suppress(OSError, ValueError):
                child.stdin.close()
        if self._thread.ident is not None:
            self._thread.join(30.0)
        if child is not None and child.poll() is None:
            child.kill()

    def _watch(self) -> None:
        pause = 0.1
        while not self._stopped.is_set():
            started = time.monotonic()
            try:
                self._run()
            except OSError as error:
                self.failures[_PROCESS] = f"cannot be started: {error}"
            if self._stopped.is_set():
                return
            self.failures[_PROCESS] = "the learner's process has ended, and is started again"
            _log.warning("the learner's process has ended, and is started again")
            # One that dies at once is not started again at once.
            pause = 0.1 if time.monotonic() - started > 5.0 else min(2 * pause, _LONGEST_PAUSE)
            self._stopped.wait(pause)

    def _run(self) -> None:
        self._child = child = subprocess.Popen(
            [sys.executable, "-c", _CODE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        assert child.stdin is not None
        assert child.stdout is not None
        with contextlib.suppress(OSError, ValueError):
            child.stdin.write(json.dumps([self._url, self._level]) + "\n")
            child.stdin.flush()
            os.set_blocking(child.stdin.fileno(), False)
        for line in child.stdout:
            with contextlib.suppress(ValueError):
                self._told(json.loads(line))
        child.wait()

    def _told(self, what: dict[str, Any]) -> None:
        self.places = what["places"]
        self.failures = {Failure(*each): why for *each, why in what["failures"]}
        if what["published"]:
            self._published()


def main() -> None:
    """The child: learn until the input ends."""
    from treebandit.errors import StoreError
    from treebandit.service import logs
    from treebandit.service.learner import Learner
    from treebandit.service.store import Store

    url, level = json.loads(sys.stdin.readline())
    logs.set_up(level)
    # A rebuild may take all of a core: decisions go first.
    with contextlib.suppress(OSError):
        os.nice(5)
    ended = threading.Event()
    published = threading.Event()
    learners: list[Learner] = []

    def listen() -> None:
        for _ in sys.stdin:
            for each in learners:
                each.wake()
        ended.set()
        published.set()

    threading.Thread(target=listen, daemon=True).start()
    while not ended.is_set():
        try:
            store = Store.open(url)
        except StoreError as error:
            _tell({}, {Failure("the learner's store"): str(error)}, False)
            ended.wait(1.0)
            continue
        learner = Learner(store, published=published.set)
        learners.append(learner)
        learner.start()
        while not ended.is_set():
            new = published.wait(1.0)
            published.clear()
            _tell(learner.places, learner.failures, new)
        learner.stop()
        store.close()
    logging.getLogger("treebandit.learner").debug("the learner of %s ends", shown_url(url))


def _tell(places: dict[str, int], failures: Failures, published: bool) -> None:
    told = [[*each, why] for each, why in dict(failures).items()]
    with contextlib.suppress(OSError):
        print(json.dumps({"places": places, "failures": told, "published": published}), flush=True)
