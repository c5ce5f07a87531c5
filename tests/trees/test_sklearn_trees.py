import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from trees.library import assert_same_leaves, assert_same_predictions, depths, fit, tables, tree_numbers

from treebandit.trees import ExtraTrees, RandomForestTrees


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
