"""Draws from the posterior of BART: as stochtree predicts them, and an agent that follows one at a time."""

import numpy as np
import pytest
from stochtree import BARTModel

from treebandit import BartTS, Candidates, Columns, Uniform, play_round
from treebandit.environments import Synthetic
from treebandit.errors import ParameterError, SavedFileError
from treebandit.trees.bart import MIN_SAMPLES_LEAF, PosteriorSettings, predictions, sample_posterior


@pytest.fixture
def rows():
    random = np.random.default_rng(0)
    features = random.normal(size=(200, 4)).astype(np.float32)
    targets = np.where(features[:, 0] > 0, 1.0, -1.0) + 0.1 * random.normal(size=200)
    features[random.random(features.shape) < 0.1] = np.nan
    return features, (targets - targets.mean()) / targets.std()


def test_predictions_are_those_of_stochtree(rows):
    features, targets = rows
    forest = sample_posterior(features, targets, PosteriorSettings(20, 5, 2, 3), seed=3)
    filled = np.where(np.isnan(features), np.nanmin(features, axis=0) - 1.0, features.astype(float))
    model = BARTModel()
    model.sample(
        filled,
        targets,
        num_gfr=3,
        num_burnin=2,
        num_mcmc=5,
        general_params={
            **{"random_seed": 3, "num_threads": 1, "standardize": False},
            **{"sigma2_init": 1.0, "sigma2_global_scale": 1e-6},
        },
        mean_forest_params={"num_trees": 20, "min_samples_leaf": MIN_SAMPLES_LEAF},
    )
    theirs = model.predict(filled)["y_hat"].T
    assert predictions(forest, features, 5) == pytest.approx(theirs, abs=1e-12)


def test_draws_agree_where_there_are_rows_and_spread_where_there_are_none():
    random = np.random.default_rng(1)
    agent = BartTS(random_rounds=0, seed=0)
    contexts = random.uniform(0.0, 1.0, size=(200, 1))
    rewards = contexts[:, 0] + 0.1 * random.normal(size=200)
    agent.learn(contexts, rewards, arms=["a"] * 180 + ["b"] * 15 + ["c"] * 5)
    found = agent.estimate([0.5], arms=["a", "b", "c"])
    assert found.mean[0] == pytest.approx(0.5, abs=0.1)
    assert found.variance[0] < found.variance[1] < found.variance[2]
    # Five rows are too few for a tree: the scale of all rewards is all that is known.
    assert found.mean[2] == pytest.approx(rewards.mean())
    assert found.variance[2] == pytest.approx(rewards.var(), rel=0.01)
    assert found.count.tolist() == [180, 15, 5]


def test_candidates_of_one_arm_follow_the_same_draw():
    agent = BartTS(n_trees=5, draws=3, random_rounds=0, seed=0)
    contexts = np.random.default_rng(3).normal(size=(60, 2))
    agent.learn(contexts, contexts[:, 0], arms=["a", "b"] * 30)
    rows = Candidates(
        np.repeat(contexts[:1].astype(np.float32), 4, 0), np.array([0, 0, 1, 1]), Columns.numeric(2)
    )
    samples = agent.model.sample(rows, 50, np.random.default_rng(0))
    assert (samples[:, 0] == samples[:, 1]).all()
    assert len(np.unique(samples[:, 0])) <= 3
    assert len(np.unique(samples[:, [0, 2]], axis=0)) > 3  # arms are drawn apart


def test_rewards_that_are_all_the_same_are_expected_everywhere():
    agent = BartTS(n_trees=5, draws=3, random_rounds=0, seed=0)
    agent.learn(np.arange(40.0)[:, None], [7.0] * 40, arms=["a", "b"] * 20)
    found = agent.estimate([3.0], arms=["a", "b"])
    assert found.mean.tolist() == [7.0, 7.0]
    assert found.variance.tolist() == [0.0, 0.0]


def test_rewards_that_trees_fit_exactly_can_be_learned():
    random = np.random.default_rng(48)
    rows = random.normal(size=(int(random.integers(11, 60)), 1)).astype(np.float32)
    paid = (rows[:, 0] > 0).astype(float)
    settings = PosteriorSettings(n_trees=5, draws=3, burn_in=100)
    forest = sample_posterior(
        rows, (paid - paid.mean()) / paid.std(), settings, seed=int(random.integers(2**31))
    )
    assert forest.n_trees == 15


@pytest.mark.parametrize("unit", [1e-9, 1e20])
def test_choices_do_not_depend_on_the_unit_of_the_rewards(unit):
    random = np.random.default_rng(2)
    contexts, rewards = random.normal(size=(40, 2)), random.normal(size=40)
    plain, scaled = (BartTS(n_trees=5, draws=3, random_rounds=0, seed=0) for _ in range(2))
    plain.learn(contexts, rewards, arms=["a", "b"] * 20)
    scaled.learn(contexts, unit * rewards, arms=["a", "b"] * 20)
    expected = plain.estimate(contexts[:5], arms=["a"] * 5).mean
    assert scaled.estimate(contexts[:5], arms=["a"] * 5).mean / unit == pytest.approx(expected, rel=1e-6)


def test_it_learns_a_problem():
    regret = {}
    for agent in (BartTS(n_trees=20, draws=10, random_rounds=5, seed=0), Uniform(seed=0)):
        environment = Synthetic(seed=0)
        regret[type(agent)] = sum(play_round(agent, environment)[1].regret for _ in range(300))
    assert regret[BartTS] < 0.7 * regret[Uniform]


def test_a_file_with_other_trees_is_refused():
    agent = BartTS(n_trees=5, draws=3, random_rounds=0, seed=0)
    agent.learn(np.arange(40.0)[:, None], np.arange(40.0), arms=["a", "b"] * 20)
    state = agent.model.state()
    other = BartTS(n_trees=5, draws=4, random_rounds=0, seed=0)
    with pytest.raises(SavedFileError, match="trees"):
        other.model.restore(state)


@pytest.mark.parametrize(
    "wrong", [{"n_trees": 0}, {"draws": 0}, {"burn_in": -1}, {"warm_start": 0.5}, {"exploration": -1.0}]
)
def test_wrong_arguments_are_refused(wrong):
    with pytest.raises(ParameterError):
        BartTS(**wrong)
