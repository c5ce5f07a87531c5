"""A road network with recorded traversals: read from a folder, and written to one.

A folder holds `nodes.csv.gz`, `edges.csv.gz` and `traversals.parquet`; docs/navigation.md has the columns.
"""

from __future__ import annotations

import hashlib
import os
import reprlib
import shutil
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from treebandit.core import Floats, Indices, checked_rows
from treebandit.errors import MissingExtraError, RoadsError
from treebandit.parameters import check_number, check_seed

if TYPE_CHECKING:
    import polars as pl

#: Names the folder of the road network to use where none is given.
VARIABLE = "TREEBANDIT_ROADS"
#: The road network that comes with the package.
SHIPPED = "small-town"

#: What road networks that studies here were played on are, by checksum.
ABOUT = {
    "f63e1e074e5a3865481758d2ae04ffca76598cd2fbf8af25f94b87d09dca3ef1": (
        "The roads of Luxembourg are LuST's network rebuilt from its OpenStreetMap file; the demand is synthetic, the "
        "traffic a mesoscopic simulation with SUMO. The recording does not come with the package: "
        "`treebandit roads lust` makes one from the LuST scenario, with other traffic."
    )
}

_FILES = ("nodes.csv.gz", "edges.csv.gz", "traversals.parquet")
_NODES = {"node": "String", "x": "Float64", "y": "Float64", "z": "Float64", "in_scc": "Int8"}
_EDGES = {
    "edge": "Int64",
    "id": "String",
    "from": "String",
    "to": "String",
    "length": "Float64",
    "speed_limit": "Float64",
    "stop": "Int8",
    "in_scc": "Int8",
}
_TRAVERSALS = {"edge": "Int64", "tod": "Float32", "duration": "Float32"}


@dataclass(frozen=True, eq=False)
class RoadNetwork:
    """Nodes, directed edges and, edge by edge, the traversals that were recorded on them.

    node_names (n,), positions (n, 3): x, y, z in metres; lonlat (n, 2): degrees, NaN where unknown.
    edge_names (m,), starts, ends (m,): places in node_names; lengths (m,) in m, speed_limits (m,) in m/s,
    stops (m,): 1 where the edge ends at a signal or must yield, road_types (m,).
    Edge e was driven in rows offsets[e] to offsets[e + 1] of times (of day at entry, s) and durations (s).
    """

    node_names: tuple[str, ...]
    positions: Floats
    lonlat: Floats
    edge_names: tuple[str, ...]
    starts: Indices
    ends: Indices
    lengths: Floats
    speed_limits: Floats
    stops: NDArray[np.int8]
    road_types: tuple[str, ...]
    offsets: Indices
    times: NDArray[np.float32]
    durations: NDArray[np.float32]

    def __post_init__(self) -> None:
        _check_network(self)

    def __len__(self) -> int:
        return len(self.edge_names)

    def node(self, name: str) -> int:
        """The place of the node of this name."""
        return _place("node", name, self.node_names)

    def edge(self, name: str) -> int:
        """The place of the edge of this name."""
        return _place("edge", name, self.edge_names)

    def take(self, edges: Indices) -> RoadNetwork:
        """The network of these edges alone, in this order; all nodes stay."""
        edges = checked_rows(edges, len(self), what="edges")
        counts = np.diff(self.offsets)[edges]
        offsets = np.concatenate([[0], np.cumsum(counts)])
        rows = np.arange(offsets[-1]) + np.repeat(self.offsets[edges] - offsets[:-1], counts)
        return replace(
            self,
            edge_names=tuple(self.edge_names[e] for e in edges),
            starts=self.starts[edges],
            ends=self.ends[edges],
            lengths=self.lengths[edges],
            speed_limits=self.speed_limits[edges],
            stops=self.stops[edges],
            road_types=tuple(self.road_types[e] for e in edges),
            offsets=offsets,
            times=self.times[rows],
            durations=self.durations[rows],
        )


def roads_folder(roads: str | os.PathLike[str] | None = None) -> Path:
    """The folder of a road network: `roads`, itself or a shipped name, else what TREEBANDIT_ROADS names."""
    if not isinstance(roads, str | os.PathLike | None):
        raise RoadsError(f"roads is {reprlib.repr(roads)}; give the path of a folder or {SHIPPED!r}")
    named = os.fspath(roads) if roads is not None else os.environ.get(VARIABLE, "")
    if not named:
        raise RoadsError(
            f"no road network is given and {VARIABLE} is not set; set it to a folder that "
            f"`treebandit roads record` wrote, or use roads={SHIPPED!r}, which comes with the package"
        )
    folder = Path(__file__).parent / "files" / SHIPPED if named == SHIPPED else Path(named)
    if not folder.is_dir():
        raise RoadsError(f"the road network {str(folder)!r} is not a folder; check the path or {VARIABLE}")
    return folder


def roads_checksum(roads: str | os.PathLike[str] | None = None) -> str:
    """The sha256 of the folder's three files, one after the other: the same wherever the folder lies."""
    folder, digest = roads_folder(roads), hashlib.sha256()
    for name in _FILES:
        try:
            digest.update((folder / name).read_bytes())
        except OSError as error:
            raise RoadsError(f"{str(folder / name)!r} cannot be read: {error}") from error
    return digest.hexdigest()


def read_roads(roads: str | os.PathLike[str] | None = None, *, connected: bool = True) -> RoadNetwork:
    """The road network of a folder; only its strongly connected part unless `connected` is False."""
    folder = roads_folder(roads)
    nodes = _read(folder / "nodes.csv.gz", _NODES)
    edges = _read(folder / "edges.csv.gz", _EDGES).sort("edge")
    driven = _read(folder / "traversals.parquet", _TRAVERSALS).sort("edge", maintain_order=True)
    network = _assemble(folder, nodes, edges, driven)
    if not connected:
        return network
    inside = np.flatnonzero(edges["in_scc"].to_numpy() == 1)
    if not len(inside):
        raise RoadsError(
            f"the road network {str(folder)!r} has no edge in the strongly connected part (in_scc)"
        )
    return network.take(inside)


def write_roads(
    folder: str | os.PathLike[str], *, nodes: pl.DataFrame, edges: pl.DataFrame, traversals: pl.DataFrame
) -> Path:
    """Write the three tables into a new folder: the whole of it appears at once, or nothing does."""
    into = Path(folder)
    for name, table in (("nodes", nodes), ("edges", edges), ("traversals", traversals)):
        if not (hasattr(table, "write_csv") and hasattr(table, "write_parquet")):
            raise RoadsError(f"{name} is {reprlib.repr(table)}; give a polars DataFrame")
    refuse_existing(into)
    into.parent.mkdir(parents=True, exist_ok=True)
    unfinished = Path(tempfile.mkdtemp(prefix=f".{into.name}-", dir=into.parent))
    try:
        nodes.write_csv(unfinished / "nodes.csv.gz", compression="gzip")
        edges.write_csv(unfinished / "edges.csv.gz", compression="gzip")
        traversals.write_parquet(unfinished / "traversals.parquet", compression="zstd", compression_level=19)
        unfinished.chmod(0o755)
        unfinished.rename(into)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise
    return into


def refuse_existing(folder: Path) -> None:
    """Raise where something other than an empty folder lies in the way."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise RoadsError(f"{str(folder)!r} exists already; remove it or name another folder")


def strongly_connected(starts: Indices, ends: Indices, n_nodes: int) -> NDArray[np.bool_]:
    """Which nodes lie in the largest strongly connected part, (n_nodes,)."""
    try:
        from scipy.sparse import coo_array
        from scipy.sparse.csgraph import connected_components
    except ImportError:
        raise MissingExtraError("scipy", "sklearn") from None
    # Older versions of scipy take 32-bit indices only.
    places = starts.astype(np.int32), ends.astype(np.int32)
    graph = coo_array((np.ones(len(starts)), places), shape=(n_nodes, n_nodes)).tocsr()
    _, part = connected_components(graph, directed=True, connection="strong")
    inside: NDArray[np.bool_] = part == np.bincount(part).argmax()
    return inside


def random_pairs(
    network: RoadNetwork, count: int, *, apart: float = 6000.0, seed: int = 0
) -> list[tuple[str, str]]:
    """`count` distinct (start, end) pairs of connected nodes more than `apart` metres from each other."""
    check_number("count", count, least=1, whole=True)
    check_number("apart", apart)
    check_seed(seed)
    random = np.random.default_rng(seed)
    inside = np.unique(network.starts)
    if len(inside) < 2:
        raise RoadsError(f"edges start at {len(inside)} node; pairs need two")
    plane = network.positions[:, :2]
    pairs: dict[tuple[str, str], None] = {}
    for _ in range(1000 * count):
        a, b = random.choice(inside, size=2, replace=False)
        if np.hypot(*(plane[a] - plane[b])) > apart:
            pairs[network.node_names[a], network.node_names[b]] = None
            if len(pairs) == count:
                return list(pairs)
    raise RoadsError(
        f"found only {len(pairs)} of {count} pairs more than {apart:g} m apart; ask for fewer or nearer ones"
    )


def _place(kind: str, name: str, names: tuple[str, ...]) -> int:
    if not isinstance(name, str) or name not in names:
        raise RoadsError(
            f"no {kind} {reprlib.repr(name)} among the {len(names)} of this road network; "
            f"names look like {', '.join(map(repr, names[:3]))}"
        )
    return names.index(name)


def _check_network(network: RoadNetwork) -> None:
    """Raise a RoadsError where arrays do not fit each other, or hold what no road can have."""
    for name in ("node_names", "edge_names", "road_types"):
        if not isinstance(getattr(network, name), tuple | list):
            raise RoadsError(f"{name} is {reprlib.repr(getattr(network, name))}; give a tuple of names")
    n, m = len(network.node_names), len(network.edge_names)
    rows = network.times.size if isinstance(network.times, np.ndarray) else 0
    if not m:
        raise RoadsError("a road network without edges; give at least one")
    shapes = {
        "positions": (n, 3),
        "lonlat": (n, 2),
        "offsets": (m + 1,),
        "times": (rows,),
        "durations": (rows,),
    }
    shapes |= dict.fromkeys(("starts", "ends", "lengths", "speed_limits", "stops"), (m,))
    for name, shape in shapes.items():
        found = getattr(network, name)
        if not isinstance(found, np.ndarray) or found.dtype.kind not in "iuf" or found.shape != shape:
            array = isinstance(found, np.ndarray)
            kind = f"{found.dtype} of shape {found.shape}" if array else type(found).__name__
            raise RoadsError(f"{name} is {kind}; {n} nodes and {m} edges need an array of numbers, {shape}")
    if len(network.road_types) != m:
        raise RoadsError(f"{len(network.road_types)} road types for {m} edges; give one each")
    for name, most in (("starts", n), ("ends", n), ("offsets", rows + 1)):
        places = getattr(network, name)
        if places.dtype.kind == "f" or places.min() < 0 or places.max() >= most:
            raise RoadsError(
                f"{name} holds {places.dtype}s up to {places.max()}; expected whole numbers below {most}"
            )
    if network.offsets[0] != 0 or network.offsets[-1] != rows or np.any(np.diff(network.offsets) < 0):
        raise RoadsError(f"offsets do not rise from 0 to the {rows} traversals")
    for name in ("lengths", "speed_limits"):
        if not np.all((getattr(network, name) > 0) & np.isfinite(getattr(network, name))):
            raise RoadsError(f"{name} are not all positive and finite")
    if not (np.isfinite(network.times).all() and np.isfinite(network.positions).all()):
        raise RoadsError("a position or the time of a traversal is not finite")
    if not np.all((network.durations >= 0) & np.isfinite(network.durations)):
        raise RoadsError("the duration of a traversal is negative or not finite")


def _read(path: Path, columns: dict[str, str]) -> pl.DataFrame:
    """One table of the folder, its required columns cast to their types."""
    try:
        import polars as pl
    except ImportError:
        raise MissingExtraError("polars", "experiments") from None
    if not path.is_file():
        raise RoadsError(f"{str(path)!r} is missing; a road network folder holds it beside two others")
    try:
        parquet = path.suffix == ".parquet"
        table = (
            pl.read_parquet(path, glob=False)
            if parquet
            else pl.read_csv(path, glob=False, infer_schema=False)
        )
    except (pl.exceptions.PolarsError, OSError) as error:
        raise RoadsError(f"{str(path)!r} cannot be read: {error}") from error
    if missing := [name for name in columns if name not in table.columns]:
        raise RoadsError(f"{str(path)!r} lacks the columns {', '.join(missing)}")
    try:
        table = table.with_columns(pl.col(name).cast(getattr(pl, kind)) for name, kind in columns.items())
    except pl.exceptions.PolarsError as error:
        raise RoadsError(f"{str(path)!r} has values of a wrong type: {error}") from error
    if empty := [name for name in columns if table[name].null_count()]:
        raise RoadsError(f"{str(path)!r} has empty cells in {', '.join(empty)}")
    return table


def _assemble(folder: Path, nodes: pl.DataFrame, edges: pl.DataFrame, driven: pl.DataFrame) -> RoadNetwork:
    number = {name: i for i, name in enumerate(nodes["node"].to_list())}
    if strangers := [n for c in ("from", "to") for n in edges[c].to_list() if n not in number]:
        raise RoadsError(f"edges of {str(folder)!r} name the node {strangers[0]!r}, which nodes.csv.gz lacks")
    if edges["edge"].to_list() != list(range(len(edges))):
        raise RoadsError(f"the edges of {str(folder)!r} are not numbered 0 to {len(edges) - 1}")
    on_edge = driven["edge"].to_numpy()
    if len(on_edge) and not 0 <= on_edge[0] <= on_edge[-1] < len(edges):
        raise RoadsError(f"traversals of {str(folder)!r} lie on edges outside 0 to {len(edges) - 1}")
    for names, kind in ((nodes["node"], "node"), (edges["id"], "edge")):
        if names.n_unique() < len(names):
            raise RoadsError(f"{str(folder)!r} has two {kind}s of one name, such as {names.mode().min()!r}")
    types = edges["road_type"].to_list() if "road_type" in edges.columns else [""] * len(edges)
    try:
        return RoadNetwork(
            node_names=tuple(number),
            positions=nodes.select("x", "y", "z").to_numpy(),
            lonlat=_lonlat(nodes),
            edge_names=tuple(edges["id"].to_list()),
            starts=np.array([number[n] for n in edges["from"].to_list()], dtype=np.intp),
            ends=np.array([number[n] for n in edges["to"].to_list()], dtype=np.intp),
            lengths=edges["length"].to_numpy(),
            speed_limits=edges["speed_limit"].to_numpy(),
            stops=edges["stop"].to_numpy(),
            road_types=tuple(types),
            offsets=np.searchsorted(on_edge, np.arange(len(edges) + 1)),
            times=driven["tod"].to_numpy(),
            durations=driven["duration"].to_numpy(),
        )
    except RoadsError as error:
        raise RoadsError(f"the road network {str(folder)!r} cannot be used: {error}") from error


def _lonlat(nodes: pl.DataFrame) -> Floats:
    import polars as pl

    if not {"lon", "lat"} <= set(nodes.columns):
        return np.full((len(nodes), 2), np.nan)
    degrees = nodes.select(pl.col("lon", "lat").cast(pl.Float64, strict=False).fill_null(np.nan))
    return degrees.to_numpy()
