"""Examine the built site: no dead link, nothing loaded from elsewhere, no error in the console, a search that finds.

PYTHONPATH=tests python scripts/check_site.py docs/_build/html
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from reports.browser import Browser, find_browser

#: Tags whose address is loaded with the page; an address of any other tag only leads somewhere.
LOADED = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src", "video": "src"}
#: `<link rel=...>` that are not loaded.
NOT_LOADED = {"index", "search", "next", "prev", "canonical", "author", "copyright"}


class Page(HTMLParser):
    """Addresses and anchors of one page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect what a tag names."""
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif tag in LOADED and LOADED[tag] in given and given.get("rel") not in NOT_LOADED:
            self.loaded.append(given[LOADED[tag]])


def pages_of(site: Path) -> list[Path]:
    """All pages, without the theme's own templates."""
    return sorted(path for path in site.rglob("*.html") if "_static" not in path.relative_to(site).parts)


def problems_of_links(site: Path) -> Iterator[str]:
    """Links to pages, files and anchors that are not there, and anything loaded from elsewhere."""
    pages = {path: Page(path) for path in pages_of(site)}
    for path, page in pages.items():
        here = path.relative_to(site)
        for address in [*page.links, *page.loaded]:
            parts = urlsplit(address)
            if parts.scheme or parts.netloc:
                if address in page.loaded and parts.scheme != "data":
                    yield f"{here} loads {address}"
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if target.is_dir():
                target /= "index.html"
            if not target.exists():
                yield f"{here} links to {address}, which is not there"
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
                yield f"{here} links to {address}: no such place on that page"
    for style in site.rglob("*.css"):
        text = style.read_text(encoding="utf-8", errors="replace")
        if "url(http" in text or "url(//" in text or '@import "http' in text:
            yield f"{style.relative_to(site)} loads from another host"


def problems_in_browser(site: Path, program: str) -> Iterator[str]:
    """What the console says on every page, opened as a file, and whether the search finds something."""
    with tempfile.TemporaryDirectory() as profile, Browser(program, Path(profile)) as browser:
        for path in pages_of(site):
            browser.events.clear()
            browser.open(path)
            browser.wait_for("document.readyState === 'complete'")
            yield from (f"{path.relative_to(site)}: {said}" for said in browser.complaints())
        browser.events.clear()
        browser.call("Page.navigate", url=(site / "search.html").resolve().as_uri() + "?q=thompson")
        browser.wait_for("document.querySelectorAll('#search-results li').length > 3")
        yield from (f"search: {said}" for said in browser.complaints())


def main(folder: str) -> int:
    """Print all problems; their number decides the exit code."""
    site, begun = Path(folder).resolve(), time.monotonic()
    found = list(problems_of_links(site))
    browser = find_browser()
    if browser is None:
        print("no browser found: the console was not looked at")
    else:
        found += problems_in_browser(site, browser)
    for problem in found:
        print(problem)
    print(f"{len(pages_of(site))} pages, {len(found)} problems, {time.monotonic() - begun:.0f} s")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
