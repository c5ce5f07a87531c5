"""Figures and tables of the sensitivity studies: docs/results/runs/sensitivity-NAME.csv -> docs/results/sensitivity/.

For each NAME: treebandit run sensitivity-NAME --into results/sensitivity/NAME, then scripts/write_runs.py.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl

from treebandit.experiments import load_study
from treebandit.reports import read_run_table, summarise, write_figures
from treebandit.reports.frames import value_axis
from treebandit.reports.palette import in_order
from treebandit.reports.tables import count_seeds, plus_minus

RESULTS = Path(__file__).parent.parent / "docs" / "results"
NAMES = (
    "delay",
    "depth",
    "trees",
    "exploration",
    "rebuild",
    "start",
    "categories",
    "leaf-output",
    "statistics",
)


def main(source: Path, target: Path) -> None:
    """Write a figure for every table of runs, and one page with all tables."""
    parts = []
    for name in NAMES:
        file = source / f"sensitivity-{name}.csv"
        if not file.is_file():
            continue
        results = read_run_table(file)
        with TemporaryDirectory() as folder:
            (figure,) = (path for path in write_figures(results, folder) if path.suffix == ".svg")
            shutil.copyfile(figure, target / f"{name}.svg")
        title = load_study(f"sensitivity-{name}").title
        parts.append(f"## {title}\n\n![{title}]({name}.svg)\n\n{tables(summarise(results))}")
    (target / "tables.md").write_text("\n".join(["# Sensitivity, in numbers\n", *parts]), encoding="utf-8")


def tables(summary: pl.DataFrame) -> str:
    """One table per data set: a row for each value, a column for each agent."""
    agents = in_order(summary["agent"].to_list())
    values = list(value_axis(summary["value"].to_list()).places)
    texts = []
    for environment in summary["environment"].unique().sort():
        cells = {
            (row["value"], row["agent"]): plus_minus(row["regret_mean"], row["regret_sd"], decimals=0)
            for row in summary.filter(pl.col("environment") == environment).to_dicts()
        }
        lines = [f"| {environment} | {' | '.join(agents)} |", "| --- " * (1 + len(agents)) + "|"]
        lines += [
            f"| {value} | {' | '.join(cells.get((value, agent), '') for agent in agents)} |"
            for value in values
        ]
        texts.append("\n".join(lines) + "\n")
    return f"Final regret, mean ± sd of {count_seeds(summary)}.\n\n" + "\n".join(texts)


if __name__ == "__main__":
    main(*(map(Path, sys.argv[1:3]) if len(sys.argv) > 2 else (RESULTS / "runs", RESULTS / "sensitivity")))
