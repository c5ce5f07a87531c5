"""`treebandit data`: the shipped data sets."""

from __future__ import annotations


def data() -> None:
    """Show the shipped data sets, and verify their checksums."""
    from rich.console import Console
    from rich.table import Table

    from treebandit.cli.output import print_line
    from treebandit.datasets.catalogue import CATALOGUE, read
    from treebandit.errors import DataError

    table = Table("name", "rows", "features", "classes", "licence", "checksum")
    damaged = []
    for entry in CATALOGUE:
        try:
            read(entry)
            state = f"verified {entry.sha256[:8]}"
        except DataError as error:
            damaged.append(str(error))
            state = "DAMAGED"
        counts = (f"{entry.rows:,}", str(entry.features), str(entry.classes))
        table.add_row(entry.name, *counts, entry.licence, state)
    console = Console()
    console.print(table)
    for entry in CATALOGUE:
        print_line(console, f"{entry.name}: {entry.citation}")
    if damaged:
        raise DataError("\n".join(damaged))
