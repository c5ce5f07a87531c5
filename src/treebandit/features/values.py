"""Values as a person gives them: what is a number, what is a category, what is missing, and what is neither."""

from __future__ import annotations

import math
import reprlib
from decimal import Decimal
from fractions import Fraction
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treebandit.errors import InputError

Category = str | bool | int | float

#: The largest number that 32 bits hold.
LARGEST = float(np.finfo(np.float32).max)

_PLAIN = (str, bool, np.bool_, Integral, float, np.floating, Decimal, Fraction)
_KINDS = {"U": "text", "S": "bytes", "M": "dates", "m": "time spans", "c": "complex numbers", "V": "records"}
_MISSING = ("NoneType", "NAType", "NaTType")


def shown(value: Any) -> str:
    """A value as a message shows it: short, and without failing."""
    try:
        return reprlib.repr(value)
    except Exception:
        return f"<{type(value).__name__}>"


def is_plain(kind: type) -> bool:
    """Whether values of this type are numbers, text, booleans or missing."""
    # numpy counts spans of time among the whole numbers.
    plain = issubclass(kind, _PLAIN) and not issubclass(kind, np.timedelta64)
    return plain or kind.__name__ in _MISSING


def plain_value(value: Any) -> Category | None:
    """A value of a plain type as a str, bool, int or float (never a whole one); None where it is missing."""
    if type(value).__name__ in _MISSING:
        return None
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, Integral):
        return int(value)
    number = float(value)
    return None if math.isnan(number) else int(number) if number.is_integer() else number


def plain_number(value: Any) -> float | None:
    """A value as a float, NaN where it is missing, infinite where it is too large; None where it is no number."""
    if not is_plain(type(value)) or isinstance(value, str):
        return None
    plain = plain_value(value)
    try:
        return math.nan if plain is None else float(plain)
    except OverflowError:
        return math.inf


def array_of(given: Any, what: str, error: type[InputError] = InputError) -> NDArray[Any]:
    """Anything like an array as one, unless it has a mask, is sparse, or its rows differ in length."""
    kind = type(given)
    if kind is np.ndarray:
        array: NDArray[Any] = given
        return array
    if kind is float:
        return np.array(given)
    if kind.__module__.startswith("scipy.sparse"):
        raise error(
            f"{what} are a sparse {kind.__name__}; rows are kept as dense 32-bit numbers, so give .toarray() of it"
        )
    parts = given if isinstance(given, list | tuple) else (given,)
    if any(isinstance(part, np.ma.MaskedArray) and np.ma.is_masked(part) for part in parts):
        raise error(
            f"{what} have masked values, which arrays lose; give .filled(np.nan), or leave those rows out"
        )
    try:
        return np.asarray(given)
    except MemoryError:
        raise
    except Exception as problem:
        raise error(
            f"{what} are {shown(given)}, which is no array ({problem}); give rows of one length"
        ) from problem


def numbers_of(given: Any, what: str, advice: str) -> NDArray[Any]:
    """Anything like an array of real numbers as one of floats, missing values as NaN.

    what: 'contexts' or 'rewards'; advice: what to give instead of what cannot be used.
    """
    array = array_of(given, what)
    kind = array.dtype.kind
    if kind == "f":
        return array if array.dtype.itemsize in (4, 8) else array.astype(np.float64)
    if kind in "iub":
        return array.astype(np.float64)
    if kind != "O" or (array.ndim == 0 and not is_plain(type(array.item()))):
        name = _KINDS.get(kind, type(given).__name__)
        raise InputError(f"{what} are {shown(given)} ({name}), which cannot be read as numbers; {advice}")
    numbers = [plain_number(value) for value in array.ravel()]
    if None in numbers:
        value = array.ravel()[numbers.index(None)]
        raise InputError(
            f"{what} hold {shown(value)} ({type(value).__name__}), which cannot be read as a number; {advice}"
        )
    return np.array(numbers, np.float64).reshape(array.shape)
