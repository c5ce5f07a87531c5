"""Numbers in tables stay whole: `1491 ± 33` and `5.28 s` are not broken into two lines; wide tables are scrolled."""

from __future__ import annotations

import re

from sphinx.application import Sphinx

SPACE = "\N{NO-BREAK SPACE}"
DEVIATION = re.compile(r"(?<=\d) ± (?=\d)")
SECONDS = re.compile(r"(?<=\d) (?=(?:s|ms|µs|MB|%)\b|%|≈)")


def join(app: Sphinx, document: str, source: list[str]) -> None:
    """Rewrite the rows of tables in Markdown."""
    lines = source[0].split("\n")
    source[0] = "\n".join(unbroken(line) if line.startswith("| ") else line for line in lines)


def unbroken(row: str) -> str:
    """A row with spaces that do not break between a number and what belongs to it."""
    return SECONDS.sub(SPACE, DEVIATION.sub(f"{SPACE}±{SPACE}", row))


def setup(app: Sphinx) -> dict[str, bool]:
    """Join the reading of sources."""
    app.connect("source-read", join)
    return {"parallel_read_safe": True}
