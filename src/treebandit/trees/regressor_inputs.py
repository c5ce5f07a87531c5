"""Rows and targets of the regressor: what scikit-learn would read as other numbers than were meant is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from treebandit.core import Columns
from treebandit.errors import InputError
from treebandit.features.frames import is_frame, refuse_table, with_numbers
from treebandit.features.values import array_of, numbers_of, shown

#: What scikit-learn's `validate_data` is to make of rows: digits that 32 bits do not hold are still needed.
AS_NUMBERS: dict[str, Any] = {"dtype": [np.float64, np.float32], "ensure_all_finite": "allow-nan"}

_KINDS = {"M": "dates", "m": "time spans", "U": "text", "S": "bytes", "V": "records"}
_NO_NUMBERS = (np.datetime64, np.timedelta64, str, bytes)


def table_of(X: Any) -> Any:
    """Rows for scikit-learn to validate: a frame of numbers, with its names, anything else as an array."""
    if hasattr(X, "toarray") and hasattr(X, "nnz"):
        raise InputError(
            f"X is a sparse {type(X).__name__}; a split needs to know a missing value from a 0, so give a dense array: "
            "X.toarray()"
        )
    if is_frame(X):
        return with_numbers(X)
    refuse_table(X)
    array = array_of(X, "rows of X")
    if array.dtype.kind == "O":
        kinds = {
            _KINDS[np.asarray(value).dtype.kind] for value in array.ravel() if isinstance(value, _NO_NUMBERS)
        }
    else:
        kinds = {_KINDS[array.dtype.kind]} if array.dtype.kind in _KINDS else set()
    if kinds:
        raise InputError(
            f"X is {shown(X)} ({kinds.pop()}), which has no one meaning as numbers; give numbers, such as days since "
            "some day"
        )
    return array


def targets_of(y: Any) -> NDArray[Any] | None:
    """Targets as floats, missing ones as NaN, which scikit-learn then refuses; None where there are none."""
    if y is None:
        return None
    array = array_of(y, "targets")
    # scikit-learn has words of its own for complex numbers, which its checks ask for.
    return array if array.dtype.kind == "c" else numbers_of(array, "targets", "give one number per row")


def columns_of(width: int, names: Any) -> Columns:
    """What (width,) columns of numbers are called, where they have names."""
    return Columns((0,) * width, () if names is None else tuple(map(str, names)))
