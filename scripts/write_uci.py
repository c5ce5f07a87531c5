"""docs/results/runs/paper-uci.csv -> table, times and figures in docs/results/paper-uci/."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl

from treebandit.reports import as_json, as_markdown, read_run_table, summarise, write_figures
from treebandit.reports.paper import SECONDS_PER_HOUR, paper_agents
from treebandit.reports.tables import seconds

RESULTS = Path(__file__).parent.parent / "docs" / "results"
FIGURES = ("regret-curves.svg", "final-regret.svg")


def main(source: Path, target: Path) -> None:
    """Write `table.md`, `summary.json` and two figures, which show the agents of the paper as its own do."""
    results = read_run_table(source)
    summary = summarise(results)
    target.mkdir(parents=True, exist_ok=True)
    text = f"# The UCI table, as measured\n\n{as_markdown(summary, results)}\n{times(summary)}"
    (target / "table.md").write_text(text, encoding="utf-8")
    (target / "summary.json").write_text(as_json(summary) + "\n", encoding="utf-8")
    shown = replace(results, runs=results.runs.filter(pl.col("agent").is_in(paper_agents())))
    with TemporaryDirectory() as folder:
        for path in write_figures(shown, folder):
            if path.name in FIGURES:
                (target / path.name).write_bytes(path.read_bytes())


def times(summary: pl.DataFrame) -> str:
    """Seconds a run here beside the paper's hours: CPU, and GPU where it used one."""
    rows = summary.filter(pl.col("paper_mean").is_not_null())
    sets = rows["environment"].unique().sort().to_list()
    lines = [
        "## Time of a run",
        "",
        "CPU seconds here; in brackets the paper's CPU hours and, for the neural agents, GPU hours (NVIDIA A40).",
        "",
        f"| agent | {' | '.join(sets)} |",
        "| --- " * (1 + len(sets)) + "|",
    ]
    for agent in rows["agent"].unique(maintain_order=True):
        cells = []
        for name in sets:
            part = rows.filter(pl.col("agent") == agent, pl.col("environment") == name)
            cells.append(_cell(part.to_dicts()[0]) if part.height else "")
        lines.append(f"| {agent} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _cell(row: dict[str, float]) -> str:
    paper = f"{row['paper_cpu_seconds'] / SECONDS_PER_HOUR:.2g} h"
    if row["paper_gpu_seconds"] is not None:
        paper += f", GPU {row['paper_gpu_seconds'] / SECONDS_PER_HOUR:.2g} h"
    return f"{seconds(row['cpu_seconds_mean'])} ({paper})"


if __name__ == "__main__":
    main(
        *(
            map(Path, sys.argv[1:3])
            if len(sys.argv) > 2
            else (RESULTS / "runs/paper-uci.csv", RESULTS / "paper-uci")
        )
    )
