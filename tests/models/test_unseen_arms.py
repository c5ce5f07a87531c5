import numpy as np
import pytest

from treebandit import Bandit, Candidates, Columns, HistogramForest
from treebandit.models.tree_settings import TreeSettings
from treebandit.models.unseen_arms import UnseenArms, unseen_arms
from treebandit.steps import exhausted

SETTINGS = TreeSettings(HistogramForest())


def made_log(arms=120, *, rows=5, effect=1.0, seed=0):
    """Rows whose features tell one half of what an arm pays, and its label the other; and what it pays."""
    random = np.random.default_rng(seed)
    features = random.normal(size=(arms, 2)).astype(np.float32)
    means = features[:, 0] + effect * random.normal(size=arms)
    learned = random.permutation(np.repeat(np.arange(arms), rows))
    log = Candidates(features[learned], learned, Columns.numeric(2))
    return log, means[learned] + 0.5 * random.normal(size=len(learned)), features, means


class OtherTrees:
    """A tree learner without steps."""

    def fit(self, features, targets, *, seed):
        return HistogramForest(n_trees=20).fit(features, targets, seed=seed)


def found(log, rewards, settings=SETTINGS):
    random = np.random.default_rng(0)
    return exhausted(unseen_arms(log, rewards, settings, linear=True, random=random))


@pytest.mark.parametrize("encoding", ["auto", "one_hot", "none"])
def test_a_fifth_of_the_arms_is_predicted_without_their_rows(encoding):
    log, rewards, *_ = made_log()
    unseen = found(log, rewards, TreeSettings(HistogramForest(), arm_encoding=encoding))
    assert len(np.unique(unseen.arms)) == 24
    out = np.isin(log.arms, unseen.arms)
    np.testing.assert_array_equal(unseen.rewards, rewards[out])
    others = rewards + 100.0 * out  # not seen, whatever they are
    again = found(log, others, TreeSettings(HistogramForest(), arm_encoding=encoding))
    np.testing.assert_array_equal(again.trees, unseen.trees)
    np.testing.assert_array_equal(again.scores, unseen.scores)


def test_long_logs_are_cut():
    unseen = found(*made_log(1000, rows=40)[:2])
    assert len(np.unique(unseen.arms)) == 128
    assert len(unseen.arms) == 1024


def test_a_prediction_is_that_of_trees_and_regression():
    unseen = UnseenArms(np.arange(2), np.array([1.0, 2.0]), np.array([3.0, 2.0]), np.zeros(2))
    np.testing.assert_array_equal(unseen.predicted(0.25), [1.5, 2.0])


@pytest.mark.parametrize("known", [66, 120])
@pytest.mark.parametrize(
    "arguments",
    [{}, {"arm_encoding": "one_hot"}, {"arm_encoding": "none"}, {"trees": OtherTrees()}],
)
def test_an_arm_that_a_log_does_not_hold_is_not_known(arguments, known):
    log, rewards, features, means = made_log(200)
    learned = log.arms < known
    agent = Bandit(seed=0, **arguments)
    agent.learn(log[learned], rewards[learned])
    estimate = agent.estimate(features[known:], arms=np.arange(known, 200))
    error = np.sqrt(np.mean((estimate.mean - means[known:]) ** 2))
    told = np.sqrt(estimate.variance.mean())
    assert 0.6 * error < told < 1.6 * error


def test_arms_that_a_log_does_not_hold_are_tried():
    tried = []
    for seed in range(8):
        log, rewards, features, _ = made_log(200, seed=seed)
        learned, agent = log.arms < 120, Bandit(seed=0)
        agent.learn(log[learned], rewards[learned])
        rows = Candidates(features, np.arange(200), log.columns)
        best = [
            agent.policy.draws(agent.model, rows, t=600, random=np.random.default_rng(s), size=1).argmax()
            for s in range(200)
        ]
        tried.append(np.mean(np.array(best) >= 120))
    assert np.mean(tried) > 0.02


@pytest.mark.parametrize(("rows", "active"), [(5, True), (50, False)])
def test_paths_are_left_alone(rows, active):
    """With many rows a round new arms come along, and draws of their effects would be too many."""
    log, rewards, *_ = made_log(100, rows=5)
    agent = Bandit(seed=0, random_start="rounds", random_rounds=500 // rows)
    for start in range(0, 500, rows):
        agent.score(log[:rows])
        agent.learn(log[start : start + rows], rewards[start : start + rows])
    assert len(agent.model.history) == 500
    assert agent.model.encoder.effects.active == active


def test_arms_that_are_all_in_their_features_have_hardly_an_effect():
    random = np.random.default_rng(0)
    contexts, arms = random.normal(size=(2000, 3)).astype(np.float32), random.integers(0, 200, 2000)
    agent = Bandit(seed=0)
    agent.learn(contexts, contexts[:, 0] + np.abs(contexts[:, 1]) + 0.5 * random.normal(size=2000), arms=arms)
    effects = agent.model.encoder.effects
    assert max(effects.variances[0], effects.unseen[0]) < 0.1 * effects.variances[1]


def test_a_copy_made_while_arms_are_held_out_goes_on_alike(tmp_path):
    log, rewards, features, _ = made_log(100, rows=6)
    agent = Bandit(
        trees=HistogramForest(n_trees=12), rebuild="every 480", random_start="rounds", random_rounds=1, seed=0
    )
    agent.learn(log[:470], rewards[:470])
    for row in range(470, 480):
        agent.learn(log[row : row + 1], rewards[row : row + 1])
    assert agent.model.rebuild is not None
    agent.save(tmp_path / "agent.treebandit")
    again = Bandit.load(tmp_path / "agent.treebandit")
    for each in (agent, again):
        for row in range(480, 500):
            each.learn(log[row : row + 1], rewards[row : row + 1])
        assert each.model.rebuild is None
    effects = agent.model.encoder.effects
    assert effects.active
    np.testing.assert_array_equal(effects.unseen, again.model.encoder.effects.unseen)
    np.testing.assert_array_equal(
        agent.choose(features, arms=np.arange(100)), again.choose(features, arms=np.arange(100))
    )
