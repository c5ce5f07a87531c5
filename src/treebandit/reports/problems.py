"""Regret problem by problem, for folders with many of them: a panel by agent and a panel by problem."""

from __future__ import annotations

from typing import Any

import altair as alt
import polars as pl

from treebandit.reports.charts import Figure, Style, agent_rows, tooltip
from treebandit.reports.palette import in_order

#: With fewer problems than this the other figures are enough.
LEAST_PROBLEMS = 6
_ROW = 17
_SHAPES = ("circle", "diamond", "triangle-up", "square")
_TEXT = (
    "Each dot is one problem, the mean of its seeds. Left the agents, where the bar is the mean over the problems "
    "of the most common kind (the same name but for the number); right the problems, the hardest last."
)


def problem_figures(runs: pl.DataFrame, style: Style) -> list[Figure]:
    """One figure; none where few problems are of one kind."""
    frame = by_problem(runs)
    if frame.filter("main")["environment"].n_unique() < LEAST_PROBLEMS:
        return []
    panels = [_by_agent(frame, style), _by_problem(frame, style)]
    return [Figure("regret-by-problem", "Final regret of each problem", _TEXT, panels)]


def by_problem(runs: pl.DataFrame) -> pl.DataFrame:
    """Mean final regret over the seeds: agent, environment, family, regret, seeds, main.

    family: the environment's name without the number at its end; main: whether it is the most common family.
    Only problems of the most common number of rounds are in it.
    """
    usual = runs.unique(["environment", "rounds"])["rounds"].mode(maintain_order=True).max()
    family = pl.col("environment").str.replace(r"[-_ ]*\d+$", "")
    frame = (
        runs.filter(pl.col("rounds") == usual)
        .group_by("agent", "environment")
        .agg(pl.col("final_regret").mean().alias("regret"), pl.len().alias("seeds"))
        .with_columns(pl.when(family == "").then("environment").otherwise(family).alias("family"))
        .sort("environment", "agent")
    )
    sizes = frame.unique("environment", maintain_order=True)["family"]
    return frame.with_columns((pl.col("family") == sizes.mode(maintain_order=True)[0]).alias("main"))


def _by_agent(frame: pl.DataFrame, style: Style) -> Any:
    agents, main = in_order(frame["agent"]), frame.filter("main")
    means = main.group_by("agent", maintain_order=True).agg(pl.col("regret").mean())
    rows, x = agent_rows(agents), _regret(frame, style)
    families = frame.unique("family").sort("main", "family", descending=[True, False])["family"].to_list()
    # Circles for the most common family; the other shapes take turns.
    others = [_SHAPES[1 + place % 3] for place in range(len(families) - 1)]
    shapes = alt.Shape(
        "family:N",
        title=None,
        scale=alt.Scale(domain=families, range=[_SHAPES[0], *others]),
        legend=alt.Legend(orient="top") if others else None,
    )
    dots = _dots(frame, agents, style).encode(y=rows, x=x, shape=shapes)
    bars = style.chart(means, agents).mark_tick(thickness=3, size=22).encode(y=rows, x=x)
    count, family = main["environment"].n_unique(), main["family"][0]
    title = f"by agent; bars: mean over the {count} problems named {family}"
    return style.panel(alt.layer(dots, bars), title, height=34 * len(agents))


def _by_problem(frame: pl.DataFrame, style: Style) -> Any:
    agents = in_order(frame["agent"])
    order = frame.group_by("environment", "main").agg(pl.col("regret").mean())
    order = order.sort("main", "regret", "environment")
    axis = alt.Axis(labelLimit=200, grid=True)
    rows = alt.Y("environment:N", sort=order["environment"].to_list(), title=None, axis=axis)
    key = None if style.page else alt.Legend(symbolType="circle", symbolOpacity=1)
    dots = _dots(frame, agents, style).encode(
        y=rows, x=_regret(frame, style), color=style.colours(agents, legend=key)
    )
    return style.panel(alt.layer(dots), "by problem", height=_ROW * order.height)


def _dots(frame: pl.DataFrame, agents: list[str], style: Style) -> Any:
    """One dot for each agent and problem."""
    shown = tooltip("agent", "environment", regret="final regret", seeds="seeds")
    dots = style.chart(frame, agents).mark_point(filled=True, size=45)
    return dots.encode(opacity=style.opacity(0.75), tooltip=shown)


def _regret(frame: pl.DataFrame, style: Style) -> Any:
    main = frame.filter("main")["environment"][0]
    scale, title = style.regret(frame, main, mean="regret", least="regret")
    return alt.X("regret:Q", title=title, scale=scale, axis=alt.Axis(tickCount=5, labelFlush=False))
