"""Two drivers who learn nothing, to measure agents by: one drives by speed limits, one knows the day's means."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from treebandit.core import Floats, Indices
from treebandit.environments.navigation import Navigation
from treebandit.environments.travel_times import DAY

#: Travel times are looked up every ten minutes of the day.
TIMES_OF_DAY = 144


@dataclass(frozen=True, eq=False)
class FixedRoute:
    """A route that is driven whatever the time of day; regret: expected seconds a round lost to the best paths."""

    name: str
    edges: Indices
    regret: float


def fixed_routes(problem: Navigation) -> tuple[FixedRoute, FixedRoute]:
    """The free-flow route (length / speed limit of every edge) and the best of all fixed routes.

    The expected time of a path is the sum of its edges', so the path that is shortest by the edges' means over the day
    is the best fixed route. No agent knows it at the start; one that explores without using the time of day can at best
    come down to it.
    """
    expected = expected_over_the_day(problem)
    best = np.mean([day[problem.path(day)].sum() for day in expected])
    mean, network = expected.mean(axis=0), problem.network
    routes = {
        "free-flow route": problem.path(network.lengths / network.speed_limits),
        "best fixed route": problem.path(mean),
    }
    free, fixed = (FixedRoute(name, edges, float(mean[edges].sum() - best)) for name, edges in routes.items())
    return free, fixed


def expected_over_the_day(problem: Navigation) -> Floats:
    """Expected seconds of every edge every ten minutes, (144, m)."""
    return np.array([problem.expected_times(place * DAY / TIMES_OF_DAY) for place in range(TIMES_OF_DAY)])
