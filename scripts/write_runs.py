"""Folders of records -> docs/results/runs/NAME.csv, one small table each, from which tables and figures are made.

    python scripts/write_runs.py results/paper-uci results/navigation results/sensitivity/*

A folder results/sensitivity/NAME becomes sensitivity-NAME.csv, any other the name of its folder.
"""

from __future__ import annotations

import sys
from pathlib import Path

from treebandit.reports import write_run_table

TABLES = Path(__file__).parent.parent / "docs" / "results" / "runs"


def main(folders: list[Path]) -> None:
    """Write a table for every folder."""
    for folder in folders:
        prefix = "sensitivity-" if folder.resolve().parent.name == "sensitivity" else ""
        file = write_run_table(folder, TABLES / f"{prefix}{folder.resolve().name}.csv")
        print(f"{folder} -> {file.relative_to(Path.cwd()) if file.is_relative_to(Path.cwd()) else file}")


if __name__ == "__main__":
    main([Path(argument) for argument in sys.argv[1:]])
