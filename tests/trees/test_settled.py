from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trees.library import depths, tables, tree_numbers

from treebandit.trees import LeafStatistics, LightGBMTrees, RandomForestTrees, XGBoostTrees, kernels, settled
from treebandit.trees.settled import FEWEST_ROWS, PATIENCE, REPEATS, RowMemory, SettledRows

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


def walked(leaves, rows):
    sums = kernels.score_rows(*leaves.forest.layout, leaves.table, rows)
    return sums[0] + leaves.forest.base, sums[1], sums[2]


def assert_as_walked(leaves, rows):
    """To the last bit."""
    estimate = leaves.estimate(rows)
    for got, expected in zip(
        (estimate.mean, estimate.variance, estimate.count), walked(leaves, rows), strict=True
    ):
        np.testing.assert_array_equal(got, expected)


def settle(leaves, all_rounds):
    """Show the rows until they are settled."""
    for _ in range(REPEATS + 1):
        leaves.estimate(next(all_rounds))
    assert leaves._memory._settled is not None
    return leaves._memory._settled


@st.composite
def shared_rows(draw, table):
    """Rows whose shared columns are the same in all of them: those, others with other shared values, which."""
    d = table.features.shape[1]
    shared = np.array(draw(st.lists(st.booleans(), min_size=d, max_size=d)))
    values = [table.others[draw(st.integers(0, len(table.others) - 1))] for _ in range(3)]
    return [np.where(shared, value, table.others).astype(np.float32) for value in values], shared


@settings(max_examples=80)
@given(st.data(), tables(), tree_numbers, depths)
def test_settled_rows_score_and_sample_as_walked_ones_to_the_last_bit(data, table, n_trees, depth):
    learner = data.draw(
        st.sampled_from(
            [
                XGBoostTrees(n_trees=n_trees, max_depth=depth),
                RandomForestTrees(n_trees=n_trees, max_depth=depth),
                LightGBMTrees(n_trees=n_trees, max_depth=depth),
            ]
        )
    )
    forest = learner.fit(table.features, table.targets, seed=0)
    leaves = LeafStatistics.measure(forest, table.features, table.targets)
    variants, shared = data.draw(shared_rows(table))
    with mock.patch.object(settled, "MOST_ENTRIES_EACH", 1000):
        rows = SettledRows.settle(forest, variants[0], shared)
    assert rows is not None
    for i, variant in enumerate(variants):
        assert rows.holds(variant)
        np.testing.assert_array_equal(
            rows.score(leaves.table, variant), kernels.score_rows(*forest.layout, leaves.table, variant)
        )
        key = np.uint64(i)
        np.testing.assert_array_equal(
            rows.sample(leaves.table, variant, key, 0.7),
            kernels.sample_rows(*forest.layout, leaves.table, variant, key, 0.7),
        )
        leaves.update(variant[:3], table.targets[:1].repeat(min(3, len(variant))))


@pytest.mark.parametrize("n_trees", [1, 10, 23])
@pytest.mark.parametrize("kind", [XGBoostTrees, RandomForestTrees])
def test_estimates_stay_as_walked_while_leaves_learn(kind, n_trees):
    leaves = measured(kind(n_trees=n_trees, max_depth=6))
    for i, rows in enumerate(rounds(12)):
        assert_as_walked(leaves, rows)
        leaves.update(rows[i : i + 20], np.linspace(-1, 1, 20))
    assert leaves._memory._uses == 12 - REPEATS - 1


def test_sampling_by_leaves_is_settled_too():
    leaves = measured()
    for key, rows in enumerate(rounds(8)):
        expected = kernels.sample_rows(*leaves.forest.layout, leaves.table, rows, np.uint64(key), 0.5)
        np.testing.assert_array_equal(
            leaves.sample(rows, exploration=0.5, key=key), expected + leaves.forest.base
        )
    assert leaves._memory._uses == 8 - REPEATS - 1


def test_few_rows_and_many_are_not_watched():
    leaves = measured()
    for rows in rounds(6, n=FEWEST_ROWS - 1):
        leaves.estimate(rows)
    with mock.patch.object(settled, "MOST_ROWS", N - 1):
        for rows in rounds(6):
            assert_as_walked(leaves, rows)
    assert leaves._memory.nbytes == 0


def test_rows_of_other_kinds_are_walked():
    leaves = measured()
    for rows in rounds(6):
        assert_as_walked(leaves, np.asfortranarray(rows))
        assert leaves._memory.recall(rows.astype(np.float64)) is None
    assert leaves._memory.nbytes == 0


@pytest.mark.parametrize("row", [0, 1, 77, N - 1])
@pytest.mark.parametrize("value", [0.5, np.nan, -0.0, 9.0])
def test_one_changed_value_is_seen(row, value):
    leaves = measured()
    all_rounds = rounds()
    rows = next(all_rounds)
    rows[row, 1] = 0.0
    all_rounds = (np.column_stack([rows[:, :-1], other[:, -1]]) for other in all_rounds)
    kept = settle(leaves, all_rounds)
    again = next(all_rounds)
    assert kept.holds(again)
    again[row, 1] = value
    assert not kept.holds(again)
    assert_as_walked(leaves, again)
    again[row, 1] = 0.0
    assert kept.holds(again)
    again[row, -1] += 1.0
    assert not kept.holds(again)
    assert_as_walked(leaves, again)


def test_a_missing_value_may_be_shared_or_own():
    leaves = measured()
    all_rounds = rounds()
    holes = np.random.default_rng(3).random((N, WIDTH - 1)) < 0.2
    for i, rows in enumerate(all_rounds):
        rows[:, :-1][holes] = np.nan
        if i % 3 == 0:
            rows[:, -1] = np.nan
        assert_as_walked(leaves, rows)
        if i == 11:
            break
    assert leaves._memory._uses >= 6


def test_fewer_rows_for_a_while_do_not_drop_what_is_settled():
    leaves = measured()
    all_rounds = rounds()
    kept = settle(leaves, all_rounds)
    for _ in range(PATIENCE - 1):
        assert_as_walked(leaves, np.delete(next(all_rounds), 17, axis=0))
    assert leaves._memory._settled is kept
    for _ in range(PATIENCE):
        assert_as_walked(leaves, next(all_rounds))
    for _ in range(REPEATS + 1):
        assert_as_walked(leaves, np.delete(next(all_rounds), 17, axis=0))
    assert leaves._memory._settled is not kept


def test_rows_that_are_new_each_time_are_never_settled():
    leaves = measured()
    random = np.random.default_rng(0)
    with mock.patch.object(SettledRows, "settle") as settling:
        for _ in range(10):
            leaves.estimate(random.standard_normal((N, WIDTH)).astype(np.float32))
    settling.assert_not_called()
    assert leaves._memory.nbytes == N * WIDTH * 4


def test_a_column_that_turns_out_to_be_shared_is_settled_anew():
    leaves = measured()
    all_rounds = rounds()
    kept = settle(leaves, all_rounds)
    for i in range(2 * PATIENCE):
        rows = next(all_rounds)
        rows[:, 2] = 0.1 * i
        assert_as_walked(leaves, rows)
    assert leaves._memory._settled is not kept
    assert leaves._memory._settled.holds(rows)


@pytest.mark.parametrize("limit", ["MOST_ENTRIES", "MOST_ENTRIES_EACH"])
def test_lists_that_grow_too_long_are_given_up_once(limit):
    leaves = measured()
    with (
        mock.patch.object(settled, limit, 2),
        mock.patch.object(SettledRows, "settle", wraps=SettledRows.settle) as settling,
    ):
        for rows in rounds(9):
            assert_as_walked(leaves, rows)
    assert settling.call_count == 1
    assert leaves._memory._settled is None


def test_memory_is_bounded_by_what_the_docstring_says():
    leaves = measured(XGBoostTrees(n_trees=20, max_depth=8))
    kept = settle(leaves, rounds())
    nodes, trees = len(leaves.forest.nodes), leaves.forest.n_trees
    assert (
        kept.nbytes <= 2 * settled.MOST_ENTRIES_EACH * N * trees + 2 * N * trees + 16 * nodes + 4 * N * WIDTH
    )


def test_one_row_stands_for_all_that_no_split_of_an_own_column_parts():
    leaves = measured(XGBoostTrees(n_trees=10, max_depth=3))
    rows = next(rounds())
    twins = np.concatenate([rows, rows])
    kept = SettledRows.settle(leaves.forest, twins, np.array([False, False, False, True]))
    stands_for = kept._stands_for[:10]
    assert (stands_for < N).all()
    np.testing.assert_array_equal(stands_for[:, :N], stands_for[:, N:])
    found = []
    for value in np.unique(leaves.forest.nodes["threshold"][np.isfinite(leaves.forest.nodes["threshold"])]):
        twins[:, -1] = value
        found.append(leaves.forest.find_leaves(twins))
    together = np.array(found).transpose(2, 1, 0)
    for mine, ends in zip(stands_for, together, strict=True):
        assert len(np.unique(mine)) == len(np.unique(ends, axis=0))


def test_a_memory_of_its_own_for_each_forest():
    leaves, others = measured(), measured(seed=4)
    memory = RowMemory(leaves.forest)
    for rows in rounds(5):
        memory.recall(rows)
        assert_as_walked(leaves, rows)
        assert_as_walked(others, rows)
