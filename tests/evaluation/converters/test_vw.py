"""Vowpal Wabbit's formats: we read what it reads (benchmarks/foreign_logs.py), and what we write it reads again."""

import json
import os
from pathlib import Path

import pytest

from treebandit.errors import LogError
from treebandit.evaluation import (
    DecisionLog,
    open_log,
    read_dsjson,
    read_vw_text,
    shop_log,
    write_dsjson,
    write_vw_text,
)

HERE = Path(__file__).parents[1]
STORED = json.loads((HERE / "foreign_logs.json").read_text())["files"]
LOGS = os.environ.get("TREEBANDIT_LOGS")


def path_of(name):
    if (HERE / "files" / name).exists():
        return HERE / "files" / name
    if not LOGS or not (Path(LOGS) / "vw" / name).exists():
        pytest.skip(
            f"{name} is a test file of Vowpal Wabbit; set TREEBANDIT_LOGS to a folder that has it in vw/"
        )
    return Path(LOGS) / "vw" / name


def is_json(name):
    return name.endswith((".json", ".dsjson", ".txt"))


def values(context):
    """The values of the features that Vowpal Wabbit makes of a context; zeros it leaves out."""
    found = []
    for value in context.values() if isinstance(context, dict) else context or []:
        if isinstance(value, dict | list):
            found += values(value)
        elif isinstance(value, str) or value is True:
            found.append(1.0)
        elif value:
            found.append(float(value))
    return found


def labelled_sizes(path):
    """Of a text file: how many actions each event has, and whether one has a label."""
    events = [event.strip("\n").split("\n") for event in path.read_text().split("\n\n") if event.strip()]
    for event in events:
        actions = [line for line in event if line.strip() and not line.startswith("shared")]
        yield len(actions), any(line.strip()[0] not in "|'" for line in actions)


@pytest.mark.parametrize("name", STORED)
def test_we_read_what_vowpal_wabbit_reads(name):
    path, read = path_of(name), STORED[name]
    log = (read_dsjson if is_json(name) else read_vw_text)(path)
    decisions = [record for record in log.records() if "reward" in record]
    labels = [label for label in read["labels"] if label is not None]
    assert len(decisions) == len(labels)
    for record, (action, cost, probability) in zip(decisions, labels, strict=True):
        assert record["chosen"] == [int(action)]
        assert record["reward"] == pytest.approx(-cost)
        # Vowpal Wabbit prints two digits.
        assert record["probability"] == pytest.approx(probability, abs=0.005)
    actions = iter(read["actions"])
    sizes = [(len(each["arms"]), True) for each in decisions] if is_json(name) else labelled_sizes(path)
    written = iter(decisions)
    for size, labelled in sizes:
        found = [next(actions) for _ in range(size)]
        if not labelled:
            continue
        record = next(written)
        for own, (count, total) in zip(record["arm_contexts"], found, strict=True):
            features = [*values(record.get("context")), *values(own), 1.0]
            assert len(features) == count
            assert sum(features) == pytest.approx(total, rel=1e-5)


@pytest.mark.parametrize(
    ("read", "write", "name"),
    [(read_dsjson, write_dsjson, "log.dsjson"), (read_vw_text, write_vw_text, "log.vw")],
)
def test_a_log_written_in_their_formats_is_read_again(tmp_path, read, write, name):
    log = shop_log(50, seed=3)
    assert write(log, tmp_path / name) == 0
    again = read(tmp_path / name).frame.collect()
    mine = log.frame.collect()
    for column in ("arms", "chosen", "probability", "reward"):
        assert again[column].to_list() == mine[column].to_list(), column
    write(read(tmp_path / name), tmp_path / f"2-{name}")
    second = read(tmp_path / f"2-{name}").frame.collect()
    assert second.drop("id").equals(again.drop("id"))


def test_dsjson_keeps_times_ids_versions_and_all_probabilities(tmp_path):
    log = shop_log(5, seed=3)
    write_dsjson(log, tmp_path / "log.dsjson")
    again = read_dsjson(tmp_path / "log.dsjson").frame.collect()
    assert again.select("id", "time", "version").equals(log.frame.collect().select("id", "time", "version"))
    assert [json.loads(text) for text in again["context"]] == [each["context"] for each in log.records()]
    assert again["probabilities"].to_list() == log.frame.collect()["probabilities"].to_list()


def test_dsjson_keeps_what_is_not_known_and_who_was_held_out(tmp_path):
    """One action has a single probability: it is known with that of the choice."""
    records = [
        {
            "id": str(number),
            "arms": ["a", "b", "c"][:arms],
            "chosen": [arms - 1],
            "probability": 0.25 if arms > 1 else 1.0,
            "reward": 1.0,
            **({} if held is None else {"holdout": held}),
        }
        for number, (held, arms) in enumerate([(None, 3), (True, 3), (False, 2), (True, 1)])
    ]
    write_dsjson(DecisionLog.from_records(records), tmp_path / "log.dsjson")
    again = list(read_dsjson(tmp_path / "log.dsjson").records())
    assert [each.get("probabilities") for each in again] == [None, None, None, [1.0]]
    assert [each["probability"] for each in again] == [0.25, 0.25, 0.25, 1.0]
    assert [each.get("holdout") for each in again] == [None, True, False, True]


def test_late_rewards_of_dsjson_are_joined(tmp_path):
    event = (HERE / "files" / "events.dsjson").read_text().splitlines()[0]
    late = {"RewardValue": 0.5, "EnqueuedTimeUtc": "2026-01-02T00:00:00Z", "EventId": "e1"}
    (tmp_path / "x.dsjson").write_text(f"{event}\n{json.dumps(late)}\n")
    assert read_dsjson(tmp_path / "x.dsjson").frame.collect()["reward"].to_list() == [0.5]


def test_events_must_have_been_dropped_alike(tmp_path):
    events = [json.loads(line) for line in (HERE / "files" / "events.dsjson").read_text().splitlines()[:2]]
    path = tmp_path / "log.dsjson"

    def write(*dropped):
        found = [{**event, "pdrop": each} for event, each in zip(events, dropped, strict=True)]
        path.write_text("\n".join(map(json.dumps, found)))

    write(0.5, 0.5)
    assert len(read_dsjson(path)) == 2
    for different, told in (((0.0, 0.5), "0 and 0.5"), ((1.0, 1.0), "1, so"), ((None, 0.2), "0 and 0.2")):
        write(*different)
        with pytest.raises(LogError, match=rf"\(pdrop\) {told}.* give events of one pdrop below 1"):
            read_dsjson(path)


def test_decisions_without_reward_are_left_out_and_counted(tmp_path):
    records = list(shop_log(4, seed=0).records())
    del records[1]["reward"]
    log = DecisionLog.from_records(records)
    assert write_dsjson(log, tmp_path / "a.dsjson") == 1
    assert write_vw_text(log, tmp_path / "a.vw") == 1
    assert len(read_vw_text(tmp_path / "a.vw")) == 3


@pytest.mark.parametrize(
    ("reader", "text", "message"),
    [
        (read_dsjson, '{"a": [1]}\n', "line 1, is no contextual bandit event"),
        (read_dsjson, "[CHECKPOINT]\n{no json}\n", "line 2, is no contextual bandit event"),
        (read_vw_text, "0:1:0.5 | a\n1:1:0.5 | b\n", "2 actions have a label"),
        (read_vw_text, "\n0:1 | a\n| b\n", "line 2 on: the label '0:1' is not action:cost:probability"),
        (read_vw_text, "0:x:0.5 | a\n| b\n", "could not convert"),
    ],
)
def test_files_that_cannot_be_read_are_told(tmp_path, reader, text, message):
    (tmp_path / "log").write_text(text)
    with pytest.raises(LogError, match=message):
        reader(tmp_path / "log")
    with pytest.raises(LogError, match="does not exist"):
        reader(tmp_path / "none")


def test_a_mark_before_utf8_costs_no_event(tmp_path):
    plain, marked = tmp_path / "plain.dsjson", tmp_path / "marked.dsjson"
    write_dsjson(shop_log(5), plain)
    marked.write_bytes(b"\xef\xbb\xbf" + plain.read_bytes())
    assert len(read_dsjson(marked)) == 5


def test_the_first_of_several_events_with_one_id_can_be_kept(tmp_path):
    file = tmp_path / "log.dsjson"
    write_dsjson(shop_log(5), file)
    file.write_text(file.read_text() * 2)
    with pytest.raises(LogError, match="duplicates='first'"):
        read_dsjson(file).check()
    for log in (read_dsjson(file, duplicates="first"), open_log(file, duplicates="first")):
        assert log.check().decisions == 5


def test_a_late_reward_of_an_event_that_is_not_to_be_learned_brings_none(tmp_path):
    file = tmp_path / "log.dsjson"
    write_dsjson(shop_log(2), file)
    events = [json.loads(line) for line in file.read_text().splitlines()]
    events[0]["_skipLearn"] = True
    late = [{"RewardValue": 7.0, "EventId": event["EventId"]} for event in events]
    file.write_text("\n".join(map(json.dumps, [*events, *late])))
    assert [each.get("reward") for each in read_dsjson(file).records()] == [None, 7.0]
