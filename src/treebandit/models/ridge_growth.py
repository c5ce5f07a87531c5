"""Room for what ridge regressions learn: new arms, new categories, and blocks that grow.

Nothing here changes a model that is in use: arrays are copied, or written where no block is.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from treebandit.core import Columns, Features, Floats, Indices
from treebandit.errors import InputError
from treebandit.models.ridge_arrays import (
    CATEGORIES,
    COORDINATE,
    FACTOR,
    LABEL,
    NO_ARM,
    OWNER,
    RIDGE,
    ROOM,
    SHIFT,
    SIZE,
    SOLUTION,
    START,
    Arrays,
)

#: Regressions that would take more bytes than this are refused.
MOST_BYTES = 1 << 32


def empty(columns: Columns, settings: Floats) -> Arrays:
    """Regressions without rows; settings are the first numbers: λ, and whether rewards are standardised."""
    table, width = column_table(columns)
    numbers = np.zeros(8)
    numbers[: len(settings)] = settings
    arrays = Arrays(
        columns=table,
        slots=np.array([[NO_ARM, 0, 0, 0, 0]], np.int64),
        places=np.full((1, width), -1, np.int32),
        store=np.zeros((2, 0)),
        numbers=numbers,
    )
    return with_room(arrays, {0: known_at_once(columns)})


def known_at_once(columns: Columns) -> int:
    """How many coordinates every block has from the start: level and numbers."""
    return 1 + columns.categories.count(0)


def triangle(size: int) -> int:
    """How many numbers a packed symmetric matrix takes."""
    return size * (size + 1) // 2


def block_size(rooms: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many numbers blocks of these rooms take in each half of the store: a packed matrix and a vector."""
    return rooms * (rooms + 3) // 2


def column_table(columns: Columns) -> tuple[Floats, int]:
    """What the arrays keep of columns before the first row, and how many coordinates these have.

    The coordinates are the level, then numbers, then categories.
    """
    categories = np.asarray(columns.categories, np.int64)
    numbers = categories == 0
    table = np.zeros((8, len(categories)))
    table[CATEGORIES], table[FACTOR] = categories, 1.0
    table[COORDINATE, numbers] = 1 + np.arange(numbers.sum())
    table[COORDINATE, ~numbers] = (
        known_at_once(columns) + np.cumsum(categories[~numbers]) - categories[~numbers]
    )
    return table, known_at_once(columns) + int(categories.sum())


def widened(arrays: Arrays, columns: Columns, trailing: int = 0) -> Arrays:
    """The same with coordinates for categories and columns seen for the first time.

    No block knows new categories yet. New numbers, missing in all rows so far, are known at once like all numbers.
    trailing: so many columns are still the last ones; new ones come before them.
    """
    table, width = column_table(columns)
    places = np.full((len(arrays.places), width), -1, np.int32)
    places[:, 0] = arrays.places[:, 0]
    new_columns = len(columns) - arrays.columns.shape[1]
    same = np.r_[: arrays.columns.shape[1] - trailing, len(columns) - trailing : len(columns)]
    olds, news = arrays.columns[COORDINATE].astype(int), table[COORDINATE, same].astype(int)
    for old, new, count in zip(
        olds, news, np.maximum(arrays.columns[CATEGORIES], 1).astype(int), strict=True
    ):
        places[:, new : new + count] = arrays.places[:, old : old + count]
    table[SHIFT:, same] = arrays.columns[SHIFT:]
    wider = arrays._replace(columns=table, places=places)
    numbers = known_at_once(columns) - (1 + int((arrays.columns[CATEGORIES] == 0).sum()))
    return _with_numbers(wider, numbers) if new_columns and numbers else wider


def _with_numbers(arrays: Arrays, more: int) -> Arrays:
    """The same with places for `more` numbers in every block, behind those it has; they are at the prior."""
    first = 1 + int((arrays.columns[CATEGORIES] == 0).sum())
    before, rooms = first - more, np.where(arrays.slots[:, ROOM] > 0, arrays.slots[:, ROOM] + more, 0)
    slots, places = arrays.slots.copy(), arrays.places.copy()
    slots[:, ROOM], slots[:, START] = rooms, np.cumsum(block_size(rooms)) - block_size(rooms)
    slots[:, SIZE] += np.where(arrays.slots[:, SIZE] > 0, more, 0)
    store = np.zeros((2, _checked_size(arrays, rooms)))
    for slot in np.flatnonzero(rooms):
        places[slot, places[slot] >= before] += more
        places[slot, before:first] = np.arange(before, first)
        kept = np.delete(np.arange(rooms[slot]), np.s_[before:first])
        (*_, old_room, old), (*_, room, new) = arrays.slots[slot].tolist(), slots[slot].tolist()
        for half in range(2):
            start, end = old + triangle(old_room), new + triangle(room)
            matrix = np.zeros((room, room))
            matrix[np.ix_(kept, kept)] = _unpacked(arrays.store[half, old:start], old_room)
            if half == SOLUTION:
                matrix[range(before, first), range(before, first)] = 1.0 / arrays.numbers[RIDGE]
            store[half, new:end] = matrix[np.tril_indices(room)]
            store[half, end + kept] = arrays.store[half, start : start + old_room]
    return arrays._replace(slots=slots, places=places, store=store)


def _unpacked(packed: Floats, size: int) -> Floats:
    """The lower half of a packed symmetric matrix, (size, size)."""
    matrix = np.zeros((size, size))
    matrix[np.tril_indices(size)] = packed
    return matrix


def with_slots(arrays: Arrays, labels: Indices) -> Arrays:
    """The same with a slot for every arm; some more when there are too few."""
    count = len(labels) + 1
    more = count + count // 4 - len(arrays.slots) if count > len(arrays.slots) else 0
    slots = np.pad(arrays.slots, ((0, more), (0, 0)))
    order = np.argsort(labels, kind="stable")
    slots[:, LABEL] = NO_ARM
    slots[: len(labels), LABEL], slots[: len(labels), OWNER] = labels[order], order + 1
    return arrays._replace(slots=slots, places=np.pad(arrays.places, ((0, more), (0, 0)), constant_values=-1))


def needed_rooms(arrays: Arrays, contexts: Features, slots: Indices) -> dict[int, int]:
    """Slots -> how many coordinates their blocks may have once they have learned these rows."""
    coded = np.flatnonzero(arrays.columns[CATEGORIES])
    first, width = 1 + arrays.columns.shape[1] - len(coded), arrays.places.shape[1]
    if len(slots) == 1:
        slot = int(slots[0])
        return {slot: min(max(int(arrays.slots[slot, SIZE]), first) + len(coded), width)}
    each = np.unique(slots)
    needed = dict(zip(each.tolist(), np.maximum(arrays.slots[each, SIZE], first).tolist(), strict=True))
    codes = contexts[:, coded]
    with np.errstate(invalid="ignore"):
        valid = (codes >= 0) & (codes < arrays.columns[CATEGORIES, coded]) & (codes == np.floor(codes))
    coordinates = (np.where(valid, codes, 0) + arrays.columns[COORDINATE, coded]).astype(np.int64)
    new = valid & (arrays.places[slots[:, None], coordinates] < 0)
    pairs = np.unique((slots[:, None] * width + coordinates)[new])
    for slot, count in zip(*np.unique(pairs // width, return_counts=True), strict=True):
        needed[int(slot)] += int(count)
    return needed


def with_room(arrays: Arrays, needed: dict[int, int]) -> Arrays:
    """The same with room for so many coordinates in each of these slots' blocks.

    A block that grows is copied to the end of the store; when that is full, all blocks are copied to a new one.
    """
    width, rooms = arrays.places.shape[1], arrays.slots[:, ROOM].copy()
    grown = [slot for slot, count in needed.items() if count > rooms[slot]]
    if not grown:
        return arrays
    rooms[grown] = [min(needed[slot] * 3 // 2, width) for slot in grown]
    end = int((arrays.slots[:, START] + block_size(arrays.slots[:, ROOM])).max())
    if end + block_size(rooms[grown]).sum() > arrays.store.shape[1]:
        return repacked(arrays, rooms, spare=True)
    slots = arrays.slots.copy()
    slots[grown, ROOM] = rooms[grown]
    slots[grown, START] = end + np.cumsum(block_size(rooms[grown])) - block_size(rooms[grown])
    return _copied(arrays, slots, arrays.store, grown)


def repacked(arrays: Arrays, rooms: NDArray[np.int64], *, spare: bool = False) -> Arrays:
    """The same in a new store, with this room for each block, one after the other; and half as much spare room."""
    sizes = block_size(rooms)
    size = _checked_size(arrays, rooms, 1.5 if spare else 1.0)
    slots = arrays.slots.copy()
    slots[:, ROOM], slots[:, START] = rooms, np.cumsum(sizes) - sizes
    return _copied(arrays, slots, np.zeros((2, size)), np.flatnonzero(rooms).tolist())


def _checked_size(arrays: Arrays, rooms: NDArray[np.int64], spare: float = 1.0) -> int:
    """How long a store for blocks of these rooms is, times `spare`; an InputError where that is too much."""
    size = int(int(block_size(rooms).sum()) * spare)
    total = 16 * size + arrays.places.nbytes
    if total > MOST_BYTES:
        raise InputError(
            f"regressions of {np.count_nonzero(rooms) - 1} arms with up to {rooms.max()} features would take "
            f"{total / 2**20:,.0f} MiB, more than the {MOST_BYTES / 2**20:,.0f} allowed; give fewer columns"
        )
    return size


def _copied(arrays: Arrays, slots: NDArray[np.int64], store: Floats, moved: list[int]) -> Arrays:
    """The same with these blocks copied to where new `slots` have them; what they do not know yet is at the prior."""
    first, places = 1 + int((arrays.columns[CATEGORIES] == 0).sum()), arrays.places
    for slot in moved:
        (_, _, size, old_room, old), (_, _, _, room, new) = arrays.slots[slot].tolist(), slots[slot].tolist()
        store[:, new : new + triangle(room) + room] = 0.0
        diagonal = np.arange(room)
        store[SOLUTION, new + diagonal * (diagonal + 3) // 2] = 1.0 / arrays.numbers[RIDGE]
        for skip, count in ((0, triangle(size)), (1, size)):
            source, target = old + skip * triangle(old_room), new + skip * triangle(room)
            store[:, target : target + count] = arrays.store[:, source : source + count]
        if not size:
            places = places.copy() if places is arrays.places else places
            places[slot, :first], slots[slot, SIZE] = np.arange(first), first
    return arrays._replace(slots=slots, places=places, store=store)
