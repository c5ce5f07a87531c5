"""ZOZO's logs, real ones where TREEBANDIT_LOGS names a folder that has them."""

import os
from pathlib import Path

import polars as pl
import pytest

from treebandit.errors import EvidenceError, LogError
from treebandit.evaluation import difference_between_logs, evaluate, read_open_bandit, write_open_bandit

LOGS = os.environ.get("TREEBANDIT_LOGS")
ZOZO = Path(LOGS or "") / "obp" / "dataset" / "obd"
needs_zozo = pytest.mark.skipif(
    not LOGS or not ZOZO.exists(),
    reason="ZOZO's logs are in the wheel of obp 0.4.1; set TREEBANDIT_LOGS to a folder it was unzipped into",
)

SMALL = """,timestamp,item_id,position,click,propensity_score,user_feature_0,user-item_affinity_0,user-item_affinity_1
0,2019-11-24 00:01:29.788335+00:00,1,3,0,0.25,abc,0.0,2.5
1,2019-11-24 00:01:43.188876+00:00,0,1,1,0.75,def,1.0,0.0
"""


def test_rows_of_the_file_are_decisions(tmp_path):
    file = tmp_path / "bts" / "men" / "men.csv"
    file.parent.mkdir(parents=True)
    file.write_text(SMALL)
    log = read_open_bandit(file)
    log.check()
    first, second = log.records()
    assert first == {
        "id": "0",
        "time": "2019-11-24T00:01:29.788335Z",
        "arms": ["0", "1"],
        "context": {"position": 3, "user_feature_0": "abc"},
        "arm_contexts": [{"affinity": 0.0}, {"affinity": 2.5}],
        "chosen": [1],
        "probability": 0.25,
        "reward": 0.0,
        "policy": "bts",
    }
    assert (second["chosen"], second["reward"]) == ([0], 1.0)
    write_open_bandit(log, tmp_path / "again.csv")
    assert (tmp_path / "again.csv").read_text().removeprefix(chr(34) * 2) == SMALL


def test_other_files_are_told(tmp_path):
    (tmp_path / "x.csv").write_text("a,b\n1,2\n")
    with pytest.raises(LogError, match="lacks timestamp, item_id"):
        read_open_bandit(tmp_path / "x.csv")
    with pytest.raises(LogError, match="does not exist"):
        read_open_bandit(tmp_path / "y.csv")


#: Effective sample size, largest weight, IPS and SNIPS of the uniform policy, and clicks of the random log.
FACTS = {
    "all": (340, 278, 0.0024, 0.0023, 0.0038),
    "men": (656, 178, 0.0030, 0.0032, 0.0046),
    "women": (2, 21739, 0.0074, 0.0024, 0.0046),
}


@needs_zozo
@pytest.mark.parametrize("campaign", FACTS)
def test_the_uniform_policy_from_the_log_of_thompson_sampling(campaign):
    effective, largest, ips, snips, clicks = FACTS[campaign]
    log = read_open_bandit(ZOZO / "bts" / campaign / f"{campaign}.csv")
    random = read_open_bandit(ZOZO / "random" / campaign / f"{campaign}.csv")
    found = evaluate(log, ["uniform"], estimators=("ips", "snips"), anyway=True)["uniform"]
    truth = evaluate(random, ["logging"], estimators=("ips", "snips"))["logging"]
    assert round(found.diagnostics.effective) == effective
    assert round(found.diagnostics.largest_weight) == largest
    assert found["ips"].value == pytest.approx(ips, abs=5e-5)
    assert found["snips"].value == pytest.approx(snips, abs=5e-5)
    assert truth["ips"].value == pytest.approx(clicks)
    if campaign == "women":
        assert "10,000 decisions are worth 2.08" in found.refusal
        refused = evaluate(log, ["uniform"], estimators=("ips",))["uniform"]
        assert not refused.estimates
        with pytest.raises(EvidenceError, match="not enough evidence.*anyway=True"):
            refused["ips"]
        return
    assert found.refusal is None
    for estimator in ("ips", "snips"):
        difference = difference_between_logs(found[estimator], truth[estimator])
        assert difference.interval.holds(0.0), estimator


@needs_zozo
def test_the_random_log_supports_every_policy():
    log = read_open_bandit(ZOZO / "random" / "men" / "men.csv")
    found = evaluate(log, ["uniform", "arm:3"], estimators=("ips",))
    assert found["uniform"].diagnostics.effective == pytest.approx(10_000)
    assert found["arm:3"].diagnostics.largest_weight == pytest.approx(34)


@needs_zozo
def test_a_real_log_survives_the_way_there_and_back(tmp_path):
    log = read_open_bandit(ZOZO / "bts" / "women" / "women.csv")
    write_open_bandit(log, tmp_path / "women.csv")
    again = read_open_bandit(tmp_path / "women.csv")
    assert again.frame.collect().drop("policy").equals(log.frame.collect().drop("policy"))


def test_brackets_in_names_are_no_patterns(tmp_path):
    file = tmp_path / "men[1]" / "men[1].csv"
    file.parent.mkdir()
    columns = pl.read_csv(SMALL.encode()).select(pl.all().exclude("^user-.*$"))
    file.write_text(columns.write_csv())
    file.with_name("item_context.csv").write_text("item_id\n" + "0\n" * 4)
    assert [len(record["arms"]) for record in read_open_bandit(file).records()] == [4, 4]
