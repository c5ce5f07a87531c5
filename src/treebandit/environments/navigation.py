"""A road network as a combinatorial bandit: choose a path, pay the travel time of every edge on it."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path

import numpy as np

from treebandit.core import Candidates, Columns, Features, Floats, Indices, Outcome, Round
from treebandit.datasets.roads import RoadNetwork, read_roads, roads_checksum, roads_folder
from treebandit.environments.rounds import OneRoundAtATime
from treebandit.environments.travel_times import DAY, TravelTimes, interval_means
from treebandit.errors import ChoiceError, NoFeasibleChoiceError, ParameterError, RoadsError
from treebandit.oracles import ShortestPath
from treebandit.parameters import check_choice, check_number, check_seed, check_text

#: Start and end nodes of the two problem instances on the Luxembourg road network.
INSTANCES = {"navigation-1": ("-17512", "-25018"), "navigation-2": ("-22296", "-1466")}

#: The time of day, in seconds, for which agents estimate all edges at the end of a run: 8 h.
FINAL_TIME = 8 * 3600.0
#: What travel times are estimated from.
TRAVERSALS = ("single", "interval means")
#: The paper's context vector of an edge; lengths in metres, speed in m/s, time of day in seconds.
NAMES = ("x", "y", "z", "x_end", "y_end", "z_end", "dx", "dy", "dz", "speed_limit", "stop", "time")


@dataclass(eq=False)
class Navigation(OneRoundAtATime):
    """A driver goes from `start` to `end` again and again, at a random time of day each round (section 4.3).

    Candidates are the edges of the strongly connected part, arms their places in `network`; the oracle is the
    shortest path. A reward is the negative time that an edge took, the regret is the expected time of the
    chosen path less that of the best path at that time of day. In round t of one seed an edge takes the same time,
    whoever drives it.

    start, end: nodes of the road network.
    roads: a folder or `small-town`; without it the folder that TREEBANDIT_ROADS names; or a network.
    sha256: what the folder's `roads_checksum` must be; studies set it, so that runs on other roads are other runs.
    closures: for an edge's name the first and the last round, counted from 1, in which it is closed; a path must stay.
    noise: how much of a drive's deviation from the expected time is seen: 1, all of it; 0, the expected time itself.
    traversals: "single", travel times follow every recorded traversal; "interval means", the mean of those of an edge
        in each interval of the day.
    interval: minutes of such an interval.
    seed: of times of day, travel times and ties.

    >>> from treebandit import Uniform, play_round
    >>> from treebandit.environments import Navigation
    >>> environment = Navigation("B2", "K3", roads="small-town", seed=0)
    >>> choice, outcome = play_round(Uniform(seed=0), environment)
    >>> outcome.regret >= 0
    True
    """

    unit = "s"

    start: str
    end: str
    roads: str | RoadNetwork | None = field(default=None, kw_only=True)
    sha256: str | None = field(default=None, kw_only=True)
    closures: Mapping[str, Sequence[int]] = field(default_factory=dict, kw_only=True)
    noise: float = field(default=1.0, kw_only=True)
    traversals: str = field(default="single", kw_only=True)
    interval: float = field(default=60.0, kw_only=True)
    seed: int | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        check_text("start", self.start)
        check_text("end", self.end)
        check_text("sha256", self.sha256, optional=True)
        check_seed(self.seed)
        check_number("noise", self.noise, least=0, most=1)
        check_choice("traversals", self.traversals, TRAVERSALS)
        check_number("interval", self.interval, least=1, most=24 * 60)
        interval = 60.0 * self.interval if self.traversals == "interval means" else None
        self.network, self.travel_times = _opened(self.roads, interval)
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
        for number in sorted({first for first, _ in self._closures.values()}):
            self._check_path(number)
        self._round, self._time = 0, 0.0

    @classmethod
    def instance(cls, name: str, *, roads: str | None = None, seed: int | None = None) -> Navigation:
        """One of INSTANCES on the Luxembourg road network."""
        check_choice("name", name, INSTANCES)
        return cls(*INSTANCES[name], roads=roads, seed=seed)

    @property
    def time(self) -> float:
        """Time of day of the round observed last, in seconds."""
        return self._time

    def _next_round(self) -> Round:
        """Contexts (m, 12) of the open edges; only the last column, the time, changes from round to round."""
        self._round += 1
        self._time = float(self._random.uniform(0.0, DAY))
        # Drawn for all edges, whichever are driven, so that all agents of one seed have the same times.
        self._which, self._noise = self._random.random((2, len(self.network)))
        self._open, self._oracle = self._open_in(self._round), self._all_open
        if len(self._open) < len(self._arms):
            self._oracle = partial(self._path.among(self._open), **self._all_open.keywords)
        contexts = self._contexts[self._open]
        contexts[:, -1] = self._time
        return Round(Candidates(contexts, self._open, self.columns), self._oracle)

    def _outcome(self, rows: Indices) -> Outcome:
        """Minus the seconds that each chosen edge took, in the order of `rows`, and the path's regret."""
        edges = self._driven(rows)
        expected = self.travel_times.expected(self._time)
        best = self._open[self._oracle(-expected[self._open], random=None)]
        seconds = self.travel_times.sample(
            edges, self._time, which=self._which[edges], noise=self._noise[edges]
        )
        if self.noise != 1:
            seconds = expected[edges] + self.noise * (seconds - expected[edges])
        return Outcome(-seconds, max(0.0, float(expected[edges].sum() - expected[best].sum())))

    def expected_times(self, time: float | None = None) -> Floats:
        """Expected seconds of every edge, (m,), at a time of day in seconds; without it, at the round's."""
        check_number("time", time, optional=True)
        return self.travel_times.expected(self._time if time is None else time % DAY)

    def final_candidates(self) -> Candidates:
        """All edges at FINAL_TIME: what a run asks its agent to estimate in the end."""
        contexts = self._contexts.copy()
        contexts[:, -1] = FINAL_TIME
        return Candidates(contexts, self._arms, self.columns)

    def best_path(self, time: float | None = None) -> Indices:
        """Edges of the path of least expected time with all roads open, in driving order."""
        return self.path(self.expected_times(time))

    def path(self, seconds: Floats) -> Indices:
        """Edges of the shortest path with all roads open where the edges take so many seconds, (m,)."""
        return self._path(-np.asarray(seconds, np.float64))

    def _open_in(self, number: int) -> Indices:
        """The edges that are open in a round."""
        closed = [e for e, (first, last) in self._closures.items() if first <= number <= last]
        return np.delete(self._arms, closed) if closed else self._arms

    def _check_path(self, number: int) -> None:
        """Raise where closures leave no path in a round."""
        opened = self._open_in(number)
        try:
            self._path.among(opened)(np.zeros(len(opened)))
        except NoFeasibleChoiceError as error:
            raise ParameterError(f"closures: in round {number} {error}") from error

    def _driven(self, rows: Indices) -> Indices:
        """The edges in the chosen rows, which must form a path."""
        edges = self._open[rows]
        nodes = np.append(self.network.starts[edges], self._target)
        if nodes[0] != self._source or np.any(nodes[1:] != self.network.ends[edges]):
            raise ChoiceError(
                f"the {len(edges)} chosen edges are no path from {self.start!r} to {self.end!r}; "
                "choose rows in driving order, as the round's oracle gives them"
            )
        return edges


def edge_contexts(network: RoadNetwork) -> Features:
    """The paper's 12 variables of every edge, (m, 12), with the time left at 0."""
    tail, head = network.positions[network.starts], network.positions[network.ends]
    rest = np.column_stack([network.speed_limits, network.stops, np.zeros(len(network))])
    return np.hstack([tail, head, np.abs(tail - head), rest]).astype(np.float32)


def _opened(roads: str | RoadNetwork | None, interval: float | None) -> tuple[RoadNetwork, TravelTimes]:
    if isinstance(roads, RoadNetwork):
        return roads, _travel_times(roads, interval)
    folder = roads_folder(roads)
    stamp = tuple(sorted((f.name, f.stat().st_mtime_ns) for f in folder.iterdir()))
    return _read_once(folder, stamp, interval)


@lru_cache(maxsize=2)
def _read_once(
    folder: Path, stamp: tuple[tuple[str, int], ...], interval: float | None
) -> tuple[RoadNetwork, TravelTimes]:
    """A road network and its travel times, read again only when a file of the folder has changed."""
    network = read_roads(folder)
    return network, _travel_times(network, interval)


def _travel_times(network: RoadNetwork, interval: float | None) -> TravelTimes:
    return TravelTimes(network if interval is None else interval_means(network, interval))


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
    if not isinstance(closures, Mapping):
        raise ParameterError(f"closures is {reprlib.repr(closures)}; give a table of edge name and rounds")
    checked = {}
    for name, rounds in closures.items():
        whole = isinstance(rounds, Sequence) and all(
            type(t) is int or isinstance(t, np.integer) for t in rounds
        )
        if not whole or len(rounds) != 2 or not 1 <= rounds[0] <= rounds[1]:
            raise ParameterError(
                f"closures[{name!r}] is {reprlib.repr(rounds)}; give the first and the last closed round, from 1 on"
            )
        checked[network.edge(name)] = (int(rounds[0]), int(rounds[1]))
    return checked
