"""Memory for what ridge regressions learn: new arms, new categories, blocks that grow; and arrays to save and to load.

Nothing here changes a model that is in use: arrays are copied, or written where no block is. What is loaded is checked,
since compiled loops trust what they get.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from treebandit import schema
from treebandit.core import Columns, Features, Floats, Indices
from treebandit.errors import InputError, SavedFileError
from treebandit.models.ridge_arrays import (
    ANEW,
    CAPACITY,
    CATEGORIES,
    COORDINATE,
    COUNT,
    FACTOR,
    LABEL,
    LATER,
    LATER_SQUARES,
    NO_ARM,
    OWNER,
    RENEWED,
    REWARD_SQUARES,
    REWARDS,
    RIDGE,
    SHIFT,
    SIZE,
    SOLUTION,
    SQUARES,
    START,
    SUMS,
    VERSION,
    Arrays,
)

#: Regressions that would take more bytes than this are refused.
MOST_BYTES = 1 << 32


def empty(columns: Columns, settings: Floats) -> Arrays:
    """Regressions without rows and as yet without capacity; settings are the first numbers: λ, and whether rewards are
    standardised.
    """
    table, width = _column_table(columns)
    numbers = np.zeros(8)
    numbers[: len(settings)] = settings
    return Arrays(
        columns=table,
        blocks=np.array([[NO_ARM, 0, 0, 0, 0]], np.int64),
        places=np.full((1, width), -1, np.int32),
        store=np.zeros((2, 0)),
        numbers=numbers,
    )


def _known_at_once(table: Floats) -> int:
    """How many coordinates every block has from the start: intercept and numbers."""
    return 1 + int((table[CATEGORIES] == 0).sum())


def triangle(size: int) -> int:
    """How many numbers a packed symmetric matrix takes."""
    return size * (size + 1) // 2


def _block_size(capacities: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many numbers blocks of these capacities take in each half of the store: a packed matrix and a vector."""
    return capacities * (capacities + 3) // 2


def _starts(capacities: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where blocks of these capacities start, one after the other."""
    return np.cumsum(_block_size(capacities)) - _block_size(capacities)


def _column_table(columns: Columns) -> tuple[Floats, int]:
    """What the arrays keep of columns before the first row, and how many coordinates these have.

    The coordinates are the intercept, then numbers, then categories.
    """
    categories = np.asarray(columns.categories, np.int64)
    numbers = categories == 0
    table = np.zeros((ANEW + 1, len(categories)))
    table[CATEGORIES], table[FACTOR] = categories, 1.0
    first = _known_at_once(table)
    table[COORDINATE, numbers] = np.arange(1, first)
    table[COORDINATE, ~numbers] = first + np.cumsum(categories[~numbers]) - categories[~numbers]
    return table, first + int(categories.sum())


def widened(arrays: Arrays, columns: Columns, trailing: int = 0) -> Arrays:
    """The same with coordinates for categories and columns seen for the first time.

    No block knows new categories yet. New numbers, missing in all rows so far, are known at once like all numbers.
    trailing: so many columns are still the last ones; new ones come before them.
    """
    table, width = _column_table(columns)
    places = np.full((len(arrays.places), width), -1, np.int32)
    places[:, 0] = arrays.places[:, 0]
    same = np.r_[: arrays.columns.shape[1] - trailing, len(columns) - trailing : len(columns)]
    olds, news = arrays.columns[COORDINATE].astype(int), table[COORDINATE, same].astype(int)
    counts = np.maximum(arrays.columns[CATEGORIES], 1).astype(int)
    for old, new, count in zip(olds, news, counts, strict=True):
        places[:, new : new + count] = arrays.places[:, old : old + count]
    table[SHIFT:, same] = arrays.columns[SHIFT:]
    wider = arrays._replace(columns=table, places=places)
    numbers = _known_at_once(table) - _known_at_once(arrays.columns)
    return _with_numbers(wider, numbers) if numbers else wider


def _with_numbers(arrays: Arrays, more: int) -> Arrays:
    """The same with places for `more` numbers in every block, behind those it has; they are at the prior."""
    first = _known_at_once(arrays.columns)
    before, capacities = first - more, arrays.blocks[:, CAPACITY] + more * (arrays.blocks[:, CAPACITY] > 0)
    blocks, places = arrays.blocks.copy(), arrays.places.copy()
    blocks[:, CAPACITY], blocks[:, START] = capacities, _starts(capacities)
    blocks[:, SIZE] += more * (arrays.blocks[:, SIZE] > 0)
    store = np.zeros((2, _checked_size(arrays, capacities)))
    for block in np.flatnonzero(capacities):
        places[block, places[block] >= before] += more
        places[block, before:first] = np.arange(before, first)
        kept = np.delete(np.arange(capacities[block]), np.s_[before:first])
        (*_, old_capacity, old), (*_, capacity, new) = arrays.blocks[block].tolist(), blocks[block].tolist()
        for half in range(2):
            start, end = old + triangle(old_capacity), new + triangle(capacity)
            lower, matrix = np.zeros((old_capacity, old_capacity)), np.zeros((capacity, capacity))
            lower[np.tril_indices(old_capacity)] = arrays.store[half, old:start]
            matrix[np.ix_(kept, kept)] = lower
            if half == SOLUTION:
                matrix[range(before, first), range(before, first)] = 1.0 / arrays.numbers[RIDGE]
            store[half, new:end] = matrix[np.tril_indices(capacity)]
            store[half, end + kept] = arrays.store[half, start : start + old_capacity]
    return arrays._replace(blocks=blocks, places=places, store=store)


def with_arms(arrays: Arrays, labels: Indices) -> Arrays:
    """The same with a block for every arm; some more when there are too few."""
    count = len(labels) + 1
    more = count + count // 4 - len(arrays.blocks) if count > len(arrays.blocks) else 0
    blocks = np.concatenate([arrays.blocks, np.zeros((more, 5), np.int64)])
    order = np.argsort(labels, kind="stable")
    blocks[:, LABEL] = NO_ARM
    blocks[: len(labels), LABEL], blocks[: len(labels), OWNER] = labels[order], order + 1
    places = np.concatenate([arrays.places, np.full((more, arrays.places.shape[1]), -1, np.int32)])
    return arrays._replace(blocks=blocks, places=places)


def needed_capacities(arrays: Arrays, contexts: Features, arm_rows: Indices) -> dict[int, int]:
    """Arm rows -> how many coordinates their blocks may have once they have learned these rows."""
    coded = np.flatnonzero(arrays.columns[CATEGORIES])
    first, width = 1 + arrays.columns.shape[1] - len(coded), arrays.places.shape[1]
    if len(arm_rows) == 1:
        arm_row = int(arm_rows[0])
        return {arm_row: min(max(int(arrays.blocks[arm_row, SIZE]), first) + len(coded), width)}
    each = np.flatnonzero(np.bincount(arm_rows))
    sizes = np.maximum(arrays.blocks[each, SIZE], first)
    if len(coded):
        codes = contexts[:, coded]
        with np.errstate(invalid="ignore"):
            valid = (codes >= 0) & (codes < arrays.columns[CATEGORIES, coded]) & (codes == np.floor(codes))
        coordinates = (np.where(valid, codes, 0) + arrays.columns[COORDINATE, coded]).astype(np.int64)
        # A table of flags is filled in a quarter of the time in which the pairs of arm and coordinate are sorted.
        met, ranks = np.zeros((len(each), width), np.bool_), each.searchsorted(arm_rows)
        met.reshape(-1)[(ranks[:, None] * width + coordinates)[valid]] = True
        sizes += np.count_nonzero(met & (arrays.places[each] < 0), axis=1)
    return dict(zip(each.tolist(), sizes.tolist(), strict=True))


def with_capacity(arrays: Arrays, needed: dict[int, int]) -> Arrays:
    """The same with capacity for so many coordinates in each of these blocks, and for the numbers in block 0.

    A block that grows is copied to the end of the store; when that is full, all blocks are copied to a new one.
    """
    width, capacities = arrays.places.shape[1], arrays.blocks[:, CAPACITY].copy()
    if not capacities[0]:
        needed = {0: _known_at_once(arrays.columns), **needed}
    grown = [block for block, count in needed.items() if count > capacities[block]]
    if not grown:
        return arrays
    capacities[grown] = [min(needed[block] * 3 // 2, width) for block in grown]
    end = int((arrays.blocks[:, START] + _block_size(arrays.blocks[:, CAPACITY])).max())
    if end + _block_size(capacities[grown]).sum() > arrays.store.shape[1]:
        return _repacked(arrays, capacities, spare=True)
    blocks = arrays.blocks.copy()
    blocks[grown, CAPACITY] = capacities[grown]
    blocks[grown, START] = end + _starts(capacities[grown])
    return _copied(arrays, blocks, arrays.store, grown)


def _repacked(arrays: Arrays, capacities: NDArray[np.int64], *, spare: bool = False) -> Arrays:
    """The same in a new store, with this capacity for each block, one after the other; half as much more is spare."""
    size = _checked_size(arrays, capacities, 1.5 if spare else 1.0)
    blocks = arrays.blocks.copy()
    blocks[:, CAPACITY], blocks[:, START] = capacities, _starts(capacities)
    return _copied(arrays, blocks, np.zeros((2, size)), np.flatnonzero(capacities).tolist())


def _checked_size(arrays: Arrays, capacities: NDArray[np.int64], spare: float = 1.0) -> int:
    """How long a store for blocks of these capacities is, times `spare`; an InputError where that is too much."""
    size = int(int(_block_size(capacities).sum()) * spare)
    total = 16 * size + arrays.places.nbytes
    if total > MOST_BYTES:
        raise InputError(
            f"regressions of {np.count_nonzero(capacities) - 1} arms with up to {capacities.max()} features would take "
            f"{total / 2**20:,.0f} MiB, more than the {MOST_BYTES / 2**20:,.0f} allowed; give fewer columns"
        )
    return size


def _copied(arrays: Arrays, blocks: NDArray[np.int64], store: Floats, moved: list[int]) -> Arrays:
    """The same with these blocks copied to where new `blocks` have them; what they do not know yet is at the prior."""
    first, places = _known_at_once(arrays.columns), arrays.places
    for block in moved:
        (*_, size, old_capacity, old), (*_, capacity, new) = (
            arrays.blocks[block].tolist(),
            blocks[block].tolist(),
        )
        store[:, new : new + triangle(capacity) + capacity] = 0.0
        diagonal = np.arange(capacity)
        store[SOLUTION, new + diagonal * (diagonal + 3) // 2] = 1.0 / arrays.numbers[RIDGE]
        for skip, count in ((0, triangle(size)), (1, size)):
            source, target = old + skip * triangle(old_capacity), new + skip * triangle(capacity)
            store[:, target : target + count] = arrays.store[:, source : source + count]
        if not size:
            places = places.copy() if places is arrays.places else places
            places[block, :first], blocks[block, SIZE] = np.arange(first), first
    return arrays._replace(blocks=blocks, places=places, store=store)


def set_prior(arrays: Arrays, ridge: float) -> NDArray[np.int64] | None:
    """Set λ of regressions that have learned all rows at once; flags of the blocks that are to be solved anew.

    None, and nothing is set, where an arm has no more rows than coordinates.
    """
    _, blocks, _, store, numbers = arrays
    counts, arms = np.zeros((2, len(blocks)), np.int64), np.flatnonzero(blocks[:, SIZE])[1:]
    if (store[SUMS, blocks[arms, START]] <= blocks[arms, SIZE]).any():
        return None
    numbers[RIDGE], numbers[VERSION], counts[1, arms] = ridge, 0.0, 1
    for block in (0, *arms.tolist()):
        unknown = np.arange(blocks[block, SIZE] if block else 0, blocks[block, CAPACITY])
        store[SOLUTION, blocks[block, START] + unknown * (unknown + 3) // 2] = 1.0 / ridge
    return counts


def state_of(arrays: Arrays, columns: Columns, labels: Indices) -> dict[str, Any]:
    """Regressions without spare capacity."""
    sizes = arrays.blocks[:, SIZE]
    return {
        "columns": [list(columns.categories), list(columns.names)],
        "scales": arrays.columns[SHIFT:],
        "labels": labels,
        "sizes": sizes[: len(labels) + 1].copy(),
        "places": arrays.places[: len(labels) + 1],
        "store": _repacked(arrays, sizes).store,
        "numbers": arrays.numbers,
    }


def arrays_of(state: dict[str, Any], settings: Floats) -> tuple[Arrays, Columns, Indices]:
    """What `state_of` described: arrays, columns and arms; SavedFileError where anything does not fit.

    settings: how the numbers of the arrays must begin.
    """
    categories, names = schema.items(state, "columns", most=2)
    columns = schema.columns(names, categories)
    table, width = _column_table(columns)
    first = _known_at_once(table)
    labels = schema.labels(state, "labels")
    sizes = schema.array(state, "sizes", np.int64, (len(labels) + 1,), least=first, most=width)
    places = schema.array(state, "places", np.int32, (len(sizes), width))
    _require(_are_places(places, sizes, first), "coordinates have no place of their own")
    store = schema.array(state, "store", np.float64, (2, int(_block_size(sizes).sum())))
    numbers = schema.array(state, "numbers", np.float64, (8,))
    _require(np.array_equal(numbers[: len(settings)], settings), "settings are not those of the agent")
    counts = numbers[[REWARDS, VERSION, RENEWED]]
    _require(
        (counts >= 0).all() and (counts < schema.MOST).all() and numbers[REWARD_SQUARES] >= 0,
        "counts are out of range",
    )
    table[SHIFT:] = schema.array(state, "scales", np.float64, (len(table) - SHIFT, len(columns)))
    moments = table[[COUNT, SQUARES, LATER, LATER_SQUARES]]
    _require((table[FACTOR] > 0).all() and (moments >= 0).all(), "scales are out of range")
    blocks = np.column_stack([np.zeros((len(sizes), 2), np.int64), sizes, sizes, _starts(sizes)])
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
