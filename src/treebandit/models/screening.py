"""Which of many columns trees and regressions see."""

from __future__ import annotations

import numpy as np

from treebandit.core import Candidates, Floats, Indices
from treebandit.models.model import arms_of

#: They see no more columns than this.
_MOST_COLUMNS = 64


def screened(rows: Candidates, rewards: Floats, *, most_arms: int) -> Indices | None:
    """The columns that rewards go with most, in rising order; None where there are few, and all are seen.

    By Σ over arms of n · correlation² (Fan and Lv, 2008); with more arms than `most_arms` they are not told apart.
    """
    if len(rows.columns) <= _MOST_COLUMNS:
        return None
    arms = arms_of(rows)
    labels = np.unique(arms)
    relevance = np.zeros(len(rows.columns))
    for label in labels if len(labels) <= most_arms else [None]:
        own = slice(None) if label is None else arms == label
        values, paid = rows.contexts[own].astype(np.float64), rewards[own] - rewards[own].mean()
        missing = np.isnan(values)
        mean = np.where(missing, 0.0, values).sum(axis=0) / np.maximum((~missing).sum(axis=0), 1)
        centred = np.where(missing, 0.0, values - mean)
        squares = np.square(centred).sum(axis=0)
        relevance += np.where(
            squares > 0.0, (paid @ centred) ** 2 / np.where(squares > 0.0, squares, 1.0), 0.0
        )
    return np.sort(np.argsort(-relevance, kind="stable")[:_MOST_COLUMNS])
