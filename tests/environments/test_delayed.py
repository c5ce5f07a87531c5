import copy

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from treebandit.agents import TEUCB
from treebandit.core import play_round
from treebandit.environments import Classification, Delayed, DescribedArms, Synthetic
from treebandit.errors import ChoiceError, ParameterError, RoundError
from treebandit.trees import HistogramForest


class Recorder:
    """Chooses at random; keeps what it chose and what it learned."""

    def __init__(self):
        self.random, self.shown, self.learned, self.at = np.random.default_rng(0), [], [], []

    def score(self, candidates):
        self.shown.append(candidates)
        return self.random.random(len(candidates))

    def learn(self, chosen, rewards):
        self.learned.append((chosen, rewards))
        self.at.append(len(self.shown))


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 40), st.integers(1, 120))
def test_no_reward_is_seen_before_its_batch(batch, rounds):
    environment, agent = Delayed(Classification("mushroom", seed=1), batch=batch), Recorder()
    played = [play_round(agent, environment) for _ in range(rounds)]
    assert agent.at == list(range(batch, rounds + 1, batch))
    for number, (chosen, rewards) in enumerate(agent.learned):
        part = range(number * batch, (number + 1) * batch)
        assert rewards.tolist() == [played[i][1].rewards[0] for i in part]
        assert chosen.arms.tolist() == [int(played[i][0][0]) for i in part]
        for row, i in enumerate(part):
            np.testing.assert_array_equal(chosen.contexts[row], agent.shown[i].contexts[chosen.arms[row]])


class RecordedTrees:
    """Trees that note what they are grown from."""

    def __init__(self):
        self.grown = []

    def fit(self, features, targets, *, seed):
        self.grown.append(targets.copy())
        return HistogramForest(n_trees=5).fit(features, targets, seed=seed)


def test_a_rebuild_sees_no_reward_of_an_open_batch():
    environment = Delayed(Classification("mushroom", seed=1), batch=30)
    trees = RecordedTrees()
    agent = TEUCB(trees, random_rounds=5, standardise=False, seed=0)
    seen, rounds = [], []
    for t in range(1, 201):
        before = len(trees.grown)
        seen.append(play_round(agent, environment)[1].rewards[0])
        rounds += [t] * (len(trees.grown) - before)
    assert len(rounds) > 3
    for t, rewards in zip(rounds, trees.grown, strict=True):
        assert t % 30 == 0
        np.testing.assert_array_equal(rewards, np.array(seen[:t], np.float32))


def test_a_batch_of_one_is_no_delay():
    plain, late = Classification("mushroom", seed=1), Delayed(Classification("mushroom", seed=1), batch=1)
    one, other = (TEUCB(HistogramForest(n_trees=5), seed=0) for _ in range(2))
    assert [play_round(one, plain)[0].tolist() for _ in range(80)] == [
        play_round(other, late)[0].tolist() for _ in range(80)
    ]


def test_regret_and_rounds_are_those_of_the_environment_inside():
    plain, late = Classification("shuttle", seed=2), Delayed(Classification("shuttle", seed=2), batch=7)
    assert late.horizon == plain.horizon
    assert late.columns == plain.columns
    for _ in range(50):
        one, other = play_round(Recorder(), plain), play_round(Recorder(), late)
        assert one[1].regret == other[1].regret
        assert one[1].rewards == other[1].rewards


def test_several_rows_a_round_and_no_arm_labels():
    environment, agent = Delayed(DescribedArms(slots=3, seed=0), batch=4), Recorder()
    for _ in range(8):
        play_round(agent, environment)
    assert [len(rewards) for _, rewards in agent.learned] == [12, 12]
    assert all(chosen.arms is None and len(chosen) == 12 for chosen, _ in agent.learned)
    assert environment.horizon is None


def test_wrong_use():
    for batch in (0, 2.5, True, "3", None):
        with pytest.raises(ParameterError, match="batch is"):
            Delayed(Classification("mushroom"), batch=batch)
    for environment in (Classification, 3, None, "mushroom", np.ones(3)):
        with pytest.raises(ParameterError, match="environment is .*; give an object with observe and pull"):
            Delayed(environment)
    environment = Delayed(Classification("mushroom"), batch=1)
    with pytest.raises(RoundError, match="call observe"):
        environment.pull(np.array([0]))
    assert environment.observe() is environment.observe()
    with pytest.raises(ChoiceError, match="exactly one"):
        environment.pull([0, 1])
    assert len(environment.pull([0]).feedback.rewards) == 1
    with pytest.raises(RoundError, match="call observe"):
        environment.pull(np.array([0]))


def test_what_an_environment_tells_is_told_in_batches_too():
    class Noted(Synthetic):
        note = "all rounds were used"

        def final_candidates(self):
            return self.observe().candidates

    late = Delayed(Noted(seed=0), batch=3)
    assert late.note == "all rounds were used"
    assert len(late.final_candidates()) > 0
    plain = Delayed(Synthetic(seed=0), batch=3)
    assert plain.note == ""
    assert not hasattr(plain, "final_candidates")
    assert copy.deepcopy(late).batch == 3
