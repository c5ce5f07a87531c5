import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.tree import DecisionTreeRegressor

from treebandit.trees import RandomForestTrees
from treebandit.trees import binned_paths as paths
from treebandit.trees.binned_paths import BinnedRows
from treebandit.trees.bootstrap_paths import PathLimits


def made(n, d, seed, *, missing=0.0):
    random = np.random.default_rng(seed)
    features = random.normal(size=(n, d)).astype(np.float32).round(1)
    features[random.random((n, d)) < missing] = np.nan
    return features, random.normal(size=n), random


def rows_of(features, targets):
    rows = BinnedRows(features.shape[1])
    rows.append(features, targets)
    return rows


@given(st.integers(0, 10**6), st.sampled_from([8, 24, 64, 114]), st.sampled_from([(1, 20, 1), (4, 3, 6)]))
@settings(max_examples=60)
def test_with_a_bin_per_value_a_path_ends_where_the_whole_tree_does(seed, n, shape):
    # On its own rows: between values a cut lies halfway to the next value of the node, or of the column.
    d, depth, leaf = shape
    features, targets, random = made(n, d, seed)
    rows = rows_of(features, targets)
    assert rows._binned == n
    weights = np.bincount(random.integers(n, size=n), minlength=n).astype(float)
    members = np.flatnonzero(weights).astype(np.int32)
    tree = DecisionTreeRegressor(max_depth=depth, min_samples_leaf=leaf, random_state=seed)
    tree.fit(features[members], targets[members], sample_weight=weights[members])
    codes = rows._codes[:n]
    for row in members[:5]:
        sums = np.zeros((rows._starts[-1], 3))
        path = paths._grow_path(
            codes, targets, weights, np.append(members, np.int32(0)), len(members), codes[row], rows._starts,
            sums, depth, leaf, d, np.uint64(seed),
        )  # fmt: skip
        assert path == pytest.approx(tree.predict(features[row][None])[0])


@given(st.integers(0, 10**6), st.lists(st.integers(1, 30), min_size=1, max_size=12))
@settings(max_examples=40)
def test_bins_do_not_depend_on_how_rows_came(seed, batches):
    features, targets, _ = made(sum(batches), 3, seed, missing=0.2)
    rows, start = BinnedRows(3), 0
    for size in batches:
        rows.append(features[start : start + size], targets[start : start + size])
        start += size
    assert np.array_equal(rows.features, features, equal_nan=True)
    assert np.array_equal(rows.targets, targets)
    at_once = rows_of(features, targets)
    assert np.array_equal(rows._codes[:start], at_once._codes[:start])
    rows.truncate(max(start // 2, 1))
    half = len(rows)
    assert np.array_equal(rows._codes[:half], rows_of(features[:half], targets[:half])._codes[:half])


def test_bins_keep_the_order_of_values_and_missing_ones_apart():
    random = np.random.default_rng(0)
    few, many = random.integers(5, size=2000), random.normal(size=2000)
    features = np.column_stack((few, many)).astype(np.float32)
    features[::10] = np.nan
    rows = rows_of(features, np.zeros(2000))
    codes = rows._codes[:2000].astype(int) - rows._starts[:-1]
    assert (codes[::10] == 0).all()
    present = np.arange(2000) % 10 > 0
    for column in range(2):
        order = np.argsort(features[present, column])
        assert (np.diff(codes[present, column][order]) >= 0).all()
        assert codes[present, column].min() == 1
    assert codes[:, 0].max() == 5
    assert 240 < codes[:, 1].max() <= 255


def test_bootstrap_predictions_have_the_spread_of_a_bootstrap_and_of_a_bootstrap_of_it():
    targets = np.array([0.0, 1.0, 2.0, 7.0])
    rows, row = rows_of(np.zeros((4, 1), np.float32), targets), np.zeros(1, np.float32)
    for bagged, factor in ((False, 1.0), (True, 1.0 + 3 / 4)):
        limits = PathLimits(1, bagged, None, 1, 1)
        drawn = [rows.predict_bootstrap(row, limits, seed=seed * 7919) for seed in range(4000)]
        assert np.mean(drawn) == pytest.approx(targets.mean(), abs=0.1)
        assert np.var(drawn) == pytest.approx(targets.var() / 4 * factor, rel=0.1)


def test_a_forest_of_paths_predicts_as_well_as_scikit_learns():
    random = np.random.default_rng(0)
    features = random.uniform(-1, 1, (400, 4)).astype(np.float32)
    truth = np.sin(3 * features[:, 0]) + features[:, 1]
    targets = truth + 0.3 * random.normal(size=400)
    rows = rows_of(features[:300], targets[:300])
    for learner in (RandomForestTrees(n_trees=20), RandomForestTrees(n_trees=20, max_features=0.5)):
        limits, errors = learner.path_limits(4), []
        for seed in range(8):
            sample = random.integers(300, size=300)
            forest = learner.fit(features[sample], targets[sample], seed=seed)
            found = [rows.predict_bootstrap(row, limits, seed=seed) for row in features[300:]]
            errors.append([np.mean((p - truth[300:]) ** 2) for p in (found, forest.predict(features[300:]))])
        ours, theirs = np.mean(errors, axis=0)
        assert ours == pytest.approx(theirs, rel=0.25)


def test_missing_values_have_a_side():
    features = np.array([np.nan, 1.0, 2.0] * 20, np.float32)[:, None]
    rows = rows_of(features, np.array([5.0, 0.0, 1.0] * 20))
    limits = PathLimits(20, True, None, 1, 1)
    for value, expected in ((np.nan, 5.0), (1.2, 0.0), (9.0, 1.0)):
        assert rows.predict_bootstrap(np.array([value], np.float32), limits, seed=3) == pytest.approx(
            expected
        )
