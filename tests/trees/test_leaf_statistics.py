from copy import deepcopy

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trees.library import fit, tables
from trees.slow_leaves import SlowLeaves

from treebandit.errors import ParameterError, SavedFileError, ShapeError
from treebandit.steps import exhausted
from treebandit.trees import (
    ExtraTrees,
    Forest,
    HistogramForest,
    LeafStatistics,
    LightGBMTrees,
    RandomForestTrees,
    XGBoostTrees,
    kernels,
)

boosted = st.sampled_from(
    [
        XGBoostTrees(n_trees=11, max_depth=4),
        XGBoostTrees(n_trees=1, max_depth=None, learning_rate=1.0),
        LightGBMTrees(n_trees=5),
    ]
)
bagged = st.sampled_from(
    [
        RandomForestTrees(n_trees=12, max_depth=None),
        ExtraTrees(n_trees=3),
        LightGBMTrees(n_trees=4, mode="forest"),
    ]
)
learners = boosted | bagged
outputs = st.sampled_from(["library", "average"])


def assert_alike(leaves, slow, rows, targets):
    scale = max(1.0, float(np.abs(targets).max()))
    mean, variance, count = np.array(slow.estimate(rows)).T
    estimate = leaves.estimate(rows)
    np.testing.assert_allclose(estimate.mean, mean, rtol=1e-9, atol=1e-9 * scale)
    np.testing.assert_allclose(estimate.variance, variance, rtol=1e-9, atol=1e-12 * scale**2)
    np.testing.assert_array_equal(estimate.count, count)


@settings(deadline=None, max_examples=60)
@given(tables(), learners, outputs)
def test_statistics_are_those_of_the_appendix(table, learner, output):
    forest = learner.fit(table.features, table.targets, seed=0)
    leaves = LeafStatistics.measure(forest, table.features, table.targets, output=output)
    slow = SlowLeaves(forest, table.features, table.targets, output=output)
    assert_alike(leaves, slow, table.features, table.targets)
    assert_alike(leaves, slow, table.others, table.targets)


@settings(deadline=None, max_examples=20)
@given(tables())
def test_measuring_tells_what_is_predicted_of_each_row(table):
    forest = HistogramForest(n_trees=13).fit(table.features, table.targets, seed=0)
    predicted = np.empty(len(table.targets))
    measuring = LeafStatistics.measure_steps(forest, table.features, table.targets, predicted=predicted)
    np.testing.assert_array_equal(exhausted(measuring).estimate(table.features).mean, predicted)


@settings(deadline=None, max_examples=40)
@given(tables(), outputs)
def test_out_of_bag_rows_alone_count_where_asked(table, output):
    forest = RandomForestTrees(n_trees=12).fit(table.features, table.targets, seed=1)
    leaves = LeafStatistics.measure(forest, table.features, table.targets, output=output, out_of_bag=True)
    slow = SlowLeaves(forest, table.features, table.targets, output=output, in_bag=forest.in_bag)
    assert_alike(leaves, slow, table.features, table.targets)


@settings(deadline=None, max_examples=40)
@given(tables(), learners, outputs, st.integers(1, 30))
def test_rows_that_no_tree_was_grown_on(table, learner, output, held):
    """Leaves that none or one of them reaches keep the library's output and take the tree's variance."""
    held = min(held, len(table.targets))
    forest = learner.fit(table.features, table.targets, seed=0)
    rows, targets = table.others[:held].copy(), table.targets[:held][::-1].copy()
    leaves = LeafStatistics.measure(forest, rows, targets, output=output)
    slow = SlowLeaves(forest, rows, targets, output=output)
    assert_alike(leaves, slow, table.features, table.targets)


@settings(deadline=None, max_examples=60)
@given(tables(), learners, outputs, st.data())
def test_after_any_updates_they_equal_the_slow_ones(table, learner, output, data):
    start = data.draw(st.integers(0, len(table.targets)), label="rows measured")
    forest = learner.fit(table.features, table.targets, seed=0)
    leaves = LeafStatistics.measure(forest, table.features[:start], table.targets[:start], output=output)
    slow = SlowLeaves(forest, table.features[:start], table.targets[:start], output=output)
    targets = np.resize(table.targets, len(table.others))
    at = 0
    while at < len(targets):
        size = data.draw(st.integers(1, 20), label="rows of an update")
        for each in (leaves, slow):
            each.update(table.others[at : at + size].copy(), targets[at : at + size])
        at += size
    assert_alike(leaves, slow, table.features, table.targets)
    assert_alike(leaves, slow, table.others, table.targets)


@settings(deadline=None, max_examples=30)
@given(tables(), bagged)
def test_bagged_averages_do_not_depend_on_when_rows_came(table, learner):
    forest = learner.fit(table.features, table.targets, seed=0)
    half = len(table.targets) // 2
    whole = LeafStatistics.measure(forest, table.features, table.targets, output="average")
    parts = LeafStatistics.measure(forest, table.features[:half], table.targets[:half], output="average")
    parts.update(table.features[half:], table.targets[half:])
    reached = np.unique(forest.find_leaves(table.features))
    known = reached[whole.table[reached, 2] >= 2]
    np.testing.assert_allclose(parts.table[known], whole.table[known], rtol=1e-9, atol=1e-9)


@settings(deadline=None, max_examples=30)
@given(tables(), learners)
def test_an_update_returns_what_was_predicted_of_each_row_before_it(table, learner):
    forest = learner.fit(table.features, table.targets, seed=0)
    leaves, one_by_one = (LeafStatistics.measure(forest, table.features, table.targets) for _ in range(2))
    targets = np.resize(table.targets, len(table.others))
    expected = []
    for row, target in zip(table.others, targets, strict=True):
        expected.append(one_by_one.estimate(row[None]).mean[0])
        one_by_one.update(row[None], np.array([target]))
    np.testing.assert_allclose(leaves.update(table.others, targets), expected, rtol=1e-9, atol=1e-9)


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 2**32 - 1), st.integers(2, 40), st.sampled_from([0.1, 0.3, 1.0]), st.floats(-50, 50))
def test_a_boosted_prediction_moves_towards_its_target_and_not_beyond(seed, n, rate, target):
    """Where trees cannot tell rows apart, every tree sees the same gap between the new target and the mean."""
    features = np.zeros((n, 1), np.float32)
    targets = np.random.default_rng(seed).standard_normal(n).astype(np.float32).astype(float)
    forest = XGBoostTrees(learning_rate=rate, options={"lambda": 0.0}).fit(features, targets, seed=0)
    leaves = LeafStatistics.measure(forest, features, targets)
    before = leaves.update(features[:1], np.array([target]))[0]
    after = leaves.estimate(features[:1]).mean[0]
    slack = 1e-5 * (1.0 + abs(target))
    assert min(before, target) - slack <= after <= max(before, target) + slack
    if abs(target - before) > 1.0:
        assert abs(target - after) < abs(target - before)


@settings(deadline=None, max_examples=60)
@given(tables(), boosted, outputs, st.floats(-100, 100))
def test_a_boosted_update_goes_no_further_than_its_widest_gap(table, learner, output, target):
    """The steps of all trees add up to a weighted mean of 0 and of the gaps (r - p) - o/η that each of them sees."""
    forest = learner.fit(table.features, table.targets, seed=0)
    leaves = LeafStatistics.measure(forest, table.features, table.targets, output=output)
    for row in table.others[:5]:
        outputs = leaves.table[forest.find_leaves(row[None])[0], 0]
        prefixes = forest.base + np.concatenate([[0.0], np.cumsum(outputs)[:-1]])
        gaps = np.append(target - prefixes - outputs / forest.learning_rate, 0.0)
        before = leaves.estimate(row[None]).mean[0]
        leaves.update(row[None], np.array([target]))
        moved = leaves.estimate(row[None]).mean[0] - before
        slack = 1e-9 * (1.0 + np.abs(gaps).max())
        assert gaps.min() - slack <= moved <= gaps.max() + slack


def test_prefixes_are_the_staged_predictions_of_xgboost():
    import xgboost

    random = np.random.default_rng(0)
    features = random.standard_normal((60, 3)).astype(np.float32)
    targets = features[:, 0] * 2 + random.standard_normal(60)
    fitted = fit(XGBoostTrees(n_trees=8, max_depth=3), features, targets)
    data = xgboost.DMatrix(features, nthread=1)
    leaves = fitted.find_leaves(features)
    variance = np.zeros(60)
    for tree in range(8):
        if tree:
            prefix = fitted.model.predict(data, iteration_range=(0, tree)).astype(float)
        else:
            prefix = np.full(60, targets.astype(np.float32).mean(dtype=float))
        suggested = 0.3 * (targets - prefix)
        for i, leaf in enumerate(leaves[:, tree]):
            mates = suggested[leaves[:, tree] == leaf]
            variance[i] += mates.var(ddof=1) / len(mates)
    estimate = LeafStatistics.measure(fitted.forest, features, targets).estimate(features)
    np.testing.assert_allclose(estimate.variance, variance, rtol=1e-5)


def test_a_bagged_variance_is_that_of_the_targets_over_n_squared():
    features = np.zeros((5, 1), np.float32)
    targets = np.array([1.0, 2.0, 3.0, 4.0, 10.0])
    forest = ExtraTrees(n_trees=4).fit(features, targets, seed=0)
    estimate = LeafStatistics.measure(forest, features, targets).estimate(features[:1])
    assert estimate.mean[0] == pytest.approx(4.0)
    assert estimate.variance[0] == pytest.approx(4 * targets.var(ddof=1) / 16 / 5)
    assert estimate.count[0] == 20


def test_what_cannot_be_measured_is_refused():
    features, targets = np.zeros((6, 1), np.float32), np.arange(6.0)
    boosted = XGBoostTrees(n_trees=2).fit(features, targets, seed=0)
    with pytest.raises(ParameterError, match="'median'; choose 'library' or 'average'"):
        LeafStatistics.measure(boosted, features, targets, output="median")
    with pytest.raises(ParameterError, match="no out-of-bag rows"):
        LeafStatistics.measure(boosted, features, targets, out_of_bag=True)
    bagged = RandomForestTrees(n_trees=2).fit(features, targets, seed=0)
    with pytest.raises(ShapeError, match="4 rows to measure, but the trees were grown on 6"):
        LeafStatistics.measure(bagged, features[:4], targets[:4], out_of_bag=True)


@settings(deadline=None, max_examples=30)
@given(tables(), learners)
def test_a_prepared_update_changes_nothing_until_called_and_nothing_when_called_again(table, learner):
    forest = learner.fit(table.features, table.targets, seed=0)
    leaves, other = (LeafStatistics.measure(forest, table.features, table.targets) for _ in range(2))
    targets = np.resize(table.targets, len(table.others))
    before = leaves.table.copy()
    commit = leaves.prepared_update(table.others, targets)
    np.testing.assert_array_equal(leaves.table, before)
    commit()
    predicted = other.update(table.others, targets)
    np.testing.assert_array_equal(leaves.table, other.table)
    np.testing.assert_array_equal(commit.predicted, predicted)
    commit()
    np.testing.assert_array_equal(leaves.table, other.table)
    np.testing.assert_array_equal(commit.predicted, predicted)


def test_of_two_updates_prepared_at_once_only_the_first_is_made():
    leaves = some_leaves()
    rows = np.zeros((1, 2), np.float32)
    first, second = (leaves.prepared_update(rows, np.array([target])) for target in (1.0, 2.0))
    first()
    after = leaves.table.copy()
    second()
    np.testing.assert_array_equal(leaves.table, after)


def test_a_copy_has_updates_of_its_own():
    leaves = some_leaves()
    twin, before = deepcopy(leaves), leaves.table.copy()
    twin.update(np.zeros((1, 2), np.float32), np.array([9.0]))
    np.testing.assert_array_equal(leaves.table, before)
    assert (twin.table != before).any()
    commit = leaves.prepared_update(np.zeros((1, 2), np.float32), np.array([9.0]))
    commit()
    np.testing.assert_array_equal(leaves.table, twin.table)


def test_rows_and_targets_that_do_not_fit_are_refused():
    leaves = some_leaves()
    before = leaves.table.copy()
    for rows, targets in ((np.zeros((2, 3)), [1.0, 2.0]), (np.zeros((2, 2)), [1.0]), (np.zeros(2), [1.0])):
        with pytest.raises(ShapeError):
            leaves.update(rows.astype(np.float32), np.array(targets))
    for rows in (np.zeros((2, 3), np.float32), np.zeros((2, 1), np.float32)):
        with pytest.raises(ShapeError, match="columns"):
            leaves.estimate(rows)
        with pytest.raises(ShapeError, match="columns"):
            leaves.sample(rows, exploration=1.0, key=0)
    np.testing.assert_array_equal(leaves.table, before)


def some_leaves(prior_rows=1.0):
    random = np.random.default_rng(0)
    features = random.standard_normal((60, 2)).astype(np.float32)
    targets = features[:, 0] + random.standard_normal(60)
    forest = XGBoostTrees(n_trees=12, max_depth=3).fit(features, targets, seed=0)
    return LeafStatistics.measure(forest, features, targets, prior_rows=prior_rows)


def test_statistics_go_through_their_state():
    leaves = some_leaves()
    again = LeafStatistics.restored(leaves.state(), prior_rows=leaves.prior_rows)
    rows = np.random.default_rng(1).standard_normal((20, 2)).astype(np.float32)
    for each in (leaves, again):
        each.update(rows, np.ones(20))
    np.testing.assert_array_equal(leaves.table, again.table)
    assert again.prior_rows == leaves.prior_rows


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("table", np.zeros((3, 4))),
        ("table", lambda table: table[:, :3].copy()),
        ("table", lambda table: table.astype(np.float32)),
        ("table", lambda table: np.where(table == table[0, 0], np.nan, table)),
        ("table", lambda table: -table),
        ("table", lambda table: table + 1.0),
        ("table", None),
        ("prior", np.zeros(3)),
        ("prior", lambda prior: prior - 1e9),
        ("prior", lambda prior: prior * np.inf),
        ("forest", {}),
        ("forest", None),
    ],
)
def test_forged_statistics_are_refused(name, value):
    state = some_leaves().state()
    state[name] = value(state[name]) if callable(value) else value
    with pytest.raises(SavedFileError):
        LeafStatistics.restored(state)


def test_kernels_are_compiled_for_one_kind_of_arguments():
    """Whatever rows, trees and memory layouts come: each kernel is compiled once."""
    compiled = (kernels.score_rows, kernels.sample_rows, kernels.learn_rows, kernels.find_leaves)
    before = [set(kernel.signatures) for kernel in compiled]  # by other tests, in other ways
    random = np.random.default_rng(0)
    features = random.standard_normal((60, 2))
    targets = features[:, 0] + random.standard_normal(60)
    frozen = features.astype(np.float32)
    frozen.flags.writeable = False
    for learner in (XGBoostTrees(n_trees=3), RandomForestTrees(n_trees=3), HistogramForest(n_trees=3)):
        forest = learner.fit(features.astype(np.float32), targets, seed=0)
        measured = [{}] + ([{"out_of_bag": True}] if forest.in_bag is not None else [])
        for options in measured:
            leaves = LeafStatistics.measure(forest, features.astype(np.float32), targets, **options)
            restored = LeafStatistics.restored(leaves.state())
            for each in (leaves, restored, deepcopy(leaves)):
                for rows in (features, frozen, np.asfortranarray(features), features[::2]):
                    each.estimate(rows)
                    each.sample(rows, exploration=1, key=1)
                    each.update(rows, targets[: len(rows)])
                    each.forest.predict(rows)
    for kernel, known in zip(compiled, before, strict=True):
        assert len(set(kernel.signatures) - known) <= 1


def test_the_bags_are_not_kept():
    features, targets = np.zeros((6, 1), np.float32), np.arange(6.0)
    forest = RandomForestTrees(n_trees=2).fit(features, targets, seed=0)
    leaves = LeafStatistics.measure(forest, features, targets, out_of_bag=True)
    assert isinstance(leaves.forest, Forest)
    assert leaves.forest.in_bag is None


def test_prior_rows_keep_a_leaf_of_equal_rewards_unsure():
    features = np.array([[0.0]] * 3 + [[1.0]] * 3, np.float32)
    targets = np.array([1.0, 1.0, 1.0, 0.0, 4.0, 5.0])
    forest = ExtraTrees(n_trees=1, max_depth=1).fit(features, targets, seed=0)
    leaves = LeafStatistics.measure(forest, features, targets, prior_rows=2.0)
    prior = targets.var(ddof=1)
    assert leaves.estimate(features[:1]).variance[0] == pytest.approx(2 * prior / (3 - 1 + 2) / 3)
    later = [1.0, 3.0]
    leaves.update(features[:2], np.array(later))
    deviations = 5 * np.var([1.0, 1.0, 1.0, *later])
    assert leaves.estimate(features[:1]).variance[0] == pytest.approx(
        (deviations + 2 * prior) / (5 - 1 + 2) / 5
    )


@pytest.mark.parametrize(
    "trees",
    [HistogramForest(n_trees=20, max_depth=1), XGBoostTrees(n_trees=1, max_depth=1, learning_rate=0.5)],
)
def test_deviations_are_those_of_rewards_around_their_mean(trees):
    random = np.random.default_rng(0)
    rows = np.repeat([[0.0], [1.0]], 2000, axis=0).astype(np.float32)
    targets = 5.0 * rows[:, 0] + np.where(rows[:, 0] > 0.0, 3.0, 0.1) * random.normal(size=4000)
    leaves = LeafStatistics.measure(trees.fit(rows, targets, seed=0), rows, targets)
    found = leaves.deviations(leaves.leaf_sums(rows[[0, -1]]))
    np.testing.assert_allclose(found, [0.1, 3.0], rtol=0.1)
