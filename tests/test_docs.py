"""Pages that are made from the program itself. To write them anew: python tests/test_docs.py"""

import os
import subprocess
import sys
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"
COMMANDS = ((), ("run",), ("report",), ("data",), ("roads",), ("roads", "record"))


def command_line():
    """The reference of the command line: every command's --help."""
    page = ["# Command line", "", "Made from `--help`; `python tests/test_docs.py` writes it anew.", ""]
    code = "import sys; sys.argv[0] = 'treebandit'; from treebandit.cli import main; main()"
    environment = {**os.environ, "COLUMNS": "100", "TERMINAL_WIDTH": "100", "NO_COLOR": "1"}
    environment.pop("TREEBANDIT_ROADS", None)
    for command in COMMANDS:
        shown = subprocess.run(
            [sys.executable, "-c", code, *command, "--help"],
            capture_output=True,
            text=True,
            check=True,
            env=environment,
        )
        page += [f"## {' '.join(('treebandit', *command))}", "", "```text", shown.stdout.strip(), "```", ""]
    return "\n".join(page)


def test_the_command_line_page_is_what_help_says():
    assert (DOCS / "cli.md").read_text(encoding="utf-8") == command_line()


if __name__ == "__main__":
    (DOCS / "cli.md").write_text(command_line(), encoding="utf-8")
