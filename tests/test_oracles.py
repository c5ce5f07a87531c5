from __future__ import annotations

import sys
from functools import partial
from itertools import combinations, permutations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from treebandit.agents import LinUCB
from treebandit.core import Candidates, Columns, Outcome, Round, choose_with, play_round
from treebandit.errors import (
    ChoiceError,
    InputError,
    MissingExtraError,
    NoFeasibleChoiceError,
    ParameterError,
    ShapeError,
)
from treebandit.oracles import Assignment, ShortestPath, TopK, best_arm

few_scores = st.lists(st.integers(-3, 3).map(float), min_size=1, max_size=7)
finite = st.floats(-20, 20, allow_nan=False)


@given(few_scores)
def test_best_arm_is_the_first_greatest(scores):
    assert best_arm(scores).tolist() == [scores.index(max(scores))]


def test_best_arm_draws_among_ties_evenly():
    random = np.random.default_rng(1)
    drawn = [int(best_arm(np.array([1.0, 3.0, 0.0, 3.0, 3.0]), random)[0]) for _ in range(600)]
    assert set(drawn) == {1, 3, 4}
    assert min(drawn.count(row) for row in (1, 3, 4)) > 150


def test_best_arm_takes_one_arm_and_infinities():
    assert best_arm([-np.inf, -1e300]).tolist() == [1]
    assert best_arm([1.0, np.inf]).tolist() == [1]
    assert best_arm([1.0, np.inf]).dtype == np.intp


@given(few_scores, st.integers(1, 9), st.booleans())
def test_top_k_has_the_greatest_total(scores, k, with_random):
    chosen = TopK(k)(scores, np.random.default_rng(0) if with_random else None)
    size = min(k, len(scores))
    best = max(sum(part) for part in combinations(scores, size))
    picked = [scores[i] for i in chosen]
    assert len(set(chosen.tolist())) == size
    assert sum(picked) == best
    assert picked == sorted(picked, reverse=True)


def test_top_k_draws_among_ties_or_takes_the_first():
    scores = [5.0, 1.0, 1.0, 1.0]
    assert TopK(2)(scores).tolist() == [0, 1]
    random = np.random.default_rng(3)
    assert {tuple(TopK(2)(scores, random).tolist()) for _ in range(60)} == {(0, 1), (0, 2), (0, 3)}
    drawn = [TopK(2)([np.inf] * 4, random).tolist() for _ in range(2400)]
    counts = [drawn.count([a, b]) for a, b in permutations(range(4), 2)]
    assert min(counts) > 140  # each ordered pair 200 times in expectation, sd 13.5


def test_top_k_is_described_by_k():
    assert repr(TopK(3)) == "TopK(k=3)"
    for k in (0, -1, 1.5, True, "2", None, [2], np.nan):
        with pytest.raises(ParameterError, match="whole number"):
            TopK(k)


def test_minus_infinity_cannot_be_chosen():
    with pytest.raises(NoFeasibleChoiceError, match="all 2 scores are -inf"):
        best_arm([-np.inf, -np.inf])
    with pytest.raises(NoFeasibleChoiceError, match="all 1 scores are -inf"):
        best_arm(np.array([-np.inf]), np.random.default_rng(0))
    with pytest.raises(NoFeasibleChoiceError, match="all 3 scores are -inf"):
        TopK(1)([-np.inf] * 3)
    with pytest.raises(NoFeasibleChoiceError, match="2 rows are to be chosen, but only 1 of 3"):
        TopK(2)([1.0, -np.inf, -np.inf])
    with pytest.raises(NoFeasibleChoiceError, match="only 1 of 2"):
        TopK(5)([1.0, -np.inf])
    assert TopK(2)([-np.inf, 1.0, -np.inf, 2.0]).tolist() == [3, 1]
    with pytest.raises(NoFeasibleChoiceError):
        ShortestPath("ab", "bc", "a", "c")([-1.0, -np.inf])
    with pytest.raises(NoFeasibleChoiceError):
        Assignment("ab", "xy")([1.0, -np.inf])


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


@pytest.mark.parametrize("nodes", [3, None, 1.5, {"a": 1}, b"ab", np.array([["a", "b"]]), object()])
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


def test_a_missing_scipy_is_told_when_an_oracle_is_made(monkeypatch):
    monkeypatch.setitem(sys.modules, "scipy.sparse", None)
    monkeypatch.setitem(sys.modules, "scipy.optimize", None)
    for make in (lambda: ShortestPath("a", "b", "a", "b"), lambda: Assignment("a", "x")):
        with pytest.raises(MissingExtraError, match=r"treebandit\[sklearn\]"):
            make()
    assert TopK(1)([1.0, 2.0]).tolist() == [1]


def best_matching(table):
    gains = {}
    for left, right, score in table:
        gains[left, right] = max(score, gains.get((left, right), -np.inf))
    lefts, rights = ({pair[side] for pair in gains} for side in (0, 1))
    if len(lefts) > len(rights):
        gains = {(right, left): gain for (left, right), gain in gains.items()}
        lefts, rights = rights, lefts
    return max(
        sum(gains.get(pair, -np.inf) for pair in zip(lefts, order, strict=True))
        for order in permutations(rights, len(lefts))
    )


pairs = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), finite), min_size=1, max_size=14)


@given(pairs)
def test_assignment_agrees_with_all_matchings(table):
    lefts, rights, scores = (list(column) for column in zip(*table, strict=True))
    expected = best_matching(table)
    oracle = Assignment(lefts, rights)
    if expected == -np.inf:
        with pytest.raises(NoFeasibleChoiceError, match="partner"):
            oracle(scores)
        return
    rows = oracle(scores)
    assert len({lefts[i] for i in rows}) == len({rights[i] for i in rows}) == len(rows)
    assert len(rows) == min(len(set(lefts)), len(set(rights)))
    assert sum(scores[i] for i in rows) == pytest.approx(expected)


def test_assignment_takes_infinite_scores():
    oracle = Assignment("aabb", "xyxy")
    assert oracle([9.0, 0.0, np.inf, 9.0]).tolist() == [1, 2]
    assert oracle([9.0, 0.0, -np.inf, -9.0]).tolist() == [0, 3]
    assert oracle([1e308, 0.0, 0.0, 1e308]).tolist() == [0, 3]
    assert oracle([1e308, np.inf, np.inf, 1e308]).tolist() == [1, 2]
    with pytest.raises(ShapeError, match="lefts"):
        Assignment("ab", "x")


@pytest.mark.parametrize(
    "oracle", [best_arm, TopK(1), ShortestPath("ab", "bc", "a", "c"), Assignment("ab", "xy")]
)
def test_bad_scores_are_refused(oracle):
    with pytest.raises(InputError, match="candidate 1 is NaN"):
        oracle([0.0, np.nan])
    with pytest.raises(InputError, match="one number per candidate"):
        oracle(np.zeros((2, 1)))
    with pytest.raises((NoFeasibleChoiceError, ShapeError)):
        oracle([])
    for scores in (["1", "2"], [object(), 1.0], [1j, 2.0], [[1.0], [1.0, 2.0]], {"a": 1}, "ab", [10**400, 1]):
        with pytest.raises(InputError, match="one number per candidate"):
            oracle(scores)
    with pytest.raises(InputError, match="masked array"):
        oracle(np.ma.masked_array([1.0, 99.0], mask=[0, 1]))


def grid_path(size=3):
    nodes = [(i, j) for i in range(size) for j in range(size)]
    steps = [((i, j), b) for i, j in nodes for b in ((i + 1, j), (i, j + 1)) if b in nodes]
    return ShortestPath(*zip(*steps, strict=True), (0, 0), (size - 1, size - 1)), len(steps)


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


def test_equal_scores_give_every_assignment_equally_often():
    oracle = Assignment(np.repeat(range(3), 3), np.tile(range(3), 3))
    random = np.random.default_rng(0)
    drawn = [tuple(oracle(np.zeros(9), random)) for _ in range(600)]
    assert len(set(drawn)) == 6
    assert min(drawn.count(one) for one in set(drawn)) > 60
    assert {tuple(Assignment("aa", "xx")([1.0, 1.0], random)) for _ in range(30)} == {(0,), (1,)}
    assert len({tuple(oracle(np.zeros(9))) for _ in range(9)}) == 1


@given(pairs, st.integers(0, 100))
def test_drawn_assignments_have_the_greatest_total(table, seed):
    table = [(left, right, float(round(score))) for left, right, score in table]
    lefts, rights, scores = (list(column) for column in zip(*table, strict=True))
    if best_matching(table) > -np.inf:
        rows = Assignment(lefts, rights)(scores, np.random.default_rng(seed))
        assert sum(scores[i] for i in rows) == best_matching(table)


@pytest.mark.parametrize(
    "oracle",
    [
        best_arm,
        TopK(1),
        ShortestPath("ab", "bc", "a", "c"),
        ShortestPath("ab", "bc", "a", "c").among([0, 1]),
        Assignment("ab", "xy"),
    ],
)
def test_no_ties_no_difference_and_only_generators_are_taken(oracle):
    scores = np.array([-1.0, -2.0])
    assert oracle(scores, np.random.default_rng(0)).tolist() == oracle(scores).tolist()
    for random in (5, np.random.RandomState(0), "0"):
        with pytest.raises(ParameterError, match="numpy Generator"):
            oracle(scores, random)


def test_an_oracle_without_a_generator_is_called_with_scores_alone():
    random, scores = np.random.default_rng(0), np.zeros(5)

    def second_parameter(scores, size=2):
        return list(range(size))

    class Callable:
        def __call__(self, scores):
            return [1]

        def method(self, scores, random=None):
            return [0 if random is None else 4]

    bound = np.random.default_rng(1)
    for oracle, rows in [
        (lambda scores: [3, 1], [3, 1]),
        (second_parameter, [0, 1]),
        (Callable(), [1]),
        (Callable().method, [4]),
        (lambda scores, *, random: [0 if random is None else 2], [2]),
        (partial(lambda scores, random=None: [0 if random is bound else 1], random=bound), [0]),
        (np.flatnonzero, []),
    ]:
        chosen = choose_with(oracle, scores, random)
        assert (chosen.tolist(), chosen.dtype) == (rows, np.dtype(np.intp))
    assert choose_with(best_arm, [1.0, 2.0]).tolist() == [1]


def test_type_errors_of_an_oracle_are_its_own():
    def broken(scores, random=None):
        raise TypeError("mine")

    with pytest.raises(TypeError, match="mine"):
        choose_with(broken, np.zeros(2), np.random.default_rng(0))


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (3, "such as"),
        (None, "such as"),
        ([[0], [1]], "such as"),
        ([[0], [1, 2]], "list of row numbers"),
        ([0.0], "float64; give whole numbers"),
        ([True, False], "bool; give whole numbers"),
        (["a"], "give whole numbers"),
        ([0, 3], r"\[0, 3\]; rows go from 0 to 2"),
        ([-1], "rows go from 0 to 2"),
        ([2, 0, 2], r"\[2, 0, 2\]; give each row once"),
    ],
)
def test_what_an_oracle_returns_is_checked(rows, message):
    with pytest.raises(ChoiceError, match=message):
        choose_with(lambda scores: rows, np.zeros(3))


@pytest.mark.parametrize("oracle", [TopK, ShortestPath, 3, None, "best"])
def test_what_is_no_oracle_is_refused(oracle):
    with pytest.raises(ParameterError, match=r"give an object such as TopK\(2\)"):
        choose_with(oracle, np.zeros(3))


def fresh_choices(oracle, candidates):
    contexts = np.zeros((candidates, 2), dtype=np.float32)
    return {tuple(np.sort(LinUCB(seed=seed).choose(contexts, oracle=oracle))) for seed in range(60)}


def test_a_fresh_agent_does_not_always_take_the_same():
    assert fresh_choices(best_arm, 3) == {(0,), (1,), (2,)}
    assert fresh_choices(TopK(2), 4) == set(combinations(range(4), 2))
    path, edges = grid_path()
    assert len(fresh_choices(path, edges)) == 6
    assert len(fresh_choices(Assignment("aabb", "xyxy"), 4)) == 2


def test_an_agent_that_met_a_bad_oracle_goes_on_as_before():
    agent, spared = LinUCB(seed=0), LinUCB(seed=0)
    contexts = np.zeros((4, 2), dtype=np.float32)
    for oracle in (TopK, lambda scores: [9], lambda scores: 1 / 0):
        with pytest.raises((InputError, ZeroDivisionError)):
            agent.choose(contexts, oracle=oracle)
    assert agent.clock == 0
    assert [agent.choose(contexts, oracle=TopK(2)).tolist() for _ in range(9)] == [
        spared.choose(contexts, oracle=TopK(2)).tolist() for _ in range(9)
    ]


class FirstOfEquals:
    """An environment whose oracle has no generator of its own."""

    def __init__(self, oracle=best_arm):
        self.candidates, self.oracle = (
            Candidates(np.zeros((4, 1), np.float32), None, Columns.numeric(1)),
            oracle,
        )

    def observe(self):
        return Round(self.candidates, self.oracle)

    def pull(self, choice):
        return Outcome(np.zeros(len(choice)), 0.0)


class Even:
    def score(self, candidates):
        return np.zeros(len(candidates))

    def learn(self, chosen, rewards):
        pass


def test_a_round_is_played_with_a_generator_for_ties():
    assert {int(play_round(Even(), FirstOfEquals())[0][0]) for _ in range(60)} == {0}
    random = np.random.default_rng(0)
    assert {int(play_round(Even(), FirstOfEquals(), random=random)[0][0]) for _ in range(60)} == {0, 1, 2, 3}
    with pytest.raises(ChoiceError, match="rows go from 0 to 3"):
        play_round(Even(), FirstOfEquals(lambda scores: [4]), random=random)


def test_wrong_number_of_scores_is_refused():
    for oracle in (ShortestPath("ab", "bc", "a", "c"), Assignment("ab", "xy")):
        with pytest.raises(ShapeError, match="3 scores for 2 candidates"):
            oracle([1.0, 2.0, 3.0])
