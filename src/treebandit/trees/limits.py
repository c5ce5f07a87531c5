"""What tree learners ask of their arguments, and what others ask of a tree learner, checked when objects are made."""

from __future__ import annotations

import inspect
import reprlib
import sys
from collections.abc import Collection, Mapping
from copy import deepcopy
from importlib.util import find_spec
from typing import Any

import numpy as np

from treebandit.core import Floats
from treebandit.errors import MissingExtraError, ParameterError
from treebandit.parameters import check_number, is_ours

#: Limits of what can be asked for; a forged file cannot ask for more either.
MOST_TREES, DEEPEST, MOST_THREADS = 100_000, 10_000, 256


def check_limits(learner: Any, *, fewest_in_leaf: int = 2) -> None:
    """Raise a ParameterError for sizes that are no whole numbers or too small, and learning rates outside (0, 1].

    learner: has max_depth and min_samples_leaf; n_trees, threads and learning_rate are checked where it has them.
    fewest_in_leaf: 2, because the variance of a leaf's rows needs as many.
    """
    name = type(learner).__name__
    limits = {
        "n_trees": (1, MOST_TREES),
        "max_depth": (1, DEEPEST),
        "min_samples_leaf": (fewest_in_leaf, 2**31 - 1),
        "threads": (1, MOST_THREADS),
    }
    for size, (least, most) in limits.items():
        value, optional = getattr(learner, size, least), size == "max_depth"
        check_number(f"{name}.{size}", value, least=least, most=most, whole=True, optional=optional)
    if hasattr(learner, "learning_rate"):
        check_number(f"{name}.learning_rate", learner.learning_rate, above=0.0, most=1.0)


def check_max_features(learner: object, tried: Any) -> None:
    """Raise a ParameterError unless this is a share (float) or number (int) of columns."""
    whole = not isinstance(tried, float | np.floating)
    limits: dict[str, Any] = {"least": 1, "whole": True} if whole else {"above": 0.0, "most": 1.0}
    check_number(f"{type(learner).__name__}.max_features", tried, **limits)


def own_options(learner: object, options: Any, refused: Collection[str]) -> dict[str, Any]:
    """A copy of a learner's options, whose owner may change them.

    Raises a ParameterError for an option that would make other trees than those measured, or has an argument.
    """
    name = type(learner).__name__
    if not (isinstance(options, Mapping) and all(isinstance(option, str) for option in options)):
        raise ParameterError(
            f"{name}.options is {reprlib.repr(options)}; give a dict of the library's own parameters"
        )
    for option in options:
        if option in refused:
            raise ParameterError(
                f"{name}(options={{{option!r}: {reprlib.repr(options[option])}}}); leave {option} out: it makes other "
                "trees than the plain regression trees measured here, or has an argument of its own"
            )
    return deepcopy(dict(options))


def check_installed(module: str, library: str, extra: str) -> None:
    """Raise a MissingExtraError where a library cannot be imported; it is not imported here."""
    if module not in sys.modules or sys.modules[module] is None:
        try:
            found = find_spec(module)
        except ValueError:
            found = None
        if found is None:
            raise MissingExtraError(library, extra)


def check_learner(trees: Any) -> None:
    """Raise a ParameterError unless `trees` is an object with fit(features, targets, *, seed)."""
    if isinstance(trees, type):
        raise ParameterError(f"trees is the class {trees.__name__}; give an object: {trees.__name__}()")
    fit = getattr(trees, "fit", None)
    if not callable(fit):
        raise ParameterError(f"trees is {reprlib.repr(trees)}; give a tree learner such as HistogramForest()")
    try:
        parameters = inspect.signature(fit).parameters
    except (TypeError, ValueError):
        return
    if "seed" not in parameters and all(p.kind is not p.VAR_KEYWORD for p in parameters.values()):
        raise ParameterError(
            f"trees is {reprlib.repr(trees)}, whose fit takes no seed and returns no Forest; give a tree learner "
            "such as RandomForestTrees() for scikit-learn's forest or XGBoostTrees() for XGBoost"
        )


def check_out_of_bag(trees: Any) -> None:
    """Raise a ParameterError for a learner of the package whose trees see all rows; others are told when they fit."""
    drawn = getattr(trees, "bootstrap", False) or getattr(trees, "subsample", 1.0) < 1.0
    if is_ours(type(trees)) and not drawn:
        raise ParameterError(
            f"statistics='out_of_bag' with {reprlib.repr(trees)}, each of whose trees sees all rows; give a forest "
            "with bootstrap=True, or statistics from 'all' or 'held_out' rows"
        )


def single_precision(learner: object, targets: Floats) -> Floats:
    """The targets, if 32-bit floats can tell them apart; libraries that cast would else learn nothing, silently."""
    low, high = float(targets.min()), float(targets.max())
    largest = max(abs(low), abs(high))
    if largest > 1e18 or 0.0 < high - low < largest * 2.0**-20:
        raise ParameterError(
            f"targets from {low:.12g} to {high:.12g} cannot be told apart in the 32-bit floats of "
            f"{type(learner).__name__}; subtract their mean and divide by their standard deviation first, as "
            "TreeEnsembleRegressor does and agents do by default"
        )
    return targets
