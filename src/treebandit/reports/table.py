"""The paper's table in a terminal: agents down, data sets across."""

from __future__ import annotations

from typing import Any

import polars as pl
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from treebandit.reports.cells import columns_of, legend, notes, plus_minus, rows_of, seconds
from treebandit.reports.summary import Results

WIDE = 100


def print_table(frame: pl.DataFrame, console: Console, results: Results | None = None) -> None:
    """Draw a summary: mean ± sd of the final regret, CPU seconds a run, the paper's figure in dim.

    The best mean of a data set is bold, `≈` marks what is within noise of it. `results` adds how many runs of
    how many are there.
    """
    for varied in frame["varied"].unique(maintain_order=True):
        part = frame.filter(pl.col("varied").eq_missing(pl.lit(varied, pl.String)))
        console.print(_table(part, varied, decimals=1 if console.width >= WIDE else 0))
    least, most = min(frame["seeds"].to_list()), max(frame["seeds"].to_list())
    fewer = "" if least == most else f" n: seeds, where fewer than {most}."
    paper = " In brackets: the paper." if frame["paper_mean"].is_not_null().any() else ""
    console.print(Text(legend(frame) + paper + fewer, style="dim"))
    for line in notes(frame):
        console.print(Text(line))
    if results is not None:
        unfinished = results.runs.height < results.expected
        console.print(Text(results.progress(), style="bold yellow" if unfinished else "green"))


def _table(frame: pl.DataFrame, varied: str | None, *, decimals: int) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("agent\n[dim]rounds[/dim]", overflow="fold")
    if varied is not None:
        table.add_column(f"{varied}\n", justify="right", overflow="fold")
    for environment, rounds in columns_of(frame):
        head = Text.assemble(environment, (f"\n{rounds:,}", "dim"))
        table.add_column(head, justify="right", no_wrap=True)
    most = int(frame.select(pl.col("seeds").max()).item())
    last = None
    for (agent, value), cells in rows_of(frame):
        if varied is not None and last not in (None, agent):
            table.add_section()
        name = agent if agent != last else ""
        drawn = [_cell(cells.get(key), most, decimals) for key in columns_of(frame)]
        table.add_row(name, *([value] if varied is not None else []), *drawn)
        last = agent
    return table


def _cell(row: dict[str, Any] | None, most: int, decimals: int) -> Text:
    if row is None:
        return Text("–", style="dim")
    text = Text(justify="right")
    style = "bold" if row["best"] else ""
    text.append(plus_minus(row["regret_mean"], row["regret_sd"], decimals=decimals), style=style)
    text.append(" ≈" if row["tied"] else "")
    if row["paper_mean"] is not None:
        text.append(f"\n({plus_minus(row['paper_mean'], row['paper_sd'], decimals=decimals)})", style="dim")
    seeds = "" if row["seeds"] == most else f", n={row['seeds']}"
    gap = "\n" if row["varied"] is None else "  "
    text.append(f"{gap}{seconds(row['cpu_seconds_mean'])}{seeds}")
    return text
