"""Regret problem by problem, for folders with many of them: two charts as Vega-Lite specs."""

from __future__ import annotations

import re
from typing import Any

import polars as pl

from treebandit.reports.frames import LOG_RATIO
from treebandit.reports.palette import in_order, look

#: With fewer problems than this the other figures say it all.
LEAST_PROBLEMS = 6
_ROW = 17
Spec = dict[str, Any]


def problem_specs(runs: pl.DataFrame, *, page: bool) -> list[tuple[str, int, Spec]]:
    """A panel with a row per agent and one with a row per problem, each as title, height and spec.

    Only problems of the most common number of rounds are shown; none where few of them are of one kind.
    """
    frame = by_problem(runs)
    if frame.filter("main")["environment"].n_unique() < LEAST_PROBLEMS:
        return []
    return [_agents_panel(frame, page=page), _problems_panel(frame, page=page)]


def by_problem(runs: pl.DataFrame) -> pl.DataFrame:
    """Mean final regret over the seeds: agent, environment, family, regret, seeds, main.

    family: the environment's name without the number at its end; main: whether it is the most common family.
    """
    usual = runs.unique(["environment", "rounds"])["rounds"].mode(maintain_order=True).max()
    family = pl.col("environment").map_elements(_family, return_dtype=pl.String)
    frame = (
        runs.filter(pl.col("rounds") == usual)
        .group_by("agent", "environment")
        .agg(pl.col("final_regret").mean().alias("regret"), pl.len().alias("seeds"))
        .with_columns(family.alias("family"))
        .sort("environment", "agent")
    )
    sizes = frame.unique("environment", maintain_order=True)["family"]
    return frame.with_columns((pl.col("family") == sizes.mode(maintain_order=True)[0]).alias("main"))


def _family(environment: str) -> str:
    return re.sub(r"[-_ ]*\d+$", "", environment) or environment


def _agents_panel(frame: pl.DataFrame, *, page: bool) -> tuple[str, int, Spec]:
    agents = in_order(frame["agent"].to_list())
    rows = {"field": "agent", "type": "nominal", "sort": agents, "title": None, "axis": {"labelLimit": 200}}
    main = frame.filter("main")
    means = main.group_by("agent").agg(pl.col("regret").mean(), pl.len().alias("problems")).sort("agent")
    shown = _shown(frame, agents, page=page)
    points = shown | {
        "mark": {"type": "point", "filled": True, "size": 45},
        "encoding": shown["encoding"] | {"y": rows, "x": _regret_axis(frame), "shape": _shapes(frame)},
    }
    bars = {
        "data": {"values": means.to_dicts()},
        "mark": {"type": "tick", "thickness": 3, "size": 22},
        "encoding": {"y": rows, "x": _regret_axis(frame), "color": _colours(agents, legend=False)},
    } | _filtered(page)
    family, count = main["family"][0], main["environment"].n_unique()
    title = f"by agent; bars: mean over the {count} problems named {family}"
    return title, 34 * len(agents), {"layer": [points, bars]}


def _problems_panel(frame: pl.DataFrame, *, page: bool) -> tuple[str, int, Spec]:
    agents = in_order(frame["agent"].to_list())
    order = frame.group_by("environment", "main").agg(pl.col("regret").mean()).sort("main", "regret")
    rows = {
        "field": "environment",
        "type": "nominal",
        "sort": order["environment"].to_list(),
        "title": None,
        "axis": {"labelLimit": 200, "grid": True},
    }
    shown = _shown(frame, agents, page=page)
    colours = _colours(agents, legend=not page)
    encoding = shown["encoding"] | {"y": rows, "x": _regret_axis(frame), "color": colours}
    points = shown | {"mark": {"type": "point", "filled": True, "size": 45}, "encoding": encoding}
    return "by problem", _ROW * order.height, {"layer": [points]}


def _shown(frame: pl.DataFrame, agents: list[str], *, page: bool) -> Spec:
    """One dot for each agent and problem."""
    told = [
        {"field": name, "type": kind, "format": ",.4~g"}
        if kind == "quantitative"
        else {"field": name, "type": kind}
        for name, kind in (
            ("agent", "nominal"),
            ("environment", "nominal"),
            ("regret", "quantitative"),
            ("seeds", "quantitative"),
        )
    ]
    strength: Any = {"value": 0.75}
    if page:
        test = "focus == '' || focus == datum.agent"
        strength = {"condition": {"test": test, "value": 0.75}, "value": 0.1}
    encoding = {"color": _colours(agents, legend=False), "opacity": strength, "tooltip": told}
    return {"data": {"values": frame.to_dicts()}, "encoding": encoding} | _filtered(page)


def _filtered(page: bool) -> Spec:
    return {"transform": [{"filter": "indexof(hidden, datum.agent) < 0"}]} if page else {}


def _regret_axis(frame: pl.DataFrame) -> Spec:
    least, most = frame["regret"].min(), frame["regret"].max()
    assert isinstance(least, float)
    assert isinstance(most, float)
    log = 0 < LOG_RATIO * least < most
    scale = {"type": "log", "nice": False} if log else {"zero": False}
    title = "final regret (log scale)" if log else "final regret"
    return {
        "field": "regret",
        "type": "quantitative",
        "title": title,
        "scale": scale,
        "axis": {"tickCount": 5},
    }


def _colours(agents: list[str], *, legend: bool) -> Spec:
    scale = {"domain": agents, "range": [look(agent).colour for agent in agents]}
    key = {"symbolType": "circle", "symbolOpacity": 1} if legend else None
    return {"field": "agent", "type": "nominal", "title": None, "scale": scale, "legend": key}


def _shapes(frame: pl.DataFrame) -> Spec:
    """Dots for the most common kind of problem, diamonds for the others."""
    families = frame.unique("family").sort("main", "family", descending=[True, False])["family"].to_list()
    shapes = ["circle", *["diamond", "triangle-up", "square"] * len(families)][: len(families)]
    key = {"orient": "top"} if len(families) > 1 else None
    scale = {"domain": families, "range": shapes}
    return {"field": "family", "type": "nominal", "title": None, "scale": scale, "legend": key}
