"""Pages that are made from the program itself. To write them anew: python tests/test_docs.py"""

import os
import re
import subprocess
import sys
from pathlib import Path

from treebandit.experiments import load_study

DOCS = Path(__file__).parents[1] / "docs"
COMMANDS = (
    (),
    ("run",),
    ("report",),
    ("data",),
    ("roads",),
    ("roads", "record"),
    ("serve",),
    ("keys",),
    ("keys", "add"),
    ("keys", "list"),
    ("keys", "remove"),
    ("warm-up",),
)


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


def test_the_study_on_the_experiments_page_can_be_run(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "my.csv").write_text("x,y\n1,a\n2,b\n")
    (tmp_path / "my_agents.py").write_text("from treebandit import Uniform as Mine\n")
    blocks = re.findall(
        r"```toml\n(.*?)```", (DOCS / "experiments.md").read_text(encoding="utf-8"), re.DOTALL
    )
    whole, vary = blocks
    (tmp_path / "my.toml").write_text(whole)
    assert len(list(load_study(tmp_path / "my.toml").runs())) == 5 * 5 * 2
    (tmp_path / "varied.toml").write_text(whole[: whole.rindex("[[agents]]")] + vary)
    depths = {run.agent["trees"]["max_depth"] for run in load_study(tmp_path / "varied.toml").runs()}
    assert depths == {2, 4, 6, 8, 10, "unlimited"}


if __name__ == "__main__":
    (DOCS / "cli.md").write_text(command_line(), encoding="utf-8")
