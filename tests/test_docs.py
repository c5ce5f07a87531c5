"""Pages that are made from the program itself. To write them anew: python tests/test_docs.py"""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from treebandit.checks import check_agent
from treebandit.errors import DecideOnlyError
from treebandit.experiments import load_study

DOCS = Path(__file__).parents[1] / "docs"
COMMANDS = (
    (),
    ("run",),
    ("report",),
    ("evaluate",),
    ("data",),
    ("roads",),
    ("roads", "record"),
    ("roads", "lust"),
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
    environment.pop("TREEBANDIT_LOGS", None)
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
    monkeypatch.delitem(sys.modules, "my_agents", raising=False)
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


def test_the_study_of_an_agent_of_your_own_can_be_run(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "my_agents", raising=False)
    page = (DOCS / "how-to" / "own-agent.md").read_text(encoding="utf-8")
    (study,) = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    (tmp_path / "my_agents.py").write_text(re.findall(r"```python\n(.*?)```", page, re.DOTALL)[0])
    (tmp_path / "my.toml").write_text(study)
    assert len(list(load_study(tmp_path / "my.toml").runs())) == 2 * 3 * 3
    monkeypatch.delitem(sys.modules, "my_agents")


def test_the_agent_made_of_parts_on_the_page_keeps_all_promises():
    names, page = {}, (DOCS / "how-to" / "own-agent.md").read_text(encoding="utf-8")
    for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        exec(compile(block, "own-agent.md", "exec"), names)
    check_agent(names["OptimisticLinTS"])


def test_the_trees_on_the_page_on_tree_libraries_predict_as_their_library_does():
    from sklearn.ensemble import GradientBoostingRegressor

    names, page = {}, (DOCS / "how-to" / "own-trees.md").read_text(encoding="utf-8")
    exec(compile(re.findall(r"```python\n(.*?)```", page, re.DOTALL)[0], "own-trees.md", "exec"), names)
    random = np.random.default_rng(0)
    neighbours = 2.0**24 + 2.0 * random.integers(0, 40, (200, 2))  # with no 32-bit number between them
    for rows in (neighbours.astype(np.float32), random.normal(size=(200, 2)).astype(np.float32)):
        targets = random.normal(size=200)
        model = GradientBoostingRegressor(n_estimators=50, min_samples_leaf=2, random_state=1)
        forest = names["GradientBoosting"]().fit(rows, targets, seed=1)
        np.testing.assert_allclose(forest.predict(rows), model.fit(rows, targets).predict(rows))


def test_the_code_on_the_inputs_page_does_what_it_says(capsys):
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / "inputs.md").read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) == 4
    for block in blocks:
        exec(compile(block, "inputs.md", "exec"), {})
        said = [line.removesuffix(" ...") for line in re.findall(r"print\(error\)  # (.*)", block)]
        printed = capsys.readouterr().out.splitlines()
        assert len(printed) == len(said)
        assert all(line.startswith(start) for line, start in zip(printed, said, strict=True))


def test_the_code_on_the_page_on_probabilities_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names, page = {}, (DOCS / "probabilities.md").read_text(encoding="utf-8")
    for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        exec(compile(block, "probabilities.md", "exec"), names)
    decision, pair = names["decision"], names["page"]
    assert (decision.id, decision.arm) == ("visit 201", "coffee")
    assert decision.probability == decision.probabilities[decision.row] > 0.9
    assert abs(pair.probabilities.sum() - 2.0) < 1e-12
    assert 0.0 < pair.probability <= 1.0
    with pytest.raises(DecideOnlyError):
        names["server"].learn(decision, 1.0)


def test_the_page_of_results_lists_every_result():
    pages = {path.relative_to(DOCS / "results").as_posix() for path in (DOCS / "results").rglob("*.md")}
    listed = set(
        re.findall(r"\]\(([\w/-]+\.md)\)", (DOCS / "results" / "index.md").read_text(encoding="utf-8"))
    )
    assert pages - {"index.md"} == listed


if __name__ == "__main__":
    (DOCS / "cli.md").write_text(command_line(), encoding="utf-8")
