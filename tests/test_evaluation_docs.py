"""The tutorial docs/evaluation.md prints what it says. To write it anew: python tests/test_evaluation_docs.py"""

import contextlib
import io
import os
import re
import tempfile
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[1] / "docs" / "evaluation.md"
BLOCK = re.compile(r"```python\n(.*?)```\n\n```text\n(.*?)```", re.DOTALL)
ZOZO = "zozo:"


def has_zozo():
    folder = os.environ.get("TREEBANDIT_LOGS")
    return bool(folder) and (Path(folder) / "obp" / "dataset" / "obd").exists()


def printed(names, code):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(code, str(PAGE), "exec"), names)
    return out.getvalue()


def outputs(*, zozo):
    """Code, what the page says that it prints, and what it prints; None for blocks that need logs that are not here."""
    names = {}
    for code, said in BLOCK.findall(PAGE.read_text(encoding="utf-8")):
        yield code, said, printed(names, code) if zozo or ZOZO not in code else None


def test_the_tutorial_prints_what_it_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = list(outputs(zozo=False))
    assert len(found) >= 7
    for code, said, shown in found:
        if shown is not None:
            assert shown == said, code


@pytest.mark.skipif(
    not has_zozo(), reason="set TREEBANDIT_LOGS to a folder with ZOZO's logs (docs/evaluation.md)"
)
def test_the_tutorial_on_real_logs_prints_what_it_says(tmp_path, monkeypatch):
    folder = Path(os.environ["TREEBANDIT_LOGS"]).absolute()
    monkeypatch.setenv("TREEBANDIT_LOGS", str(folder))
    monkeypatch.chdir(tmp_path)
    names = {}
    exec("from treebandit.evaluation import evaluate", names)
    for code, said in BLOCK.findall(PAGE.read_text(encoding="utf-8")):
        if ZOZO in code:
            assert printed(names, code) == said


def test_the_files_it_links_to_are_there():
    for link in re.findall(r"\]\(([\w/.-]+\.md)\)", PAGE.read_text(encoding="utf-8")):
        assert (PAGE.parent / link).exists(), link


if __name__ == "__main__":
    text = PAGE.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for code, said, shown in outputs(zozo=has_zozo()):
            if shown is not None:
                text = text.replace(
                    f"```python\n{code}```\n\n```text\n{said}```",
                    f"```python\n{code}```\n\n```text\n{shown}```",
                )
    PAGE.write_text(text, encoding="utf-8")
