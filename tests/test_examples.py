import re
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


def test_the_navigation_page_runs_as_printed():
    page = (EXAMPLES.parent / "docs" / "navigation.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(blocks) == 2
    for block in blocks:
        exec(compile(block, "docs/navigation.md", "exec"), {})
