from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trees.library import depths, tables, tree_numbers

from treebandit.trees import (
    LeafStatistics,
    LightGBMTrees,
    RandomForestTrees,
    XGBoostTrees,
    kernels,
    leaf_cache,
)
from treebandit.trees.leaf_cache import FEWEST_ROWS, PATIENCE, REPEATS

N, WIDTH = 300, 4


def measured(trees=None, n=500, seed=0):
    """Leaves grown on rows of which the last column, the shared one, matters as much as any."""
    random = np.random.default_rng(seed)
    features = random.standard_normal((n, WIDTH)).astype(np.float32)
    targets = features[:, 0] * features[:, -1] + features[:, 1] + 0.1 * random.standard_normal(n)
    forest = (trees or XGBoostTrees(n_trees=13, max_depth=5)).fit(features, targets, seed=0)
    return LeafStatistics.measure(forest, features, targets)


def rounds(count=50, n=N, seed=1):
    """The same rows again and again, but for the last column, which is another number in each round."""
    random = np.random.default_rng(seed)
    rows = random.standard_normal((n, WIDTH)).astype(np.float32)
    for _ in range(count):
        rows = rows.copy()
        rows[:, -1] = random.standard_normal()
        yield rows


def assert_as_walked(leaves, rows, key=0, draws=2):
    """To the last bit."""
    forest, estimate = leaves.forest, leaves.estimate(rows)
    sums = kernels.sum_rows(forest.arrays, leaves.table, np.ascontiguousarray(rows))
    np.testing.assert_array_equal(estimate.mean, sums[0] + forest.base)
    np.testing.assert_array_equal(estimate.variance, sums[1])
    np.testing.assert_array_equal(estimate.count, sums[2])
    noise = np.uint64(key), 0.7
    drawn = kernels.draw_rows(forest.arrays, leaves.table, np.ascontiguousarray(rows), noise, draws)
    samples = leaves.sample(rows, exploration=0.7, key=key, draws=draws)
    np.testing.assert_array_equal(samples, drawn.T + forest.base)


def fill(leaves, all_rounds):
    """Show the rows until the cache holds them."""
    for _ in range(REPEATS + 1):
        leaves.estimate(next(all_rounds))
    hits = leaves.cache.hits
    leaves.estimate(next(all_rounds))
    assert leaves.cache.hits == hits + 1


@st.composite
def shared_rows(draw, table):
    """Rows whose shared columns are the same in all of them, again and again with other shared values."""
    d = table.features.shape[1]
    shared = np.array(draw(st.lists(st.booleans(), min_size=d, max_size=d)))
    values = [table.others[draw(st.integers(0, len(table.others) - 1))] for _ in range(REPEATS + 3)]
    return [np.where(shared, value, table.others).astype(np.float32) for value in values]


@settings(deadline=None, max_examples=80)
@given(st.data(), tables(), tree_numbers, depths)
def test_cached_rows_score_and_sample_as_walked_ones_to_the_last_bit(data, table, n_trees, depth):
    kind = data.draw(st.sampled_from([XGBoostTrees, RandomForestTrees, LightGBMTrees]))
    forest = kind(n_trees=n_trees, max_depth=depth).fit(table.features, table.targets, seed=0)
    leaves = LeafStatistics.measure(forest, table.features, table.targets)
    with mock.patch.object(leaf_cache, "FEWEST_ROWS", 1):
        for key, rows in enumerate(data.draw(shared_rows(table))):
            assert_as_walked(leaves, rows, key, draws=1 + key)
            leaves.update(rows[:3], table.targets[:1].repeat(len(rows[:3])))
    assert leaves.cache.hits > 0


@pytest.mark.parametrize("n_trees", [1, 10, 23])
@pytest.mark.parametrize("kind", [XGBoostTrees, RandomForestTrees])
def test_estimates_stay_as_walked_while_leaves_learn(kind, n_trees):
    leaves = measured(kind(n_trees=n_trees, max_depth=6))
    for i, rows in enumerate(rounds(12)):
        assert_as_walked(leaves, rows)
        leaves.update(rows[i : i + 20], np.linspace(-1, 1, 20))
    assert leaves.cache.hits > 12


def test_leaves_of_cached_rows_in_one_tree_are_those_of_the_walk():
    leaves, all_rounds = measured(), rounds()
    before = leaves.find_leaves_of(3, next(all_rounds))
    fill(leaves, all_rounds)
    for _, rows in zip(range(5), all_rounds, strict=False):
        for tree in range(leaves.forest.n_trees):
            ends = leaves.forest.find_leaves_of(tree, rows)
            np.testing.assert_array_equal(leaves.cache.find_leaves_of(tree, rows), ends)
            np.testing.assert_array_equal(leaves.find_leaves_of(tree, rows), ends)
    np.testing.assert_array_equal(leaves.find_leaves_of(3, next(rounds())), before)


def test_few_rows_and_many_are_not_watched():
    leaves = measured()
    for rows in rounds(6, n=FEWEST_ROWS - 1):
        leaves.estimate(rows)
    with mock.patch.object(leaf_cache, "MOST_ROWS", N - 1):
        for rows in rounds(6):
            assert_as_walked(leaves, rows)
    assert leaves.cache.hits == 0


def test_rows_of_other_layouts_and_types_are_the_same_rows():
    leaves = measured()
    for rows in rounds(6):
        assert_as_walked(leaves, np.asfortranarray(rows))
        expected = leaves.estimate(rows).mean
        np.testing.assert_array_equal(leaves.estimate(rows.astype(np.float64)).mean, expected)
    assert leaves.cache.hits > 0


@pytest.mark.parametrize("row", [0, 1, 77, N - 1])
@pytest.mark.parametrize("value", [0.5, np.nan, -0.0, 9.0])
def test_one_changed_value_is_seen(row, value):
    leaves = measured()
    first, *others = rounds(12)
    first[row, 1] = 0.0
    all_rounds = (np.column_stack([first[:, :-1], other[:, -1]]) for other in others)
    fill(leaves, all_rounds)
    again = next(all_rounds)
    hits = leaves.cache.hits
    for column, changed in ((1, value), (-1, again[row, -1] + 1.0)):
        kept, again[row, column] = again[row, column], changed
        assert_as_walked(leaves, again)
        assert leaves.cache.hits == hits
        again[row, column] = kept
    leaves.estimate(again)
    assert leaves.cache.hits == hits + 1


def test_a_missing_value_may_be_shared_or_own():
    leaves = measured()
    holes = np.random.default_rng(3).random((N, WIDTH - 1)) < 0.2
    for i, rows in enumerate(rounds(12)):
        rows[:, :-1][holes] = np.nan
        if i % 3 == 0:
            rows[:, -1] = np.nan
        assert_as_walked(leaves, rows)
    assert leaves.cache.hits >= 12


def test_fewer_rows_for_a_while_do_not_drop_what_is_cached():
    leaves = measured()
    all_rounds = rounds(60)
    fill(leaves, all_rounds)
    hits = leaves.cache.hits
    for _ in range(PATIENCE):
        leaves.estimate(np.delete(next(all_rounds), 17, axis=0))
    leaves.estimate(next(all_rounds))
    assert leaves.cache.hits == hits + 1
    for _ in range(PATIENCE + 2):
        assert_as_walked(leaves, np.delete(next(all_rounds), 17, axis=0))
    assert leaves.cache.hits > hits + 1


def test_rows_that_are_new_each_time_are_never_cached():
    leaves = measured()
    random = np.random.default_rng(0)
    with mock.patch.object(leaf_cache, "group_rows") as grouping:
        for _ in range(10):
            leaves.estimate(random.standard_normal((N, WIDTH)).astype(np.float32))
    grouping.assert_not_called()


def test_a_column_that_turns_out_to_be_shared_is_grouped_anew():
    leaves = measured()
    all_rounds = rounds(60)
    fill(leaves, all_rounds)
    hits = leaves.cache.hits
    for i in range(2 * PATIENCE):
        rows = next(all_rounds)
        rows[:, 2] = 0.1 * i
        assert_as_walked(leaves, rows)
    assert leaves.cache.hits > hits


@pytest.mark.parametrize("limit", ["MOST_ENTRIES", "MOST_ENTRIES_EACH"])
def test_lists_that_grow_too_long_are_given_up_once(limit):
    leaves = measured()
    with (
        mock.patch.object(leaf_cache, limit, 2),
        mock.patch.object(leaf_cache, "group_rows", wraps=leaf_cache.group_rows) as grouping,
    ):
        for rows in rounds(9):
            assert_as_walked(leaves, rows)
    assert grouping.call_count == 1
    assert leaves.cache.hits == 0


def test_rows_that_the_cache_of_the_trees_before_holds_are_cached_at_once():
    leaves, after, other = measured(), measured(seed=5), measured(seed=6)
    all_rounds = rounds(20)
    after.cache.expect(leaves.cache)  # which holds nothing yet
    after.estimate(next(all_rounds))
    assert after.cache._repeats == 0
    fill(leaves, all_rounds)
    after.cache.expect(leaves.cache)
    other.cache.expect(leaves.cache)
    for rows in (next(all_rounds), next(all_rounds)):
        assert_as_walked(after, rows, draws=1)
    assert after.cache.hits > 0
    for rows in rounds(2, seed=9):  # other rows than expected
        assert_as_walked(other, rows)
    assert other.cache.hits == 0
