"""Logs that cannot be true, and files that are no logs: always one sentence of ours, never an error of a library."""

import gzip
import json
import math
import warnings

import numpy as np
import polars as pl
import pytest

from treebandit import LinUCB
from treebandit.errors import InputError, LogError, ParameterError, TreebanditError
from treebandit.evaluation import (
    DecisionLog,
    evaluate,
    from_columns,
    open_log,
    read_open_bandit,
    replay,
    shop_log,
    to_columns,
    warm_start,
    write_dsjson,
    write_open_bandit,
    write_vw_text,
)

LINE = b'{"id":"1","chosen":[0],"arms":["a","b"],"probability":0.5,"reward":1}\n'
EVENT = '{"c":{"_multi":[{}]},"_label_cost":%s,"_label_probability":1,"_label_Action":1%s}\n'
OBD = "timestamp,item_id,position,click,propensity_score%s\n%s\n"
FILES = {
    "text.ndjson.gz": b"no gzip",
    "cut.ndjson.gz": gzip.compress(LINE * 200)[:-20],
    "bytes.ndjson": bytes(range(256)),
    "array.ndjson": b"[1,2]\n",
    "deep.dsjson": b'{"c":' + b'{"a":' * 5_000 + b"1" + b"}" * 5_001 + b"\n",
    "nan.dsjson": (EVENT % ("NaN", "")).encode(),
    "inf.dsjson": (EVENT % ("1e999", "")).encode(),
    "time.dsjson": (EVENT % ("0", ',"Timestamp":"yesterday"')).encode(),
    "text.dsjson.gz": b"no gzip",
    "bytes.vw": b"\xff\xfe\x00",
    "inf.vw": b"0:1:0.5 |a b:1e400\n|b\n",
    "nan.vw": b"0:nan:0.5 |a\n|b\n",
    "names.vw": b"0:1:0.5 | A:1 |A b:2\n|b\n",
    "names2.vw": b"0:1:0.5 |A b:2 | A:1\n|b\n",
    "text.vw.gz": b"no gzip",
    "time.csv": (OBD % ("", "yesterday,0,1,0,0.5")).encode(),
    "item.csv": (OBD % ("", "2019-11-24 00:00:00+00:00,x,1,0,0.5")).encode(),
    "none.csv": (OBD % ("", "2019-11-24 00:00:00+00:00,,1,0,0.5")).encode(),
    "negative.csv": (OBD % ("", "2019-11-24 00:00:00+00:00,-1,1,0,0.5")).encode(),
    "huge.csv": (OBD % ("", "2019-11-24 00:00:00+00:00,99999999999,1,0,0.5")).encode(),
    "click.csv": (OBD % ("", "2019-11-24 00:00:00+00:00,0,1,yes,0.5")).encode(),
    "affinity.csv": (OBD % (",user-item_affinity_x", "2019-11-24 00:00:00+00:00,0,1,0,0.5,3")).encode(),
}


@pytest.mark.parametrize("name", FILES)
def test_files_that_are_no_logs_are_told_in_one_line(name, tmp_path):
    (tmp_path / name).write_bytes(FILES[name])
    with pytest.raises(LogError) as told:
        open_log(tmp_path / name).check()
    assert name in str(told.value)
    assert "\n" not in str(told.value)


@pytest.mark.parametrize("path", ["a\0b", "x" * 5_000 + ".parquet", ""])
def test_paths_that_cannot_be(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for read in (open_log, DecisionLog.read, DecisionLog.scan):
        with pytest.raises(LogError):
            read(path)
    if path:
        with pytest.raises(LogError):
            shop_log(3).write(path)


def test_a_folder_that_does_not_exist_is_told(tmp_path):
    for use in (DecisionLog.write, DecisionLog.append):
        with pytest.raises(TreebanditError, match="give a path in a folder that exists"):
            use(shop_log(3), tmp_path / "none" / "log.parquet")


def records(n=40, **changes):
    """A right log but for its tenth row."""
    for number in range(n):
        row = {
            "id": str(number),
            "arms": ["a", "b"],
            "context": {"x": number / 7},
            "chosen": [number % 2],
            "probability": 0.5,
            "reward": float(number % 3 == 0),
        }
        yield row | (changes if number == 9 else {})


def log_with(**changes):
    """Not checked, as what is scanned is not."""
    lines = "\n".join(json.dumps(row) for row in records(**changes))
    from treebandit.evaluation.log_files import scan_text

    return DecisionLog.from_frame(scan_text(lines))


IMPOSSIBLE = (
    {"probability": 0.0},
    {"chosen": [5]},
    {"chosen": []},
    {"chosen": [None]},
    {"arms": []},
    {"arms": None},
    {"probabilities": [1.0]},
    {"reward": 1e200},
    {"rewards": [-1e200]},
)
USES = {
    "evaluate": lambda log, _: evaluate(log, ["uniform"]),
    "replay": lambda log, _: replay(log, LinUCB(seed=0)),
    "warm_start": lambda log, _: warm_start(LinUCB(seed=0), log),
    "learn": lambda log, _: LinUCB(seed=0).learn(log),
    "to_columns": lambda log, _: to_columns(log),
    "write_dsjson": lambda log, path: write_dsjson(log, path / "log.dsjson"),
    "write_vw_text": lambda log, path: write_vw_text(log, path / "log.vw"),
    "write_open_bandit": lambda log, path: write_open_bandit(log, path / "log.csv"),
}


@pytest.mark.parametrize("use", USES)
def test_a_row_that_cannot_be_true_stops_every_use(use, tmp_path):
    for change in IMPOSSIBLE:
        with pytest.raises(LogError):
            USES[use](log_with(**change), tmp_path)


@pytest.mark.parametrize(
    "context",
    ["text", 3, ["a", "b"], [1, {"z": 2}], '{"', [[1, 2], [3]]],
)
def test_contexts_of_which_no_agent_can_make_rows(context):
    frame = log_with().frame.collect().with_columns(context=pl.lit(json.dumps(context)))
    if context == '{"':
        frame = frame.with_columns(context=pl.lit(context))
    log = DecisionLog.from_frame(frame)
    agent = LinUCB(seed=0)
    agent.learn([{"x": 1.0}, {"x": 2.0}], [1.0, 0.0], arms=["a", "b"])
    for use in (lambda: evaluate(log, {"agent": agent}, estimators=("ips",)), lambda: replay(log, agent)):
        with pytest.raises(TreebanditError):
            use()
    with pytest.raises(TreebanditError):
        warm_start(agent, log)


def test_agents_of_other_arms_and_columns():
    numbered, narrow = LinUCB(seed=0), LinUCB(seed=0)
    numbered.learn(np.zeros((2, 1)), [1.0, 0.0], arms=[0, 1])
    narrow.learn(np.zeros((2, 3)), [1.0, 0.0])
    with pytest.raises(
        LogError, match=r"the log offers \['a', 'b'\], and the LinUCB has arms that are whole"
    ):
        evaluate(log_with(), {"agent": numbered}, estimators=("ips",))
    with pytest.raises(InputError):
        evaluate(log_with(), {"agent": narrow}, estimators=("ips",))
    for agent in (5, None, LinUCB):
        with pytest.raises((ParameterError, InputError)):
            replay(log_with(), agent)


def test_the_least_probabilities_there_are_give_numbers_and_no_warnings():
    log = log_with(probability=5e-324, reward=1e30)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = evaluate(log, ["uniform"], anyway=True, estimators=("ips", "snips", "shrinkage-dr"))
        json.dumps(found.as_dict(), allow_nan=False)
        replay(log, LinUCB(seed=0))
    assert found["uniform"].refusal is not None


def test_columns_of_other_types_are_told():
    frame = log_with().frame.collect()
    for name, value in {
        "time": {"a": 1},
        "chosen": "x",
        "reward": [1.0],
        "probability": b"\xff",
        "arms": 3,
    }.items():
        with pytest.raises(LogError):
            DecisionLog.from_frame(frame.with_columns(pl.Series(name, [value] * len(frame)))).check()


@pytest.mark.parametrize(
    "options",
    [
        {"reward": "text"},
        {"arm": "list"},
        {"probability": "text"},
        {"probability": math.nan},
        {"time": "text"},
        {"arms": "text"},
        {"arms": ["a"]},
    ],
)
def test_tables_with_columns_of_other_types_are_told(options):
    table = {"arm": ["a", "b"], "r": [1.0, 0.0], "text": ["q", "q"], "list": [["a"], ["b"]]}
    with pytest.raises(LogError):
        from_columns(table, **({"arm": "arm", "reward": "r"} | options)).check()


@pytest.mark.parametrize(
    "rewards",
    [[3], "abc", [{"reward": 1.0}], [{"id": "1", "reward": math.nan}], [{"id": "1", "reward": "x"}]],
)
def test_late_rewards_that_are_none_are_told(rewards):
    with pytest.raises(LogError):
        shop_log(5).with_rewards(rewards)


def test_no_late_rewards_change_nothing():
    assert shop_log(5).with_rewards([]).late == 0


def test_an_empty_table_of_the_open_bandit_dataset_is_an_empty_log(tmp_path):
    (tmp_path / "empty.csv").write_text(OBD.partition("%")[0] + "\n")
    assert len(read_open_bandit(tmp_path / "empty.csv")) == 0
