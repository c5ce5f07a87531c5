import gzip
import os
import shutil
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from small_roads import network

from treebandit.datasets.roads import (
    random_pairs,
    read_roads,
    roads_checksum,
    roads_folder,
    strongly_connected,
    write_roads,
)
from treebandit.errors import ChoiceError, ParameterError, RoadsError


def tables():
    """Two connected nodes, and a third that only a one-way road leads to."""
    nodes = pl.DataFrame(
        {"node": ["1", "b", "c"], "x": [0.0, 3.0, 9.0], "y": [0.0, 4.0, 0.0], "z": [1.0, 2.0, 3.0]}
    ).with_columns(lon=6.1, lat=pl.Series([None, 49.6, 49.7]), in_scc=pl.Series([1, 1, 0]))
    edges = pl.DataFrame(
        {
            "edge": [0, 1, 2, 3],
            "id": ["out", "dead", "back", "twin"],
            "from": ["1", "b", "b", "1"],
            "to": ["b", "c", "1", "b"],
            "length": [5.0, 7.0, 5.0, 6.0],
            "speed_limit": [10.0, 5.0, 10.0, 12.0],
            "lanes": [1, 1, 1, 2],
            "road_type": ["street", "path", "street", "road"],
            "stop": [0, 1, 1, 0],
            "in_scc": [1, 0, 1, 1],
        }
    )
    traversals = pl.DataFrame({"edge": [2, 0, 2, 1], "tod": [9, 8, 7, 6], "duration": [1.0, 2.0, 3.0, 4.0]})
    return {"nodes": nodes, "edges": edges, "traversals": traversals}


def test_what_is_written_is_read(tmp_path):
    network = read_roads(write_roads(tmp_path / "new" / "roads", **tables()), connected=False)
    assert network.node_names == ("1", "b", "c")
    assert network.edge_names == ("out", "dead", "back", "twin")
    assert network.starts.tolist() == [0, 1, 1, 0]
    assert network.ends.tolist() == [1, 2, 0, 1]
    assert network.positions[1].tolist() == [3.0, 4.0, 2.0]
    assert np.isnan(network.lonlat[0, 1])
    assert network.lonlat[1].tolist() == [6.1, 49.6]
    assert network.offsets.tolist() == [0, 1, 2, 4, 4]
    assert network.times.tolist() == [8.0, 6.0, 9.0, 7.0]
    assert network.durations.tolist() == [2.0, 4.0, 1.0, 3.0]


def test_only_the_connected_part_is_routed(tmp_path):
    network = read_roads(write_roads(tmp_path / "roads", **tables()))
    assert network.edge_names == ("out", "back", "twin")
    assert network.offsets.tolist() == [0, 1, 3, 3]
    assert network.durations.tolist() == [2.0, 1.0, 3.0]
    assert network.road_types == ("street", "street", "road")


def test_taking_edges_keeps_their_traversals(tmp_path):
    network = read_roads(write_roads(tmp_path / "roads", **tables()), connected=False)
    part = network.take(np.array([2, 0]))
    assert part.edge_names == ("back", "out")
    assert part.offsets.tolist() == [0, 2, 3]
    assert part.durations.tolist() == [1.0, 3.0, 2.0]
    assert len(part) == 2


def test_the_folder_comes_from_the_argument_or_the_variable(tmp_path, monkeypatch):
    monkeypatch.setenv("TREEBANDIT_ROADS", str(tmp_path))
    assert roads_folder() == tmp_path
    assert roads_folder("small-town").name == "small-town"
    monkeypatch.delenv("TREEBANDIT_ROADS")
    with pytest.raises(RoadsError, match="small-town"):
        roads_folder()
    with pytest.raises(RoadsError, match="not a folder"):
        roads_folder(tmp_path / "nowhere")


def test_an_existing_folder_is_not_overwritten(tmp_path):
    folder = write_roads(tmp_path / "roads", **tables())
    with pytest.raises(RoadsError, match="exists already"):
        write_roads(folder, **tables())
    assert len(read_roads(folder)) == 3
    assert [path.name for path in tmp_path.iterdir()] == ["roads"]


def test_a_failed_write_leaves_nothing(tmp_path):
    for broken in ({"traversals": None}, {"nodes": [1, 2]}, {"edges": "edges"}):
        with pytest.raises(RoadsError, match=f"{next(iter(broken))} is .*; give a polars DataFrame"):
            write_roads(tmp_path / "roads", **(tables() | broken))
    nested = tables()["nodes"].with_columns(z=pl.Series([[1.0], [2.0], [3.0]]))
    with pytest.raises(pl.exceptions.PolarsError):
        write_roads(tmp_path / "roads", **(tables() | {"nodes": nested}))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("edges", lambda t: t.drop("stop"), "lacks the columns stop"),
        ("edges", lambda t: t.with_columns(to=pl.lit("z")), "name the node 'z'"),
        ("edges", lambda t: t.with_columns(edge=pl.col("edge") + 1), "numbered 0 to 3"),
        ("edges", lambda t: t.with_columns(length=pl.lit(0.0)), "lengths are not all positive and finite"),
        (
            "edges",
            lambda t: t.with_columns(speed_limit=pl.lit(float("inf"))),
            "speed_limits are not all positive",
        ),
        ("edges", lambda t: t.with_columns(id=pl.lit("twin")), "two edges of one name, such as 'twin'"),
        ("edges", lambda t: t.head(0), "outside 0 to -1"),
        ("edges", lambda t: t.with_columns(in_scc=pl.lit(0)), "no edge in the strongly connected part"),
        ("nodes", lambda t: pl.concat([t, t.head(1)]), "two nodes of one name, such as '1'"),
        ("nodes", lambda t: t.with_columns(z=pl.lit(float("nan"))), "position .* is not finite"),
        ("traversals", lambda t: t.with_columns(duration=pl.lit(-1.0)), "duration .* is negative"),
        (
            "traversals",
            lambda t: t.with_columns(tod=pl.lit(float("inf"))),
            "time of a traversal is not finite",
        ),
        ("edges", lambda t: t.with_columns(length=pl.lit("long")), "wrong type"),
        ("nodes", lambda t: t.with_columns(x=pl.lit(None)), "empty cells in x"),
        ("traversals", lambda t: t.with_columns(edge=pl.col("edge") + 9), "outside 0 to 3"),
    ],
)
def test_wrong_tables_are_refused(tmp_path, name, change, message):
    made = tables()
    folder = write_roads(tmp_path / "roads", **(made | {name: change(made[name])}))
    with pytest.raises(RoadsError, match=message):
        read_roads(folder)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"starts": np.array([0, 0, 0, 0, 0, 9])},
            "starts holds int64s up to 9; expected whole numbers below 4",
        ),
        ({"ends": np.array([0.0] * 6)}, "ends holds float64s"),
        ({"ends": [0] * 6}, "ends is list"),
        ({"lengths": np.ones(5)}, r"lengths is float64 of shape \(5,\); 4 nodes and 6 edges"),
        ({"stops": np.array(["a"] * 6)}, "stops is <U1"),
        ({"positions": np.ones((4, 2))}, "positions is"),
        ({"offsets": np.array([0, 2, 1, 3, 4, 5, 6])}, "offsets do not rise"),
        ({"offsets": np.arange(7) - 1}, "offsets holds"),
        ({"road_types": ("street",)}, "1 road types for 6 edges"),
        ({"durations": np.full(6, np.nan)}, "duration"),
    ],
)
def test_networks_of_ones_own_are_checked(changes, message):
    with pytest.raises(RoadsError, match=message):
        replace(network(), **changes)


def test_names_edges_and_pairs_that_do_not_exist():
    roads = network()
    for name in ("zz", 3, None, ["ab0"], np.ones(2)):
        with pytest.raises(RoadsError, match="no edge .* among the 6"):
            roads.edge(name)
        with pytest.raises(RoadsError, match="no node .* among the 4"):
            roads.node(name)
    for edges in ([9], [-1], [0, 0], "ab", [0.5]):
        with pytest.raises(ChoiceError, match="edges"):
            roads.take(edges)
    for arguments in ({"count": 0}, {"count": "3"}, {"count": 1, "apart": "far"}, {"count": 1, "seed": -1}):
        with pytest.raises(ParameterError):
            random_pairs(roads, **arguments)
    with pytest.raises(RoadsError, match="pairs need two"):
        random_pairs(network(["ab", "ab"]), 1)
    for given in (3, ["small-town"], b"small-town", 1.5):
        with pytest.raises(RoadsError, match="roads is .*; give the path of a folder"):
            roads_folder(given)


def test_missing_and_damaged_files_are_named(tmp_path):
    folder = write_roads(tmp_path / "roads", **tables())
    (folder / "traversals.parquet").write_bytes(b"PAR1 not really")
    with pytest.raises(RoadsError, match=r"traversals\.parquet"):
        read_roads(folder)
    (folder / "edges.csv.gz").write_bytes(gzip.compress(b"edge,id\n0,x\n")[:-9])
    with pytest.raises(RoadsError, match=r"edges\.csv\.gz"):
        read_roads(folder)
    (folder / "nodes.csv.gz").unlink()
    with pytest.raises(RoadsError, match=r"nodes\.csv\.gz.*missing"):
        read_roads(folder)


def test_the_largest_strongly_connected_part():
    starts, ends = np.array([0, 1, 2, 2, 3]), np.array([1, 2, 0, 3, 4])
    assert strongly_connected(starts, ends, 5).tolist() == [True, True, True, False, False]


def test_the_shipped_town_is_small_connected_and_driven():
    folder = roads_folder("small-town")
    assert sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) < 1_000_000
    network = read_roads("small-town")
    assert 200 < len(network) < 1000
    assert (np.diff(network.offsets) > 0).all()
    hours = np.bincount((network.times // 3600).astype(int), minlength=24)
    assert hours.min() > 100


def test_random_pairs_are_far_apart_and_repeatable():
    network = read_roads("small-town")
    pairs = random_pairs(network, 20, apart=2000, seed=4)
    assert len(set(pairs)) == 20
    assert pairs == random_pairs(network, 20, apart=2000, seed=4)
    for a, b in pairs:
        gap = network.positions[network.node(a), :2] - network.positions[network.node(b), :2]
        assert np.hypot(*gap) > 2000
    with pytest.raises(RoadsError, match="found only 0 of 1"):
        random_pairs(network, 1, apart=1e6)


def test_luxembourg_is_read_whole():
    if not os.environ.get("TREEBANDIT_ROADS"):
        pytest.skip("TREEBANDIT_ROADS is not set: no Luxembourg road network to test on")
    network = read_roads(connected=False)
    if "-17512" not in network.node_names:
        pytest.skip("TREEBANDIT_ROADS names another road network than Luxembourg's")
    assert (len(network), len(network.node_names), len(network.times)) == (5793, 2256, 1_132_695)
    assert network.lengths.sum() == pytest.approx(930.6e3, rel=1e-3)
    assert len(read_roads()) == 5733


def test_a_copy_elsewhere_reads_the_same(tmp_path):
    copy = shutil.copytree(roads_folder("small-town"), tmp_path / "town")
    assert read_roads(copy).edge_names == read_roads("small-town").edge_names


def test_the_checksum_follows_the_files_and_not_their_place(tmp_path):
    copy = tmp_path / "elsewhere"
    shutil.copytree(roads_folder("small-town"), copy)
    assert roads_checksum(copy) == roads_checksum("small-town")
    with (copy / "edges.csv.gz").open("ab") as file:
        file.write(b"more")
    assert roads_checksum(copy) != roads_checksum("small-town")
    (copy / "nodes.csv.gz").unlink()
    with pytest.raises(RoadsError, match=r"nodes\.csv\.gz"):
        roads_checksum(copy)


def test_brackets_in_the_name_of_a_folder_are_no_pattern(tmp_path):
    assert len(read_roads(write_roads(tmp_path / "roads[1]", **tables()))) == 3
