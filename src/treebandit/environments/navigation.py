"""A road network as a combinatorial bandit: choose a path, pay the travel time of every edge on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path

import numpy as np

from treebandit.core import Candidates, Columns, Features, Floats, Indices, Outcome, Round
from treebandit.datasets.roads import RoadNetwork, read_roads, roads_checksum, roads_folder
from treebandit.environments.travel_times import DAY, TravelTimes
from treebandit.errors import InputError, ParameterError, RoadsError
from treebandit.oracles import ShortestPath

__all__ = ["FINAL_TIME", "INSTANCES", "Navigation"]

#: Start and end nodes of the two problem instances on the Luxembourg road network.
INSTANCES = {"navigation-1": ("-17512", "-25018"), "navigation-2": ("-22296", "-1466")}

#: The time of day, in seconds, for which agents estimate all edges at the end of a run: 8 h.
FINAL_TIME = 8 * 3600.0
#: The paper's context vector of an edge; lengths in metres, speed in m/s, time of day in seconds.
NAMES = ("x", "y", "z", "x_end", "y_end", "z_end", "dx", "dy", "dz", "speed_limit", "stop", "time")


@dataclass(eq=False)
class Navigation:
    """A driver goes from `start` to `end` again and again, at a random time of day each round (section 4.3).

    Candidates are the edges of the strongly connected part, arms their places in `network`; the oracle is the
    shortest path. A reward is the negative time that an edge took, the regret is the expected time of the
    chosen path less that of the best path at that time of day. Whoever drives an edge in round t of one seed
    meets the same time.

    roads: a folder or `small-town`; without it the folder that TREEBANDIT_ROADS names; or a network.
    sha256: what the folder's `roads_checksum` must be; studies set it, so that runs on other roads are other runs.
    closures: for an edge's name the first and the last round, counted from 1, in which it is closed.
    """

    start: str
    end: str
    roads: str | RoadNetwork | None = field(default=None, kw_only=True)
    sha256: str | None = field(default=None, kw_only=True)
    closures: Mapping[str, Sequence[int]] = field(default_factory=dict, kw_only=True)
    seed: int | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        self.network, self.travel_times = _opened(self.roads)
        _check_sum(self.roads, self.sha256)
        self.columns = Columns((0,) * len(NAMES), NAMES)
        self._source, self._target = self.network.node(self.start), self.network.node(self.end)
        names = np.array(self.network.node_names, dtype=object)
        self._path = ShortestPath(names[self.network.starts], names[self.network.ends], self.start, self.end)
        self._closures = _checked_closures(self.network, self.closures)
        self._contexts = edge_contexts(self.network)
        self._arms = np.arange(len(self.network), dtype=np.intp)
        self._arms.setflags(write=False)
        self._random = np.random.default_rng(self.seed)
        ties = np.random.default_rng(np.random.SeedSequence(self.seed).spawn(1)[0])
        self._all_open = self._oracle = partial(self._path, random=ties)
        self._round, self._time, self._pulled = 0, 0.0, True

    @classmethod
    def instance(cls, name: str, *, roads: str | None = None, seed: int | None = None) -> Navigation:
        """One of INSTANCES on the Luxembourg road network."""
        if name not in INSTANCES:
            raise ParameterError(f"no instance {name!r}; there are {', '.join(INSTANCES)}")
        return cls(*INSTANCES[name], roads=roads, seed=seed)

    @property
    def time(self) -> float:
        """Time of day of the round observed last, in seconds."""
        return self._time

    def observe(self) -> Round:
        """The next round: contexts (m, 12) of the open edges; only the last column, the time, changes."""
        if self._pulled:
            self._next_round()
        contexts = self._contexts[self._open] if self._closed else self._contexts.copy()
        contexts[:, -1] = self._time
        arms = self._open if self._closed else self._arms
        return Round(Candidates(contexts, arms, self.columns), self._oracle)

    def pull(self, choice: Indices) -> Outcome:
        """Minus the seconds that each chosen edge took, in the order of `choice`, and the path's regret."""
        if self._pulled:
            raise InputError("a choice without a round; call observe before every pull")
        edges = self._driven(np.asarray(choice))
        expected = self.travel_times.expected(self._time)
        best = self._open[self._oracle(-expected[self._open], random=None)]
        seconds = self.travel_times.sample(
            edges, self._time, which=self._which[edges], noise=self._noise[edges]
        )
        self._pulled = True
        return Outcome(-seconds, max(0.0, float(expected[edges].sum() - expected[best].sum())))

    def expected_times(self, time: float | None = None) -> Floats:
        """Expected seconds of every edge, (m,), at a time of day in seconds; without it, at the round's."""
        return self.travel_times.expected(self._time if time is None else time % DAY)

    def final_candidates(self) -> Candidates:
        """All edges at FINAL_TIME: what a run asks its agent to estimate in the end."""
        contexts = self._contexts.copy()
        contexts[:, -1] = FINAL_TIME
        return Candidates(contexts, self._arms, self.columns)

    def best_path(self, time: float | None = None) -> Indices:
        """Edges of the path of least expected time with all roads open, in driving order."""
        return self._path(-self.expected_times(time))

    def _next_round(self) -> None:
        self._round += 1
        self._pulled = False
        self._time = float(self._random.uniform(0.0, DAY))
        # Drawn for all edges, whichever are driven, so that all agents of one seed meet the same times.
        self._which, self._noise = self._random.random((2, len(self.network)))
        self._closed = [e for e, (first, last) in self._closures.items() if first <= self._round <= last]
        self._open = np.delete(self._arms, self._closed) if self._closed else self._arms
        self._oracle = self._all_open
        if self._closed:
            self._oracle = partial(self._path.among(self._open), **self._all_open.keywords)

    def _driven(self, choice: Indices) -> Indices:
        """The edges in the chosen rows, which must form a path."""
        if choice.ndim != 1 or not len(choice) or choice.dtype.kind not in "iu":
            raise InputError(f"choice {choice!r}; choose the rows of a path as the round's oracle does")
        if choice.min() < 0 or choice.max() >= len(self._open):
            raise InputError(f"choice {choice!r}; rows go from 0 to {len(self._open) - 1} in this round")
        edges = self._open[choice]
        starts, ends = self.network.starts[edges], self.network.ends[edges]
        if starts[0] != self._source or ends[-1] != self._target or np.any(starts[1:] != ends[:-1]):
            raise InputError(
                f"the {len(edges)} chosen edges are no path from {self.start!r} to {self.end!r}; "
                "choose rows in driving order, as the round's oracle gives them"
            )
        return edges


def edge_contexts(network: RoadNetwork) -> Features:
    """The paper's 12 variables of every edge, (m, 12), with the time left at 0."""
    tail, head = network.positions[network.starts], network.positions[network.ends]
    rest = np.column_stack([network.speed_limits, network.stops, np.zeros(len(network))])
    return np.hstack([tail, head, np.abs(tail - head), rest]).astype(np.float32)


def _opened(roads: str | RoadNetwork | None) -> tuple[RoadNetwork, TravelTimes]:
    if isinstance(roads, RoadNetwork):
        return roads, TravelTimes(roads)
    folder = roads_folder(roads)
    return _read_once(folder, tuple(sorted((f.name, f.stat().st_mtime_ns) for f in folder.iterdir())))


@lru_cache(maxsize=2)
def _read_once(folder: Path, stamp: tuple[tuple[str, int], ...]) -> tuple[RoadNetwork, TravelTimes]:
    """A road network and its travel times, read again only when a file of the folder has changed."""
    network = read_roads(folder)
    return network, TravelTimes(network)


def _check_sum(roads: str | RoadNetwork | None, sha256: str | None) -> None:
    if sha256 is None or isinstance(roads, RoadNetwork):
        return
    if (found := roads_checksum(roads)) != sha256:
        raise RoadsError(
            f"the road network in {str(roads_folder(roads))!r} has checksum {found[:12]}, expected {sha256[:12]}; "
            "point TREEBANDIT_ROADS or --roads to the folder that the study was read with"
        )


def _checked_closures(
    network: RoadNetwork, closures: Mapping[str, Sequence[int]]
) -> dict[int, tuple[int, int]]:
    checked = {}
    for name, rounds in closures.items():
        if len(rounds) != 2 or not 1 <= rounds[0] <= rounds[1]:
            raise ParameterError(
                f"closures[{name!r}] is {list(rounds)}; give the first and the last closed round, from 1 on"
            )
        checked[network.edge(name)] = (int(rounds[0]), int(rounds[1]))
    return checked
