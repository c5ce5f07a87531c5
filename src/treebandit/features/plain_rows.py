"""Rows as the first neural bandits took them: codes and numbers as they are, or divided by their length."""

from __future__ import annotations

from typing import Literal

import numpy as np

from treebandit.core import Features, Floats

#: 'scaled': numbers standardised, categories one-hot; 'raw': as they are, categories as codes; 'unit': 'raw', each row
#: divided by its Euclidean length.
RowForm = Literal["scaled", "raw", "unit"]
#: The value of a missing one, as in the code of Zhang et al. (2021).
MISSING = -1.0


def plain_rows(contexts: Features, *, unit: bool) -> Floats:
    """(n, d) contexts as 64-bit numbers; a row of length 0 stays as it is."""
    rows = np.where(np.isnan(contexts), MISSING, contexts).astype(np.float64)
    if unit:
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        rows /= np.where(lengths > 0.0, lengths, 1.0)
    return rows
