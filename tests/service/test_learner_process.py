import os
import signal
import threading
import time

from treebandit.service import learner_process
from treebandit.service.learner_process import LearnerProcess


def test_nobody_waits_for_a_process_that_does_not_read(monkeypatch):
    monkeypatch.setattr(learner_process, "_CODE", "print('[]', flush=True); import time; time.sleep(600)")
    told = threading.Event()
    monkeypatch.setattr(LearnerProcess, "_told", lambda self, what: told.set())
    process = LearnerProcess("sqlite:///none.db")
    process.start()
    assert told.wait(60)

    def wake():
        for _ in range(100_000):
            process._woken = 0.0
            process.wake()

    thread = threading.Thread(target=wake, daemon=True)
    thread.start()
    thread.join(60)
    hangs = thread.is_alive()
    process._stopped.set()
    os.kill(process.pid, signal.SIGKILL)
    started = time.monotonic()
    process.stop()
    assert time.monotonic() - started < 20
    assert not hangs
