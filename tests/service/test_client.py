import asyncio
import json
import socket
import threading
import time
from contextlib import suppress
from datetime import datetime
from decimal import Decimal

import httpx
import numpy as np
import pandas as pd
import pytest
from service.served import Served

from treebandit import AsyncClient, Client
from treebandit.errors import InputError, NoAnswerError, ServiceError


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    with Served(f"sqlite:///{tmp_path_factory.mktemp('client')}/store.db") as made:
        made.make("shop", aggregation="sum")
        yield made


def flaky(served, failures):
    """A transport that stores the request, and then loses the answer `failures` times."""
    inner = httpx.HTTPTransport()
    lost = [0]

    def handle(request):
        answer = inner.handle_request(request)
        answer.read()
        if lost[0] < failures:
            lost[0] += 1
            raise httpx.ReadError("lost")
        return httpx.Response(
            answer.status_code, content=answer.content, headers={"content-type": "application/json"}
        )

    return httpx.MockTransport(handle)


def test_decide_and_reward(served):
    with Client(served.url, "shop", timeout=10) as client:
        decision = client.decide({"age": 3}, ["a", {"name": "b", "features": {"price": 2.0}}], subject="me")
        assert decision.arm in ("a", "b")
        assert decision.probability == decision.probabilities[decision.arm]
        assert client.reward(decision, 1.0) == "counted"
        assert client.reward("unknown", 1.0) == "early"
        several = client.decide(None, ["a", "b", "c"], choose=2)
        assert len(several.arms) == 2
        assert client.reward(several, [1.0, 0.0]) == "counted"
        event = client.decide(None, ["a", "b"], slots=[{"id": "top"}, {"id": "side"}])
        assert sorted(event.slots) == ["side", "top"]
        assert client.reward(event, 1.0, slot="top") == "counted"
        later = client.decide(None, ["a"], deferred=True)
        client.activate(later)


def test_an_answer_that_is_lost_is_asked_for_again_with_the_same_id(served):
    before = served.call("GET", "/v1/bandits/shop")["decisions"]
    with Client(served.url, "shop", timeout=20, transport=flaky(served, 2)) as client:
        decision = client.decide({"age": 3}, ["a", "b"])
    assert served.call("GET", "/v1/bandits/shop")["decisions"] == before + 1
    with Client(served.url, "shop", timeout=20, transport=flaky(served, 2)) as client:
        assert client.reward(decision, 1.0) == "repeated"
    log = served.http.get("/v1/bandits/shop/log", params={"limit": 10_000}).text
    (line,) = (line for line in log.splitlines() if decision.id in line)
    assert '"reward":1.0' in line


def test_a_fallback_where_nobody_answers():
    with Client("http://127.0.0.1:9", "shop", timeout=0.2) as client:
        started = time.monotonic()
        decision = client.decide({"age": 3}, ["a", "b"], fallback="b")
        assert time.monotonic() - started < 2
        assert (decision.arm, decision.fallback) == ("b", True)
        assert client.reward(decision, 1.0) == "fallback"
        with pytest.raises(NoAnswerError, match=r"within 0\.2 seconds"):
            client.decide({"age": 3}, ["a", "b"])


def test_a_slow_service_is_not_waited_for():
    def slow(request):
        time.sleep(min(request.extensions["timeout"]["read"], 5))
        raise httpx.ReadTimeout("slow")

    with Client("http://nowhere", "shop", timeout=0.1, transport=httpx.MockTransport(slow)) as client:
        assert client.decide(None, ["a"], fallback="a").fallback


def test_faults_of_the_request_are_told_at_once(served):
    with Client(served.url, "shop", timeout=10) as client:
        with pytest.raises(ServiceError, match=r"offered twice.*\(400\)"):
            client.decide(None, ["a", "a"], fallback="a")
        client.bandit = "none"
        with pytest.raises(ServiceError, match=r"there is no bandit"):
            client.decide(None, ["a"])


@pytest.mark.parametrize("client", [Client, AsyncClient])
def test_settings_with_which_nothing_is_ever_answered_are_refused(client):
    for url in (
        "localhost:8787",
        "127.0.0.1",
        "",
        "ftp://x",
        "http://",
        "http://x:99999",
        "http://[::1",
        None,
    ):
        with pytest.raises(InputError, match=r"url is .*; give that of the service, such as http://"):
            client(url, "shop")
    for key in ("", "tb_from-a-file\n", " x", "clé", 5):
        with pytest.raises(InputError, match=r"the key is empty, .* `treebandit keys add`") as told:
            client("http://x", "shop", key=key)
        assert "from-a-file" not in str(told.value)
    wrong = {"timeout": (0, "1", None, float("inf"), float("nan")), "retries": (-1, "3", None, 1.5, 10**6)}
    for name, values in {**wrong, "bandit": (None, "", 5)}.items():
        for value in values:
            with pytest.raises(InputError, match=f"{name} is"):
                client("http://x", **{"bandit": "shop", name: value})


def test_arms_are_a_list(served):
    with Client(served.url, "shop", timeout=10) as client:
        for wrong in ("tea", b"tea", {"name": "tea"}, None, 5):
            with pytest.raises(
                InputError, match=r"arms are .*; give a list with a name, or a dict, for each"
            ):
                client.decide(None, wrong, fallback="tea")
        assert client.decide(None, (each for each in ("tea",))).arm == "tea"


def test_the_same_for_asyncio(served):
    async def run():
        async with AsyncClient(served.url, "shop", timeout=10) as client:
            decisions = await asyncio.gather(*(client.decide({"x": n}, ["a", "b"]) for n in range(20)))
            reply = await asyncio.gather(*(client.reward(each, 1.0) for each in decisions))
            later = await client.decide(None, ["a"], deferred=True)
            await client.activate(later)
            return reply

    assert set(asyncio.run(run())) == {"counted"}

    async def fail():
        async with AsyncClient("http://127.0.0.1:9", "shop", timeout=0.1) as client:
            assert (await client.decide(None, ["a"], fallback="a")).fallback
            with pytest.raises(NoAnswerError):
                await client.decide(None, ["a"])

    asyncio.run(fail())


def test_values_of_numpy_and_pandas_are_sent_as_json(served):
    def contexts():
        yield {"x": np.int64(3), "y": np.float32(0.5), "flag": np.bool_(True), "city": np.str_("rome")}
        yield {"x": float("nan"), "y": None, "flag": pd.NA, "city": "paris"}
        yield pd.Series({"x": 1, "city": "rome"})
        yield {"nested": {"values": np.array([1.0, 2.0]), 3: Decimal("1.5")}, "tags": ("a", np.str_("b"))}

    with Client(served.url, "shop", timeout=10) as client:
        for number, context in enumerate(contexts()):
            client.decide(context, np.array(["a", "b"]), id=f"numpy {number}", baseline=np.str_("a"))
        log = served.http.get("/v1/bandits/shop/log", params={"limit": 10_000}).text.splitlines()
        sent = [each["context"] for each in map(json.loads, log) if each["id"].startswith("numpy")]
        assert sent[0] == {"x": 3, "y": 0.5, "flag": True, "city": "rome"}
        assert sent[1] == {"x": None, "y": None, "flag": None, "city": "paris"}
        assert sent[2] == {"x": 1, "city": "rome"}
        assert sent[3] == {"nested": {"values": [1.0, 2.0], "3": 1.5}, "tags": ["a", "b"]}
        several = client.decide(None, ["a", "b", "c"], choose=np.int64(2))
        for value in (np.array([1.0, 0.0]), pd.Series([1, 2]), (1, 2), np.float32(1), np.int64(1), True):
            assert client.reward(several, value) == "counted"


def test_what_json_does_not_have_is_an_input_error():
    nested: list = []
    nested.append(nested)
    with Client("http://127.0.0.1:9", "shop", timeout=0.2) as client:
        for wrong in (float("inf"), np.float32("-inf"), datetime(2026, 1, 1), {1, 2}, object(), nested):
            with pytest.raises(InputError, match=r"context\['x'\]|too deeply"):
                client.decide({"x": wrong}, ["a"], fallback="a")
        with pytest.raises(InputError, match="key"):
            client.decide({("x", 1): 1}, ["a"], fallback="a")
        for wrong in (float("nan"), np.inf, "12", None, [[1.0]], {"a": 1}):
            with pytest.raises(InputError, match="reward"):
                client.reward("d", wrong)
        for wrong in (".", "..", "", 3):
            with pytest.raises(InputError, match="the id"):
                client.decide(None, ["a"], id=wrong, fallback="a")
            with pytest.raises(InputError, match="the id"):
                client.reward(wrong, 1.0)
            with pytest.raises(InputError, match="the id"):
                client.activate(wrong)


def test_ids_that_no_path_can_hold_are_refused(served):
    for id in (".", ".."):
        served.decide(id, status=400)
        served.call("POST", "/v1/bandits/shop/rewards", content=f'{{"id": "{id}", "value": 1}}', status=400)
        body = {"eventId": id, "actions": [{"id": "a"}]}
        served.call("POST", "/bandits/shop/personalizer/v1.0/rank", body, 400)
        assert served.call("POST", "/v1/bandits/shop/erasures", {"ids": [id]}) == {"erased": 0}
    served.decide("...", slots=[{"id": "."}])
    assert served.reward("...", slot=".")["status"] == "counted"


def answering(send):
    """The port of a server that answers each request by `send(connection)`."""
    listener = socket.create_server(("127.0.0.1", 0))

    def answer():
        with suppress(OSError):
            while True:
                connection = listener.accept()[0]
                threading.Thread(target=run, args=(connection,), daemon=True).start()

    def run(connection):
        with connection, suppress(OSError):
            connection.recv(1 << 16)
            send(connection)

    threading.Thread(target=answer, daemon=True).start()
    return listener


def http(status, body, *headers):
    lines = [f"HTTP/1.1 {status}", "connection: close", f"content-length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


GOOD = http("200 OK", b'{"id": "x", "arm": "a", "arms": ["a"]}')


def trickled(connection, start):
    connection.sendall(GOOD[:start])
    for place in range(start, len(GOOD)):
        connection.sendall(GOOD[place : place + 1])
        time.sleep(0.1)


def decided_by_both(listener, timeout):
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"

    async def run():
        async with AsyncClient(url, "shop", timeout=timeout) as client:
            return await client.decide(None, ["a", "b"], fallback="b")

    started = time.monotonic()
    with listener, Client(url, "shop", timeout=timeout) as client:
        found = [client.decide(None, ["a", "b"], fallback="b")]
        if not found[0].fallback:
            return found
        with pytest.raises(NoAnswerError):
            client.reward("d", 1.0)
        found.append(asyncio.run(run()))
    assert time.monotonic() - started < 3 * timeout + 2
    return found


@pytest.mark.parametrize("start", [0, len(GOOD) - 30])
def test_an_answer_that_trickles_is_not_waited_for(start):
    found = decided_by_both(answering(lambda connection: trickled(connection, start)), 0.3)
    assert [each.fallback for each in found] == [True, True]


@pytest.mark.parametrize(
    "sent",
    [
        http("200 OK", b"<html>maintenance</html>"),
        http("200 OK", b"[]"),
        http("200 OK", b'{"id": "x"}'),
        http("200 OK", b'{"id": "x", "slots": [3]}'),
        http("200 OK", b"abc", "content-encoding: gzip"),
        http("204 No Content", b""),
        http("500 Internal Server Error", b'{"error": {"code": "InternalError", "message": "x"}}'),
        http("503 Service Unavailable", b"busy"),
        b"no HTTP at all",
    ],
)
def test_what_is_no_answer_of_the_service_is_none(sent):
    found = decided_by_both(answering(lambda connection: connection.sendall(sent)), 2.0)
    assert [each.fallback for each in found] == [True, True]


def test_why_there_was_no_answer_is_told():
    listener = answering(lambda c: c.sendall(http("500 Oh", b'{"error": {"message": "a fault"}}')))
    client = Client(f"http://127.0.0.1:{listener.getsockname()[1]}", "shop")
    with listener, client, pytest.raises(NoAnswerError, match=r"a fault \(500\)"):
        client.decide(None, ["a"])
