"""Every split of our own trees is the best one that an exhaustive search finds on the raw features."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trees.library import tables

from treebandit.errors import ParameterError
from treebandit.trees import HistogramBoosting, HistogramForest, LeafStatistics, RandomForestTrees
from treebandit.trees.bins import BinnedFeatures
from treebandit.trees.histogram_forest import _Growth


def worth(right, targets, weights):
    """What a split leaves explained, or -inf where a side has too few rows."""
    if min(right.sum(), (~right).sum()) < 2:
        return -np.inf
    return sum((weights * targets)[side].sum() ** 2 / weights[side].sum() for side in (right, ~right))


def all_splits(features):
    """Every way in which one threshold parts the rows, with missing values on either side."""
    for column in features.T:
        missing = np.isnan(column)
        yield missing
        for value in np.unique(column[~missing]):
            yield (column >= value) | missing
            yield column >= value


def goes_right(growth, features, split):
    group, cut, missing_left = split
    columns, thresholds = growth.binned.thresholds(np.array([group]), np.array([cut]))
    column = features[:, columns[0]]
    return np.where(np.isnan(column), not missing_left, column >= thresholds[0])


@settings(deadline=None, max_examples=60)
@given(tables(max_rows=40), st.integers(0, 2**32 - 1), st.booleans())
def test_each_split_is_the_best_one(table, seed, bagged):
    random = np.random.default_rng(seed)
    features, n = table.features, len(table.targets)
    targets = table.targets - table.targets.mean()
    weights = np.bincount(random.integers(0, n, n), minlength=n) if bagged else np.ones(n)
    weights = weights.astype(np.int32)
    growth = _Growth(HistogramForest(max_depth=4, max_features=1.0), features)
    growth.grow(targets, weights, growth.groups, seed=seed)
    children, splits, values = growth._trees[0]
    todo = [(0, np.flatnonzero(weights), 0)]
    while todo:
        node, rows, depth = todo.pop()
        x, y, w = features[rows], targets[rows], weights[rows]
        assert values[node] == pytest.approx((w * y).sum() / w.sum(), abs=1e-9)
        best = max((worth(right, y, w) for right in all_splits(x)), default=-np.inf)
        if children[node, 0] < 0:
            assert depth == 4 or best == -np.inf or np.ptp(y) < 1e-5
            continue
        right = goes_right(growth, x, splits[node])
        assert worth(right, y, w) == pytest.approx(best, rel=1e-6, abs=1e-9)
        todo += [(children[node, 0], rows[~right], depth + 1), (children[node, 1], rows[right], depth + 1)]


@settings(deadline=None, max_examples=60)
@given(tables(), st.integers(2, 9))
def test_bins_and_thresholds_part_the_rows_alike(table, most_bins):
    binned = BinnedFeatures.of(table.features, most_bins)
    for group, codes in enumerate(binned.codes):
        width = binned.widths[group]
        assert width <= most_bins
        for cut in range(1, width):
            columns, thresholds = binned.thresholds(np.array([group]), np.array([cut]))
            column = table.features[:, columns[0]]
            known = ~np.isnan(column)
            by_code = codes == cut if binned.singles[group] else codes >= cut
            assert ((column >= thresholds[0]) == by_code)[known].all()
            assert (codes[~known] == width).all()


def test_bins_of_many_values_are_of_about_equal_weight():
    column = np.random.default_rng(0).standard_exponential((10_000, 1)).astype(np.float32)
    codes = BinnedFeatures.of(column, 64).codes[0]
    assert np.bincount(codes).tolist() == pytest.approx([10_000 / 64] * 64, abs=1.01)


def test_every_row_counts_when_columns_are_cut():
    """Cut by every second of 40,000 rows, a column that alternates would be constant, and a rare value lost."""
    column = np.tile([0, 1], 20_000).astype(np.float32)
    column[12_345] = 7
    binned = BinnedFeatures.of(column[:, None], 64)
    assert [np.unique(column[binned.codes[0] == code]).tolist() for code in range(3)] == [[0], [1], [7]]
    forest = HistogramForest(n_trees=5).fit(column[:, None], column.astype(float), seed=0)
    assert forest.predict(np.array([[0], [1]], np.float32)) == pytest.approx([0, 1], abs=0.01)


def one_hot(codes, width):
    return (codes[:, None] == np.arange(width)).astype(np.float32)


def test_one_hot_columns_are_one_group_and_split_as_single_columns():
    random = np.random.default_rng(1)
    codes = random.integers(0, 7, 300)
    features = np.hstack([random.standard_normal((300, 1)), one_hot(codes, 6), random.random((300, 1))])
    features = features.astype(np.float32)
    targets = np.isin(codes, [1, 4]) + 0.01 * random.standard_normal(300)
    binned = BinnedFeatures.of(features, 64)
    assert binned.singles.tolist() == [False, True, False]
    forest = HistogramForest(n_trees=1, max_features=1.0, bootstrap=False, max_depth=2).fit(
        features, targets, seed=0
    )
    for code in range(7):
        at = forest.predict(features[codes == code])
        assert at == pytest.approx(
            targets[np.isin(codes, [1, 4]) if code in (1, 4) else codes == code].mean(), abs=0.05
        )


def test_0_1_columns_that_meet_stay_apart():
    features = np.array([[0, 1], [1, 0], [1, 1], [0, 0]], np.float32)
    assert not BinnedFeatures.of(features, 64).singles.any()


@settings(deadline=None, max_examples=30)
@given(tables(), st.sampled_from([HistogramForest, HistogramBoosting]), st.sampled_from([1, 3, None]))
def test_forest_walks_raw_features_as_the_builder_walks_codes(table, kind, depth):
    learner = kind(n_trees=5, max_depth=depth, bins=4)
    forest = learner.fit(table.features, table.targets, seed=0)
    growth = _Growth(learner, table.features)
    growth.grow(table.targets, np.ones(len(table.targets), np.int32), growth.groups, seed=1)
    alone = growth.forest(scale=1.0)
    walked = np.zeros(len(table.targets))
    growth.add_last(walked, 1.0)
    np.testing.assert_allclose(alone.predict(table.features), walked, atol=1e-12)
    leaves = forest.find_leaves(table.features)
    assert all(np.unique(column, return_counts=True)[1].min() >= 2 for column in leaves.T)
    assert np.isfinite(forest.predict(table.others)).all()


def problem(n, seed):
    random = np.random.default_rng(seed)
    features = random.standard_normal((n, 6)).astype(np.float32)
    features[random.random((n, 6)) < 0.05] = np.nan
    x = np.nan_to_num(features, nan=1.0)
    return features, x[:, 0] * x[:, 1] + np.sin(3 * x[:, 2]) + 0.3 * random.standard_normal(n)


def test_error_is_that_of_scikit_learn():
    features, targets = problem(1500, 0)
    unseen, truth = problem(1500, 1)

    def error(learner):
        return np.mean(
            [(learner.fit(features, targets, seed=s).predict(unseen) - truth) ** 2 for s in range(3)]
        )

    theirs = error(RandomForestTrees(n_trees=60, max_features=0.5))
    assert error(HistogramForest(n_trees=60, max_features=0.5)) < 1.05 * theirs
    assert error(HistogramBoosting()) < theirs


def test_in_bag_rows_are_those_the_trees_saw():
    features, targets = problem(200, 2)
    forest = HistogramForest(n_trees=50).fit(features, targets, seed=3)
    assert forest.in_bag.shape == (200, 50)
    assert forest.in_bag.mean() == pytest.approx(1 - np.exp(-1), abs=0.02)
    assert LeafStatistics.measure(forest, features, targets, out_of_bag=True).estimate(
        features
    ).mean.shape == (200,)
    assert HistogramForest(bootstrap=False).fit(features, targets, seed=0).in_bag is None


@pytest.mark.parametrize(("share", "using"), [(0.0, 10), (0.5, 5), (1.0, 0)])
def test_blind_trees_do_not_use_the_last_column(share, using):
    random = np.random.default_rng(5)
    features = random.standard_normal((100, 3)).astype(np.float32)
    forest = HistogramForest(n_trees=10, max_features=1.0, blind_share=share).fit(
        features, features[:, 2].astype(float), seed=0
    )
    moved = features.copy()
    moved[:, 2] += 1.0
    assert (forest.find_leaves(features) != forest.find_leaves(moved)).any(0).sum() == using


def test_a_share_of_features_and_of_rows_makes_trees_differ():
    features, targets = problem(200, 4)
    for learner in (
        HistogramForest(n_trees=5, bootstrap=False, max_features=1),
        HistogramForest(n_trees=5, bootstrap=False, max_features=1.0, subsample=0.7),
        HistogramBoosting(n_trees=5, subsample=0.5),
    ):
        one, other = (learner.fit(features, targets, seed=seed).predict(features) for seed in (0, 1))
        assert not np.allclose(one, other)


@pytest.mark.parametrize(
    ("kind", "arguments"),
    [
        (HistogramForest, {"n_trees": 0}),
        (HistogramForest, {"bins": 256}),
        (HistogramForest, {"bins": 1}),
        (HistogramForest, {"max_features": 0.0}),
        (HistogramForest, {"max_features": 0}),
        (HistogramForest, {"blind_share": 1.5}),
        (HistogramForest, {"min_samples_leaf": 1}),
        (HistogramBoosting, {"learning_rate": 0.0}),
        (HistogramBoosting, {"ridge": -1.0}),
        (HistogramBoosting, {"subsample": 1.5}),
    ],
)
def test_refuses_by_name(kind, arguments):
    with pytest.raises(ParameterError, match=next(iter(arguments))):
        kind(**arguments)
