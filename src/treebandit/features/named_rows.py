"""Rows with named columns: which contexts are such rows, and a list of them as dicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from treebandit.errors import InputError, ShapeError
from treebandit.features.frames import is_series
from treebandit.features.values import shown

_DICTS = frozenset({dict})
#: Types of rows, and of the values of one row, that name nothing.
_NAMELESS = frozenset({float, int, bool, list, tuple, np.ndarray, np.float64, np.float32, np.int64})


def has_names(row: Any) -> bool:
    """Whether one row names its values: a dict, or a pandas series that was made with names.

    A series that was made without names numbers its values; so does a row of a frame without names.
    """
    return isinstance(row, Mapping) or (is_series(row) and type(row.index).__name__ != "RangeIndex")


def named_values(row: Any) -> Mapping[Any, Any]:
    """A row that names its values as a dict."""
    if isinstance(row, Mapping):
        return row
    values = dict(row.items())
    if len(values) < len(row):
        raise ShapeError(f"the names of a series are {shown(list(row.index))}; give each value its own name")
    return values


def named_list(rows: Sequence[Any]) -> Sequence[Mapping[Any, Any]] | None:
    """A list of rows as dicts; None where no row names its values, an InputError where only some do."""
    kinds = set(map(type, rows))
    if kinds == _DICTS:
        return rows
    if kinds <= _NAMELESS:
        return None
    named = [has_names(row) for row in rows]
    if not any(named):
        return None
    if not all(named):
        with_names, without = named.index(True), named.index(False)
        raise InputError(
            f"row {with_names} of a list has named columns, and row {without}, a {type(rows[without]).__name__}, has "
            "none; give all rows names, so that no column is taken for another"
        )
    return [named_values(row) for row in rows]
