import numpy as np
import pytest

from treebandit.core import Candidates, Columns
from treebandit.errors import InputError, SavedFileError
from treebandit.features.encoding import plain_rows
from treebandit.models.plain_ridge import PlainRidge

COLUMNS = Columns((0, 3, 0))


def rows_of(n, random, arms=4):
    contexts = np.column_stack([random.normal(size=n), random.integers(3, size=n), random.normal(size=n)])
    return Candidates(contexts.astype(np.float32), random.integers(arms, size=n), COLUMNS)


def learn(model, rows, rewards):
    model.prepared(rows, rewards, t=1, random=np.random.default_rng(0))()


def test_rows_have_length_one_and_missing_values_are_minus_one():
    rows = plain_rows(np.array([[3.0, np.nan], [0.0, 0.0]], np.float32), unit=True)
    np.testing.assert_allclose(rows, [[3 / np.sqrt(10), -1 / np.sqrt(10)], [0.0, 0.0]])
    assert plain_rows(np.array([[3.0, np.nan]], np.float32), unit=False).tolist() == [[3.0, -1.0]]


@pytest.mark.parametrize("unit", [False, True])
def test_it_is_the_textbook_regression_of_each_arm(unit):
    random = np.random.default_rng(0)
    rows, rewards = rows_of(60, random), random.normal(size=60)
    model, query = PlainRidge(0.5, unit=unit), rows_of(9, random, arms=6)
    for start in range(0, 60, 7):
        learn(model, rows[start : start + 7], rewards[start : start + 7])
    found = model.estimate(query)
    for i, arm in enumerate(query.arms):
        own = rows.arms == arm
        x, q = plain_rows(rows.contexts[own], unit=unit), plain_rows(query.contexts[i : i + 1], unit=unit)[0]
        inverse = np.linalg.inv(0.5 * np.eye(3) + x.T @ x)
        np.testing.assert_allclose(found.mean[i], q @ inverse @ x.T @ rewards[own], atol=1e-9)
        np.testing.assert_allclose(found.variance[i], q @ inverse @ q)
        assert found.count[i] == own.sum()
    assert len(model) == 60


def test_draws_share_the_coefficients_of_an_arm():
    random = np.random.default_rng(1)
    model, rows = PlainRidge(1.0), rows_of(40, random, arms=2)
    learn(model, rows, random.normal(size=40))
    query = Candidates(rows.contexts[[0, 0, 1, 2]], np.array([0, 0, 0, 1]), COLUMNS)
    draws = model.sample(query, 4000, random)
    np.testing.assert_allclose(draws[:, 0], draws[:, 1], atol=1e-12)
    estimate = model.estimate(query)
    np.testing.assert_allclose(draws.mean(0), estimate.mean, atol=4 * np.sqrt(estimate.variance.max() / 4000))
    np.testing.assert_allclose(draws.var(0), estimate.variance, rtol=0.15)
    assert abs(np.corrcoef(draws[:, 0], draws[:, 3])[0, 1]) < 0.08


def test_a_commit_made_twice_counts_once_and_one_not_made_changes_nothing():
    random = np.random.default_rng(2)
    model, rows = PlainRidge(), rows_of(5, random)
    learn(model, rows, np.ones(5))
    before = model.estimate(rows)
    commit = model.prepared(rows_of(5, random, arms=50), np.ones(5), t=2, random=random)
    np.testing.assert_array_equal(model.estimate(rows).variance, before.variance)
    commit()
    once = model.estimate(rows).mean
    commit()
    np.testing.assert_array_equal(model.estimate(rows).mean, once)


def test_a_saved_state_goes_on_and_a_damaged_one_is_refused():
    random = np.random.default_rng(3)
    model, rows = PlainRidge(), rows_of(30, random)
    learn(model, rows, random.normal(size=30))
    other, state = PlainRidge(), model.state()
    other.restore({key: value.copy() for key, value in state.items()})
    np.testing.assert_allclose(other.estimate(rows).mean, model.estimate(rows).mean)
    for name, place, value in (("gram", (1, 0, 1), 9.0), ("gram", (1, 0, 0), -9.0), ("counts", 0, -1.0)):
        damaged = {key: array.copy() for key, array in state.items()}
        damaged[name][place] = value
        with pytest.raises(SavedFileError):
            PlainRidge().restore(damaged)


@pytest.mark.parametrize("size", [1e7, 1e8, 1e9, 1e12])
def test_large_columns_that_are_equal_are_learned_and_saved(size):
    random = np.random.default_rng(4)
    x = np.abs(random.normal(size=(200, 1))) * size
    rows = Candidates(np.hstack([x, x]).astype(np.float32), np.zeros(200, np.intp), Columns.numeric(2))
    model, again = PlainRidge(), PlainRidge()
    for row in range(200):
        learn(model, rows[[row]], x[row] / size)
    again.restore(model.state())
    for each in (model, again):
        found = each.estimate(rows)
        np.testing.assert_allclose(found.mean, x[:, 0] / size, atol=1e-3)
        np.testing.assert_allclose(found.variance, x[:, 0] ** 2 / (x**2).sum(), rtol=1e-3)


def test_too_many_columns_are_refused():
    wide = Candidates(np.zeros((1, 20_000), np.float32), np.zeros(1, np.intp), Columns.numeric(20_000))
    with pytest.raises(InputError, match="fewer columns"):
        learn(PlainRidge(), wide, np.ones(1))
