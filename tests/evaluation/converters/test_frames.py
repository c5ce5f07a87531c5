"""Any frame by naming its columns."""

import os
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest

from treebandit.errors import LogError, ParameterError
from treebandit.evaluation import DecisionLog, evaluate, from_columns, shop_log, to_columns

LOGS = os.environ.get("TREEBANDIT_LOGS")

TABLE = pl.DataFrame(
    {
        "who": [7, 8, 9],
        "mail": ["men", "women", "men"],
        "visit": [1, 0, 0],
        "age": [30, None, 41],
        "city": ["Kiel", "Ulm", None],
        "p": [0.5, 0.25, 0.5],
        "when": ["2026-01-01 10:00:00", "2026-01-02 10:00:00", "2026-01-03 10:00:00"],
    }
)


@pytest.mark.parametrize("table", [TABLE, TABLE.lazy(), TABLE.to_pandas(), TABLE.to_dict(as_series=False)])
def test_named_columns_make_a_log(table):
    log = from_columns(
        table, arm="mail", reward="visit", context=["age", "city"], probability="p", id="who", time="when"
    )
    log.check()
    records = list(log.records())
    assert records[0]["arms"] == ["men", "women"]
    assert [each["chosen"] for each in records] == [[0], [1], [0]]
    assert [each["id"] for each in records] == ["7", "8", "9"]
    assert records[1]["context"]["city"] == "Ulm"
    assert records[1]["context"]["age"] is None
    assert records[2]["time"] == "2026-01-03T10:00:00.000000Z"


def test_probabilities_may_be_one_number_or_one_per_arm_or_unknown():
    def probabilities(given):
        log = from_columns(
            TABLE, arm="mail", reward="visit", probability=given, arms=["women", "none", "men"]
        )
        log.check()
        return log.frame.collect()["probability"].to_list()

    assert probabilities(1 / 3) == [1 / 3] * 3
    assert probabilities({"men": 0.6, "women": 0.3, "none": 0.1}) == [0.6, 0.3, 0.6]
    assert probabilities(None) == [None] * 3
    with pytest.raises(ParameterError, match="no entry for women"):
        probabilities({"men": 1.0})


def test_each_decision_may_offer_arms_of_its_own():
    table = TABLE.with_columns(offered=pl.Series([["men", "x"], ["a", "b", "women"], ["women", "men"]]))
    log = from_columns(table, arm="mail", reward="visit", arms="offered")
    assert log.frame.collect()["chosen"].to_list() == [[0], [2], [1]]


def test_mistakes_are_told():
    with pytest.raises(LogError, match="no column 'vist'; did you mean 'visit'"):
        from_columns(TABLE, arm="mail", reward="vist")
    with pytest.raises(LogError, match=r"\['women'\] were chosen but are not among the arms"):
        from_columns(TABLE, arm="mail", reward="visit", arms=["men"])
    with pytest.raises(LogError, match="rows of 'city' are null"):
        from_columns(TABLE, arm="city", reward="visit")
    with pytest.raises(LogError, match="is no table"):
        from_columns(3, arm="a", reward="b")


def test_a_log_becomes_a_table_again():
    table = to_columns(shop_log(20, seed=1))
    assert table.columns == ["id", "time", "arm", "probability", "reward", "hour", "age", "city"]
    assert set(table["arm"]) <= {"coffee", "tea", "water"}
    again = from_columns(
        table, arm="arm", reward="reward", probability="probability", context=["hour", "age", "city"], id="id",
        time="time", arms=["coffee", "tea", "water"],
    )  # fmt: skip
    mine = shop_log(20, seed=1, probabilities=False).frame.collect()
    assert (
        again.frame.collect()
        .select("id", "time", "arms", "chosen", "reward")
        .equals(mine.select("id", "time", "arms", "chosen", "reward"))
    )


@pytest.mark.skipif(not LOGS, reason="set TREEBANDIT_LOGS to a folder with hillstrom.csv.gz")
def test_hillstroms_customers():
    table = pd.read_csv(Path(LOGS) / "hillstrom.csv.gz")
    context = ["recency", "history_segment", "history", "mens", "womens", "zip_code", "newbie", "channel"]
    log = from_columns(table, arm="segment", reward="visit", probability=1 / 3, context=context)
    summary = log.check()
    assert (summary.decisions, summary.rewarded, summary.most_offered) == (64_000, 64_000, 3)
    found = evaluate(
        log, ["arm:Mens E-Mail", "arm:Womens E-Mail", "arm:No E-Mail", "uniform"], estimators=("snips", "ips")
    )
    means = {"arm:Mens E-Mail": 0.1828, "arm:Womens E-Mail": 0.1514, "arm:No E-Mail": 0.1062}
    for name, mean in means.items():
        assert found[name]["snips"].value == pytest.approx(mean, abs=5e-5)
    assert found["uniform"]["ips"].value == pytest.approx(table["visit"].mean())


def test_decimals_are_numbers():
    decimals = pl.Series("price", ["80.5", "7.25"]).str.to_decimal(scale=2)
    table = pl.DataFrame({"arm": ["a", "b"], "paid": [1.0, 0.0], "price": decimals})
    log = from_columns(table, arm="arm", reward="paid", context=["price"], probability=0.5)
    assert [each["context"] for each in log.records()] == [{"price": 80.5}, {"price": 7.25}]
    nested = pl.DataFrame({"id": ["1"], "arms": [["a", "b"]], "chosen": [0], "context": [{"p": decimals[0]}]})
    nested = nested.with_columns(pl.Series("arm_contexts", [[{"q": decimals[1]}] * 2]))
    found = next(DecisionLog.from_frame(nested).records())
    assert (found["context"], found["arm_contexts"]) == ({"p": 80.5}, [{"q": 7.25}] * 2)


def test_the_first_of_several_rows_with_one_id_can_be_kept():
    table = {"id": ["1", "1", "2"], "arm": ["a", "b", "a"], "paid": [1.0, 0.0, 0.5]}
    named = {"arm": "arm", "reward": "paid", "id": "id", "probability": 0.5}
    with pytest.raises(LogError, match="duplicates='first'"):
        from_columns(table, **named).check()
    log = from_columns(table, **named, duplicates="first")
    assert [each["reward"] for each in log.records()] == [1.0, 0.5]


@pytest.mark.parametrize(
    "given", [[0.5, 0.5], np.full(2, 0.5), pl.Series([0.5, 0.5]), (0.5,), True, {"a": [0.5], "b": 1}]
)
def test_a_probability_is_a_column_a_number_or_a_dict(given):
    table = pl.DataFrame({"arm": ["a", "b"], "reward": [0.0, 1.0]})
    with pytest.raises(
        ParameterError, match="give the name of its column, one number for all decisions, or a dict"
    ):
        from_columns(table, arm="arm", reward="reward", probability=given)
    for number in (0.5, np.float32(0.5), 1):
        assert len(from_columns(table, arm="arm", reward="reward", probability=number)) == 2
