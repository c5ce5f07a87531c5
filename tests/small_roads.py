"""Road networks small enough to reason about."""

import numpy as np

from treebandit.datasets.roads import RoadNetwork

#: a -> b -> d and a -> c -> d, two parallel edges a -> b, and the way back.
SQUARE = ["ab", "ab", "bd", "ac", "cd", "da"]


def network(edges=SQUARE, traversals=None):
    """Edges named start + end + place; traversals: for each edge a list of (time of day, seconds)."""
    traversals = traversals or [[(8 * 3600.0, 10.0 + i)] for i in range(len(edges))]
    names = sorted({node for edge in edges for node in edge})
    flat = [row for rows in traversals for row in rows]
    return RoadNetwork(
        node_names=tuple(names),
        positions=np.array([[100.0 * i, 50.0 * i**2, 3.0 * (i % 2)] for i in range(len(names))]),
        lonlat=np.full((len(names), 2), np.nan),
        edge_names=tuple(f"{edge}{i}" for i, edge in enumerate(edges)),
        starts=np.array([names.index(edge[0]) for edge in edges]),
        ends=np.array([names.index(edge[1]) for edge in edges]),
        lengths=np.array([100.0 + i for i in range(len(edges))]),
        speed_limits=np.full(len(edges), 10.0),
        stops=np.array([i % 2 for i in range(len(edges))], dtype=np.int8),
        road_types=("street",) * len(edges),
        offsets=np.concatenate([[0], np.cumsum([len(rows) for rows in traversals])]),
        times=np.array([time for time, _ in flat], dtype=np.float32),
        durations=np.array([seconds for _, seconds in flat], dtype=np.float32),
    )
