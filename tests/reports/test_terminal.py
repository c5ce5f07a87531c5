from io import StringIO

import numpy as np
import pytest
from reports.invented import make_record, plan_row, spec_of, write_paper_like, write_varied
from rich.console import Console

from treebandit.experiments.records import merge_plan, write_record
from treebandit.reports.summary import read_results, summarise
from treebandit.reports.terminal import print_table


def drawn(folder, *, width=120, colours=False):
    results = read_results(folder)
    kind = {"force_terminal": True, "color_system": "truecolor"} if colours else {}
    console = Console(file=StringIO(), width=width, **kind)
    print_table(summarise(results), console, results)
    return console.file.getvalue()


def test_table_has_ours_the_papers_time_and_notes(tmp_path):
    write_paper_like(tmp_path, seeds=2, agents=["TEUCB-RF", "NeuralUCB"], missing=1)
    text = drawn(tmp_path)
    row = summarise(tmp_path).row(0, named=True)
    assert f"{row['regret_mean']:.1f}" in text
    assert "(1550.6 ± 32.9)" in text
    assert "8.64 s" in text
    assert "s, 1 of 2 seeds" in text
    assert "15 of 16 runs are finished" in text
    assert "NeuralUCB: last layer only (adult, magic, mushroom, shuttle)" in text
    assert "8,124" in text


def test_best_of_each_data_set_is_bold(tmp_path):
    write_paper_like(tmp_path, seeds=3, agents=["TEUCB-RF", "LinUCB"], shorten=20)
    text = drawn(tmp_path, colours=True)
    best = summarise(tmp_path).filter("best")
    assert best["agent"].to_list() == ["TEUCB-RF"] * 4
    for mean, sd in best.select("regret_mean", "regret_sd").iter_rows():
        assert f"\x1b[1m{mean:.1f} ± {sd:.1f}\x1b[0m" in text


def test_table_fits_a_narrow_terminal(tmp_path):
    write_paper_like(tmp_path, seeds=2, agents=["TreeBootstrap-XGBoost", "LinUCB"], shorten=10)
    text = drawn(tmp_path, width=80)
    assert max(map(len, text.splitlines())) <= 80
    assert "TreeBootstrap-XGBoost" in text
    assert "…" not in text


def test_varied_parameter_has_a_table_of_its_own(tmp_path):
    write_varied(tmp_path, "exploration", [0, 1, 100], agents=["TETS-RF", "TEUCB-RF"], rounds=60)
    lines = drawn(tmp_path).splitlines()
    head = next(line for line in lines if "exploration" in line)
    assert "agent" in head
    assert sum(line.strip().startswith("TETS-RF") for line in lines) == 1


def write(folder, agents, environments, *, final=4.0):
    for agent in agents:
        for environment in environments:
            spec = spec_of(agent, environment, 0, 10)
            write_record(make_record(spec, np.full(10, final / 10)), folder)
            merge_plan(folder, [plan_row(spec)])


@pytest.mark.parametrize("width", [40, 60, 80, 100, 200])
def test_columns_that_do_not_fit_go_below_with_the_agents_named_again(tmp_path, width):
    agents = ["TreeBootstrap-XGBoost", "LinUCB", "an agent of my own"]
    environments = [f"problem-{place:02}" for place in range(1, 15)]
    write(tmp_path, agents, environments, final=12345.0)
    text = drawn(tmp_path, width=width)
    lines = text.splitlines()
    assert max(map(len, lines)) <= width
    assert "…" not in text
    assert [text.count(name) for name in environments] == [1] * 14
    blocks = sum("agent " in line and "problem" not in line for line in lines) - text.count("an agent")
    assert text.count("LinUCB") == text.count("TreeBootstrap-XGBoost") == blocks
    assert text.count("12345.0") == 3 * 14
    assert blocks == -(-14 // ((width - 2 - 21) // (10 + 3)))


def test_an_agent_with_a_very_long_name_leaves_its_numbers_whole(tmp_path):
    write(tmp_path, ["x" * 300], ["adult", "magic"], final=12345.0)
    text = drawn(tmp_path, width=60)
    assert max(map(len, text.splitlines())) <= 60
    assert text.count("12345.0") == 2
    assert text.count("x") >= 300


@pytest.mark.parametrize(
    "name", ["TETS [v2]", "x[/y]", "[bold]b[/bold]", "[link=http://a.b]c[/link]", ":cat:"]
)
def test_brackets_in_names_are_no_markup(tmp_path, name):
    write(tmp_path, [name], [f"{name} 2"])
    text = drawn(tmp_path)
    assert name in text
    assert f"{name} 2" in text


def test_names_cannot_write_elsewhere_on_the_terminal(tmp_path):
    write(tmp_path, ["a\x1b[2Jb\nc\u202e"], ["p\x07\r"])
    text = drawn(tmp_path)
    assert "a\N{REPLACEMENT CHARACTER}[2Jb\N{REPLACEMENT CHARACTER}c" in text
    assert not set("\x1b\x07\r\u202e") & set(text)


def test_small_regrets_have_more_decimals(tmp_path):
    write(tmp_path, ["A"], ["small"], final=0.25)
    assert "0.250" in drawn(tmp_path)
