import asyncio
import re
import socket
import sqlite3
import threading
from pathlib import Path

import pytest
import uvicorn
from service.served import Served

from treebandit.service.serve import PatientProtocol, listening_socket


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    with Served(f"sqlite:///{tmp_path_factory.mktemp('serve')}/s.db", learner="none") as made:
        yield made


def test_answers_are_sent_at_once():
    """Else each answer waits for the caller to acknowledge its first part, 40 ms on Linux."""

    async def option() -> int:
        found: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        def connected(_, writer):
            asked = writer.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            found.set_result(asked)
            writer.close()

        server = await asyncio.start_server(connected, sock=listening_socket("127.0.0.1", 0))
        async with server:
            _, writer = await asyncio.open_connection(*server.sockets[0].getsockname()[:2])
            asked = await found
            writer.close()
        return asked

    assert asyncio.run(option()) != 0


HEAD = b"GET /health/live HTTP/1.1\r\nHost: 127.0.0.1\r\n"


def test_a_large_head_within_limits_is_read(served):
    lines = b"".join(b"x%d: %s\r\n" % (number, b"a" * 700) for number in range(80))
    with socket.create_connection(served.socket.getsockname(), 60) as made:
        made.sendall(HEAD + lines + b"\r\n")
        assert made.recv(1 << 16).startswith(b"HTTP/1.1 200 ")


class Wire:
    """A protocol without a network, whose timers are kept and never run."""

    def __init__(self, app):
        self.timers, self.written, self.closed = {}, b"", False
        config = uvicorn.Config(app, http=PatientProtocol, lifespan="off", log_config=None)
        self.loop = asyncio.get_running_loop()
        self.protocol = PatientProtocol(config, uvicorn.server.ServerState(), {}, self)
        self.protocol.connection_made(self)

    def call_later(self, seconds, work):
        handle = self.loop.call_later(1e6, work)
        self.timers[handle] = work.__name__
        return handle

    @property
    def running(self):
        return [name for handle, name in self.timers.items() if not handle.cancelled()]

    def create_task(self, work):
        return self.loop.create_task(work)

    def write(self, data):
        self.written += data

    def close(self):
        self.closed = True

    def is_closing(self):
        return self.closed

    def get_extra_info(self, name):
        return None

    def pause_reading(self):
        pass

    resume_reading = pause_reading


async def said_hello(scope, receive, send):
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"hi"})


@pytest.mark.parametrize(
    "head",
    [
        HEAD + b"".join(b"x%d: a\r\n" % number for number in range(100)),
        HEAD + b"x: " + b"a" * (64 << 10) + b"\r\n",
        b"GET /" + b"a" * (65 << 10),
        HEAD + b"".join(b"x%d: %s\r\n" % (number, b"a" * 1000) for number in range(66)),
    ],
)
def test_a_head_that_is_too_large_is_refused(head):
    async def written():
        wire = Wire(said_hello)
        wire.protocol.data_received(head + b"\r\n")
        return wire.closed, wire.written

    closed, found = asyncio.run(written())
    assert closed
    assert found.startswith(b"HTTP/1.1 431 ")
    assert b'"code":"TooLarge"' in found


def test_no_head_and_no_trailers_fill_the_memory():
    async def fed(*parts):
        wire = Wire(said_hello)
        for number, part in enumerate(parts):
            wire.protocol.data_received(part)
            if wire.closed:
                return number
        return None

    chunked = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    lines = [b"".join(b"y%d: a\r\n" % number for number in range(50))] * 100
    value = [b"a" * 1000] * 1000
    body = [b"3e8\r\n" + b"a" * 1000 + b"\r\n"] * 1000
    for parts in (
        [HEAD, *lines],
        [HEAD + b"x: ", *value],
        [HEAD, *value],
        [b"GET /", *value],
        [b"\r\n" * 500] * 1000,
        [chunked, *body[:200], b"0\r\n", *lines],
        [chunked, b"0\r\nx: ", *value],
        [chunked, b"3;x=", *value],
    ):
        stopped = asyncio.run(fed(*parts))
        assert stopped is not None, parts[:2]
        assert sum(map(len, parts[:stopped])) < (300 << 10)
    assert asyncio.run(fed(chunked, *body, b"0\r\nx: y\r\n\r\n")) is None


def test_the_time_for_a_head_begins_with_its_first_byte():
    async def watched():
        wire = Wire(said_hello)
        seen = [wire.running]
        for part in (HEAD, b"\r\n"):
            wire.protocol.data_received(part)
            seen.append(wire.running)
        while not wire.written.endswith(b"hi"):
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        seen.append(wire.running)
        wire.protocol.data_received(b"\r\n")
        seen.append(wire.running)
        wire.protocol.data_received(HEAD + b"\r\nG")
        seen.append(wire.running)
        return seen

    head, idle = ["_give_up"], ["timeout_keep_alive_handler"]
    assert asyncio.run(watched()) == [head, head, [], idle, head, head]


def test_an_answer_on_its_way_is_not_cut_off_by_the_next_head():
    async def watched():
        go = asyncio.Event()

        async def slow(scope, receive, send):
            await go.wait()
            await said_hello(scope, receive, send)

        wire = Wire(slow)
        wire.protocol.data_received(HEAD + b"\r\nG")
        await asyncio.sleep(0)
        wire.protocol._give_up()
        assert not wire.closed
        go.set()
        while not wire.written.endswith(b"hi"):
            await asyncio.sleep(0)
        wire.protocol._give_up()
        return wire.closed

    assert asyncio.run(watched())


def test_the_documented_backup_is_a_store_that_serves(tmp_path):
    page = (Path(__file__).parents[2] / "docs" / "deployment.md").read_text()
    (statement,) = re.findall(r'sqlite3 store\.db "(VACUUM INTO .*)"', page)
    ended, decided = threading.Event(), []

    def load():
        while not ended.is_set():
            decided.append(served.decide(f"d{len(decided)}")["id"])

    with Served(f"sqlite:///{tmp_path}/store.db") as served:
        served.make(wait=1.0)
        thread = threading.Thread(target=load)
        thread.start()
        served.until(lambda: len(decided) > 20)
        before = decided[-1]
        made = sqlite3.connect(tmp_path / "store.db")
        made.execute(statement.replace("copy.db", f"{tmp_path}/copy.db"))
        made.close()
        served.until(lambda: len(decided) > 60)
        ended.set()
        thread.join()
    for each in ("store.db", "store.db-wal", "store.db-shm"):
        (tmp_path / each).unlink(missing_ok=True)
    (tmp_path / "copy.db").rename(tmp_path / "store.db")
    with Served(f"sqlite:///{tmp_path}/store.db") as served:
        assert served.store.rows("PRAGMA integrity_check") == [("ok",)]
        decisions = served.store.bandit("shop").decisions
        served.decide(before)
        assert served.store.bandit("shop").decisions == decisions, "it is in the copy"
        assert served.reward(served.decide()["id"])["status"] == "counted"
        assert served.learned().t > 20
