"""Rewards that do not fit their decision, and what counts where settings change."""

import json

import pytest
from service.shop import Shop

from treebandit.service import export, log, outcomes
from treebandit.service.config import changed
from treebandit.service.entries import NewReward, reward_body
from treebandit.service.log import Group


@pytest.fixture
def shop(served, request):
    served.make(request.node.name, agent={"class": "Uniform", "seed": 0}, wait=3600)
    return request.node.name


def exported(shop):
    return {each["id"]: each.get("reward") for each in export.records(shop.store, shop.now)[0]}


def test_a_list_of_another_length_is_refused(served, shop):
    served.decide("one", name=shop)
    served.decide("two", name=shop, choose=2)
    place = served.store.bandit(shop).place
    for id, value in (("one", [1, 2, 3]), ("two", [1.0]), ("two", [1, 2, 3])):
        refused = served.reward(id, value, name=shop, status=400)["error"]["message"]
        assert f"{len(value)} rewards for {1 + (id == 'two')} chosen arms; send one" in refused
    assert served.store.bandit(shop).place == place
    assert served.reward("one", [1.0], name=shop)["status"] == "counted"
    assert served.reward("two", [1.0, 2.0], name=shop)["status"] == "counted"


def test_a_bulk_tells_which_rewards_do_not_fit_and_stores_the_others(served, shop):
    served.decide("d", name=shop)
    served.decide("e", name=shop, slots=[{"id": "top"}])
    lines = [
        {"id": "d", "value": [1, 2]},
        {"id": "d", "value": 1},
        {"id": "e", "value": 1},
        {"id": "e", "value": 1, "slot": "top"},
        {"id": "x", "value": 1, "more": 2},
    ]
    content = "\n".join(map(json.dumps, lines))
    reply = served.call("POST", f"/v1/bandits/{shop}/rewards", content=content)
    assert (reply["received"], reply["statuses"]) == (5, {"counted": 2})
    assert set(reply["errors"]) == {"1", "3", "5"}
    assert "more" in reply["errors"]["5"]
    alone = served.call("POST", f"/v1/bandits/{shop}/rewards", content=content.split("\n")[0], status=400)
    assert alone["statuses"] == {}


def test_a_reward_names_a_slot_of_its_decision(served, shop):
    served.decide("e", name=shop, slots=[{"id": "top"}, {"id": "side#2"}])
    served.decide("plain", name=shop)
    place = served.store.bandit(shop).place
    for more in ({}, {"slot": "zz"}):
        said = served.reward("e", name=shop, status=400, **more)["error"]["message"]
        assert "'top', 'side#2'" in said
    assert "no slots" in served.reward("plain", name=shop, slot="top", status=400)["error"]["message"]
    assert served.store.bandit(shop).place == place
    assert served.reward("e", name=shop, slot="side#2")["status"] == "counted"
    served.call("POST", f"/v1/bandits/{shop}/erasures", {"ids": ["e", "plain"]})
    for id, more in (("e", {}), ("e", {"slot": "top"}), ("e", {"slot": "zz"}), ("plain", {"slot": "a"})):
        assert served.reward(id, name=shop, **more)["status"] == "erased"


def test_rewards_of_personalizers_slots_are_stored_together_or_not_at_all(served, shop):
    base = f"/bandits/{shop}/personalizer/v1.1-preview.3"
    body = {"eventId": "m", "actions": [{"id": "a"}, {"id": "b"}], "slots": [{"id": "s"}, {"id": "t"}]}
    served.call("POST", f"{base}/multislot/rank", body, 201)
    place = served.store.bandit(shop).place
    rewards = [{"slotId": "s", "value": 1.0}, {"slotId": "zz", "value": 1.0}]
    path = f"{base}/multislot/events/m/reward"
    refused = served.call("POST", path, {"reward": rewards}, 400)["error"]
    assert refused["code"] == "InvalidRewardRequest"
    assert "'s', 't'" in refused["message"]
    served.call("POST", f"{base}/events/m/reward", {"value": 1.0}, 400)
    assert served.store.bandit(shop).place == place
    served.call("POST", path, {"reward": rewards[:1]}, 204)


def test_a_decision_tells_which_early_rewards_do_not_fit(served, shop):
    for id in ("d", "e"):
        assert served.reward(id, [1.0, 2.0], name=shop, status=202)["status"] == "early"
    assert served.decide("d", name=shop)["rewards_refused"] == 1
    assert served.decide("e", name=shop, slots=[{"id": "top"}])["rewards_refused"] == 1
    assert "rewards_refused" not in served.decide("f", name=shop)
    assert served.reward("d", 3.0, name=shop)["status"] == "counted"
    assert served.reward("d", 4.0, name=shop)["status"] == "superseded"


@pytest.mark.parametrize("how", ["first", "sum"])
def test_an_early_reward_that_does_not_fit_counts_nowhere(sqlite, how):
    shop = Shop(sqlite, aggregation=how)
    shop.reward("d", [1.0, 2.0])
    shop.reward("e", [1.0, 2.0], key="k")
    shop.decide("d")
    shop.decide("e")
    assert shop.reward("e", 1.0, key="k") == "refused"
    shop.reward("e", 5.0)
    shop.wait(20)
    assert sorted(shop.learned()) == [0.0, 5.0]
    assert exported(shop) == {"d": 0.0, "e": 5.0}
    assert shop.fold().skipped == 2


def test_what_counts_was_set_when_the_decision_was_made(sqlite):
    shop = Shop(sqlite, aggregation="sum")
    shop.decide("summed")
    sqlite.put_bandit("shop", lambda before: changed(before, {"aggregation": "first"}))
    shop.decide("first")
    assert [shop.reward("summed", value) for value in (2.0, 3.0)] == ["counted", "counted"]
    sqlite.put_bandit("shop", lambda before: changed(before, {"aggregation": "sum"}))
    assert [shop.reward("first", value) for value in (2.0, 3.0)] == ["counted", "repeated"]
    assert shop.reward("first", 4.0, key="k") == "superseded"
    shop.wait(20)
    assert shop.learned() == [2.0, 5.0]
    assert exported(shop) == {"summed": 5.0, "first": 2.0}


def test_default_rewards_have_the_bounds_of_rewards(served):
    path = "/v1/bandits/bounds"
    for default in (1e31, -1e31, 1e200, 1e308):
        said = served.make("bounds", status=400, reward_default=default)["error"]["message"]
        assert "within ±1e+30" in said
    served.make("bounds", reward_default=-1e30)
    assert "±1e+30" in served.call("PATCH", path, {"reward_default": 1e31}, 400)["error"]["message"]
    served.decide("d", name="bounds")
    assert "±1e+30" in served.reward("d", 1e31, name="bounds", status=400)["error"]["message"]


def test_a_new_feature_that_could_not_be_learned_is_refused(served):
    served.make("large", agent={"class": "LinUCB", "seed": 0})
    served.decide("d", name="large")
    served.reward("d", name="large")
    served.learned("large")
    served.until(lambda: served.decide(name="large")["version"])
    for more in (
        {"context": {"x": 1.0, "y": 1e39}},
        {"arms": [{"name": "a", "features": {"z": {"y": -1e39}}}]},
    ):
        assert "y' is infinite" in served.decide(name="large", status=400, **more)["error"]["message"]
    served.decide(name="large", context={"x": 1.0, "y": 1e38})


def test_rewards_that_could_not_be_learned_are_told(served):
    served.make("skips", agent={"class": "LinUCB", "seed": 0})
    served.decide("text", name="skips", context={"age": "oops"})
    served.decide("number", name="skips", context={"age": 31})
    served.reward("text", name="skips")
    served.reward("number", name="skips")
    assert served.learned("skips").skipped == 1
    path = "/v1/bandits/skips"
    newest = served.until(
        lambda: (
            (found := served.call("GET", f"{path}/model/versions")["versions"])
            and found[0].get("skipped")
            and found[0]
        )
    )
    assert (newest["skipped"], newest["rows"]) == (1, 1)
    served.until(lambda: 'treebandit_rewards_skipped{bandit="skips"} 1.0' in served.http.get("/metrics").text)
    alerts = served.call("GET", f"{path}/dashboard?span=all")["alerts"]
    assert "1 reward could not be learned" in {each["kind"]: each["says"] for each in alerts}["skipped"]


def test_a_decision_has_so_many_rewards_at_most(served, shop, monkeypatch):
    monkeypatch.setattr(log, "_MOST_REWARDS", 3)
    served.decide("d", name=shop)
    for id, first in (("d", "counted"), ("early", "early")):
        status = 202 if id == "early" else 200
        told = [served.reward(id, name=shop, key=f"k{n}", status=status)["status"] for n in range(3)]
        assert told[0] == first
        said = served.reward(id, name=shop, key="k3", status=400)["error"]["message"]
        assert f"'{id}' has 3 rewards already; send at most 3" in said
        assert served.reward(id, name=shop, key="k1")["status"] == "repeated"
    place = served.store.bandit(shop).place
    lines = "\n".join(json.dumps({"id": id, "value": 1}) for id in ("d", "other", "early"))
    reply = served.call("POST", f"/v1/bandits/{shop}/rewards", content=lines)
    assert (list(reply["errors"]), reply["statuses"]) == (["1", "3"], {"early": 1})
    assert served.store.bandit(shop).place == place + 1
    served.call("POST", f"/v1/bandits/{shop}/erasures", {"ids": ["d"]})
    assert served.reward("d", name=shop, key="k4")["status"] == "erased"


@pytest.mark.parametrize("how", ["first", "sum"])
def test_what_many_rewards_of_a_decision_cost_grows_with_their_number(sqlite, monkeypatch, how):
    shop, read = Shop(sqlite, aggregation=how), []
    for module in (log, outcomes):
        monkeypatch.setattr(module, "reward_body", lambda body: read.append(1) or reward_body(body))
    shop.decide("d")
    rewards = [NewReward("d", f"k{n}", 1.0, b'{"value":1.0}', how == "first") for n in range(300)]
    stored = sqlite.append_now(Group(shop.row.id, rewards))
    assert {each.status for each in stored[1:]} == {"superseded" if how == "first" else "counted"}
    shop.wait(11)
    assert shop.learned() == [1.0 if how == "first" else 300.0]
    assert len(read) <= 6 * len(rewards)
