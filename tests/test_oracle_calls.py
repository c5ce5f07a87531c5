"""How oracles are called: with a generator or without, what they return, and agents that have a bad one."""

from __future__ import annotations

import copy
from functools import partial
from itertools import combinations

import numpy as np
import pytest
from paths import grid_path

from treebandit.agents import TETS, LinUCB
from treebandit.core import Candidates, Columns, Outcome, Round, choose_with, play_round
from treebandit.errors import (
    ChoiceError,
    InputError,
    ParameterError,
)
from treebandit.oracles import Assignment, ShortestPath, TopK, best_arm
from treebandit.trees import HistogramForest


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


def without_the_first(scores):
    """Masks in place, as oracles of one's own often do."""
    scores[0] = -np.inf
    return [int(np.argmax(scores))]


@pytest.mark.parametrize(
    "agent", [LinUCB(seed=0), TETS(HistogramForest(n_trees=5), seed=0)], ids=lambda each: type(each).__name__
)
def test_an_oracle_may_write_into_its_scores(agent):
    rows = np.random.default_rng(0).normal(size=(60, 3))
    agent.learn(rows, rows[:, 0])

    def plain(scores):
        return [1 + int(np.argmax(scores[1:]))]

    for ask in (agent.choose, agent.probabilities):
        twin = copy.deepcopy(agent)
        assert (
            ask(rows[:4], oracle=without_the_first).tolist()
            == getattr(twin, ask.__name__)(rows[:4], oracle=plain).tolist()
        )
    twin = copy.deepcopy(agent)
    told, expected = agent.decide(rows[:4], oracle=without_the_first), twin.decide(rows[:4], oracle=plain)
    assert told.scores.tolist() == expected.scores.tolist()
    assert told.probabilities.tolist() == expected.probabilities.tolist()


def test_scores_that_are_given_stay_as_they_are():
    scores = np.array([3.0, 1.0, 2.0])
    scores.setflags(write=False)
    assert choose_with(without_the_first, scores).tolist() == [2]
    assert scores.tolist() == [3.0, 1.0, 2.0]
