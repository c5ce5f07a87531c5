"""A tree ensemble seen as flat arrays: all nodes of all trees, and how the trees combine."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from treebandit import schema
from treebandit.core import Features, Floats
from treebandit.errors import ParameterError, SavedFileError, ShapeError
from treebandit.features.encoding import ColumnGroups
from treebandit.trees import kernels
from treebandit.trees.forest_checks import (
    GivenNodes,
    check_bags,
    check_children,
    check_features,
    check_forest,
    check_numbers,
    check_parents,
    column_bits,
)
from treebandit.trees.kernels import CHAINS, NODE, ForestArrays

#: Columns, and the share of the trees that may not see them.
Masked = tuple[Sequence[int], float]


@runtime_checkable
class TreeLearner(Protocol):
    """A tree library behind one method.

    >>> from treebandit import HistogramForest, TreeLearner
    >>> isinstance(HistogramForest(), TreeLearner)
    True
    """

    def fit(self, features: Features, targets: Floats, *, seed: int) -> Forest:
        """Grow trees on (n, d) features and (n,) targets."""


@runtime_checkable
class SteppedTreeLearner(TreeLearner, Protocol):
    """A tree learner that uses what is known of the columns, and can be held up between two trees."""

    def fit_steps(
        self,
        features: Features,
        targets: Floats,
        *,
        seed: int,
        column_groups: ColumnGroups = (),
        masked: Masked = ((), 0.0),
    ) -> Generator[float, None, Forest]:
        """`fit` in steps; yields the share of the trees that are grown, and returns the forest.

        column_groups: (start, stop) of the columns that are one category's one-hot, or the arm's.
        masked: columns, and the share of the trees that may not see them.
        """


@dataclass(frozen=True, slots=True, eq=False)
class Forest:
    """Flat arrays of all nodes of all trees; a prediction is `base` plus the sum of one leaf value per tree.

    nodes: tree after tree, each level by level with siblings side by side; behind them one more leaf of value 0.
    sizes: (trees,), how many nodes each tree has.
    values: (nodes,), outputs of the leaves.
    n_features: columns of the rows that it takes.
    base: what all predictions start from.
    learning_rate: η where trees were added up (boosting), 0 where they are averaged (bagging): then the values
        are already divided by the number of trees.
    in_bag: (n, trees), which training rows each tree was grown on; None where that is not known. Not saved.

    >>> import numpy as np
    >>> from treebandit import Forest
    >>> stump = Forest.from_nodes(
    ...     sizes=[3], left=[1, -1, -1], right=[2, -1, -1], feature=[0, 0, 0], threshold=[0.5, 0, 0],
    ...     missing_left=[True] * 3, value=[0, -1, 1], n_features=1,
    ... )
    >>> stump.predict(np.array([[0.2], [0.7]], np.float32)).tolist()
    [-1.0, 1.0]
    """

    nodes: NDArray[np.void]
    sizes: NDArray[np.int64]
    values: Floats
    n_features: int
    base: float = 0.0
    learning_rate: float = 0.0
    in_bag: NDArray[np.bool_] | None = None
    #: What kernels take: the members of ForestArrays.
    arrays: tuple[Any, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        check_forest(self.nodes, self.sizes, self.values, self.n_features, self.base, self.learning_rate)
        check_bags(self.in_bag, len(self.sizes))
        n_trees, bits = len(self.sizes), column_bits(self.n_features)
        blocks = -(-n_trees // CHAINS)
        roots = np.full(blocks * CHAINS, len(self.nodes) - 1, np.uint64)
        roots[:n_trees] = self.starts
        depths = np.zeros(blocks * CHAINS, np.int64)
        depths[:n_trees] = _depths(self.starts, self.nodes["step"] == 0)
        deepest = depths.reshape(blocks, CHAINS).max(1)
        arrays = ForestArrays(
            self.nodes, roots, deepest, bits, n_trees, float(self.base), float(self.learning_rate)
        )
        object.__setattr__(self, "arrays", tuple(arrays))

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return len(self.sizes)

    @property
    def starts(self) -> NDArray[np.int64]:
        """The first node, the root, of each tree."""
        return np.cumsum(self.sizes) - self.sizes

    @classmethod
    def of_single_leaves(
        cls, values: ArrayLike, *, n_features: int, base: float = 0.0, learning_rate: float = 0.0
    ) -> Forest:
        """Trees that are one leaf each, of these (trees,) values."""
        outputs = np.asarray(values)
        nowhere, zeros = np.full(len(outputs), -1, np.int64), np.zeros(len(outputs), np.int64)
        return cls.from_nodes(
            sizes=np.ones(len(outputs), np.int64),
            left=nowhere,
            right=nowhere,
            feature=zeros,
            threshold=zeros.astype(np.float32),
            missing_left=zeros.astype(np.bool_),
            value=outputs,
            n_features=n_features,
            base=base,
            learning_rate=learning_rate,
        )

    @classmethod
    def from_nodes(
        cls,
        *,
        sizes: ArrayLike,
        left: ArrayLike,
        right: ArrayLike,
        feature: ArrayLike,
        threshold: ArrayLike,
        missing_left: ArrayLike,
        value: ArrayLike,
        n_features: int,
        base: float = 0.0,
        learning_rate: float = 0.0,
        in_bag: NDArray[np.bool_] | None = None,
    ) -> Forest:
        """Flatten the trees of a library.

        sizes: nodes per tree. All others: one entry per node, tree after tree, the first node of a tree its root.
        left, right: child within the tree, negative at a leaf. threshold: float32, go right where x >= threshold.
        missing_left: where NaN goes. value: output of a leaf, anything elsewhere. Nodes without a parent are dropped.
        What are no trees gets a ParameterError or a ShapeError: a child outside of its tree, a node with two parents, a
        feature that does not exist, a threshold or value that is NaN. A threshold may be infinite, to split what is
        missing from what is there.
        """
        check_numbers(n_features, base, learning_rate)
        given = GivenNodes.read(
            sizes=sizes,
            left=left,
            right=right,
            feature=feature,
            threshold=threshold,
            missing_left=missing_left,
            value=value,
        )
        order, tree_of = _siblings_together(given, given.left < 0)
        leaf = given.left[order] < 0
        inner, leaves = np.flatnonzero(~leaf), np.flatnonzero(leaf)
        splits = order[inner]
        column = given.feature[splits]
        check_features(column, n_features)
        # Behind the roots of the trees so far, inner nodes have their children side by side, in their own order.
        distance = 2 * np.arange(len(inner)) + tree_of[inner] + 1 - inner
        column += n_features * ~given.missing_left[splits]
        bits = column_bits(n_features)
        if int(distance.max(initial=0)) >> (32 - bits):
            raise ParameterError(
                f"trees of up to {int(given.sizes.max())} nodes over {n_features} features do not fit the node layout; "
                "limit max_depth or use fewer columns"
            )
        nodes, values = np.zeros(len(order) + 1, NODE), np.zeros(len(order) + 1)
        nodes["threshold"] = np.nan
        # Rows have -inf for what is missing and goes left: it must be below every threshold.
        nodes["threshold"][inner] = np.maximum(given.threshold[splits], np.finfo(np.float32).min)
        nodes["step"][inner] = distance << bits | column
        values[leaves] = given.value[order[leaves]]
        kept = np.bincount(tree_of, minlength=len(given.sizes)).astype(np.int64)
        return cls(nodes, kept, values, int(n_features), float(base), float(learning_rate), in_bag)

    def without_bags(self) -> Forest:
        """The same forest, which no longer tells what its trees were grown on; its nodes are not checked again."""
        forest = copy(self)
        object.__setattr__(forest, "in_bag", None)
        return forest

    def checked(self, features: Features) -> Features:
        """Rows as kernels take them; other widths would be read out of bounds."""
        if features.ndim != 2 or features.shape[1] != self.n_features:
            raise ShapeError(f"features of shape {features.shape} for trees over {self.n_features} columns")
        if features.dtype != np.float32 or not features.flags.carray:
            return np.array(features, np.float32, order="C")
        return features

    def find_leaves(self, features: Features) -> NDArray[np.int32]:
        """The node at which each row ends in each tree: (n, n_trees)."""
        features = self.checked(features)
        leaves = np.empty((len(features), self.n_trees), np.int32)
        kernels.find_leaves(self.arrays, features, leaves, kernels.scratch(*features.shape))
        return leaves

    def find_leaves_of(self, tree: int, features: Features) -> NDArray[np.int32]:
        """The node at which each row ends in one of the trees: (n,)."""
        features = self.checked(features)
        whole, block = ForestArrays(*self.arrays), tree // CHAINS
        roots = np.full(CHAINS, len(self.nodes) - 1, np.uint64)
        roots[0] = whole.roots[tree]
        one = whole._replace(roots=roots, depths=whole.depths[block : block + 1], n_trees=1)
        leaves = np.empty((len(features), 1), np.int32)
        kernels.find_leaves(tuple(one), features, leaves, kernels.scratch(*features.shape))
        return leaves[:, 0]

    def predict(self, features: Features) -> Floats:
        """The ensemble's prediction with the leaf values it was grown with: (n,)."""
        predictions: Floats = self.base + self.values[self.find_leaves(features)].sum(1)
        return predictions

    def state(self) -> dict[str, Any]:
        """The forest as arrays and numbers, for saving."""
        return {name: getattr(self, name) for name in _SAVED}

    @classmethod
    def restored(cls, state: Mapping[str, Any]) -> Forest:
        """The forest that `state` described; a SavedFileError where no walk down these nodes would be safe."""
        nodes = schema.array(state, "nodes", NODE, (None,))
        sizes = schema.array(state, "sizes", np.int64, (None,), least=1, most=len(nodes))
        values = schema.array(state, "values", np.float64, (len(nodes),))
        width = schema.whole(state, "n_features", least=1, most=1 << 30)
        base, rate = schema.number(state, "base"), schema.number(state, "learning_rate", least=0.0, most=1.0)
        try:
            return cls(nodes, sizes, values, width, base, rate)
        except ParameterError as error:
            raise SavedFileError(f"a saved forest cannot be used: {error}") from error


_SAVED = ("nodes", "sizes", "values", "n_features", "base", "learning_rate")


def joined(trees: Sequence[Mapping[str, Any]], name: str, dtype: Any) -> NDArray[Any]:
    """One field of a library's trees, tree after tree."""
    return np.concatenate([tree[name] for tree in trees], dtype=dtype, casting="unsafe")


def less_or_equal(threshold: ArrayLike) -> NDArray[np.float32]:
    """The float32 t' such that x >= t' for a float32 x exactly when not x <= threshold (a float64)."""
    exact = np.asarray(threshold, np.float64)
    with np.errstate(over="ignore"):
        below = exact.astype(np.float32)
        below = np.where(below.astype(np.float64) > exact, np.nextafter(below, np.float32(-np.inf)), below)
        return np.nextafter(below, np.float32(np.inf))


def _siblings_together(
    given: GivenNodes, is_leaf: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], NDArray[np.integer[Any]]]:
    """An order of the nodes, tree by tree and level by level, with siblings side by side; and the tree of each."""
    sizes, starts = given.sizes, np.cumsum(given.sizes) - given.sizes
    level, tree, visited = starts, np.arange(len(starts)), 0
    levels, trees = [level], [tree]
    while True:
        visited += len(level)
        check_parents(visited, len(is_leaf))
        inner = ~is_leaf[level]
        if not inner.any():
            break
        parents, tree = level[inner], np.repeat(tree[inner], 2)
        first = starts[tree]
        level = np.empty(len(tree), np.int64)
        level[::2], level[1::2] = given.left[parents], given.right[parents]
        level += first
        check_children(level, first, sizes[tree])
        levels.append(level)
        trees.append(tree)
    tree_of: NDArray[np.integer[Any]] = np.concatenate(trees)
    # Numbers of 16 bits are sorted in one pass.
    tree_of = tree_of.astype(np.uint16) if len(starts) < 1 << 16 else tree_of
    by_tree = np.argsort(tree_of, kind="stable")
    order = np.concatenate(levels)[by_tree]
    check_parents(visited, len(is_leaf), order)
    return order, tree_of[by_tree]


def _depths(starts: NDArray[np.int64], is_leaf: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Each tree's depth: a level is followed by two nodes for each inner node in it."""
    splits = np.concatenate([[0], np.cumsum(~is_leaf)])
    first, last = starts, starts + 1
    depths = np.zeros(len(starts), np.int64)
    while True:
        first, last = last, last + 2 * (splits[last] - splits[first])
        grown = last > first
        if not grown.any():
            return depths
        depths += grown
