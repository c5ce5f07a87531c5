"""What a study plays is told by its records: the content of a log, rounds of an own environment, the code loaded."""

import importlib
import sys

import pytest

from treebandit.evaluation import shop_log
from treebandit.experiments import execute, load_runs, load_study
from treebandit.experiments.provenance import CurrentCode, describe_code
from treebandit.reports import read_run_table, summarise, write_run_table

OWN = """
import numpy as np
from treebandit import Candidates, Columns, Outcome, Round, best_arm

class Prices:
    columns = Columns.numeric(1)

    def __init__(self, csv="", rounds=5, seed=None):
        self.rounds, self.csv = rounds, csv

    @property
    def horizon(self):
        return self.rounds

    def observe(self):
        return Round(Candidates(np.ones((2, 1), np.float32), np.arange(2), self.columns), best_arm)

    def pull(self, choice):
        return Outcome(np.ones(1), 0.0)
"""


@pytest.fixture
def beside(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    sys.modules.pop("own_prices", None)


def played(folder, text, name="study.toml"):
    (folder / name).write_text(text)
    for event in execute(load_study(folder / name).runs(), folder / "records", workers=1):
        assert event.kind != "failed", event
    return load_runs(folder / "records")


def test_another_log_under_the_same_name_is_played_anew(tmp_path, monkeypatch):
    text = """
rounds = 20
seeds = 1
agents = ["LinUCB"]
environments = [{ name = "log", class = "Logged", log = "mine.parquet" }]
"""
    shop_log(200, policy="uniform").write(tmp_path / "mine.parquet")
    monkeypatch.chdir(tmp_path.parent)
    first = played(tmp_path, text)
    shop_log(200, policy="uniform", seed=1).write(tmp_path / "mine.parquet")
    assert played(tmp_path, text).height == first.height + 1


def test_an_environment_of_ones_own_is_made_for_the_rounds_of_the_study(beside):
    (beside / "own_prices.py").write_text(OWN)
    (beside / "prices.csv").write_text("price\n1\n")
    runs = played(
        beside,
        """
seeds = 1
agents = ["LinUCB"]
environments = [{ name = "prices", class = "own_prices:Prices", rounds = 12, csv = "prices.csv" }]
""",
    )
    assert runs["rounds"].to_list() == [12]


def test_the_hash_of_a_module_is_that_of_what_was_loaded(beside):
    (beside / "own_prices.py").write_text(OWN)
    own = importlib.import_module("own_prices").Prices()
    before = describe_code(own)
    (beside / "own_prices.py").write_text(OWN + "\n# edited\n")
    assert describe_code(own) == before
    assert CurrentCode([str(beside)]).stale_reason(before) == "own_prices has changed"


def test_a_mark_before_a_study_is_no_part_of_it(tmp_path):
    text = '\ufeffrounds = 5\nseeds = 1\nagents = ["LinUCB"]\nenvironments = ["mushroom"]\n'
    (tmp_path / "study.toml").write_text(text, encoding="utf-8")
    assert len(load_study(tmp_path / "study.toml")) == 1


def test_a_table_of_runs_holds_one_setting_of_an_agent(tmp_path):
    text = """
rounds = 60
seeds = {seeds}
environments = ["mushroom"]
agents = [{{ name = "mine", class = "LinUCB", exploration = {exploration} }}]
"""
    for exploration, seeds in ((1.0, 3), (20.0, 2)):
        folder = tmp_path / f"{exploration:g}"
        folder.mkdir()
        played(folder, text.format(exploration=exploration, seeds=seeds))
        write_run_table(folder / "records", tmp_path / "runs.csv")
    table, newest = summarise(read_run_table(tmp_path / "runs.csv")), summarise(folder / "records")
    assert table["seeds"].to_list() == [2]
    assert table["regret_mean"].to_list() == newest["regret_mean"].to_list()
