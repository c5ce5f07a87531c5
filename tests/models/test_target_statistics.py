import numpy as np
import pytest

from treebandit import Bandit
from treebandit.core import Candidates, Columns
from treebandit.errors import SavedFileError
from treebandit.models.cross_fitting import folds
from treebandit.models.linear_scores import LinearEncoder
from treebandit.models.target_statistics import TargetStatistics

COLUMNS = Columns((0, 100))


def made_rows(n=500, seed=0):
    random = np.random.default_rng(seed)
    contexts = np.column_stack([random.normal(size=n), random.integers(0, 90, n)]).astype(np.float32)
    contexts[:5, 1] = np.nan
    return Candidates(contexts, random.integers(0, 2, n) * 4, COLUMNS), random.random(n)


def fitted(rows, rewards):
    fold = folds(rows.arms, len(rows), np.random.default_rng(1))
    return (*TargetStatistics.fit(rows, rewards, places=np.array([1]), folds=fold), fold)


def by_hand(rows, rewards, among, arm, code):
    mine = among & (rows.arms == arm)
    mean = (rewards[mine].sum() + 2 * rewards[among].mean()) / (mine.sum() + 2)
    here = mine & (rows.contexts[:, 1] == code)
    return (rewards[here].sum() + 2 * mean) / (here.sum() + 2)


def test_they_are_shrunk_means_of_arm_and_category():
    rows, rewards = made_rows()
    statistics, own, fold = fitted(rows, rewards)
    every = np.ones(len(rows), bool)
    for row in range(10, 40):
        arm, code = rows.arms[row], rows.contexts[row, 1]
        found = statistics(rows.contexts[[row]], rows.arms[[row]])[0, 0]
        assert found == pytest.approx(by_hand(rows, rewards, every, arm, code), rel=1e-5)
        others = by_hand(rows, rewards, fold != fold[row], arm, code)
        assert own[row, 0] == pytest.approx(others, rel=1e-5)


def test_categories_and_arms_without_rows_have_the_mean():
    rows, rewards = made_rows()
    statistics, _, _ = fitted(rows, rewards)
    arm = np.array([4, 4, 9])
    found = statistics(np.float32([[0, 95], [0, 1000], [0, 3]]), arm)[:, 0]
    assert found[0] == pytest.approx(rewards[rows.arms == 4].mean(), rel=0.01)
    assert found[2] == pytest.approx(rewards.mean(), rel=1e-5)
    assert np.isfinite(found).all()


def test_they_are_saved_and_forged_files_are_refused():
    rows, rewards = made_rows()
    encoder, _ = LinearEncoder.fit(rows, rewards, arm_encoding="auto", random=np.random.default_rng(0))
    again = LinearEncoder.from_state(encoder.state())
    np.testing.assert_array_equal(again(rows.contexts, rows.arms), encoder(rows.contexts, rows.arms))
    for forged in (None, {"arms": np.array([0, 4]), "tables": np.zeros((3, 50))}):
        with pytest.raises(SavedFileError):
            LinearEncoder.from_state({**encoder.state(), "statistics": forged})


def test_a_thousand_categories_decide_the_reward():
    random = np.random.default_rng(0)
    best, codes, arms = random.integers(0, 2, 1000), random.integers(0, 1000, 12_000), np.arange(12_000) % 2
    rewards = (best[codes] == arms).astype(float)
    columns = Columns((1000, 0))
    contexts = np.column_stack([codes, random.normal(size=12_000)]).astype(np.float32)
    agent = Bandit(seed=0)
    agent.learn(Candidates(contexts, arms, columns), rewards)
    asked = np.column_stack([np.arange(1000), np.zeros(1000)]).astype(np.float32)
    means = [agent.estimate(Candidates(asked, np.full(1000, arm), columns)).mean for arm in (0, 1)]
    assert np.mean(np.argmax(means, axis=0) == best) > 0.9


def test_many_arms_share_the_statistics_and_explanations_add_up():
    random = np.random.default_rng(0)
    contexts = np.column_stack([random.integers(0, 100, 400), random.normal(size=400)]).astype(np.float32)
    arms, columns = np.arange(400) % 80, Columns((100, 0))
    agent = Bandit(seed=0)
    agent.learn(Candidates(contexts, arms, columns), random.normal(size=80)[arms] + contexts[:, 1])
    explanation = agent.explain(Candidates(contexts[:5], arms[:5], columns))
    np.testing.assert_allclose(explanation.contributions.sum(axis=1), explanation.mean)
