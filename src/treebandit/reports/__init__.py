"""What was found: the table, the figures and the page of a folder of records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from treebandit.lazy import lazy_names

if TYPE_CHECKING:
    from treebandit.reports.figures import write_figures
    from treebandit.reports.markdown import as_markdown
    from treebandit.reports.page import write_page
    from treebandit.reports.paper import paper_table
    from treebandit.reports.routes import route_maps
    from treebandit.reports.summary import Results, as_json, read_results, summarise
    from treebandit.reports.table import print_table

_HOMES = {
    "Results": "summary",
    "as_json": "summary",
    "as_markdown": "markdown",
    "paper_table": "paper",
    "print_table": "table",
    "read_results": "summary",
    "route_maps": "routes",
    "summarise": "summary",
    "write_figures": "figures",
    "write_page": "page",
}

__all__ = [
    "Results",
    "as_json",
    "as_markdown",
    "paper_table",
    "print_table",
    "read_results",
    "route_maps",
    "summarise",
    "write_figures",
    "write_page",
]

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
