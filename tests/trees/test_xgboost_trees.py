import numpy as np
import pytest
from hypothesis import given, settings
from trees.library import assert_same_leaves, assert_same_predictions, depths, fit, tables, tree_numbers

from treebandit.errors import ParameterError
from treebandit.trees import XGBoostTrees

#: The default of the library; said aloud, rows too few to split are fitted by it too.
FITTED = {"subsample": 1.0}


@settings(deadline=None, max_examples=60)
@given(tables(), tree_numbers, depths)
def test_leaves_and_predictions_are_the_librarys(table, n_trees, max_depth):
    fitted = fit(
        XGBoostTrees(n_trees=n_trees, max_depth=max_depth, options=FITTED), table.features, table.targets
    )
    assert fitted.forest.n_trees == n_trees
    for rows in (table.features, table.others):
        assert_same_leaves(fitted, rows)
        assert_same_predictions(fitted, rows, table.targets)


@pytest.mark.parametrize(
    "options",
    [
        {"subsample": 0.5},
        {"grow_policy": "lossguide", "max_leaves": 7},
        {"max_bin": 16},
        {"tree_method": "exact", "gamma": 1.0},
    ],
)
def test_options_reach_the_library(options):
    random = np.random.default_rng(0)
    features = random.standard_normal((80, 3)).astype(np.float32)
    targets = features[:, 0] + random.standard_normal(80)
    fitted = fit(XGBoostTrees(n_trees=12, options=options), features, targets)
    assert_same_leaves(fitted, features)
    assert_same_predictions(fitted, features, targets)
    plain = XGBoostTrees(n_trees=12).fit(features, targets, seed=0)
    assert np.abs(plain.predict(features) - fitted.forest.predict(features)).max() > 1e-3


def test_a_column_that_is_present_or_missing_splits_on_that():
    features = np.array([[1.0], [np.nan]] * 10, np.float32)
    targets = np.array([0.0, 1.0] * 10)
    fitted = fit(XGBoostTrees(n_trees=30), features, targets)
    assert_same_leaves(fitted, features)
    np.testing.assert_allclose(fitted.forest.predict(features), targets, atol=0.01)


def test_base_is_the_mean_and_the_rate_is_noted():
    targets = np.array([1.0, 2.0, 3.0, 6.0])
    forest = XGBoostTrees(n_trees=2, learning_rate=0.25).fit(np.ones((4, 1), np.float32), targets, seed=0)
    assert forest.base == pytest.approx(3.0)
    assert forest.learning_rate == 0.25


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"min_samples_leaf": 1}, "min_samples_leaf is 1; give a whole number of at least 2"),
        ({"learning_rate": 1.5}, "learning_rate is 1.5; give a finite number above 0 and at most 1"),
    ],
)
def test_bad_limits_are_named(arguments, named):
    with pytest.raises(ParameterError, match=named):
        XGBoostTrees(**arguments)


@pytest.mark.parametrize(
    "options",
    [{"booster": "dart"}, {"booster": "gblinear"}, {"objective": "reg:absoluteerror"}, {"eta": 0.1}],
)
def test_options_that_do_not_give_squared_error_trees_are_refused(options):
    with pytest.raises(ParameterError, match="options"):
        XGBoostTrees(options=options)


def test_options_that_the_library_refuses_are_told_in_our_words():
    trees = XGBoostTrees(n_trees=2, options={"max_bin": -1})
    with pytest.raises(ParameterError, match="cannot grow XGBoostTrees.*max_bin"):
        trees.fit(np.ones((9, 1), np.float32), np.arange(9.0), seed=0)


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("options", [{}, {"base_score": 0.5}, {"lambda": 3.0}])
def test_rows_too_few_to_split_give_what_the_library_gives(n, options):
    random = np.random.default_rng(n)
    features, targets = random.normal(size=(n, 4)).astype(np.float32), random.normal(-20.0, 3.0, n)
    # subsample=1 is the library's default; said aloud, it is not written down but fitted.
    ours, library = (XGBoostTrees(options=each) for each in (options, {**options, "subsample": 1.0}))
    written, fitted = (learner.fit(features, targets, seed=0) for learner in (ours, library))
    np.testing.assert_allclose(written.base, fitted.base, rtol=1e-6)
    np.testing.assert_allclose(written.values[:-1], fitted.values[:-1], rtol=1e-3, atol=1e-5)
    query = random.normal(size=(5, 4)).astype(np.float32)
    np.testing.assert_allclose(written.predict(query), fitted.predict(query), rtol=1e-5)
