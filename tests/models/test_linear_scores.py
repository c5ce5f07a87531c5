import numpy as np
import pytest

from treebandit.core import Candidates, Columns
from treebandit.errors import SavedFileError
from treebandit.models.cross_fitting import folds
from treebandit.models.linear_scores import LinearEncoder

COLUMNS = Columns((0, 0, 3))


def made_rows(n=60, arms=3, seed=0):
    random = np.random.default_rng(seed)
    contexts = np.column_stack([random.normal(5.0, 3.0, (n, 2)), random.integers(0, 3, n)]).astype(np.float32)
    contexts[random.random(n) < 0.1, 0] = np.nan
    rows = Candidates(contexts, random.integers(0, arms, n) * 10, COLUMNS)
    return rows, random.random(n)


def by_hand(encoder, rows, rewards, at, row):
    """The ridge regression of rows `at` on (1, scaled numbers, one-hot categories), asked about one row."""
    numbers = rows.contexts[:, :2].astype(float)
    scaled = np.nan_to_num((numbers - np.nanmean(numbers, 0)) / np.nanstd(numbers, 0))
    z = np.hstack([np.ones((len(rows), 1)), scaled, rows.contexts[:, 2:] == np.arange(3)])
    base = rewards.mean()
    theta = np.linalg.solve(
        z[at].T @ z[at] + encoder.ridge.ridge * np.eye(z.shape[1]), z[at].T @ (rewards[at] - base)
    )
    return base + z[row] @ theta


def fitted(rows, rewards, **arguments):
    return LinearEncoder.fit(
        rows, rewards, **{"arm_encoding": "auto", "random": np.random.default_rng(7), **arguments}
    )


def test_a_learned_row_gets_the_score_of_the_other_folds():
    rows, rewards = made_rows()
    encoder, features = fitted(rows, rewards)
    assert encoder.ridge.ridge == 3.0  # all is noise, and the prior weighs as much as a twentieth of the rows
    assert features.shape == (60, 1 + 2 + 3 + 1)
    fold = folds(rows.arms, 60, np.random.default_rng(7))
    for row in range(60):
        others = (fold != fold[row]) & (rows.arms == rows.arms[row])
        assert features[row, -1] == pytest.approx(by_hand(encoder, rows, rewards, others, row), abs=1e-5)


@pytest.mark.parametrize("n", [1, 2, 7, 100])
def test_folds_part_the_rows_and_every_arm_alike(n):
    arms = np.random.default_rng(0).integers(0, 3, n)
    fold = folds(arms, n, np.random.default_rng(1))
    counts = np.array([np.bincount(arms[fold == each], minlength=3) for each in range(5)])
    assert counts.sum() == n
    assert (np.ptp(counts, axis=0) <= 1).all()


def test_the_score_of_a_row_does_not_tell_its_reward():
    # 40 rows of one context: left out alone, a row's score would tell its reward for sure (a correlation of -1).
    random = np.random.default_rng(0)
    rows = Candidates(np.zeros((40, 1), np.float32), np.zeros(40, np.intp), Columns.numeric(1))
    correlations = []
    for seed in range(100):
        rewards = random.permutation(np.repeat([0.0, 1.0], 20))
        scores = fitted(rows, rewards, random=np.random.default_rng(seed))[1][:, -1]
        correlations.append(np.corrcoef(scores, rewards)[0, 1])
    assert np.mean(correlations) > -0.4


def test_a_new_row_gets_the_score_of_its_arm():
    rows, rewards = made_rows()
    encoder, features = fitted(rows, rewards)
    asked = encoder(rows.contexts, rows.arms)
    np.testing.assert_array_equal(asked[:, :-1], features[:, :-1])
    for row in range(60):
        expected = by_hand(encoder, rows, rewards, rows.arms == rows.arms[row], row)
        assert asked[row, -1] == pytest.approx(expected, abs=1e-5)


def test_an_arm_without_rows_scores_the_mean_reward():
    rows, rewards = made_rows()
    encoder, _ = fitted(rows, rewards)
    for stranger in (-1, 5, 99):
        scores = encoder(rows.contexts, np.full(60, stranger))[:, -1]
        np.testing.assert_allclose(scores, rewards.mean(), rtol=1e-6)


@pytest.mark.parametrize("arms", [None, np.arange(60)], ids=["no arms", "one row an arm"])
def test_some_or_all_share_a_model(arms):
    rows, rewards = made_rows()
    encoder, _ = fitted(Candidates(rows.contexts, arms, COLUMNS), rewards)
    score = encoder.look_up(rows.contexts[:1], None if arms is None else arms[:1])[1][0]
    at = np.ones(60, bool) if arms is None else np.arange(60) == 0
    assert score == pytest.approx(by_hand(encoder, rows, rewards, at, 0), abs=1e-5)


def test_very_many_arms_share_one_model():
    rows, rewards = made_rows(n=100)
    many = np.arange(100)
    encoder, features = fitted(Candidates(rows.contexts, many, COLUMNS), rewards)
    assert not encoder.scored
    assert features.shape == (100, 1 + 2 + 3)  # the trees do not see the score
    score = encoder.look_up(rows.contexts[:1], many[:1])[1][0]
    assert score == pytest.approx(by_hand(encoder, rows, rewards, np.ones(100, bool), 0), abs=1e-5)


def test_very_many_categories_are_numbers():
    contexts = np.arange(200, dtype=np.float32)[:, None]
    rows = Candidates(contexts, np.zeros(200, np.intp), Columns((200,)))
    _, features = fitted(rows, contexts[:, 0].astype(float))
    assert features.shape == (200, 4)  # arm, code, statistic, score
    np.testing.assert_array_equal(features[:, 1], contexts[:, 0])
    np.testing.assert_allclose(features[:, 3], contexts[:, 0], atol=1.0)


def test_constant_and_empty_columns_do_no_harm():
    contexts = np.array([[3.0, np.nan]] * 5, np.float32)
    rows = Candidates(contexts, np.zeros(5, np.intp), Columns.numeric(2))
    encoder, features = fitted(rows, np.arange(5.0))
    assert np.isfinite(features[:, -1]).all()
    assert np.isfinite(encoder(np.array([[1.0, 7.0]], np.float32), rows.arms[:1])[:, -1]).all()


@pytest.mark.parametrize("arm_encoding", ["auto", "one_hot", "none"])
@pytest.mark.parametrize("linear", [True, False])
def test_restored_it_gives_the_same_features(arm_encoding, linear):
    rows, rewards = made_rows()
    encoder, _ = fitted(rows, rewards, arm_encoding=arm_encoding, linear=linear)
    again = LinearEncoder.from_state(encoder.state())
    np.testing.assert_array_equal(again(rows.contexts, rows.arms), encoder(rows.contexts, rows.arms))


def design(rows, scaled_by):
    """(1, scaled numbers, one-hot categories) of the rows, with the scales of other rows."""
    numbers, others = rows.contexts[:, :2].astype(float), scaled_by.contexts[:, :2].astype(float)
    scaled = np.nan_to_num((numbers - np.nanmean(others, 0)) / np.nanstd(others, 0))
    return np.hstack([np.ones((len(rows), 1)), scaled, rows.contexts[:, 2:] == np.arange(3)])


def test_rows_change_the_regression_of_their_arm_at_once():
    rows, rewards = made_rows()
    encoder, _ = fitted(rows, rewards)
    for arm in (int(rows.arms[0]), 99):
        row = Candidates(rows.contexts[:1], np.array([arm]), COLUMNS)
        before, _, known, _ = encoder.look_up(row.contexts, row.arms)
        update = encoder.scored_update(row, np.array([5.0]))[-1]
        update()
        update()  # may be repeated
        after, _, better_known, _ = encoder.look_up(row.contexts, row.arms)
        assert after[0, -1] > before[0, -1]
        assert better_known[0] == pytest.approx(known[0] / (1.0 + known[0]), rel=0.1)


def test_an_arm_without_rows_is_known_least():
    rows, rewards = made_rows()
    encoder, _ = fitted(rows, rewards)
    known = encoder.look_up(rows.contexts, rows.arms)[2]
    stranger = encoder.look_up(rows.contexts, np.full(60, 99))[2]
    assert (known < stranger).all()
    np.testing.assert_allclose(stranger, (design(rows, rows) ** 2).sum(1) / encoder.ridge.ridge, rtol=1e-6)


def test_wide_tables_of_many_arms_share_one_model():
    random = np.random.default_rng(0)
    contexts = random.integers(0, 50, size=(90, 8)).astype(np.float32)
    rows = Candidates(contexts, np.arange(90) % 30, Columns((50,) * 8))
    encoder, _ = fitted(rows, random.random(90))
    scores = [encoder.look_up(rows.contexts[:1], np.array([arm]))[1][0] for arm in range(3)]
    assert scores[0] == scores[1] == scores[2]


def test_features_beyond_the_first_1024_do_no_harm():
    random = np.random.default_rng(0)
    contexts = random.integers(0, 50, size=(20, 22)).astype(np.float32)
    rows = Candidates(contexts, None, Columns((50,) * 22))
    encoder, features = fitted(rows, random.random(20))
    assert features.shape == (20, 1100)
    before = encoder.look_up(contexts[:1], None)[1][0]
    encoder.scored_update(rows[:1], np.array([5.0]))[-1]()
    assert encoder.look_up(contexts[:1], None)[1][0] > before


def test_of_many_columns_those_are_kept_that_rewards_go_with():
    random = np.random.default_rng(0)
    contexts, arms = random.normal(size=(300, 90)).astype(np.float32), random.integers(0, 2, 300)
    contexts[::7, 80] = np.nan
    signs = np.where(arms == 0, 1.0, -1.0)
    rewards = signs * contexts[:, 3] + random.normal(size=300) + np.nan_to_num(contexts[:, 80])
    rows = Candidates(contexts, arms, Columns.numeric(90))
    encoder, features = fitted(rows, rewards)
    assert features.shape == (300, 1 + 64 + 1)
    for column in (3, 80):
        assert any(np.array_equal(contexts[:, column], each, equal_nan=True) for each in features.T)
    again = LinearEncoder.from_state(encoder.state())
    np.testing.assert_array_equal(again(contexts, arms), encoder(contexts, arms))
    with pytest.raises(SavedFileError):
        LinearEncoder.from_state({**encoder.state(), "kept": np.arange(64) + 50})


@pytest.mark.parametrize(
    "forged",
    [
        {"labels": "yes", "known": None},
        {"known": "all"},
        {"names": [1, 2]},
        {"names": ["one"]},
        {"categories": [False, 3]},
        {"linear": {"arms": 10**30}},
        {"linear": {"arms": 2.7}},
        {"linear": "all"},
    ],
)
def test_a_forged_encoder_is_refused(forged):
    random = np.random.default_rng(0)
    contexts, arms = random.normal(size=(40, 2)).astype(np.float32), np.arange(40) % 2
    encoder, _ = fitted(Candidates(contexts, arms, Columns.numeric(2)), contexts[:, 0].astype(float))
    saved = encoder.state()
    if isinstance(linear := forged.get("linear"), dict):
        forged = {"linear": {**saved["linear"], **linear}}
    with pytest.raises(SavedFileError):
        LinearEncoder.from_state({**saved, **forged})
