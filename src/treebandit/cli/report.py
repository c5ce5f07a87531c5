"""`treebandit report`: tables, figures and the page of a folder of records."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from treebandit.cli.output import Page, print_json, writable_file, writable_folder
from treebandit.errors import ParameterError


def report(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder that `treebandit run` wrote.")],
    json: Annotated[bool, typer.Option("--json", help="One object per agent and environment.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="The table in Markdown.")] = False,
    html: Page = None,
    figures: Annotated[
        str | None, typer.Option(metavar="FOLDER", help="Write the figures as SVG and PNG.")
    ] = None,
    roads: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Road network, for the maps.", envvar="TREEBANDIT_ROADS"),
    ] = None,
) -> None:
    """Show the table of a folder of records; write page and figures.

    The table: mean ± sd of the final regret and CPU seconds a run, with the paper's figures beside.
    """
    if json and markdown:
        raise ParameterError("--json and --markdown were both given; give one of them")
    page = None if html is None else writable_file(html, "--html")
    drawn = None if figures is None else writable_folder(figures, "--figures")
    from rich.console import Console

    from treebandit import reports

    if roads is not None:
        os.environ["TREEBANDIT_ROADS"] = str(roads)
    results = reports.read_results(folder)
    if json:
        print_json(reports.as_json(reports.summarise(results)))
    elif markdown:
        typer.echo(reports.as_markdown(reports.summarise(results), results), nl=False)
    else:
        reports.print_table(reports.summarise(results), Console(), results)
    lines = [results.stale] if json else []
    if page is not None:
        reports.write_page(results, page)
        lines.append(f"page: {page}")
    if drawn is not None:
        lines.append(f"figures: {len(reports.write_figures(results, drawn))} files in {drawn}")
    if page is not None or drawn is not None:
        lines += results.maps[1]
    for line in filter(None, lines):
        typer.echo(line, err=json or markdown)
