"""Two replicas, and one that is cut off from the store."""

import os
import shutil
import sqlite3
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import httpx
import pytest
from service import faults
from service.conftest import _binaries
from service.served import Served

import treebandit
from treebandit.errors import StoreError
from treebandit.service import models, saved_agents
from treebandit.service.config import BanditConfig, build_agent, changed, checked
from treebandit.service.entries import decision_body
from treebandit.service.keys import KeyRing
from treebandit.service.models import Published
from treebandit.service.store import Store


def test_two_replicas_share_decisions_settings_and_models(url):
    with Served(url) as one, Served(url, learner="none") as two:
        one.make(floor=0.5)
        two.until(lambda: two.http.get("/v1/bandits/shop").status_code == 200)
        first = one.decide("d")
        assert two.decide("d") == {**first, "repeated": True}
        for number in range(30):
            (one, two)[number % 2].decide(f"d{number}", context={"x": float(number)})
            (two, one)[number % 2].reward(f"d{number}")
        one.learned()
        version = one.until(lambda: one.call("GET", "/v1/bandits/shop")["version"])
        two.until(lambda: two.decide()["version"] >= version)
        two.call("PATCH", "/v1/bandits/shop", {"mode": "apprentice"})
        # Online, no arm has more than 0.5 and its part of the floor.
        one.until(lambda: one.decide(baseline="b")["probability"] == 1.0)
        assert one.decide(baseline="c")["arm"] == "c"
        one.call("DELETE", "/v1/bandits/shop", status=204)
        two.until(
            lambda: two.http.post("/v1/bandits/shop/decisions", json={"arms": ["a"]}).status_code == 404
        )


def test_a_bandit_made_elsewhere_is_found_by_all_who_ask_at_once(tmp_path, monkeypatch):
    """Also by those who ask while somebody else's look at the store is under way, or fails."""
    url = f"sqlite:///{tmp_path}/store.db"
    with Served(url, learner="none") as one, Served(url, learner="none") as two:
        read, down = two.store.bandits, []

        def slow():
            time.sleep(0.1)
            if down:
                raise StoreError("the store is away")
            return read()

        monkeypatch.setattr(two.store, "bandits", slow)

        def ask(_):
            return two.http.post("/v1/bandits/shop/decisions", json={"arms": ["a"]}).status_code

        with ThreadPoolExecutor(8) as threads:
            assert set(threads.map(ask, range(16))) == {404}
            down.append(True)
            assert set(threads.map(ask, range(16))) == {503}
            down.clear()
            one.make()
            assert set(threads.map(ask, range(16))) == {200}


def test_a_replica_that_cannot_read_the_newest_model_stays_ready_and_says_so(tmp_path):
    with Served(f"sqlite:///{tmp_path}/store.db", learner="none") as served:
        served.make()
        served.until(lambda: served.http.get("/health/ready").status_code == 200, 240)
        row = served.store.bandit("shop")
        with served.store.session() as connection:
            models.publish(served.store, connection, row.id, b"of another version", Published(0, 1, 0))
        warnings = served.until(lambda: served.call("GET", "/health/ready").get("warnings"))
        assert "model of shop" in warnings
        assert served.decide()["version"] == 0
        served.call("PATCH", "/v1/bandits/shop", {"mode": "log-only", "aggregation": "sum"})
        assert served.decide("after", baseline="c")["arm"] == "c"
        logged = decision_body(served.store.about(row.id, ["after"])["after"][0].body)
        assert (logged.mode, logged.aggregation) == ("log-only", "sum")


def test_a_decision_has_the_settings_that_it_began_with(tmp_path, monkeypatch):
    """Also where these change between two of its slots."""
    before, after = {"mode": "online", "aggregation": "sum"}, {"mode": "log-only", "aggregation": "last"}
    with Served(f"sqlite:///{tmp_path}/store.db", learner="none") as served:
        served.make(agent={"class": "LinUCB"}, **before)
        decide, patched = treebandit.LinUCB.decide, []

        def patching(*given, **named):
            if not patched:
                patched.append(served.call("PATCH", "/v1/bandits/shop", after))
            return decide(*given, **named)

        monkeypatch.setattr(treebandit.LinUCB, "decide", patching)
        slots = [{"id": "1"}, {"id": "2"}, {"id": "3"}]
        asked = [{"id": id, "arms": list("abcd"), "slots": slots} for id in ("during", "after")]
        for each in asked:
            served.call("POST", "/v1/bandits/shop/decisions:batch", {"decisions": [each]})
        row = served.store.bandit("shop")
        for id, settings, policy in (("during", before, "agent"), ("after", after, "baseline")):
            about = served.store.about(row.id, [f"{id}#{slot['id']}" for slot in slots])
            bodies = [decision_body(found[0].body) for found in about.values()]
            wanted = (settings["mode"], settings["aggregation"], policy)
            assert [(each.mode, each.aggregation, each.policy) for each in bodies] == [wanted] * 3


def test_a_replica_that_starts_takes_the_newest_model_that_it_can_read_and_is_ready(tmp_path):
    url = f"sqlite:///{tmp_path}/store.db"
    store = Store.open(url)
    readable = build_agent(BanditConfig())
    readable.learn([{"x": 1.0}] * 3, [1.0, 0.0, 1.0], arms=["a", "b", "c"])
    kept = {
        "newest": [b"unreadable"],
        "older": [saved_agents.saved_bytes(readable, history=False), b"unreadable"],
    }
    for name, data in kept.items():
        row = store.put_bandit(name, lambda _: checked(BanditConfig()))[0]
        with store.session() as connection:
            for each in data:
                models.publish(store, connection, row.id, each, Published(0, 1, 0))
    store.close()
    with Served(url, learner="none") as served:
        served.until(lambda: served.http.get("/health/ready").status_code == 200, 240)
        warnings = served.call("GET", "/health/ready")["warnings"]
        assert "learned nothing" in warnings["model of newest"]
        assert "learned nothing" not in warnings["model of older"]
        assert served.decide(name="newest")["version"] == 0
        assert served.decide(name="older")["version"] == 1
        row = served.store.bandit("older")
        with served.store.session() as connection:
            models.publish(served.store, connection, row.id, kept["older"][0], Published(0, 1, 0))
        served.until(lambda: served.decide(name="older")["version"] == 3)
        assert list(served.call("GET", "/health/ready")["warnings"]) == ["model of newest"]


def test_a_bandit_that_cannot_be_loaded_stops_neither_keys_nor_other_bandits(tmp_path, monkeypatch):
    with Served(f"sqlite:///{tmp_path}/store.db", learner="none") as served:
        ring = KeyRing(served.store)
        served.http.headers["X-Api-Key"], removed = ring.add("ops", ["admin"]), ring.add("removed", ["read"])
        served.make()
        served.make("full")
        served.until(lambda: served.http.get("/health/ready").status_code == 200, 240)
        # A replica of a later version makes two bandits that this one cannot know.
        served.store.put_bandit("agent", lambda _: BanditConfig(agent={"class": "NextYearsAgent"}))
        row = served.store.put_bandit("another", lambda _: checked(BanditConfig()))[0]
        later = b'{"setting_of_a_later_version": 1}'
        served.store.write(
            lambda connection: connection.rows(
                "UPDATE bandits SET config = ? WHERE name = ?", (later, row.name)
            )
        )

        def fail(data, **_):
            raise OSError("no space left")

        monkeypatch.setattr(models, "loaded", fail)
        with served.store.session() as connection:
            full = served.store.bandit("full").id
            models.publish(served.store, connection, full, b"a model", Published(0, 1, 0))
        other = Store.open(f"sqlite:///{tmp_path}/store.db")
        other.put_bandit("shop", lambda before: changed(before, {"mode": "apprentice"}))
        KeyRing(other).remove("removed")
        other.close()
        served.until(
            lambda: served.http.get("/v1/bandits", headers={"X-Api-Key": removed}).status_code == 401
        )
        served.until(lambda: served.decide(baseline="c")["probability"] == 1.0)
        assert served.decide(name="full")["version"] == 0
        warnings = served.call("GET", "/health/ready")["warnings"]
        assert "NextYearsAgent" in warnings["model of agent"]
        assert "no space left" in warnings["model of full"]
        assert "'another'" in warnings["settings of another"]
        for name in ("agent", "another"):
            assert served.decide(name=name, status=503)["error"]["code"] == "BanditUnavailable"
        served.decide(name="never made", status=404)
        served.call("DELETE", "/v1/bandits/agent", status=204)
        assert "model of agent" not in served.call("GET", "/health/ready")["warnings"]


def test_replicas_draw_numbers_of_their_own(tmp_path):
    url = f"sqlite:///{tmp_path}/store.db"
    with Served(url, learner="none") as one, Served(url, learner="none") as two:
        one.make(agent={"class": "Uniform", "seed": 1}, floor=0.0)
        two.until(lambda: two.http.get("/v1/bandits/shop").status_code == 200)
        arms = [f"a{n}" for n in range(10)]
        both = [[each.decide(arms=arms)["arm"] for _ in range(12)] for each in (one, two)]
        assert both[0] != both[1]


@pytest.fixture
def namespace():
    """A network namespace that reaches this machine as 10.77.0.1 and its database as 10.77.1.1."""
    if os.getuid() != 0 or shutil.which("ip") is None:
        pytest.skip("network namespaces need root and ip")
    name = f"tb{os.getpid()}"
    commands = [
        f"ip netns add {name}",
        f"ip link add {name}a type veth peer name {name}b",
        f"ip link set {name}b netns {name}",
        f"ip addr add 10.77.0.1/24 dev {name}a",
        f"ip addr add 10.77.1.1/24 dev {name}a",
        f"ip link set {name}a up",
        f"ip -n {name} addr add 10.77.0.2/24 dev {name}b",
        f"ip -n {name} addr add 10.77.1.2/24 dev {name}b",
        f"ip -n {name} link set {name}b up",
        f"ip -n {name} link set lo up",
    ]
    try:
        for command in commands:
            subprocess.run(command.split(), check=True, capture_output=True)
        yield name
    except subprocess.CalledProcessError as error:
        pytest.skip(f"no network namespace can be made: {error.stderr.decode()}")
    finally:
        for command in (f"ip link del {name}a", f"ip netns del {name}"):
            subprocess.run(command.split(), check=False, capture_output=True)


class Inside(faults.Process):
    """A replica in a network namespace."""

    def __init__(self, namespace, store, log):
        self.namespace = namespace
        super().__init__(store, learner="none", log=log, host="10.77.0.2")
        self.url = f"http://10.77.0.2:{self.port}"

    def start(self):
        command = ["ip", "netns", "exec", self.namespace, sys.executable, "-c", faults._CODE, "serve"]
        self.process = subprocess.Popen([*command, *self.options], stdout=self.log, stderr=self.log)


@pytest.mark.slow
def test_a_replica_cut_off_from_its_store_answers_503_and_nothing_else(namespace, tmp_path):
    if _binaries() is None:
        pytest.skip("no PostgreSQL binaries (initdb, pg_ctl) on this machine")
    cluster = faults.Cluster(port=faults.free_port(), network="10.77.0.0/16")
    try:
        here = cluster.new()
        store = Store.open(here)
        key = KeyRing(store).add("me", ["admin"])
        headers = {"Authorization": f"Bearer {key}"}
        replica = Inside(namespace, here.replace("127.0.0.1", "10.77.1.1"), tmp_path / "log")
        try:
            replica.wait_ready()
            with httpx.Client(base_url=replica.url, headers=headers, timeout=60) as http:
                http.put("/v1/bandits/shop", json={}).raise_for_status()
                path, body = "/v1/bandits/shop/decisions", {"arms": ["a", "b"]}
                assert http.post(path, json={**body, "id": "before"}).status_code == 200
                cut = f"ip -n {namespace} route add blackhole 10.77.1.1/32"
                subprocess.run(cut.split(), check=True)
                refused = []
                for number in range(3):
                    answer = http.post(path, json={**body, "id": f"cut-{number}"})
                    refused.append((answer.status_code, answer.json()["error"]["code"]))
                assert set(refused) == {(503, "StoreUnavailable")}
                assert http.get("/health/ready").status_code == 503
                assert http.get("/health/live").status_code == 200
                subprocess.run(cut.replace(" add ", " del ").split(), check=True)
                deadline = time.monotonic() + 60
                while http.post(path, json={**body, "id": "after"}).status_code != 200:
                    assert time.monotonic() < deadline
                    time.sleep(0.2)
            ids = {
                entry.decision for entry in store.entries(store.bandit("shop").id, 0, 100) if entry.decision
            }
            assert {"before", "after"} <= ids
            assert not ids & {f"cut-{number}" for number in range(3)}
            store.close()
        finally:
            with suppress(ProcessLookupError):
                replica.stop()
    finally:
        cluster.remove()


def test_a_store_that_can_be_read_and_not_written_is_a_warning(tmp_path, monkeypatch, caplog):
    with Served(f"sqlite:///{tmp_path}/store.db", learner="none") as served:
        served.make()
        served.until(lambda: served.http.get("/health/ready").status_code == 200, 240)

        def full(*_):
            raise sqlite3.OperationalError("database or disk is full")

        with monkeypatch.context() as patch:
            patch.setattr(served.store, "append", full)
            for _ in range(3):
                assert "disk is full" in served.decide(status=503)["error"]["message"]
            assert (
                "cannot be written: database or disk"
                in served.call("GET", "/health/ready")["warnings"]["log"]
            )
            alerts = served.call("GET", "/v1/bandits/shop/dashboard")["alerts"]
            assert "database or disk is full" in alerts[0]["says"]
        assert [each.levelname for each in caplog.records if "disk is full" in each.getMessage()] == [
            "WARNING"
        ]
        served.decide()
        assert served.call("GET", "/health/ready") == {"status": "ok"}
