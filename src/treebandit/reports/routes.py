"""The numbers behind the maps: how often each agent drove each edge of a road network."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from treebandit.core import Floats
from treebandit.environments.fixed_routes import FixedRoute, expected_over_the_day, fixed_routes
from treebandit.environments.navigation import FINAL_TIME, Navigation
from treebandit.errors import RoadsError, TreebanditError
from treebandit.experiments.build import build_environment
from treebandit.experiments.records import read_record, record_path
from treebandit.reports.palette import in_order
from treebandit.reports.summary import Results

#: A folder with more problems than this is mapped for the first of them only.
MOST_MAPS = 4


@dataclass(frozen=True, eq=False)
class Drive:
    """One agent on one map: how often it drove each edge, (m,), over all its seeds.

    estimates: seconds that it believed each edge to take at FINAL_TIME, (m,), mean over the seeds; None where
    its records hold none. regret: mean of the final regret.
    """

    agent: str
    rounds: int
    seeds: int
    times: Floats
    estimates: Floats | None
    regret: float

    @property
    def shares(self) -> Floats:
        """The share of all rounds in which each edge was driven, (m,)."""
        return self.times / (self.rounds * self.seeds)


@dataclass(frozen=True, eq=False)
class RouteMap:
    """A navigation problem with all its agents.

    drives: over all seeds of each agent; one_run: of one seed, the least that most agents have played.
    optimal: the share of the day for which each edge lies on the best path, (m,). expected: seconds at FINAL_TIME.
    """

    name: str
    problem: Navigation
    optimal: Floats
    expected: Floats
    drives: tuple[Drive, ...]
    one_run: tuple[Drive, ...] = ()
    seed: int = 0


def reference_routes(results: Results) -> dict[str, tuple[FixedRoute, ...]]:
    """For each navigation problem of a folder, the fixed routes that its agents may be measured by.

    A problem whose road network is not there has none; `route_maps` says why.
    """
    found: dict[str, tuple[FixedRoute, ...]] = {}
    for name, runs in _problems(results.runs):
        with suppress(TreebanditError):
            found[name] = fixed_routes(_problem(runs))
    return found


def route_maps(results: Results) -> tuple[list[RouteMap], list[str]]:
    """A map for each navigation problem of a folder, and sentences on those that could not be drawn."""
    groups = dict(_problems(results.runs))
    maps: list[RouteMap] = []
    failed: dict[str, str] = {}
    for name, runs in groups.items():
        if len(maps) == MOST_MAPS:
            break
        try:
            maps.append(_route_map(results, name, runs))
        except TreebanditError as error:
            failed.setdefault(str(error), name)
    sentences = [f"No map of {name}: {reason}." for reason, name in failed.items()]
    if len(maps) == MOST_MAPS < len(groups):
        sentences.append(f"Maps are drawn of the first {MOST_MAPS} of {len(groups)} problems.")
    return maps, sentences


def _problems(runs: pl.DataFrame) -> Iterator[tuple[str, pl.DataFrame]]:
    """The runs of each navigation problem by its name, none of them varied."""
    plain = runs.filter(pl.col("varied").is_null())
    for (name,), group in plain.group_by("environment", maintain_order=True):
        if _table(group).get("class") == Navigation.__name__:
            yield str(name), group


def _table(runs: pl.DataFrame) -> Any:
    return json.loads(runs["spec"][0])["environment"]


def _route_map(results: Results, name: str, runs: pl.DataFrame) -> RouteMap:
    problem = _problem(runs)
    optimal = np.zeros(len(problem.network))
    expected = expected_over_the_day(problem)
    for seconds in expected:
        optimal[problem.path(seconds)] += 1.0 / len(expected)
    agents_of = runs.group_by("seed").agg(pl.col("agent").n_unique())
    seed = int(agents_of.sort("agent", "seed", descending=[True, False])["seed"][0])
    drives, one_run = (
        tuple(_drive(results, agent, some, len(optimal)) for agent in in_order(some["agent"]))
        for some in (runs, runs.filter(pl.col("seed") == seed))
    )
    return RouteMap(name, problem, optimal, problem.expected_times(FINAL_TIME), drives, one_run, seed)


def _problem(runs: pl.DataFrame) -> Navigation:
    problem = build_environment(_table(runs), seed=0, delayed=False, foreign=True)
    assert isinstance(problem, Navigation)
    return problem


def _drive(results: Results, agent: str, runs: pl.DataFrame, edges: int) -> Drive:
    """The agent's runs of the greatest number of rounds, added up."""
    own = runs.filter(pl.col("agent") == agent)
    own = own.filter(pl.col("rounds") == own["rounds"].max())
    times, estimates = np.zeros(edges), []
    for run_id in own["run_id"]:
        record = read_record(record_path(results.folder, run_id))
        driven = record.frame["arms"].explode().drop_nulls().to_numpy()
        if len(unknown := driven[(driven < 0) | (driven >= edges)]):
            raise RoadsError(
                f"run {run_id} drove on edge {unknown[0]}, but this road network has {edges}; "
                "point TREEBANDIT_ROADS or --roads to the one that the run was played on"
            )
        times += np.bincount(driven, minlength=edges)
        if record.estimates is not None and len(record.estimates) == edges:
            estimates.append(-record.estimates)
    mean = np.mean(estimates, axis=0) if estimates else None
    regret = float(own.select(pl.col("final_regret").mean()).item())
    return Drive(agent, int(own["rounds"][0]), own.height, times, mean, regret)
