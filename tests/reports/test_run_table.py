import polars as pl
import pytest
from reports.driven import drive
from reports.invented import write_paper_like

from treebandit.errors import SavedFileError
from treebandit.reports import read_results, read_run_table, summarise, write_figures, write_run_table
from treebandit.reports.run_table import played_runs


def test_the_table_gives_the_summary_of_its_records(tmp_path):
    write_paper_like(tmp_path / "records")
    file = write_run_table(tmp_path / "records", tmp_path / "runs.csv")
    direct, kept = summarise(tmp_path / "records"), summarise(read_run_table(file))
    columns = ["agent", "environment", "rounds", "seeds", "paper_mean", "note"]
    assert kept.select(columns).equals(direct.select(columns))
    for name in ("regret_mean", "regret_sd", "cpu_seconds_mean"):
        assert kept[name].to_list() == pytest.approx(direct[name].to_list(), abs=0.06, rel=1e-3)


def test_regret_is_that_after_each_twentieth(tmp_path):
    drive(tmp_path / "records", seeds=1, rounds=30, agents=["LinUCB"])
    results = read_results(tmp_path / "records")
    table = pl.read_csv(write_run_table(results, tmp_path / "runs.csv"))
    frame = pl.read_parquet(next((tmp_path / "records").glob("*.parquet")))
    so_far = frame["regret"].cum_sum().round(1).to_list()
    assert [table[f"regret_{place}"][0] for place in range(1, 21)] == pytest.approx(
        [so_far[-(-30 * place // 20) - 1] for place in range(1, 21)]
    )
    assert table["unit"].to_list() == ["s"]
    assert "numpy" in table["versions"][0]


def test_figures_come_from_the_table_with_the_fixed_routes_of_its_roads(tmp_path):
    drive(tmp_path / "records", rounds=25)
    file = write_run_table(tmp_path / "records", tmp_path / "runs.csv")
    names = {path.name for path in write_figures(read_run_table(file), tmp_path / "figures")}
    assert {"regret-curves.svg", "final-regret.svg", "time-per-round.svg"} <= names
    assert "free-flow" in (tmp_path / "figures" / "regret-curves.svg").read_text(encoding="utf-8")


def test_runs_that_a_table_holds_are_kept(tmp_path):
    file = tmp_path / "runs.csv"
    for name, agents in (("a", ["LinUCB"]), ("b", ["Uniform"]), ("b", ["Uniform"])):
        drive(tmp_path / name, seeds=1, rounds=10, agents=agents)
        write_run_table(tmp_path / name, file)
    assert summarise(read_run_table(file))["agent"].to_list() == ["LinUCB", "Uniform"]
    assert len(played_runs(file)) == 2


def test_another_file_is_refused(tmp_path):
    (tmp_path / "a.csv").write_text("x,y\n1,2\n")
    with pytest.raises(SavedFileError, match="no column 'run_id'"):
        read_run_table(tmp_path / "a.csv")
    with pytest.raises(SavedFileError, match="no table of runs"):
        read_run_table(tmp_path / "none.csv")


def test_brackets_in_the_name_of_a_table_are_no_pattern(tmp_path):
    write_paper_like(tmp_path / "records")
    file = write_run_table(tmp_path / "records", tmp_path / "runs[1].csv")
    assert played_runs(file)
