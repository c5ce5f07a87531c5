"""Choices do not depend on the unit of the rewards: a · r + b with a > 0 gives the same."""

from functools import cache

import numpy as np
import pytest
from every import EVERY

import treebandit

ROUNDS = 120


@cache
def choices(name, a=1.0, b=0.0, rounds=ROUNDS):
    """Rows chosen among three arms, of which x0 tells the best; rewards are a · r + b."""
    agent, random, chosen = EVERY[name](), np.random.default_rng(5), []
    for _ in range(rounds):
        x = random.uniform(-1, 1, 3)
        best = 0 if x[0] > 0.3 else 1 if x[0] < -0.3 else 2
        noise = round(random.normal(), 2)
        row = int(agent.choose(x, arms=[0, 1, 2])[0])
        chosen.append((row, row == best))
        agent.learn(x, a * (float(row == best) + 0.25 * noise) + b, arms=[row])
    return chosen


@pytest.mark.parametrize("power", [-40, -3, 7, 60])
@pytest.mark.parametrize("name", EVERY)
def test_powers_of_two_change_nothing(name, power):
    assert choices(name, a=2.0**power) == choices(name)


@pytest.mark.parametrize(
    ("a", "b"), [(1e-6, 0.0), (1e-9, 0.0), (1e30, 0.0), (1.0, 1e6), (1.0, -1e9), (1e-3, 1e3)]
)
@pytest.mark.parametrize(
    "name", ["Bandit", "TEUCB-XGBoost", "TETS-RF", "TETS-LightGBM", "LinUCB", "LinTS", "NeuralUCB"]
)
def test_other_units_are_learned_as_well(name, a, b):
    """Rounding may break ties otherwise; what is learned is the same."""

    def right(**unit):
        return np.mean([good for _, good in choices(name, **unit, rounds=300)[150:]])

    assert right(a=a, b=b) > right() - 0.12


@pytest.mark.parametrize("name", [name for name in EVERY if not name.startswith("UCB1")])
def test_estimates_come_back_in_the_unit_of_the_rewards(name):
    random = np.random.default_rng(0)
    x, arms = random.normal(size=(200, 2)), np.arange(200) % 2
    rewards = 1e4 + 10.0 * (x[:, 0] > 0) + arms
    agent = EVERY[name]()
    agent.learn(x, rewards, arms=arms)
    estimate = agent.estimate(x, arms=arms)
    assert abs(estimate.mean.mean() - rewards.mean()) < 3.0
    assert (estimate.variance < 1e3).all()


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("small", [1e-12, 1e-300, 5e-324])
def test_a_reward_beyond_32_bits_in_the_units_of_before_is_learned_and_saved(name, small, tmp_path):
    agent = EVERY[name]()
    for row in range(40):
        agent.learn([float(row % 3)], small * (1 + row % 4), arms=row % 2)
    for reward in (1e30, 2e30):
        agent.learn([1.0], reward, arms=0)
    agent.save(tmp_path / "agent")
    loaded = treebandit.load(tmp_path / "agent")
    assert loaded.choose([1.0], arms=[0, 1]).tolist() == agent.choose([1.0], arms=[0, 1]).tolist()
