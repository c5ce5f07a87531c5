"""Ridge regressions as plain arrays to save, and back; all is checked, since compiled loops trust what they get."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from treebandit.core import Columns, Floats, Indices
from treebandit.errors import SavedFileError
from treebandit.models.ridge_arrays import (
    COUNT,
    FACTOR,
    NO_ARM,
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

#: Counts and versions are whole numbers that 64-bit floats hold exactly.
_LARGEST = 2.0**53


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
    columns = _columns(state["columns"])
    table, width = column_table(columns)
    first = known_at_once(columns)
    labels = _array(state, "labels", np.int64, (None,))
    _require(len(np.unique(labels)) == len(labels) and (labels < NO_ARM).all(), "arms are not all different")
    sizes = _array(state, "sizes", np.int64, (len(labels) + 1,))
    _require((sizes >= first).all() and (sizes <= width).all(), "sizes are out of range")
    places = _array(state, "places", np.int32, (len(sizes), width))
    _require(_are_places(places, sizes, first), "coordinates have no place of their own")
    store = _array(state, "store", np.float64, (2, int(block_size(sizes).sum())))
    numbers = _array(state, "numbers", np.float64, (8,))
    _require(np.array_equal(numbers[: len(settings)], settings), "settings are not those of the agent")
    counts = numbers[[REWARDS, VERSION, RENEWED]]
    _require(
        (counts >= 0).all() and (counts < _LARGEST).all() and numbers[REWARD_SQUARES] >= 0,
        "counts are out of range",
    )
    table[SHIFT:] = _array(state, "scales", np.float64, (len(table) - SHIFT, len(columns)))
    _require((table[FACTOR] > 0).all() and (table[[COUNT, SQUARES]] >= 0).all(), "scales are out of range")
    starts = np.cumsum(block_size(sizes)) - block_size(sizes)
    blocks = np.column_stack([np.zeros((len(sizes), 2), np.int64), sizes, sizes, starts])
    arrays = Arrays(table, np.ascontiguousarray(blocks), places, store, numbers)
    return with_arms(arrays, labels), columns, labels


def _columns(saved: Any) -> Columns:
    try:
        categories, names = saved
        columns = Columns(tuple(map(int, categories)), tuple(map(str, names)))
    except (TypeError, ValueError) as error:
        raise SavedFileError(
            f"columns {saved!r:.80} of a ridge cannot be read; save the agent again"
        ) from error
    _require(all(0 <= count <= 2**24 for count in columns.categories), "categories are out of range")
    _require(len(columns.names) in (0, len(columns)), "there are not as many names as columns")
    return columns


def _array(state: dict[str, Any], name: str, kind: Any, shape: tuple[int | None, ...]) -> NDArray[Any]:
    """A copy of a saved array of this type and shape, all of it finite."""
    array = state[name]
    fits = isinstance(array, np.ndarray) and array.dtype == kind and array.ndim == len(shape)
    fits = fits and all(want in (None, have) for want, have in zip(shape, array.shape, strict=True))
    _require(fits, f"{name} is not {np.dtype(kind)} of shape {shape}")
    _require(np.isfinite(array).all(), f"{name} holds numbers that are not finite")
    return np.array(array, order="C")


def _are_places(places: NDArray[np.int32], sizes: NDArray[np.int64], first: int) -> bool:
    """Whether each block has its coordinates at 0, 1, ..., level and numbers first and in order."""
    width = places.shape[1]
    wanted = np.maximum(np.arange(width) - (width - sizes[:, None]), -1)
    begins = np.where(sizes[:, None] > 0, np.arange(first), -1)
    return bool((np.sort(places, axis=1) == wanted).all() and (places[:, :first] == begins).all())


def _require(fits: bool | np.bool_, problem: str) -> None:
    if not fits:
        raise SavedFileError(f"in the saved ridge regressions {problem}; save the agent again")
