"""Maps of the roads that agents drove, redder and thicker the oftener."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import altair as alt
import numpy as np
import polars as pl

from treebandit.core import Floats, Indices
from treebandit.reports.charts import Figure, Style, inline, tooltip
from treebandit.reports.routes import Drive, RouteMap

#: Shares of rounds up to which an edge has the colour and width beside.
LEVELS = (
    (0.001, "#fdd49e", 0.9),
    (0.003, "#fdbb84", 1.1),
    (0.01, "#fc8d59", 1.4),
    (0.03, "#ef6548", 1.8),
    (0.1, "#d7301f", 2.3),
    (0.3, "#b30000", 2.9),
    (1.0, "#7f0000", 3.6),
)
WIDTH = 340
COLUMNS = 4
#: Edges of a panel that have a tooltip: those driven most.
MOST_DESCRIBED = 300
#: The panels of the paper's maps of a single run, behind that of the best paths.
PAPER_PANELS = (
    *("LinUCB", "LinTS", "TreeBootstrap-XGBoost", "TEUCB-XGBoost", "TEUCB-RF", "NeuralUCB"),
    *("TreeBootstrap-RF", "TETS-XGBoost", "TETS-RF", "NeuralTS", "TreeBootstrap-DT"),
)
_TEXT = (
    "All paths from A to B that an agent drove, over all its seeds: the redder and thicker an edge, the larger the "
    "share of rounds in which it was driven. An agent that knows the way leaves few lines, like the best paths of the "
    "first map; one that explores colours the whole town. Point at an edge to see its name, speed limit and times."
)


class View:
    """Where the edges of a map lie on paper: all that was driven fits into WIDTH units of width."""

    def __init__(self, drawn: RouteMap) -> None:
        network = drawn.problem.network
        driven = np.any([drawn.optimal, *(drive.times for drive in drawn.drives)], axis=0)
        nodes = np.unique(np.concatenate([network.starts[driven], network.ends[driven]]))
        plane = network.positions[:, :2]
        low, high = plane[nodes].min(0), plane[nodes].max(0)
        # A square at least half as high as wide, with a margin, however straight the paths are.
        size = np.maximum(high - low, 0.5 * (high - low).max()) * 1.08
        scale = WIDTH / size[0]
        self.height = round(float(size[1] * scale))
        points = (plane - (low + high - size) / 2.0) * scale
        points[:, 1] = self.height - points[:, 1]
        self.points = np.round(2.0 * points) / 2.0
        self.ends = np.hstack([self.points[network.starts], self.points[network.ends]])
        inside = np.all((self.points > 0.0) & (self.points < [WIDTH, self.height]), axis=1)
        pairs = np.sort(np.column_stack([network.starts, network.ends]), axis=1)
        _, once = np.unique(pairs, axis=0, return_index=True)
        #: The edges in sight; of both directions of a road one.
        self.roads = np.sort(once[(inside[network.starts] | inside[network.ends])[once]])

    def path(self, edges: Indices) -> str:
        """The edges as one SVG path."""
        return "".join(f"M{a:g} {b:g}l{c - a:g} {d - b:g}" for a, b, c, d in self.ends[edges])


def one_run_figure(drawn: RouteMap, style: Style) -> Figure:
    """The best paths and a panel for each of the paper's agents, of a single run, as the paper draws them."""
    by_name = {drive.agent: drive for drive in drawn.one_run}
    drives = tuple(by_name[agent] for agent in PAPER_PANELS if agent in by_name)
    figure = map_figure(replace(drawn, drives=drives), style)
    return replace(
        figure,
        name=f"map-one-run-{drawn.name}",
        title=f"{drawn.name}: roads driven from A to B in a single run (seed {drawn.seed})",
        columns=3,
    )


def map_figure(drawn: RouteMap, style: Style) -> Figure:
    """The best paths, then one panel for each agent."""
    view = View(drawn)
    count = np.count_nonzero(drawn.optimal)
    panels = [_panel(drawn, view, style, None, "Optimal paths", f"over the day; {count:,} edges")]
    for drive in drawn.drives:
        seeds = f"{drive.seeds} seed{'s' * (drive.seeds > 1)}"
        note = f"{drive.rounds:,} rounds, {seeds}; {np.count_nonzero(drive.times):,} edges, "
        note += f"regret {drive.regret:,.0f} s"
        panels.append(_panel(drawn, view, style, drive, drive.agent, note))
    return Figure(
        f"map-{drawn.name}",
        f"{drawn.name}: roads driven from A to B",
        _TEXT,
        panels,
        agents=(None, *(drive.agent for drive in drawn.drives)),
        columns=COLUMNS,
    )


def _panel(drawn: RouteMap, view: View, style: Style, drive: Drive | None, title: str, note: str) -> Any:
    shares = drawn.optimal if drive is None else drive.shares
    layers = [_roads(view), _driven(view, shares, legend=drive is None), *_both_ends(drawn, view)]
    if style.page:
        layers.append(_described(drawn, view, shares, drive))
    chart = alt.layer(*layers).resolve_scale(color="independent", strokeWidth="independent")
    return style.panel(chart, title, notes=[note], width=WIDTH, height=view.height)


def _roads(view: View) -> Any:
    frame = pl.DataFrame({"path": [view.path(view.roads)]})
    return _paths(frame).encode(color=alt.value("#d2d4d8"), strokeWidth=alt.value(0.6))


def _driven(view: View, shares: Floats, *, legend: bool) -> Any:
    """The edges of each band of shares as one path."""
    limits, colours, widths = zip(*LEVELS, strict=True)
    band = np.where(shares > 0, np.searchsorted(limits, shares - 1e-9), -1)
    names = [f"{100 * limit:g} %" for limit in limits]
    paths = [view.path(np.flatnonzero(band == place)) for place in range(len(LEVELS))]
    key = alt.Legend(
        title="share of rounds, up to", symbolType="stroke", symbolSize=400, orient="bottom", columns=4
    )
    colour, width = (alt.Scale(type="ordinal", domain=names, range=each) for each in (colours, widths))
    frame = pl.DataFrame({"path": paths, "share": names}).filter(pl.col("path") != "")
    return _paths(frame).encode(
        color=alt.Color("share:O", sort=names, scale=colour, legend=key if legend else None),
        strokeWidth=alt.StrokeWidth("share:O", sort=names, scale=width, legend=key if legend else None),
    )


def _paths(frame: pl.DataFrame) -> Any:
    """One mark for each row; Vega draws a symbol of size 4 as large as the path that is its shape."""
    drawn = alt.Chart(inline(frame)).mark_point(
        size=4, filled=False, opacity=1, strokeCap="round", clip=True, aria=False
    )
    return drawn.encode(x=alt.value(0), y=alt.value(0), shape=alt.Shape("path:N", scale=None))


def _both_ends(drawn: RouteMap, view: View) -> list[Any]:
    network, names = drawn.problem.network, (drawn.problem.start, drawn.problem.end)
    places = np.array([view.points[network.node(name)] for name in names])
    frame = pl.DataFrame({"letter": ["A", "B"], "x": places[:, 0], "y": places[:, 1]})
    base = alt.Chart(inline(frame)).encode(**_axes(view))
    circle = base.mark_circle(size=200, color="#12508f", stroke="white", strokeWidth=1.5, opacity=1)
    return [circle, base.mark_text(color="white", fontWeight="bold", fontSize=11).encode(text="letter:N")]


def _described(drawn: RouteMap, view: View, shares: Floats, drive: Drive | None) -> Any:
    """Broad strokes that cannot be seen: what the pointer finds; those under it show."""
    network = drawn.problem.network
    # The most driven come last, on top of the other direction of their road.
    edges = np.argsort(shares, kind="stable")[-min(MOST_DESCRIBED, int(np.count_nonzero(shares))) :]
    columns: dict[str, Any] = dict(zip(("x", "y", "x2", "y2"), view.ends[edges].T, strict=True))
    columns["edge"] = [network.edge_names[edge] for edge in edges]
    columns["limit"] = np.round(3.6 * network.speed_limits[edges])
    columns["times"] = np.round(100.0 * shares[edges]) if drive is None else drive.times[edges]
    columns["expected"] = np.round(drawn.expected[edges], 1)
    often = "% of the day" if drive is None else "times driven"
    numbers = {"limit": "km/h", "times": often, "expected": "expected seconds at 8 h"}
    if drive is not None and drive.estimates is not None:
        columns["estimate"] = np.round(drive.estimates[edges], 1)
        numbers["estimate"] = "estimated seconds"
    pointed = alt.selection_point(on="pointerover", clear="pointerout", empty=False)
    strokes = alt.Chart(inline(pl.DataFrame(columns))).mark_rule(strokeWidth=9, strokeCap="round", aria=False)
    return strokes.encode(
        **_axes(view),
        x2="x2:Q",
        y2="y2:Q",
        color=alt.value("#12508f"),
        opacity=alt.condition(pointed, alt.value(0.45), alt.value(0)),
        tooltip=tooltip("edge", **numbers),
    ).add_params(pointed)


def _axes(view: View) -> dict[str, Any]:
    across, down = (alt.Scale(domain=ends, nice=False) for ends in ([0, WIDTH], [view.height, 0]))
    return {"x": alt.X("x:Q", axis=None, scale=across), "y": alt.Y("y:Q", axis=None, scale=down)}
