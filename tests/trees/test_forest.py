import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from treebandit.errors import ParameterError, SavedFileError, ShapeError
from treebandit.trees import Forest, TreeLearner, XGBoostTrees, kernels
from treebandit.trees.forest import less_or_equal


class Node:
    """A tree as nested objects, walked one row and one node at a time."""

    def __init__(self, random, depth, n_features, counter):
        self.leaf = depth == 0 or random.random() < 0.25
        if self.leaf:
            counter[0] += 1
            self.value = float(counter[0])
            return
        self.feature = int(random.integers(n_features))
        self.threshold = np.float32(round(float(random.standard_normal()), 1))
        self.missing_left = bool(random.random() < 0.5)
        self.left = Node(random, depth - 1, n_features, counter)
        self.right = Node(random, depth - 1, n_features, counter)

    def walk(self, row):
        if self.leaf:
            return self.value
        x = row[self.feature]
        goes_left = self.missing_left if math.isnan(x) else x < self.threshold
        return (self.left if goes_left else self.right).walk(row)

    def nodes(self):
        return [self] + ([] if self.leaf else self.left.nodes() + self.right.nodes())


def flatten(trees, random, **arguments):
    """The arrays that a library would give, its nodes in any order but for the root."""
    lists = {name: [] for name in ("left", "right", "feature", "threshold", "missing_left", "value")}
    sizes = []
    for tree in trees:
        root, *rest = tree.nodes()
        random.shuffle(rest)
        nodes = [root, *rest]
        place = {id(node): i for i, node in enumerate(nodes)}
        sizes.append(len(nodes))
        for node in nodes:
            lists["left"].append(-1 if node.leaf else place[id(node.left)])
            lists["right"].append(-1 if node.leaf else place[id(node.right)])
            lists["feature"].append(0 if node.leaf else node.feature)
            lists["threshold"].append(0.0 if node.leaf else node.threshold)
            lists["missing_left"].append(not node.leaf and node.missing_left)
            lists["value"].append(node.value if node.leaf else 99.0)
    return Forest.from_nodes(sizes=sizes, **lists, **arguments)


@settings(deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([1, 2, kernels.CHAINS - 1, kernels.CHAINS, kernels.CHAINS + 1, 3 * kernels.CHAINS - 2]),
    st.sampled_from([1, 3, 200]),
    st.integers(0, 6),
)
def test_every_row_ends_where_a_plain_walk_ends(seed, n_trees, n_features, depth):
    random = np.random.default_rng(seed)
    trees = [Node(random, depth, n_features, [0]) for _ in range(n_trees)]
    forest = flatten(trees, random, n_features=n_features, base=0.5)
    rows = np.round(random.standard_normal((25, n_features)), 1).astype(np.float32)
    rows[random.random(rows.shape) < 0.2] = np.nan
    expected = np.array([[tree.walk(row) for tree in trees] for row in rows])
    found = forest.find_leaves(rows)
    np.testing.assert_array_equal(forest.values[found], expected)
    np.testing.assert_array_equal(forest.predict(rows), 0.5 + expected.sum(1))
    assert forest.sizes.tolist() == [len(tree.nodes()) for tree in trees]
    for tree, leaves in enumerate(found.T):
        start = int(forest.starts[tree])
        assert ((leaves >= start) & (leaves < start + forest.sizes[tree])).all()
        np.testing.assert_array_equal(forest.find_leaves_of(tree, rows), leaves)


def test_more_rows_than_are_laid_out_at_a_time():
    random = np.random.default_rng(0)
    tree = Node(random, 5, 2, [0])
    forest = flatten([tree], random, n_features=2)
    rows = random.standard_normal((2 * kernels.ROWS + 3, 2)).astype(np.float32)
    np.testing.assert_array_equal(forest.predict(rows), [tree.walk(row) for row in rows])


def test_no_rows_are_no_predictions():
    forest = flatten([Node(np.random.default_rng(0), 2, 2, [0])], np.random.default_rng(0), n_features=2)
    assert forest.predict(np.zeros((0, 2), np.float32)).shape == (0,)


def test_a_forest_goes_through_its_state():
    random = np.random.default_rng(1)
    forest = flatten([Node(random, 4, 3, [0]) for _ in range(13)], random, n_features=3, base=1.0)
    again = Forest.restored(forest.state())
    rows = random.standard_normal((20, 3)).astype(np.float32)
    np.testing.assert_array_equal(forest.predict(rows), again.predict(rows))


def test_nodes_without_a_parent_are_dropped():
    """XGBoost keeps pruned nodes in its arrays."""
    forest = Forest.from_nodes(
        sizes=[5, 1],
        left=[3, -1, -1, -1, -1, -1],
        right=[4, -1, -1, -1, -1, -1],
        feature=[0] * 6,
        threshold=[0.5] * 6,
        missing_left=[True] * 6,
        value=[0.0, 7.0, 8.0, 1.0, 2.0, 10.0],
        n_features=1,
    )
    assert forest.sizes.tolist() == [3, 1]
    rows = np.array([[0.0], [1.0], [np.nan]], np.float32)
    np.testing.assert_array_equal(forest.predict(rows), [11.0, 12.0, 11.0])


def test_rows_of_another_width_are_refused():
    forest = flatten([Node(np.random.default_rng(0), 2, 3, [0])], np.random.default_rng(0), n_features=3)
    for rows in (np.zeros((2, 2), np.float32), np.zeros((2, 4), np.float32), np.zeros(3, np.float32)):
        with pytest.raises(ShapeError, match=r"for trees over 3 columns"):
            forest.predict(rows)


def a_state():
    random = np.random.default_rng(3)
    return flatten([Node(random, 4, 3, [0]) for _ in range(13)], random, n_features=3, base=1.0).state()


FORGERIES = {
    "child out of range": lambda s: s["nodes"]["step"].__setitem__(0, 0xFFFFFFF0),
    "child of its own": lambda s: s["nodes"]["step"].__setitem__(0, 1),
    "child of another tree": lambda s: s["nodes"]["step"].__iadd__(np.uint32(1 << 12)),
    "column out of range": lambda s: s["nodes"]["step"].__ior__(np.uint32(7)),
    "no thresholds": lambda s: s["nodes"]["threshold"].fill(np.nan),
    "all leaves": lambda s: s["nodes"]["step"].fill(0),
    "no node": lambda s: s.update(nodes=s["nodes"][:0], values=s["values"][:0]),
    "nodes of another type": lambda s: s.update(
        nodes=s["nodes"].astype([("threshold", "f8"), ("step", "u4")])
    ),
    "nodes as numbers": lambda s: s.update(nodes=s["nodes"]["threshold"].copy()),
    "fewer nodes": lambda s: s.update(nodes=s["nodes"][:5]),
    "fewer values": lambda s: s.update(values=s["values"][:5]),
    "values no numbers": lambda s: s["values"].fill(np.nan),
    "last value": lambda s: s["values"].__setitem__(-1, 1.0),
    "sizes": lambda s: s["sizes"].__setitem__(0, s["sizes"][0] + 2),
    "huge sizes": lambda s: s["sizes"].fill(2**62),
    "negative sizes": lambda s: s["sizes"].__setitem__(0, -5),
    "no tree": lambda s: s.update(sizes=s["sizes"][:0]),
    "sizes in two dimensions": lambda s: s.update(sizes=s["sizes"][None]),
    "many columns": lambda s: s.update(n_features=4000),
    "no columns": lambda s: s.update(n_features=0),
    "half a column": lambda s: s.update(n_features=2.5),
    "columns beyond counting": lambda s: s.update(n_features=10**400),
    "columns as text": lambda s: s.update(n_features="3"),
    "base": lambda s: s.update(base=float("nan")),
    "base as text": lambda s: s.update(base="1"),
    "rate": lambda s: s.update(learning_rate=-1.0),
    "a member less": lambda s: s.pop("base"),
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_a_forged_forest_is_refused(forgery):
    state = a_state()
    Forest.restored(state)
    FORGERIES[forgery](state)
    with pytest.raises(SavedFileError):
        Forest.restored(state)


@settings(deadline=None, max_examples=300)
@given(st.data())
def test_a_forest_with_any_bits_changed_is_refused_or_safe(data):
    state = a_state()
    name = data.draw(st.sampled_from(["nodes", "sizes", "values"]))
    flat = state[name].view(np.uint8)
    for _ in range(data.draw(st.integers(1, 4))):
        flat[data.draw(st.integers(0, len(flat) - 1))] ^= data.draw(st.integers(1, 255))
    try:
        forest = Forest.restored(state)
    except SavedFileError:
        return
    rows = np.array([[-1.0, 0.0, 1.0], [np.nan] * 3], np.float32)
    leaves = forest.find_leaves(rows)
    assert (forest.nodes["step"][leaves] == 0).all()
    assert ((leaves >= forest.starts) & (leaves < forest.starts + forest.sizes)).all()


def test_a_forest_that_does_not_fit_the_layout_is_refused():
    random = np.random.default_rng(0)
    full = Node(random, 0, 1, [0])

    def grow(depth):
        node = Node(random, 0, 1, [0])
        if depth:
            node.leaf, node.feature, node.threshold, node.missing_left = False, 0, 0.0, False
            node.left, node.right = grow(depth - 1), grow(depth - 1)
        return node

    full = grow(6)
    flatten([full], random, n_features=2**20)
    with pytest.raises(ParameterError, match="127 nodes over 268435456 features do not fit"):
        flatten([full], random, n_features=2**28)


@settings(deadline=None)
@given(
    st.floats(width=32, allow_nan=False, allow_infinity=False),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([None, -1, 0, 1]),
)
@example(0.0, -0.0, None)
@example(float(np.finfo(np.float32).max), 1.7976931348623157e308, None)
@example(float(np.finfo(np.float32).min), -1.7976931348623157e308, None)
@example(1e-45, 1e-320, None)
def test_right_of_the_new_threshold_is_exactly_above_the_old_one(x, threshold, nudge):
    if nudge is not None:  # thresholds at the row's own value and one 64-bit step beside it
        threshold = float(np.nextafter(x, np.inf * nudge)) if nudge else x
    assert bool(np.float32(x) >= less_or_equal(threshold)) == (not x <= threshold)


def test_learners_are_known_by_their_method():
    assert isinstance(XGBoostTrees(), TreeLearner)
    assert not isinstance(object(), TreeLearner)
