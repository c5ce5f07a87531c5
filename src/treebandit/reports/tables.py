"""The paper's table as text: agents down, problems across. Terminal, Markdown and page only arrange its cells."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import polars as pl

from treebandit.reports.palette import in_order
from treebandit.reports.summary import UNIT, Results

#: Below this regret a column has two more decimals.
SMALL = 10.0


@dataclass(frozen=True)
class Cell:
    """One agent on one problem.

    regret: mean ± sd of the final regret. mark: " ≈" where it is within noise of the best. paper: the paper's
    figure, or "". seconds: CPU time a run. seeds: how many of how many there are, or "" for all.
    """

    regret: str
    seconds: str
    best: bool
    mark: str = ""
    paper: str = ""
    seeds: str = ""


@dataclass(frozen=True)
class Column:
    """One problem, its number of rounds and the unit of its regret."""

    name: str
    rounds: int
    unit: str = UNIT

    @property
    def note(self) -> str:
        """What stands below the name."""
        return f"{self.rounds:,} rounds" + f", in {self.unit}" * (self.unit != UNIT)


@dataclass(frozen=True)
class Row:
    """One agent, or one agent with one value of the varied parameter; None where it was not played."""

    agent: str
    value: str | None
    cells: tuple[Cell | None, ...]


@dataclass(frozen=True)
class Table:
    """A table of the report: the plain one, or that of a varied parameter.

    legend: how to read the cells. notes: of agents, on the way they ran.
    """

    varied: str | None
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    legend: str
    notes: tuple[str, ...]


def tables(frame: pl.DataFrame, results: Results | None = None, *, decimals: int = 1) -> list[Table]:
    """The tables of a summary; `results` adds units to the columns."""
    units = results.units if results is not None else {}
    return [
        _table(frame.filter(pl.col("varied").eq_missing(pl.lit(varied, pl.String))), varied, units, decimals)
        for varied in frame["varied"].unique(maintain_order=True)
    ]


def _table(frame: pl.DataFrame, varied: str | None, units: dict[str, str], decimals: int) -> Table:
    keys = list(frame.select("environment", "rounds").unique().sort(pl.all()).iter_rows())
    columns = tuple(Column(name, rounds, units.get(name, UNIT)) for name, rounds in keys)
    most = max(frame["seeds"].to_list())
    greatest = dict(frame.group_by("environment").agg(pl.col("regret_mean").max()).iter_rows())
    rows: dict[tuple[str, str | None], dict[tuple[str, int], Cell]] = {}
    for row in frame.to_dicts():
        more = 2 if greatest[row["environment"]] < SMALL else 0
        cell = _cell(row, most, decimals + more)
        rows.setdefault((row["agent"], row["value"]), {})[row["environment"], row["rounds"]] = cell
    places = {agent: place for place, agent in enumerate(in_order(frame["agent"]))}
    lines = [Row(agent, value, tuple(map(cells.get, keys))) for (agent, value), cells in rows.items()]
    lines.sort(key=lambda row: places[row.agent])
    return Table(varied, columns, tuple(lines), _legend(frame), tuple(_notes(frame)))


def _cell(row: dict[str, Any], most: int, decimals: int) -> Cell:
    paper = row["paper_mean"]
    return Cell(
        plus_minus(row["regret_mean"], row["regret_sd"], decimals=decimals),
        seconds(row["cpu_seconds_mean"]),
        best=bool(row["best"]),
        mark=" ≈" * bool(row["tied"]),
        paper="" if paper is None else plus_minus(paper, row["paper_sd"], decimals=decimals),
        seeds="" if row["seeds"] == most else f"{row['seeds']} of {most} seeds",
    )


def _legend(frame: pl.DataFrame) -> str:
    text = f"Final regret, mean ± sd over {count_seeds(frame)}; CPU seconds a run. "
    text += "Bold: best mean; ≈: within noise of it."
    return text + " In brackets: the paper." * frame["paper_mean"].is_not_null().any()


def _notes(frame: pl.DataFrame) -> list[str]:
    """One line per agent and note, with the problems it holds for."""
    noted = frame.filter(pl.col("note") != "").group_by("agent", "note", maintain_order=True)
    names = noted.agg(pl.col("environment").unique(maintain_order=True))
    return [f"{agent}: {note} ({', '.join(problems)})" for agent, note, problems in names.iter_rows()]


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
