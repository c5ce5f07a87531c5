import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
LEARNING = ["assignment", "edge_table", "own_graph", "top_k"]


@pytest.mark.parametrize("name", LEARNING)
def test_examples_run_and_learn(name, capsys):
    first, last = runpy.run_path(str(EXAMPLES / f"{name}.py"))["main"]()
    assert last < 0.6 * first
    assert capsys.readouterr().out.count("\n") == 1
