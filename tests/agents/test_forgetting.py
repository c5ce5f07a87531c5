"""Agents whose problem changes: they notice, drop old rows, and are as whole as before."""

from copy import deepcopy

import numpy as np
import pytest
from taught import fingerprint

import treebandit
from treebandit import TEUCB, Bandit, HistogramForest, LinTS, LinUCB
from treebandit.errors import ParameterError

SMALL = HistogramForest(n_trees=10, max_depth=5, bootstrap=False, subsample=0.8)
AGENTS = {
    "Bandit": lambda **memory: Bandit(SMALL, seed=0, **memory),
    "TEUCB": lambda **memory: TEUCB(SMALL, seed=0, **memory),
    "LinUCB": lambda **memory: LinUCB(seed=0, **memory),
    "LinTS": lambda **memory: LinTS(seed=0, **memory),
    "LinTS-shared": lambda **memory: LinTS(shared=True, seed=0, **memory),
}
ROUNDS, CHANGE = 600, 300


def play(agent, *, unit=1.0, rounds=range(ROUNDS)):
    """How many of the rounds were right: x tells the arm, and after the change the other one."""
    random, right = np.random.default_rng(1), []
    for t in range(rounds.stop):
        x, noise = random.uniform(-1, 1, 2), random.normal()
        if t not in rounds:
            continue
        best = int(x[0] > 0) ^ (t >= CHANGE)
        arm = int(agent.choose(x, arms=[0, 1])[0])
        right.append(arm == best)
        agent.learn(x, unit * (right[-1] + 0.1 * noise), arms=[arm])
    return np.array(right)


@pytest.mark.parametrize("name", ["Bandit", "TEUCB", "LinUCB", "LinTS"])
def test_a_change_costs_less_than_half_where_old_rows_are_dropped(name):
    agent = AGENTS[name](memory="auto")
    wrong, without = (~play(each)[CHANGE:] for each in (agent, AGENTS[name]()))
    assert wrong.sum() < 0.5 * without.sum()
    assert len(agent.model.history) < ROUNDS - CHANGE + 60


@pytest.mark.parametrize("name", ["Bandit", "LinUCB"])
def test_a_number_of_rows_is_kept(name):
    agent = AGENTS[name](memory=100)
    play(agent)
    assert 100 <= len(agent.model.history) <= 120
    assert agent.model.history.nbytes < 120 * 1.3 * (8 + 4 + 8)


@pytest.mark.parametrize("name", ["Bandit", "LinUCB"])
def test_choices_with_auto_do_not_depend_on_the_unit_of_rewards(name):
    one, other = (play(AGENTS[name](memory="auto"), unit=unit) for unit in (1.0, 2.0**-20))
    np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("memory", ["auto", 100])
@pytest.mark.parametrize("name", AGENTS)
def test_a_saved_agent_goes_on_as_it_would_have(name, memory, tmp_path):
    agent = AGENTS[name](memory=memory)
    play(agent, rounds=range(CHANGE + 10))
    agent.save(tmp_path / "agent")
    again = treebandit.load(tmp_path / "agent")
    rest = range(CHANGE + 10, CHANGE + 150)
    np.testing.assert_array_equal(play(agent, rounds=rest), play(again, rounds=rest))
    assert fingerprint(agent) == fingerprint(again)
    agent.save(tmp_path / "decider", history=False)
    x = np.array([[0.3, 0.1], [-0.4, 0.2]])
    decider = treebandit.load(tmp_path / "decider")
    np.testing.assert_array_equal(decider.estimate(x, arms=[0, 1]).mean, agent.estimate(x, arms=[0, 1]).mean)


@pytest.mark.parametrize("name", ["Bandit", "LinUCB"])
def test_a_refit_that_fails_changes_nothing(name, monkeypatch):
    agent = AGENTS[name](memory="auto")
    play(agent, rounds=range(CHANGE))
    twin, before = deepcopy(agent), fingerprint(agent)
    random = np.random.default_rng(2)
    x, arms = random.uniform(-1, 1, (200, 2)), random.integers(0, 2, 200)
    monkeypatch.setattr("treebandit.models.history.History.only", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        agent.learn(x, np.full(200, -3.0), arms=arms)
    assert fingerprint(agent) == before
    monkeypatch.undo()
    twin.learn(x, np.full(200, -3.0), arms=arms)
    assert len(twin.model.history) <= 210


@pytest.mark.parametrize("name", ["Bandit", "LinTS-shared"])
def test_a_change_is_noticed_where_all_arms_have_few_rows(name):
    """Offers that come and go: the model knows them by their features."""
    agent, random = AGENTS[name](memory="auto"), np.random.default_rng(0)
    offers, slopes = random.normal(size=(100, 3)), np.array([1.0, -1.0, 0.5])
    for start in range(0, 600, 10):
        arms = random.integers(0, 100, 10)
        paid = offers[arms] @ slopes - 3.0 * (start >= 400) + 0.3 * random.normal(size=10)
        agent.learn(offers[arms], paid, arms=arms)
    assert 180 <= len(agent.model.history) <= 260


@pytest.mark.parametrize("name", ["Bandit", "LinUCB"])
def test_a_new_arm_is_no_change_of_the_others(name):
    """It is the best, pays what no arm did, and rewards come 50 at a time."""
    random, agent = np.random.default_rng(0), AGENTS[name](memory="auto")
    slopes = random.normal(size=(5, 3))
    for batch in range(10):
        x, offered = random.normal(size=(50, 3)), list(range(4 if batch < 8 else 5))
        arms = [int(agent.choose(row, arms=offered)[0]) for row in x]
        paid = (x * slopes[arms]).sum(1) + 4.0 * (np.array(arms) == 4) + 0.3 * random.normal(size=50)
        agent.learn(x, paid, arms=arms)
    assert len(agent.model.history) == 500
    assert (agent.model.history.arms == 4).sum() > 50


def test_candidates_without_arms_are_watched_together():
    agent = Bandit(SMALL, random_start="rounds", random_rounds=20, memory="auto", seed=0)
    random = np.random.default_rng(0)
    for t in range(500):
        x = random.uniform(-1, 1, (4, 2))
        row = int(agent.choose(x)[0])
        agent.learn(x[[row]], [x[row, 0] * (1 if t < 300 else -1)])
    assert len(agent.model.history) < 240
    assert agent.estimate([[-0.9, 0.0]]).mean[0] > agent.estimate([[0.9, 0.0]]).mean[0]


def test_arms_that_the_trees_do_not_see_are_watched_together(tmp_path):
    agent = Bandit(SMALL, arm_encoding="none", memory="auto", seed=0)
    random = np.random.default_rng(0)
    for t in range(400):
        if t == 250:
            agent.save(tmp_path / "agent")
            agent = treebandit.load(tmp_path / "agent")
        x = random.uniform(-1, 1, (3, 2))
        row = int(agent.choose(x, arms=["a", "b", "c"])[0])
        agent.learn(x[row], x[row, 0] * (1 if t < 250 else -1), arms=["abc"[row]])
    assert len(agent.model.history) < 190


@pytest.mark.parametrize("kind", [Bandit, LinUCB])
@pytest.mark.parametrize("memory", ["most", 3, 10.5, None])
def test_other_memories_are_refused(kind, memory):
    with pytest.raises(ParameterError, match="memory"):
        kind(memory=memory)


def test_rows_are_forgotten_at_rebuilds_so_there_have_to_be_some():
    with pytest.raises(ParameterError, match="never"):
        Bandit(memory=100, rebuild="never")
