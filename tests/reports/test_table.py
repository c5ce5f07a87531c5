from io import StringIO

from reports.made import write_paper_like, write_varied
from rich.console import Console

from treebandit.reports.summary import read_results, summarise
from treebandit.reports.table import print_table


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
    assert "s, n=1" in text
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
