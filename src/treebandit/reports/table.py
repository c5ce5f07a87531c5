"""The paper's table in a terminal: agents down, data sets across."""

from __future__ import annotations

from typing import Any

import polars as pl
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from treebandit.reports.summary import Results

WIDE = 100
Cells = dict[tuple[str, int], dict[str, Any]]


def print_table(frame: pl.DataFrame, console: Console, results: Results | None = None) -> None:
    """Draw a summary: mean ± sd of the final regret, CPU seconds a run, the paper's figure in dim.

    The best mean of a data set is bold, `≈` marks what is within noise of it. `results` adds how many runs of
    how many are there.
    """
    for varied in frame["varied"].unique(maintain_order=True):
        part = frame.filter(pl.col("varied").eq_missing(pl.lit(varied, pl.String)))
        console.print(_table(part, varied, decimals=1 if console.width >= WIDE else 0))
    console.print(Text(_legend(frame), style="dim"))
    for line in notes(frame):
        console.print(Text(line))
    if results is not None:
        unfinished = results.runs.height < results.expected
        console.print(Text(results.progress(), style="bold yellow" if unfinished else "green"))


def notes(frame: pl.DataFrame) -> list[str]:
    """What agents say of the way they ran, one line per agent and note, with the data sets it holds for."""
    told = frame.filter(pl.col("note") != "").group_by("agent", "note", maintain_order=True)
    return [
        f"{agent}: {note} ({', '.join(environments)})"
        for agent, note, environments in told.agg(
            pl.col("environment").unique(maintain_order=True)
        ).iter_rows()
    ]


def columns_of(frame: pl.DataFrame) -> list[tuple[str, int]]:
    """The columns of the table: data set and number of rounds, since runs of other lengths do not compare."""
    return list(frame.select("environment", "rounds").unique(maintain_order=True).sort(pl.all()).iter_rows())


def rows_of(frame: pl.DataFrame) -> list[tuple[tuple[str, str | None], Cells]]:
    """The rows of the table: agent and value, then a summary row for each column that has one."""
    rows: dict[tuple[str, str | None], Cells] = {}
    for row in frame.to_dicts():
        rows.setdefault((row["agent"], row["value"]), {})[row["environment"], row["rounds"]] = row
    return list(rows.items())


def plus_minus(mean: float, sd: float | None, *, decimals: int) -> str:
    """A mean with its standard deviation, where there is one."""
    text = f"{mean:.{decimals}f}"
    return text if sd is None else f"{text} ± {sd:.{decimals}f}"


def _table(frame: pl.DataFrame, varied: str | None, *, decimals: int) -> Table:
    table = Table(box=box.SIMPLE_HEAD, title_justify="left", padding=(0, 1))
    table.add_column("agent", no_wrap=True)
    if varied is not None:
        table.add_column(varied, justify="right")
    for environment, rounds in columns_of(frame):
        table.add_column(
            Text(f"{environment}\n{rounds:,} rounds", justify="right"), justify="right", no_wrap=True
        )
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
    seeds = "" if row["seeds"] == most else f", {row['seeds']} of {most} seeds"
    gap = "\n" if row["varied"] is None else "  "
    text.append(f"{gap}{seconds(row['cpu_seconds_mean'])}{seeds}")
    return text


def seconds(amount: float) -> str:
    """Seconds with three figures, so that 0.02 s and 36,000 s both can be read."""
    return f"{amount:,.0f} s" if amount >= 100 else f"{amount:.3g} s"


def _legend(frame: pl.DataFrame) -> str:
    least, most = frame.select(pl.col("seeds").min(), pl.col("seeds").max().alias("most")).row(0)
    count = f"{most}" if least == most else f"{least} to {most}"
    text = f"Final regret, mean ± sd over {count} seeds; CPU seconds a run. Bold: best mean; ≈: within noise"
    return text + (". In brackets: the paper." if frame["paper_mean"].is_not_null().any() else ".")
