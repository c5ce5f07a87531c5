"""What every tree learner asks of its size parameters."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Protocol

from treebandit.errors import ParameterError


class Sized(Protocol):
    """A learner with the size parameters that all share."""

    @property
    def n_trees(self) -> int:
        """Number of trees."""

    @property
    def max_depth(self) -> int | None:
        """Greatest depth; None for no limit."""

    @property
    def min_samples_leaf(self) -> int:
        """Fewest training rows in a leaf."""

    @property
    def threads(self) -> int:
        """Threads of one fit."""


def check_limits(learner: Sized, *, learning_rate: float | None = None, fewest_in_leaf: int = 2) -> None:
    """Raise a ParameterError that names the parameter, what was given and what is possible."""
    name = type(learner).__name__
    if learner.n_trees < 1:
        raise ParameterError(f"{name}(n_trees={learner.n_trees!r}); at least 1 tree is needed")
    if learner.max_depth is not None and learner.max_depth < 1:
        raise ParameterError(f"{name}(max_depth={learner.max_depth!r}); give 1 or more, or None for no limit")
    if learner.min_samples_leaf < fewest_in_leaf:
        why = "a leaf's variance needs at least 2 rows" if fewest_in_leaf == 2 else "at least 1 row is needed"
        raise ParameterError(f"{name}(min_samples_leaf={learner.min_samples_leaf!r}); {why}")
    if learner.threads < 1:
        raise ParameterError(f"{name}(threads={learner.threads!r}); at least 1 is needed")
    if learning_rate is not None and not 0 < learning_rate <= 1:
        raise ParameterError(f"{name}(learning_rate={learning_rate!r}); expected a number in (0, 1]")


def check_options(learner: object, options: Mapping[str, Any], refused: Collection[str]) -> None:
    """Raise a ParameterError for an option that would make of the trees what their leaf statistics do not hold."""
    for name in options:
        if name in refused:
            raise ParameterError(
                f"{type(learner).__name__}(options={{{name!r}: {options[name]!r}}}); only plain regression trees with "
                f"squared error have the leaves that are measured here, so leave {name} out"
            )
