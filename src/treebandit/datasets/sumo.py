"""Record a road network with SUMO: simulate a scenario and note how long each vehicle took on each edge."""

from __future__ import annotations

import gzip
import math
import os
import shutil
import subprocess
import sys
import tempfile
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any
from xml.etree import ElementTree

import numpy as np

from treebandit.core import Random
from treebandit.datasets.roads import refuse_existing, strongly_connected, write_roads
from treebandit.errors import MissingExtraError, ParameterError, RoadsError
from treebandit.parameters import check_number

#: What is going on, and how far it has come: seconds simulated, or vehicles read.
Progress = Callable[[str, float], None]
Traversal = tuple[str, float, float, bool]

DAY = 86400.0
#: An edge with fewer traversals than this also keeps those on which a trip began or ended.
FEW = 30


def record_roads(
    scenario: str | os.PathLike[str],
    into: str | os.PathLike[str],
    *,
    mesoscopic: bool = False,
    options: Sequence[str] = (),
    leave_out: Sequence[str] = ("bus",),
    per_hour: int = 13,
    seed: int = 0,
    progress: Progress | None = None,
) -> Path:
    """Simulate a SUMO scenario (.sumocfg) and write its network and traversals into the new folder `into`.

    mesoscopic: simulate queues rather than single cars, many times faster; else what the scenario says.
    options: further options for `sumo`, such as ("--end", "3600"); `leave_out`: vehicle types not recorded.
    At most `per_hour` traversals of an edge are kept in each hour of the day, a uniform sample of them.
    """
    config, folder = _path("scenario", scenario), _path("into", into)
    tell: Progress = progress or (lambda _what, _how_far: None)
    check_number("per_hour", per_hour, least=1, whole=True)
    check_number("seed", seed, least=0, most=2**31 - 1, whole=True)
    for name, words in (("options", options), ("leave_out", leave_out)):
        if isinstance(words, str) or not all(isinstance(word, str) for word in words):
            raise ParameterError(f"{name} is {words!r}; give a list of text")
    refuse_existing(folder)
    net_file = _net_file(config)
    nodes, edges = _tables(net_file)
    with tempfile.TemporaryDirectory(prefix="treebandit-sumo-") as scratch:
        routes = Path(scratch) / "routes.xml.gz"
        flags = ["--mesosim", "true"] if mesoscopic else []
        _simulate(config, routes, [*flags, "--seed", str(seed), *options], tell)
        sample = _Sample([edge["id"] for edge in edges], per_hour, np.random.default_rng(seed))
        for count, vehicle in enumerate(_vehicles(routes, leave_out), start=1):
            for traversal in vehicle:
                sample.add(*traversal)
            if count % 1000 == 0:
                tell("reading vehicles", count)
    return _write(folder, nodes, edges, sample)


def read_traversals(routes: str | os.PathLike[str], *, leave_out: Sequence[str] = ()) -> Iterator[Traversal]:
    """Stream (edge, second of entry, seconds on it, first or last of its trip) from vehroute output.

    The output, plain or .gz, must have exit times; an edge takes from the exit of the one before to its own.
    """
    for vehicle in _vehicles(_path("routes", routes), leave_out):
        yield from vehicle


def _path(name: str, given: str | os.PathLike[str]) -> Path:
    if not isinstance(given, str | os.PathLike) or not os.fspath(given):
        raise ParameterError(f"{name} is {given!r}; give the path of a file or folder")
    return Path(given)


def _vehicles(routes: Path, leave_out: Sequence[str]) -> Iterator[list[Traversal]]:
    open_file: Callable[[Path], Any] = gzip.open if routes.suffix == ".gz" else partial(open, mode="rb")
    try:
        with open_file(routes) as stream:
            root: ElementTree.Element | None = None
            for event, element in ElementTree.iterparse(stream, events=("start", "end")):
                if root is None:
                    root = element
                if event == "end" and element.tag == "vehicle":
                    if element.get("type", "").split("@")[0] not in leave_out:
                        yield _traversals(element)
                    root.clear()  # what was read is forgotten, so a day of traffic needs no more memory
    except (ElementTree.ParseError, OSError, EOFError, zlib.error, ValueError) as error:
        raise RoadsError(f"the vehicle routes {str(routes)!r} cannot be read: {error}") from error


def _traversals(vehicle: ElementTree.Element) -> list[Traversal]:
    driven = [route for route in vehicle.iter("route") if route.get("exitTimes")]
    if not driven:
        return []
    edges = driven[-1].get("edges", "").split()
    exits = [float(time) for time in driven[-1].get("exitTimes", "").split()]
    entries = [float(vehicle.get("depart", "nan")), *exits]
    last = len(edges) - 1
    return [
        (edge, entry, left - entry, place in (0, last))
        for place, (edge, entry, left) in enumerate(zip(edges, entries, exits, strict=False))
        if 0 <= entry <= left  # -1 marks an edge that was not left before the simulation ended
    ]


class _Sample:
    """At most `per_hour` traversals per edge and hour, all seen equally likely to be kept (a reservoir)."""

    def __init__(self, edges: Sequence[str], per_hour: int, random: Random) -> None:
        self._number = {edge: i for i, edge in enumerate(edges)}
        self._per_hour, self._random = per_hour, random
        #: Of each edge, hour and whether they are at an end of a trip: traversals kept, and how many were seen.
        self._kept: defaultdict[tuple[int, int, bool], list[tuple[float, float]]] = defaultdict(list)
        self._seen: Counter[tuple[int, int, bool]] = Counter()
        self.counts = np.zeros(len(edges), dtype=np.int64)

    def add(self, edge: str, entry: float, seconds: float, at_end: bool) -> None:
        number = self._number.get(edge)
        if number is None:
            return
        time = entry % DAY
        key = number, int(time // 3600), at_end
        self.counts[number] += not at_end
        self._seen[key] += 1
        kept = self._kept[key]
        if len(kept) < self._per_hour:
            kept.append((time, seconds))
        elif (place := int(self._random.integers(self._seen[key]))) < self._per_hour:
            kept[place] = (time, seconds)

    def rows(self) -> list[tuple[int, float, float]]:
        """All that is kept, by edge and time; first and last edges of trips only where others are few."""
        used = (item for item in self._kept.items() if not item[0][2] or self.counts[item[0][0]] < FEW)
        return sorted((edge, *row) for (edge, _, _), rows in used for row in rows)


def _net_file(config: Path) -> Path:
    """The network that a scenario names."""
    if not config.is_file():
        raise RoadsError(f"the scenario {str(config)!r} does not exist; name a .sumocfg file")
    try:
        entry = ElementTree.parse(config).getroot().find(".//net-file")
    except ElementTree.ParseError as error:
        raise RoadsError(f"the scenario {str(config)!r} is no SUMO configuration: {error}") from error
    value = "" if entry is None else entry.get("value", "")
    if not value:
        raise RoadsError(f"the scenario {str(config)!r} names no net-file")
    net = config.parent / value
    if not net.is_file():
        raise RoadsError(f"the scenario {str(config)!r} names the network {str(net)!r}, which does not exist")
    return net


def _simulate(config: Path, routes: Path, flags: Sequence[str], tell: Progress) -> None:
    """Run `sumo`, writing every vehicle's edges with their exit times to `routes`."""
    command = [
        str(find_sumo()),
        *("--configuration-file", str(config)),
        *("--vehroute-output", str(routes), "--vehroute-output.exit-times", "true"),
        *("--vehroute-output.last-route", "true", "--no-step-log", "false", "--step-log.period", "600"),
        *("--xml-validation", "never", *flags),
    ]
    with tempfile.TemporaryFile("w+", errors="replace") as complaints:
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=complaints, text=True) as sumo:
            try:
                for time in _step_times(sumo.stdout):
                    tell("simulating", time)
            except BaseException:
                sumo.kill()
                raise
        complaints.seek(0)
        said = [line for line in complaints.read().splitlines() if line and not line.startswith("Warning")]
    if sumo.returncode or not routes.is_file():
        last = " ".join(said[-3:]) or "it gave no reason"
        raise RoadsError(f"sumo failed with exit code {sumo.returncode} on {str(config)!r}: {last}")


def _step_times(output: IO[str] | None) -> Iterator[float]:
    """Seconds simulated so far, from the lines `Step #600.00 ...` that sumo prints."""
    for line in output or ():
        for part in line.split("Step #")[1:]:
            with suppress(ValueError, IndexError):
                yield float(part.split()[0])


def find_sumo() -> Path:
    """The SUMO program: of the `eclipse-sumo` package, of SUMO_HOME, or on the path."""
    homes = [os.environ.get("SUMO_HOME")]
    if find_spec("sumo") is not None:
        homes.insert(0, import_module("sumo").SUMO_HOME)
    for home in filter(None, homes):
        found = Path(home) / "bin" / ("sumo.exe" if sys.platform == "win32" else "sumo")
        if found.is_file():
            return found
    if on_path := shutil.which("sumo"):
        return Path(on_path)
    raise MissingExtraError("eclipse-sumo", "roads")


def _tables(net_file: Path) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Rows of the node table and of the edge table: all edges that cars may use."""
    try:
        from sumolib.net import readNet
    except ImportError:
        raise MissingExtraError("sumolib", "roads") from None
    try:
        net = readNet(str(net_file))
    except Exception as error:
        raise RoadsError(f"the network {str(net_file)!r} cannot be read: {error}") from error
    edges = [_edge_row(i, edge) for i, edge in enumerate(e for e in net.getEdges() if e.allows("passenger"))]
    if not edges:
        raise RoadsError(f"the network {str(net_file)!r} has no edge that cars may use")
    names = dict.fromkeys(name for edge in edges for name in (edge["from"], edge["to"]))
    nodes = [_node_row(net, net.getNode(name)) for name in names]
    _mark_connected(nodes, edges)
    return nodes, edges


def _node_row(net: Any, node: Any) -> dict[str, Any]:
    x, y, z = node.getCoord3D()
    lon, lat = math.nan, math.nan
    if net.hasGeoProj() and find_spec("pyproj") is not None:
        lon, lat = net.convertXY2LonLat(x, y)
    return {"node": node.getID(), "x": x, "y": y, "lon": lon, "lat": lat, "z": z}


def _edge_row(number: int, edge: Any) -> dict[str, Any]:
    control = _end_control(edge)
    return {
        "edge": number,
        "id": edge.getID(),
        "from": edge.getFromNode().getID(),
        "to": edge.getToNode().getID(),
        "length": edge.getLength(),
        "speed_limit": edge.getSpeed(),
        "lanes": edge.getLaneNumber(),
        "road_type": edge.getType(),
        "stop": int(control in ("tls", "yield")),
        "end_control": control,
    }


def _end_control(edge: Any) -> str:
    """What waits at the end: a signal, a road that goes first, the right of way, or no way on."""
    states = [link.getState() for links in edge.getOutgoing().values() for link in links]
    if not states:
        return "none"
    if edge.getToNode().getType().startswith("traffic_light"):
        return "tls"
    return "yield" if all(state in "msw" for state in states) else "priority"


def _mark_connected(nodes: list[dict[str, Any]], edges: list[dict[str, Any]]) -> None:
    number = {node["node"]: i for i, node in enumerate(nodes)}
    starts = np.array([number[edge["from"]] for edge in edges])
    ends = np.array([number[edge["to"]] for edge in edges])
    inside = strongly_connected(starts, ends, len(nodes))
    for node, within in zip(nodes, inside, strict=True):
        node["in_scc"] = int(within)
    for edge, within in zip(edges, inside[starts] & inside[ends], strict=True):
        edge["in_scc"] = int(within)


def _write(folder: Path, nodes: list[dict[str, Any]], edges: list[dict[str, Any]], sample: _Sample) -> Path:
    try:
        import polars as pl
    except ImportError:
        raise MissingExtraError("polars", "experiments") from None
    rows = sample.rows()
    if not rows:
        raise RoadsError("no vehicle drove on any edge of the network; check the scenario's demand and times")
    table = pl.DataFrame(rows, schema=["edge", "tod", "duration"], orient="row")
    traversals = table.select(pl.col("edge", "tod").cast(pl.Int32), pl.col("duration").cast(pl.Float32))
    edge_table = pl.DataFrame(edges).with_columns(n_traversals=pl.Series(sample.counts))
    return write_roads(folder, nodes=pl.DataFrame(nodes), edges=edge_table, traversals=traversals)
