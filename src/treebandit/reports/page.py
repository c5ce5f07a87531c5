"""One self-contained HTML page: the table, interactive figures, time and provenance, without a network."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import polars as pl
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from treebandit.files import write_whole
from treebandit.reports.charts import Figure
from treebandit.reports.figures import figures, javascript
from treebandit.reports.palette import looks
from treebandit.reports.paper import paper_citation
from treebandit.reports.provenance import about_data, played_studies, provenance_rows, settings
from treebandit.reports.summary import Results, read_results, summarise
from treebandit.reports.tables import tables


def write_page(source: str | Path | Results, file: str | Path) -> Path:
    """Write the page of a folder of records; gives its path."""
    results = source if isinstance(source, Results) else read_results(source)
    return write_whole(Path(file), page(results).encode())


def page(results: Results) -> str:
    """The page as text; every name in it is escaped by the template."""
    summary = summarise(results)
    return render(
        "page.html",
        figures(results, page=True),
        results=results,
        studies=played_studies(results),
        agents=summary["agent"].n_unique(),
        problems=summary["environment"].n_unique(),
        missing=_missing(results),
        looks=looks(summary["agent"]),
        tables={table.varied: table for table in tables(summary, results)},
        map_sentences=results.maps[1],
        provenance=provenance_rows(results),
        settings=settings(results.runs),
        citation=paper_citation(),
        about_data=about_data(results),
    )


def render(template: str, drawn: list[Figure], **values: Any) -> str:
    """A page with its figures, and the script that draws them."""
    specs, datasets = _chart_specs(drawn)
    library = _inline_script(javascript())
    page = _templates().get_template(template)
    return page.render(figures=drawn, specs=specs, datasets=datasets, library=library, **values)


def _templates() -> Environment:
    """The templates of all pages: every value is escaped, and an unknown name is an error."""
    environment = Environment(
        loader=PackageLoader("treebandit.reports", "template"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "ensure_ascii": False}
    return environment


def _chart_specs(drawn: list[Figure]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Specs by id, and the data of all of them by name: what several panels show is there once."""
    specs: dict[str, Any] = {}
    datasets: dict[str, Any] = {}
    for figure in drawn:
        for place, panel in enumerate(figure.panels):
            spec = panel.to_dict(validate=False)
            datasets |= spec.pop("datasets", {})
            specs[f"{figure.name}-{place}"] = spec
    return specs, datasets


def _missing(results: Results) -> dict[str, str]:
    """Agent -> how many of its runs are still to come, by problem."""
    text = pl.format("{} {}", "environment", "runs").unique(maintain_order=True).str.join(", ")
    return dict(results.missing.group_by("agent", maintain_order=True).agg(text).iter_rows())


def _inline_script(text: str) -> Markup:
    """Keep a script from ending early, or from opening a comment, at what merely looks like a tag."""
    return Markup(re.sub(r"<(/script|!--)", r"<\\\1", text, flags=re.IGNORECASE))
