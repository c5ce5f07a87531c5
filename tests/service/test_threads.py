"""A store that does not answer."""

import asyncio
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from service.served import Served

from treebandit.service import learner, threads
from treebandit.service.runtime import Limits
from treebandit.service.store import Store
from treebandit.service.threads import DaemonThreads, in_store

_ENDS = """
import asyncio, threading
from treebandit.errors import StoreError
from treebandit.service.threads import in_store
try:
    asyncio.run(in_store(0.1, threading.Event().wait))
except StoreError:
    print("told")
"""


def test_what_takes_too_long_is_told_and_the_process_can_end():
    run = subprocess.run([sys.executable, "-c", _ENDS], capture_output=True, text=True, timeout=60)
    assert run.stdout == "told\n", run.stderr


def test_threads_are_used_again_and_hand_over_what_they_raise():
    few = DaemonThreads(2, "few")

    async def many():
        names = [in_store(60.0, lambda: threading.current_thread().name, threads=few) for _ in range(50)]
        assert set(await asyncio.gather(*names)) <= {"few 1", "few 2"}
        with pytest.raises(ZeroDivisionError):
            await in_store(60.0, lambda: 1 / 0, threads=few)

    asyncio.run(many())


CALLS = [
    ("POST", "/v1/bandits/shop/decisions", {"id": "new", "arms": ["a", "b"]}),
    ("POST", "/v1/bandits/shop/decisions/d/activate", None),
    ("POST", "/v1/bandits/shop/decisions/d/reward", {"value": 1.0}),
    ("POST", "/v1/bandits/other/decisions", {"arms": ["a"]}),
    ("PUT", "/v1/bandits/other", {}),
    ("DELETE", "/v1/bandits/shop", None),
    ("POST", "/v1/bandits/shop/erasures", {"ids": ["d"]}),
    ("GET", "/v1/bandits", None),
    ("GET", "/v1/bandits/shop", None),
    ("GET", "/v1/bandits/shop/log", None),
    ("GET", "/v1/bandits/shop/dashboard", None),
    ("GET", "/v1/bandits/shop/model", None),
    ("GET", "/v1/bandits/shop/model/versions", None),
    ("POST", "/v1/bandits/shop/evaluations", {"policies": ["uniform"]}),
    ("GET", "/personalizer/v1.0/logs/properties", None),
    ("GET", "/health/ready", None),
]


def test_every_request_has_an_answer_where_the_store_has_none(tmp_path, monkeypatch):
    monkeypatch.setattr(threads, "_THREADS", DaemonThreads(16, "store"))
    monkeypatch.setattr(learner, "STOP_SECONDS", 0.5)
    awake = threading.Event()
    with Served(f"sqlite:///{tmp_path}/s.db", limits=Limits(seconds=0.5)) as served:
        served.make()
        served.decide("d", deferred=True)
        stop = served.runtime.writer.stop
        monkeypatch.setattr(served.runtime.writer, "stop", lambda: stop(0.5))
        for name in ("session", "append"):
            kept = getattr(Store, name)
            monkeypatch.setattr(Store, name, lambda *given, kept=kept: awake.wait() and kept(*given))

        def call(method, path, body):
            started = time.monotonic()
            status = served.http.request(method, path, json=body).status_code
            return path, status, time.monotonic() - started

        try:
            with ThreadPoolExecutor(len(CALLS)) as callers:
                answers = list(callers.map(call, *zip(*CALLS, strict=True)))
            assert {path: status for path, status, _ in answers if status != 503} == {}
            assert max(seconds for *_, seconds in answers) < 10
            assert served.http.get("/metrics").status_code == 200
            started = time.monotonic()
            served.server.should_exit = True
            served.thread.join(60)
            assert not served.thread.is_alive()
            assert time.monotonic() - started < 20
        finally:
            awake.set()
