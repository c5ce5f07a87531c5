"""Checks on what a saved file holds: whatever is not as it was saved raises a SavedFileError that names it.

Files may be damaged or forged, and compiled loops trust their arrays; so each value is checked once, when it is read.
"""

from __future__ import annotations

import math
import reprlib
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from treebandit.core import Columns
from treebandit.errors import SavedFileError

#: Largest whole number by default: rows, rounds, steps.
MOST = 1 << 53
_LARGEST = sys.float_info.max
#: One-hot columns of one table, at most.
MOST_COLUMNS = 1 << 20
#: Whole numbers up to here have a 32-bit float of their own.
LARGEST_LABEL = 1 << 24

Shape = tuple[int | None, ...]


def value(state: Mapping[str, Any], name: str) -> Any:
    """What is saved under a name."""
    if not isinstance(state, Mapping):
        raise SavedFileError(f"{reprlib.repr(state)} where a table with {name!r} belongs")
    if name not in state:
        raise SavedFileError(f"{name!r} is missing")
    return state[name]


def part(state: Mapping[str, Any], name: str) -> dict[str, Any]:
    """A table within the state."""
    found = value(state, name)
    if not isinstance(found, dict):
        raise refused(name, found, "a table")
    return found


def optional(state: Mapping[str, Any], name: str) -> dict[str, Any] | None:
    """A table within the state, or None where there is none yet."""
    return None if value(state, name) is None else part(state, name)


def items(state: Mapping[str, Any], name: str, *, most: int = MOST) -> list[Any]:
    """A list of at most so many values, which the caller checks."""
    found = value(state, name)
    if not isinstance(found, list) or len(found) > most:
        raise refused(name, found, f"a list of at most {most} values")
    return found


def whole(state: Mapping[str, Any], name: str, *, least: int = 0, most: int = MOST) -> int:
    """A whole number in a range, its ends included."""
    found = value(state, name)
    if isinstance(found, bool) or not isinstance(found, int) or not least <= found <= most:
        raise refused(name, found, f"a whole number from {least} to {most}")
    return found


def number(state: Mapping[str, Any], name: str, *, least: float = -math.inf, most: float = math.inf) -> float:
    """A finite number in a range, its ends included."""
    found = value(state, name)
    if isinstance(found, bool) or not isinstance(found, int | float):
        raise refused(name, found, "a number")
    if not max(least, -_LARGEST) <= found <= min(most, _LARGEST):
        raise refused(name, found, f"a finite number from {least} to {most}")
    return float(found)


def flag(state: Mapping[str, Any], name: str) -> bool:
    """True or false."""
    found = value(state, name)
    if not isinstance(found, bool):
        raise refused(name, found, "true or false")
    return found


def array(
    state: Mapping[str, Any],
    name: str,
    dtype: DTypeLike,
    shape: Shape,
    *,
    least: float | None = None,
    most: float | None = None,
    nan: bool = False,
) -> NDArray[Any]:
    """An array of this type and shape (None for any length), C-contiguous and writable.

    Numbers have to be finite, but for NaN where `nan` allows it, and from `least` to `most`.
    """
    found = value(state, name)
    wanted = np.dtype(dtype)
    if not isinstance(found, np.ndarray) or found.dtype != wanted or not _fits(found.shape, shape):
        raise refused(name, found, f"an array of {wanted} and shape {_words(shape)}")
    checked = np.require(found, requirements=["C", "W", "A"])
    if checked.size and wanted.kind in "fiu":
        check = checked[~np.isnan(checked)] if nan else checked
        low, high = (check.min(), check.max()) if check.size else (0, 0)
        if wanted.kind == "f" and not (np.isfinite(low) and np.isfinite(high)):
            raise SavedFileError(f"{name} holds numbers that are not finite")
        if (least is not None and low < least) or (most is not None and high > most):
            raise SavedFileError(f"{name} holds numbers from {low} to {high}; expected {least} to {most}")
    return checked


def labels(state: Mapping[str, Any], name: str) -> NDArray[np.intp]:
    """Labels of arms as whole numbers, none twice."""
    found = array(state, name, np.intp, (None,), least=-LARGEST_LABEL, most=LARGEST_LABEL)
    if len(np.unique(found)) < len(found):
        raise SavedFileError(f"{name} holds a label twice")
    return found


def columns_state(columns: Columns) -> dict[str, Any]:
    """What the columns of a table are, as JSON values that `columns_in` reads."""
    return {"categories": list(columns.categories), "names": list(columns.names)}


def columns_in(state: Mapping[str, Any]) -> Columns:
    """What `columns_state` described."""
    return columns(value(state, "names"), value(state, "categories"))


def columns(names: Any, categories: Any) -> Columns:
    """What the columns of a table are."""
    if not isinstance(categories, list | tuple) or not isinstance(names, list | tuple):
        raise refused("columns", [categories, names], "two lists")
    for count in categories:
        if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count <= MOST_COLUMNS:
            raise refused("categories of a column", count, f"a whole number from 0 to {MOST_COLUMNS}")
    if sum(max(count, 1) for count in categories) > MOST_COLUMNS:
        raise SavedFileError(f"more than {MOST_COLUMNS} columns and categories in all")
    if not all(isinstance(name, str) for name in names) or len(names) not in (0, len(categories)):
        raise refused("names of columns", names, f"{len(categories)} texts, or none")
    return Columns(tuple(categories), tuple(names))


def random_state(state: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The state of numpy's PCG64, the generator of every agent."""
    found, inner = part(state, name), part(part(state, name), "state")
    if value(found, "bit_generator") != "PCG64":
        raise refused("bit_generator", found["bit_generator"], "PCG64")
    words = {each: whole(inner, each, most=(1 << 128) - 1) for each in ("state", "inc")}
    if not words["inc"] & 1:  # such a generator may draw the same number for ever
        raise refused("inc", words["inc"], "an odd number")
    rest = {"has_uint32": whole(found, "has_uint32", most=1)}
    rest["uinteger"] = whole(found, "uinteger", most=(1 << 32) - 1)
    return {"bit_generator": "PCG64", "state": words, **rest}


def refused(name: str, found: Any, expected: str) -> SavedFileError:
    """The error for a value that is not what was saved."""
    what = f"an array of {found.dtype} and shape {found.shape}" if isinstance(found, np.ndarray) else None
    return SavedFileError(f"{name} is {what or reprlib.repr(found)}; expected {expected}")


def _fits(shape: tuple[int, ...], wanted: Shape) -> bool:
    return len(shape) == len(wanted) and all(w is None or s == w for s, w in zip(shape, wanted, strict=True))


def _words(shape: Shape) -> str:
    inner = ", ".join("any" if length is None else str(length) for length in shape)
    return f"({inner},)" if len(shape) == 1 else f"({inner})"


def plain(value: Any) -> Any:
    """Random states of some generators hold arrays and numpy numbers; JSON does not."""
    if isinstance(value, dict):
        return {key: plain(member) for key, member in value.items()}
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value
