"""A tree ensemble seen as flat arrays: all nodes of all trees, and how the trees combine."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from treebandit import schema
from treebandit.core import Features, Floats
from treebandit.errors import ParameterError, SavedFileError, ShapeError
from treebandit.features.encoding import ColumnGroups
from treebandit.trees import kernels
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
        n_trees, bits = len(self.sizes), _column_bits(self.n_features)
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
        """
        given = np.asarray(sizes, np.int64)
        starts = np.cumsum(given) - given
        offset = np.repeat(starts, given)
        left_ = np.asarray(left, np.int64)
        is_leaf = left_ < 0
        left_, right_ = left_ + offset, np.asarray(right, np.int64) + offset
        order = _siblings_together(starts, left_, right_, is_leaf)
        leaf = is_leaf[order]
        place = np.zeros(len(left_), np.int64)
        place[order] = np.arange(len(order))
        distance = np.where(leaf, 0, place[left_[order] * ~leaf] - np.arange(len(order)))
        column = np.asarray(feature)[order] + n_features * ~np.asarray(missing_left, np.bool_)[order]
        bits = _column_bits(n_features)
        if int(distance.max(initial=0)) >> (32 - bits):
            raise ParameterError(
                f"trees of up to {int(given.max())} nodes over {n_features} features do not fit the node layout; "
                "limit max_depth or use fewer columns"
            )
        nodes = np.zeros(len(order) + 1, NODE)
        nodes["threshold"][:-1] = np.where(leaf, np.float32(np.nan), np.asarray(threshold, np.float32)[order])
        nodes["step"][:-1] = np.where(leaf, 0, distance << bits | column)
        nodes["threshold"][-1] = np.nan
        values = np.append(np.where(leaf, np.asarray(value, np.float64)[order], 0.0), 0.0)
        tree_of = np.repeat(np.arange(len(given)), given)[order]
        kept = np.bincount(tree_of, minlength=len(given)).astype(np.int64)
        return cls(nodes, kept, values, n_features, float(base), float(learning_rate), in_bag)

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
        _check_nodes(nodes, sizes, width)
        if values[-1] != 0.0:
            raise SavedFileError("values do not end in a 0")
        base, rate = schema.number(state, "base"), schema.number(state, "learning_rate", least=0.0, most=1.0)
        return cls(nodes, sizes, values, width, base, rate)


_SAVED = ("nodes", "sizes", "values", "n_features", "base", "learning_rate")


def _check_nodes(nodes: NDArray[np.void], sizes: NDArray[np.int64], n_features: int) -> None:
    """Raise a SavedFileError unless every walk stays in its tree, ends, and reads columns that exist.

    Level by level with siblings side by side, the k-th inner node of a tree has its children at 1 + 2k and 2 + 2k.
    Where that holds and lies ahead of the node, every node has one parent before it.
    """
    n, bits = len(nodes) - 1, _column_bits(n_features)
    step, threshold = nodes["step"].astype(np.int64), nodes["threshold"]
    is_leaf = step == 0
    safe = len(sizes) > 0 and int(sizes.sum()) == n and is_leaf[-1]
    if safe:
        starts = np.cumsum(sizes) - sizes
        splits = np.concatenate([[0], np.cumsum(~is_leaf)])
        per_tree = splits[starts + sizes] - splits[starts]
        inner = np.flatnonzero(~is_leaf)
        number = np.arange(len(inner)) - np.repeat(splits[starts], per_tree)
        children = np.repeat(starts, per_tree) + 1 + 2 * number
        safe = (
            (sizes == 2 * per_tree + 1).all()
            and (step[inner] >> bits == children - inner).all()
            and (children > inner).all()
            and ((step[inner] & ((1 << bits) - 1)) < 2 * n_features).all()
            and (np.isnan(threshold) == is_leaf).all()
        )
    if not safe:
        raise SavedFileError("nodes do not form trees")


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


def _column_bits(n_features: int) -> int:
    """Bits of a node's step that name the column: each is there twice, see `kernels.lay_out`."""
    return max(1, (2 * n_features - 1).bit_length())


def _siblings_together(
    starts: NDArray[np.int64], left: NDArray[np.int64], right: NDArray[np.int64], is_leaf: NDArray[np.bool_]
) -> NDArray[np.int64]:
    """An order of the nodes, tree by tree and level by level, with siblings side by side."""
    level = starts
    levels, trees = [level], [np.arange(len(starts))]
    while True:
        inner = ~is_leaf[level]
        if not inner.any():
            break
        trees.append(np.repeat(trees[-1][inner], 2))
        level = np.column_stack((left[level[inner]], right[level[inner]])).ravel()
        levels.append(level)
    tree_of = np.concatenate(trees)
    # Numbers of 16 bits are sorted in one pass.
    tree_of = tree_of.astype(np.uint16) if len(starts) < 1 << 16 else tree_of
    return np.concatenate(levels)[np.argsort(tree_of, kind="stable")]


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
