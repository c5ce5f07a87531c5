import os
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from service.served import Served
from service.shop import Shop

from treebandit.errors import InputError
from treebandit.service import export, jobs, models, queries
from treebandit.service.jobs import EvaluationRequest, evaluated
from treebandit.service.learner import BanditLearner
from treebandit.service.runtime import Limits
from treebandit.service.store import Store


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    with Served(f"sqlite:///{tmp_path_factory.mktemp('jobs')}/store.db") as made:
        made.make(agent={"class": "Uniform", "seed": 0}, floor=0.0, reward_default=None)
        for number in range(120):
            reply = made.decide(f"d{number}", context={"x": float(number % 5)})
            made.reward(f"d{number}", float(reply["arm"] == "a"))
        made.learned()
        yield made


def done(served, **asked):
    job = served.call("POST", "/v1/bandits/shop/evaluations", asked, 202)
    path = f"/v1/bandits/shop/evaluations/{job['id']}"
    return served.until(lambda: (reply := served.call("GET", path))["state"] != "running" and reply, 240)


def test_policies_are_evaluated_on_the_log(served):
    reply = done(served, policies=["uniform", "arm:a", "arm:b"], estimators=["ips", "snips"])
    assert reply["state"] == "done", reply
    assert {"uniform", "arm:a", "arm:b"} <= set(str(reply["result"]).replace("'", " ").split())
    listed = served.call("GET", "/v1/bandits/shop/evaluations")["evaluations"]
    assert listed[0]["id"] == reply["id"]
    assert "result" not in listed[0]


def test_what_cannot_be_evaluated_is_told(served, monkeypatch):
    path = "/v1/bandits/shop/evaluations"
    for wrong in ({}, {"policies": []}, {"policies": ["king"]}, {"policies": ["uniform"], "since": "x"}):
        served.call("POST", path, wrong, 400)
    for more, says in (
        ({"estimators": ["ips", "crystal-ball"]}, "'crystal-ball' is not known; give some of ips"),
        ({"estimators": ["ips"] * 9}, "length <= 8"),
        ({"estimators": ["x" * 1000]}, "length <= 100"),
        ({"level": 0.99999}, "<= 0.9999"),
        ({"missing_reward": 1e31}, "<= 1e+30"),
        ({"policies": ["arm:"]}, "give uniform, logging, agent, arm:NAME or version:N"),
        ({"policies": ["agent\n"]}, "give uniform, logging, agent, arm:NAME or version:N"),
        ({"policies": ["version:-1"]}, "give uniform, logging, agent, arm:NAME or version:N"),
        (
            {"policies": ["uniform", "version:999"]},
            "no model is kept for 'version:999'; versions are listed at",
        ),
        ({"policies": {"uniform": "uniform"}}, "Expected `array`, got `object` - at `$.policies`"),
    ):
        error = served.call("POST", path, {"policies": ["uniform"], **more}, 400)["error"]
        assert says in error["message"]
    served.call("GET", f"{path}/none", status=404)
    monkeypatch.setattr(models, "kept", lambda store, bandit: {999: 0})  # and is gone when its turn comes
    reply = done(served, policies=["version:999"])
    assert reply["state"] == "failed"
    assert "no model is kept" in reply["reason"]


_SLOW = """
import json, pathlib, sys, time
pathlib.Path(json.loads(sys.stdin.read())[3], "part").write_text("a context")
time.sleep(3600)
"""


def test_a_stop_fails_all_evaluations_and_leaves_no_files(tmp_path, monkeypatch):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    monkeypatch.setattr(jobs, "_CODE", _SLOW)
    url = f"sqlite:///{tmp_path}/store.db"
    with Served(url, learner="none") as served:
        served.make()
        path = "/v1/bandits/shop/evaluations"
        asked = [served.call("POST", path, {"policies": ["uniform"]}, 202)["id"] for _ in range(3)]
        served.until(lambda: list(scratch.glob("treebandit-job-*/part")))
    assert not list(scratch.iterdir())
    store = Store.open(url)
    for number in asked:
        (found,) = jobs.find(store, store.bandit("shop"), number)
        assert (found.state, found.reason) == ("failed", "the service was stopped")
    store.close()


def test_evaluations_that_wait_are_limited(tmp_path, monkeypatch):
    monkeypatch.setattr(jobs, "_CODE", "import sys, time; sys.stdin.read(); time.sleep(0.5)")
    path = "/v1/bandits/shop/evaluations"
    with Served(f"sqlite:///{tmp_path}/store.db", learner="none", limits=Limits(evaluations=3)) as served:
        served.make()

        def ask(_):
            return served.http.post(path, json={"policies": ["uniform"]})

        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(ask, range(8)))
        assert Counter(each.status_code for each in answers) == {202: 3, 429: 5}
        refused = next(each for each in answers if each.status_code == 429)
        assert refused.json()["error"]["code"] == "TooManyEvaluations"
        assert refused.headers["Retry-After"]
        assert len(served.call("GET", path)["evaluations"]) == 3
        served.until(lambda: ask(None).status_code == 202)


def test_folders_of_killed_processes_are_removed_and_those_in_use_are_not(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    killed, young, other = (tmp_path / name for name in ("treebandit-job-1", "treebandit-job-2", "job-3"))
    for folder in (killed, young, other):
        folder.mkdir()
        (folder / "part").write_text("a context")
    with jobs.scratch_folder() as (used, _):
        for folder in (killed, other, used):
            os.utime(folder, (0, 0))
        jobs.sweep()
        assert sorted(tmp_path.iterdir()) == sorted([young, other, used])
    assert not used.exists()


def test_an_evaluation_without_room_for_its_files_has_failed(tmp_path, monkeypatch):
    """Where there is no folder to write to, the service starts and decides all the same."""

    def full():
        raise FileNotFoundError("no usable temporary directory")

    monkeypatch.setattr(tempfile, "gettempdir", full)
    with Served(f"sqlite:///{tmp_path}/store.db", learner="none") as served:
        served.make()
        served.decide()
        path = "/v1/bandits/shop/evaluations"
        job = served.call("POST", path, {"policies": ["uniform"]}, 202)["id"]
        found = served.until(
            lambda: (each := served.call("GET", f"{path}/{job}"))["state"] != "running" and each
        )
    assert (found["state"], found["reason"]) == ("failed", "it could not run: no usable temporary directory")


def test_an_evaluation_of_a_machine_that_died_is_lost(store):
    """Also where nothing was logged since: it is the wall's clock that tells."""
    shop = Shop(store)
    job = "INSERT INTO jobs (id, bandit, state, created, request) VALUES ('j', ?, 'running', ?, ?)"
    created = shop.row.time
    store.write(lambda connection: connection.rows(job, (shop.row.id, created, b"{}")))
    (found,) = jobs.find(store, shop.now, "j")
    assert found.state == "running"
    later = Store(store.database, store.url)
    connect = store.database.connect

    def tomorrow():
        made = connect()
        made.wall = lambda: created + 86_400_000_000
        return made

    later.database.connect = tomorrow
    (found,) = jobs.find(later, shop.now, "j")
    assert found.state == "lost"
    del later.database.connect


def judged(shop, folder, *policies):
    folder.mkdir()
    asked = EvaluationRequest(policies=list(policies), estimators=["ips"])
    found = evaluated(shop.store, shop.now, asked, folder)
    return {each["policy"]: each for each in found["policies"]}, found


def filled(shop, count, start=0):
    """Decisions at random, of which one in five has a reward of 1, at once."""
    for number in range(start, start + count):
        arm = int(shop.random.integers(3))
        row = {"x": float(shop.random.normal())}
        shop.decide(f"d{number}", arm=arm, context=row, probability=1 / 3, probabilities=[1 / 3] * 3)
        if number % 5 == 0:
            shop.reward(f"d{number}", 1.0)


def test_only_decisions_with_a_final_reward_are_evaluated(sqlite, tmp_path):
    shop = Shop(sqlite, wait=3600.0)
    filled(shop, 200)
    with pytest.raises(InputError, match="200 whose wait is not over"):
        judged(shop, tmp_path / "1", "logging")
    shop.wait(4000)
    filled(shop, 50, 200)
    lines, found = judged(shop, tmp_path / "2", "logging")
    assert lines["logging"]["estimates"]["ips"]["value"] == pytest.approx(0.2)
    assert found["used"] == 200
    assert "50 decisions whose reward is not final are left out." in found["notes"]
    closed, _ = export.records(sqlite, shop.now, closed=True)
    assert len(closed) == 200
    assert len(export.records(sqlite, shop.now)[0]) == 250


def test_without_a_default_the_first_reward_is_final(sqlite):
    shop = Shop(sqlite, wait=3600.0, reward_default=None)
    filled(shop, 20)
    assert len(export.records(sqlite, shop.now, closed=True)[0]) == 4
    summing = Shop(sqlite, wait=3600.0, reward_default=None, aggregation="sum")
    assert summing.row.config.aggregation == "sum"
    filled(summing, 20, 100)
    assert len(export.records(sqlite, summing.now, closed=True)[0]) == 4


def test_a_model_is_judged_only_on_what_it_has_not_learned(sqlite, tmp_path):
    shop = Shop(sqlite, agent={"class": "LinUCB", "seed": 0})
    filled(shop, 150)
    shop.wait(20)
    session = sqlite.database.learner_session()
    learner = BanditLearner(sqlite, session, shop.now)
    learner.publish()
    session.close()
    learned = models.newest(sqlite, shop.row.id, "snapshot").place
    lines, found = judged(shop, tmp_path / "1", "uniform", "agent")
    assert (lines["uniform"]["used"], found["used"]) == (150, 150)
    assert not lines["agent"]["enough_evidence"]
    assert "after what it has learned" in lines["agent"]["reason"]
    assert str(tmp_path) not in str(found)
    with pytest.raises(InputError, match="after what it has learned"):
        judged(shop, tmp_path / "2", "version:1")
    filled(shop, 400, 150)
    shop.wait(20)
    lines, found = judged(shop, tmp_path / "3", "uniform", "agent", "version:1")
    assert (lines["uniform"]["used"], lines["agent"]["used"]) == (550, 400)
    assert lines["agent"]["learned"] == lines["version:1"]["learned"] == learned
    assert lines["agent"]["estimates"] == lines["version:1"]["estimates"] != {}
    assert any(note.startswith("agent, version:1: a model is judged") for note in found["notes"])


def test_the_log_can_be_asked_for_final_rewards(served):
    path = "/v1/bandits/shop/log?closed="
    assert len(served.http.get(f"{path}true").text.splitlines()) == 120
    served.decide("open")
    assert len(served.http.get(f"{path}true").text.splitlines()) == 120
    assert len(served.http.get(f"{path}false").text.splitlines()) == 121
    served.call("GET", f"{path}maybe", status=400)


def test_decisions_of_several_arms_are_evaluated_whatever_their_rewards_are(sqlite, tmp_path):
    shop = Shop(sqlite)
    random = np.random.default_rng(0)
    for number in range(90):
        chosen = random.choice(3, 2, replace=False).tolist()
        shop.decide(f"d{number}", chosen=chosen, probability=1 / 3, probabilities=[2 / 3] * 3)
        if number % 3 < 2:
            shop.reward(f"d{number}", [1.0, 0.0] if number % 3 else 1.0)
    shop.wait(20)
    records = export.records(sqlite, shop.now)[0]
    assert [each["rewards"] for each in records[:3]] == [[1.0, 1.0], [1.0, 0.0], [0.0, 0.0]]
    assert [each["reward"] for each in records[:3]] == [2.0, 1.0, 0.0]
    learned = [
        value for each in sorted(records, key=lambda each: not each["reward"]) for value in each["rewards"]
    ]
    assert shop.learned() == learned
    found = evaluated(sqlite, shop.now, EvaluationRequest(policies=["uniform"], estimators=["ips"]), tmp_path)
    assert found["mean_reward"] == pytest.approx(1.0)
    cells = queries.cells(sqlite, shop.now, queries.Window(0, 1 << 62), 1 << 62)
    assert sum(cell.total for cell in cells) == sum(each["reward"] for each in records)
