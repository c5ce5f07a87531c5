"""Forests of a learner of one's own: what is no forest is refused, and rows stay as they are."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pytest

from treebandit import TETS, Bandit, Forest, HistogramForest, TreeBootstrap, TreeEnsembleRegressor
from treebandit.errors import InputError, ParameterError, ShapeError

ROWS = np.random.default_rng(0).normal(size=(50, 3)).astype(np.float32)
REWARDS = ROWS[:, 0].astype(np.float64)


@dataclass(frozen=True)
class Returns:
    """Returns whatever it is told to."""

    make: Callable

    def fit(self, features, targets, *, seed):
        return self.make(features)


@dataclass(frozen=True)
class Overwrites:
    """Writes into the rows that it is given."""

    def fit(self, features, targets, *, seed):
        forest = HistogramForest(n_trees=3).fit(features, targets, seed=seed)
        features[:], targets[:] = 7.0, 3.0
        return forest


@dataclass(frozen=True)
class OverwritesInSteps(HistogramForest):
    """The same, in steps."""

    def fit_steps(self, features, targets, **known):
        forest = yield from super().fit_steps(features, targets, **known)
        features[:], targets[:] = 7.0, 3.0
        return forest


def stump(**changes):
    given = {
        "sizes": [3],
        "left": [1, -1, -1],
        "right": [2, -1, -1],
        "feature": [0, 0, 0],
        "threshold": [0.0, 0.0, 0.0],
        "missing_left": [True] * 3,
        "value": [0.0, 1.0, 2.0],
        "n_features": 3,
    }
    return Forest.from_nodes(**given | changes)


WRONG = {
    "feature too large": {"feature": [3, 0, 0]},
    "feature that would change the way to the children": {"feature": [2000, 0, 0]},
    "negative feature": {"feature": [-1, 0, 0]},
    "half a feature": {"feature": [0.5, 0, 0]},
    "child in no tree": {"right": [3, -1, -1]},
    "the root as child": {"right": [0, -1, -1]},
    "one leaf as both children": {"right": [1, -1, -1]},
    "a circle": {"left": [1, 1, -1], "right": [2, 2, -1]},
    "a circle of two": {"sizes": [4], "left": [1, 2, 1, -1], "right": [3, 3, 3, -1]}
    | {name: [0] * 4 for name in ("feature", "threshold", "missing_left", "value")},
    "a child in another tree": {"sizes": [1, 2], "left": [1, -1, -1], "right": [2, -1, -1]},
    "no right child": {"right": [-1, -1, -1]},
    "value NaN": {"value": [0.0, np.nan, 1.0]},
    "value infinite": {"value": [0.0, 1.0, np.inf]},
    "threshold NaN": {"threshold": [np.nan, 0.0, 0.0]},
    "base NaN": {"base": np.nan},
    "base as text": {"base": "x"},
    "rate negative": {"learning_rate": -1.0},
    "rate too large": {"learning_rate": 2.0},
    "no columns": {"n_features": 0},
    "columns as text": {"n_features": "3"},
    "fewer values": {"value": [0.0, 1.0]},
    "sizes of other nodes": {"sizes": [4]},
    "no trees": {"sizes": []},
    "an empty tree": {"sizes": [0, 3]},
    "values as text": {"value": ["a", "b", "c"]},
    "bags of no tree": {"in_bag": np.ones((50, 2), bool)},
}


@pytest.mark.parametrize("changes", WRONG.values(), ids=WRONG)
def test_nodes_that_are_no_trees_are_refused(changes):
    with pytest.raises((ParameterError, ShapeError), match="; give"):
        stump(**changes)


def test_values_and_columns_of_no_use_may_be_anything():
    forest = stump(value=[np.nan, 1.0, 2.0], feature=[1, -7, 99], threshold=[-np.inf, np.nan, np.nan])
    assert forest.predict(np.array([[0, -5, 0], [0, np.nan, 0]], np.float32)).tolist() == [2.0, 1.0]


def test_a_forest_cannot_be_changed_into_none():
    with pytest.raises(ParameterError, match="base is nan"):
        replace(stump(), base=np.nan)
    with pytest.raises(ParameterError, match="do not form trees"):
        replace(stump(), nodes=stump().nodes[1:])


JUNK = {
    "nothing": (lambda rows: None, "returned None; return a Forest"),
    "a learner": (lambda rows: HistogramForest(), "return a Forest"),
    "another width": (lambda rows: stump(n_features=9), "of 9 features for rows of"),
    "other bags": (
        lambda rows: stump(n_features=rows.shape[1], in_bag=np.ones((3, 1), bool)),
        "in_bag has 3 rows",
    ),
    "bad nodes": (lambda rows: stump(n_features=rows.shape[1], feature=[99, 0, 0]), "feature 99"),
}


def _taught(agent):
    if isinstance(agent, TreeEnsembleRegressor):
        return agent.fit(ROWS, REWARDS)
    agent.learn(ROWS, REWARDS, arms=np.arange(50) % 2)
    return agent.choose(ROWS[:2], arms=[0, 1])  # TreeBootstrap grows its trees for decisions


@pytest.mark.parametrize("make", [TETS, Bandit, TreeBootstrap, TreeEnsembleRegressor])
@pytest.mark.parametrize(("returned", "told"), JUNK.values(), ids=JUNK)
def test_learners_that_return_no_forest_for_the_rows_are_refused(make, returned, told):
    options = {"random_state": 0} if make is TreeEnsembleRegressor else {"seed": 0}
    agent = make(Returns(returned), **options | ({"mode": "replicates"} if make is TreeBootstrap else {}))
    with pytest.raises(InputError, match=told):
        _taught(agent)


@pytest.mark.parametrize("trees", [Overwrites(), OverwritesInSteps(n_trees=3)])
def test_learners_that_write_into_their_rows_change_nothing(trees):
    given = ROWS.copy(), REWARDS.copy()
    for agent in (
        TETS(trees, seed=0, standardise=False),
        Bandit(trees, seed=0),
        TETS(trees, variance="calibrated"),
    ):
        agent.learn(*given)
        np.testing.assert_array_equal(agent.model.history.contexts, ROWS)
        np.testing.assert_array_equal(agent.model.history.rewards, REWARDS)
    for variance in ("leaf", "calibrated"):
        TreeEnsembleRegressor(trees, variance=variance, memory=40, random_state=0).fit(*given)
    np.testing.assert_array_equal(given[0], ROWS)
    np.testing.assert_array_equal(given[1], REWARDS)


def test_a_learner_that_writes_into_its_rows_grows_the_same_agent():
    plain = TETS(HistogramForest(n_trees=3), seed=0)
    agents = [plain, TETS(OverwritesInSteps(n_trees=3), seed=0)]
    for agent in agents:
        agent.learn(ROWS, REWARDS)
    assert agents[0].estimate(ROWS).mean.tolist() == agents[1].estimate(ROWS).mean.tolist()
