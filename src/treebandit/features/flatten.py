"""Nested rows (JSON objects with objects and lists in them) -> one flat row of named values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from treebandit.errors import InputError, ShapeError
from treebandit.features.values import shown

OBJECT, TEXTS, VALUES, EMPTY = "an object", "a list of text", "a list of values", "an empty list"
SHAPES = (OBJECT, TEXTS, VALUES)
#: Objects within objects, at most: deeper ones hold themselves, or are an attack.
_DEEPEST = 32


class Flat(NamedTuple):
    """A flat row.

    values: name -> value, None where it is missing. shapes: for each key that held an object or a list, by its full
    name, which of them.
    """

    values: dict[str, Any]
    shapes: dict[str, str]


def flattened(row: Mapping[Any, Any]) -> Flat:
    """A row as one flat table.

    An object's members are named `key.member`. A list of text gives `key=item`, 1 for each item in it: the order of
    items does not count. Any other list gives `key.0`, `key.1` and so on, whose values may be objects and lists again.
    Numbers, text, booleans and None stay as they are. Two keys must not give the same name.
    """
    flat = Flat({}, {})
    _add(flat, row, "", 0)
    return flat


def _add(flat: Flat, row: Mapping[Any, Any], prefix: str, depth: int) -> None:
    if depth > _DEEPEST:
        raise InputError(f"{shown(prefix[:-1])} holds objects more than {_DEEPEST} deep; give flatter rows")
    for key, value in row.items():
        if not isinstance(key, str | int):
            raise InputError(f"a column is named {shown(key)}; name columns with strings")
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            _put(flat, flat.shapes, name, OBJECT)
            _add(flat, value, f"{name}.", depth + 1)
        elif isinstance(value, list | tuple) or type(value) is np.ndarray:
            _add_list(flat, name, value.tolist() if isinstance(value, np.ndarray) else value, depth)
        else:
            _put(flat, flat.values, name, value)


def _add_list(flat: Flat, name: str, items: Any, depth: int) -> None:
    if not isinstance(items, list | tuple):  # an array without dimensions
        _put(flat, flat.values, name, items)
        return
    texts = [item for item in items if isinstance(item, str)]
    others = [item for item in items if item is not None and not isinstance(item, str)]
    if texts and others:
        raise InputError(
            f"the list {name!r} holds text ({shown(texts[0])}) and other values ({shown(others[0])}); "
            "give all of one type"
        )
    _put(flat, flat.shapes, name, TEXTS if texts else VALUES if others else EMPTY)
    if texts:
        for item in dict.fromkeys(texts):
            _put(flat, flat.values, f"{name}={item}", 1.0)
    elif others:
        _add(flat, dict(enumerate(items)), f"{name}.", depth + 1)


def _put(flat: Flat, members: dict[str, Any], name: str, value: Any) -> None:
    """Put something under a new name into the values or the shapes of a flat row."""
    if name in flat.values or name in flat.shapes:
        raise ShapeError(f"two keys of a row give the column {name!r}; give each its own name")
    members[name] = value
