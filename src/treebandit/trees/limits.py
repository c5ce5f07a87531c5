"""What every tree learner asks of its size parameters."""

from __future__ import annotations

import reprlib
from collections.abc import Collection, Mapping
from typing import Any, Protocol

import numpy as np

from treebandit.errors import ParameterError

#: Limits of what can be asked for; a forged file cannot ask for more either.
MOST_TREES, DEEPEST, MOST_THREADS = 100_000, 10_000, 256


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
    kind = type(learner).__name__
    limits = {
        "n_trees": (1, MOST_TREES),
        "max_depth": (1, DEEPEST),
        "min_samples_leaf": (fewest_in_leaf, 2**31 - 1),  # a leaf's variance needs two rows
        "threads": (1, MOST_THREADS),
    }
    for name, (least, most) in limits.items():
        value = getattr(learner, name)
        if value is None and name == "max_depth":
            continue
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or not least <= value <= most:
            more = ", or None for no limit" if name == "max_depth" else ""
            raise ParameterError(
                f"{kind}({name}={reprlib.repr(value)}); give a whole number from {least} to {most}{more}"
            )
    rate: Any = 1.0 if learning_rate is None else learning_rate
    if isinstance(rate, bool) or not isinstance(rate, int | float | np.floating) or not 0 < rate <= 1:
        raise ParameterError(f"{kind}(learning_rate={reprlib.repr(rate)}); expected a number in (0, 1]")


def check_options(learner: object, options: Mapping[str, Any], refused: Collection[str]) -> None:
    """Raise a ParameterError for an option that would make of the trees what their leaf statistics do not hold."""
    for name in options:
        if name in refused:
            raise ParameterError(
                f"{type(learner).__name__}(options={{{name!r}: {options[name]!r}}}); only plain regression trees with "
                f"squared error have the leaves that are measured here, so leave {name} out"
            )
