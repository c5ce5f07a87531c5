"""Decisions of agents as logs, frozen and learning agents on logs, warm starts."""

import numpy as np
import pandas as pd
import pytest
from taught import fingerprint

from treebandit import Bandit, EpsilonGreedy, LinUCB, TopK, UCB1Tuned, Uniform
from treebandit.errors import InputError, LogError
from treebandit.evaluation import (
    AgentPolicy,
    DecisionLog,
    evaluate,
    from_columns,
    log_decisions,
    replay,
    shop_log,
    shop_value,
    warm_start,
)
from treebandit.evaluation.generated import ARMS, shop_rewards
from treebandit.trees import HistogramForest

VISITOR = {"hour": 9, "age": 30, "city": "Bonn"}


def small_bandit(seed=0):
    return Bandit(trees=HistogramForest(n_trees=10, max_depth=5), seed=seed)


def test_decisions_become_a_log_with_what_was_given():
    agent = Uniform(seed=1)
    decisions = [agent.decide(VISITOR, arms=list(ARMS), id=f"d{n}") for n in range(3)]
    log = log_decisions(decisions, [1.0, None, 0.5], policy="shop", version=3)
    first, second, _ = log.records()
    assert first["context"] == VISITOR
    assert first["arms"] == list(ARMS)
    assert first["chosen"] == [decisions[0].row]
    assert first["probability"] == pytest.approx(decisions[0].probability)
    assert first["probabilities"] == pytest.approx(decisions[0].probabilities.tolist())
    assert (first["policy"], first["version"]) == ("shop", "3")
    assert "reward" not in second


@pytest.mark.parametrize(
    "rows",
    [
        np.array([[1.0, 2.0], [3.0, np.nan], [5.0, 6.0]]),
        [{"x": 1, "c": "a"}, {"x": 2, "c": "b"}, {"x": 3, "c": "a"}],
        pd.DataFrame({"x": [1, 2, 3], "c": ["a", "b", "a"]}),
    ],
)
def test_candidates_with_rows_of_their_own_keep_them(rows):
    agent = LinUCB(seed=0)
    decision = agent.decide(rows, oracle=TopK(2), id="pair")
    (record,) = log_decisions(decision, [1.0, 0.0]).records()
    assert len(record["arm_contexts"]) == 3
    assert record["rewards"] == [1.0, 0.0]
    assert record["reward"] == 1.0
    if isinstance(rows, np.ndarray):
        assert record["arm_contexts"][1] == [3.0, None]
    else:
        assert record["arm_contexts"][1] == {"x": 2, "c": "b"}


def test_rewards_must_fit_the_decisions():
    agent = Uniform(seed=1)
    with pytest.raises(InputError, match="2 rewards for 1 decisions"):
        log_decisions([agent.decide(VISITOR, arms=list(ARMS))], [1.0, 2.0])


def play(agent, rounds, seed):
    """An agent decides in the shop and learns; gives its decisions, their rewards, and its true mean reward."""
    random = np.random.default_rng(seed)
    decisions, rewards, worth = [], [], 0.0
    for _ in range(rounds):
        hour, age = int(random.integers(8, 20)), int(random.integers(18, 80))
        context = {"hour": hour, "age": age, "city": "Bonn"}
        decision = agent.decide(context, arms=list(ARMS), floor=0.1)
        means = shop_rewards([hour], [age])[0]
        worth += decision.probabilities @ means / rounds
        reward = float(random.random() < means[decision.row])
        agent.learn(decision, reward)
        decisions.append(decision)
        rewards.append(reward)
    return decisions, rewards, worth


def test_the_log_of_a_learning_agent_tells_the_value_of_other_policies():
    decisions, rewards, worth = play(small_bandit(), 1_500, seed=3)
    log = log_decisions(decisions, rewards)
    found = evaluate(log, ["uniform", "logging"], estimators=("ips", "snips"))
    assert found["uniform"]["snips"].value == pytest.approx(shop_value("uniform"), abs=0.05)
    assert found["logging"]["ips"].value == pytest.approx(worth, abs=0.04)
    assert not any("calibrated" in text for text in found.warnings())


def test_a_frozen_agent_is_evaluated_and_stays_as_it_was(tmp_path):
    agent = small_bandit()
    warm_start(agent, shop_log(1_500, policy="uniform", seed=8))
    agent.save(tmp_path / "agent.treebandit")
    before = fingerprint(agent)
    log = shop_log(1_200, policy="uniform", seed=9)
    found = evaluate(log, {"agent": agent, "file": tmp_path / "agent.treebandit"}, estimators=("snips",))
    assert fingerprint(agent) == before
    assert found["agent"]["snips"].value == pytest.approx(found["file"]["snips"].value)
    assert found["agent"]["snips"].value > shop_value("uniform")
    assert found["agent"]["snips"].value < shop_value("best") + 0.06


def test_arms_that_are_numbers_are_found_again():
    agent = LinUCB(seed=0)
    agent.learn(np.array([[0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]), [0.0, 1.0, 1.0], [0, 1, 1])
    decisions = [agent.decide(np.array([1.0, 0.5]), arms=[0, 1], floor=0.5) for _ in range(80)]
    log = log_decisions(decisions, [float(each.row) for each in decisions])
    found = evaluate(log, {"agent": AgentPolicy(agent, floor=0.5)}, estimators=("ips",))["agent"]
    assert found.diagnostics.effective == pytest.approx(80, rel=0.1)
    assert warm_start(LinUCB(), log) == 80


@pytest.mark.parametrize("given", [[0.5, 0.5], [0.5, 0.5, 0.0, 0.0], 0.5, [0.5, 0.7, -0.2]])
def test_probabilities_that_are_not_one_per_candidate_are_refused(given):
    class Wrong:
        def probabilities(self, contexts, arms=None, **options):
            return np.array(given)

    with pytest.raises(InputError, match="give one probability per candidate"):
        evaluate(shop_log(20), {"wrong": AgentPolicy(Wrong())}, estimators=("ips",))


def test_decisions_that_are_all_in_one_fold_are_too_few():
    table = pd.DataFrame({"arm": ["a", "b"], "r": [1.0, 0.0], "x": [1.0, 2.0]})
    log = from_columns(table, arm="arm", reward="r", context=["x"], arms=["a", "b"])
    with pytest.raises(LogError, match="folds; give a longer log"):
        evaluate(log, "uniform", estimators=("ips",), folds=2, least_effective=0)


def test_replay_lets_an_agent_learn_what_it_would_have_chosen():
    log = shop_log(1_500, policy="uniform", seed=4)
    found = replay(log, small_bandit(), draws=20)
    assert found.seen == 1_500
    assert 350 < found.used < 650  # a third
    assert found.clipped == 0
    assert shop_value("uniform") - 0.04 < found.value < shop_value("best") + 0.05
    assert found.estimate == pytest.approx(found.value, abs=0.08)


def test_replay_of_a_biased_log_rejects_what_it_plays_too_often():
    log = shop_log(3_000, seed=4)
    found = replay(log, Uniform(seed=0), draws=1)
    # Each accepted event was drawn as the uniform policy would: with probability 0.05 in all.
    assert found.used == pytest.approx(3_000 * 0.05, rel=0.35)
    assert found.value == pytest.approx(shop_value("uniform"), abs=0.1)


def test_replay_needs_probabilities_and_rewards():
    with pytest.raises(LogError, match="without a probability"):
        replay(shop_log(20, probabilities=False), Uniform())
    log = shop_log(20)
    waiting = DecisionLog.from_frame(log.frame.with_columns(reward=None))
    with pytest.raises(LogError, match="no decision with a reward"):
        replay(waiting, Uniform())


def test_warm_start_learns_rows_of_their_own_and_sets():
    agent = LinUCB(seed=0)
    rows = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    log = log_decisions([agent.decide(rows, oracle=TopK(2)) for _ in range(4)], [[1.0, 0.0]] * 4)
    assert warm_start(LinUCB(), log) == 8
    only_sums = DecisionLog.from_frame(log.frame.with_columns(rewards=None))
    with pytest.raises(LogError, match="only the sum of their rewards"):
        warm_start(LinUCB(), only_sums)


def test_an_agent_learns_a_log_by_learn():
    log = shop_log(200, seed=5)
    one, two = LinUCB(seed=0), LinUCB(seed=0)
    one.learn(log)
    assert warm_start(two, log) == 200
    visitor = {"hour": 9, "age": 60, "city": "Kiel"}
    arms = ["coffee", "tea", "water"]
    assert one.estimate(visitor, arms).mean.tolist() == two.estimate(visitor, arms).mean.tolist()
    with pytest.raises(InputError, match="no rewards for dict; give one per row, or a DecisionLog"):
        one.learn(visitor)
    with pytest.raises(InputError, match="no rewards for DecisionLog"):
        one.learn(log, arms=arms)


@pytest.mark.parametrize("make", [UCB1Tuned, EpsilonGreedy, Bandit])
def test_decisions_without_contexts_can_be_evaluated_replayed_and_learned(make):
    agent, decisions = make(seed=0), []
    for number in range(60):
        decision = agent.decide(None, arms=["x", "y"], floor=0.2)
        agent.learn(decision, float(number % 2))
        decisions.append(decision)
    log = log_decisions(decisions, [float(number % 2) for number in range(60)])
    found = evaluate(log, {"agent": agent}, estimators=("ips",), anyway=True)["agent"]
    assert found.diagnostics.decisions == 60
    assert replay(log, make(seed=1)).seen == 60
    fresh = make(seed=1)
    fresh.learn(log)
    assert fresh.decide(None, arms=["x", "y"]).arm in ("x", "y")


def test_decisions_with_and_without_contexts_are_no_rows():
    record = {"arms": ["a", "b"], "chosen": [0], "probability": 0.5, "reward": 1.0}
    log = DecisionLog.from_records([{"id": "1", **record}, {"id": "2", "context": {"x": 1.0}, **record}])
    with pytest.raises(LogError, match="1 of 2 rows have no context, and the others do"):
        Bandit(seed=0).learn(log)


def test_arms_of_a_log_can_be_learned_as_numbers():
    first, decisions = Uniform(seed=0), []
    for _ in range(20):
        decisions.append(first.decide([1.0], arms=[1, 2, 3]))
    log, fresh = log_decisions(decisions, [1.0] * 20), Bandit(seed=0)
    assert warm_start(fresh, log, numbered_arms=True) == 20
    assert fresh.decide([1.0], arms=[1, 2, 3]).arm in (1, 2, 3)
    with pytest.raises(LogError, match="whole numbers"):
        warm_start(Bandit(seed=0), shop_log(50), numbered_arms=True)
