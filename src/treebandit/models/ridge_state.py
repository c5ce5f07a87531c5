"""Ridge regressions as plain arrays to save, and back; all is checked, since compiled loops trust what they get."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from treebandit import schema
from treebandit.core import Columns, Floats, Indices
from treebandit.errors import SavedFileError
from treebandit.models.ridge_arrays import (
    COUNT,
    FACTOR,
    RENEWED,
    REWARD_SQUARES,
    REWARDS,
    SHIFT,
    SIZE,
    SQUARES,
    VERSION,
    Arrays,
)
from treebandit.models.ridge_growth import block_size, column_table, known_at_once, repacked, with_arms


def state_of(arrays: Arrays, columns: Columns, labels: Indices) -> dict[str, Any]:
    """Regressions without spare capacity."""
    sizes = arrays.blocks[:, SIZE]
    return {
        "columns": [list(columns.categories), list(columns.names)],
        "scales": arrays.columns[SHIFT:],
        "labels": labels,
        "sizes": sizes[: len(labels) + 1].copy(),
        "places": arrays.places[: len(labels) + 1],
        "store": repacked(arrays, sizes).store,
        "numbers": arrays.numbers,
    }


def arrays_of(state: dict[str, Any], settings: Floats) -> tuple[Arrays, Columns, Indices]:
    """What `state_of` described: arrays, columns and arms; SavedFileError where anything does not fit.

    settings: how the numbers of the arrays must begin.
    """
    categories, names = schema.items(state, "columns", most=2)
    columns = schema.columns(names, categories)
    table, width = column_table(columns)
    first = known_at_once(columns)
    labels = schema.labels(state, "labels")
    sizes = schema.array(state, "sizes", np.int64, (len(labels) + 1,), least=first, most=width)
    places = schema.array(state, "places", np.int32, (len(sizes), width))
    _require(_are_places(places, sizes, first), "coordinates have no place of their own")
    store = schema.array(state, "store", np.float64, (2, int(block_size(sizes).sum())))
    numbers = schema.array(state, "numbers", np.float64, (8,))
    _require(np.array_equal(numbers[: len(settings)], settings), "settings are not those of the agent")
    counts = numbers[[REWARDS, VERSION, RENEWED]]
    _require(
        (counts >= 0).all() and (counts < schema.MOST).all() and numbers[REWARD_SQUARES] >= 0,
        "counts are out of range",
    )
    table[SHIFT:] = schema.array(state, "scales", np.float64, (len(table) - SHIFT, len(columns)))
    _require((table[FACTOR] > 0).all() and (table[[COUNT, SQUARES]] >= 0).all(), "scales are out of range")
    starts = np.cumsum(block_size(sizes)) - block_size(sizes)
    blocks = np.column_stack([np.zeros((len(sizes), 2), np.int64), sizes, sizes, starts])
    arrays = Arrays(table, np.ascontiguousarray(blocks), places.copy(), store.copy(), numbers.copy())
    return with_arms(arrays, labels), columns, labels


def _are_places(places: NDArray[np.int32], sizes: NDArray[np.int64], first: int) -> bool:
    """Whether each block has its coordinates at 0, 1, ..., intercept and numbers first and in order."""
    width = places.shape[1]
    wanted = np.maximum(np.arange(width) - (width - sizes[:, None]), -1)
    begins = np.where(sizes[:, None] > 0, np.arange(first), -1)
    return bool((np.sort(places, axis=1) == wanted).all() and (places[:, :first] == begins).all())


def _require(fits: bool | np.bool_, problem: str) -> None:
    if not fits:
        raise SavedFileError(f"in the saved ridge regressions {problem}; save the agent again")
