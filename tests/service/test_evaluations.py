import numpy as np
import pytest
from service.served import Served
from service.shop import Shop

from treebandit.service import export, queries
from treebandit.service.jobs import EvaluationRequest, evaluated


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    with Served(f"sqlite:///{tmp_path_factory.mktemp('jobs')}/store.db") as made:
        made.make(agent={"class": "Uniform", "seed": 0}, floor=0.0)
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


def test_what_cannot_be_evaluated_is_told(served):
    path = "/v1/bandits/shop/evaluations"
    for wrong in ({}, {"policies": []}, {"policies": ["king"]}, {"policies": ["uniform"], "since": "x"}):
        served.call("POST", path, wrong, 400)
    served.call("GET", f"{path}/none", status=404)
    reply = done(served, policies=["version:999"])
    assert reply["state"] == "failed"
    assert "no model is kept" in reply["reason"]


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
