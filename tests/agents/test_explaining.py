"""Explanations add up to estimates, name what was given, and change nothing."""

import numpy as np
import pytest
from taught import fingerprint

import treebandit
from treebandit import TETS, TEUCB, UCB1, Bandit, HistogramForest, LinTS, LinUCB, NeuralTS, TreeBootstrap
from treebandit.errors import NoEstimateError, NotFittedError

TREES = HistogramForest(n_trees=10, max_depth=6, bootstrap=False, subsample=0.8)
AGENTS = {
    "Bandit": lambda: Bandit(TREES, seed=0),
    "Bandit without linear model": lambda: Bandit(TREES, linear=False, seed=0),
    "Bandit, arms one-hot": lambda: Bandit(TREES, arm_encoding="one_hot", seed=0),
    "TEUCB": lambda: TEUCB(TREES, seed=0),
    "TETS, one-hot": lambda: TETS(TREES, categories="one_hot", seed=0),
    "LinUCB": lambda: LinUCB(seed=0),
    "LinTS, shared": lambda: LinTS(shared=True, seed=0),
    "LinUCB, auto": lambda: LinUCB(memory="auto", seed=0),
    "LinUCB, unit 1": lambda: LinUCB(standardise=False, seed=0),
}
random = np.random.default_rng(0)
ROWS = [
    {"age": float(random.integers(18, 80)), "city": str(random.choice(["Rome", "Oslo", "Bern"]))}
    for _ in range(150)
]
ARMS = [str(arm) for arm in random.choice(["a", "b", "c"], 150)]
REWARDS = [
    1000 + 50 * (arm == "a") * row["age"] / 50 + 20 * (row["city"] == "Oslo")
    for row, arm in zip(ROWS, ARMS, strict=True)
]


def taught(name):
    agent = AGENTS[name]()
    agent.learn(ROWS[:120], REWARDS[:120], arms=ARMS[:120])
    for row, reward, arm in zip(ROWS[120:], REWARDS[120:], ARMS[120:], strict=True):
        agent.learn(row, reward, arms=[arm])
    return agent


@pytest.mark.parametrize("name", AGENTS)
def test_contributions_add_up_to_the_mean_and_nothing_changes(name):
    agent = taught(name)
    asked = [*ROWS[:9], {"age": None, "city": "Oslo"}, {"age": 200.0, "city": None}]
    arms = [*ARMS[:9], "a", "b"]
    before = fingerprint(agent)
    explanation = agent.explain(asked, arms)
    assert fingerprint(agent) == before
    estimate = agent.estimate(asked, arms=arms)
    np.testing.assert_allclose(explanation.contributions.sum(1), estimate.mean, rtol=1e-9)
    np.testing.assert_allclose(explanation.mean, estimate.mean, rtol=1e-9)
    assert explanation.parts[:4] == ("(baseline)", "age", "city", "(arm)")
    assert explanation.values[0][1:4] == [ROWS[0]["age"], ROWS[0]["city"], ARMS[0]]
    assert explanation.values[9][1] is None
    assert explanation.values[10][2] is None


@pytest.mark.parametrize("name", AGENTS)
def test_what_matters_is_told(name):
    explanation = taught(name).explain({"age": 70.0, "city": "Oslo"}, ["a", "b"])
    table = explanation.table
    assert set(map(len, table.values())) == {2 * (len(explanation.parts) + 1)}
    for row, arm in enumerate("ab"):
        mine = [k for k, candidate in enumerate(table["candidate"]) if candidate == row]
        assert {table["arm"][k] for k in mine} == {arm}
        total = sum(table["contribution"][k] for k in mine)
        assert total == pytest.approx(explanation.mean[row] + explanation.exploration[row])
        found = {table["part"][k]: table["contribution"][k] for k in mine}
        assert found["city"] > 5
    assert explanation.contributions[0, 3] > explanation.contributions[1, 3] + 10


def test_exploration_is_what_the_score_has_above_the_mean():
    agent = taught("LinUCB")
    explanation = agent.explain(ROWS[0], ["a", "b", "new"])
    estimate = agent.estimate(ROWS[0], ["a", "b", "new"])
    np.testing.assert_allclose(explanation.exploration, 0.5 * np.sqrt(estimate.variance))
    np.testing.assert_allclose(explanation.deviation, 0.0, atol=1e-9)
    thompson = taught("TETS, one-hot").explain(ROWS[0], ["a", "b"], draws=2000)
    assert (np.abs(thompson.exploration) < 4 * thompson.deviation / np.sqrt(2000)).all()


def test_similar_rows_share_the_most_leaves():
    agent = taught("TEUCB")
    explanation = agent.explain(ROWS[7], [ARMS[7]])
    similar = explanation.similar[0]
    assert 7 in similar["row"]
    assert similar["share"][0] == 1.0
    assert similar["share"] == sorted(similar["share"], reverse=True)
    for row, arm, reward in zip(similar["row"], similar["arm"], similar["reward"], strict=True):
        assert (arm, reward) == (ARMS[row], REWARDS[row])


def test_an_agent_without_history_explains_but_for_similar_rows(tmp_path):
    agent = taught("Bandit")
    agent.save(tmp_path / "agent", history=False)
    decider = treebandit.load(tmp_path / "agent")
    one, other = (each.explain(ROWS[0], ["a", "b"]) for each in (agent, decider))
    np.testing.assert_allclose(one.contributions, other.contributions)
    assert other.similar == [{}, {}]


def test_candidates_without_arms_have_no_arm_part():
    agent = Bandit(TREES, random_start="rounds", random_rounds=5, seed=0)
    x = np.random.default_rng(0).normal(size=(80, 3))
    agent.learn(x, x[:, 0])
    explanation = agent.explain(x[:4])
    assert "(arm)" not in explanation.parts
    assert "arm" not in explanation.table
    np.testing.assert_allclose(explanation.contributions.sum(1), agent.estimate(x[:4]).mean)


def test_who_cannot_explain_says_so():
    with pytest.raises(NotFittedError):
        Bandit(seed=0).explain([1.0], arms=["a"])
    agent = TreeBootstrap(seed=0)
    agent.learn(np.zeros((9, 1)), np.arange(9.0), arms=[0] * 9)
    with pytest.raises(NoEstimateError, match="cannot tell"):
        agent.explain([1.0], arms=[0])
    assert not hasattr(UCB1(seed=0), "explain")
    assert hasattr(NeuralTS, "explain")
