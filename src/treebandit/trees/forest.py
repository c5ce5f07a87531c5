"""A tree ensemble seen as flat arrays: all nodes of all trees, and how the trees combine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from treebandit.core import Features, Floats
from treebandit.errors import ParameterError
from treebandit.trees import kernels

#: threshold: go right at or above it; step: distance to the left child << bits | column of the laid-out row.
NODE = np.dtype([("threshold", np.float32), ("step", np.uint32)])


@runtime_checkable
class TreeLearner(Protocol):
    """A tree library behind one method."""

    def fit(self, features: Features, targets: Floats, *, seed: int) -> Forest:
        """Grow trees on (n, d) features and (n,) targets."""


@dataclass(frozen=True, slots=True, eq=False)
class Forest:
    """Flat arrays of all nodes of all trees; a prediction is `base` plus the sum of one leaf value per tree.

    learning_rate: η where trees were added up (boosting), 0 where they are averaged (bagging): then the values
        are already divided by the number of trees.
    in_bag: (n, n_trees), which training rows each tree was grown on; None where that is not known.
    """

    nodes: NDArray[np.void]
    roots: NDArray[np.uint64]
    depths: NDArray[np.int64]
    values: Floats
    n_trees: int
    n_features: int
    base: float
    learning_rate: float
    in_bag: NDArray[np.bool_] | None = None

    @property
    def bits(self) -> int:
        """Bits of a node's step that name the column."""
        return _column_bits(self.n_features)

    @property
    def layout(self) -> tuple[NDArray[np.void], NDArray[np.uint64], NDArray[np.int64], int]:
        """What every kernel needs first."""
        return self.nodes, self.roots, self.depths, self.bits

    @property
    def tree_sizes(self) -> NDArray[np.int64]:
        """Number of nodes of each tree."""
        starts = self.roots[: self.n_trees].astype(np.int64)
        return np.diff(starts, append=len(self.nodes) - 1)

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
        missing_left: where NaN goes. value: output of a leaf, anything elsewhere.
        """
        sizes_ = np.asarray(sizes, np.int64)
        n_trees = len(sizes_)
        starts = np.concatenate(([0], np.cumsum(sizes_)[:-1]))
        tree_of = np.repeat(np.arange(n_trees, dtype=np.int32), sizes_)
        offset = starts[tree_of]
        left_ = np.asarray(left, np.int64)
        is_leaf = left_ < 0
        left_ = np.where(is_leaf, -1, left_ + offset)
        right_ = np.where(is_leaf, -1, np.asarray(right, np.int64) + offset)

        order, depth = _siblings_together(starts, tree_of, left_, right_, is_leaf)
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        leaf = is_leaf[order]
        distance = np.where(leaf, 0, place[left_[order]] - np.arange(len(order)))
        column = np.where(
            np.asarray(missing_left, np.bool_), np.asarray(feature), np.asarray(feature) + n_features
        )[order]
        bits = _column_bits(n_features)
        if int(distance.max(initial=0)) >> (32 - bits):
            raise ParameterError(
                f"trees of up to {int(sizes_.max())} nodes over {n_features} features do not fit the node layout; "
                "limit max_depth or use fewer columns"
            )
        nodes = np.zeros(len(order) + 1, NODE)
        nodes["threshold"][:-1] = np.where(leaf, np.float32(np.nan), np.asarray(threshold, np.float32)[order])
        nodes["step"][:-1] = np.where(leaf, 0, distance << bits | column)
        nodes["threshold"][-1] = np.nan  # the lone leaf that fills up the last block of roots
        values = np.append(np.where(leaf, np.asarray(value, np.float64)[order], 0.0), 0.0)

        blocks = -(-n_trees // kernels.CHAINS)
        roots = np.full(blocks * kernels.CHAINS, len(order), np.uint64)
        roots[:n_trees] = starts
        depths = np.zeros(len(roots), np.int64)
        depths[:n_trees] = depth
        return cls(
            nodes=nodes,
            roots=roots,
            depths=depths.reshape(blocks, kernels.CHAINS).max(1),
            values=values,
            n_trees=n_trees,
            n_features=n_features,
            base=float(base),
            learning_rate=float(learning_rate),
            in_bag=in_bag,
        )

    def find_leaves(self, features: Features) -> NDArray[np.int32]:
        """The node at which each row ends in each tree: (n, n_trees)."""
        leaves: NDArray[np.int32] = kernels.find_leaves(*self.layout, self.n_trees, features)
        return leaves

    def predict(self, features: Features) -> Floats:
        """The ensemble's prediction with the leaf values it was grown with: (n,)."""
        predictions: Floats = self.base + self.values[self.find_leaves(features)].sum(1)
        return predictions

    def state(self):  # type: ignore[no-untyped-def]
        """shim"""
        return {**self.arrays(), **self.scalars()}

    @classmethod
    def restored(cls, state):  # type: ignore[no-untyped-def]
        """shim"""
        return cls(**state)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays that make up the forest, for saving."""
        return {"nodes": self.nodes, "roots": self.roots, "depths": self.depths, "values": self.values}

    def scalars(self) -> dict[str, float | int]:
        """The rest of it."""
        return {
            "n_trees": self.n_trees,
            "n_features": self.n_features,
            "base": self.base,
            "learning_rate": self.learning_rate,
        }


def less_or_equal(threshold: ArrayLike) -> NDArray[np.float32]:
    """The float32 t' such that x >= t' for a float32 x exactly when not x <= threshold (a float64)."""
    exact = np.asarray(threshold, np.float64)
    with np.errstate(over="ignore"):
        below = exact.astype(np.float32)
        below = np.where(below.astype(np.float64) > exact, np.nextafter(below, np.float32(-np.inf)), below)
        return np.nextafter(below, np.float32(np.inf))


def _column_bits(n_features: int) -> int:
    return max(1, (2 * n_features - 1).bit_length())


def _siblings_together(
    starts: NDArray[np.int64],
    tree_of: NDArray[np.int32],
    left: NDArray[np.int64],
    right: NDArray[np.int64],
    is_leaf: NDArray[np.bool_],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """An order of the nodes, tree by tree and level by level, with siblings side by side; and each tree's depth."""
    level = starts
    levels = [level]
    depth = np.zeros(len(starts), np.int64)
    while True:
        inner = level[~is_leaf[level]]
        if not len(inner):
            break
        level = np.column_stack((left[inner], right[inner])).ravel()
        depth[tree_of[level]] = len(levels)
        levels.append(level)
    reached = np.concatenate(levels)
    return reached[np.argsort(tree_of[reached], kind="stable")], depth
