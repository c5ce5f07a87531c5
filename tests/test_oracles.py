from __future__ import annotations

import sys
from itertools import combinations, permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from paths import finite

from treebandit.errors import (
    InputError,
    MissingExtraError,
    NoFeasibleChoiceError,
    ParameterError,
    ShapeError,
)
from treebandit.oracles import Assignment, ShortestPath, TopK, best_arm

few_scores = st.lists(st.integers(-3, 3).map(float), min_size=1, max_size=7)


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


def test_wrong_number_of_scores_is_refused():
    for oracle in (ShortestPath("ab", "bc", "a", "c"), Assignment("ab", "xy")):
        with pytest.raises(ShapeError, match="3 scores for 2 candidates"):
            oracle([1.0, 2.0, 3.0])
