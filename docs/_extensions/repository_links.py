"""Links of our Markdown pages to files outside docs/ lead to the pages of the site that show them."""

from __future__ import annotations

import posixpath
import re

from sphinx.application import Sphinx

#: File of the repository -> page of the site.
SHOWN = {
    "SECURITY.md": "project/security.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "CHANGELOG.md": "project/changelog.md",
    "CODE_OF_CONDUCT.md": "project/code-of-conduct.md",
    "README.md": "index.md",
    "src/treebandit/core.py": "reference/api/core.rst",
}
LINK = re.compile(r"\]\(((?:\.\./)*[\w./-]+?)((?:#[\w-]+)?)\)")


def redirect(app: Sphinx, document: str, source: list[str]) -> None:
    """Rewrite the links of one page."""
    folder = posixpath.join("docs", posixpath.dirname(document))

    def moved(link: re.Match[str]) -> str:
        at = posixpath.normpath(posixpath.join(folder, link[1]))
        if document.startswith("project/"):  # these pages show files of the repository's root
            at = posixpath.normpath(link[1])
            if at.startswith("docs/"):
                return f"](../{at.removeprefix('docs/')}{link[2]})"
        if at not in SHOWN:
            return link[0]
        return f"]({posixpath.relpath(SHOWN[at], posixpath.dirname(document) or '.')}{link[2]})"

    source[0] = LINK.sub(moved, source[0])


def included(app: Sphinx, path: object, document: str, source: list[str]) -> None:
    """The same for what a page includes; MyST names the page without its folder, the environment with it."""
    redirect(app, app.env.docname, source)


def setup(app: Sphinx) -> dict[str, bool]:
    """Join the reading of sources."""
    app.connect("source-read", redirect)
    app.connect("include-read", included)
    return {"parallel_read_safe": True}
