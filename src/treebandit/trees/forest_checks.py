"""What makes flat arrays a forest that can be walked: checked wherever one is made, once per fit."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from treebandit.core import Floats
from treebandit.errors import ParameterError, ShapeError
from treebandit.features.values import shown
from treebandit.parameters import check_number
from treebandit.trees.kernels import NODE

#: A node's step has 32 bits for its column, which is there twice, and the way to its children.
_MOST_FEATURES = 1 << 30
_NO_TREES = "nodes do not form trees; make a forest by Forest.from_nodes"


def column_bits(n_features: int) -> int:
    """Bits of a node's step that name the column: each is there twice, see `kernels.lay_out`."""
    return max(1, (2 * n_features - 1).bit_length())


def check_numbers(n_features: Any, base: Any, rate: Any) -> None:
    """Raise where one of the numbers of a forest is out of range."""
    check_number("n_features", n_features, least=1, most=_MOST_FEATURES, whole=True)
    check_number("base", base)
    check_number("learning_rate", rate, least=0.0, most=1.0)


class GivenNodes(NamedTuple):
    """The nodes that `Forest.from_nodes` is given, as arrays: (trees,) sizes, and one entry per node of all others."""

    sizes: NDArray[np.int64]
    left: NDArray[np.int64]
    right: NDArray[np.int64]
    feature: NDArray[np.int64]
    threshold: NDArray[np.float32]
    missing_left: NDArray[np.bool_]
    value: Floats

    @classmethod
    def read(cls, **given: Any) -> GivenNodes:
        """What was given under these names, if there is a tree, and one entry per node."""
        nodes = cls(**{name: _array(name, given[name]) for name in cls._fields})
        if not len(nodes.sizes) or nodes.sizes.min() < 1:
            raise ShapeError(
                f"sizes is {shown(given['sizes'])}; give the number of nodes of each tree, at least 1"
            )
        total = int(nodes.sizes.sum())
        for name in cls._fields[1:]:
            array = getattr(nodes, name)
            if array.shape != (total,):
                raise ShapeError(
                    f"{name} has shape {array.shape} for {total} nodes in all; give one entry per node"
                )
        return nodes


_TYPES: dict[str, Any] = {"threshold": np.float32, "missing_left": np.bool_, "value": np.float64}


def _array(name: str, given: Any) -> NDArray[Any]:
    """One argument as a (n,) array of its type."""
    dtype = _TYPES.get(name, np.int64)
    try:
        array = np.asarray(given)
        # Numbers with a fraction are no places of nodes; cast, they would be taken for others.
        if array.ndim == 1 and (dtype != np.int64 or array.dtype.kind in "iu"):
            return array.astype(dtype, copy=False)
    except (TypeError, ValueError):
        pass
    wanted = "whole numbers" if dtype == np.int64 else "numbers" if name != "missing_left" else "flags"
    raise ShapeError(f"{name} is {shown(given)}; give a list of {wanted}")


def check_children(children: NDArray[np.int64], first: NDArray[np.int64], size: NDArray[np.int64]) -> None:
    """Raise where (m,) children, by number among all nodes, are not in their tree, or are its root.

    first, size: (m,), the first node of the tree that each is in, and how many nodes that has.
    """
    wrong = (children <= first) | (children >= first + size)
    if wrong.any():
        place = int(wrong.argmax())
        raise ParameterError(
            f"a node has the child {children[place] - first[place]} in a tree of {size[place]} nodes; give children by "
            f"their number in the tree, from 1 to {size[place] - 1}, and negative ones for a leaf"
        )


def check_parents(visited: int, nodes: int, order: NDArray[np.int64] | None = None) -> None:
    """Raise where a walk down from the roots has met more nodes than there are, or one of them twice (`order`)."""
    if visited > nodes or (order is not None and np.bincount(order).max() > 1):
        raise ParameterError(
            "a node is the child of two nodes, so that a walk down the tree may never end; give each node one parent"
        )


def check_features(columns: NDArray[np.int64], n_features: int) -> None:
    """Raise where the columns of splits do not exist."""
    wrong = int(columns.min(initial=0)) or int(columns.max(initial=0))
    if not 0 <= wrong < n_features:
        raise ParameterError(
            f"a split looks at feature {wrong} of {n_features}; give features from 0 to {n_features - 1}"
        )


def check_forest(
    nodes: NDArray[np.void], sizes: NDArray[np.int64], values: Floats, n_features: int, base: Any, rate: Any
) -> None:
    """Raise a ParameterError unless every walk stays in its tree, ends, reads columns that exist, and adds up numbers.

    Level by level with siblings side by side, the k-th inner node of a tree has its children at 1 + 2k and 2 + 2k.
    Where that holds and lies ahead of the node, every node has one parent before it.
    """
    check_numbers(n_features, base, rate)
    n, bits = len(nodes) - 1, column_bits(n_features)
    if (
        nodes.dtype != NODE
        or not len(sizes)
        or sizes.min() < 1
        or sizes.max() > n
        or int(sizes.sum()) != n
        or values.shape != nodes.shape
    ):
        raise ParameterError(_NO_TREES)
    step, threshold = nodes["step"].astype(np.int64), nodes["threshold"]
    is_leaf = step == 0
    nan = np.isnan(threshold)
    if (nan[:-1] & ~is_leaf[:-1]).any():
        raise ParameterError("the threshold of a split is NaN; give a number")
    starts = np.cumsum(sizes) - sizes
    splits = np.concatenate([[0], np.cumsum(~is_leaf)])
    per_tree = splits[starts + sizes] - splits[starts]
    inner = np.flatnonzero(~is_leaf)
    safe = is_leaf[-1] and (sizes == 2 * per_tree + 1).all() and (nan == is_leaf).all()
    if safe:
        number = np.arange(len(inner)) - np.repeat(splits[starts], per_tree)
        children = np.repeat(starts, per_tree) + 1 + 2 * number
        safe = (
            (step[inner] >> bits == children - inner).all()
            and (children > inner).all()
            and ((step[inner] & ((1 << bits) - 1)) < 2 * n_features).all()
        )
    if not safe:
        raise ParameterError(_NO_TREES)
    if not np.isfinite(values).all():
        raise ParameterError(f"the value of a leaf is {values[~np.isfinite(values)][0]}; give finite numbers")
    if values[-1] != 0.0:
        raise ParameterError("values do not end in a 0; make a forest by Forest.from_nodes")


def check_bags(in_bag: Any, n_trees: int) -> None:
    """Raise unless it is None, or tells of each tree and training row whether the tree was grown on it."""
    if in_bag is None:
        return
    if (
        not isinstance(in_bag, np.ndarray)
        or in_bag.dtype != np.bool_
        or in_bag.ndim != 2
        or in_bag.shape[1] != n_trees
    ):
        raise ShapeError(f"in_bag is {shown(in_bag)}; give an array of flags, (rows, {n_trees}), or None")
