"""Rows, columns and words of the table, for the terminal and the page alike."""

from __future__ import annotations

from typing import Any

import polars as pl

Cells = dict[tuple[str, int], dict[str, Any]]


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


def seconds(amount: float) -> str:
    """Seconds with three figures, so that 0.02 s and 36,000 s both can be read."""
    return f"{amount:,.0f} s" if amount >= 100 else f"{amount:.3g} s"


def words(varied: str) -> str:
    """The name of a varied parameter in plain words: `trees.max_depth` is the max depth."""
    return varied.rsplit(".", 1)[-1].replace("_", " ")


def count_seeds(frame: pl.DataFrame) -> str:
    """How many seeds the rows of a summary rest on."""
    counts = frame["seeds"].to_list()
    least, most = min(counts), max(counts)
    number = f"{most}" if least == most else f"{least} to {most}"
    return f"{number} seed{'s' * (most > 1)}"


def legend(frame: pl.DataFrame) -> str:
    """What the cells of the table say, as one line."""
    text = f"Final regret, mean ± sd over {count_seeds(frame)}; CPU seconds a run. "
    text += "Bold: best mean; ≈: within noise of it."
    return text
