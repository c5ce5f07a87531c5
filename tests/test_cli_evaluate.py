"""`treebandit evaluate` from the outside."""

import json
import os
import subprocess
import sys

import pytest

from treebandit import LinUCB
from treebandit.evaluation import ESTIMATORS, DecisionLog, shop_log, shop_value, warm_start, write_dsjson


def treebandit(*arguments, **options):
    command = [sys.executable, "-m", "treebandit", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("logs")
    log = shop_log(2_000, policy="uniform", seed=1)
    log.write(made / "log.parquet")
    write_dsjson(log, made / "log.dsjson")
    agent = LinUCB(seed=0)
    warm_start(agent, log)
    agent.save(made / "agent.treebandit")
    return made


def test_a_table_in_the_terminal_and_a_page(folder, tmp_path):
    done = treebandit(
        "evaluate", folder / "log.parquet", "--policy", "uniform", "--policy", "arm:coffee", "--policy",
        folder / "agent.treebandit", "--html", tmp_path / "page.html",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    for words in (
        "2,000 decisions",
        "effective sample",
        "uniform",
        "arm:coffee",
        "agent.treebandit",
        "snips",
        "dr",
    ):
        assert words in done.stdout
    assert (tmp_path / "page.html").stat().st_size > 100_000


@pytest.mark.parametrize("name", ["log.parquet", "log.dsjson"])
def test_json(folder, name):
    done = treebandit("evaluate", folder / name, "--policy", "uniform", "--estimator", "ips", "--json")
    found = json.loads(done.stdout)
    (policy,) = found["policies"]
    assert policy["enough_evidence"]
    assert policy["estimates"]["ips"]["value"] == pytest.approx(shop_value("uniform"), abs=0.03)


def test_refusals_have_an_exit_code_and_can_be_overruled(tmp_path):
    shop_log(60, seed=0).write(tmp_path / "short.ndjson")
    arguments = ("evaluate", tmp_path / "short.ndjson", "--policy", "arm:water", "--estimator", "ips")
    done = treebandit(*arguments)
    assert done.returncode == 3
    assert "not enough evidence" in done.stdout
    assert "mean reward per decision" not in done.stdout.lower()
    anyway = treebandit(*arguments, "--anyway")
    assert anyway.returncode == 0
    assert "shown anyway" in anyway.stdout.replace("\n", " ")


def test_all_estimators_and_one_of_them(tmp_path):
    shop_log(300, policy="uniform", seed=0).write(tmp_path / "log.ndjson")
    command = ("evaluate", tmp_path / "log.ndjson", "--policy", "uniform", "--json")
    for names in (("all",), ("all", "ips"), ("ips", "all", "ips")):
        done = treebandit(*command, *(text for name in names for text in ("--estimator", name)))
        assert done.returncode == 0, done.stderr
        (policy,) = json.loads(done.stdout)["policies"]
        assert set(policy["estimates"]) == set(ESTIMATORS)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("none.parquet", "--policy", "uniform"), "none.parquet does not exist"),
        (("{log}", "--policy", "unifrom"), "did you mean 'uniform'"),
        (("{log}", "--policy", "uniform", "--estimator", "magic"), "'magic' is not known"),
        (
            ("{log}", "--policy", "uniform", "--estimator", "all", "--estimator", "magic"),
            "'magic' is not known",
        ),
        (("{log}", "--policy", "uniform", "--format", "csv"), "--format is 'csv'"),
        (("{log}", "--policy", "uniform", "--interval", "exact"), "interval is 'exact'"),
        (("zozo:x/y", "--policy", "uniform"), "zozo has no log 'x/y'"),
    ],
)
def test_mistakes_are_told_in_one_sentence(folder, arguments, message):
    given = [argument.replace("{log}", str(folder / "log.parquet")) for argument in arguments]
    done = treebandit("evaluate", *given)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_an_arm_that_the_output_cannot_write(tmp_path):
    records = [
        {"id": str(n), "arms": ["Tee ☕", "b"], "chosen": [n % 2], "probability": 0.5, "reward": n % 3}
        for n in range(200)
    ]
    DecisionLog.from_records(records).write(tmp_path / "log.parquet")
    command = ["evaluate", tmp_path / "log.parquet", "--policy", "uniform", "--policy", "arm:Tee ☕"]
    given = {"env": os.environ | {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "1"}, "encoding": "ascii"}
    done = treebandit(*command, "--estimator", "ips", **given)
    assert done.returncode == 0, done.stderr
    assert "arm:Tee ?" in done.stdout
    done = treebandit(*command, "--estimator", "ips", "--json", **given)
    assert "arm:Tee ☕" in json.dumps(json.loads(done.stdout), ensure_ascii=False)
