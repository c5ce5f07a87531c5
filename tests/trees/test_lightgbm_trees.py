import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trees.library import assert_same_leaves, assert_same_predictions, depths, fit, tables, tree_numbers

from treebandit.errors import ParameterError
from treebandit.trees import LightGBMTrees


@settings(deadline=None, max_examples=60)
@given(tables(), tree_numbers, depths, st.sampled_from(["boosting", "forest"]))
def test_leaves_and_predictions_are_the_librarys(table, n_trees, max_depth, mode):
    fitted = fit(
        LightGBMTrees(n_trees=n_trees, max_depth=max_depth, mode=mode), table.features, table.targets
    )
    assert 1 <= fitted.forest.n_trees <= n_trees
    for rows in (table.features, table.others):
        assert_same_leaves(fitted, rows)
        assert_same_predictions(fitted, rows, table.targets)


def test_boosting_starts_from_the_mean_and_a_forest_averages():
    targets = np.array([1.0, 2.0, 3.0, 6.0])
    features = np.ones((4, 1), np.float32)
    boosted = LightGBMTrees(n_trees=2, learning_rate=0.25).fit(features, targets, seed=0)
    assert (boosted.base, boosted.learning_rate) == (3.0, 0.25)
    averaged = LightGBMTrees(n_trees=2, mode="forest").fit(features, targets, seed=0)
    assert (averaged.base, averaged.learning_rate) == (0.0, 0.0)
    np.testing.assert_allclose(averaged.predict(features), 3.0)


def test_a_tree_whose_bag_is_empty_predicts_the_mean():
    features = np.random.default_rng(0).standard_normal((6, 4)).astype(np.float32)
    targets = np.array([1.0, 0.0, 1.0, 1.0, 1.0, 1.0])
    for seed in range(60):
        forest = LightGBMTrees(n_trees=8, mode="forest").fit(features, targets, seed=seed)
        assert np.isfinite(forest.values).all()


def test_a_column_that_is_present_or_missing_splits_on_that():
    features = np.array([[1.0], [np.nan]] * 20, np.float32)
    targets = np.array([0.0, 1.0] * 20)
    fitted = fit(LightGBMTrees(n_trees=60), features, targets)
    assert_same_leaves(fitted, features)
    np.testing.assert_allclose(fitted.forest.predict(features), targets, atol=0.01)


@pytest.mark.parametrize(
    "options",
    [{"boosting": "dart"}, {"zero_as_missing": True}, {"linear_tree": True}, {"objective": "regression_l1"}],
)
def test_options_that_change_what_a_tree_is_are_refused(options):
    with pytest.raises(ParameterError, match="options"):
        LightGBMTrees(options=options)


def test_options_that_the_library_refuses_are_told_in_our_words():
    trees = LightGBMTrees(n_trees=2, options={"max_bin": -1})
    with pytest.raises(ParameterError, match="cannot grow LightGBMTrees.*max_bin"):
        trees.fit(np.ones((9, 1), np.float32), np.arange(9.0), seed=0)
