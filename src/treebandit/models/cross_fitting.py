"""Folds of rows, for scores by models that have not seen the row."""

from __future__ import annotations

import numpy as np

from treebandit.core import Indices

#: A row's score for the trees comes from the rows of the other folds.
_FOLDS = 5


def folds(arms: Indices | None, n: int, random: np.random.Generator) -> Indices:
    """The fold of each of n rows, drawn at random; every fold has its share of every arm's rows."""
    order = random.permutation(n)
    if arms is not None:
        order = order[np.argsort(arms[order], kind="stable")]
    fold = np.empty(n, np.intp)
    fold[order] = np.arange(n) % _FOLDS
    return fold
