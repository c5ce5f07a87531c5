"""Values of columns to show: as they were given, or as far as 32 bits tell of rows that were learned."""

from __future__ import annotations

from typing import Any

import numpy as np

from treebandit.core import Candidates, Features, Floats
from treebandit.features.flatten import EMPTY, TEXTS, Flat, flattened
from treebandit.features.frames import as_dicts, is_frame
from treebandit.features.inputs import Inputs
from treebandit.features.values import array_of, is_plain, plain_value


def given_values(contexts: Any, rows: Candidates, inputs: Inputs) -> list[list[Any]]:
    """Of each candidate the value of each column, as it was given in contexts; None where it is missing."""
    if isinstance(contexts, Candidates):
        return _in_words(rows.contexts.astype(np.float64), inputs)
    if contexts is None:
        found = [[None] * len(rows.columns)]
    elif (named := inputs.named_rows(contexts)) is not None:
        found = [_by_name(flat, rows.columns.names) for flat in _flat_rows(named)]
    else:
        # As objects, whole numbers of a list with floats in it stay whole.
        listed = isinstance(contexts, list | tuple)
        array = np.array(contexts, object) if listed else array_of(contexts, "contexts")
        found = np.atleast_2d(array).tolist()
    found = [[_given(value) for value in row] for row in found]
    return found if len(found) == len(rows) else found * len(rows)


def learned_values(features: Features, inputs: Inputs) -> list[list[Any]]:
    """Of (n, d) learned features what was given: categories by name, numbers as the shortest that 32 bits allow."""
    return _in_words(features.astype(np.str_).astype(np.float64), inputs)


def _in_words(numbers: Floats, inputs: Inputs) -> list[list[Any]]:
    """The rows of (n, d) features in the units that were given, with categories by name.

    None where one is missing, or its code is none that was learned.
    """
    if inputs.units is not None:
        numbers = inputs.units.original(numbers)
    columns: list[list[Any]] = numbers.T.tolist()
    categories = {} if inputs.encoder is None else inputs.encoder.categories
    names = () if inputs.columns is None else inputs.columns.names
    for column, name in zip(columns, names, strict=False):
        if name in categories:
            known = dict(enumerate(categories[name]))
            column[:] = [known.get(code) for code in column]
    return [[_given(value) for value in row] for row in zip(*columns, strict=True)]


def _flat_rows(rows: Any) -> list[Flat]:
    """The rows of a frame, or dicts, by name of column."""
    if is_frame(rows):
        return [Flat({str(name): value for name, value in row.items()}, {}) for row in as_dicts(rows)]
    return [flattened(row) for row in rows]


def _by_name(flat: Flat, names: tuple[str, ...]) -> list[Any]:
    """The value of each column; an item that a list does not hold is 0."""
    lists = tuple(f"{key}=" for key, shape in flat.shapes.items() if shape in (TEXTS, EMPTY))
    return [flat.values.get(name, 0.0 if name.startswith(lists) else None) for name in names]


def _given(value: Any) -> Any:
    """A value without its numpy type; None where it is missing."""
    if is_plain(type(value)) and plain_value(value) is None:
        return None
    return value.item() if isinstance(value, np.generic) else value
