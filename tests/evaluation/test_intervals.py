"""Intervals: known cases, and coverage of small simulations (docs/results/coverage.md has the large ones)."""

from itertools import pairwise

import numpy as np
import pytest

from treebandit.errors import ParameterError
from treebandit.evaluation import bootstrap, normal, sequence, time_uniform
from treebandit.evaluation.intervals import lower_bound


def test_the_normal_interval_is_the_textbooks():
    found = normal(np.array([1.0, 2.0, 3.0, 4.0]), level=0.95)
    assert (found.low, found.high) == pytest.approx((2.5 - 1.959964 * 0.6454972, 2.5 + 1.959964 * 0.6454972))
    assert normal(np.ones(1)).holds(1e9)


def test_the_bootstrap_is_longer_on_the_side_of_the_tail():
    values = np.random.default_rng(0).lognormal(0, 1.2, 400)
    found, plain = bootstrap(values, seed=1), normal(values)
    assert found.high - values.mean() > plain.high - values.mean()
    assert found.low > plain.low
    assert bootstrap(values, seed=1) == found
    assert bootstrap(np.full(5, 2.0)).low == 2.0


@pytest.mark.parametrize("n", [10, 3_001])
def test_bootstrap_of_many_values_resamples_blocks(n):
    values = np.random.default_rng(0).normal(size=n)
    found = bootstrap(values, seed=0)
    assert found.high - found.low == pytest.approx(2 * 1.96 / np.sqrt(n), rel=0.5 if n == 10 else 0.1)


def test_the_bootstrap_of_blocks_that_are_all_alike_is_the_normal_interval():
    """The one value that differs is left over behind the last block."""
    values = np.append(np.zeros(4_000), 5.0)
    assert bootstrap(values) == normal(values)


def logged(random, n, floor=0.1):
    """Weights and rewards of a logged bandit with two arms, and the true value of its target."""
    first = random.random(n) < 1 - floor
    target = 0.3
    weight = np.where(first, (1 - target) / (1 - floor), target / floor)
    reward = (random.random(n) < np.where(first, 0.2, 0.7)).astype(float)
    return weight, reward, (1 - target) * 0.2 + target * 0.7


def test_time_uniform_intervals_hold_at_all_times_at_once():
    random = np.random.default_rng(0)
    missed = 0
    for _ in range(200):
        weight, reward, truth = logged(random, 2_000)
        found = sequence(reward, weight, reward_range=(0, 1), points=30)
        missed += any(not each.holds(truth) for _, each in found)
        widths = [each.high - each.low for _, each in found]
        assert all(late <= early + 1e-12 for early, late in pairwise(widths))
    assert missed <= 14  # 10 expected at most; 20 would be 5 sd of a nominal 5 %


def test_time_uniform_intervals_follow_the_unit_of_rewards():
    weight, reward, _ = logged(np.random.default_rng(3), 1_000)
    plain = time_uniform(reward, weight, reward_range=(0, 1))
    scaled = time_uniform(reward * 20 - 5, weight, reward_range=(-5, 15))
    assert (scaled.low, scaled.high) == pytest.approx((plain.low * 20 - 5, plain.high * 20 - 5), abs=1e-4)


def test_rounding_makes_lower_bounds_no_higher():
    values = np.random.default_rng(0).lognormal(-2, 1, 5_000)
    exact = min(lower_bound(values[:700], 0.05), 1.0)
    many = lower_bound(np.tile(values[:700], 2), 0.05)
    assert many >= exact  # twice the evidence
    assert lower_bound(values, 0.05) < values.mean()


@pytest.mark.parametrize("limits", [(0, 0.5), (1, 0), (0, np.inf)])
def test_reward_ranges_must_hold_the_rewards(limits):
    with pytest.raises(ParameterError, match="give the least and the greatest possible reward"):
        time_uniform(np.array([0.0, 1.0]), np.ones(2), reward_range=limits)


def test_no_decisions_tell_nothing():
    found = time_uniform(np.zeros(0), np.zeros(0), reward_range=(0, 1))
    assert (found.low, found.high) == (0, 1)
    assert sequence(np.zeros(0), np.zeros(0), reward_range=(0, 1)) == []
