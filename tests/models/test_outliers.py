import math

import numpy as np
import pytest

from treebandit import Bandit, Candidates, Columns, load
from treebandit.errors import SavedFileError
from treebandit.models.linear_scores import LinearEncoder
from treebandit.models.outliers import Outliers


def spent(n, seed=0):
    """Mostly nothing, and now and then an amount with a heavy tail."""
    random = np.random.default_rng(seed)
    return np.where(random.random(n) < 0.1, random.lognormal(0.0, 1.5, n), 0.0)


@pytest.mark.parametrize("rewards", [np.array([0.0, 1e6, 0.0]), np.array([3.0, 3.0]), -np.eye(50)[0]])
def test_two_values_have_no_outliers(rewards):
    assert Outliers.of(rewards, np.arange(len(rewards)) % 2) is None


def test_rewards_too_small_to_have_a_deviation_have_no_outliers():
    assert Outliers.of(np.array([1e-200, 2e-200, 3e-200]), np.zeros(3, np.intp)) is None


@pytest.mark.parametrize(("n", "arms"), [(100, 1), (100, 60), (20_000, 2), (1_000_000, 1)])
def test_the_limit_is_that_of_the_truncated_mean_but_not_near(n, arms):
    rewards, labels = spent(n), np.arange(n) % arms + 7
    outliers = Outliers.of(rewards, labels)
    for place, label in enumerate(range(7, 7 + arms), 1):
        own = rewards[labels == label]
        rows = max(len(own), math.e)
        expected = max(own.std(), rewards.std()) * max(4.0, math.sqrt(rows / (4.0 * math.log(rows))))
        assert outliers.limits[place] == pytest.approx(expected)
    assert outliers.limits[0] == np.inf


def test_outliers_are_cut_off_from_what_was_expected_and_the_mean_stays():
    rewards, expected, arms = spent(2000), np.where(np.arange(2000) < 1000, 5.0, 0.0), np.arange(2000) % 4
    rewards += expected
    outliers = Outliers.of(rewards, arms)
    bounded = outliers.fit(rewards, expected, arms)
    assert bounded.mean() == pytest.approx(rewards.mean())
    errors, limits = bounded - outliers.shift - expected, outliers.limits[arms + 1]
    cut = np.abs(rewards - expected) > limits
    assert cut.any()
    np.testing.assert_allclose(errors[cut], limits[cut])
    np.testing.assert_allclose(errors[~cut], (rewards - expected)[~cut])
    np.testing.assert_allclose(outliers.bounded(rewards, expected, arms), bounded)
    unseen = outliers.bounded(np.array([1e6]), np.zeros(1), np.array([9]))
    assert unseen[0] == pytest.approx(1e6 + outliers.shift)


def test_rewards_without_outliers_are_left_as_they_are():
    rewards, arms = np.random.default_rng(0).random(500), np.arange(500) % 2
    outliers = Outliers.of(rewards, arms)
    assert outliers.fit(rewards, np.zeros(500), arms) is rewards
    assert outliers.shift == 0.0


def test_one_amount_does_not_outweigh_all_other_rows():
    random, rewards = np.random.default_rng(0), spent(600)
    contexts, arms = random.normal(size=(600, 2)).astype(np.float32), random.integers(3, size=600)
    rows = Candidates(contexts, arms, Columns.numeric(2))
    rewards[0] = 1e4
    encoder, _ = LinearEncoder.fit(rows, rewards, arm_encoding="auto", random=random)
    errors = encoder.ridge.predict(rows)[0] - encoder.outliers.shift
    assert np.abs(errors).max() < 0.1 * rewards.std()


def test_an_arm_that_pays_rarely_and_much_keeps_its_mean():
    random = np.random.default_rng(0)
    arms = random.integers(10, size=10_000)
    rewards = np.where(arms == 0, 10.0 * (random.random(10_000) < 0.06), random.random(10_000) < 0.3)
    outliers = Outliers.of(rewards, arms)
    bounded = outliers.fit(rewards, np.full(10_000, rewards.mean()), arms)
    assert bounded[arms == 0].mean() == pytest.approx(rewards[arms == 0].mean(), rel=0.05)


def test_the_best_arm_is_chosen_though_it_pays_rarely():
    random, agent = np.random.default_rng(1), Bandit(seed=1)
    arms, contexts = random.integers(10, size=5000), random.normal(size=(5000, 2))
    rewards = np.where(arms == 0, 10.0 * (random.random(5000) < 0.1), random.random(5000) < 0.3)
    agent.learn(contexts, rewards, arms=arms)
    means = agent.estimate(np.zeros((10, 2)), arms=list(range(10))).mean
    assert np.argmax(means) == 0


def test_a_state_can_be_taken_up_and_a_forged_one_is_refused():
    arms = np.arange(100) % 3
    outliers = Outliers.of(spent(100), arms)
    outliers.shift = 0.5
    again, state = Outliers.restored(outliers.state()), outliers.state()
    np.testing.assert_array_equal(again.limits, outliers.limits)
    assert again.shift == 0.5
    for forged in (
        state | {"limits": -state["limits"]},
        state | {"limits": state["limits"][1:]},
        state | {"limits": state["limits"] * np.nan},
        state | {"shift": math.nan},
        state | {"shift": 1e308},
        {"limits": state["limits"]},
    ):
        with pytest.raises(SavedFileError):
            Outliers.restored(forged)


def test_the_agent_learns_amounts_and_goes_on_from_a_file(tmp_path):
    random, agent = np.random.default_rng(0), Bandit(seed=0)
    contexts, arms = random.normal(size=(1500, 2)), random.integers(3, size=1500)
    agent.learn(contexts[:1000], spent(1000), arms=arms[:1000])
    assert agent.model.encoder.outliers is not None
    agent.save(tmp_path / "agent")
    other = load(tmp_path / "agent")
    for each in (agent, other):
        for t in range(1000, 1100):
            each.learn(contexts[t], 1000.0 * (t == 1050), arms=arms[t : t + 1])
    row = contexts[1400].reshape(1, -1).repeat(3, 0)
    np.testing.assert_array_equal(
        agent.estimate(row, arms=[0, 1, 2]).mean, other.estimate(row, arms=[0, 1, 2]).mean
    )
