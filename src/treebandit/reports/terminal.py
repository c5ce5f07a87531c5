"""The paper's table in a terminal, as many columns beside each other as fit."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl
from rich import box
from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from treebandit.reports.summary import Results
from treebandit.reports.tables import Cell, Column, Table, tables

#: What rich puts between two columns, and the least that the names of agents get.
_GAP, _LEAST = 3, 12


def print_table(frame: pl.DataFrame, console: Console, results: Results | None = None) -> None:
    """Draw a summary: mean ± sd of the final regret, CPU seconds a run, the paper's figure in dim.

    Columns that do not fit beside each other go below, with the agents named again. `results` adds units, and
    how many runs of how many are there.
    """
    found = tables(frame, results)
    for table in found:
        for grid in _grids(table, console.width):
            console.print(grid)
        console.print(Text(table.legend, style="dim"))
    for line in dict.fromkeys(note for table in found for note in table.notes):
        console.print(Text(line))
    if results is not None:
        console.print(Text(results.progress(), style="green" if results.complete else "bold yellow"))


def _grids(table: Table, width: int) -> Iterator[Grid]:
    """The table in blocks of columns, each no wider than the terminal."""
    columns = [
        [_head(column), *(_text(row.cells[place], table) for row in table.rows)]
        for place, column in enumerate(table.columns)
    ]
    left = [[Text("agent"), *_names(table)]]
    if table.varied is not None:
        left.append([Text(table.varied), *(Text(row.value or "") for row in table.rows)])
    widths = [_width(column) + _GAP for column in columns]
    fixed = sum(_width(column) + _GAP for column in left[1:])
    name = min(_width(left[0]), max(_LEAST, width - fixed - max(widths) - 2))
    block: list[list[Text]] = []
    used = total = name + fixed + 2
    for column, needed in zip(columns, widths, strict=True):
        if block and used + needed > width:
            yield _grid(left, block, name)
            block, used = [], total
        block.append(column)
        used += needed
    yield _grid(left, block, name)


def _grid(left: list[list[Text]], block: list[list[Text]], name: int) -> Grid:
    grid = Grid(box=box.SIMPLE_HEAD, pad_edge=False)
    grid.add_column(left[0][0], overflow="fold", max_width=name)
    for column in (*left[1:], *block):
        grid.add_column(column[0], justify="right", no_wrap=True)
    for cells in list(zip(*left, *block, strict=True))[1:]:
        if len(left) > 1 and cells[0].plain and grid.row_count:
            grid.add_section()
        grid.add_row(*cells)
    return grid


def _names(table: Table) -> Iterator[Text]:
    """Each agent's name on the first of its rows."""
    last = None
    for row in table.rows:
        yield Text("" if row.agent == last else row.agent)
        last = row.agent


def _head(column: Column) -> Text:
    return Text.assemble(column.name, (f"\n{column.note}", "dim"))


def _text(cell: Cell | None, table: Table) -> Text:
    if cell is None:
        return Text("–", style="dim")
    text = Text.assemble((cell.regret, "bold" if cell.best else ""), cell.mark)
    if cell.paper:
        text.append(f"\n({cell.paper})", style="dim")
    gap = "\n" if table.varied is None else "  "
    return text.append(f"{gap}{cell.seconds}{cell.seeds and ', ' + cell.seeds}")


def _width(texts: list[Text]) -> int:
    return max(line.cell_len for text in texts for line in text.split(allow_blank=True))
