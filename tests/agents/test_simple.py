import math

import numpy as np
import pytest

from treebandit import (
    TEUCB,
    UCB1,
    Bandit,
    Candidates,
    Columns,
    EpsilonGreedy,
    LinUCB,
    UCB1Normal,
    UCB1Tuned,
    Uniform,
    XGBoostTrees,
    check_agent,
    play_round,
)
from treebandit.environments import Classification
from treebandit.errors import ArmsError, NoEstimateError, NotFittedError, ParameterError

INDICES = [UCB1, UCB1Tuned, UCB1Normal]


def arms_of(*labels):
    return Candidates(np.zeros((len(labels), 1), np.float32), np.array(labels, np.intp), Columns.numeric(1))


def taught(agent, rewards):
    """The agent after these rewards per arm."""
    for arm, values in rewards.items():
        for value in values:
            agent.learn(arms_of(arm), [value])
    return agent


def test_ucb1_by_hand():
    agent = taught(UCB1(), {0: [1.0, 0.0, 1.0], 4: [0.5]})
    expected = [2 / 3 + math.sqrt(2 * math.log(4) / 3), 0.5 + math.sqrt(2 * math.log(4) / 1)]
    np.testing.assert_allclose(agent.score(arms_of(0, 4)), expected)


def test_ucb1_tuned_by_hand():
    agent = taught(UCB1Tuned(), {0: [1.0, 0.0] * 40, 1: [0.5] * 400})
    logs = math.log(480)
    variance = 0.25 + math.sqrt(2 * logs / 80)  # above 1/4, so 1/4 holds
    assert variance > 0.25
    calm = math.sqrt(2 * logs / 400)
    assert calm < 0.25
    expected = [0.5 + math.sqrt(logs / 80 * 0.25), 0.5 + math.sqrt(logs / 400 * calm)]
    np.testing.assert_allclose(agent.score(arms_of(0, 1)), expected)


def test_ucb1_normal_by_hand():
    rewards = {0: [1.0, 3.0] * 30, 1: [2.0, 2.5, 3.0] * 20}
    agent = taught(UCB1Normal(), rewards)
    assert math.ceil(8 * math.log(121)) <= 60
    expected = [
        np.mean(values) + math.sqrt(16 * np.var(values, ddof=1) * math.log(120) / 60)
        for values in rewards.values()
    ]
    np.testing.assert_allclose(agent.score(arms_of(0, 1)), expected)


def test_ucb1_normal_tries_arms_played_too_seldom_first():
    agent = taught(UCB1Normal(), {0: [1.0, 0.9] * 40, 1: [0.0, 0.1] * 8})
    assert math.ceil(8 * math.log(97)) > 16
    scores = agent.score(arms_of(0, 1, 2))
    assert scores[1] == scores[2] > scores[0]


@pytest.mark.parametrize("kind", INDICES)
def test_arms_not_met_come_first_and_contexts_do_not_matter(kind):
    agent = taught(kind(), {0: [100.0] * 60, 3: [-5.0] * 60})
    scores = agent.score(arms_of(0, 3, 9))
    assert scores.argmax() == 2
    assert np.isfinite(scores).all()
    other = Candidates(np.full((3, 1), 7.0, np.float32), np.array([0, 3, 9]), Columns.numeric(1))
    np.testing.assert_array_equal(agent.score(other), scores)


@pytest.mark.parametrize("kind", INDICES)
def test_no_arms_is_an_error_that_changes_nothing(kind):
    agent = kind(seed=0)
    nameless = Candidates(np.zeros((2, 1), np.float32), None, Columns.numeric(1))
    calls = [
        lambda: agent.score(nameless),
        lambda: agent.learn(nameless, [1.0, 0.0]),
        lambda: agent.choose([[1.0]]),
    ]
    for call in calls:
        with pytest.raises(ArmsError, match="give `arms`"):
            call()
    assert agent.clock == 0
    agent.learn(arms_of(1), [1.0])


@pytest.mark.parametrize("kind", INDICES)
def test_the_best_arm_is_played_most(kind):
    agent, random = kind(seed=0), np.random.default_rng(1)
    chances, plays = np.array([0.2, 0.5, 0.8]), np.zeros(3)
    for _ in range(1500):
        arm = agent.choose([0.0], [0, 1, 2])[0]
        agent.learn([[0.0]], [float(random.random() < chances[arm])], [arm])
        plays[arm] += 1
    assert plays.argmax() == 2
    assert plays[2] > 750
    np.testing.assert_array_equal(agent.estimate(np.zeros((3, 1)), [0, 1, 2]).count, plays)


@pytest.mark.parametrize("make", [UCB1, UCB1Tuned, UCB1Normal])
def test_arms_with_few_plays_borrow_from_all(make):
    agent, rewards = make(seed=0), [8.0, 10.0, 12.0, 3.0, 20.0, 22.0]
    agent.learn(None, rewards, arms=["a", "a", "a", "b", "c", "c"])
    found = agent.estimate(None, arms=["a", "b", "c", "new"])
    within = (8.0 + 2.0) / 3
    np.testing.assert_allclose(found.mean, [10.0, 3.0, 21.0, 12.5])
    np.testing.assert_allclose(found.variance, [4.0 / 3, within, 1.0, np.var(rewards, ddof=1)])
    assert found.count.tolist() == [3, 1, 2, 0]
    few = make(seed=0)
    few.learn(None, [1.0, 3.0], arms=["a", "b"])
    assert few.estimate(None, arms=["a", "b", "new"]).variance.tolist() == [2.0, 2.0, 2.0]


def test_epsilon_greedy_does_not_prefer_arms_never_tried_where_all_rewards_are_negative():
    agent = EpsilonGreedy(UCB1(), epsilon=0.0, seed=0)
    agent.learn(None, [-5.0, -1.0], arms=["a", "b"])
    assert agent.choose(None, arms=["a", "b", "new"]).tolist() == [1]


def test_no_estimate_before_the_first_row():
    with pytest.raises(NotFittedError):
        UCB1().estimate([[0.0]], [0])


def test_an_agent_without_estimates_has_its_own_error():
    for agent in (Uniform(), EpsilonGreedy(agent=Uniform())):
        agent.learn([[0.0]], [1.0], [0])
        with pytest.raises(NoEstimateError, match="Uniform keeps no estimate of rewards"):
            agent.estimate([[0.0]], [0])


def test_epsilon_greedy_explores_as_often_as_it_should():
    agent = EpsilonGreedy(agent=UCB1(), epsilon=0.3, seed=0)
    taught(agent, {0: [0.0], 1: [1.0], 2: [0.0]})
    picks = np.array([agent.choose([0.0], [0, 1, 2])[0] for _ in range(6000)])
    assert np.mean(picks == 1) == pytest.approx(0.7 + 0.1, abs=0.02)
    assert np.mean(picks == 0) == pytest.approx(0.1, abs=0.02)


def test_epsilon_greedy_is_random_until_there_is_an_estimate():
    agent = EpsilonGreedy(agent=UCB1(), epsilon=0.0, seed=0)
    picks = np.array([agent.choose([0.0], [0, 1])[0] for _ in range(400)])
    assert 0.4 < picks.mean() < 0.6


def test_epsilon_greedy_learns_through_a_fresh_copy_of_its_agent():
    base = LinUCB()
    agent = EpsilonGreedy(agent=base, epsilon=0.1, seed=5)
    agent.learn([[1.0]], [1.0], [0])
    with pytest.raises(NotFittedError):
        base.estimate([[1.0]], [0])
    assert agent.estimate([[1.0]], [0]).mean[0] > 0


def test_epsilon_greedy_over_trees_goes_on_after_loading(tmp_path):
    trees = XGBoostTrees(n_trees=5, max_depth=3)
    agent = EpsilonGreedy(agent=TEUCB(trees, random_rounds=5), epsilon=0.2, seed=1)
    environment = Classification("magic", seed=0)
    for _ in range(60):
        play_round(agent, environment)
    assert agent.rebuild_seconds > 0
    agent.save(tmp_path / "agent")
    other = EpsilonGreedy.load(tmp_path / "agent")
    for _ in range(40):
        this_round = environment.observe()
        scores = agent.score(this_round.candidates)
        np.testing.assert_array_equal(scores, other.score(this_round.candidates))
        choice = np.array([scores.argmax()])
        outcome = environment.pull(choice)
        for one in (agent, other):
            one.learn(this_round.candidates[choice], outcome.rewards)


@pytest.mark.parametrize("wrong", [{"epsilon": -0.1}, {"epsilon": 1.5}, {"agent": "LinUCB"}])
def test_wrong_arguments_are_named(wrong):
    with pytest.raises(ParameterError, match=next(iter(wrong))):
        EpsilonGreedy(**wrong)


@pytest.mark.parametrize(
    "agent",
    [Uniform(), UCB1(), UCB1Tuned(), UCB1Normal(), EpsilonGreedy(), EpsilonGreedy(agent=UCB1(), epsilon=0.5)],
)
def test_contract(agent):
    check_agent(agent)


def test_a_rebuild_on_a_thread_is_taken_over_when_the_agent_learns():
    agent, rows = (
        EpsilonGreedy(Bandit(background=True, seed=0), seed=0),
        np.random.default_rng(0).normal(size=(400, 3)),
    )
    for row in rows[:200]:
        agent.learn(row, float(row[0]), arms="a")
    assert agent.wait()
    for row in rows[200:]:
        agent.learn(row, float(row[0]), arms="a")
        agent.wait()
    rows_fitted, _ = agent._base.model.fitted_at
    assert rows_fitted > 300
    assert EpsilonGreedy(LinUCB(), seed=0).wait()
