"""One self-contained HTML page: the table, interactive figures, time and provenance, without a network."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from html import escape
from importlib import resources
from pathlib import Path
from typing import Any

import polars as pl

from treebandit.reports.cells import (
    columns_of,
    count_seeds,
    legend,
    notes,
    plus_minus,
    rows_of,
    seconds,
    words,
)
from treebandit.reports.figures import javascript, page_panels, sensitivity_name
from treebandit.reports.maps import hover_json, page_key, page_map
from treebandit.reports.palette import in_order, look
from treebandit.reports.paper import paper_citation
from treebandit.reports.routes import RouteMap
from treebandit.reports.summary import Results, read_results, summarise

#: What of a run's provenance differs from run to run and is told in sums.
_PER_RUN = {"cpu_seconds", "duration", "started", "note", "seed"}
_SHOWN_VALUES = 6

_SECTIONS = {
    "regret-curves": (
        "Regret so far",
        "How much reward was missed up to each round, compared with the best choice in every round. "
        "Lines are means over the seeds, bands are one standard deviation; a flat line has learned all.",
    ),
    "final-regret": (
        "Final regret, seed by seed",
        "Each dot is one seed, the bar is the mean with one standard deviation. "
        "A diamond is the mean that the paper reports, where it has the same agent and number of rounds.",
    ),
    "regret-by-problem": (
        "Final regret, problem by problem",
        "Each dot is one problem, the mean of its seeds. Left the agents, where the bar is the mean over the problems "
        "of the most common kind (the same name but for the number); right the problems, the hardest last.",
    ),
    "time-per-round": (
        "Where the time goes",
        "The share of a round spent on choosing, on learning from the reward and on rebuilding the model; "
        "beside each bar the mean time of a round.",
    ),
}


_MAPS = (
    "All paths from A to B that an agent drove, over all its seeds: the redder and thicker an edge, the larger the "
    "share of rounds in which it was driven. Who knows the way leaves few lines, like the best paths of the first map; "
    "who wanders colours the whole town. Point at an edge to see its name, speed limit and times."
)


def write_page(source: str | Path | Results, file: str | Path) -> Path:
    """Write the page of a folder of records; gives its path."""
    results = source if isinstance(source, Results) else read_results(source)
    file = Path(file)
    file.parent.mkdir(parents=True, exist_ok=True)
    temporary = file.with_name(f".{file.name}.tmp")
    temporary.write_text(page(results), encoding="utf-8")
    os.replace(temporary, file)
    return file


def page(results: Results) -> str:
    """The page as text."""
    summary = summarise(results)
    panels = page_panels(results)
    maps, troubles = results.maps
    unfinished = results.runs.height < results.expected
    places = {f"{name}-{place}": spec for name, specs in panels.items() for place, spec in enumerate(specs)}
    parts = {
        "title": escape(_title(results)),
        "lead": escape(_lead(summary)),
        "state": "unfinished" if unfinished else "finished",
        "progress": escape(results.progress()),
        "missing": _missing(results) if unfinished else "",
        "legend": "\n".join(map(_button, in_order(summary["agent"].to_list()))),
        "sections": "\n".join(
            [*_tables(summary), *_figures(panels, summary), *_maps(maps, troubles), _provenance(results)]
        ),
        "footer": f"The paper: {escape(paper_citation())}.",
        "style": _template("page.css"),
        "script": _template("page.js"),
        "library": _in_script(javascript()),
        "maps": hover_json(maps),
        "map_script": _template("maps.js"),
        "panels": json.dumps(places, separators=(",", ":"), ensure_ascii=False).replace("<", "\\u003c"),
    }
    return _filled(_template("page.html"), parts)


def _template(name: str) -> str:
    return resources.files(__package__).joinpath("template", name).read_text(encoding="utf-8")


def _filled(template: str, parts: dict[str, str]) -> str:
    """Put the parts in one pass, so that nothing inside a part is taken for a placeholder."""
    pieces = template.split("{{")
    rest = (piece.split("}}", 1) for piece in pieces[1:])
    return pieces[0] + "".join(parts[name] + text for name, text in rest)


def _in_script(text: str) -> str:
    """Keep a script from ending early, or from opening a comment, at what merely looks like a tag."""
    return re.sub(r"<(/script|!--)", r"<\\\1", text, flags=re.IGNORECASE)


def _title(results: Results) -> str:
    return f"treebandit: {', '.join(_studies(results))}"


def _studies(results: Results) -> list[str]:
    return results.runs["study"].unique().sort().to_list()


def _lead(summary: pl.DataFrame) -> str:
    agents, environments = summary["agent"].n_unique(), summary["environment"].n_unique()
    return (
        f"{agents} agent{'s' * (agents > 1)} on {environments} problem{'s' * (environments > 1)}. "
        "In every round an agent sees the options, chooses, and learns from the reward of its choice alone. "
        "Regret is the reward missed: less is better. All agents of one seed meet the same rounds. "
        "Press a name to hide an agent in all figures or to show it again; point at it to make it stand out."
    )


def _missing(results: Results) -> str:
    rows = results.missing.group_by("agent", maintain_order=True).agg(
        pl.format("{} {}", "environment", "runs").unique(maintain_order=True).str.join(", ")
    )
    items = "".join(f"<li>{escape(agent)}: {escape(text)}</li>" for agent, text in rows.iter_rows())
    return f"<details><summary>Runs still to come</summary><ul>{items}</ul></details>"


def _button(agent: str) -> str:
    drawn = look(agent)
    dashes = f' stroke-dasharray="{",".join(map(str, drawn.dashes))}"' if drawn.dashes else ""
    line = f'<line x1="0" y1="5" x2="26" y2="5" stroke="{drawn.colour}" stroke-width="3"{dashes}/>'
    swatch = f'<svg width="26" height="10" aria-hidden="true">{line}</svg>'
    name = escape(agent, quote=True)
    return (
        f'<button type="button" data-agent="{name}" aria-pressed="true" title="{drawn.kind}">'
        f"{swatch}{escape(agent)}</button>"
    )


def _tables(summary: pl.DataFrame) -> Iterator[str]:
    plain = summary.filter(pl.col("varied").is_null())
    if not plain.is_empty():
        told = "".join(f"<p><small>{escape(line)}</small></p>" for line in notes(plain))
        yield f"<section><h2>Table</h2><p>{escape(legend(plain))}</p>{_table(plain, None)}{told}</section>"


def _table(summary: pl.DataFrame, varied: str | None) -> str:
    columns = columns_of(summary)
    most = max(summary["seeds"].to_list())
    heads = "".join(f"<th>{escape(name)}<small>{rounds:,} rounds</small></th>" for name, rounds in columns)
    value_head = "" if varied is None else f"<th>{escape(words(varied))}</th>"
    lines = []
    for (agent, value), cells in rows_of(summary):
        value_cell = "" if varied is None else f'<td class="value">{escape(str(value))}</td>'
        drawn = "".join(_cell(cells.get(column), most) for column in columns)
        lines.append(f"<tr><th>{escape(agent)}</th>{value_cell}{drawn}</tr>")
    head = f"<thead><tr><th>agent</th>{value_head}{heads}</tr></thead>"
    return f'<div class="scroll"><table>{head}<tbody>{"".join(lines)}</tbody></table></div>'


def _cell(row: dict[str, Any] | None, most: int) -> str:
    if row is None:
        return "<td>–</td>"
    text = plus_minus(row["regret_mean"], row["regret_sd"], decimals=1)
    text = f"<b>{text}</b>" if row["best"] else text + " ≈" * bool(row["tied"])
    lines = [seconds(row["cpu_seconds_mean"])]
    if row["paper_mean"] is not None:
        lines.insert(0, f"paper {plus_minus(row['paper_mean'], row['paper_sd'], decimals=1)}")
    if row["seeds"] != most:
        lines.append(f"{row['seeds']} of {most} seeds")
    small = "".join(f"<small>{line}</small>" for line in lines)
    return f'<td class="best">{text}{small}</td>' if row["best"] else f"<td>{text}{small}</td>"


def _figures(panels: dict[str, list[dict[str, Any]]], summary: pl.DataFrame) -> Iterator[str]:
    varied = {sensitivity_name(name): name for name in summary["varied"].drop_nulls().unique()}
    for name, specs in panels.items():
        if name in varied:
            part = summary.filter(pl.col("varied") == varied[name])
            title, told = _sensitivity_words(part)
            told_below = _numbers(part)
        else:
            (title, told), told_below = _SECTIONS[name], ""
        places = (f'<div class="chart" id="{escape(name)}-{place}"></div>' for place in range(len(specs)))
        head = f"<h2>{escape(title)}</h2><p>{escape(told)}</p>"
        yield f'<section>{head}<div class="panels">{"".join(places)}</div>{told_below}</section>'


def _maps(maps: list[RouteMap], troubles: list[str]) -> Iterator[str]:
    if not maps and not troubles:
        return
    told = "".join(f"<p>{escape(sentence)}</p>" for sentence in troubles)
    if maps:
        told = f"<p>{escape(_MAPS)}</p>{page_key()}{told}"
    drawn = (page_map(each, place) for place, each in enumerate(maps))
    yield f"<section><h2>Roads driven</h2>{told}{''.join(drawn)}</section>"


def _sensitivity_words(summary: pl.DataFrame) -> tuple[str, str]:
    name = words(summary["varied"][0])
    return f"Sensitivity to {name}", (
        f"Final regret for each {name}: mean and one standard deviation over {count_seeds(summary)}. "
        "Agents stand a little beside each other so that their bars do not cover each other."
    )


def _numbers(summary: pl.DataFrame) -> str:
    told = "".join(f"<p><small>{escape(line)}</small></p>" for line in notes(summary))
    table = f"<p>{escape(legend(summary))}</p>{_table(summary, summary['varied'][0])}{told}"
    return f"<details><summary>The numbers</summary>{table}</details>"


def _provenance(results: Results) -> str:
    runs = results.runs
    cpu, first, last = runs.select(
        pl.col("cpu_seconds").sum(), pl.col("started").min(), pl.col("started").max().alias("last")
    ).row(0)
    rows = {
        "runs": f"{runs.height:,} of {results.expected:,}",
        "seeds": f"{runs['seed'].n_unique():,}",
        "started": first if first == last else f"{first} to {last}",
        "CPU time": seconds(cpu),
        "to run it again": "; ".join(f"treebandit run {name} --into DIR" for name in _studies(results)),
    } | _shared([json.loads(text) for text in runs["provenance"]])
    lines = "".join(
        f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in rows.items()
    )
    settings = f"<details><summary>Settings of each agent</summary>{''.join(_settings(runs))}</details>"
    table = f'<div class="scroll"><table class="provenance"><tbody>{lines}</tbody></table></div>'
    told = "<h2>Provenance</h2><p>Where these numbers come from, as written into every record.</p>"
    return f"<section>{told}{table}{settings}</section>"


def _settings(runs: pl.DataFrame) -> Iterator[str]:
    firsts = runs.unique(["agent"], keep="first", maintain_order=True)
    specs = dict(firsts.select("agent", "spec").iter_rows())
    for agent in in_order(list(specs)):
        text = json.dumps(json.loads(specs[agent]), indent=2, ensure_ascii=False)
        yield f"<details><summary>{escape(agent)}</summary><pre>{escape(text)}</pre></details>"


def _shared(provenances: list[dict[str, Any]]) -> dict[str, str]:
    """Name -> the different values found in the records; nested names become one line each group."""
    found: dict[str, dict[str, None]] = {}
    for provenance in provenances:
        for name, value in provenance.items():
            if name not in _PER_RUN:
                found.setdefault(name, {})[_said(value)] = None
    return {name: _listed(list(values)) for name, values in found.items()}


def _said(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_said(part)}" for name, part in value.items())
    if isinstance(value, list):
        return ", ".join(map(_said, value))
    return str(value)


def _listed(values: list[str]) -> str:
    if len(values) > _SHOWN_VALUES:
        return "; ".join(values[:_SHOWN_VALUES]) + f"; and {len(values) - _SHOWN_VALUES} more"
    return "; ".join(values)
