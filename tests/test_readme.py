"""The README's code runs as printed, in one go, from top to bottom."""

import re
from pathlib import Path

README = Path(__file__).parent.parent / "README.md"


def test_the_first_minute_runs_as_printed(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    assert len(blocks) >= 3
    names = {}
    for block in blocks:
        exec(compile(block, str(README), "exec"), names)
    assert "[" in capsys.readouterr().out
    assert (tmp_path / "agent.treebandit").exists()
    assert names["std"].shape == (3,)
    assert (names["std"] > 0).all()


def test_the_first_minute_learns():
    """The README's little shop: after its 300 visits the better offers are known."""
    names = {}
    block = re.search(r"```python\n(.*?)```", README.read_text(), re.DOTALL)[1]
    exec(block.split("agent.save")[0], names)
    random, agent = names["np"].random.default_rng(5), names["agent"]
    right = 0
    for _ in range(100):
        visitor = random.normal(size=5)
        best = 0 if visitor[0] > 0.5 else 1 if visitor[1] > 0 else 2
        estimate = agent.estimate(names["np"].tile(visitor, (3, 1)), arms=names["offers"])
        right += estimate.mean.argmax() == best
    assert right > 70


def test_linked_pages_exist():
    for target in re.findall(r"\]\((docs/[^)#]+)\)", README.read_text()):
        assert (README.parent / target).exists(), target
