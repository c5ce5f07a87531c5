import math

import numpy as np
import pytest

from treebandit import Bandit, Candidates, Columns
from treebandit.errors import SavedFileError
from treebandit.models.linear_scores import LinearEncoder
from treebandit.models.outliers import Outliers


def spent(n, seed=0):
    """Mostly nothing, and now and then an amount with a heavy tail."""
    random = np.random.default_rng(seed)
    return np.where(random.random(n) < 0.1, random.lognormal(0.0, 1.5, n), 0.0)


@pytest.mark.parametrize("rewards", [np.array([0.0, 1e6, 0.0]), np.array([3.0, 3.0]), -np.eye(50)[0]])
def test_two_values_have_no_outliers(rewards):
    outliers = Outliers.of(rewards, 2)
    assert not outliers.limited
    assert outliers.bounded(rewards, np.zeros(len(rewards))) is rewards
    assert outliers.state() is None


@pytest.mark.parametrize(("n", "arms"), [(100, 1), (100, 200), (20_000, 2), (1_000_000, 1)])
def test_the_limit_is_that_of_the_truncated_mean_but_not_near(n, arms):
    rewards = spent(n)
    rows = max(n / arms, math.e)
    expected = rewards.std() * max(4.0, math.sqrt(rows / (4.0 * math.log(rows))))
    assert Outliers.of(rewards, arms).limit == pytest.approx(expected)


def test_outliers_are_cut_off_from_what_was_expected_and_the_mean_stays():
    rewards, expected = spent(2000), np.where(np.arange(2000) < 1000, 5.0, 0.0)
    rewards += expected
    outliers = Outliers.of(rewards, 4)
    bounded = outliers.fit(rewards, expected)
    assert bounded.mean() == pytest.approx(rewards.mean())
    errors = bounded - outliers.shift - expected
    assert np.abs(errors).max() == pytest.approx(outliers.limit)
    within = np.abs(rewards - expected) < outliers.limit
    np.testing.assert_allclose(errors[within], (rewards - expected)[within])
    np.testing.assert_allclose(outliers.bounded(rewards, expected), bounded)


def test_rewards_without_outliers_are_left_as_they_are():
    rewards = np.random.default_rng(0).random(500)
    outliers = Outliers.of(rewards, 2)
    assert outliers.limited
    assert outliers.fit(rewards, np.zeros(500)) is rewards
    assert outliers.shift == 0.0


def rows_of(n, seed=0):
    random = np.random.default_rng(seed)
    contexts, arms = random.normal(size=(n, 2)).astype(np.float32), random.integers(3, size=n)
    return Candidates(contexts, arms, Columns.numeric(2))


def test_one_amount_does_not_outweigh_all_other_rows():
    rows, rewards = rows_of(600), spent(600)
    few = [], []
    for worst in (rewards.max(), 1e4):
        rewards[0] = worst
        encoder, _ = LinearEncoder.fit(rows, rewards, arm_encoding="auto", random=np.random.default_rng(0))
        few[0].append(encoder.ridge.predict(rows)[0].std() / rewards.std())
        few[1].append(encoder.outliers.limit / rewards.std())
    assert few[0][1] < 0.2
    assert few[1] == [4.0, 4.0]


def test_a_state_can_be_taken_up_and_a_forged_one_is_refused():
    outliers = Outliers(2.0, 0.5)
    again = Outliers.restored(outliers.state())
    assert (again.limit, again.shift) == (2.0, 0.5)
    assert not Outliers.restored(None).limited
    for forged in ({"limit": -1.0, "shift": 0.0}, {"limit": 1.0, "shift": math.nan}, {"limit": 1.0}):
        with pytest.raises(SavedFileError):
            Outliers.restored(forged)


def test_the_agent_learns_amounts_and_goes_on_from_a_file(tmp_path):
    random, agent = np.random.default_rng(0), Bandit(seed=0)
    contexts, arms = random.normal(size=(1500, 2)), random.integers(3, size=1500)
    agent.learn(contexts[:1000], spent(1000), arms=arms[:1000])
    assert agent.model.encoder.outliers.limited
    agent.save(tmp_path / "agent")
    from treebandit import load

    other = load(tmp_path / "agent")
    for each in (agent, other):
        for t in range(1000, 1100):
            each.learn(contexts[t], 1000.0 * (t == 1050), arms=arms[t : t + 1])
    row = contexts[1400].reshape(1, -1).repeat(3, 0)
    np.testing.assert_array_equal(
        agent.estimate(row, arms=[0, 1, 2]).mean, other.estimate(row, arms=[0, 1, 2]).mean
    )
