"""The scripts that make pages from tables of runs, on records never played; and whether pages are what they write."""

import importlib.util
import re
import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from reports.invented import make_record, plan_row, spec_of, write_paper_like, write_varied

from treebandit.experiments.records import merge_plan, write_record
from treebandit.reports import read_run_table, write_run_table

ROOT = Path(__file__).parents[1]
SCRIPTS, RESULTS = ROOT / "scripts", ROOT / "docs" / "results"


@pytest.fixture
def results(tmp_path):
    (tmp_path / "runs").mkdir()
    return tmp_path


def script(name, results):
    """A script as a module, writing into `results`."""
    spec = importlib.util.spec_from_file_location(name, SCRIPTS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.RESULTS = results
    return module


def write_finals(folder, finals, rounds=10_000):
    """Records that end with these regrets: (agent, environment) -> one per seed."""
    specs = []
    for (agent, environment), ends in finals.items():
        for seed, end in enumerate(ends):
            specs.append(spec_of(agent, environment, seed, rounds))
            write_record(make_record(specs[-1], np.full(rounds, end / rounds)), folder)
    merge_plan(folder, [plan_row(each) for each in specs])


def test_the_uci_page_has_cpu_and_gpu_hours_of_the_paper(results):
    write_paper_like(results / "records", seeds=3)
    file = write_run_table(results / "records", results / "runs" / "paper-uci.csv")
    script("write_uci", results).main(file, results / "paper-uci")
    text = (results / "paper-uci" / "table.md").read_text(encoding="utf-8")
    assert "(10 h, GPU 1.2 h)" in text
    assert "(0.13 h)" in text
    assert (results / "paper-uci" / "regret-curves.svg").is_file()


def test_the_literal_table_takes_the_best_setting_of_each_set(results):
    write_paper_like(results / "ours", seeds=2, agents=["LinUCB"])
    write_run_table(results / "ours", results / "runs" / "paper-uci.csv")
    finals = {
        ("LinUCB nu=1", "adult"): [2000.0, 2002.0],
        ("LinUCB nu=0.1", "adult"): [1900.0, 1902.0],
        ("LinUCB nu=1", "shuttle"): [900.0] * 10,
    }
    write_finals(results / "literal", finals)
    write_run_table(results / "literal", results / "runs" / "paper-literal.csv")
    script("write_literal", results).main()
    lines = (results / "paper-literal" / "table.md").read_text(encoding="utf-8").splitlines()
    start = next(place for place, line in enumerate(lines) if line.startswith("| LinUCB | paper"))
    assert lines[start].startswith("| LinUCB | paper | 2110 ± 52 | 2598 ± 25 | 666 ± 15 | 1156 ± 41 |")
    assert lines[start + 1].startswith("|  | literal | 1901 ± 1 (nu=0.1), n=2 | – | – | 900 ± 0 (nu=1) |")
    assert lines[start + 2].startswith("|  | ours | ")


def test_sensitivity_comes_from_tables_of_runs(results):
    write_varied(results / "depth", "agent.trees.max_depth", [2, 10], agents=["TEUCB-RF"])
    write_run_table(results / "depth", results / "runs" / "sensitivity-depth.csv")
    (results / "sensitivity").mkdir()
    script("write_sensitivity", results).main(results / "runs", results / "sensitivity")
    assert (results / "sensitivity" / "depth.svg").is_file()
    assert "TEUCB-RF" in (results / "sensitivity" / "tables.md").read_text(encoding="utf-8")


def test_navigation_comes_from_one_table_of_runs(results):
    finals = {
        (agent, place): [end, end + 500.0]
        for agent, end in (("TEUCB-RF", 60_000.0), ("LinUCB", 80_000.0))
        for place in ("navigation-1", "navigation-2", "pair-01")
    }
    write_finals(results / "records", finals, rounds=2000)
    write_run_table(results / "records", results / "runs" / "navigation.csv")
    fresh = {("treebandit", f"navigation-{place}"): [50_000.0, 52_000.0] for place in (1, 2)}
    write_finals(results / "fresh", fresh, rounds=2000)
    write_run_table(results / "fresh", results / "runs" / "default-navigation.csv")
    script("write_navigation", results).main(None)
    text = (results / "navigation" / "tables.md").read_text(encoding="utf-8")
    assert "## navigation-2" in text
    assert "| pair-01 | **60." in text
    assert "| navigation-1 | 51.0 ± 1.4 | 50.0 | 52.0 |" in text
    assert (results / "navigation" / "regret-curves.svg").is_file()


def test_the_page_of_the_default_agent_is_what_its_script_writes(results):
    shutil.copytree(RESULTS / "runs", results / "runs", dirs_exist_ok=True)
    shutil.copyfile(RESULTS / "default.md", results / "default.md")
    script("write_default", results).main()
    assert (results / "default.md").read_text("utf-8") == (RESULTS / "default.md").read_text("utf-8")


def test_the_page_of_navigation_has_the_tables_of_its_runs():
    module = script("write_navigation", RESULTS)
    text = (RESULTS / "navigation" / "tables.md").read_text("utf-8")
    regret = module.regret_after(read_run_table(RESULTS / "runs" / "navigation.csv"))
    fresh = read_run_table(RESULTS / "runs" / "default-navigation.csv")
    for lines in (module.instance_tables(regret), module.pair_table(regret), module.fresh_table(fresh)):
        assert "\n".join(lines) in text


def test_the_picture_of_the_readme_has_the_means_of_the_tables():
    module = script("write_comparison", RESULTS)
    drawn = re.findall(r"> (\d+)</text>", (RESULTS / "comparison.svg").read_text("utf-8"))
    means = [
        f"{module.regrets(agent)[name][0]:.0f}" for name in module.SETS for agent in reversed(module.SHOWN)
    ]
    assert drawn == means


@pytest.mark.parametrize("page", ["README.md", "docs/paper.md"])
def test_pages_tell_the_mean_regret_of_the_default_agent(page):
    runs = read_run_table(RESULTS / "runs" / "default-seeds.csv").runs.filter(pl.col("seed") < 50)
    mean = {
        name: f"{runs.filter(pl.col('environment') == name)['final_regret'].mean():.0f}"
        for name in ("adult", "magic", "mushroom", "shuttle")
    }
    text = " ".join((ROOT / page).read_text("utf-8").split())
    told = "its regret is {adult} on Adult, {magic} on Magic, {mushroom} on Mushroom and {shuttle} on Shuttle"
    assert told.format(**mean) in text
