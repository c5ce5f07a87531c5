import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import toys

from treebandit import __version__
from treebandit.experiments.records import load_plan, load_runs
from treebandit.reports import write_run_table

STUDY = """
rounds = 60
seeds = 2
environments = ["mushroom", {name = "late", data = "magic", batch = 20}]

[[agents]]
name = "Means"
class = "toys:Means"

[[agents]]
name = "Other"
class = "toys:Broken"
cure = "CURE"
"""


def without_roads():
    return {name: value for name, value in os.environ.items() if name != "TREEBANDIT_ROADS"}


def treebandit(*arguments, **options):
    command = [sys.executable, "-m", "treebandit", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)


@pytest.fixture
def study(tmp_path):
    (tmp_path / "toys.py").write_text(Path(toys.__file__).read_text())
    path = tmp_path / "my.toml"
    path.write_text(STUDY.replace("CURE", (tmp_path / "cure").as_posix()))
    return path


def test_run_report_and_rerun_of_what_failed(study, tmp_path):
    into = tmp_path / "into"
    first = treebandit("run", study, "--into", into, "--workers", 2)
    assert first.returncode == 1
    assert first.stdout.count("RuntimeError: broken in round 5") == 2
    assert "failed: Other on mushroom, seed 1" in first.stdout
    assert "2 of 8 runs failed" in first.stdout
    assert sorted(load_runs(into)["agent"]) == ["Means"] * 4 + ["Other"] * 2
    (tmp_path / "cure").touch()
    again = [line for line in first.stdout.splitlines() if line.startswith("run it again: treebandit")]
    command = shlex.split(again[0].removeprefix("run it again: treebandit"))
    assert treebandit(*command).returncode == 0
    assert load_runs(into).height == 7
    whole = treebandit("run", study, "--into", into)
    assert whole.returncode == 0
    assert "8 of 8 runs are finished" in whole.stdout
    assert load_plan(into).height == 8
    output = json.loads(treebandit("report", into, "--json").stdout)
    assert {(row["agent"], row["environment"], row["rounds"], row["seeds"]) for row in output} == {
        (agent, environment, 60, 2) for environment in ("late", "mushroom") for agent in ("Means", "Other")
    }
    assert len(output) == 4
    assert {"regret_mean", "regret_sd", "cpu_seconds_mean"} <= set(output[0])
    runs = load_runs(into)
    for row in output:
        same = runs.filter(agent=row["agent"], environment=row["environment"])
        assert row["regret_mean"] == pytest.approx(same["final_regret"].mean())


def test_an_interrupt_says_how_to_go_on(study, tmp_path):
    study.write_text(study.read_text().replace('"toys:Means"', '"toys:Means"\npause = 0.1'))
    command = [sys.executable, "-m", "treebandit", "run", str(study), "--into", str(tmp_path / "into")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    while not list((tmp_path / "into").glob(".leases/*")):
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate()
    assert process.returncode == 130
    assert "the same command goes on" in output
    assert not list((tmp_path / "into").glob(".leases/*"))


def test_selections(study, tmp_path):
    into = tmp_path / "into"
    options = ["--only-agent", "Means", "--only-environment", "late", "--seeds", "3", "--rounds", "20"]
    assert treebandit("run", study, "--into", into, *options).returncode == 0
    runs = load_runs(into)
    assert runs.select("agent", "environment", "rounds").unique().rows() == [("Means", "late", 20)]
    assert sorted(runs["seed"]) == [0, 1, 2]


def test_what_a_study_no_longer_has_is_no_longer_asked_for(study, tmp_path):
    into, text = (
        tmp_path / "into",
        study.read_text().replace("toys:Broken", "toys:Means").replace("cure =", "#"),
    )
    study.write_text(text)
    (tmp_path / "other.toml").write_text(text.replace("seeds = 2", "seeds = 1"))
    assert treebandit("run", study, "--into", into).returncode == 0
    assert treebandit("run", study, "--into", into, "--only-agent", "Means", "--seeds", 3).returncode == 0
    assert load_plan(into).height == 8 + 2, "a part of the study, and more seeds, leave what was asked for"
    assert treebandit("run", tmp_path / "other.toml", "--into", into).returncode == 0
    study.write_text(text[: text.rindex("[[agents]]")].replace("rounds = 60", "rounds = 50"))
    result = treebandit("run", study, "--into", into, "--only-environment", "mushroom")
    assert result.returncode == 0, result.stderr
    planned = load_plan(into).group_by("study", "agent").len().sort("study", "agent").rows()
    assert planned == [("my", "Means", 6 + 2), ("other", "Means", 2), ("other", "Other", 2)]
    told = treebandit("report", into).stdout
    assert "10 of 10 runs are finished." in told
    assert "Left out" in told


def test_a_study_that_varies_a_parameter(study, tmp_path):
    study.write_text(
        'environments = ["mushroom"]\nagents = [{name = "Means", class = "toys:Means"}]\nrounds = 30\nseeds = 1\n'
        '[vary]\nparameter = "environment.batch"\nvalues = [1, 10]\n'
    )
    assert treebandit("run", study, "--into", tmp_path / "into").returncode == 0
    output = json.loads(treebandit("report", tmp_path / "into", "--json").stdout)
    assert [(row["varied"], row["value"]) for row in output] == [
        ("environment.batch", "1"),
        ("environment.batch", "10"),
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "quik"], "treebandit: no study 'quik'; did you mean 'quick'? give one of"),
        (["run", "quick", "--only-agent", "Nobody"], "has no agent 'Nobody'; it has TEUCB-XGBoost"),
        (["run", "quick", "--only-run", "abc"], "has no run 'abc'"),
    ],
)
def test_mistakes_are_one_sentence_and_leave_no_trace(tmp_path, arguments, message):
    done = treebandit(*arguments, "--into", tmp_path / "into")
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "into").exists()


UNUSABLE = [
    (["run", "STUDY", "--into", ""], "--into is ''"),
    (["run", "STUDY", "--into", "FILE"], "--into is '.*', which cannot be used .*is no folder"),
    (["run", "STUDY", "--into", "FILE/below"], "--into is '.*', which cannot be used .*is no folder"),
    (["run", "STUDY", "--into", "LONG"], "--into is 'x"),
    (["run", "STUDY", "--into", "/proc/nowhere"], "/proc/nowhere"),
    (["run", "STUDY", "--into", "NEW", "--cluster", ""], "--cluster is ''"),
    (["run", "STUDY", "--into", "NEW", "--cluster", "nonsense"], "no Dask scheduler answers at 'nonsense'"),
    (["run", "BAD", "--into", "NEW"], r"bad.toml: agent 'Means': ridge is 'much'; .*a number"),
    (["run", "navigation-random", "--into", "NEW", "--roads", "FILE"], "is not a folder"),
    (["run", "navigation-random", "--into", "NEW"], "environment 'pair-01': no road network is given"),
    (["report", "FILE"], "no folder"),
    (["report", "NEW"], "no folder"),
    (["report", "DONE", "--json", "--markdown"], "give one of them"),
    (["report", "DONE", "--html", ""], "--html is ''"),
    (["report", "DONE", "--html", "DONE"], "--html is '.*', which is a folder"),
    (["report", "DONE", "--html", "FILE/page.html"], "--html is '.*', which cannot be used|is no folder"),
    (["report", "DONE", "--html", "LONG"], "name too long"),
    (["report", "DONE", "--html", "/proc/page.html"], "/proc"),
    (["report", "DONE", "--figures", "FILE"], "--figures is '.*', which cannot be used"),
    (["report", "DONE", "--figures", ""], "--figures is ''"),
    (["roads", "record", "--scenario", "FILE", "--into", "FILE"], "--into is '.*', which cannot be used"),
]


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cli")
    (folder / "toys.py").write_text(Path(toys.__file__).read_text())
    text = 'environments = ["mushroom"]\nagents = [{name = "Means", class = "toys:Means"}]\nrounds = 30\nseeds = 1'
    (folder / "my.toml").write_text(text)
    (folder / "bad.toml").write_text(text.replace("toys:Means", 'LinUCB", ridge = "much'))
    (folder / "file").touch()
    assert treebandit("run", folder / "my.toml", "--into", folder / "done").returncode == 0
    return folder


@pytest.mark.parametrize(("arguments", "message"), UNUSABLE)
def test_unusable_values_are_one_sentence(done, arguments, message):
    meant = {"STUDY": "my.toml", "BAD": "bad.toml", "NEW": "new", "DONE": "done", "FILE": "file"}
    names = [argument.partition("/") for argument in arguments]
    paths = [
        done / meant[head] / tail if head in meant else head + slash + tail for head, slash, tail in names
    ]
    result = treebandit(*("x" * 300 if path == "LONG" else path for path in paths), env=without_roads())
    assert result.returncode == 2, result.stderr
    assert re.search(message, result.stderr), result.stderr
    assert result.stderr.startswith("treebandit: ")
    assert result.stderr.count("\n") == 1
    assert not (done / "new").exists()


@pytest.mark.parametrize("output", ["cp1252", "ascii", "ascii:surrogateescape"])
def test_output_that_is_not_utf_8(study, tmp_path, output):
    encoding = output.partition(":")[0]
    named = study.read_text().replace('"Means"', '"Mitte ≈ ü"').replace("toys:Broken", "toys:Means")
    study.write_text(named.replace("cure =", "#"), encoding="utf-8")
    into, given = (
        tmp_path / "into",
        {"env": os.environ | {"PYTHONIOENCODING": output}, "encoding": encoding, "errors": "replace"},
    )
    for command in (
        ["run", study, "--into", into],
        ["report", into],
        ["report", into, "--markdown"],
        ["report", into, "--json"],
    ):
        result = treebandit(*command, **given)
        assert result.returncode == 0, result.stderr
        assert "Mitte" in result.stdout
        assert not result.stderr
    assert {row["agent"] for row in json.loads(result.stdout)} == {"Mitte ≈ ü", "Other"}


def test_brackets_in_names_are_no_markup(study, tmp_path):
    named = study.read_text().replace('"Means"', '"TETS [v2]"').replace('"Other"', '"x[/y] :bug:"')
    study.write_text(named.replace('"late"', '"[red]"'))
    result = treebandit("run", study, "--into", tmp_path / "into", "--seeds", 1)
    assert result.returncode == 1, result.stderr
    assert "failed: x[/y] :bug: on mushroom, seed 0" in result.stdout
    assert "TETS [v2] on [red], seed 0" in result.stdout


def test_runs_of_an_edited_agent_are_stale_until_they_are_played_again(study, tmp_path):
    into, only = tmp_path / "into", ("--only-agent", "Means", "--seeds", 1)
    first = treebandit("run", study, "--into", into, *only)
    assert "stale" not in first.stdout
    (tmp_path / "toys.py").write_text(
        Path(toys.__file__).read_text().replace("noise: float = 0.1", "noise: float = 9")
    )
    regret = load_runs(into)["final_regret"].sum()
    for command in (("run", study, "--into", into, *only), ("report", into)):
        output = treebandit(*command).stdout
        assert "2 of 2 runs are stale, made by other code (toys has changed: 2)" in " ".join(output.split())
    output = treebandit("report", into, "--json")
    assert "2 of 2 runs are stale" in output.stderr
    assert len(json.loads(output.stdout)) == 2
    again = treebandit("run", study, "--into", into, *only, "--again")
    assert again.returncode == 0
    assert "stale" not in again.stdout
    assert load_runs(into)["final_regret"].sum() != regret
    assert treebandit("run", study, "--into", into, *only, "--again").stdout.count("seed 0") == 0


def test_runs_of_a_table_are_not_played_again(study, tmp_path):
    table, only = tmp_path / "runs.csv", ("--only-agent", "Means", "--only-environment", "late")
    treebandit("run", study, "--into", tmp_path / "a", *only, "--seeds", 1)
    write_run_table(tmp_path / "a", table)
    rest = treebandit("run", study, "--into", tmp_path / "b", *only, "--seeds", 2, "--played", table)
    assert rest.returncode == 0
    assert load_runs(tmp_path / "b")["seed"].to_list() == [1]
    none = treebandit("run", study, "--into", tmp_path / "c", *only, "--seeds", 1, "--played", table)
    assert none.returncode != 0
    assert "has all 1 runs" in none.stderr


def test_a_damaged_record_is_told_and_played_again(study, tmp_path):
    into, only = tmp_path / "into", ("--only-agent", "Means", "--only-environment", "late", "--seeds", 1)
    treebandit("run", study, "--into", into, *only)
    (path,) = into.glob("*.parquet")
    path.write_bytes(path.read_bytes()[:-9])
    output = treebandit("report", into)
    assert (output.returncode, output.stderr.count("\n")) == (2, 1)
    assert "cannot be read (its checksum does not match); run the study again" in output.stderr
    again = treebandit("run", study, "--into", into, *only)
    assert again.returncode == 0
    assert "damaged record, played again: Means on late, seed 0" in again.stdout


def test_version():
    result = treebandit("--version")
    assert result.stdout == f"treebandit {__version__}\n"


def test_report_without_records(tmp_path):
    done = treebandit("report", tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("treebandit: no finished run in")


def test_data():
    done = treebandit("data")
    assert done.returncode == 0
    assert done.stdout.count("verified") == 4
    assert "https://doi.org/10.24432/C5XW20" in done.stdout


def test_help_loads_nothing_heavy():
    heavy = "{'numpy', 'polars', 'numba', 'sklearn', 'xgboost', 'altair', 'distributed', 'torch'}"
    code = f"import sys, treebandit.cli; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("missing", "store"), [("msgspec", "sqlite:///keys.db"), ("psycopg", "postgresql://nowhere/keys")]
)
def test_keys_name_the_library_that_is_missing(missing, store, tmp_path):
    code = (
        f"import sys; sys.modules[{missing!r}] = None; from treebandit.cli import main; "
        f"sys.argv = ['treebandit', 'keys', 'list', '--store', {store!r}]; main()"
    )
    command = [sys.executable, "-c", code]
    run = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert f"{missing} is not installed; run: pip install 'treebandit[service]'" in run.stderr
    assert run.returncode != 0


@pytest.mark.parametrize(
    ("missing", "command"),
    [
        ("polars", ["run", "quick", "--into", "records"]),
        ("scipy", ["run", "quick", "--into", "records"]),
        ("scipy", ["report", "records"]),
        ("altair", ["evaluate", "log.ndjson", "--policy", "uniform", "--html", "page.html"]),
    ],
)
def test_commands_name_the_library_that_is_missing_before_they_begin(missing, command, tmp_path):
    code = (
        f"import sys; sys.modules[{missing!r}] = None; from treebandit.cli import main; "
        f"sys.argv = {['treebandit', *command]}; main()"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    told = f"treebandit: {missing} is not installed; run: pip install 'treebandit[experiments]'\n"
    assert (run.stderr, run.stdout, run.returncode) == (told, "", 2)
