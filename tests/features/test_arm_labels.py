"""Arms by number and by name: codes, labels that were never offered, and Candidates."""

import numpy as np
import pandas as pd
import pytest
from features.given import ROWS, ROWS32, fingerprint
from playing import make_agent

from treebandit import (
    TETS,
    TEUCB,
    UCB1,
    Bandit,
    LinUCB,
    RandomForestTrees,
    ShortestPath,
    TreeBootstrap,
)
from treebandit.core import Candidates, Columns
from treebandit.errors import (
    ArmsError,
    NoFeasibleChoiceError,
)
from treebandit.features.inputs import Inputs


def test_arms_come_always_or_never():
    agent = make_agent(random_start="rounds")
    agent.learn(ROWS, [1, 2, 3])
    with pytest.raises(ArmsError, match="given rows without arms; leave `arms` out"):
        agent.learn(ROWS, [1, 2, 3], arms=[0, 1, 2])


@pytest.mark.parametrize("kind", [LinUCB, TreeBootstrap, UCB1])
def test_learning_without_arms_after_choosing_with_them_is_refused_at_once(kind):
    agent = kind(seed=0)
    row = agent.choose(ROWS[0], arms=["a", "b"])
    with pytest.raises(ArmsError, match="given rows with arms; give `arms`"):
        agent.learn(ROWS[0], 1.0)
    agent.learn(ROWS[0], 1.0, arms=[["a", "b"][row[0]]])
    other = LinUCB(seed=0)
    other.choose(ROWS)
    with pytest.raises(ArmsError, match="without arms; leave `arms` out"):
        other.learn(ROWS[0], 1.0, arms=[0])


def test_labels_that_were_never_offered_are_refused_once_the_agent_has_decided(tmp_path):
    for labels in ([10, 20, 30], ["a", "b", "c"]):
        agent = LinUCB(seed=0)
        agent.learn(ROWS[0], 1.0, arms=labels[0])  # a warm start
        agent.choose(ROWS[0], arms=labels[1:])
        before = fingerprint(agent, tmp_path)
        wrong = 1 if labels[0] == 10 else "d"
        with pytest.raises(
            ArmsError, match=f"arm {wrong!r} was neither offered nor learned before; give the label"
        ):
            agent.learn(ROWS[0], 1.0, arms=wrong)
        assert fingerprint(agent, tmp_path) == before
        agent.learn(ROWS, [1.0, 2.0, 3.0], arms=labels)
        agent.learn(ROWS[0], 1.0, arms=wrong, new_arms=True)
        agent.learn(ROWS[0], 1.0, arms=wrong)


def test_arms_of_candidates_are_taken_as_they_are():
    agent = LinUCB(seed=0)
    rows = Candidates(ROWS32, np.array([7, 8, 9]), Columns.numeric(4))
    agent.score(rows)
    agent.learn(rows[[1]], [1.0])
    agent.learn(ROWS[0], 1.0, arms=[9])
    other = LinUCB(seed=0)
    other.score(rows)
    with pytest.raises(ArmsError, match="arms have names, but this agent was given Candidates"):
        other.learn(ROWS[0], 1.0, arms=["nine"])


NAMES = list("abcdefghij")


@pytest.mark.parametrize("names", [NAMES, list(range(10)), np.array(NAMES), pd.Series(NAMES)])
def test_arms_offered_before_the_first_reward_have_codes_of_their_own(names):
    inputs = Inputs()
    candidates, after = inputs.enter(ROWS[0], names)
    assert candidates.arms.tolist() == list(range(10))
    again, same = after.enter(ROWS[0], names[::-1])
    assert again.arms.tolist() == list(range(10))[::-1]
    assert same is after


def test_unseen_names_have_codes_of_their_own_and_are_forgotten():
    _, after = Inputs().enter(ROWS[0], ["a", "b"])
    assert after.enter(ROWS[0], ["b", "new", "newer", "new"])[0].arms.tolist() == [1, 2, 3, 2]
    assert after.enter(ROWS[0], ["newer", "a"])[0].arms.tolist() == [2, 0]


@pytest.mark.parametrize(
    "make",
    [
        lambda: TEUCB(RandomForestTrees(n_trees=5), random_rounds=2, seed=0),
        lambda: TETS(RandomForestTrees(n_trees=5), random_rounds=2, random_start="in_turn", seed=0),
        lambda: TreeBootstrap(random_rounds=2, seed=0),
        lambda: Bandit(seed=0),
    ],
)
def test_names_and_numbers_are_played_alike(make):
    played = []
    for names in (list(range(5)), list("abcde")):
        agent, random = make(), np.random.default_rng(1)
        rows = []
        for _ in range(12):
            x = random.normal(size=3)
            rows.append(int(agent.choose(x, arms=names)[0]))
            agent.learn(x, float(rows[-1] == 2), arms=[names[rows[-1]]])
        played.append((rows, agent.start_rounds))
    assert played[0] == played[1]
    assert played[0][1] == 10


def test_estimates_and_failed_choices_register_no_names(tmp_path):
    agent = LinUCB(seed=0)
    agent.learn(ROWS[0], 1.0, arms="a")
    before = fingerprint(agent, tmp_path)
    agent.estimate(ROWS, arms=["a", "b", "c"])
    with pytest.raises(NoFeasibleChoiceError):
        agent.choose(
            ROWS, arms=["a", "b", "c"], oracle=ShortestPath(["a", "b", "x"], ["b", "c", "y"], "a", "y")
        )
    assert fingerprint(agent, tmp_path) == before
