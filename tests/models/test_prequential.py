"""Many rows learned at once tell as much of the model as the same rows one by one."""

import numpy as np
import pytest

from treebandit import TETS, Bandit, LinUCB
from treebandit.models.prequential import BULK, split_bulk


def linear_problem(n=1500, width=12):
    random = np.random.default_rng(0)
    slopes = random.normal(size=(2, width))
    contexts, arms = random.normal(size=(n, width)), random.integers(0, 2, n)
    means = (contexts * slopes[arms]).sum(1)
    return contexts, means + 0.5 * random.normal(size=n), arms, means


@pytest.mark.parametrize("size", [1500, 500])
def test_weights_of_a_bulk_are_about_those_of_rows_one_by_one(size, tmp_path):
    contexts, rewards, arms, means = linear_problem()
    bulk = Bandit(seed=0)
    for start in range(0, len(arms), size):
        part = slice(start, start + size)
        bulk.learn(contexts[part], rewards[part], arms=arms[part])
    assert bulk.linear_weight > 0.9
    error = np.sqrt(np.mean((bulk.estimate(contexts, arms=arms).mean - means) ** 2))
    assert error < 0.1 * means.std()
    bulk.save(tmp_path / "agent.treebandit", history=False)
    assert Bandit.load(tmp_path / "agent.treebandit").linear_weight == bulk.linear_weight


def test_where_a_linear_model_is_wrong_a_bulk_gives_it_no_weight():
    random = np.random.default_rng(0)
    contexts, arms = random.normal(size=(1500, 4)), random.integers(0, 2, 1500)
    rewards = ((contexts[:, 0] * contexts[:, 1] > 0) == (arms == 1)).astype(float)
    agent = Bandit(seed=0)
    agent.learn(contexts, rewards, arms=arms)
    assert agent.linear_weight < 0.1


@pytest.mark.parametrize("make", [Bandit, LinUCB, TETS])
def test_a_change_after_a_bulk_is_noticed(make):
    random, n = np.random.default_rng(0), 2000
    contexts, arms = random.normal(size=(n, 3)), random.integers(0, 2, n)
    rewards = ((contexts[:, 0] > 0) == (arms == 1)) + 0.1 * random.normal(size=n)
    agent, right = make(memory="auto", seed=0), []
    agent.learn(contexts, rewards, arms=arms)
    for _ in range(300):
        row = random.normal(size=3)
        decision = agent.decide(row, arms=[0, 1], draws=5)
        right.append(decision.arm == int(row[0] <= 0))  # turned round
        agent.learn(decision, float(right[-1]) + 0.1 * random.normal())
    assert np.mean(right[200:]) > 0.85
    assert len(agent.model.history) < n


def test_a_bulk_changes_nothing_where_it_fails(monkeypatch):
    contexts, rewards, arms, _ = linear_problem(600)
    agent = Bandit(seed=0)

    def fail(*given, **named):
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr(type(agent.model), "fit_steps", fail)
        with pytest.raises(MemoryError):
            agent.learn(contexts, rewards, arms=arms)
    assert len(agent.model.history) == 0
    other = Bandit(seed=0)
    for each in (agent, other):
        each.learn(contexts, rewards, arms=arms)
    np.testing.assert_array_equal(*(each.estimate(contexts, arms=arms).mean for each in (agent, other)))


@pytest.mark.parametrize("n", [BULK, 5_000, 100_000])
def test_the_rows_that_are_predicted_come_after_those_that_are_fitted(n):
    first, newest = split_bulk(n)
    assert first.stop == newest.start
    assert newest.stop == n
    assert 100 < newest.stop - newest.start <= first.stop
    assert first.stop - first.start <= 16_384
