import polars as pl
import pytest
from reports.invented import make_record, plan_row, spec_of

from treebandit.experiments.records import merge_plan, write_record
from treebandit.reports.figures import figures, write_figures
from treebandit.reports.page import write_page
from treebandit.reports.problems import LEAST_PROBLEMS, by_problem
from treebandit.reports.summary import read_results

PAIRS = {f"pair-{place:02}": float(place) for place in range(1, LEAST_PROBLEMS + 1)}


def write(folder, problems, *, rounds=10, seeds=1):
    for factor, agent in ((1.0, "TETS-RF"), (3.0, "LinUCB")):
        for name, regret in problems.items():
            for seed in range(seeds):
                spec = spec_of(agent, name, seed, rounds)
                total = factor * regret + seed
                record = make_record(spec, pl.Series([total / rounds] * rounds).to_numpy())
                write_record(record, folder)
                merge_plan(folder, [plan_row(spec)])
    return read_results(folder)


def test_means_over_seeds_and_the_most_common_family(tmp_path):
    runs = write(tmp_path, PAIRS | {"navigation-1": 50.0, "navigation-2": 60.0}, seeds=3).runs
    frame = by_problem(runs)
    assert frame.height == 2 * (LEAST_PROBLEMS + 2)
    row = frame.filter(agent="LinUCB", environment="pair-02").row(0, named=True)
    assert row["regret"] == pytest.approx(7.0)
    assert (row["family"], row["main"], row["seeds"]) == ("pair", True, 3)
    assert frame.filter(family="navigation")["main"].to_list() == [False] * 4


def specs_of(results, *, page=False):
    (figure,) = (each for each in figures(results, page=page) if each.name == "regret-by-problem")
    return [panel.to_dict() for panel in figure.panels]


def test_bars_are_means_of_the_common_family_alone(tmp_path):
    agents, problems = specs_of(write(tmp_path, PAIRS | {"navigation-1": 5000.0}))
    assert (
        " ".join(agents["title"]["text"])
        == f"by agent; bars: mean over the {LEAST_PROBLEMS} problems named pair"
    )
    bars = agents["datasets"][agents["layer"][1]["data"]["name"]]
    means = {row["agent"]: row["regret"] for row in pl.read_csv(bars.encode()).to_dicts()}
    usual = sum(PAIRS.values()) / len(PAIRS)
    assert means == pytest.approx({"TETS-RF": usual, "LinUCB": 3 * usual})
    encoding = problems["layer"][0]["encoding"]
    assert encoding["y"]["sort"] == ["navigation-1", *PAIRS]
    assert encoding["x"]["scale"]["type"] == "log"


def test_few_problems_have_no_such_figure(tmp_path):
    results = write(tmp_path, dict(list(PAIRS.items())[1:]))
    assert "regret-by-problem" not in {figure.name for figure in figures(results)}


def test_the_page_has_it_too_and_its_panels_follow_the_legend(tmp_path):
    results = write(tmp_path / "records", PAIRS)
    for spec in specs_of(results, page=True):
        assert {param["name"] for param in spec["params"]} == {"hidden", "focus"}
    text = write_page(results, tmp_path / "report.html").read_text(encoding="utf-8")
    assert 'id="regret-by-problem-1"' in text


def test_problems_of_other_lengths_are_left_out(tmp_path):
    write(tmp_path, {"pair-99": 4.0}, rounds=20)
    frame = by_problem(write(tmp_path, PAIRS).runs)
    assert sorted(frame["environment"].unique()) == list(PAIRS)


def test_the_figure_is_written(tmp_path, monkeypatch):
    results = write(tmp_path / "records", PAIRS | {"navigation-1": 20.0})
    # The other figures of so many problems take seconds to draw, and have tests of their own.
    drawn = [each for each in figures(results) if each.name == "regret-by-problem"]
    monkeypatch.setattr("treebandit.reports.figures.figures", lambda results: drawn)
    files = {file.name: file for file in write_figures(results, tmp_path / "figures")}
    text = files["regret-by-problem.svg"].read_text()
    assert {name for name in PAIRS if name in text} == set(PAIRS)
    assert "by problem" in text
