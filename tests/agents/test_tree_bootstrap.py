import numpy as np
import pandas as pd
import pytest

from treebandit import Candidates, Columns, TreeBootstrap, play_round
from treebandit.environments import Classification
from treebandit.errors import NotFittedError, ParameterError
from treebandit.trees import DecisionTreeTrees, ExtraTrees, RandomForestTrees, XGBoostTrees

FOREST = RandomForestTrees(n_trees=5, max_depth=4)
SMALL = [
    {},
    {"trees": FOREST},
    {"trees": ExtraTrees(n_trees=5)},
    {"trees": XGBoostTrees(n_trees=10), "mode": "replicates", "replicates": 3},
]


def regret(agent, rounds, data="mushroom", seed=0):
    environment = Classification(data, seed=seed)
    return sum(play_round(agent, environment)[1].regret for _ in range(rounds))


@pytest.mark.parametrize("arguments", SMALL)
def test_it_learns(arguments):
    assert regret(TreeBootstrap(random_rounds=10, seed=0, **arguments), 250) < 70


def taught(**arguments):
    """Arm 0 has paid about 0.2 and arm 1 about 0.8, whatever the context."""
    agent = TreeBootstrap(random_rounds=0, seed=0, **arguments)
    random = np.random.default_rng(0)
    contexts = random.random((40, 2)).astype(np.float32)
    arms = np.arange(40) % 2
    agent.learn(contexts, 0.2 + 0.6 * arms + 0.05 * random.standard_normal(40), arms)
    return agent


@pytest.mark.parametrize("arguments", SMALL)
def test_an_arm_without_rows_is_as_good_as_the_best_reward_seen(arguments):
    agent = taught(**arguments)
    scores = agent.score(Candidates(np.zeros((3, 2), np.float32), np.array([0, 1, 9]), Columns.numeric(2)))
    assert scores[2] == pytest.approx(agent.model.history.rewards.max())
    assert scores[0] < scores[1] <= scores[2]


def test_the_greatest_reward_can_be_told():
    agent = taught(optimistic_reward=-3.0)
    assert agent.estimate(np.zeros((1, 2)), [9]).mean == pytest.approx(-3.0)
    assert agent.choose(np.zeros(2), [0, 9]) == [0]


@pytest.mark.parametrize("mode", ["exact", "replicates"])
def test_an_arm_that_has_always_paid_the_same_may_be_better(mode):
    """Nine times 0.5 where others have paid up to 1: uniform prior, so the better reward has a mean chance of 0.1."""
    row = Candidates(np.zeros((1, 1), np.float32), np.array([0]), Columns.numeric(1))
    drawn, trusted = (
        TreeBootstrap(mode=mode, replicates=2, random_rounds=0, constant_rewards=how, seed=0)
        for how in ("drawn", "trusted")
    )
    for agent in (drawn, trusted):
        agent.learn(np.zeros((9, 1)), [0.5] * 9, [0] * 9)
        agent.learn(np.zeros((2, 1)), [0.0, 1.0], [1, 1])
    assert trusted.score(row) == pytest.approx(0.5)
    scores = np.array([drawn.score(row)[0] for _ in range(3000)])
    assert scores.min() > 0.5
    assert scores.mean() == pytest.approx(0.5 + 0.5 / 10, abs=0.005)
    drawn.learn(np.zeros((1, 1)), [0.0], [0])
    assert drawn.score(row) <= 0.5, "with two different rewards the bootstrap has a spread of its own"


def test_each_decision_takes_a_new_bootstrap_unless_replicates_stand_for_it():
    candidates = Candidates(np.full((2, 2), 0.5, np.float32), np.array([0, 1]), Columns.numeric(2))
    exact, kept = taught(), taught(mode="replicates", replicates=2)
    assert len({tuple(exact.score(candidates)) for _ in range(30)}) > 4
    assert 1 < len({tuple(kept.score(candidates)) for _ in range(30)}) <= 4


def test_replicates_are_rebuilt_as_their_arm_grows_and_at_once_for_a_new_arm():
    agent = taught(mode="replicates", replicates=2, rebuild="every 30")
    first = {label: arm.forests for label, arm in agent.model.arms.items()}
    agent.learn(np.zeros((1, 2)), [1.0], [0])
    assert agent.model.arms[0].forests is first[0]
    agent.learn(np.zeros((1, 2)), [1.0], [7])
    assert len(agent.model.arms[7].forests) == 2
    assert agent.model.arms[1].forests is first[1]
    agent.learn(np.zeros((9, 2)), np.ones(9), [0] * 9)
    assert len(agent.model.arms[0].rows) == 30
    assert agent.model.arms[0].forests is not first[0]
    assert agent.model.arms[1].forests is first[1]


def test_replicates_are_rebuilt_when_an_arm_pays_something_new():
    """Models that know failures alone would lock out the arm, which is no longer drawn from the prior."""
    agent = TreeBootstrap(FOREST, mode="replicates", replicates=2, rebuild="never", random_rounds=0, seed=0)
    agent.learn(np.zeros((9, 1)), [0.0] * 9, [0] * 9)
    first = agent.model.arms[0].forests
    agent.learn(np.zeros((1, 1)), [0.0], [0])
    assert agent.model.arms[0].forests is first
    agent.learn(np.zeros((1, 1)), [1.0], [0])
    second = agent.model.arms[0].forests
    assert second is not first
    agent.learn(np.zeros((1, 1)), [0.5], [0])
    assert agent.model.arms[0].forests is second


def test_many_rows_of_one_arm_meet_one_whole_tree():
    agent = taught()
    contexts = np.random.default_rng(1).random((50, 2)).astype(np.float32)
    scores = agent.score(Candidates(contexts, np.zeros(50, np.intp), Columns.numeric(2)))
    assert np.isclose(scores[:, None], agent.model.history.rewards).any(1).all()


def test_without_arms_all_rows_share_one_model():
    agent = TreeBootstrap(FOREST, random_rounds=0, seed=0)
    contexts = np.linspace(0, 1, 60, dtype=np.float32)[:, None]
    agent.learn(contexts, (contexts[:, 0] > 0.5).astype(float))
    assert agent.choose([[0.1], [0.9]]) == [1]
    estimate = agent.estimate([[0.1], [0.9]])
    assert estimate.mean == pytest.approx([0.0, 1.0], abs=0.05)
    assert list(estimate.count) == [60, 60]


def test_the_start_is_random_for_as_long_as_told():
    arms, context = np.arange(3), np.zeros(2)
    for start, rounds in (("per_arm", 6), ("rounds", 2)):
        agent = TreeBootstrap(random_rounds=2, random_start=start, seed=0)
        for _ in range(20):
            row = agent.choose(context, arms)
            agent.learn(context, [1.0 if row[0] == 2 else 0.0], arms[row])
        assert agent.start_rounds == rounds


@pytest.mark.parametrize("mode", ["exact", "replicates"])
def test_new_categories_in_a_frame_are_taken_in(mode):
    agent = TreeBootstrap(categories="one_hot", mode=mode, replicates=2, random_rounds=0, seed=0)
    agent.learn(pd.DataFrame({"colour": ["red", "blue"] * 10}), [1.0, 0.0] * 10, [0] * 20)
    agent.learn(pd.DataFrame({"colour": ["green"] * 10}), [5.0] * 10, [0] * 10)
    mean = agent.estimate(pd.DataFrame({"colour": ["red", "blue", "green"]}), [0, 0, 0]).mean
    assert mean == pytest.approx([1.0, 0.0, 5.0], abs=0.3)


def test_a_failed_fit_leaves_the_agent_as_it_was():
    class Fragile:
        broken = False

        def fit(self, features, targets, *, seed):
            if self.broken:
                raise MemoryError
            return DecisionTreeTrees().fit(features, targets, seed=seed)

    trees = Fragile()
    agent = taught(trees=trees, mode="replicates", rebuild="every 1")
    rows = np.random.default_rng(3).normal(size=(4, 2)).astype(np.float32)
    before = agent.estimate(rows, arms=[0, 1, 0, 5])
    trees.broken = True
    with pytest.raises(MemoryError):
        agent.learn(np.zeros((3, 2)), [1.0, 1.0, 1.0], [0, 1, 0])
    after = agent.estimate(rows, arms=[0, 1, 0, 5])
    np.testing.assert_array_equal(before.mean, after.mean)
    np.testing.assert_array_equal(after.count, [20, 20, 20, 0])


def test_the_note_says_how_exact_a_run_is():
    assert TreeBootstrap().note == "exact"
    assert TreeBootstrap(mode="replicates", replicates=5).note == "5 replicates, 8 ln t"


@pytest.mark.parametrize(
    "wrong",
    [
        {"mode": "quick"},
        {"replicates": 0},
        {"random_rounds": -1},
        {"random_start": "at_once"},
        {"optimistic_reward": float("inf")},
        {"constant_rewards": "ignored"},
        {"categories": "hashed"},
        {"trees": 3},
        {"rebuild": "sometimes"},
    ],
)
def test_wrong_arguments_are_named(wrong):
    (name,) = wrong
    with pytest.raises(ParameterError, match=name):
        TreeBootstrap(**wrong)


def test_no_estimate_before_the_first_row():
    with pytest.raises(NotFittedError, match="learn"):
        TreeBootstrap().estimate(np.zeros((1, 2)), [0])
