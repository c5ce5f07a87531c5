import asyncio
import time

import httpx
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
    with pytest.raises(InputError, match="timeout"):
        Client("http://x", "shop", timeout=0)


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
