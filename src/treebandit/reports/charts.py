"""What all charts share, in Altair: data, colours, legends, axes and the frame of a panel."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Any

import altair as alt
import polars as pl

from treebandit.reports.palette import Look

PANEL_WIDTH = 400
PANEL_HEIGHT = 280
COLUMNS = 2
#: Letters in a line of a panel's title, and below it.
TITLE_LENGTH, LINE_LENGTH = 42, 56
#: Beyond this ratio of the greatest to the least regret a linear axis flattens all but the worst.
LOG_RATIO = 20.0


@dataclass(frozen=True, eq=False)
class Figure:
    """Panels that belong together: a file of their own, or a section of the page.

    name: of the file, and the start of the panels' ids on the page. text: shown on the page below the title.
    agents: the agent of each panel, where panels belong to agents.
    varied: the parameter that the figure varies. columns: how many panels the file has in a row.
    """

    name: str
    title: str
    text: str
    panels: list[Any]
    agents: tuple[str | None, ...] = ()
    varied: str | None = None
    columns: int = COLUMNS

    def chart(self) -> Any:
        """All panels side by side, for a file."""
        heading = alt.Title(self.title, anchor="start", fontSize=17)
        whole = alt.concat(*self.panels, columns=self.columns, spacing=28).properties(title=heading)
        whole = whole.resolve_scale(color="independent", strokeDash="independent")
        return themed(whole.configure(font="sans-serif", background="white", padding=12))


@dataclass(frozen=True)
class Style:
    """How the charts of one report are drawn.

    looks: of all its agents. units: of the regret on each problem. page: whether charts fill their container
    and follow the page's legend through the signals `hidden` (agents not drawn) and `focus` (the one that
    stands out, or ""); in files they have a fixed width and a legend of their own.
    """

    looks: Mapping[str, Look]
    units: Mapping[str, str]
    page: bool = False

    def chart(self, frame: pl.DataFrame, agents: Sequence[str] = ()) -> Any:
        """A chart of a frame with a column `agent`, without those hidden; `agents` colours it by them."""
        chart = alt.Chart(inline(frame))
        if self.page:
            chart = chart.transform_filter("indexof(hidden, datum.agent) < 0")
        return chart.encode(color=self.colours(agents)) if agents else chart

    def colours(self, agents: Sequence[str], *, legend: Any = None) -> Any:
        """One colour for each agent."""
        scale = alt.Scale(domain=list(agents), range=[self.looks[agent].colour for agent in agents])
        return alt.Color("agent:N", title=None, scale=scale, legend=legend)

    def lines(self, agents: Sequence[str], *, legend: bool) -> dict[str, Any]:
        """Colour and dashes for each agent, with one legend for both."""
        key = None
        if legend:
            key = alt.Legend(
                symbolType="stroke", symbolStrokeWidth=2.2, symbolSize=900, symbolOpacity=1, labelLimit=220,
                rowPadding=4,
            )  # fmt: skip
        dashes = [list(self.looks[agent].dashes) or [1, 0] for agent in agents]
        scale = alt.Scale(domain=list(agents), range=dashes)
        dash = alt.StrokeDash("agent:N", title=None, scale=scale, legend=key)
        return {"color": self.colours(agents, legend=key), "strokeDash": dash}

    def opacity(self, strength: float) -> Any:
        """So strong, unless another agent stands out."""
        if not self.page:
            return alt.value(strength)
        shown = "focus == '' || focus == datum.agent"
        return alt.condition(shown, alt.value(strength), alt.value(0.12 * strength))

    def regret(self, frame: pl.DataFrame, environment: str, *, mean: str, least: str) -> tuple[Any, str]:
        """Scale and title of a final regret's axis: a log scale where the worst mean is far from the best.

        mean, least: columns of the means, and of the least that is drawn.
        """
        low, high = frame.select(pl.col(mean).min(), pl.col(mean).max().alias("high")).row(0)
        log = bool(frame.select((pl.col(least) > 0).all()).item() and high > LOG_RATIO * low)
        scale = alt.Scale(type="log", nice=False, padding=8) if log else alt.Scale(zero=False, padding=8)
        return scale, f"final regret ({self.units[environment]}{', log scale' * log})"

    def panel(
        self, chart: Any, title: str, *, height: float = PANEL_HEIGHT, width: float | None = None,
        notes: Iterable[str] = (),
    ) -> Any:  # fmt: skip
        """The finished panel, ready to stand beside others or, on the page, alone."""
        # A chart that fills its container shrinks to nothing below a line that is wider.
        below = [line for note in notes for line in wrap(note, LINE_LENGTH)]
        heading = alt.Title(wrap(title, TITLE_LENGTH), subtitle=below or alt.Undefined, anchor="start")
        chart = chart.resolve_legend(color="independent", strokeDash="independent").properties(
            width=width or ("container" if self.page else PANEL_WIDTH), height=height, title=heading
        )
        if not self.page:
            return chart
        chart = chart.add_params(alt.param(name="hidden", value=[]), alt.param(name="focus", value=""))
        return on_page(chart, fill=width is None)


def inline(frame: pl.DataFrame) -> Any:
    """A frame as data inside a chart: CSV, which is a third of the size of JSON."""
    return alt.InlineData(
        values=frame.write_csv(quote_style="non_numeric"), format=alt.DataFormat(type="csv")
    )


def agent_rows(agents: Sequence[str], *, grid: bool = False) -> Any:
    """A row for each agent."""
    axis = alt.Axis(labelLimit=200, grid=grid, ticks=False)
    return alt.Y("agent:N", sort=list(agents), title=None, axis=axis)


def tooltip(*names: str, **numbers: str) -> list[Any]:
    """What the pointer shows: columns of text, then of numbers with their titles."""
    texts = [alt.Tooltip(f"{name}:N") for name in names]
    return texts + [
        alt.Tooltip(f"{field}:Q", title=title, format=",.4~g") for field, title in numbers.items()
    ]


def on_page(chart: Any, *, fill: bool = True) -> Any:
    """The chart as it stands on a page; `fill`, as wide as its container."""
    size = {"autosize": alt.AutoSizeParams(type="fit-x", contains="padding")} if fill else {}
    # The last label of an axis is wider than the chart.
    size["padding"] = {"left": 5, "right": 18, "top": 5, "bottom": 5}
    return themed(chart.configure(font="system-ui, sans-serif", background="transparent", **size))


def themed(chart: Any) -> Any:
    """The chart with the colours and sizes of axes, legends and titles that all charts have."""
    line = {"gridColor": "#e3e3e3", "domainColor": "#999999", "tickColor": "#999999"}
    text = {
        "labelFontSize": 11, "titleFontSize": 12, "titleFontWeight": "normal", "titlePadding": 8, "labelPadding": 5,
    }  # fmt: skip
    return (
        chart.configure_view(stroke=None)
        .configure_axis(**line, **text)
        .configure_legend(labelFontSize=12)
        .configure_title(fontSize=13, fontWeight=600, offset=10)
    )
