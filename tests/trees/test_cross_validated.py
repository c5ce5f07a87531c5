from dataclasses import dataclass

import numpy as np
import pytest

from treebandit import TEUCB, CrossValidatedTrees, LightGBMTrees, RandomForestTrees, XGBoostTrees, play_round
from treebandit.environments import Classification
from treebandit.errors import ParameterError
from treebandit.trees.cross_validated import _squared_errors


def table(n, noise):
    random = np.random.default_rng(0)
    features = random.normal(size=(n, 3)).astype(np.float32)
    return features, np.sign(features[:, 0]) + noise * random.normal(size=n)


def test_errors_are_those_of_ensembles_of_fewer_trees():
    features, targets = table(80, 0.5)
    learner = XGBoostTrees(n_trees=12, max_depth=3)
    errors = _squared_errors(learner.fit(features, targets, seed=0), features, targets, 12)
    for count in (1, 5, 12):
        fewer = XGBoostTrees(n_trees=count, max_depth=3).fit(features, targets, seed=0)
        assert errors[count - 1] == pytest.approx(
            np.square(fewer.predict(features) - targets).sum(), rel=1e-4
        )


def test_a_forest_that_stopped_growing_keeps_its_last_error():
    features, targets = table(80, 0.5)
    forest = XGBoostTrees(n_trees=3, max_depth=3).fit(features, targets, seed=0)
    own = _squared_errors(forest, features, targets, 3).tolist()
    assert _squared_errors(forest, features, targets, 6).tolist() == own + own[-1:] * 3
    one = XGBoostTrees(n_trees=1).fit(features, targets, seed=0)
    assert _squared_errors(one, features, targets, 4).shape == (4,)


def test_trees_that_stop_early_are_taken():
    features = np.arange(60, dtype=np.float32)[:, None]
    step = (features[:, 0] > 30).astype(float)
    trees = CrossValidatedTrees(LightGBMTrees(n_trees=100, learning_rate=0.5))
    forest = trees.fit(features, step, seed=0)
    assert np.abs(forest.predict(features) - step).mean() < 0.1
    assert trees.fit(features, np.ones(60), seed=0).predict(features).tolist() == [1.0] * 60


@pytest.mark.parametrize("rows", [4, 60])
def test_trees_that_are_averaged_are_refused(rows):
    @dataclass
    class Averaged:
        n_trees: int = 5
        learning_rate: float = 0.1

        def fit(self, features, targets, *, seed):
            return LightGBMTrees(n_trees=self.n_trees, mode="forest").fit(features, targets, seed=seed)

    with pytest.raises(ParameterError, match="trees that are averaged"):
        CrossValidatedTrees(Averaged()).fit(*table(rows, 0.5), seed=0)


def test_noise_gets_few_trees_and_a_clear_rule_more():
    noise, rule = (
        [CrossValidatedTrees().fit(*table(150, sd), seed=s).n_trees for s in range(3)] for sd in (5.0, 0.05)
    )
    assert max(noise) < min(rule)


def test_with_too_few_rows_there_is_one_tree():
    features, targets = table(5, 1.0)
    assert CrossValidatedTrees().fit(features, targets, seed=0).n_trees == 1


def test_a_greedy_agent_learns_with_it():
    agent = TEUCB(CrossValidatedTrees(XGBoostTrees(n_trees=20, max_depth=4)), exploration=0.0, seed=0)
    environment = Classification("mushroom", seed=0)
    regret = sum(play_round(agent, environment)[1].regret for _ in range(600))
    assert regret < 120


def test_bad_arguments_are_refused():
    with pytest.raises(ParameterError, match="folds is 1"):
        CrossValidatedTrees(folds=1)
    for forest in (RandomForestTrees(), LightGBMTrees(mode="forest")):
        with pytest.raises(ParameterError, match="give boosted trees"):
            CrossValidatedTrees(forest)
