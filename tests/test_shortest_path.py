"""Shortest paths: against networkx, with closed and parallel edges, and drawn where there are several."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from paths import finite, grid_path

from treebandit.errors import (
    InputError,
    NoFeasibleChoiceError,
    ParameterError,
    ShapeError,
)
from treebandit.oracles import Assignment, ShortestPath

ends = st.integers(0, 5)
edges = st.lists(st.tuples(ends, ends, finite), min_size=1, max_size=16) | st.lists(
    st.tuples(ends, ends, st.floats(0, 1)), min_size=1, max_size=16
)


def edge_costs(scores, floor):
    """The rule as documented, edge by edge."""
    greatest = max(scores) if min(scores) >= 0 else 0.0
    return [max(greatest - score, floor) for score in scores]


def cheapest_path_cost(table, source, target, costs):
    graph = nx.MultiDiGraph()
    graph.add_nodes_from([source, target])
    for (a, b, _), cost in zip(table, costs, strict=True):
        graph.add_edge(a, b, weight=cost)
    return nx.shortest_path_length(graph, source, target, weight="weight")


@given(edges, st.integers(0, 5), st.integers(0, 5))
def test_shortest_path_agrees_with_networkx(table, source, target):
    starts, ends, scores = (list(column) for column in zip(*table, strict=True))
    if source == target or not {source, target} <= {*starts, *ends}:
        with pytest.raises(ParameterError):
            ShortestPath(starts, ends, source, target)
        return
    oracle = ShortestPath(starts, ends, source, target)
    costs = edge_costs(scores, oracle.floor)
    try:
        expected = cheapest_path_cost(table, source, target, costs)
    except nx.NetworkXNoPath:
        with pytest.raises(NoFeasibleChoiceError, match=f"from {source} to {target}"):
            oracle(scores)
        return
    rows = oracle(scores)
    walked = [source, *(ends[i] for i in rows)]
    assert [starts[i] for i in rows] == walked[:-1]
    assert walked[-1] == target
    assert sum(costs[i] for i in rows) == pytest.approx(expected)


@given(edges, st.sets(st.integers(0, 15)))
def test_closed_edges_are_as_good_as_removed(table, closed):
    table = [(0, 1, -50.0), (1, 2, -50.0), *table]
    starts, ends, scores = (list(column) for column in zip(*table, strict=True))
    rows = np.array([i for i in range(len(table)) if i < 2 or i - 2 not in closed])
    whole = ShortestPath(starts, ends, 0, 2)
    part = ShortestPath([starts[i] for i in rows], [ends[i] for i in rows], 0, 2)
    open_scores = np.array(scores)[rows]
    costs = np.array(edge_costs(open_scores, whole.floor))
    cheapest = costs[part(open_scores)].sum()  # of paths that cost the same, any may be chosen
    assert costs[whole.among(rows)(open_scores)].sum() == pytest.approx(cheapest)
    shut = np.full(len(table), -np.inf)
    shut[rows] = open_scores
    chosen = whole(shut)
    assert set(chosen) <= set(rows)
    assert costs[np.searchsorted(rows, chosen)].sum() == pytest.approx(cheapest)


def test_open_edges_are_numbers_or_a_mask():
    path = ShortestPath(["a", "b", "a"], ["b", "c", "c"], "a", "c")
    scores = [-9.0, -1.0, -1.0]
    assert path.among([True, True, False])(scores[:2]).tolist() == [0, 1]
    assert path.among(np.array([True, False, True]))([-9.0, -1.0]).tolist() == [1]
    assert path.among([2, 0, 1])([-9.0, -1.0, -1.0]).tolist() == [1, 2]
    for rows, error, message in [
        ([True, True], ShapeError, "a mask of 2 for 3 edges"),
        ([0, 1, 1], InputError, r"open edges are .*0, 1, 1.*; give each row once"),
        ([0, 3], InputError, r"open edges are .*0, 3.*; rows go from 0 to 2"),
        ([-1, 1], InputError, r"open edges are .*-1, +1.*; rows go from 0 to 2"),
        ([0.0, 1.0], InputError, "rows of type float64"),
        (["a"], InputError, "rows of type .*; give whole numbers"),
        ([[0], [1]], ShapeError, "rows of shape"),
        ([[0], [1, 2]], ShapeError, "cannot be read"),
        ([], NoFeasibleChoiceError, "none of the 3 edges is open"),
        ([False] * 3, NoFeasibleChoiceError, "none of the 3 edges is open"),
    ]:
        with pytest.raises(error, match=message):
            path.among(rows)


def test_parallel_edges_stay_apart():
    oracle = ShortestPath("aaab", "bbbc", "a", "c")
    assert oracle([-3.0, -1.0, -2.0, -1.0]).tolist() == [1, 3]
    assert oracle([-3.0, -9.0, -2.0, -1.0]).tolist() == [2, 3]


def test_negative_and_zero_costs_are_raised_to_the_floor():
    oracle = ShortestPath(["a", "b", "a"], ["b", "c", "c"], "a", "c", floor=0.5)
    assert oracle([4.0, 0.0, -0.9]).tolist() == [2]
    assert oracle([4.0, 0.0, -1.1]).tolist() == [0, 1]
    assert oracle([np.inf, np.inf, -1.1]).tolist() == [0, 1]


def test_scores_without_a_negative_one_still_decide():
    oracle = ShortestPath(["a", "b", "a"], ["b", "c", "c"], "a", "c")
    assert oracle([0.9, 0.8, 0.1]).tolist() == [0, 1]
    assert oracle([0.1, 0.2, 0.9]).tolist() == [2]
    assert oracle([0.9, np.inf, 0.1]).tolist() == [0, 1]
    assert oracle([0.9, 0.8, -np.inf]).tolist() == [0, 1]
    assert oracle([0.0, 0.0, 0.0]).tolist() == [2]


def test_random_scores_give_random_paths():
    grid = [(i, j) for i in range(4) for j in range(4)]
    steps = [((i, j), b) for i, j in grid for b in ((i + 1, j), (i, j + 1)) if b in grid]
    oracle = ShortestPath(*zip(*steps, strict=True), (0, 0), (3, 3))
    random = np.random.default_rng(0)
    assert len({tuple(oracle(random.random(len(steps)))) for _ in range(300)}) == 20  # all there are


def test_nodes_are_any_hashables():
    oracle = ShortestPath([("x", 1), None], [None, frozenset()], ("x", 1), frozenset())
    assert oracle([-1, -1]).tolist() == [0, 1]
    assert ShortestPath(np.array([7, 8]), np.array([8, 9]), 7, 9)([-1, -1]).tolist() == [0, 1]


def test_no_path_names_both_nodes():
    with pytest.raises(NoFeasibleChoiceError, match="'home' to 'work'"):
        ShortestPath(["home", "work"], ["shop", "shop"], "home", "work")([-1.0, -1.0])


def test_shortest_path_refuses_bad_graphs():
    with pytest.raises(ShapeError, match="2 starts but 1 ends"):
        ShortestPath("ab", "b", "a", "b")
    with pytest.raises(ParameterError, match="floor"):
        ShortestPath("a", "b", "a", "b", floor=0.0)
    with pytest.raises(ParameterError, match="target 'z'"):
        ShortestPath("a", "b", "a", "z")


@pytest.mark.parametrize("nodes", [3, None, 1.5, {"a": 1}, {"a"}, b"ab", np.array([["a", "b"]]), object()])
def test_nodes_that_are_no_list_are_refused(nodes):
    with pytest.raises(ParameterError, match="starts is .*; give a list with one node per candidate"):
        ShortestPath(nodes, nodes, "a", "b")
    with pytest.raises(ParameterError, match="lefts is .*; give a list"):
        Assignment(nodes, nodes)


@pytest.mark.parametrize("node", [["a"], {}, np.ones(2), (1, [2]), np.nan, {1}])
def test_what_cannot_name_a_node_is_refused(node):
    with pytest.raises(ParameterError, match="cannot name a node"):
        ShortestPath(["a", node], ["b", "c"], "a", "b")
    with pytest.raises(ParameterError, match="cannot name a node"):
        Assignment(["a", "b"], ["x", node])
    with pytest.raises(ParameterError, match="source .* is at no end"):
        ShortestPath("a", "b", node, "b")


@pytest.mark.parametrize("floor", [-1.0, "1", None, np.nan, np.inf, True, [1.0]])
def test_the_floor_is_a_positive_number(floor):
    with pytest.raises(ParameterError, match="floor is .*; give a finite number above 0"):
        ShortestPath("a", "b", "a", "b", floor=floor)


def test_every_shortest_path_can_be_drawn():
    path, edges = grid_path()
    random = np.random.default_rng(0)
    drawn = [tuple(path(-np.ones(edges), random)) for _ in range(300)]
    assert len(set(drawn)) == 6
    assert len({tuple(path(-np.ones(edges))) for _ in range(9)}) == 1
    lengths = np.full(edges, -0.1)  # sums that agree only up to rounding
    lengths[::2] = -0.3
    costs = [-lengths[list(path(lengths, random))].sum() for _ in range(50)]
    assert max(costs) == pytest.approx(min(costs), rel=1e-11)


def test_parallel_edges_and_lost_costs_are_drawn_without_circles():
    path = ShortestPath("aabcbd", "bbcbdb", "a", "d")
    random = np.random.default_rng(0)
    # 1e-6 beside 1e12 is lost in rounding, so b and c seem equally far.
    scores = [-1e12, -1e12, 0.0, 0.0, -1.0, 0.0]
    assert {tuple(path(scores, random)) for _ in range(60)} == {(0, 4), (1, 4)}
    assert path(scores).tolist() == [0, 4]


@given(edges, st.integers(0, 100))
def test_drawn_paths_cost_the_least(table, seed):
    table = [(0, 1, -50.0), (1, 2, -50.0), *((a, b, float(round(score))) for a, b, score in table)]
    starts, ends, scores = (list(column) for column in zip(*table, strict=True))
    path = ShortestPath(starts, ends, 0, 2)
    costs = path.costs(np.array(scores))
    drawn = path(scores, np.random.default_rng(seed))
    assert [starts[i] for i in drawn] == [0, *(ends[i] for i in drawn)][:-1]
    assert costs[drawn].sum() == pytest.approx(costs[path(scores)].sum())
