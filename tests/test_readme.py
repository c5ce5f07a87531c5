"""The README's code runs as printed, in one go, from top to bottom."""

import re
from pathlib import Path

README = Path(__file__).parent.parent / "README.md"


def test_the_code_runs_as_printed(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    assert len(blocks) >= 4
    names = {}
    for block in blocks:
        exec(compile(block, str(README), "exec"), names)
    arm, probability = capsys.readouterr().out.split()
    assert arm in names["offers"]
    assert 0 < float(probability) <= 1
    assert (tmp_path / "agent.treebandit").exists()
    assert names["std"].shape == (3,)
    assert (names["std"] > 0).all()


def test_the_first_minute_is_ten_lines():
    first = re.search(r"```python\n(.*?)```", README.read_text(), re.DOTALL)[1]
    assert len([line for line in first.splitlines() if line]) <= 10


def test_linked_files_exist():
    for target in re.findall(r"\]\(([^)#:]+?)(?:#[^)]*)?\)", README.read_text()):
        assert (README.parent / target).exists(), target
