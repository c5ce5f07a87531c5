import asyncio
import json
import logging
import socket
import threading
import time
from contextlib import ExitStack

import httpx
import pytest
from service.served import Served

from treebandit.errors import ParameterError
from treebandit.service import app, serve
from treebandit.service.access import is_loopback
from treebandit.service.config import BanditConfig, checked
from treebandit.service.failures import Failure
from treebandit.service.keys import KeyRing
from treebandit.service.logs import JsonFormatter
from treebandit.service.runtime import Limits, Runtime
from treebandit.service.serve import make_server
from treebandit.service.store import Store


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    return f"sqlite:///{tmp_path_factory.mktemp('access')}/store.db"


@pytest.fixture(scope="module")
def secrets(url):
    store = Store.open(url)
    ring = KeyRing(store)
    made = {role: ring.add(role, [role]) for role in ("decide", "reward", "read", "admin")}
    made["reader"] = ring.add("reader", ["read"], bandit="shop")
    made["one"] = ring.add("one", ["decide", "reward"], bandit="shop")
    store.close()
    return made


@pytest.fixture(scope="module")
def served(url, secrets):
    with Served(url, limits=Limits(seconds=2.0)) as made:
        made.http.headers["Authorization"] = f"Bearer {secrets['admin']}"
        made.make("shop")
        made.make("other")
        yield made


def status(served, method, path, secret, body=None, header="Authorization"):
    value = f"Bearer {secret}" if header == "Authorization" else secret
    headers = {"Authorization": "", header: value}
    return served.http.request(method, path, json=body, headers=headers).status_code


def test_each_role_may_do_its_own(served, secrets):
    decide = ("POST", "/v1/bandits/shop/decisions", {"arms": ["a"]})
    reward = ("POST", "/v1/bandits/shop/decisions/x/reward", {"value": 1})
    read = ("GET", "/v1/bandits/shop", None)
    admin = ("PATCH", "/v1/bandits/shop", {})
    calls = {"decide": decide, "reward": reward, "read": read, "admin": admin}
    for role in ("decide", "reward", "read", "admin"):
        for needed, (method, path, body) in calls.items():
            found = status(served, method, path, secrets[role], body)
            assert (found < 300) == (role in (needed, "admin")), (role, needed, found)
            assert found < 300 or found == 403


def test_a_key_of_one_bandit_is_good_for_it_only(served, secrets):
    assert status(served, "POST", "/v1/bandits/shop/decisions", secrets["one"], {"arms": ["a"]}) == 200
    assert status(served, "POST", "/v1/bandits/other/decisions", secrets["one"], {"arms": ["a"]}) == 403
    rank = {"actions": [{"id": "a", "features": []}]}
    header = "Ocp-Apim-Subscription-Key"
    assert status(served, "POST", "/personalizer/v1.0/rank", secrets["one"], rank, header) == 201
    assert status(served, "POST", "/personalizer/v1.0/rank", "wrong", rank, header) == 401
    found = served.http.get("/v1/bandits/shop/log").text
    assert len(found.splitlines()) >= 2


def test_a_key_of_one_bandit_sees_no_other(served, secrets):
    for name in ("shop", "other"):
        served.decide(name=name)

    def found(**headers):
        listed = served.call("GET", "/v1/bandits", headers=headers)["bandits"]
        served.until(lambda: "other" in served.runtime.rows())
        shown = served.http.get("/metrics", headers=headers).text
        of = {line.partition('bandit="')[2].partition('"')[0] for line in shown.splitlines()}
        assert "treebandit_http_requests_total" in shown
        return {each["name"] for each in listed}, of - {""}

    assert found() == ({"shop", "other"}, {"shop", "other"})
    limited = {"Authorization": f"Bearer {secrets['reader']}"}
    assert found(**limited) == ({"shop"}, {"shop"})


def test_what_is_wrong_with_a_bandit_is_told_to_those_who_see_it(served, secrets, monkeypatch):
    warnings = {Failure("model", "shop"): "ours", Failure("model", "other"): "theirs", Failure("disk"): "all"}
    monkeypatch.setattr(served.runtime, "_warnings", warnings)
    served.runtime.learner.failures[Failure("memory", "other")] = "SavedFileError: theirs"
    try:
        for _ in range(7):
            served.call("POST", "/v1/bandits/other/decisions", {"arms": []}, 400)
        served.call("POST", "/v1/bandits/none/decisions", {"arms": []}, 404)
        served.decide()
        limited = {"Authorization": f"Bearer {secrets['reader']}"}
        ready = served.http.get("/health/ready", headers=limited).json()
        assert ready["warnings"] == {"model of shop": "ours", "disk": "all"}
        assert "memory of other" in served.http.get("/health/ready").json()["warnings"]
        for secret in ("none", secrets["decide"]):
            told = served.http.get("/health/ready", headers={"Authorization": f"Bearer {secret}"})
            assert set(told.json()) == {"status"}
        board = served.call("GET", "/v1/bandits/shop/dashboard", headers=limited)
        assert "other" not in str(board["alerts"])
        assert "theirs" not in str(board)
        assert {each["kind"] for each in board["alerts"]} == {"service"}
        served.make("quiet")
        served.decide(name="quiet")
        quiet = served.call("GET", "/v1/bandits/quiet/dashboard")["latency"]
        assert [(each["operation"], each["requests"]) for each in quiet] == [("decide", 1)]
        theirs = served.call("GET", "/v1/bandits/other/dashboard")
        assert any(each["kind"] == "refused" and "7 requests" in each["says"] for each in theirs["alerts"])
        shown = served.http.get("/metrics", headers=limited).text
        assert 'bandit="other"' not in shown
        assert 'bandit="none"' not in served.http.get("/metrics").text
    finally:
        served.runtime.learner.failures.clear()
        served.http.delete("/v1/bandits/quiet")


def test_metrics_have_no_deleted_bandits(served):
    served.make("gone")
    shown = 'treebandit_log_place{bandit="gone"}'
    assert shown in served.http.get("/metrics").text
    served.call("DELETE", "/v1/bandits/gone", status=204)
    found = served.http.get("/metrics").text
    for name in ("log_place", "model_version", "rewards_skipped"):
        assert f'treebandit_{name}{{bandit="shop"}}' in found
        assert f'treebandit_{name}{{bandit="gone"}}' not in found


def test_unknown_keys_and_none(served):
    for headers in (
        {"Authorization": ""},
        {"Authorization": "Bearer nonsense"},
        {"Authorization": "Basic eDp5"},
    ):
        answer = served.http.get("/v1/bandits", headers=headers)
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"] == "Bearer"
    assert served.http.get("/health/live", headers={"Authorization": ""}).status_code == 200


def test_keys_are_hashed_named_once_and_removed(served, url, secrets):
    ring = KeyRing(served.store)
    stored = served.store.rows("SELECT hash FROM keys")
    assert all(secret not in str(stored) for secret in secrets.values())
    for name, roles, said in (
        ("admin", ["read"], "there is a key"),
        ("x", ["king"], "the role"),
        ("x", [], "role"),
        ("x y", ["read"], "name"),
    ):
        with pytest.raises(ParameterError, match=said):
            ring.add(name, roles)
    secret = ring.add("passing", ["read"])
    served.until(lambda: status(served, "GET", "/v1/bandits", secret) == 200)
    ring.remove("passing")
    served.until(lambda: status(served, "GET", "/v1/bandits", secret) == 401)
    with pytest.raises(ParameterError, match="no key"):
        ring.remove("passing")


def test_a_removed_key_is_useless_while_a_model_is_loaded(tmp_path, monkeypatch):
    loading, go_on, load = threading.Event(), threading.Event(), Runtime._loaded

    def slow(*given):
        loading.set()
        assert go_on.wait(60)
        return load(*given)

    with Served(f"sqlite:///{tmp_path}/store.db", learner="none") as served:
        ring = KeyRing(served.store)
        secret = ring.add("old", ["read"])
        served.store.put_bandit("first", lambda _: checked(BanditConfig()))
        monkeypatch.setattr(Runtime, "_loaded", slow)
        served.store.put_bandit("second", lambda _: checked(BanditConfig()))
        assert loading.wait(30)
        ring.remove("old")
        try:
            headers = {"X-Api-Key": secret}
            served.until(lambda: served.http.get("/v1/bandits", headers=headers).status_code == 401, 20)
        finally:
            go_on.set()


def test_without_keys_only_this_machine_is_served(tmp_path):
    store = Store.open(f"sqlite:///{tmp_path}/store.db")
    for host in ("0.0.0.0", "192.168.1.5", "::", "example.org"):
        with pytest.raises(ParameterError, match="this machine only"):
            make_server(store, host=host)
    assert all(map(is_loopback, ("127.0.0.1", "::1", "localhost", "127.8.8.8")))
    KeyRing(store).add("me", ["admin"])
    server = make_server(store, host="0.0.0.0")
    KeyRing(store).remove("me")
    server.config.app.runtime.keys.refresh()
    transport = httpx.ASGITransport(app=server.config.app)

    async def ask():
        async with httpx.AsyncClient(transport=transport, base_url="http://x") as http:
            return (await http.get("/v1/bandits")).status_code

    assert asyncio.run(ask()) == 401  # not open to all because the last key is gone
    store.close()


def test_a_store_that_has_had_a_key_is_never_open_again(tmp_path):
    url = f"sqlite:///{tmp_path}/store.db"
    with Served(url, learner="none") as served:
        served.make()
        ring = KeyRing(served.store)
        secret = ring.add("last", ["admin"])
        served.until(lambda: served.http.get("/v1/bandits").status_code == 401)
        ring.remove("last")
        served.until(lambda: status(served, "GET", "/v1/bandits", secret) == 401)
        assert not len(served.runtime.keys)
        served.call("DELETE", "/v1/bandits/shop", status=401)
    with Served(url, learner="none") as served:
        served.call("DELETE", "/v1/bandits/shop", status=401)
        secret = KeyRing(served.store).add("new", ["admin"])
        served.until(lambda: status(served, "DELETE", "/v1/bandits/shop", secret) == 204)


def test_without_keys_pages_of_other_sites_are_refused(tmp_path):
    with Served(f"sqlite:///{tmp_path}/store.db", learner="none") as served:
        served.make()
        own = served.url.removeprefix("http://")
        for headers, wanted in (
            ({"Origin": served.url}, 200),
            ({"Host": own.replace("127.0.0.1", "localhost")}, 200),
            ({"Origin": "https://example.org"}, 403),
            ({"Origin": "null"}, 403),
            ({"Host": "example.org"}, 403),
            ({"Host": own.replace("127.0.0.1", "10.1.1.1")}, 403),
            ({"Host": "[::1"}, 403),
            ({"Forwarded": "for=8.8.8.8"}, 403),
            ({"X-Forwarded-For": "8.8.8.8"}, 403),
            ({"X-Forwarded-Proto": "https"}, 403),
        ):
            answer = served.http.post("/v1/bandits/shop/decisions", json={"arms": ["a"]}, headers=headers)
            assert answer.status_code == wanted, (headers, answer.text)
            rank = served.http.post(
                "/personalizer/v1.0/rank", json={"actions": [{"id": "a"}]}, headers=headers
            )
            assert rank.status_code == (201 if wanted == 200 else wanted)


def test_rates(tmp_path):
    with Served(f"sqlite:///{tmp_path}/store.db", limits=Limits(rate=5.0)) as served:
        found = [served.http.get("/v1/bandits") for _ in range(30)]
        late = [each for each in found if each.status_code == 429]
        assert late
        assert int(late[0].headers["retry-after"]) >= 1
        assert late[0].json()["error"]["code"] == "TooManyRequests"
        time.sleep(1.2)
        assert served.http.get("/v1/bandits").status_code == 200


def _raw(served, data, wait):
    host, port = served.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=wait) as connection:
        connection.sendall(data)
        started = time.monotonic()
        found = b""
        try:
            while part := connection.recv(65536):
                found += part
        except TimeoutError:
            return found, None
        return found, time.monotonic() - started


def test_slow_clients_are_cut_off(served, secrets, monkeypatch):
    monkeypatch.setattr(serve, "_HEAD_SECONDS", 0.5)
    found, seconds = _raw(served, b"POST /v1/bandits HTTP/1.1\r\nHost: x\r\nX-Slow: ", 20)
    assert (found, seconds is not None) == (b"", True)
    found, seconds = _raw(served, b"", 20)
    assert seconds is not None
    head = (
        f"POST /v1/bandits/shop/decisions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {secrets['decide']}\r\n"
        "Content-Length: 50\r\n\r\n{"
    )
    found, seconds = _raw(served, head.encode(), 20)
    assert b" 408 " in found
    assert b'"code":"Timeout"' in found


def test_a_body_of_a_million_features_is_refused(served, secrets):
    body = json.dumps({"arms": ["a"], "context": {f"f{n}": n for n in range(1_000_000)}})
    answer = served.http.post("/v1/bandits/shop/decisions", content=body)
    assert answer.status_code == 413
    small = json.dumps({"arms": ["a"], "context": {"x": list(range(100_000))}})
    assert served.http.post("/v1/bandits/shop/decisions", content=small).status_code == 400


def test_faults_leave_no_trace_outside(served, monkeypatch, caplog):
    def fail(*_):
        raise ZeroDivisionError("secret detail")

    monkeypatch.setattr(served.runtime.store, "bandits", fail)
    answer = served.http.get("/v1/bandits", headers={"X-Request-Id": "look-here"})
    assert answer.status_code == 500
    assert "secret" not in answer.text
    assert answer.json()["request_id"] == "look-here"
    assert "ZeroDivisionError" in caplog.text


def test_logs_are_json_without_secrets():
    record = logging.makeLogRecord(
        {"msg": "hello %s", "args": ("you",), "bandit": "shop", "levelname": "INFO"}
    )
    line = json.loads(JsonFormatter().format(record))
    assert (line["message"], line["bandit"], line["level"]) == ("hello you", "shop", "info")


def test_requests_that_are_refused_take_no_place_from_others(tmp_path, monkeypatch):
    url = f"sqlite:///{tmp_path}/s.db"
    store = Store.open(url)
    secret = KeyRing(store).add("ops", ["admin"])
    store.close()
    discard, inside, go = app._Edge._discard_body, [], threading.Event()

    async def held(*given):
        inside.append(given)
        await asyncio.to_thread(go.wait)
        await discard(*given)

    monkeypatch.setattr(app._Edge, "_discard_body", held)
    monkeypatch.setattr(app, "_DISCARD_SECONDS", 0.0)
    head = b"POST /v1/bandits/shop/decisions HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n"
    with Served(url, limits=Limits(concurrency=2), learner="none") as served, ExitStack() as opened:
        opened.callback(go.set)
        served.http.headers["Authorization"] = f"Bearer {secret}"
        made = [
            opened.enter_context(socket.create_connection(served.socket.getsockname(), 60)) for _ in range(3)
        ]
        for each in made:
            each.sendall(head)
        served.until(lambda: len(inside) == 3)
        assert served.runtime.under_way == 0
        served.make("shop")
        served.decide()
        go.set()
        for each in made:
            found = b"".join(iter(lambda each=each: each.recv(1 << 16), b""))  # until it is closed
            assert b" 401 " in found
            assert b"connection: close" in found
        served.until(lambda: served.runtime.under_way == 0)
        served.runtime.under_way = 2
        assert served.call("GET", "/health/live")["status"] == "ok"
        assert served.call("GET", "/v1/bandits", status=503)["error"]["code"] == "Overloaded"
        served.runtime.under_way = 0
