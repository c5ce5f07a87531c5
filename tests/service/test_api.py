import io
import json

import polars as pl
import pytest

import treebandit
from treebandit.service import models, saved_agents
from treebandit.service.fold import Fold


@pytest.fixture
def shop(served, request):
    name = request.node.name.replace("[", "-").replace("]", "")[:90]
    served.make(name)
    return name


def test_a_decision_tells_what_was_chosen_and_how_probably(served, shop):
    reply = served.decide(name=shop)
    assert reply["arm"] in ("a", "b", "c")
    assert reply["arms"] == [reply["arm"]]
    assert reply["probability"] == reply["probabilities"][reply["arm"]]
    assert sum(reply["probabilities"].values()) == pytest.approx(1.0)
    assert (reply["version"], reply["holdout"], reply["repeated"]) == (0, False, False)


def test_the_same_id_has_the_same_answer(served, shop):
    first = served.decide("one", name=shop)
    for _ in range(5):
        again = served.decide("one", name=shop, context={"x": 9.0}, arms=["z"])
        assert again == {**first, "repeated": True}


def test_several_and_slots(served, shop):
    several = served.decide(name=shop, choose=2)
    assert len(set(several["arms"])) == 2
    assert sum(several["probabilities"].values()) == pytest.approx(2.0)
    event = served.decide("e", name=shop, slots=[{"id": "top", "excluded": ["a"]}, {"id": "side"}])
    chosen = {each["slot"]: each["arm"] for each in event["slots"]}
    assert len(set(chosen.values())) == 2
    assert chosen["top"] != "a"
    for other in ([{"id": "top"}, {"id": "side"}], [{"id": "side"}], [{"id": "another#1"}], None):
        again = served.decide("e", name=shop, slots=other, arms=["y", "z"])
        assert again == {**event, "repeated": True}
    single = served.decide("s", name=shop)
    assert served.decide("s", name=shop, slots=[{"id": "top"}]) == {**single, "repeated": True}
    assert served.reward("e", name=shop, slot="top")["status"] == "counted"
    assert served.reward("other", name=shop, slot="none", status=202)["status"] == "early"


def test_excluded_arms_are_not_chosen(served, shop):
    for _ in range(10):
        reply = served.decide(name=shop, excluded=["a", "b"])
        assert reply["arm"] == "c"
        assert reply["probability"] == 1.0


def test_rewards_have_their_stated_answers(served, shop):
    served.decide("d", name=shop)
    assert served.reward("d", name=shop) == {"id": "d", "status": "counted"}
    assert served.reward("d", name=shop)["status"] == "repeated"
    assert served.reward("d", name=shop, key="k")["status"] == "superseded"
    assert served.reward("d", name=shop, key="k")["status"] == "repeated"
    assert served.reward("soon", name=shop, status=202)["status"] == "early"
    served.decide("soon", name=shop)
    assert served.reward("soon", name=shop)["status"] == "repeated"
    served.call("PATCH", f"/v1/bandits/{shop}", {"wait": 0})
    served.decide("short", name=shop)
    assert served.reward("short", name=shop)["status"] == "late"


def test_many_rewards_in_lines(served, shop):
    for number in range(5):
        served.decide(f"d{number}", name=shop)
    lines = (
        "".join(f'{{"id": "d{n}", "value": {n}}}\n' for n in range(5))
        + '{"id": "d0", "value": 1}\n\nnonsense\n'
    )
    reply = served.call("POST", f"/v1/bandits/{shop}/rewards", content=lines)
    assert reply["received"] == 7
    assert reply["statuses"] == {"counted": 5, "repeated": 1}
    assert list(reply["errors"]) == ["8"]
    assert served.call("POST", f"/v1/bandits/{shop}/rewards", content="{}", status=400)["received"] == 1


def test_a_deferred_decision_counts_once_it_is_activated(served, shop):
    served.decide("d", name=shop, deferred=True)
    assert served.call("POST", f"/v1/bandits/{shop}/decisions/d/activate")["repeated"] is False
    assert served.call("POST", f"/v1/bandits/{shop}/decisions/d/activate")["repeated"] is True
    served.call("POST", f"/v1/bandits/{shop}/decisions/unknown/activate", status=404)
    served.decide("e", name=shop, deferred=True, slots=[{"id": "top#1"}, {"id": "side"}])
    assert served.call("POST", f"/v1/bandits/{shop}/decisions/e/activate")["repeated"] is False
    assert served.reward("e", name=shop, slot="top#1")["status"] == "counted"
    waiting = served.store.rows(
        "SELECT count(*) FROM entries WHERE kind = 'activation' AND decision LIKE 'e#%'"
    )
    assert waiting == [(2,)]


def test_a_batch_of_decisions(served, shop):
    asked = [{"id": "x", "arms": ["a"]}, {"arms": ["a", "a"]}, {"id": "x", "arms": ["b"]}]
    reply = served.call("POST", f"/v1/bandits/{shop}/decisions:batch", {"decisions": asked})["decisions"]
    assert reply[0]["decision"]["arm"] == reply[2]["decision"]["arm"] == "a"
    assert "offered twice" in reply[1]["error"]["message"]


def test_apprentice_and_log_only_answer_the_baseline(served):
    served.make("apprentice", mode="apprentice")
    reply = served.decide(name="apprentice", baseline="b")
    assert (reply["arm"], reply["probability"]) == ("b", 1.0)
    assert served.decide(name="apprentice")["arm"] == "a"
    served.make("logging", mode="log-only")
    reply = served.decide(name="logging", baseline="c", baseline_probability=0.25)
    assert (reply["arm"], reply["probability"]) == ("c", 0.25)


def test_the_probability_of_a_baseline_is_logged_wherever_the_baseline_is_answered(served):
    for settings in (
        {"mode": "apprentice"},
        {"mode": "log-only"},
        {"holdout": 1, "holdout_policy": "baseline"},
    ):
        name = "drawn-" + str(settings.get("mode", "holdout"))
        served.make(name, **settings)
        reply = served.decide("d", name=name, baseline="c", baseline_probability=0.25)
        assert (reply["arm"], reply["probability"], reply["holdout"]) == ("c", 0.25, "holdout" in settings)
        assert "c" not in reply["probabilities"]  # those of the others are not known
        line = json.loads(served.http.get(f"/v1/bandits/{name}/log").text)
        assert (line["probability"], line["policy"]) == (0.25, "baseline")
        assert served.decide(name=name, baseline="c")["probability"] == 1.0
    served.make("decides")
    reply = [
        served.decide(name="decides", baseline="c", baseline_probability=0.125)["probability"]
        for _ in range(9)
    ]
    assert 0.125 not in reply


def test_a_baseline_of_one_arm_goes_with_one_arm(served, shop):
    for says, asked in (
        ("each slot its own", {"slots": [{"id": "a"}], "baseline": "c"}),
        ("each slot its own", {"slots": [{"id": "a"}], "baseline": "c", "baseline_probability": 0.3}),
        ("each slot its own", {"slots": [{"id": "a", "baseline": "c"}], "baseline_probability": 0.3}),
        ("choose is 2", {"choose": 2, "baseline": "c", "baseline_probability": 0.3}),
        ("without a baseline", {"baseline_probability": 0.3}),
    ):
        assert says in served.decide(name=shop, status=400, **asked)["error"]["message"]


def test_a_share_is_held_out_and_a_subject_stays_on_its_side(served):
    served.make("held", holdout=0.5, holdout_policy="arm:c")
    reply = [served.decide(name="held") for _ in range(60)]
    held = [each for each in reply if each["holdout"]]
    assert 10 < len(held) < 50
    assert {(each["arm"], each["probability"]) for each in held} == {("c", 1.0)}
    sides = {served.decide(name="held", subject="somebody")["holdout"] for _ in range(10)}
    assert len(sides) == 1


def test_settings(served):
    made = served.make("mine", agent={"class": "LinUCB"}, wait=5)
    assert made["settings"]["agent"]["class"] == "LinUCB"
    assert served.make("mine", status=200, wait=6)["settings"]["wait"] == 6
    assert served.call("GET", "/v1/bandits/mine")["settings"]["agent"] == made["settings"]["agent"]
    assert "mine" in [each["name"] for each in served.call("GET", "/v1/bandits")["bandits"]]
    for wrong in (
        {"wait": -1},
        {"nonsense": 1},
        {"agent": {"class": "Nobody"}},
        {"agent": {"class": "os:system"}},
        {"agent": {"class": "Bandit", "background": True}},
        {"agent": {"class": "Bandit", "seed": -1}},
        {"agent": {"class": "LinUCB", "exploration": 10**400}},
        {"agent": {"class": "HistogramForest"}},
        {"holdout_policy": "x"},
        {"floor": 2},
    ):
        answer = served.call("PUT", "/v1/bandits/wrong", wrong, 400)
        assert answer["error"]["code"] == "InvalidRequest"
    served.call("PUT", "/v1/bandits/a b", {}, 400)
    served.call("DELETE", "/v1/bandits/mine", status=204)
    served.call("GET", "/v1/bandits/mine", status=404)
    served.decide(name="mine", status=404)


def test_bad_requests_say_what_is_wrong(served, shop):
    path = f"/v1/bandits/{shop}/decisions"
    for body, said in (
        ({}, "arms"),
        ({"arms": []}, "arms"),
        ({"arms": ["a"], "choose": 2}, "choose is 2"),
        ({"arms": ["a"], "excluded": ["a"]}, "all arms are excluded"),
        ({"arms": ["a"], "baseline": "b"}, "baseline"),
        ({"arms": ["a\x00"]}, "arms"),
        ({"arms": ["a"], "id": "x#y"}, "id"),
        ({"arms": ["a"], "context": {"x": {"y": [1, {"z": [[1]]}]}}, "extra": 1}, "extra"),
        ({"arms": [f"a{n}" for n in range(1001)]}, "1001 arms"),
        ({"arms": ["a"], "context": {f"x{n}": n for n in range(2001)}}, "features"),
    ):
        answer = served.call("POST", path, body, 400)
        assert said in answer["error"]["message"], answer
    assert served.call("POST", path, content=b"\xff", status=400)
    assert served.call("POST", path, content=b"[" * 100_000, status=400)
    for _ in range(5):  # the answer must not be lost with the bytes that nobody read
        assert served.call("POST", path, content=b" " * (1 << 24), status=413)
        assert served.call("POST", f"{path}/none/nothing", content=b" " * (1 << 24), status=404)
    served.decide("d", name=shop)
    for body in ({}, {"value": "1"}, {"value": []}, {"value": 1e300}, {"value": None}):
        served.call("POST", f"{path}/d/reward", body, 400)
    served.call("POST", f"{path}/d/reward", content=b'{"value": NaN}', status=400)
    assert served.reward("d", name=shop, value=[1.0])["status"] == "counted"


def test_a_wrong_type_names_its_key(served, shop):
    for number in range(3):
        served.decide(f"d{number}", name=shop, context={"age": number})
        served.reward(f"d{number}", name=shop)
    served.learned(shop)
    served.until(lambda: served.call("GET", f"/v1/bandits/{shop}")["version"] > 0)
    served.until(
        lambda: (
            served.http.post(
                f"/v1/bandits/{shop}/decisions", json={"context": {"age": "old"}, "arms": ["a"]}
            ).status_code
            == 400
        )
    )
    answer = served.decide(name=shop, context={"age": "old"}, status=400)
    assert "'age'" in answer["error"]["message"]


def test_the_log_in_pages(served, shop):
    for number in range(7):
        served.decide(f"d{number}", name=shop, arms=["a", {"name": "b", "features": {"price": 2.0}}])
    served.reward("d3", name=shop, value=0.5)
    lines, cursor = [], "0"
    while cursor is not None:
        page = served.http.get(f"/v1/bandits/{shop}/log", params={"limit": 3, "cursor": cursor})
        lines += [line for line in page.text.splitlines() if line]
        cursor = page.headers.get("x-next-cursor")
    assert len(lines) == 7
    whole = served.http.get(f"/v1/bandits/{shop}/log", params={"format": "parquet"})
    frame = pl.read_parquet(io.BytesIO(whole.content))
    assert frame["id"].to_list() == [f"d{n}" for n in range(7)]
    assert frame["reward"].to_list() == [None, None, None, 0.5, None, None, None]
    assert frame["arm_contexts"][0].to_list() == ["{}", '{"price":2.0}']
    until = frame["time"][2].isoformat()
    some = served.http.get(f"/v1/bandits/{shop}/log", params={"until": until})
    assert len(some.text.splitlines()) == 2
    for wrong in ({"format": "csv"}, {"limit": 0}, {"cursor": "x"}, {"since": "yesterday"}):
        assert served.http.get(f"/v1/bandits/{shop}/log", params=wrong).status_code == 400


def test_models_are_listed_downloaded_uploaded_and_rolled_back(served, shop, tmp_path):
    for number in range(12):
        served.decide(f"d{number}", name=shop)
        served.reward(f"d{number}", name=shop)
    served.learned(shop)
    versions = served.until(lambda: served.call("GET", f"/v1/bandits/{shop}/model/versions")["versions"])
    assert versions[0]["kept"]
    snapshot = served.http.get(f"/v1/bandits/{shop}/model", params={"history": "false"})
    (tmp_path / "snapshot").write_bytes(snapshot.content)
    with pytest.raises(treebandit.errors.TreebanditError):
        treebandit.load(tmp_path / "snapshot").learn([{"x": 1.0}], [1.0], arms=["a"])
    refused = served.call("PUT", f"/v1/bandits/{shop}/model", content=snapshot.content, status=400)
    assert "history" in refused["error"]["message"]
    mine = treebandit.Bandit(seed=1, new_columns=True)
    mine.learn([{"x": float(n)} for n in range(20)], [float(n % 2) for n in range(20)], arms=["a", "b"] * 10)
    mine.save(tmp_path / "mine")
    data = (tmp_path / "mine").read_bytes()
    served.call("PUT", f"/v1/bandits/{shop}/model", content=data, status=202)
    assert len(served.learned(shop).agent.model.history) == 20
    served.call("PUT", f"/v1/bandits/{shop}/model", content=b"nonsense", status=400)
    served.call("POST", f"/v1/bandits/{shop}/model/rollback", {"version": 1}, 202)
    assert served.learned(shop).rows <= 12
    served.call("POST", f"/v1/bandits/{shop}/model/rollback", {"version": 10_000}, 404)


def test_health_metrics_and_documentation(served, shop):
    assert served.call("GET", "/health/live") == {"status": "ok"}
    served.until(lambda: served.http.get("/health/ready").status_code == 200, 120)
    served.decide(name=shop)
    shown = served.http.get("/metrics").text
    assert f'treebandit_decisions_total{{bandit="{shop}",policy="agent"}} 1.0' in shown
    assert "treebandit_commit_seconds_count" in shown
    document = served.call("GET", "/openapi.json")
    assert "/v1/bandits/{name}/decisions" in document["paths"]
    assert "swagger-ui-bundle.js" in served.http.get("/docs").text
    assert served.http.get("/assets/swagger-ui-bundle.js").status_code == 200
    assert "http" not in served.http.get("/docs").text.replace("http-equiv", "")


def test_erasing_by_subject_takes_rows_out_of_the_model(served, shop):
    for number in range(10):
        served.decide(f"d{number}", name=shop, subject="me" if number % 2 else "you")
        served.reward(f"d{number}", name=shop)
    assert served.learned(shop).rows == 10
    assert served.call("POST", f"/v1/bandits/{shop}/erasures", {"subject": "me"})["erased"] == 5
    assert served.learned(shop).rows == 5
    assert served.decide("d1", name=shop, status=410)["error"]["code"] == "Erased"
    assert served.reward("d1", name=shop)["status"] == "erased"
    log = served.http.get(f"/v1/bandits/{shop}/log").text
    assert len(log.splitlines()) == 5
    for event in ("e", "f"):
        served.decide(event, name=shop, slots=[{"id": "top"}, {"id": "side"}], subject="me")
    assert served.call("POST", f"/v1/bandits/{shop}/erasures", {"ids": ["e"]})["erased"] == 2
    assert served.call("POST", f"/v1/bandits/{shop}/erasures", {"subject": "me"})["erased"] == 2
    for event in ("e", "f"):
        served.decide(event, name=shop, slots=[{"id": "other"}], status=410)
        assert served.reward(event, name=shop, slot="top")["status"] == "erased"
    served.call("POST", f"/v1/bandits/{shop}/erasures", {}, 400)


def test_an_erasure_tells_of_uploaded_models_and_takes_them_where_asked(served, shop):
    for number in range(6):
        served.decide(f"d{number}", name=shop, subject="me" if number % 2 else "you")
        served.reward(f"d{number}", float(number), name=shop)
    agent = served.learned(shop).agent
    data = saved_agents.saved_bytes(agent)
    assert served.http.put(f"/v1/bandits/{shop}/model", content=data).status_code == 202
    served.learned(shop)
    path = f"/v1/bandits/{shop}/erasures"
    assert served.call("POST", path, {"subject": "me"}) == {"erased": 3, "uploads": 1}
    assert sorted(served.learned(shop).agent.model.history.rewards) == [0, 1, 2, 3, 4, 5]
    assert served.call("POST", path, {"uploads": True}) == {"erased": 0}
    assert sorted(served.learned(shop).agent.model.history.rewards) == [0, 2, 4]
    row = served.store.bandit(shop)
    assert models.newest(served.store, row.id, "upload") is None
    again = Fold.at(served.store, row.id, row.place, from_checkpoint=False)
    assert sorted(again.agent.model.history.rewards) == [0, 2, 4]


def test_request_ids_are_given_back(served):
    assert (
        served.http.get("/health/live", headers={"X-Request-Id": "mine-1"}).headers["x-request-id"]
        == "mine-1"
    )
    assert len(served.http.get("/health/live", headers={"X-Request-Id": "a b"}).headers["x-request-id"]) == 32
