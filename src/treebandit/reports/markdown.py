"""The paper's table in Markdown, for pages that are kept."""

from __future__ import annotations

from typing import Any

import polars as pl

from treebandit.reports.cells import columns_of, legend, notes, plus_minus, rows_of, seconds
from treebandit.reports.summary import Results


def as_markdown(frame: pl.DataFrame, results: Results | None = None) -> str:
    """A summary as Markdown: mean ± sd, CPU seconds a run, the paper's figure in brackets, the best in bold.

    `results` adds how many runs of how many are there.
    """
    blocks = []
    for varied in frame["varied"].unique(maintain_order=True):
        part = frame.filter(pl.col("varied").eq_missing(pl.lit(varied, pl.String)))
        blocks.append(_table(part, varied))
    paper = " In brackets: the paper." if frame["paper_mean"].is_not_null().any() else ""
    blocks.append(legend(frame) + paper)
    if told := notes(frame):
        blocks.append("\n".join(f"- {line}" for line in told))
    if results is not None:
        blocks.append(results.progress())
    return "\n\n".join(blocks) + "\n"


def _table(frame: pl.DataFrame, varied: str | None) -> str:
    columns = columns_of(frame)
    most = int(frame.select(pl.col("seeds").max()).item())
    head = ["agent", *([varied] if varied is not None else [])]
    head += [f"{environment} ({rounds:,} rounds)" for environment, rounds in columns]
    lines = [head, ["---"] * len(head)]
    for (agent, value), cells in rows_of(frame):
        names = [agent, *([str(value)] if varied is not None else [])]
        lines.append(names + [_cell(cells.get(key), most) for key in columns])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(row: dict[str, Any] | None, most: int) -> str:
    if row is None:
        return "–"
    text = plus_minus(row["regret_mean"], row["regret_sd"], decimals=0)
    text = f"**{text}**" if row["best"] else text
    text += " ≈" if row["tied"] else ""
    if row["paper_mean"] is not None:
        text += f" ({plus_minus(row['paper_mean'], row['paper_sd'], decimals=0)})"
    text += f"; {seconds(row['cpu_seconds_mean'])}"
    return text if row["seeds"] == most else f"{text}, n={row['seeds']}"
