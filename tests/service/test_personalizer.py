import json
import os
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote

import pytest

from treebandit.errors import InputError
from treebandit.service.personalizer import merged
from treebandit.service.personalizer_settings import duration, seconds

PACKAGES = ["azure-cognitiveservices-personalizer==0.1.1", "azure-ai-personalizer==1.0.0b1"]


@pytest.fixture(scope="module")
def azure(tmp_path_factory):
    """An interpreter that has Azure's packages, kept from one run to the next."""
    cache = (
        Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
        / "treebandit-tests"
        / "azure-personalizer"
    )
    python = cache / "bin" / "python"
    if not (cache / "complete").exists():
        try:
            subprocess.run([sys.executable, "-m", "venv", "--clear", cache], check=True, timeout=120)
            subprocess.run(
                [python, "-m", "pip", "install", "-q", *PACKAGES],
                check=True,
                timeout=240,
                capture_output=True,
            )
        except (subprocess.SubprocessError, OSError) as error:
            pytest.skip(f"Azure's packages cannot be installed: {error}")
        (cache / "complete").touch()
    return python


@pytest.fixture(scope="module")
def reply(served, azure):
    script = Path(__file__).with_name("personalizer_clients.py")
    run = subprocess.run(
        [azure, script, served.url, "a-key-that-nobody-checks"], capture_output=True, text=True, timeout=240
    )
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


def test_the_old_package_ranks_rewards_and_activates(reply):
    rank = reply["old_rank"]
    assert rank["event"] == "old-1"
    assert rank["action"] in ("pasta", "soup")
    assert rank["ranking"][2] == ["salad", 0.0]
    assert rank["ranking"][0][0] == rank["action"]
    assert sum(each[1] for each in rank["ranking"]) == pytest.approx(1.0)
    assert reply["old_reward"] is reply["old_activate"] is None
    assert reply["old_error"][0] == "InvalidRankRequest"
    assert "offered twice" in reply["old_error"][1]


def test_the_new_package_too_with_slots(reply):
    assert reply["new_rank"]["eventId"] == "new-1"
    assert reply["new_again"] == reply["new_rank"]
    chosen = {each["id"]: each["rewardActionId"] for each in reply["slots"]["slots"]}
    assert set(chosen) == {"top", "side"}
    assert chosen["top"] != "soup"
    assert chosen["top"] != chosen["side"]
    assert reply["apprentice"]["rewardActionId"] == "pasta"


def test_administration(reply):
    assert reply["configuration"]["rewardWaitTime"] == "PT10M"
    assert reply["configuration"]["rewardAggregation"] == "earliest"
    updated = reply["updated"]
    assert (updated["rewardWaitTime"], updated["explorationPercentage"]) == ("PT20M", 0.2)
    assert (updated["learningMode"], updated["rewardAggregation"]) == ("Apprentice", "earliest")
    assert (updated["logRetentionDays"], updated["modelExportFrequency"]) == (90, "PT1M")
    assert set(reply["model"]) == {"creationTime", "lastModifiedTime"}
    assert set(reply["log"]["dateRange"]) == {"from", "to"}
    assert reply["policy"][:2] == [501, "NotImplemented"]
    assert "PUT /v1/bandits" in reply["policy"][2]
    assert reply["evaluations"] == [501]


@pytest.mark.parametrize(("default", "retention"), [(None, 1.4), (None, 0.4), (0.5, None)])
def test_settings_that_are_sent_back_as_they_were_shown_stay(served, default, retention):
    name = f"sent-back-{default}-{retention}"
    served.make(name, reward_default=default, retention=retention, wait=600.25, floor=1 / 3)
    before = served.store.bandit(name)
    path = f"/bandits/{name}/personalizer/v1.0/configurations/service"
    shown = served.call("GET", path)
    served.call("PUT", path, shown)
    assert served.store.bandit(name) == before
    served.call("PUT", path, {**shown, "logRetentionDays": 30, "rewardWaitTime": "00:20:00"})
    after = served.store.bandit(name).config
    assert (after.reward_default, after.retention, after.wait, after.floor) == (default, 30.0, 1200.0, 1 / 3)


@pytest.mark.parametrize(
    "base",
    [
        "/personalizer/v1.0",
        "/personalizer/v1.1-preview.3",
        "/personalizer",
        "/bandits/mine/personalizer/v1.0",
    ],
)
def test_every_version_of_the_paths(served, base):
    served.http.put("/v1/bandits/mine", json={})
    action = {"id": "a", "features": [{"x": 1}]}
    rank = served.call("POST", f"{base}/rank", {"actions": [action], "contextFeatures": []}, 201)
    assert (rank["rewardActionId"], rank["ranking"]) == ("a", [{"id": "a", "probability": 1.0}])
    event = rank["eventId"]
    assert served.http.post(f"{base}/events/{event}/reward", json={"value": 1}).status_code == 204
    assert served.http.post(f"{base}/events/{event}/activate").status_code == 204
    assert served.http.post(f"{base}/events/never/reward", json={"value": 1}).status_code == 204
    assert served.http.post(f"{base}/events/none/activate").status_code == 404
    assert served.http.get(f"{base}/evaluations").status_code == 501
    slots = [{"id": "main#1", "baselineAction": "a"}, {"id": "side", "baselineAction": "b"}]
    body = {
        "actions": [action, {"id": "b"}],
        "slots": slots,
        "eventId": f"50% #{base}",
        "deferActivation": True,
    }
    event = served.call("POST", f"{base}/multislot/rank", body, 201)
    assert served.call("POST", f"{base}/multislot/rank", {**body, "slots": slots[:1]}, 201) == event
    assert event["eventId"] == body["eventId"]
    path = f"{base}/multislot/events/{quote(event['eventId'], safe='')}"
    assert served.http.post(f"{path}/activate").status_code == 204
    rewards = [{"slotId": "main#1", "value": 1.0}, {"slotId": "side", "value": 0.5}]
    assert served.http.post(f"{path}/reward", json={"reward": rewards}).status_code == 204
    name = "mine" if "mine" in base else "personalizer"
    log = [json.loads(line) for line in served.http.get(f"/v1/bandits/{name}/log").text.splitlines()]
    assert [each["reward"] for each in log if each["id"].startswith("50%25 %23")][-2:] == [1.0, 0.5]
    assert served.http.delete(f"{base}/model").json()["error"]["code"] == "NotImplemented"


def test_bad_calls_have_personalizers_error_body(served):
    for path, body in (
        ("rank", {}),
        ("rank", {"actions": []}),
        ("rank", {"actions": [{"id": "a"}, {"id": "a"}]}),
        ("rank", {"actions": [{"id": "a"}], "excludedActions": ["a"]}),
        ("rank", {"actions": [{"id": "a"}], "eventId": "a\x00b"}),
        ("rank", {"actions": [{"id": "a"}], "eventId": "#" * 200}),
        ("rank", {"actions": [{"id": "a"}], "contextFeatures": "x"}),
        ("multislot/rank", {"actions": [{"id": "a"}], "slots": [{"id": "s"}, {"id": "t"}]}),
        ("events/x/reward", {"value": "1"}),
        ("multislot/events/x/reward", {"reward": [{"slotId": "s"}]}),
    ):
        answer = served.http.post(f"/personalizer/v1.0/{path}", json=body)
        assert answer.status_code == 400, (path, body, answer.text)
        assert set(answer.json()["error"]) == {"code", "message"}
        code = answer.json()["error"]["code"]
        assert code == ("InvalidRankRequest" if "rank" in path else "InvalidRewardRequest")
        assert answer.headers["x-ms-error-code"] == code
    body = {"actions": [{"id": "a"}, {"id": "b"}], "slots": [{"id": "s"}]}
    for first, second in (("rank", "multislot/rank"), ("multislot/rank", "rank")):
        served.call("POST", f"/personalizer/v1.0/{first}", {**body, "eventId": first}, 201)
        served.call("POST", f"/personalizer/v1.0/{second}", {**body, "eventId": first}, 400)
    unknown = served.http.post("/personalizer/v1.0/events/none/activate")
    assert unknown.json()["error"]["code"] == "InvalidEventIdToActivate"
    long = served.http.post("/personalizer/v1.0/rank", content=b" " * (1 << 21))
    assert (long.status_code, long.headers["x-ms-error-code"]) == (413, "PayloadSizeExceeded")
    assert served.http.post("/personalizer/rank?api-version=1999", json={}).status_code == 400
    before = served.call("GET", "/personalizer/v1.0/configurations/service")
    after = served.call("PUT", "/personalizer/v1.0/configurations/service", {**before, "defaultReward": 0.25})
    assert after.pop("lastConfigurationEditDate") > before.pop("lastConfigurationEditDate")
    assert after == {**before, "defaultReward": 0.25}
    for wrong in (
        {"rewardWaitTime": "soon"},
        {"learningMode": "Never"},
        {"explorationPercentage": 7},
        {"defaultReward": 10**400},
    ):
        assert served.http.put("/personalizer/v1.0/configurations/service", json=wrong).status_code == 400


def test_durations():
    for text, length in (
        ("PT10M", 600),
        ("P1DT1H", 90_000),
        ("PT0S", 0),
        ("00:10:00", 600),
        ("1.00:00:01", 86_401),
    ):
        assert seconds(text) == length
        assert seconds(duration(length)) == length
    for wrong in ("", "P", "PT", "10", None, 10, "PT1M" * 30):
        with pytest.raises(InputError, match="PT10M"):
            seconds(wrong)


def test_features_in_several_objects_are_one():
    assert merged([{"a": {"x": 1}}, {"a": {"y": 2}, "b": 3}]) == {"a": {"x": 1, "y": 2}, "b": 3}
    assert merged(None) == {}
