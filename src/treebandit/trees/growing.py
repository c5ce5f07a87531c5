"""Trees grown by any learner: its forest is checked, and a learner of others works on copies of the rows."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from treebandit.core import Features, Floats
from treebandit.errors import ParameterError
from treebandit.features.encoding import ColumnGroups
from treebandit.features.values import shown
from treebandit.parameters import is_ours
from treebandit.trees.forest import Forest, Masked, SteppedTreeLearner, TreeLearner


def grow(trees: TreeLearner, features: Features, targets: Floats, *, seed: int) -> Forest:
    """The forest that a learner grows on (n, d) features and (n,) targets."""
    return _checked(trees, trees.fit(*_own(trees, features, targets), seed=seed), features)


def grow_steps(
    trees: SteppedTreeLearner,
    features: Features,
    targets: Floats,
    *,
    seed: int,
    column_groups: ColumnGroups,
    masked: Masked,
) -> Generator[float, None, Forest]:
    """`grow` in steps, with what is known of the columns."""
    rows = _own(trees, features, targets)
    grown = yield from trees.fit_steps(*rows, seed=seed, column_groups=column_groups, masked=masked)
    return _checked(trees, grown, features)


def _own(trees: object, features: Features, targets: Floats) -> tuple[Features, Floats]:
    """Rows that a learner may write into: they may be the history of an agent, or the caller's own array.

    Learners of the package do not write into them. A copy, since not every library takes arrays that are read-only; it
    costs little beside growing trees.
    """
    if is_ours(type(trees)):
        return features, targets
    return features.copy(), targets.copy()


def _checked(trees: object, grown: Any, features: Features) -> Forest:
    name = type(trees).__name__
    if not isinstance(grown, Forest):
        raise ParameterError(
            f"{name}.fit returned {shown(grown)}; return a Forest, such as Forest.from_nodes makes of a library's trees"
        )
    rows, width = features.shape
    if grown.n_features != width:
        raise ParameterError(
            f"{name}.fit returned a Forest of {grown.n_features} features for rows of {width}; give it "
            "n_features=features.shape[1]"
        )
    if grown.in_bag is not None and len(grown.in_bag) != rows:
        raise ParameterError(
            f"{name}.fit returned a Forest whose in_bag has {len(grown.in_bag)} rows for {rows} training rows; "
            "give one row of flags each"
        )
    return grown
