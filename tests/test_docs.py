"""Pages that are made from the program itself. To write them anew: python tests/test_docs.py"""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

from treebandit.experiments.build import check_table
from treebandit.experiments.study_file import read_study

DOCS = Path(__file__).parents[1] / "docs"
COMMANDS = ((), ("run",), ("report",), ("data",), ("roads",), ("roads", "record"), ("warm-up",))


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


def test_the_study_on_the_experiments_page_can_be_run(tmp_path):
    (tmp_path / "my.csv").write_text("x,y\n1,a\n2,b\n")
    blocks = re.findall(
        r"```toml\n(.*?)```", (DOCS / "experiments.md").read_text(encoding="utf-8"), re.DOTALL
    )
    whole, vary = (tomllib.loads(block) for block in blocks)
    study = read_study(whole, name="my", source="my.toml", folder=tmp_path)
    for run in study.runs():
        check_table(run.environment, "environment")
        if run.agent["name"] != "mine":
            check_table(run.agent, "agent")
    trees_only = {**whole, "agents": whole["agents"][:1], **vary}
    varied = read_study(trees_only, name="my", source="my.toml", folder=tmp_path)
    assert {run.agent["trees"]["max_depth"] for run in varied.runs()} == {2, 4, 6, 8, 10, "unlimited"}


def test_the_code_on_the_threads_page_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    page = DOCS / "threads-processes-containers.md"
    names = {}
    for block in re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL):
        exec(compile(block, str(page), "exec"), names)
    clock, choice = capsys.readouterr().out.split()
    assert clock == "400"
    assert choice in ("[0]", "[1]", "[2]")
    assert not list(tmp_path.glob(".*"))


if __name__ == "__main__":
    (DOCS / "cli.md").write_text(command_line(), encoding="utf-8")
