import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trees.library import tables

from treebandit.trees import LeafStatistics, RandomForestTrees, XGBoostTrees, kernels


def measured(n=400, n_trees=13):
    random = np.random.default_rng(0)
    features = random.standard_normal((n, 3)).astype(np.float32)
    targets = features[:, 0] + 0.5 * random.standard_normal(n)
    forest = XGBoostTrees(n_trees=n_trees, max_depth=4).fit(features, targets, seed=0)
    return LeafStatistics.measure(forest, features, targets), features, targets


@pytest.mark.parametrize("n", [1, 2, kernels.ROWS - 1, kernels.ROWS, 2 * kernels.ROWS + 1])
@pytest.mark.parametrize("n_trees", [1, kernels.CHAINS, kernels.CHAINS + 3])
def test_scores_are_sums_over_the_leaves_found(n, n_trees):
    leaves, _, _ = measured(n_trees=n_trees)
    rows = np.random.default_rng(1).standard_normal((n, 3)).astype(np.float32)
    found = leaves.forest.find_leaves(rows)
    sums = kernels.sum_rows(leaves.forest.arrays, leaves.table, rows)
    for column, got in zip((kernels.OUTPUT, kernels.VARIANCE, kernels.COUNT), sums, strict=True):
        np.testing.assert_allclose(got, leaves.table[found, column].sum(1), rtol=1e-12, atol=1e-15)


def test_measuring_in_many_blocks_of_rows_is_measuring_row_by_row():
    _, features, targets = measured(n=2 * kernels.ROWS + 5)
    forest = RandomForestTrees(n_trees=13, max_depth=4).fit(features, targets, seed=0)
    leaves = LeafStatistics.measure(forest, features, targets)
    one_by_one = LeafStatistics.measure(leaves.forest, features[:0], targets[:0])
    one_by_one.update(features, targets)
    for column in (kernels.VARIANCE, kernels.COUNT, kernels.MEAN):
        reached = np.unique(leaves.forest.find_leaves(features))
        np.testing.assert_allclose(
            one_by_one.table[reached, column], leaves.table[reached, column], rtol=1e-9, atol=1e-12
        )


@pytest.mark.parametrize("source", [np.random.PCG64, np.random.MT19937])
def test_a_key_is_the_whole_number_that_the_generator_would_draw(source):
    random, other = np.random.Generator(source(5)), np.random.Generator(source(5))
    assert [kernels.draw_key(random) for _ in range(50)] == [int(other.integers(2**63)) for _ in range(50)]
    assert random.random() == other.random()


def test_an_update_touches_reached_leaves_alone():
    leaves, features, targets = measured()
    before = leaves.table.copy()
    leaves.update(features[:1], targets[:1] + 1.0)
    changed = np.flatnonzero((leaves.table != before).any(1))
    assert changed.tolist() == sorted(leaves.forest.find_leaves(features[:1])[0].tolist())


def test_the_filling_leaf_stays_empty():
    leaves, features, targets = measured(n_trees=kernels.CHAINS + 1)
    leaves.update(features[:20], targets[:20])
    assert (leaves.table[-1] == 0).all()
    assert leaves.forest.values[-1] == 0


@settings(deadline=None, max_examples=30)
@given(tables(), st.integers(0, 2**63 - 1))
def test_rows_in_the_same_leaves_share_their_draw(table, key):
    forest = RandomForestTrees(n_trees=11, max_depth=2).fit(table.features, table.targets, seed=0)
    leaves = LeafStatistics.measure(forest, table.features, table.targets)
    draws = leaves.sample(table.others, exploration=1.0, key=key)[0]
    by_leaves = {}
    for ends, draw in zip(map(tuple, forest.find_leaves(table.others).tolist()), draws.tolist(), strict=True):
        assert by_leaves.setdefault(ends, draw) == draw
    np.testing.assert_allclose(
        leaves.sample(table.others, exploration=0.0, key=key)[0], leaves.estimate(table.others).mean
    )


def test_draws_have_the_estimates_mean_and_variance():
    leaves, features, _ = measured()
    rows = features[:5]
    estimate = leaves.estimate(rows)
    draws = leaves.sample(rows, exploration=2.0, key=7, draws=4000)
    deviation = 2.0 * np.sqrt(estimate.variance)
    assert (np.abs(draws.mean(0) - estimate.mean) < 5 * deviation / np.sqrt(4000)).all()
    np.testing.assert_allclose(draws.std(0), deviation, rtol=0.06)
    correlation = np.corrcoef(draws[:-1, 0], draws[1:, 0])[0, 1]
    assert abs(correlation) < 0.06  # from one draw to the next


@settings(deadline=None, max_examples=30)
@given(tables(), st.integers(0, 2**63 - 1), st.integers(1, 12))
def test_each_joint_draw_is_the_single_draw_of_a_later_key(table, key, draws):
    forest = RandomForestTrees(n_trees=11, max_depth=2).fit(table.features, table.targets, seed=0)
    leaves = LeafStatistics.measure(forest, table.features, table.targets)
    joint = leaves.sample(table.others, exploration=1.3, key=key, draws=draws)
    assert joint.shape == (draws, len(table.others))
    for k, draw in enumerate(joint):
        later = (key + k * kernels.NEXT_DRAW) % 2**64
        np.testing.assert_array_equal(leaves.sample(table.others, exploration=1.3, key=later)[0], draw)
