"""Flat rows of dicts -> columns: which names there are, what a row lacks, and keys that hold something else now."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from treebandit.errors import InputError, ShapeError
from treebandit.features.columns import GivenColumn
from treebandit.features.flatten import EMPTY, TEXTS, Flat
from treebandit.features.values import is_plain, plain_value, shown

_ABSENT = object()


def shapes_after(known: Mapping[str, str], columns: Collection[str], flats: list[Flat]) -> dict[str, str]:
    """What keys hold where that is no single value, these rows included; an InputError where one has changed.

    known: the shapes before. columns: names of keys that hold single values.
    """
    shapes = dict(known)
    for flat in flats:
        for key, shape in flat.shapes.items():
            if key in columns:
                raise InputError(f"key {key!r} held single values and now holds {shape}; give a single value")
            if shapes.get(key, shape) != shape and shape != EMPTY:
                raise InputError(f"key {key!r} held {shapes[key]} and now holds {shape}; give {shapes[key]}")
            if shape != EMPTY:
                shapes[key] = shape
    for flat in flats:
        for name, value in flat.values.items():
            if name in shapes and not _is_missing(value):
                raise InputError(
                    f"key {name!r} held {shapes[name]} and now holds {shown(value)}; give {shapes[name]}"
                )
    return shapes


def read_dicts(
    flats: list[Flat], columns: Collection[str], shapes: Mapping[str, str], *, new_columns: bool
) -> list[GivenColumn]:
    """The columns of these rows: those known, in their order, then new ones.

    An item that a list does not hold is 0, and all columns of a list or object that is missing are missing. With
    `new_columns`, whatever else a row lacks is missing, and new columns come row by row, those of one row by name;
    otherwise all rows have the columns known, or those of the first row.
    """
    lists = [key for key, shape in shapes.items() if shape == TEXTS]
    rows = [
        {name: value for name, value in flat.values.items() if name not in shapes}  # an object may be missing
        for flat in flats
    ]
    if new_columns:
        found = [name for row in rows for name in sorted(row) if row[name] is not None]
        names = list(dict.fromkeys([*columns, *found]))
    else:
        later = _below_missing(flats[0], shapes)
        items = [name for row in rows for name in row if _list_of(name, lists) or name.startswith(later)]
        names = list(columns) or list(dict.fromkeys([*rows[0], *items]))
    list_of = {name: _list_of(name, lists) for name in names}
    cells = []
    for given, flat in zip(rows, flats, strict=True):
        below = _below_missing(flat, shapes)
        row = dict.fromkeys(name for name in names if name.startswith(below)) | given if below else given
        filled = [row.get(name, 0.0 if list_of[name] in flat.shapes else _ABSENT) for name in names]
        if not new_columns:
            _refuse(
                [name for name, value in zip(names, filled, strict=True) if value is _ABSENT],
                [name for name in row if name not in list_of],
                names,
            )
        cells.append([None if value is _ABSENT else value for value in filled])
    return [
        GivenColumn(name, list(values)) for name, values in zip(names, zip(*cells, strict=True), strict=True)
    ]


def _below_missing(flat: Flat, shapes: Mapping[str, str]) -> tuple[str, ...]:
    """How the columns of each list or object begin that is missing in a row."""
    missing = [name for name in flat.values if name in shapes]
    # Without values nothing tells how long a list of them is.
    missing += [
        key for key, shape in flat.shapes.items() if shape == EMPTY and shapes.get(key, TEXTS) != TEXTS
    ]
    return tuple(f"{key}{mark}" for key in missing for mark in ".=")


def _is_missing(value: Any) -> bool:
    return is_plain(type(value)) and plain_value(value) is None


def _list_of(name: str, lists: list[str]) -> str | None:
    """The list of text whose item this column is about."""
    return next((key for key in lists if name.startswith(f"{key}=")), None)


def order(expected: list[str], given: list[str]) -> list[int]:
    """Where among the names given each of those expected is."""
    if given == expected:
        return list(range(len(given)))
    places = {name: place for place, name in enumerate(given)}
    missing, extra = [name for name in expected if name not in places], sorted(places.keys() - set(expected))
    if len(given) > len(places):
        raise ShapeError(f"the columns are {given}; give each its own name")
    _refuse(missing, extra, expected)
    return [places[name] for name in expected]


def _refuse(missing: list[str], extra: list[str], expected: list[str]) -> None:
    """Raise where rows lack columns or have more."""
    wrong = [f"the rows lack {_listed(missing)}"] if missing else []
    wrong += [f"{_listed(extra)} is unexpected in the rows"] if extra else []
    if wrong:
        raise ShapeError(f"{', and '.join(wrong)}; give the columns learned first: {_listed(expected)}")


def _listed(names: list[str]) -> str:
    return ", ".join(map(repr, names))
