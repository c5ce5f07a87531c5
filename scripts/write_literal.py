"""The paper, its text taken literally, and our settings in one table -> docs/results/paper-literal/table.md.

Reads docs/results/runs/paper-uci.csv, paper-literal.csv and, where it is there, paper-literal-bootstrap.csv.
"""

from __future__ import annotations

from pathlib import Path

import polars as pl

from treebandit.reports import read_run_table, summarise
from treebandit.reports.paper import paper_agents, paper_table
from treebandit.reports.tables import plus_minus

RESULTS = Path(__file__).parent.parent / "docs" / "results"
SETS = ("adult", "magic", "mushroom", "shuttle")


def main() -> None:
    """Write the table."""
    names = ("paper-literal", "paper-literal-bootstrap")
    literal = best_setting(
        pl.concat(means(name) for name in names if (RESULTS / f"runs/{name}.csv").is_file())
    )
    ours = means("paper-uci").with_columns(pl.lit("").alias("setting"))
    target = RESULTS / "paper-literal"
    target.mkdir(exist_ok=True)
    (target / "table.md").write_text("\n".join(table(literal, ours)) + "\n", encoding="utf-8")


def means(name: str) -> pl.DataFrame:
    """Agent, environment, mean, sd and seeds of a table of runs."""
    summary = summarise(read_run_table(RESULTS / f"runs/{name}.csv"))
    return summary.select("agent", "environment", "regret_mean", "regret_sd", "seeds")


def best_setting(frame: pl.DataFrame) -> pl.DataFrame:
    """Of `LinUCB nu=1`, `LinUCB nu=0.1`, ... the one of least mean on each data set, under the agent's own name.

    The paper searches a grid and selects "the parameters with the best performance", by the final regret itself.
    """
    name, setting = pl.col("agent").str.split(" ").list.first(), pl.col("agent").str.split(" ").list.slice(1)
    return (
        frame.with_columns(name.alias("agent"), setting.list.join(" ").alias("setting"))
        .sort("regret_mean")
        .unique(["agent", "environment"], keep="first", maintain_order=True)
    )


def table(literal: pl.DataFrame, ours: pl.DataFrame) -> list[str]:
    """Three lines for each agent: paper, literal, ours."""
    paper = paper_table().rename({"paper_mean": "regret_mean", "paper_sd": "regret_sd"})
    paper = paper.with_columns(pl.lit(10).alias("seeds"), pl.lit("").alias("setting"))
    lines = [
        "# Paper, literal, ours",
        "",
        "Final regret, mean ± sd. Literal: study `paper-literal` (and `-bootstrap`), where a grid was searched "
        "the best setting of each data set. Ours: study `paper-uci`, one setting for all data sets.",
        "",
        f"| agent | | {' | '.join(name.capitalize() for name in SETS)} |",
        "| --- " * (2 + len(SETS)) + "|",
    ]
    for agent in paper_agents():
        for place, (label, frame) in enumerate((("paper", paper), ("literal", literal), ("ours", ours))):
            own = {row["environment"]: row for row in frame.filter(pl.col("agent") == agent).to_dicts()}
            cells = " | ".join(cell(own.get(name)) for name in SETS)
            lines.append(f"| {'' if place else agent} | {label} | {cells} |")
    return lines


def cell(row: dict[str, float] | None) -> str:
    """Mean ± sd, the setting that was best, and the seeds where they are not ten."""
    if row is None:
        return "–"
    text = plus_minus(row["regret_mean"], row["regret_sd"], decimals=0)
    text += f" ({row['setting']})" if row["setting"] else ""
    return text if row["seeds"] == 10 else f"{text}, n={row['seeds']}"


if __name__ == "__main__":
    main()
