"""What is refused because it is too long, too large or too much, and what is not."""

import gzip
import json
import random
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import quote

import pytest
from service.served import Served

from treebandit.service import api_decisions, bulk
from treebandit.service.app import OPERATIONS
from treebandit.service.deciding import DeployedAgent, hashed
from treebandit.service.entries import NewDecision
from treebandit.service.log import Group
from treebandit.service.openapi import document

DOCUMENT = document(OPERATIONS)
#: Four bytes in UTF-8.
RARE = "\U00020bb7"


@pytest.fixture
def store_served(url):
    with Served(url, learner="none") as made:
        made.make()
        yield made


def test_ids_slots_and_keys_that_are_taken_fit_the_index_of_the_store(store_served):
    served = store_served
    chance = random.Random(0)  # what repeats itself would be compressed
    id, slot, key = ("".join(chr(chance.randrange(0x4E00, 0x9FA5)) for _ in range(256)) for _ in range(3))
    served.decide(id, slots=[{"id": slot}])
    assert served.reward(quote(id), slot=slot, key=key)["status"] == "counted"
    refused = [
        served.decide(RARE * 193, status=400),
        served.decide(slots=[{"id": RARE * 193}], status=400),
        served.reward(quote(RARE * 193), status=400),
        served.reward("d", slot=RARE * 193, status=400),
        served.reward("d", key=RARE * 193, status=400),
        served.call("POST", f"/v1/bandits/shop/decisions/{quote(RARE * 193)}/activate", status=400),
    ]
    assert all("772 bytes in UTF-8; send at most 768" in each["error"]["message"] for each in refused)
    rank = {"eventId": RARE * 193, "actions": [{"id": "a"}]}
    served.call("POST", "/bandits/shop/personalizer/v1.0/rank", rank, 400)
    line = f'{{"id": "{RARE * 193}", "value": 1}}'
    assert "bytes" in str(served.call("POST", "/v1/bandits/shop/rewards", content=line, status=400))
    assert served.decide(RARE * 192)["id"] == RARE * 192


def test_no_name_ends_in_a_newline(store_served):
    served = store_served
    served.decide("d\n", status=400)
    for more in (
        {"arms": ["a", "b\n"]},
        {"arms": [{"name": "a\n"}]},
        {"subject": "me\n"},
        {"slots": [{"id": "s\n"}]},
        {"excluded": ["a\n"]},
    ):
        served.decide(status=400, **more)
    packed = {"content": gzip.compress(b'{"arms": ["a"]}'), "headers": {"Content-Encoding": "gzip"}}
    answer = served.call("POST", "/v1/bandits/shop/decisions", status=400, **packed)
    assert "the body is packed" in answer["error"]["message"]
    for more in ({"key": "k\n"}, {"slot": "s\n"}):
        served.reward("d", status=400, **more)
    served.reward("d%0A", status=404)  # no path has one
    served.call("POST", "/v1/bandits/shop/rewards", content=b'{"id": "d\\n", "value": 1}', status=400)
    action = {"actions": [{"id": "a\n"}]}
    served.call("POST", "/bandits/shop/personalizer/v1.0/rank", action, 400)
    # What older versions took can still be erased.
    new = NewDecision("old\n", b"{}", "a", 0.5, 0, False, 0, subject=hashed("me\n"))
    served.store.append_now(Group(served.store.bandit("shop").id, [new, new._replace(id="older\n")]))
    for which in ({"ids": ["old\n"]}, {"subject": "me\n"}):
        assert served.call("POST", "/v1/bandits/shop/erasures", which)["erased"] == 1
    served.call("POST", "/v1/bandits/shop/erasures", {"ids": ["old\n\n"]}, 400)


def test_patterns_of_the_document_have_no_newline_at_their_end():
    patterns = set(re.findall(r'"pattern":("(?:[^"\\]|\\.)*")', json.dumps(DOCUMENT, separators=(",", ":"))))
    assert len(patterns) > 3
    for pattern in map(json.loads, patterns):
        taken = "uniform" if "uniform" in pattern else "0a"
        assert re.search(pattern, taken), pattern
        assert not re.search(pattern, f"{taken}\n") or "\\n?" in pattern, pattern


def test_empty_objects_and_lists_are_features(served):
    served.make("empty")
    for empty in ({}, [], {"a": {}}):
        many = {f"f{number}": empty for number in range(2001)}
        for more in (
            {"context": many},
            {"context": {"x": list(many.values())}},
            {"arms": [{"name": "a", "features": many}]},
        ):
            assert "2000 features" in served.decide(name="empty", status=400, **more)["error"]["message"]


def test_texts_and_names_of_features_are_limited(served):
    served.make("texts")
    long = "x" * 10_001
    for more in (
        {"context": {"page": long}},
        {"context": {long: 1}},
        {"context": {"a": {"b": ["c", long]}}},
        {"arms": [{"name": "a", "features": {"page": long}}]},
        {"slots": [{"id": "top", "features": {"page": long}}]},
    ):
        said = served.decide(name="texts", status=400, **more)["error"]["message"]
        assert "10,001 characters" in said
        assert "at most 10,000" in said
    served.decide(name="texts", context={"page": long[1:]})


def test_arms_slots_and_features_are_limited_together(served):
    served.make("product")
    asked = {
        "arms": [{"name": f"a{number}", "features": {"p": number}} for number in range(1000)],
        "slots": [{"id": f"s{number}"} for number in range(100)],
        "context": {f"f{number}": number for number in range(100)},
    }
    said = served.decide(name="product", status=400, **asked)["error"]["message"]
    assert "10,100,000 features of all arms and slots; send fewer, at most 2,000,000" in said


def test_large_decisions_and_batches_are_made_outside_of_the_event_loop(served, monkeypatch):
    served.make("threads", agent={"class": "Uniform", "seed": 0})
    decide, threads = DeployedAgent.decide, []

    def watched(*given):
        threads.append(threading.current_thread())
        return decide(*given)

    monkeypatch.setattr(DeployedAgent, "decide", watched)
    wide = {"context": {f"f{number}": number for number in range(200)}}
    described = [{"name": f"a{number}", "features": {"p": number}} for number in range(10)]
    served.decide(name="threads")
    served.decide(name="threads", **wide)
    assert threads == [served.thread] * 2
    threads.clear()
    served.decide(name="threads", arms=described, **wide)
    served.decide(name="threads", arms=[f"a{number}" for number in range(400)])
    served.call("POST", "/v1/bandits/threads/decisions:batch", {"decisions": [{"arms": ["a"]}] * 50})
    assert len(threads) == 52
    assert served.thread not in threads


def test_nobody_else_waits_for_a_large_decision(served):
    served.make("waits")
    deployed = served.until(lambda: served.runtime._deployed.get("waits"))
    with ThreadPoolExecutor(10) as threads:
        with deployed.lock:  # as while another decides
            waiting = [threads.submit(served.decide, name="waits") for _ in range(10)]
            served.until(lambda: api_decisions._THREADS._work_queue.qsize())
            assert served.call("GET", "/health/live") == {"status": "ok"}
            assert served.call("GET", "/v1/bandits/waits")["name"] == "waits"
        assert len({each.result()["id"] for each in waiting}) == 10


def test_bad_lines_leave_others_their_turn_and_only_some_are_told(served, monkeypatch):
    served.make("lines")
    loop, decoded, turns, seen = served.runtime._loop, api_decisions.decoded, [0], set()
    going = True

    def turn():
        turns[0] += 1
        if going:
            loop.call_soon(turn)

    def watched(*given):
        seen.add(turns[0])
        return decoded(*given)

    monkeypatch.setattr(api_decisions, "decoded", watched)
    loop.call_soon_threadsafe(turn)
    content = b"\n".join([b"1,2"] * 20_000)
    try:
        reply = served.call("POST", "/v1/bandits/lines/rewards", content=content, status=400)
    finally:
        going = False
    assert len(seen) >= 20_000 / 500
    assert (reply["received"], reply["statuses"]) == (20_000, {})
    assert list(reply["errors"]) == [str(number) for number in range(1, 101)]


def test_lines_are_limited_in_length_and_number(served):
    served.make("long")
    served.decide("d", name="long")
    lines = [b'{"id": "d", "value": [' + b"1," * (1 << 19) + b"1]}", b"", b'{"id": "d", "value": 1}']
    reply = served.call("POST", "/v1/bandits/long/rewards", content=b"\n".join(lines))
    assert (reply["received"], reply["statuses"]) == (2, {"counted": 1})
    assert reply["errors"] == {"1": "the line is longer than 1,048,576 bytes"}
    refused = served.call("POST", "/v1/bandits/long/rewards", content=b"\n" * 1_000_001, status=413)
    assert "1,000,001 lines; send at most 1,000,000 at once" in refused["error"]["message"]


def test_all_lines_are_read_in_parts():
    data = b"\n".join(b"" if number % 7 == 0 else b"%d" % number for number in range(1, 2000))
    parts = list(bulk.lines_of(data))
    assert [int(each.data) for part in parts for each in part] == [n for n in range(1, 2000) if n % 7]
    assert all(each.number == int(each.data) for part in parts for each in part)
    assert max(map(len, parts)) <= 500
    assert [len(part) for part in bulk.lines_of(b"x" * (1 << 18) + b"\ny\n")] == [1, 1]
    assert [list(part) for part in bulk.lines_of(b"")] == [[]]


def test_a_batch_that_is_too_long_is_refused_before_it_is_read(served, monkeypatch):
    served.make("batch")
    threads = []
    monkeypatch.setattr(
        api_decisions,
        "decisions_of",
        lambda *given, **more: (
            threads.append(threading.current_thread()) or bulk.decisions_of(*given, **more)
        ),
    )
    path, one = "/v1/bandits/batch/decisions:batch", b'{"arms":["a"]}'
    for rest, what in ((one, "more than 1000 decisions"), (b"nonsense", "malformed")):
        content = b'{"decisions":[' + b",".join([one] * 1000 + [rest] + [b"nonsense"]) + b"]}"
        assert what in served.call("POST", path, content=content, status=400)["error"]["message"]
    assert served.thread not in threads
    place = served.store.bandit("batch").place
    long = {"arms": ["a"], "context": {"x": "y" * (1 << 20)}}
    assert (
        "decisions[1]"
        in served.call("POST", path, {"decisions": [{"arms": ["a"]}, long]}, 413)["error"]["message"]
    )
    for wrong, what in (
        ({"arms": [1]}, "`$.decisions[1].arms[0]`"),
        ({}, "arms"),
        ({"arms": ["a"], "more": 1}, "`$.decisions[1]`"),
        ({"arms": ["a"], "id": "#"}, "`$.decisions[1].id`"),
        (3, "`$.decisions[1]`"),
    ):
        refused = served.call("POST", path, {"decisions": [{"arms": ["a"]}, wrong]}, 400)
        assert what in refused["error"]["message"]
    for empty in ({"decisions": []}, {}, [], {"decisions": [{"arms": ["a"]}], "more": 1}):
        served.call("POST", path, empty, 400)
    assert served.store.bandit("batch").place == place
    assert len(served.call("POST", path, {"decisions": [{"arms": ["a"]}] * 1000})["decisions"]) == 1000
