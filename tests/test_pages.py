"""All Python code of the pages runs as printed, page by page, from top to bottom.

```python blocks of a page share their names, and run in an empty folder. What a page needs beforehand stands in a
comment that readers do not see: <!-- before the code: ... -->. Code of other packages is marked `py`, and not run here.
A ```text block right below the code is what it prints. Where whole runs of agents are behind its numbers, they are
those of one processor: another one may round otherwise, so that agents choose otherwise, and there only the words are
compared.
"""

import re
from pathlib import Path

import pytest
from golden.agents import arithmetic

ROOT = Path(__file__).parents[1]
CODE = re.compile(
    r"^```python\n(.*?)^```(?:\n\n```text\n(.*?)^```)?|^<!-- before the code:\n(.*?)^-->",
    re.DOTALL | re.MULTILINE,
)
#: Pages with numbers of whole runs, and how the machine rounds on which they were last printed.
OF_ONE_PROCESSOR = {
    "docs/get-started.md",
    "docs/how-to/skewed-rewards.md",
    "docs/tutorials/drift.md",
    "docs/tutorials/news.md",
    "docs/tutorials/routing.md",
    "docs/tutorials/web-shop.md",
}
PRINTED_ON = "a02521d15d09432c"
NUMBER = re.compile(r"\s*-?\d[\d.,]*")
#: Pages with tests of their own: two need a running service, one needs logs that may not be here.
ELSEWHERE = {"docs/service.md", "docs/tutorials/serving.md", "docs/evaluation.md"}
PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for path in (ROOT / "docs").rglob("*.md")
    if path.relative_to(ROOT).as_posix() not in ELSEWHERE
    and not {"_build", "gallery", "api"} & set(path.relative_to(ROOT / "docs").parts)
    and CODE.search(path.read_text(encoding="utf-8"))
)


@pytest.mark.parametrize("page", PAGES)
def test_code_on_pages_runs_as_printed(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    text = (ROOT / page).read_text(encoding="utf-8")
    names = {"__name__": "__main__"}
    for found in CODE.finditer(text):
        line = text.count("\n", 0, found.start()) + 1
        code = "\n" * line + (found[1] or found[3])  # so that a traceback names the line of the page
        capsys.readouterr()
        exec(compile(code, page, "exec"), names)
        printed, expected = capsys.readouterr().out, found[2]
        if expected is not None and page in OF_ONE_PROCESSOR and arithmetic() != PRINTED_ON:
            printed, expected = NUMBER.sub("#", printed), NUMBER.sub("#", expected)
        assert expected is None or printed == expected, f"{page}:{line}"
