"""Regret curves, final regret, time and sensitivity as Altair charts; written as SVG and PNG."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl

from treebandit.errors import MissingExtraError
from treebandit.experiments.records import load_records
from treebandit.reports.cells import count_seeds, words
from treebandit.reports.frames import (
    LOG_RATIO,
    PARTS,
    ValueAxis,
    curves,
    in_panel,
    milliseconds,
    odd_ones,
    panels,
    seconds_per_round,
    value_axis,
    with_band,
)
from treebandit.reports.maps import map_svg
from treebandit.reports.palette import in_order, look
from treebandit.reports.problems import problem_specs
from treebandit.reports.summary import Results, read_results, summarise

try:
    import altair as alt
    import vl_convert
except ImportError as error:
    raise MissingExtraError(error.name or "altair", "experiments") from error

PANEL_WIDTH = 400
PANEL_HEIGHT = 280
COLUMNS = 2
PNG_SCALE = 2.0
PART_COLOURS = {"choosing": "#88CCEE", "learning": "#DDAA33", "rebuilding": "#7A5AA6"}
_GLOBALS = "window.vegaEmbed = vegaEmbed; window.vega = vega; window.vegaLite = vegaLite;"
Spec = dict[str, Any]


def write_figures(source: str | Path | Results, folder: str | Path) -> list[Path]:
    """Write every figure that the records allow as SVG and PNG; gives the files written."""
    results = source if isinstance(source, Results) else read_results(source)
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    version = _vegalite_version()
    drawn = {
        name: vl_convert.vegalite_to_svg(spec, vl_version=version) for name, spec in figures(results).items()
    }
    drawn |= {_file_name("map", each.name): map_svg(each) for each in results.maps[0]}
    for name, svg in drawn.items():
        for path, content in (
            (folder / f"{name}.svg", svg.encode()),
            (folder / f"{name}.png", vl_convert.svg_to_png(svg, scale=PNG_SCALE)),
        ):
            temporary = path.with_name(f".{path.name}.tmp")
            temporary.write_bytes(content)
            os.replace(temporary, path)
            written.append(path)
    return written


def figures(results: Results) -> dict[str, Spec]:
    """Vega-Lite specs by file name: all panels of a figure side by side, with a legend, for print."""
    return {name: _figure(title, drawn) for name, (title, drawn) in _charts(results, page=False).items()}


def page_panels(results: Results) -> dict[str, list[Spec]]:
    """Vega-Lite specs by figure, one per panel, as wide as their container.

    Signals of each: `hidden`, the agents not to draw, and `focus`, the one to stand out ("" for none).
    """
    return {
        name: [_dress(chart, page=True).to_dict(validate=False) for chart in charts]
        for name, (_, charts) in _charts(results, page=True).items()
    }


def javascript() -> str:
    """Vega, Vega-Lite and Vega-Embed in one script, for a page that must work without a network."""
    return str(vl_convert.javascript_bundle(_GLOBALS, vl_version=_vegalite_version()))


def _charts(results: Results, *, page: bool) -> dict[str, tuple[str, list[Any]]]:
    summary = summarise(results)
    plain = results.runs.filter(pl.col("varied").is_null())
    charts: dict[str, tuple[str, list[Any]]] = {}
    if not plain.is_empty():
        _, rounds = load_records(results.folder)
        diamonds = "; diamonds: the paper" * summary["paper_mean"].is_not_null().any()
        regret = _regret_charts(curves(plain, rounds), page=page)
        charts["regret-curves"] = f"Regret so far, mean ± sd of {_seeds_of(summary)}", regret
        final = _final_charts(plain, summary, page=page)
        if specs := problem_specs(plain, page=page):
            drawn = [
                _panel(alt.LayerChart.from_dict(spec), title, page=page, height=height)
                for title, height, spec in specs
            ]
            charts["regret-by-problem"] = "Final regret of each problem", drawn
        charts["final-regret"] = f"Final regret of each seed, mean ± sd{diamonds}", final
        time = _time_charts(seconds_per_round(summary), page=page)
        charts["time-per-round"] = "Where the time of a round goes, and how long it takes", time
    for varied in results.runs["varied"].drop_nulls().unique().sort():
        part = summary.filter(pl.col("varied") == varied)
        title = f"Final regret over {words(varied)}, mean ± sd of {count_seeds(part)}"
        charts[sensitivity_name(varied)] = title, _sensitivity_charts(part, page=page)
    return charts


def _seeds_of(summary: pl.DataFrame) -> str:
    return count_seeds(summary.filter(pl.col("varied").is_null()))


def sensitivity_name(varied: str) -> str:
    """The name of the figure that varies this parameter."""
    return _file_name("sensitivity", varied)


def _file_name(kind: str, of: str) -> str:
    return f"{kind}-{re.sub('[^a-zA-Z0-9]+', '-', of)}"


def _regret_charts(frame: pl.DataFrame, *, page: bool) -> list[Any]:
    agents = in_order(frame["agent"].to_list())
    charts = []
    for place, (environment, rounds, title) in enumerate(panels(frame)):
        legend = not page and place == _legend_place(frame)
        data = in_panel(frame, environment, rounds).select(
            "agent", "round", "seeds", pl.col("mean", "sd", "low", "high").round(1)
        )
        base = _base(data, agents, page=page).encode(
            x=alt.X("round:Q", title="round", axis=_ticks(5, numbers=",d"), scale=alt.Scale(nice=False))
        )
        band = base.mark_area(opacity=0.14, clip=True).encode(y=alt.Y("low:Q", title="regret"), y2="high:Q")
        line = base.mark_line(strokeWidth=1.8, clip=True).encode(
            y="mean:Q",
            color=_colours(agents, legend=legend),
            strokeDash=_dashes(agents, legend=legend),
            opacity=_focus(page, 1.0),
        )
        if page:
            band = band.encode(opacity=_focus(page, 0.14))
            touch = base.transform_filter("datum.round % 5 == 1 || datum.round < 20").mark_point(
                size=90, opacity=0
            )
            line = alt.layer(
                line,
                touch.encode(
                    y="mean:Q",
                    tooltip=_tooltip("agent", round="round", mean="regret, mean", sd="sd", seeds="seeds"),
                ),
            )
        charts.append(_panel(alt.layer(band, line), title, page=page, told=odd_ones(data, rounds)))
    return charts


def _final_charts(runs: pl.DataFrame, summary: pl.DataFrame, *, page: bool) -> list[Any]:
    means = with_band(summary.filter(pl.col("varied").is_null()))
    charts = []
    for environment, rounds, title in panels(runs):
        points = in_panel(runs, environment, rounds).select("agent", "seed", "final_regret")
        shown = ["agent", "mean", "sd", "low", "high", "seeds", "paper_mean", "paper_sd"]
        layers = _final_layers(points, in_panel(means, environment, rounds).select(shown), page=page)
        height = 24 * points["agent"].n_unique() + 10
        charts.append(_panel(alt.layer(*layers), title, page=page, height=height))
    return charts


def _final_layers(points: pl.DataFrame, means: pl.DataFrame, *, page: bool) -> list[Any]:
    agents = in_order(means["agent"].to_list())
    log, scale = _regret_scale(means, points["final_regret"])
    title = "final regret (log scale)" if log else "final regret"
    x = alt.X("final_regret:Q", title=title, axis=_ticks(5), scale=scale)
    y = alt.Y("agent:N", sort=agents, title=None, axis=alt.Axis(labelLimit=200, grid=True, ticks=False))
    strong = {"opacity": _focus(page, 1.0)}
    told = _tooltip(
        "agent", mean="mean", sd="sd", seeds="seeds", paper_mean="paper, mean", paper_sd="paper, sd"
    )
    seed_told = _tooltip("agent", seed="seed", final_regret="final regret")
    seeds = _base(points, agents, page=page).mark_circle(size=34).encode(y=y, x=x)
    base = _base(means, agents, page=page).encode(y=y)
    spread = base.mark_rule(strokeWidth=2).encode(x=alt.X("low:Q", scale=scale), x2="high:Q", **strong)
    middle = base.mark_tick(thickness=3, size=16).encode(
        x=alt.X("mean:Q", scale=scale), tooltip=told, **strong
    )
    layers = [seeds.encode(opacity=_focus(page, 0.45), tooltip=seed_told), spread, middle]
    if means["paper_mean"].is_not_null().any():
        diamond = base.mark_point(shape="diamond", size=60, filled=False, strokeWidth=1.4, invalid="filter")
        grey = {"color": alt.value("#888888"), "x": alt.X("paper_mean:Q", scale=scale)}
        layers.append(diamond.encode(tooltip=told, **grey))
    return layers


def _time_charts(frame: pl.DataFrame, *, page: bool) -> list[Any]:
    order = {part: place for place, part in enumerate(PARTS)}
    frame = frame.with_columns(
        pl.col("part").replace_strict(order).alias("place"),
        pl.col("total").map_elements(milliseconds, return_dtype=pl.String).alias("label"),
    )
    charts = []
    for environment, rounds, title in panels(frame):
        data = in_panel(frame, environment, rounds).drop("environment", "rounds")
        height = 22 * data["agent"].n_unique() + 10
        charts.append(_panel(alt.layer(*_time_layers(data, page=page)), title, page=page, height=height))
    return charts


def _time_layers(data: pl.DataFrame, *, page: bool) -> list[Any]:
    agents = in_order(data["agent"].to_list())
    y = alt.Y("agent:N", sort=agents, title=None, axis=alt.Axis(labelLimit=200, ticks=False))
    base = _interactive(alt.Chart(data), page=page).encode(y=y)
    legend = alt.Legend(orient="top" if page else "bottom", symbolType="square")
    scale = alt.Scale(domain=list(PARTS), range=list(PART_COLOURS.values()))
    axis = alt.Axis(format="%", values=[0, 0.25, 0.5, 0.75, 1])
    # The axis goes on beyond 100 % to leave room for the labels.
    room = alt.Scale(domain=[0, 1.22])
    bars = base.mark_bar(height={"band": 0.72}).encode(
        x=alt.X("share:Q", stack="zero", title="share of a round's time", scale=room, axis=axis),
        color=alt.Color("part:N", title=None, sort=list(PARTS), scale=scale, legend=legend),
        order="place:Q",
        opacity=_focus(page, 1.0),
        tooltip=[alt.Tooltip("part:N"), *_tooltip("agent", ms="ms a round", share="share")],
    )
    text = base.transform_filter("datum.place == 0").mark_text(align="left", dx=6, fontSize=11)
    return [bars, text.encode(x=alt.datum(1.0), text="label:N")]


def _sensitivity_charts(summary: pl.DataFrame, *, page: bool) -> list[Any]:
    agents = in_order(summary["agent"].to_list())
    axis = value_axis(summary["value"].to_list())
    shifts = {agent: axis.shift(place, len(agents)) for place, agent in enumerate(agents)}
    place = pl.col("value").replace_strict(axis.places, return_dtype=pl.Float64)
    aside = place + pl.col("agent").replace_strict(shifts, return_dtype=pl.Float64)
    joined = pl.col("value").is_in(list(axis.joined))
    frame = with_band(summary).with_columns(aside.alias("place"), joined.alias("joined"))
    shown = ["agent", "value", "place", "joined", "mean", "sd", "low", "high", "seeds"]
    x = _value_encoding(axis, words(str(summary["varied"][0])))
    charts = []
    for number, (environment, rounds, title) in enumerate(panels(summary)):
        means = in_panel(frame, environment, rounds).select(shown).sort("agent", "place")
        legend = not page and number == _legend_place(summary)
        bars, dots, line = _sensitivity_layers(means, agents, x, page=page, legend=legend)
        # Where nothing can be joined the line is there for the sake of the legend alone.
        layers = [line, bars, dots] if axis.joined or legend else [bars, dots]
        charts.append(_panel(alt.layer(*layers), title, page=page))
    return charts


def _value_encoding(axis: ValueAxis, name: str) -> Any:
    labels = [f"abs(datum.value - {at}) < 1e-9 ? {json.dumps(value)}" for value, at in axis.places.items()]
    ticks = alt.Axis(
        values=list(axis.places.values()),
        labelExpr=" : ".join([*labels, "''"]),
        grid=False,
        labelOverlap=False,
    )
    scale = alt.Scale(zero=False, nice=False, padding=24)
    return alt.X("place:Q", title=name + " (log scale)" * axis.logarithmic, scale=scale, axis=ticks)


def _sensitivity_layers(
    means: pl.DataFrame, agents: list[str], x: Any, *, page: bool, legend: bool
) -> tuple[Any, Any, Any]:
    log, scale = _regret_scale(means, means["low"])
    y = alt.Y("mean:Q", title="final regret (log scale)" if log else "final regret", scale=scale)
    base = _base(means, agents, page=page).encode(x=x, opacity=_focus(page, 1.0))
    bars = base.mark_rule(strokeWidth=1.6).encode(y=alt.Y("low:Q", scale=scale), y2="high:Q")
    told = [*_tooltip("agent", mean="mean", sd="sd", seeds="seeds"), alt.Tooltip("value:N")]
    dots = base.mark_circle(size=52).encode(y=y, tooltip=told)
    line = base.transform_filter("datum.joined").mark_line(strokeWidth=1)
    line = line.encode(
        y=y,
        color=_colours(agents, legend=legend),
        strokeDash=_dashes(agents, legend=legend),
        opacity=_focus(page, 0.55),
    )
    return bars, dots, line


def _regret_scale(means: pl.DataFrame, others: pl.Series) -> tuple[bool, Any]:
    """A log scale where one is needed and possible, and whether it is one."""
    least, most = means.select(pl.col("mean").min(), pl.col("mean").max().alias("most")).row(0)
    lowest = min([*means["low"].to_list(), *others.to_list()])
    log = bool(lowest > 0 and most > LOG_RATIO * least)
    return log, alt.Scale(type="log", nice=False) if log else alt.Scale(zero=False)


def _tooltip(name: str, **numbers: str) -> list[Any]:
    return [alt.Tooltip(f"{name}:N")] + [
        alt.Tooltip(f"{field}:Q", title=title, format=",.4~g") for field, title in numbers.items()
    ]


def _base(data: pl.DataFrame, agents: list[str], *, page: bool) -> Any:
    return _interactive(alt.Chart(data), page=page).encode(color=_colours(agents))


def _colours(agents: list[str], *, legend: bool = False) -> Any:
    scale = alt.Scale(domain=agents, range=[look(agent).colour for agent in agents])
    return alt.Color("agent:N", title=None, scale=scale, legend=_legend() if legend else None)


def _dashes(agents: list[str], *, legend: bool = False) -> Any:
    scale = alt.Scale(domain=agents, range=[list(look(agent).dashes) or [1, 0] for agent in agents])
    return alt.StrokeDash("agent:N", title=None, scale=scale, legend=_legend() if legend else None)


def _legend_place(frame: pl.DataFrame) -> int:
    """The one panel that bears the legend: the last of the first row."""
    return min(COLUMNS, len(panels(frame))) - 1


def _legend() -> Any:
    return alt.Legend(
        symbolType="stroke",
        symbolStrokeWidth=2.2,
        symbolSize=900,
        symbolOpacity=1,
        labelLimit=220,
        rowPadding=4,
    )


def _interactive(chart: Any, *, page: bool) -> Any:
    return chart.transform_filter("indexof(hidden, datum.agent) < 0") if page else chart


def _focus(page: bool, opacity: float) -> Any:
    if not page:
        return alt.value(opacity)
    return alt.condition("focus == '' || focus == datum.agent", alt.value(opacity), alt.value(0.12 * opacity))


def _ticks(count: int, *, numbers: Any = alt.Undefined) -> Any:
    return alt.Axis(tickCount=count, format=numbers, labelFlush=False)


def _panel(
    chart: Any, title: str, *, page: bool, height: int = PANEL_HEIGHT, told: Sequence[str] = ()
) -> Any:
    if page:
        chart = chart.add_params(alt.param(name="hidden", value=[]), alt.param(name="focus", value=""))
    width = "container" if page else PANEL_WIDTH
    chart = chart.resolve_legend(color="independent", strokeDash="independent")
    return chart.properties(
        width=width, height=height, title=alt.Title(title, subtitle=list(told), anchor="start")
    )


def _figure(title: str, charts: list[Any]) -> Spec:
    heading = alt.Title(title, anchor="start", fontSize=17)
    whole = alt.concat(*charts, columns=COLUMNS, spacing=28).properties(title=heading)
    whole = whole.resolve_scale(color="independent", strokeDash="independent")
    spec: Spec = _dress(whole, page=False).to_dict(validate=False)
    return spec


def _dress(chart: Any, *, page: bool) -> Any:
    if page:
        chart = chart.configure(
            font="system-ui, sans-serif",
            background="transparent",
            autosize=alt.AutoSizeParams(type="fit-x", contains="padding"),
        )
    else:
        chart = chart.configure(font="sans-serif", background="white", padding=12)
    line = {"gridColor": "#e3e3e3", "domainColor": "#999999", "tickColor": "#999999"}
    text = {
        "labelFontSize": 11,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
        "titlePadding": 8,
        "labelPadding": 5,
    }
    return (
        chart.configure_view(stroke=None)
        .configure_axis(**line, **text)
        .configure_legend(labelFontSize=12)
        .configure_title(fontSize=13, fontWeight=600, offset=10)
    )


def _vegalite_version() -> str:
    return ".".join(alt.SCHEMA_VERSION.lstrip("v").split(".")[:2])
