"""The paper's table in Markdown, for pages that are kept."""

from __future__ import annotations

import re

import polars as pl

from treebandit.reports.summary import Results
from treebandit.reports.tables import Cell, Table, tables


def as_markdown(frame: pl.DataFrame, results: Results | None = None) -> str:
    """A summary as Markdown: mean ± sd, CPU seconds a run, the paper's figure in brackets, the best in bold.

    `results` adds units, and how many runs of how many are there.
    """
    found = tables(frame, results, decimals=0)
    blocks = [block for table in found for block in (_table(table), table.legend)]
    if notes := dict.fromkeys(note for table in found for note in table.notes):
        blocks.append("\n".join(f"- {_plain(note)}" for note in notes))
    if results is not None:
        blocks.append(results.progress())
    return "\n\n".join(blocks) + "\n"


def _table(table: Table) -> str:
    varied = table.varied is not None
    head = ["agent", *([_plain(table.varied or "")] * varied)]
    head += [f"{_plain(column.name)} ({column.note})" for column in table.columns]
    lines = [head, ["---"] * len(head)]
    for row in table.rows:
        names = [_plain(row.agent), *([_plain(row.value or "")] * varied)]
        lines.append(names + [_cell(cell) for cell in row.cells])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(cell: Cell | None) -> str:
    if cell is None:
        return "–"
    text = (f"**{cell.regret}**" if cell.best else cell.regret) + cell.mark
    text += f" ({cell.paper})" * bool(cell.paper)
    return f"{text}; {cell.seconds}" + f", {cell.seeds}" * bool(cell.seeds)


def _plain(name: str) -> str:
    """A name that Markdown takes for text."""
    return re.sub(r"([\\`*\[\]<>|])", r"\\\1", name)
