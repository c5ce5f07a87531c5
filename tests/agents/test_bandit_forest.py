import math

import numpy as np
import pytest

from treebandit import BanditForest, Candidates, Columns, check_agent
from treebandit.agents.bandit_forest import _thresholds
from treebandit.agents.elimination import EliminationForest, Limits
from treebandit.errors import ArmsError, NotFittedError, ParameterError

ARMS = np.arange(3)


def best_arm_of(x):
    """A tree of depth 2 over three of the variables."""
    return (2 if x[1] else 1) if x[0] else (0 if x[2] else 1)


def play(agent, rounds, seed, variables=8):
    """Regret of every round on the paper's kind of problem: binary variables, few of which matter."""
    random, columns, regrets = np.random.default_rng(seed), Columns((2,) * variables), np.empty(rounds)
    for t in range(rounds):
        x = random.integers(0, 2, variables)
        candidates = Candidates(np.repeat(x[None], 3, 0).astype(np.float32), ARMS, columns)
        row = agent.choose(candidates)
        chance = 0.9 if row[0] == best_arm_of(x) else 0.1
        agent.learn(candidates[row], [float(random.random() < chance)])
        regrets[t] = 0.9 - chance
    return regrets


def test_finds_the_tree_behind_the_rewards():
    agent = BanditForest(n_trees=5, min_depth=3, max_depth=3, variable_share=1.0, radius=0.5, seed=0)
    regrets = play(agent, 5000, seed=0)
    uniform = 2 / 3 * 0.8
    assert regrets[:300].mean() > 0.7 * uniform
    assert regrets[-1000:].mean() < 0.1 * uniform
    # Alone, variables 1 and 2 earn 0.6 and variable 0 earns 0.5, as much as any that does not matter.
    assert set(agent.forest.variable[:5].tolist()) <= {1, 2}


def slow_gain(bits, arms, rewards, plays):
    """Σ_v max_arm Σ reward 1(variable = v) / plays of the arm, written out."""
    gain = []
    for variable in range(bits.shape[1]):
        total = 0.0
        for value in (0, 1):
            here = bits[:, variable] == value
            total += max(rewards[here & (arms == arm)].sum() / plays[arm - 1] for arm in (1, 2))
        gain.append(total)
    return np.array(gain)


def test_variables_leave_when_their_gap_is_sure():
    random = np.random.default_rng(0)
    limits = Limits(4, np.array([2]), np.array([0.2]), variable_share=1.0, delta=0.05, radius=1.0)
    forest = EliminationForest(limits, random)
    forest.widen(3)
    bits, arms = random.random((4000, 4)) < 0.5, np.tile([1, 2], 2000)
    rewards = (random.random(4000) < np.where(bits[:, 2] == (arms == 1), 0.9, 0.1)).astype(float)
    for t in range(4000):
        alone = forest.open[forest.stump[0]].copy()
        forest.learn(bits[t], np.intp(arms[t]), rewards[t], random)
        half = (t + 1) // 2
        if t % 2 == 0:
            continue
        gain = slow_gain(bits[: t + 1], arms[: t + 1], rewards[: t + 1], (half, half))
        alpha = math.sqrt(math.log(4 * 2 * 4 * 2 * 1 * half**2 / 0.05) / (2 * half))
        best = np.where(alone, gain, -1).argmax()
        stay = alone & ((gain[best] - gain + 0.2 < 4 * alpha) | (np.arange(4) == best))
        if stay.sum() == 1:
            assert forest.variable[0] == best == 2
            assert forest.nodes == 3
            return
        assert forest.variable[0] == -1
        np.testing.assert_array_equal(forest.open[forest.stump[0]], stay)
    pytest.fail("no variable was chosen")


def test_arms_leave_a_leaf_when_their_gap_is_sure():
    random = np.random.default_rng(0)
    limits = Limits(0, np.array([1]), np.array([0.0]), variable_share=1.0, delta=0.1, radius=1.0)
    forest = EliminationForest(limits, random)
    forest.widen(3)
    nothing = np.zeros(0, np.bool_)
    for n in range(1, 400):
        forest.learn(nothing, np.intp(1), 0.5, random)
        forest.learn(nothing, np.intp(2), 0.0, random)
        alpha = math.sqrt(math.log(4 * 2 * n**2 / 0.1) / (2 * n))
        if 2 * alpha <= 0.5:
            np.testing.assert_array_equal(forest.left[0], [True, True, False])
            np.testing.assert_array_equal(forest.votes(nothing, np.array([1, 2]), 7), [1.0, 0.0])
            np.testing.assert_array_equal(forest.votes(nothing, np.array([2]), 7), [1.0])
            return
        assert forest.left[0].all()
    pytest.fail("the worse arm stayed")


def test_arms_are_played_in_turn_while_nothing_is_sure():
    agent = BanditForest(n_trees=3, seed=0)
    columns = Columns((2, 2))
    candidates = Candidates(np.zeros((3, 2), np.float32), ARMS, columns)
    agent.learn(candidates, [1.0, 0.0, 0.0])
    picks = [int(agent.choose(candidates)[0]) for _ in range(9)]
    assert sorted(picks[:3]) == [0, 1, 2]
    assert picks[:3] * 3 == picks


def test_an_arm_met_late_is_tried():
    agent = BanditForest(
        n_trees=3, min_depth=1, max_depth=1, min_epsilon=2.0, max_epsilon=2.0, radius=0.5, seed=0
    )
    columns = Columns((2, 2))
    two = Candidates(np.zeros((2, 2), np.float32), ARMS[:2], columns)
    for _ in range(60):
        agent.learn(two, [1.0, 0.0])
    three = Candidates(np.zeros((3, 2), np.float32), ARMS, columns)
    np.testing.assert_array_equal(agent.score(two), [1.0, 0.0])
    assert {int(agent.choose(three)[0]) for _ in range(4)} == {0, 2}


def test_numbers_are_cut_at_quantiles():
    values = np.arange(100, dtype=np.float32)
    np.testing.assert_array_equal(_thresholds(values, 5), [19, 39, 59, 79])
    np.testing.assert_array_equal(_thresholds(np.array([0, 1, 1, 1, 1, 1, np.nan], np.float32), 5), [0])
    assert not len(_thresholds(np.full(10, 3.0, np.float32), 5))
    skewed = np.array([0.0] * 95 + [1, 2, 3, 4, 5, 6], np.float32)
    np.testing.assert_array_equal(_thresholds(skewed, 4), [0])


def test_learns_from_numbers_and_rows_with_contexts_of_their_own():
    agent = BanditForest(n_trees=5, min_depth=1, max_depth=2, radius=0.3, bin_rows=30, seed=0)
    random = np.random.default_rng(0)
    for _ in range(1500):
        x = random.random(2).astype(np.float32)
        arm = agent.choose(x, [0, 1])[0]
        agent.learn(x, [float(arm == (x[0] > 0.5))], [arm])
    rows = np.array([[0.9, 0.5], [0.1, 0.5]])
    scores = agent.score(
        Candidates(rows.astype(np.float32)[[0, 0, 1, 1]], np.array([0, 1, 0, 1]), Columns.numeric(2))
    )
    assert scores[1] > scores[0]
    assert scores[2] > scores[3]
    mean = agent.estimate(rows, [1, 1]).mean
    assert mean[0] > 0.7 > 0.3 > mean[1]


def test_a_column_without_variables_leaves_one_leaf():
    agent = BanditForest(n_trees=2, bin_rows=2, seed=0)
    for _ in range(5):
        agent.learn(np.zeros((2, 1)), [1.0, 0.0], [0, 1])
    assert agent.score(Candidates(np.zeros((2, 1), np.float32), ARMS[:2], Columns.numeric(1))).sum() == 1.0


def test_arms_are_needed():
    agent = BanditForest(seed=0)
    with pytest.raises(ArmsError, match="give `arms`"):
        agent.choose(np.zeros((2, 1)))
    with pytest.raises(ArmsError, match="give `arms`"):
        agent.learn(np.zeros((2, 1)), [1.0, 0.0])
    assert agent.clock == 0


def test_no_estimate_before_the_numbers_are_binned():
    agent = BanditForest(bin_rows=5)
    agent.learn(np.zeros((2, 1)), [1.0, 0.0], [0, 1])
    with pytest.raises(NotFittedError, match="2 rows learned, and 5"):
        agent.estimate(np.zeros((1, 1)), [0])


@pytest.mark.parametrize(
    "wrong",
    [
        {"n_trees": 0},
        {"min_depth": 0},
        {"max_depth": 1},
        {"min_epsilon": -1.0},
        {"max_epsilon": 0.1},
        {"delta": 0.0},
        {"variable_share": 0.0},
        {"radius": 0.0},
        {"n_bins": 1},
        {"bin_rows": 0},
    ],
)
def test_wrong_arguments_are_named(wrong):
    with pytest.raises(ParameterError, match=next(iter(wrong))):
        BanditForest(**wrong)


@pytest.mark.parametrize("radius", [1.0, 0.05])
def test_contract(radius):
    check_agent(BanditForest(n_trees=10, bin_rows=10, radius=radius))
