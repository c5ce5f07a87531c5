"""Maps of the roads that agents drove, redder and thicker the oftener: SVG for files and for the page."""

from __future__ import annotations

import json
from dataclasses import dataclass
from html import escape

import numpy as np

from treebandit.core import Floats, Indices
from treebandit.reports.routes import RouteMap

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
PANEL = 340.0
COLUMNS = 4
GAP = 18.0
CAPTION = 40.0
_FONT = "font-family='sans-serif'"


@dataclass(frozen=True, eq=False)
class Panel:
    """One small map: what it shows, in two lines, and the share of rounds in which each edge was driven, (m,)."""

    agent: str | None
    title: str
    told: str
    shares: Floats


class View:
    """Where the edges of a map lie on paper: all that was driven fits into PANEL units of width."""

    def __init__(self, drawn: RouteMap) -> None:
        network = drawn.problem.network
        driven = np.any([drawn.optimal, *(drive.times for drive in drawn.drives)], axis=0)
        nodes = np.unique(np.concatenate([network.starts[driven], network.ends[driven]]))
        plane = network.positions[:, :2]
        low, high = plane[nodes].min(0), plane[nodes].max(0)
        # A square at least half as high as wide, with a margin, however straight the paths are.
        size = np.maximum(high - low, 0.5 * (high - low).max()) * 1.08
        self.scale = PANEL / size[0]
        self.height = round(float(size[1] * self.scale), 1)
        corner = (low + high - size) / 2.0
        points = (plane - corner) * self.scale
        points[:, 1] = self.height - points[:, 1]
        self.points = np.round(points, 1)
        self.ends = np.hstack([self.points[network.starts], self.points[network.ends]])
        inside = np.all((self.points > -20.0) & (self.points < [PANEL + 20.0, self.height + 20.0]), axis=1)
        self.visible = inside[network.starts] | inside[network.ends]
        self._pairs = np.sort(np.column_stack([network.starts, network.ends]), axis=1)

    def path(self, edges: Indices) -> str:
        """The edges as the `d` of one SVG path."""
        return "".join(f"M{a:g} {b:g}L{c:g} {d:g}" for a, b, c, d in self.ends[edges])

    def roads(self) -> str:
        """All edges in sight as the `d` of one path; both directions of a road are drawn once."""
        _, once = np.unique(self._pairs, axis=0, return_index=True)
        return self.path(np.sort(once[self.visible[once]]))


def panels_of(drawn: RouteMap) -> list[Panel]:
    """The best paths, then one panel for each agent."""
    best = int(np.count_nonzero(drawn.optimal))
    panels = [Panel(None, "Optimal paths", f"over the day; {best:,} edges", drawn.optimal)]
    for drive in drawn.drives:
        edges = np.count_nonzero(drive.times)
        seeds = f"{drive.seeds} seed{'s' * (drive.seeds > 1)}"
        told = f"{drive.rounds:,} rounds, {seeds}; {edges:,} edges, regret {drive.regret:,.0f} s"
        panels.append(Panel(drive.agent, drive.agent, told, drive.shares))
    return panels


def map_svg(drawn: RouteMap) -> str:
    """The whole figure as one SVG, for a file."""
    view, panels = View(drawn), panels_of(drawn)
    columns = min(COLUMNS, len(panels))
    rows = -(-len(panels) // columns)
    step_x, step_y = PANEL + GAP, view.height + CAPTION + GAP
    width, height = columns * step_x + GAP, rows * step_y + 96.0
    parts = [
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{width:g}' height='{height:g}' "
        f"viewBox='0 0 {width:g} {height:g}'>",
        f"<rect width='{width:g}' height='{height:g}' fill='white'/>",
        f"<defs><clipPath id='frame'><rect width='{PANEL:g}' height='{view.height:g}'/></clipPath>",
        f"<path id='roads' d='{view.roads()}'/></defs>",
        f"<text x='{GAP:g}' y='30' {_FONT} font-size='17' font-weight='bold'>"
        f"{escape(drawn.name)}: roads driven from A to B</text>",
    ]
    for place, panel in enumerate(panels):
        x, y = GAP + (place % columns) * step_x, 48.0 + (place // columns) * step_y
        parts.append(f"<g transform='translate({x:g} {y:g})'>{_captioned(panel)}")
        parts.append(f"<g transform='translate(0 {CAPTION:g})' clip-path='url(#frame)'>")
        parts.append(f"{panel_content(drawn, view, panel.shares, roads='roads')}</g></g>")
    parts.append(f"<g transform='translate({GAP:g} {height - 30:g})'>{_key()}</g></svg>")
    return "".join(parts)


def panel_content(drawn: RouteMap, view: View, shares: Floats, *, roads: str) -> str:
    """What one panel holds: the roads (the path of this id) in grey, driven ones in red, and both ends."""
    frame = f"<rect width='{PANEL:g}' height='{view.height:g}' fill='#fcfcfc'/>"
    parts = [frame, f"<use href='#{roads}' fill='none' stroke='#d2d4d8' stroke-width='0.6'/>"]
    least = 0.0
    for most, colour, width in LEVELS:
        edges = np.flatnonzero((shares > least) & (shares <= most + 1e-9))
        least = most + 1e-9
        if len(edges):
            parts.append(
                f"<path d='{view.path(edges)}' fill='none' stroke='{colour}' stroke-width='{width}' "
                "stroke-linecap='round'/>"
            )
    network = drawn.problem.network
    ends = (("A", drawn.problem.start), ("B", drawn.problem.end))
    parts += [_mark(letter, *view.points[network.node(name)]) for letter, name in ends]
    return "".join(parts)


def _mark(letter: str, x: float, y: float) -> str:
    return (
        f"<circle cx='{x:g}' cy='{y:g}' r='8' fill='#12508f' stroke='white' stroke-width='1.5'/>"
        f"<text x='{x:g}' y='{y + 3.8:g}' {_FONT} font-size='11' font-weight='bold' fill='white' "
        f"text-anchor='middle'>{letter}</text>"
    )


def _captioned(panel: Panel) -> str:
    return (
        f"<text y='15' {_FONT} font-size='14' font-weight='bold'>{escape(panel.title)}</text>"
        f"<text y='32' {_FONT} font-size='11.5' fill='#555'>{escape(panel.told)}</text>"
    )


def _key() -> str:
    """The legend of colours as a row of strokes with their shares."""
    parts = [f"<text y='4' {_FONT} font-size='12'>share of rounds in which an edge was driven, up to</text>"]
    for place, (most, colour, width) in enumerate(LEVELS):
        x = 330 + place * 88
        parts.append(f"<path d='M{x} 0h30' stroke='{colour}' stroke-width='{width * 1.5:g}'/>")
        parts.append(f"<text x='{x + 36}' y='4' {_FONT} font-size='12'>{_percent(most)}</text>")
    return "".join(parts)


def _percent(share: float) -> str:
    return f"{100 * share:g} %"


def page_map(drawn: RouteMap, place: int) -> str:
    """The maps of one problem for the page; `hover_data` tells the script what lies under the pointer."""
    view, roads = View(drawn), f"roads-{place}"
    box = f"viewBox='0 0 {PANEL:g} {view.height:g}'"
    figures = []
    for number, panel in enumerate(panels_of(drawn)):
        owner = "" if panel.agent is None else f' data-map-agent="{escape(panel.agent, quote=True)}"'
        lines = "".join(f"<small>{escape(line)}</small>" for line in panel.told.split("; "))
        content = panel_content(drawn, view, panel.shares, roads=roads)
        figures.append(
            f"<figure class='map'{owner}><figcaption><b>{escape(panel.title)}</b>"
            f"{lines}</figcaption>"
            f"<svg {box} data-map='{place}' data-panel='{number}' role='img' "
            f'aria-label="{escape(panel.title, quote=True)}: {escape(panel.told, quote=True)}">'
            f"{content}<path class='pointed'/></svg></figure>"
        )
    shared = (
        f"<svg class='shared' aria-hidden='true'><defs><path id='{roads}' d='{view.roads()}'/></defs></svg>"
    )
    return f"<h3>{escape(drawn.name)}</h3>{shared}<div class='maps'>{''.join(figures)}</div>"


def page_key() -> str:
    """The legend of colours for the page."""
    return f"<svg class='key' viewBox='-4 -10 960 20' role='img' aria-label='Legend'>{_key()}</svg>"


def hover_data(drawn: RouteMap) -> dict[str, object]:
    """What the page's script needs: the edges that somebody drove, and who drove them how often.

    edges: [x, y, x, y, name, speed limit in km/h, expected seconds]; panels: [edge, times, estimated seconds or null]
    for each panel, where the edge is a place in `edges`; in the first the times are percent of the day.
    """
    view, network = View(drawn), drawn.problem.network
    driven = np.flatnonzero(np.any([drawn.optimal, *(drive.times for drive in drawn.drives)], axis=0))
    places = {int(edge): place for place, edge in enumerate(driven)}
    edges = [
        [
            *view.ends[edge].tolist(),
            network.edge_names[edge],
            round(float(network.speed_limits[edge]) * 3.6),
            round(float(drawn.expected[edge]), 1),
        ]
        for edge in driven
    ]
    best: list[list[float | None]] = [
        [places[int(e)], round(100 * float(drawn.optimal[e])), None] for e in np.flatnonzero(drawn.optimal)
    ]
    panels = [best]
    for drive in drawn.drives:
        guess = drive.estimates
        panels.append(
            [
                [places[int(e)], int(drive.times[e]), None if guess is None else round(float(guess[e]), 1)]
                for e in np.flatnonzero(drive.times)
            ]
        )
    return {"edges": edges, "panels": panels}


def hover_json(maps: list[RouteMap]) -> str:
    """All maps' `hover_data` as JSON that may stand inside a script element."""
    text = json.dumps([hover_data(drawn) for drawn in maps], separators=(",", ":"), ensure_ascii=False)
    return text.replace("<", "\\u003c")
