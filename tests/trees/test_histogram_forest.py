"""Every split of our own trees is the best one that an exhaustive search finds on the raw features."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trees.library import tables

from treebandit.errors import ParameterError
from treebandit.trees import HistogramForest, LeafStatistics, RandomForestTrees
from treebandit.trees.bins import Bins
from treebandit.trees.forest import SteppedTreeLearner, TreeLearner
from treebandit.trees.grower import NODE, Limits, Sample, grow_trees, means, most_nodes, workspace

NO_ROW, NO_BAGS = np.empty(0, np.uint8), np.empty((0, 0), np.bool_)


def grown(bins, codes, sample, follow=NO_ROW, *, seed=0, **limits):
    """The nodes of one tree."""
    return trees_of(bins, codes, sample, [seed], follow, **limits)[0]


def trees_of(bins, codes, sample, seeds, follow=NO_ROW, **limits):
    """The nodes of trees that are grown at once, one for each seed."""
    groups = np.arange(codes.shape[1])
    limits = Limits(**{"max_depth": 4, "min_leaf": 2, "tried": len(groups), "groups": groups, **limits})
    table, keys, sizes = bins.table(codes), np.array(seeds, np.uint64), np.zeros(len(seeds), np.int64)
    nodes = np.empty(len(seeds) * most_nodes(table, limits), NODE)
    grow_trees(table, sample, limits, follow, keys, nodes, sizes, workspace(table, limits))
    return np.split(nodes[: sizes.sum()], np.cumsum(sizes)[:-1])


def gain(right, targets, weights):
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


def goes_right(bins, features, node):
    columns, thresholds, missing_left = bins.thresholds(node[None])
    column = features[:, columns[0]]
    return np.where(np.isnan(column), not missing_left[0], column >= thresholds[0])


@st.composite
def samples(draw, max_rows):
    """A table, once or many times over so that large nodes come about, and how often each row counts."""
    table = draw(tables(max_rows=max_rows))
    times = draw(st.sampled_from([1, 1, 8]))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    features, targets = np.tile(table.features, (times, 1)), np.tile(table.targets, times)
    targets = targets + (0.1 * random.standard_normal(len(targets)) if times > 1 else 0.0)
    n = len(targets)
    weights = np.bincount(random.integers(0, n, n), minlength=n) if draw(st.booleans()) else np.ones(n)
    return features, Sample(targets - targets.mean(), weights.astype(np.int32), n, NO_BAGS)


def one_hot(codes, width):
    return (codes[:, None] == np.arange(width)).astype(np.float32)


@settings(deadline=None, max_examples=100)
@given(samples(max_rows=40), st.integers(0, 2**32 - 1), st.sampled_from([0, 2, 6]))
def test_each_split_is_the_best_one(table, seed, categories):
    """Numbers and a category's one-hot columns, weighted rows, nodes with and without a histogram to subtract from."""
    features, sample = table
    group = ()
    if categories:
        drawn = np.random.default_rng(seed).integers(0, categories + 1, len(features))
        group = ((features.shape[1], features.shape[1] + categories),)
        features = np.hstack([features, one_hot(drawn, categories)])
    bins = Bins.fit(features, 64, group)
    nodes = grown(bins, bins.encode(features), sample, seed=seed)
    values = means(nodes)
    todo = [(0, np.flatnonzero(sample.weights), 0)]
    while todo:
        node, rows, depth = todo.pop()
        x, y, w = features[rows], sample.targets[rows], sample.weights[rows]
        assert values[node] == pytest.approx((w * y).sum() / w.sum(), abs=1e-9)
        best = max((gain(right, y, w) for right in all_splits(x)), default=-np.inf)
        if nodes["left"][node] < 0:
            assert depth == 4 or best == -np.inf or np.ptp(y) < 1e-5
            continue
        right = goes_right(bins, x, nodes[node])
        assert gain(right, y, w) == pytest.approx(best, rel=1e-6, abs=1e-9)
        todo += [
            (nodes["left"][node], rows[~right], depth + 1),
            (nodes["right"][node], rows[right], depth + 1),
        ]


@settings(deadline=None, max_examples=60)
@given(samples(max_rows=60), st.integers(0, 2**32 - 1), st.integers(1, 5), st.sampled_from([3, 1 << 30]))
def test_a_path_is_that_of_the_whole_tree_bit_by_bit(table, seed, tried, depth):
    features, sample = table
    check_paths(features, sample, {"seed": seed, "tried": tried, "max_depth": depth, "min_leaf": 1})


def test_paths_through_large_nodes_break_ties_as_the_whole_tree_does():
    """Of columns that part the rows alike, rounding decides: histograms are subtracted in the same way in both."""
    for seed in range(40, 50):
        random = np.random.default_rng(seed)
        features = np.tile(random.integers(-1, 1, (40, 5)).astype(np.float32), (8, 1))
        targets = random.normal(size=320)
        sample = Sample(targets - targets.mean(), np.ones(320, np.int32), 320, NO_BAGS)
        check_paths(features, sample, {"seed": seed, "tried": 3, "max_depth": 1 << 30, "min_leaf": 1})


@settings(deadline=None, max_examples=30)
@given(samples(max_rows=90), st.lists(st.integers(0, 2**63), min_size=1, max_size=5))
def test_trees_at_once_are_those_grown_one_by_one_bit_by_bit(table, seeds):
    features, sample = table
    bins = Bins.fit(features, 9)
    codes, size = bins.encode(features), 1 + len(features) // 2
    bags, alone = np.zeros((len(seeds), len(features)), np.bool_), np.zeros((1, len(features)), np.bool_)
    together = trees_of(bins, codes, sample._replace(size=size, in_bag=bags), seeds, tried=2)
    for seed, nodes, bag in zip(seeds, together, bags, strict=True):
        one = grown(bins, codes, sample._replace(size=size, in_bag=alone), seed=seed, tried=2)
        assert one.tobytes() == nodes.tobytes()
        assert (alone[0] == bag).all()


def check_paths(features, sample, limits):
    bins = Bins.fit(features, 9)
    codes = bins.encode(features)
    nodes = grown(bins, codes, sample, **limits)
    for row in codes[:: max(1, len(codes) // 5)]:
        path = grown(bins, codes, sample, row, **limits)
        whole, alone = 0, 0
        while nodes["left"][whole] >= 0:
            split = nodes[["group", "low", "high"]][whole]
            assert split == path[["group", "low", "high"]][alone]
            side = "right" if split["low"] <= row[split["group"]] < split["high"] else "left"
            whole, alone = nodes[side][whole], path[side][alone]
        assert path["left"][alone] < 0
        assert path["moment"][alone] == nodes["moment"][whole]


def test_columns_and_equal_gains_are_drawn_evenly():
    """Of six equal columns of which two are tried, each gives the split as often as the others."""
    targets = np.arange(40.0)
    bins = Bins.fit(np.repeat(targets[:, None], 6, 1).astype(np.float32), 64)
    codes = np.repeat(np.arange(40, dtype=np.uint8)[:, None], 6, 1)
    sample = Sample(targets, np.ones(40, np.int32), 40, NO_BAGS)
    for tried in (1, 2, 6):
        used = [grown(bins, codes, sample, seed=s, tried=tried, max_depth=1)["group"][0] for s in range(1200)]
        assert np.bincount(used, minlength=6).tolist() == pytest.approx([200] * 6, abs=50)


def test_a_column_that_is_constant_in_a_node_does_not_count_as_tried():
    features = np.zeros((50, 6), np.float32)
    features[:, 3] = np.arange(50)
    forest = HistogramForest(n_trees=30, max_features=1, bootstrap=False).fit(
        features, features[:, 3].astype(float), seed=0
    )
    assert all(len(np.unique(leaves)) > 10 for leaves in forest.find_leaves(features).T)


def test_one_hot_columns_are_one_group_and_split_as_single_columns():
    random = np.random.default_rng(1)
    codes = random.integers(0, 7, 300)
    features = np.hstack([random.standard_normal((300, 1)), one_hot(codes, 6), random.random((300, 1))])
    features = features.astype(np.float32)
    targets = np.isin(codes, [1, 4]) + 0.01 * random.standard_normal(300)
    forest = HistogramForest(n_trees=1, max_features=1.0, bootstrap=False, max_depth=2).fit(
        features, targets, seed=0, column_groups=[(1, 7)]
    )
    for code in range(7):
        at = forest.predict(features[codes == code])
        assert at == pytest.approx(
            targets[np.isin(codes, [1, 4]) if code in (1, 4) else codes == code].mean(), abs=0.05
        )


def test_a_category_counts_as_one_column_where_it_is_told():
    """One column of two is tried: the category of ten columns is used by half of the trees, else by most."""
    random = np.random.default_rng(2)
    codes = random.integers(0, 10, 400)
    features = np.hstack([random.standard_normal((400, 1)), one_hot(codes, 10)]).astype(np.float32)
    targets = random.standard_normal(400)

    def roots_on_category(**groups):
        learner = HistogramForest(n_trees=300, max_features=1, max_depth=1)
        forest = learner.fit(features, targets, seed=0, **groups)
        moved = features.copy()
        moved[:, 0] = 9.0
        return (forest.find_leaves(features) == forest.find_leaves(moved)).all(0).mean()

    assert roots_on_category(column_groups=[(1, 11)]) == pytest.approx(0.5, abs=0.1)
    assert roots_on_category() > 0.85


@settings(deadline=None, max_examples=30)
@given(tables(), st.sampled_from([1, 3, None]))
def test_leaves_hold_two_rows_and_every_row_finds_one(table, depth):
    learner = HistogramForest(n_trees=5, max_depth=depth, bins=4)
    forest = learner.fit(table.features, table.targets, seed=0)
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
def test_masked_columns_are_not_seen_by_a_share_of_the_trees(share, using):
    random = np.random.default_rng(5)
    features = random.standard_normal((100, 3)).astype(np.float32)
    learner = HistogramForest(n_trees=10, max_features=1.0)
    targets = features[:, 1] + 0.01 * features[:, 2].astype(float)
    forest = learner.fit(features, targets, seed=0, masked=([1], share))
    moved = features.copy()
    moved[:, 1] += 1.0
    assert (forest.find_leaves(features) != forest.find_leaves(moved)).any(0).sum() == using


def test_where_every_column_is_masked_a_tree_is_its_root():
    features, targets = problem(50, 0)
    forest = HistogramForest(n_trees=4).fit(features, targets, seed=0, masked=(range(6), 0.5))
    leaves = forest.find_leaves(features)
    assert [len(np.unique(column)) == 1 for column in leaves.T] == [False, False, True, True]


def test_learners_that_take_groups_say_so():
    assert isinstance(HistogramForest(), SteppedTreeLearner)
    assert isinstance(HistogramForest(), TreeLearner)
    assert not isinstance(RandomForestTrees(), SteppedTreeLearner)


def test_a_share_of_features_and_of_rows_makes_trees_differ():
    features, targets = problem(200, 4)
    for learner in (
        HistogramForest(n_trees=5, bootstrap=False, max_features=1),
        HistogramForest(n_trees=5, bootstrap=False, max_features=1.0, subsample=0.7),
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
        (HistogramForest, {"subsample": 1.5}),
        (HistogramForest, {"min_samples_leaf": 1}),
    ],
)
def test_refuses_by_name(kind, arguments):
    with pytest.raises(ParameterError, match=next(iter(arguments))):
        kind(**arguments)


@pytest.mark.parametrize("masked", [([3], 0.5), ([-1], 0.5), ([0], 1.5), ([0], np.nan)])
def test_refuses_to_mask_what_is_no_column_or_no_share(masked):
    with pytest.raises(ParameterError, match="masked"):
        HistogramForest().fit(np.zeros((5, 3), np.float32), np.zeros(5), seed=0, masked=masked)


def test_a_forest_without_bags_is_the_same_otherwise_and_leaves_the_other_as_it_is():
    features = np.random.default_rng(0).normal(size=(60, 2)).astype(np.float32)
    forest = HistogramForest(n_trees=3).fit(features, features[:, 0].astype(np.float64), seed=0)
    without = forest.without_bags()
    assert without.in_bag is None
    assert forest.in_bag is not None
    assert without.predict(features).tolist() == forest.predict(features).tolist()
    assert all(
        getattr(without, name) is getattr(forest, name) for name in ("nodes", "sizes", "values", "arrays")
    )
