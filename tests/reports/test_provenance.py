import html
import re
import shlex
import subprocess
import sys
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from reports.invented import make_record, plan_row, spec_of, write_paper_like

from treebandit.datasets.roads import ABOUT
from treebandit.experiments.records import load_runs, merge_plan, write_record
from treebandit.experiments.study_file import load_study
from treebandit.reports.page import page
from treebandit.reports.provenance import about_data, played_studies, provenance_rows
from treebandit.reports.summary import Results, read_results


def with_study(results, *, title, source):
    return replace(
        results, plan=results.plan.with_columns(pl.lit(title).alias("title"), pl.lit(source).alias("source"))
    )


@pytest.fixture
def results(tmp_path):
    for seed in range(2):
        spec = spec_of("A", "adult", seed, 30, study="mine")
        write_record(make_record(spec, pl.Series([1.0] * 30).to_numpy()), tmp_path / "my results")
        merge_plan(tmp_path / "my results", [plan_row(spec)])
    return read_results(tmp_path / "my results")


def test_the_page_shows_the_title_and_how_to_run_the_study_again(results):
    results = with_study(results, title="Offers & shops", source="studies/mine.toml")
    (study,) = played_studies(results)
    assert study.title == "Offers & shops"
    command = "treebandit run studies/mine.toml --into 'my results-again' --seeds 2 --rounds 30"
    assert study.commands == (command,)
    assert shlex.split(command)[4] == "my results-again"
    text = page(results)
    assert "<title>Offers &amp; shops</title>" in text
    assert "<h1>Offers &amp; shops</h1>" in text
    assert "<div>treebandit run studies/mine.toml --into &#39;my results-again&#39;" in text


def test_the_printed_command_plays_the_same_runs_again(tmp_path):
    (tmp_path / "my studies").mkdir()
    (tmp_path / "my studies" / "offers.toml").write_text(
        'title = "Offers [v2]"\nenvironments = ["magic", {name = "late", data = "magic", batch = 5}]\n'
        'agents = ["Uniform"]\nrounds = 900\n'
    )

    def treebandit(*arguments):
        command = [sys.executable, "-m", "treebandit", *arguments]
        return subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True)

    alone = ("--workers", "1")  # a second process would take longer to start than its runs
    treebandit("run", "my studies/offers.toml", "--into", "first", "--seeds", "2", "--rounds", "8", *alone)
    treebandit("report", "first", "--html", "report.html")
    text = html.unescape((tmp_path / "report.html").read_text(encoding="utf-8"))
    assert "<h1>Offers [v2]</h1>" in text
    (printed,) = re.findall("<div>treebandit (run .*?)</div>", text)
    treebandit(*shlex.split(printed), *alone)
    first, again = (load_runs(tmp_path / folder) for folder in ("first", "first-again"))
    assert first["run_id"].sort().to_list() == again["run_id"].sort().to_list()
    assert first.height == 4


def test_a_hostile_file_name_is_quoted(results):
    (study,) = played_studies(with_study(results, title="", source="x.toml; rm -rf ~"))
    assert shlex.split(study.commands[0])[2] == "x.toml; rm -rf ~"


def test_without_a_plan_the_name_of_the_study_has_to_do(results):
    (study,) = played_studies(Results(results.folder, results.runs, results.plan.clear()))
    assert study.title == ""
    assert study.commands == ("treebandit run mine.toml --into 'my results-again'",)


def test_shipped_studies_are_run_by_name_and_their_titles_known(tmp_path):
    spec = spec_of("A", "adult", 0, 30, study="quick")
    write_record(make_record(spec, pl.Series([1.0] * 30).to_numpy()), tmp_path)
    (study,) = played_studies(read_results(tmp_path))
    assert study.title == load_study("quick").title
    assert study.commands[0].startswith("treebandit run quick --into ")


def test_provenance_names_each_different_value_and_stops_at_a_few(tmp_path):
    write_paper_like(tmp_path, seeds=2, agents=["LinUCB"], shorten=100)
    results = read_results(tmp_path)
    changed = [f'{{"packages": {{"numpy": "{place}"}}, "odd": [1, {{"a": null}}]}}' for place in range(8)]
    runs = results.runs.with_columns(pl.Series("provenance", changed))
    rows = provenance_rows(replace(results, runs=runs))
    assert rows["packages"] == [*(f"numpy {place}" for place in range(6)), "and 2 more"]
    assert rows["odd"] == ["1, a None"]
    assert rows["runs"] == ["8 of 8"]


def test_the_page_says_what_the_roads_of_luxembourg_are(tmp_path):
    (checksum, sentence), *_ = ABOUT.items()
    spec = spec_of("A", "navigation-1", 0, 40)
    spec["environment"]["sha256"] = checksum
    write_record(make_record(spec, np.zeros(40)), tmp_path)
    merge_plan(tmp_path, [plan_row(spec)])
    assert about_data(read_results(tmp_path)) == [sentence]
    other = spec_of("A", "elsewhere", 0, 40)
    write_record(make_record(other, np.zeros(40)), tmp_path / "other")
    merge_plan(tmp_path / "other", [plan_row(other)])
    assert about_data(read_results(tmp_path / "other")) == []
