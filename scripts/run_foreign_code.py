"""Run the code of other packages on the pages of docs/coming-from, in an environment that has them.

python -m venv peers && peers/bin/pip install mabwiser vowpalwabbit contextualbandits
peers/bin/python scripts/run_foreign_code.py docs/coming-from/*.md
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from pathlib import Path


def main(pages: list[str]) -> None:
    """Run the ```py blocks of each page."""
    texts = {page: Path(page).read_text(encoding="utf-8") for page in pages}
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for page, text in texts.items():
            for block in re.findall(r"^```py\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
                exec(compile(block, page, "exec"), {"__name__": "__main__"})
                print(page, "runs")


if __name__ == "__main__":
    main(sys.argv[1:])
