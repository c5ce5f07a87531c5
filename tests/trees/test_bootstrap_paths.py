import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.tree import DecisionTreeRegressor

from treebandit.trees import DecisionTreeTrees, RandomForestTrees
from treebandit.trees.bootstrap_paths import PathLearner, PathLimits, SortedRows


def made(n, d, seed, *, missing=0.0):
    random = np.random.default_rng(seed)
    features = random.normal(size=(n, d)).astype(np.float32).round(1)
    features[random.random((n, d)) < missing] = np.nan
    return features, random.normal(size=n), random


def rows_of(features, targets):
    rows = SortedRows(features.shape[1])
    rows.append(features, targets)
    return rows


@given(
    st.integers(0, 10**6),
    st.integers(4, 120),
    st.sampled_from([(1, None, 1), (4, 3, 6)]),
    st.sampled_from([0.0, 0.2]),
)
@settings(max_examples=60, deadline=None)
def test_a_path_ends_where_the_whole_tree_of_scikit_learn_does(seed, n, shape, missing):
    # Two columns that split a small node equally well are a tie, broken at random: leaves are kept large.
    d, depth, leaf = shape
    features, targets, random = made(n, d, seed, missing=missing)
    weights = np.bincount(random.integers(n, size=n), minlength=n).astype(float)
    drawn = weights > 0
    tree = DecisionTreeRegressor(max_depth=depth, min_samples_leaf=leaf, random_state=seed)
    tree.fit(features[drawn], targets[drawn], sample_weight=weights[drawn])
    rows, limits = rows_of(features, targets), PathLimits(1, False, depth, leaf, d)
    for row in made(5, d, seed + 1, missing=missing)[0]:
        assert rows.predict_weighted(row, weights, limits, seed=seed) == pytest.approx(
            tree.predict(row[None])[0]
        )


@given(st.integers(0, 10**6), st.lists(st.integers(1, 12), min_size=1, max_size=12))
@settings(max_examples=40, deadline=None)
def test_rows_stay_sorted_however_they_come(seed, batches):
    features, targets, _ = made(sum(batches), 3, seed, missing=0.2)
    rows, start = SortedRows(3), 0
    for size in batches:
        rows.append(features[start : start + size], targets[start : start + size])
        start += size
    assert np.array_equal(rows.features, features, equal_nan=True)
    assert np.array_equal(rows.targets, targets)
    at_once = rows_of(features, targets)
    assert np.array_equal(rows._orders[:, :start], at_once._orders[:, :start])
    rows.truncate(start // 2)
    shorter = rows_of(features[: start // 2], targets[: start // 2])
    assert np.array_equal(rows._orders[:, : len(rows)], shorter._orders[:, : len(rows)])


def test_one_seed_is_one_tree_for_all_rows():
    """A tree without limits that sees a row once or more predicts one of the targets, and all rows agree on it."""
    features, targets, _ = made(60, 1, 0)
    features[:, 0] = np.arange(60)
    rows, limits = rows_of(features, targets), PathLimits(1, False, None, 1, 1)
    predicted = np.array([rows.predict_bootstrap(row, limits, seed=5) for row in features])
    drawn = np.flatnonzero(predicted == targets)
    assert 25 < len(drawn) < 50
    nearest = drawn[np.abs(features - features[drawn].T).argmin(1)]
    between = np.abs(features[:, 0] - features[nearest, 0])
    clear = [np.sum(np.abs(features[row] - features[drawn, 0]) == between[row]) == 1 for row in range(60)]
    assert np.array_equal(predicted[clear], targets[nearest][clear])
    again = np.array([rows.predict_bootstrap(row, limits, seed=6) for row in features])
    assert not np.array_equal(predicted, again)


def test_bootstrap_predictions_have_the_mean_and_spread_of_the_bootstrap():
    targets = np.array([0.0, 1.0, 2.0, 7.0])
    rows = rows_of(np.zeros((4, 1), np.float32), targets)
    limits = PathLimits(1, False, None, 1, 1)
    drawn = [
        rows.predict_bootstrap(np.zeros(1, np.float32), limits, seed=seed * 7919) for seed in range(4000)
    ]
    assert np.mean(drawn) == pytest.approx(targets.mean(), abs=0.1)
    assert np.var(drawn) == pytest.approx(targets.var() / 4, rel=0.1)


@pytest.mark.parametrize(("share", "tried"), [(1.0, 8), (0.5, 4), (0.01, 1), (3, 3)])
def test_forests_say_how_many_columns_they_try(share, tried):
    assert RandomForestTrees(max_features=share).path_limits(8).max_features == tried


def test_single_trees_and_forests_can_grow_paths():
    assert isinstance(DecisionTreeTrees(), PathLearner)
    assert isinstance(RandomForestTrees(), PathLearner)
    assert DecisionTreeTrees(max_depth=3).path_limits(5) == PathLimits(1, False, 3, 1, 5)
