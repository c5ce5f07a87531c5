"""Regret curves, final regret, time and sensitivity; all figures of a report, written as SVG and PNG."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np
import polars as pl
import vl_convert

from treebandit.environments.fixed_routes import FixedRoute
from treebandit.experiments.records import load_records
from treebandit.files import write_whole
from treebandit.reports import frames
from treebandit.reports.charts import Figure, Style, agent_rows, inline, tooltip
from treebandit.reports.maps import map_figure, one_run_figure
from treebandit.reports.palette import in_order, looks
from treebandit.reports.problems import problem_figures
from treebandit.reports.routes import reference_routes
from treebandit.reports.summary import Results, read_results, summarise
from treebandit.reports.tables import count_seeds, words

PNG_SCALE = 2.0
LONGEST_NAME = 100
PART_COLOURS = {"choosing": "#88CCEE", "learning": "#DDAA33", "rebuilding": "#7A5AA6"}
_GLOBALS = "window.vegaEmbed = vegaEmbed; window.vega = vega; window.vegaLite = vegaLite;"
#: Version of the Vega-Lite that this Altair writes, in the form that vl-convert takes.
_VERSION = ".".join(alt.SCHEMA_VERSION.lstrip("v").split(".")[:2])


def write_figures(source: str | Path | Results, folder: str | Path) -> list[Path]:
    """Write every figure that the records allow as SVG and PNG; gives the files written."""
    results = source if isinstance(source, Results) else read_results(source)
    written = []
    for figure in figures(results):
        svg = vl_convert.vegalite_to_svg(figure.chart().to_dict(validate=False), vl_version=_VERSION)
        png = vl_convert.svg_to_png(svg, scale=PNG_SCALE)
        for ending, content in (("svg", svg.encode()), ("png", png)):
            written.append(write_whole(Path(folder) / f"{figure.name}.{ending}", content))
    return written


def figures(results: Results, *, page: bool = False) -> list[Figure]:
    """Every figure that the records allow, for files or for the page."""
    summary = summarise(results)
    style = Style(looks(results.runs["agent"]), results.units, page)
    plain, means = (frame.filter(pl.col("varied").is_null()) for frame in (results.runs, summary))
    found: list[Figure] = []
    if plain.height:
        found = [_regret_curves(results, plain, means, style), *problem_figures(plain, style)]
        found += [_final_regret(plain, means, style), _time_per_round(means, style)]
    for varied in results.runs["varied"].drop_nulls().unique().sort():
        found.append(_sensitivity(summary.filter(pl.col("varied") == varied), style))
    found += [map_figure(drawn, style) for drawn in results.maps[0]]
    if not page:
        found += [one_run_figure(drawn, style) for drawn in results.maps[0]]
    return _renamed(found)


@cache
def javascript() -> str:
    """Vega, Vega-Lite and Vega-Embed in one script, for a page that must work without a network."""
    return str(vl_convert.javascript_bundle(_GLOBALS, vl_version=_VERSION))


def _renamed(found: list[Figure]) -> list[Figure]:
    """The figures under names that are good for files and ids, no two the same."""
    names: dict[str, Figure] = {}
    for figure in found:
        name = plain = re.sub("[^a-zA-Z0-9]+", "-", figure.name)[:LONGEST_NAME]
        while name.lower() in names:
            name = f"{plain}-{len(names)}"
        names[name.lower()] = replace(figure, name=name)
    return list(names.values())


def _regret_curves(results: Results, runs: pl.DataFrame, means: pl.DataFrame, style: Style) -> Figure:
    if results.curve is None:
        frame = frames.curves(runs, load_records(results.folder)[1])
    else:
        frame = frames.curves(runs, results.curve, thinned=True)
    agents = in_order(frame["agent"])
    references = reference_routes(results)
    drawn = []
    for place, (environment, length, title) in enumerate(frames.panels(frame)):
        data = frames.in_panel(frame, environment, length).select(
            "agent", "round", "seeds", pl.col("mean", "sd", "low", "high").round(1)
        )
        x = alt.X("round:Q", title="round", axis=_ticks(numbers=",d"), scale=alt.Scale(nice=False))
        # Labels inside the axis keep the titles of panels in one line.
        y = alt.Y("low:Q", title=f"regret ({style.units[environment]})", axis=alt.Axis(labelFlush=True))
        base = style.chart(data, agents).encode(x=x)
        band = base.mark_area(clip=True).encode(y=y, y2="high:Q", opacity=style.opacity(0.14))
        line = base.mark_line(strokeWidth=1.8, clip=True).encode(
            y="mean:Q",
            opacity=style.opacity(1.0),
            **style.lines(agents, legend=place == _legend_place(frame, style)),
        )
        layers = [band, line, *_reference_lines(references.get(environment, ()), length)]
        if style.page:
            touch = base.transform_filter("datum.round % 5 == 1 || datum.round < 20")
            shown = tooltip("agent", round="round", mean="regret, mean", sd="sd", seeds="seeds")
            layers.append(touch.mark_point(size=90, opacity=0).encode(y="mean:Q", tooltip=shown))
        drawn.append(style.panel(alt.layer(*layers), title, notes=frames.odd_ones(data, length)))
    return Figure(
        "regret-curves",
        f"Regret so far, mean ± sd of {count_seeds(means)}",
        "How much reward was missed up to each round, compared with the best choice in every round. Lines are "
        "means over the seeds, bands are one standard deviation; a flat line has nothing left to learn."
        + " Grey lines are drivers who always take one route: by speed limits, and the best of all such routes."
        * bool(references),
        drawn,
    )


def _reference_lines(routes: tuple[FixedRoute, ...], length: int) -> list[Any]:
    """A grey line for each fixed route, since its regret grows evenly; names stand above the upper, below the lower."""
    if len(routes) == 2 and np.array_equal(routes[0].edges, routes[1].edges):
        routes = (replace(routes[0], name="free-flow route, the best fixed one too"),)
    layers = []
    for place, route in enumerate(sorted(routes, key=lambda each: -each.regret)):
        ends = {
            "round": [1, length],
            "regret": [route.regret, length * route.regret],
            "route": [route.name] * 2,
        }
        base = alt.Chart(inline(pl.DataFrame(ends))).encode(x="round:Q", y="regret:Q")
        line = base.mark_line(strokeDash=[2, 3], strokeWidth=1.4, color="#6b6b6b", clip=True)
        name = base.transform_filter(f"datum.round == {length}").mark_text(
            align="right", dx=-4, dy=12 if place else -9, fontSize=10, color="#6b6b6b"
        )
        layers += [line.encode(tooltip=tooltip("route", regret="regret")), name.encode(text="route:N")]
    return layers


def _final_regret(runs: pl.DataFrame, means: pl.DataFrame, style: Style) -> Figure:
    bands = frames.with_band(means)
    drawn = []
    for environment, length, title in frames.panels(runs):
        points = frames.in_panel(runs, environment, length).select("agent", "seed", "final_regret")
        shown = frames.in_panel(bands, environment, length)
        layers = _final_layers(points, shown, environment, style)
        height = 24 * points["agent"].n_unique() + 10
        drawn.append(style.panel(alt.layer(*layers), title, height=height))
    paper = means["paper_mean"].is_not_null().any()
    return Figure(
        "final-regret",
        f"Final regret of each seed, mean ± sd{'; diamonds: the paper' * paper}",
        "Each dot is one seed, the bar is the mean with one standard deviation. "
        + "A diamond is the mean that the paper reports for the same agent and number of rounds." * paper,
        drawn,
    )


def _final_layers(points: pl.DataFrame, means: pl.DataFrame, environment: str, style: Style) -> list[Any]:
    agents = in_order(means["agent"])
    lowest = means.join(points, on="agent").with_columns(pl.min_horizontal("low", "final_regret"))
    scale, title = style.regret(lowest, environment, mean="mean", least="low")
    x, y = alt.X("final_regret:Q", title=title, axis=_ticks(), scale=scale), agent_rows(agents, grid=True)
    numbers = tooltip(
        "agent", mean="mean", sd="sd", seeds="seeds", paper_mean="paper, mean", paper_sd="paper, sd"
    )
    seeds = style.chart(points, agents).mark_circle(size=34).encode(
        x=x, y=y, opacity=style.opacity(0.45), tooltip=tooltip("agent", seed="seed", final_regret="final regret")
    )  # fmt: skip
    columns = ["agent", "mean", "sd", "low", "high", "seeds", "paper_mean", "paper_sd"]
    base = style.chart(means.select(columns), agents).encode(y=y, opacity=style.opacity(1.0))
    interval = base.mark_rule(strokeWidth=2).encode(x=alt.X("low:Q", scale=scale), x2="high:Q")
    middle = base.mark_tick(thickness=3, size=16).encode(x=alt.X("mean:Q", scale=scale), tooltip=numbers)
    layers = [seeds, interval, middle]
    if means["paper_mean"].is_not_null().any():
        diamond = base.mark_point(shape="diamond", size=60, filled=False, strokeWidth=1.4, invalid="filter")
        x = alt.X("paper_mean:Q", scale=scale)
        layers.append(diamond.encode(x=x, color=alt.value("#888888"), tooltip=numbers))
    return layers


def _time_per_round(means: pl.DataFrame, style: Style) -> Figure:
    order = {part: place for place, part in enumerate(frames.PARTS)}
    frame = frames.seconds_per_round(means).with_columns(
        pl.col("part").replace_strict(order).alias("place"),
        pl.col("total").map_elements(frames.milliseconds, return_dtype=pl.String).alias("label"),
    )
    drawn = []
    for environment, length, title in frames.panels(frame):
        data = frames.in_panel(frame, environment, length).drop("environment", "rounds")
        height = 22 * data["agent"].n_unique() + 10
        drawn.append(style.panel(alt.layer(*_time_layers(data, style)), title, height=height))
    return Figure(
        "time-per-round",
        "Where the time of a round goes, and how long it takes",
        "The share of a round spent on choosing, on learning from the reward and on rebuilding the model; "
        "beside each bar the mean time of a round.",
        drawn,
    )


def _time_layers(data: pl.DataFrame, style: Style) -> list[Any]:
    base = style.chart(data).encode(y=agent_rows(in_order(data["agent"])))
    legend = alt.Legend(orient="top" if style.page else "bottom", symbolType="square")
    scale = alt.Scale(domain=list(frames.PARTS), range=list(PART_COLOURS.values()))
    # The axis goes on beyond 100 % to leave space for the labels.
    x = alt.X(
        "share:Q",
        stack="zero",
        title="share of a round's time",
        scale=alt.Scale(domain=[0, 1.22]),
        axis=alt.Axis(format="%", values=[0, 0.25, 0.5, 0.75, 1]),
    )
    bars = base.mark_bar(height={"band": 0.72}).encode(
        x=x,
        color=alt.Color("part:N", title=None, sort=list(frames.PARTS), scale=scale, legend=legend),
        order="place:Q",
        opacity=style.opacity(1.0),
        tooltip=tooltip("part", "agent", ms="ms a round", share="share"),
    )
    text = base.transform_filter("datum.place == 0").mark_text(align="left", dx=6, fontSize=11)
    return [bars, text.encode(x=alt.datum(1.0), text="label:N")]


def _sensitivity(summary: pl.DataFrame, style: Style) -> Figure:
    agents, varied = in_order(summary["agent"]), str(summary["varied"][0])
    axis, name = frames.value_axis(summary["value"].to_list()), words(varied)
    shifts = {agent: axis.shift(place, len(agents)) for place, agent in enumerate(agents)}
    place = pl.col("value").replace_strict(axis.places, return_dtype=pl.Float64)
    aside = place + pl.col("agent").replace_strict(shifts, return_dtype=pl.Float64)
    joined = pl.col("value").is_in(list(axis.joined)).cast(pl.Int8)
    frame = frames.with_band(summary).with_columns(aside.alias("place"), joined.alias("joined"))
    columns = ["agent", "value", "place", "joined", "mean", "sd", "low", "high", "seeds"]
    drawn = []
    for number, (environment, length, title) in enumerate(frames.panels(summary)):
        means = frames.in_panel(frame, environment, length).sort("agent", "place")
        scale, regret = style.regret(means, environment, mean="mean", least="low")
        y = alt.Y("mean:Q", title=regret, scale=scale)
        base = style.chart(means.select(columns), agents).encode(x=_value_encoding(axis, name), y=y)
        legend = number == _legend_place(summary, style)
        line = base.transform_filter("datum.joined == 1").mark_line(strokeWidth=1)
        line = line.encode(opacity=style.opacity(0.55), **style.lines(agents, legend=legend))
        bars = base.mark_rule(strokeWidth=1.6).encode(
            y=alt.Y("low:Q", scale=scale), y2="high:Q", opacity=style.opacity(1.0)
        )
        shown = tooltip("agent", "value", mean="mean", sd="sd", seeds="seeds")
        dots = base.mark_circle(size=52).encode(opacity=style.opacity(1.0), tooltip=shown)
        # Where nothing can be joined the line is there for the sake of the legend alone.
        layers = [line, bars, dots] if axis.joined or legend else [bars, dots]
        drawn.append(style.panel(alt.layer(*layers), title))
    return Figure(
        f"sensitivity-{varied}",
        f"Final regret over {name}, mean ± sd of {count_seeds(summary)}",
        f"Final regret for each {name}: mean and one standard deviation over {count_seeds(summary)}. "
        "Agents stand a little beside each other so that their bars do not cover each other.",
        drawn,
        varied=varied,
    )


def _value_encoding(axis: frames.ValueAxis, name: str) -> Any:
    labels = [f"abs(datum.value - {at}) < 1e-9 ? {json.dumps(value)}" for value, at in axis.places.items()]
    ticks = alt.Axis(
        values=list(axis.places.values()),
        labelExpr=" : ".join([*labels, "''"]),
        grid=False,
        labelOverlap=False,
    )
    scale = alt.Scale(zero=False, nice=False, padding=24)
    return alt.X("place:Q", title=name + " (log scale)" * axis.logarithmic, scale=scale, axis=ticks)


def _legend_place(frame: pl.DataFrame, style: Style) -> int:
    """The one panel of a file that bears the legend: the last of the first row."""
    return -1 if style.page else min(Figure.columns, len(frames.panels(frame))) - 1


def _ticks(*, numbers: Any = alt.Undefined) -> Any:
    return alt.Axis(tickCount=5, format=numbers, labelFlush=False)
