import json
from io import StringIO

import numpy as np
import polars as pl
import pytest
from reports.invented import make_record, plan_row, spec_of, write_paper_like, write_varied
from rich.console import Console
from scipy import stats

from treebandit.errors import SavedFileError
from treebandit.experiments.records import merge_plan, read_record, write_record
from treebandit.reports import as_markdown, print_table
from treebandit.reports.page import page
from treebandit.reports.paper import paper_table
from treebandit.reports.summary import as_json, read_results, summarise


def write_finals(folder, finals, *, environment="adult", rounds=50, **more):
    """Runs whose final regret is as given: agent -> one number per seed."""
    specs = []
    for agent, numbers in finals.items():
        for seed, final in enumerate(numbers):
            spec = spec_of(agent, environment, seed, rounds, **more)
            specs.append(spec)
            write_record(make_record(spec, np.full(rounds, final / rounds)), folder)
    merge_plan(folder, [plan_row(spec) for spec in specs])


def row_of(frame, **wanted):
    found = frame.filter(*[pl.col(name) == value for name, value in wanted.items()])
    assert found.height == 1
    return found.row(0, named=True)


def test_numbers_agree_with_numpy_and_scipy(tmp_path):
    finals = {"A": [10.0, 12.0, 17.0], "B": [20.0, 21.0, 25.0]}
    write_finals(tmp_path, finals)
    frame = summarise(tmp_path)
    for agent, numbers in finals.items():
        row = row_of(frame, agent=agent)
        assert row["regret_mean"] == pytest.approx(np.mean(numbers))
        assert row["regret_sd"] == pytest.approx(np.std(numbers, ddof=1))
        low, high = stats.t.interval(0.95, 2, np.mean(numbers), stats.sem(numbers))
        assert (row["regret_low"], row["regret_high"]) == pytest.approx((low, high))
        assert (row["seeds"], row["rounds"]) == (3, 50)
        assert row["cpu_seconds_mean"] == pytest.approx(0.05)
        assert row["choosing"] + row["learning"] == pytest.approx(0.025, rel=1e-5)
    assert row_of(frame, agent="A")["best"]
    assert [row_of(frame, agent=agent)["rank"] for agent in "AB"] == [1, 2]


def test_ties_are_judged_on_shared_seeds(tmp_path):
    steady = [10.0, 30.0, 50.0, 70.0]
    write_finals(
        tmp_path,
        {
            "best": steady,
            "surely-worse": [number + 1.0 + 0.01 * place for place, number in enumerate(steady)],
            "maybe-worse": [12.0, 25.0, 60.0, 68.0],
            "two-seeds": [90.0, 91.0],
        },
    )
    frame = summarise(tmp_path)
    tied = {row["agent"]: row["tied"] for row in frame.to_dicts()}
    assert tied == {"best": False, "surely-worse": False, "maybe-worse": True, "two-seeds": None}
    gaps = np.array([2.0, -5.0, 10.0, -2.0])
    assert stats.ttest_1samp(gaps, 0.0).pvalue > 0.05


def test_an_agent_that_is_better_on_the_shared_seeds_is_not_tied(tmp_path):
    finals = {"best": [10.0, 30.0, 50.0, 1.0, 1.0, 1.0], "better-where-shared": [9.0, 28.99, 49.01]}
    write_finals(tmp_path, finals)
    tied = {row["agent"]: row["tied"] for row in summarise(tmp_path).to_dicts()}
    assert tied == {"best": False, "better-where-shared": False}


def test_one_seed_has_no_spread(tmp_path):
    write_finals(tmp_path, {"A": [10.0]})
    row = json.loads(as_json(summarise(tmp_path)))[0]
    assert row["regret_sd"] is None
    assert row["regret_low"] is None
    assert row["regret_mean"] == pytest.approx(10.0)


def test_runs_of_other_lengths_are_not_mixed(tmp_path):
    write_finals(tmp_path, {"A": [10.0, 11.0]}, rounds=50)
    write_finals(tmp_path, {"A": [30.0, 31.0]}, rounds=90)
    frame = summarise(tmp_path)
    assert frame["rounds"].to_list() == [50, 90]
    assert frame["regret_mean"].to_list() == pytest.approx([10.5, 30.5])
    assert frame["best"].all()


def test_a_run_that_was_played_again_with_rounds_beyond_the_end_counts_once(tmp_path):
    specs = [spec_of("A", "mushroom", seed, asked) for seed in range(3) for asked in (None, 500)]
    for spec in specs:
        write_record(make_record(spec, np.full(20, float(spec["seed"]))), tmp_path)
    merge_plan(tmp_path, map(plan_row, specs))
    results = read_results(tmp_path)
    assert summarise(results).select("seeds", "rounds", "regret_mean", "regret_sd").rows() == [
        (3, 20, 20.0, 20.0)
    ]
    assert results.progress() == "3 of 3 runs are finished."


def test_agents_of_one_name_and_other_settings_are_kept_apart(tmp_path):
    write_finals(tmp_path, {"A": [10.0, 11.0], "B": [5.0, 6.0]}, study="first", depth=3)
    write_finals(tmp_path, {"A": [30.0, 31.0]}, study="second", depth=9)
    frame = summarise(tmp_path)
    assert set(frame["agent"]) == {"A (first)", "A (second)", "B"}
    assert row_of(frame, agent="A (second)")["regret_mean"] == pytest.approx(30.5)


def test_runs_that_no_study_asks_for_are_left_out_and_counted(tmp_path):
    write_finals(tmp_path, {"A": [10.0, 11.0]}, depth=3)
    write_finals(tmp_path, {"A": [20.0, 21.0]}, depth=9)
    results = read_results(tmp_path)
    assert summarise(results)["regret_mean"].to_list() == pytest.approx([20.5])
    assert "2 of 2 runs" in results.progress()
    assert "Left out, since the study now asks for other settings: 2." in results.progress()


def test_runs_of_other_code_are_a_sentence_in_every_kind_of_report(tmp_path):
    write_finals(tmp_path / "records", {"A": [10.0, 11.0], "B": [5.0]})
    for file in sorted((tmp_path / "records").glob("*.parquet"))[:2]:
        record = read_record(file)
        record.provenance["treebandit"] = "0.0.1"
        write_record(record, tmp_path / "records")
    results = read_results(tmp_path / "records")
    sentence = "2 of 3 runs are stale, made by other code (treebandit 0.0.1: 2)."
    assert results.stale.startswith(sentence)
    assert not results.complete
    frame = summarise(results)
    console = Console(file=StringIO(), width=400)
    print_table(frame, console, results)
    for text in (console.file.getvalue(), as_markdown(frame, results), page(results)):
        assert sentence in text


def test_unfinished_study_says_how_far_it_is(tmp_path):
    write_paper_like(tmp_path, seeds=2, agents=["LinUCB"], shorten=100, missing=3)
    results = read_results(tmp_path)
    assert "5 of 8 runs are finished" in results.progress()
    assert results.missing.select("environment", "runs").rows() == [("adult", 2), ("magic", 1)]


def test_paper_figures_stand_where_agent_data_and_rounds_agree(tmp_path):
    table = paper_table()
    assert table.height == 11 * 4
    assert paper_table()["agent"].n_unique() == 11
    write_paper_like(tmp_path, seeds=1, agents=["TETS-RF"])
    write_finals(tmp_path, {"TETS-RF": [3.0]}, environment="adult", rounds=50)
    frame = summarise(tmp_path)
    row = row_of(frame, environment="mushroom")
    assert (row["paper_mean"], row["paper_sd"], row["paper_cpu_seconds"]) == (57.7, 8.1, 360.0)
    assert row_of(frame, environment="adult", rounds=50)["paper_mean"] is None


def test_json_is_plain(tmp_path):
    write_paper_like(tmp_path, seeds=2, agents=["LinUCB", "NeuralTS"], shorten=100)
    rows = json.loads(as_json(summarise(tmp_path)))
    assert len(rows) == 8
    wanted = {"agent", "environment", "rounds", "seeds", "regret_mean", "regret_sd", "cpu_seconds_mean"}
    for row in rows:
        assert wanted <= set(row)
        assert not {"varied", "value"} & set(row)
        assert isinstance(row["rounds"], int)
        assert isinstance(row["regret_mean"], float)
    assert {row["note"] for row in rows if row["agent"] == "NeuralTS"} == {"last layer only"}


def test_varied_values_have_rows_in_numeric_order_and_no_paper_figure(tmp_path):
    write_varied(tmp_path, "max_depth", [2, 10, 4, "unlimited"], agents=["TETS-RF"], rounds=60)
    frame = summarise(tmp_path)
    adult = frame.filter(pl.col("environment") == "adult")
    assert adult["value"].to_list() == ["2", "4", "10", "unlimited"]
    assert adult["best"].sum() == 1
    assert adult["paper_mean"].is_null().all()
    rows = json.loads(as_json(frame))
    assert {row["varied"] for row in rows} == {"max_depth"}
    assert len(rows) == 8


def test_empty_folder_names_the_repair(tmp_path):
    with pytest.raises(SavedFileError, match="treebandit run"):
        summarise(tmp_path)


def test_a_folder_of_earlier_settings_alone_names_the_repair(tmp_path):
    write_finals(tmp_path, {"A": [10.0]}, depth=3)
    merge_plan(tmp_path, [plan_row(spec_of("A", "adult", 0, 50, depth=9))])
    with pytest.raises(
        SavedFileError, match=r"no finished run .* \(1 of earlier settings\); run: treebandit run"
    ):
        read_results(tmp_path)
