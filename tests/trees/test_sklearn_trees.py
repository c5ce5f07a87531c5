import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trees.library import assert_same_leaves, assert_same_predictions, depths, fit, tables, tree_numbers

from treebandit.trees import DecisionTreeTrees, ExtraTrees, RandomForestTrees


@settings(deadline=None, max_examples=60)
@given(tables(), tree_numbers, depths, st.sampled_from([RandomForestTrees, ExtraTrees]), st.booleans())
def test_leaves_and_predictions_are_the_librarys(table, n_trees, max_depth, kind, bootstrap):
    learner = kind(n_trees=n_trees, max_depth=max_depth, bootstrap=bootstrap)
    fitted = fit(learner, table.features, table.targets)
    assert fitted.forest.n_trees == n_trees
    for rows in (table.features, table.others):
        assert_same_leaves(fitted, rows)
        assert_same_predictions(fitted, rows, table.targets)


def test_the_bags_are_those_of_the_library():
    random = np.random.default_rng(0)
    features, targets = random.random((40, 2), np.float32), random.random(40)
    fitted = fit(RandomForestTrees(n_trees=7), features, targets)
    assert fitted.forest.in_bag.shape == (40, 7)
    for tree, rows in enumerate(fitted.model.estimators_samples_):
        assert set(np.flatnonzero(fitted.forest.in_bag[:, tree])) == set(rows)
    assert ExtraTrees(n_trees=2).fit(features, targets, seed=0).in_bag is None


@pytest.mark.parametrize(
    "learner", [RandomForestTrees(n_trees=3), ExtraTrees(n_trees=3), DecisionTreeTrees(max_depth=4)]
)
def test_columns_of_very_small_numbers_are_split_as_those_of_any_other_size(learner):
    """scikit-learn takes values for equal that are no more than 1e-7 apart."""
    random = np.random.default_rng(0)
    features = random.standard_normal((80, 3)).astype(np.float32)
    features[::7, 1], features[:, 2] = np.nan, 0.0
    targets = (features[:, 0] > 0.2) + 0.1 * random.standard_normal(80)
    units = np.array([2.0**-40, 2.0**-120, 1.0], np.float32)
    ours, small = learner.fit(features, targets, seed=0), learner.fit(features * units, targets, seed=0)
    assert len(np.unique(ours.predict(features))) > 4
    np.testing.assert_array_equal(small.predict(features * units), ours.predict(features))
    beside_one = features * 1e-9
    beside_one[0] = 1.0
    found = learner.fit(beside_one, targets, seed=0).predict(beside_one)
    assert np.corrcoef(found, targets)[0, 1] > 0.8
