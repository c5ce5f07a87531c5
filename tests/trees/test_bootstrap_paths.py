"""Predictions of paths against slow whole trees; that a path is that of a whole tree is in test_histogram_forest."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from treebandit.trees import DecisionTreeTrees, RandomForestTrees
from treebandit.trees.bootstrap_paths import BinnedRows, PathLearner, PathLimits, RankedRows

ONE_TREE = PathLimits(1, False, None, 1, 1)


def made(n, d, seed, *, missing=0.0):
    random = np.random.default_rng(seed)
    features = random.normal(size=(n, d)).astype(np.float32).round(1)
    features[random.random((n, d)) < missing] = np.nan
    return features, random.normal(size=n)


def rows_of(features, targets, kind=RankedRows):
    return kind(features.shape[1]).appended(features, targets)


def predictions(rows, asked, limits=ONE_TREE, *, seed):
    return np.array([rows.predict_bootstrap(row, limits, seed=seed) for row in asked])


def mixed(bits):
    """The finish of splitmix64."""
    bits = (bits ^ bits >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    bits = (bits ^ bits >> 27) * 0x94D049BB133111EB % 2**64
    return bits ^ bits >> 31


def draws(n, key):
    """n whole numbers below n, drawn by the key."""
    return [(mixed((key + place * 0x9E3779B97F4A7C15) % 2**64) >> 32) * n >> 32 for place in range(n)]


def drawn_weights(n, seed, *, bagged):
    """How often each row counts in the first tree."""
    sample = np.array(draws(n, seed))
    if bagged:
        sample = sample[draws(n, mixed(seed))]
    return np.bincount(sample, minlength=n)


def splits_of(features):
    """Every (column, threshold, whether missing values go right) that parts (n, d) features."""
    for column, values in enumerate(features.T):
        known = np.unique(values[~np.isnan(values)])
        for cut in (*((low + high) / 2 for low, high in itertools.pairwise(known)), np.inf):
            yield from ((column, cut, missing_right) for missing_right in (True, False))


def goes_right(features, split):
    column, cut, missing_right = split
    return np.where(np.isnan(features[:, column]), missing_right, features[:, column] >= cut)


def slow_predictions(features, targets, weights, asked, limits, depth=0):
    """All that a whole tree may predict for (1, d) asked features, whichever of equally good splits it takes."""
    mean = np.average(targets, weights=weights)
    gains = {}
    for split in splits_of(features):
        sides = [goes_right(features, split), ~goes_right(features, split)]
        if min(side.sum() for side in sides) >= limits.min_samples_leaf:
            gains[split] = sum(
                (weights * (targets - mean))[side].sum() ** 2 / weights[side].sum() for side in sides
            )
    if depth == limits.max_depth or np.ptp(targets) == 0 or not gains:
        return {float(mean)}
    best = [split for split, gain in gains.items() if gain > max(gains.values()) - 1e-9]
    sides = {tuple(goes_right(features, split) == goes_right(asked, split)) for split in best}
    return set().union(
        *(
            slow_predictions(features[[*side]], targets[[*side]], weights[[*side]], asked, limits, depth + 1)
            for side in sides
        )
    )


def check_paths(features, targets, asked, limits, seed):
    """That the path of each asked row ends in a leaf of the slow tree."""
    weights = drawn_weights(len(targets), seed, bagged=limits.bagged)
    at, exact = weights > 0, features.astype(float)
    found = predictions(rows_of(features, targets), features[asked], limits, seed=seed)
    for row, predicted in zip(asked, found, strict=True):
        expected = slow_predictions(exact[at], targets[at], weights[at], exact[[row]], limits)
        assert min(abs(predicted - one) for one in expected) < 1e-9


@given(st.integers(0, 2**63 - 1), st.integers(1, 16), st.integers(1, 3), st.booleans(), st.booleans())
@settings(max_examples=80, deadline=None)
def test_a_path_predicts_what_a_slow_tree_on_the_same_bootstrap_does(seed, n, d, bagged, limited):
    features, targets = made(n, d, seed % 9973, missing=0.1)
    limits = PathLimits(1, bagged, 3 if limited else None, 2 if limited else 1, d)
    check_paths(features, targets, range(n), limits, seed)


@pytest.mark.parametrize("seed", range(3))
def test_a_path_is_exact_among_many_different_values(seed):
    """More values than codes of a byte, and nodes of much fewer rows than values."""
    random = np.random.default_rng(seed)
    features = random.standard_normal((700, 2)).astype(np.float32)
    features[::50, 1] = np.nan
    targets = np.sin(4 * features[:, 0]) + random.standard_normal(700)
    check_paths(features, targets, range(0, 700, 99), PathLimits(1, False, None, 1, 2), seed)


@given(
    st.integers(0, 10**6),
    st.lists(st.integers(1, 30), min_size=1, max_size=12),
    st.sampled_from([BinnedRows, RankedRows]),
)
@settings(max_examples=60, deadline=None)
def test_trees_do_not_depend_on_how_rows_came(seed, batches, kind):
    features, targets = made(sum(batches), 3, seed, missing=0.2)
    limits = PathLimits(2, True, 5, 1, 2)
    rows, start = kind(3), 0
    for size in batches:
        before = rows
        rows = rows.appended(features[start : start + size], targets[start : start + size])
        if start:  # the rows as they were are still there
            kept = rows_of(features[:start], targets[:start], kind)
            assert np.array_equal(*(predictions(r, features[:2], limits, seed=5) for r in (before, kept)))
        start += size
        assert np.array_equal(rows.features, features[:start], equal_nan=True)
        assert np.array_equal(rows.targets, targets[:start])
        at_once = rows_of(features[:start], targets[:start], kind)
        assert np.array_equal(*(predictions(r, features[:4], limits, seed=seed) for r in (rows, at_once)))


def test_one_seed_is_one_tree_for_all_rows():
    """A tree without limits that sees a row once or more predicts one of the targets, and all rows agree on it."""
    features, targets = made(64, 1, 0)
    features[:, 0] = np.arange(64)
    rows = rows_of(features, targets)
    predicted = predictions(rows, features, seed=5)
    drawn = np.flatnonzero(np.isclose(predicted, targets))
    assert 25 < len(drawn) < 50
    nearest = drawn[np.abs(features - features[drawn].T).argmin(1)]
    between = np.abs(features[:, 0] - features[nearest, 0])
    clear = [np.sum(np.abs(features[row] - features[drawn, 0]) == between[row]) == 1 for row in range(64)]
    assert predicted[clear] == pytest.approx(targets[nearest][clear])
    assert not np.array_equal(predicted, predictions(rows, features, seed=6))


def test_bootstrap_predictions_have_the_spread_of_a_bootstrap_and_of_a_bootstrap_of_it():
    targets = np.array([0.0, 1.0, 2.0, 7.0])
    rows, row = rows_of(np.zeros((4, 1), np.float32), targets), np.zeros(1, np.float32)
    for bagged, factor in ((False, 1.0), (True, 1.0 + 3 / 4)):
        limits = PathLimits(1, bagged, None, 1, 1)
        drawn = [rows.predict_bootstrap(row, limits, seed=seed * 7919) for seed in range(4000)]
        assert np.mean(drawn) == pytest.approx(targets.mean(), abs=0.1)
        assert np.var(drawn) == pytest.approx(targets.var() / 4 * factor, rel=0.1)


@pytest.mark.parametrize(
    "learner",
    [
        DecisionTreeTrees(min_samples_leaf=5),
        RandomForestTrees(n_trees=20),
        RandomForestTrees(n_trees=20, max_features=0.5),
    ],
)
def test_paths_predict_as_well_as_whole_trees_of_scikit_learn(learner):
    errors = []
    for seed in range(20):
        random = np.random.default_rng(seed)
        features = random.uniform(-1, 1, (360, 4)).astype(np.float32)
        truth = np.sin(3 * features[:, 0]) + features[:, 1]
        targets = truth + 0.3 * random.normal(size=360)
        sample = random.integers(300, size=300)
        forest = learner.fit(features[sample], targets[sample], seed=seed)
        kind = RankedRows if isinstance(learner, DecisionTreeTrees) else BinnedRows
        rows, asked = rows_of(features[:300], targets[:300], kind), features[300:]
        found = predictions(rows, asked, learner.path_limits(4), seed=seed)
        errors.append([np.mean((p - truth[300:]) ** 2) for p in (found, forest.predict(asked))])
    ours, theirs = np.mean(errors, axis=0)
    assert ours == pytest.approx(theirs, rel=0.25)


@pytest.mark.parametrize("kind", [BinnedRows, RankedRows])
def test_missing_values_have_a_side(kind):
    features = np.array([np.nan, 1.0, 2.0] * 20, np.float32)[:, None]
    rows = rows_of(features, np.array([5.0, 0.0, 1.0] * 20), kind)
    limits = PathLimits(20, True, None, 1, 1)
    for value, expected in ((np.nan, 5.0), (1.2, 0.0), (9.0, 1.0)):
        asked = np.array([value], np.float32)
        assert rows.predict_bootstrap(asked, limits, seed=3) == pytest.approx(expected)


@pytest.mark.parametrize(("share", "tried"), [(1.0, 8), (0.5, 4), (0.01, 1), (3, 3)])
def test_forests_say_how_many_columns_they_try(share, tried):
    assert RandomForestTrees(max_features=share).path_limits(8).max_features == tried


@pytest.mark.parametrize("kind", [BinnedRows, RankedRows])
@pytest.mark.parametrize("limits", [ONE_TREE, PathLimits(7, True, 3, 1, 1)])
def test_a_single_row_predicts_its_own_target_and_later_ones_join_it(kind, limits):
    one = kind(1).appended(np.array([[2.0]], np.float32), np.array([0.1]))
    asked = np.array([5.0], np.float32)
    assert one.predict_bootstrap(asked, limits, seed=1) == 0.1
    two = one.appended(np.array([[9.0]], np.float32), np.array([0.7]))
    drawn = {round(two.predict_bootstrap(asked, ONE_TREE, seed=seed), 9) for seed in range(50)}
    assert drawn == {0.1, 0.7}
    assert one.predict_bootstrap(asked, limits, seed=1) == 0.1


def test_single_trees_and_forests_can_grow_paths():
    assert isinstance(DecisionTreeTrees(), PathLearner)
    assert isinstance(RandomForestTrees(), PathLearner)
    assert DecisionTreeTrees(max_depth=3).path_limits(5) == PathLimits(1, False, 3, 1, 5)
