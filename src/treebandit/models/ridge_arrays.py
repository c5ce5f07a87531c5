"""What ridge regressions keep, as arrays that compiled loops take, and how a context becomes a row of them.

A block is the regression of one arm. It knows only the coordinates that its rows had: the intercept, all numbers, and
categories seen so far. Every other coordinate is at the prior, with coefficient 0 and variance 1/λ, so the memory of
an arm follows its rows and not the width of the table.
"""
# mypy: disallow_untyped_decorators=False
# ruff: noqa: ANN001, ANN201

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from treebandit.compiled import helper
from treebandit.core import Floats
from treebandit.models.packed import row_start

#: Standardised numbers are cut off here, so that one outlier does not outweigh all other rows.
BOUND = 10.0
#: The label of a block without an arm; it sorts behind all others.
NO_ARM = np.iinfo(np.int64).max

COORDINATE, CATEGORIES, SHIFT, FACTOR, COUNT, MEAN, SQUARES, OTHER, LATER, LATER_MEAN, LATER_SQUARES, ANEW = (
    range(12)
)
LABEL, OWNER, SIZE, CAPACITY, START = range(5)
SUMS, SOLUTION = range(2)
RIDGE, STANDARDISE, ORIGIN, REWARDS, REWARD_MEAN, REWARD_SQUARES, VERSION, RENEWED = range(8)


class Arrays(NamedTuple):
    """All that regressions keep: few arrays, since each one costs time to compile and to hand over.

    columns: (12, d) first coordinate and number of categories of each column, 0 for a number; for numbers also shift
        and factor in use, count, mean and sum of squares so far, whether they had other values than 0 and 1; count,
        mean and sum of squares of the later rows; whether these have just replaced those of all rows.
    blocks: (blocks, 5) an arm and the number of its block, arms in rising order; then, of the block of this row:
        coordinates in use, capacity for them, and where it starts in the store. Block 0 is for arms not seen yet.
    places: (blocks, width) where a block has a coordinate; -1 where it does not know it. Intercept and numbers first.
    store: (2, size) for each block Σ zz' and Σ zr; A⁻¹ = (λI + Σ zz')⁻¹ and θ = A⁻¹ Σ zr. Matrices are packed.
    numbers: (8,) λ; whether rewards are standardised; the first reward, or 0, which is subtracted from all rewards;
        their count, mean and sum of squares; version; rows seen when scales were last compared.
    """

    columns: NDArray[np.float64]
    blocks: NDArray[np.int64]
    places: NDArray[np.int32]
    store: NDArray[np.float64]
    numbers: NDArray[np.float64]


#: `Arrays` as kernels take them: a plain tuple is handed over in half the time.
Parts = tuple[NDArray[Any], ...]


class Row(NamedTuple):
    """Scratch for one row: entries that are not 0 and their places in the block; two dense vectors."""

    places: NDArray[np.int64]
    z: NDArray[np.float64]
    v: NDArray[np.float64]
    image: NDArray[np.float64]


@helper
def block_number(blocks, arm):  # type: ignore[no-untyped-def]
    """The block of an arm; 0 where it was not seen."""
    low, high = 0, blocks.shape[0]
    while low < high:
        middle = (low + high) // 2
        if blocks[middle, LABEL] < arm:
            low = middle + 1
        else:
            high = middle
    return blocks[low, OWNER] if low < blocks.shape[0] and blocks[low, LABEL] == arm else 0


def scratch(parts: Parts) -> tuple[NDArray[np.int64], Floats]:
    """Scratch that fits any row: what `row_of` takes."""
    width = parts[2].shape[1]  # the intercept, and at least one for each column
    return np.empty(width, np.int64), np.empty((3, width))


@helper
def row_of(places, floats):  # type: ignore[no-untyped-def]
    """What `scratch` gave, as a Row."""
    return Row(places, floats[0], floats[1], floats[2])


@helper
def clipped(value, least, most):  # type: ignore[no-untyped-def]
    """The value, or the end of the range that it is beyond."""
    return least if value < least else most if value > most else value


@helper
def encode(columns, places, size, context, row):  # type: ignore[no-untyped-def]
    """Fill `row` with the entries of a context that are not 0; how many, Σ z² of unknown coordinates, and the size.

    places: those of a block. size: coordinates that it knows, to have it learn new ones; -1 to leave them out.
    """
    row.places[0], row.z[0], filled, unknown = 0, 1.0, 1, 0.0
    for j in range(columns.shape[1]):
        value, categories = np.float64(context[j]), columns[CATEGORIES, j]
        coordinate, z = np.int64(columns[COORDINATE, j]), 0.0
        if categories:
            if value >= 0.0 and value < categories and value == np.floor(value):
                coordinate += np.int64(value)
                z = 1.0
        elif value == value:
            z = clipped((value - columns[SHIFT, j]) * columns[FACTOR, j], -BOUND, BOUND)
        if z != 0.0:
            if places[coordinate] < 0 and size >= 0:
                places[coordinate] = size
                size += 1
            if places[coordinate] < 0:
                unknown += z * z
            else:
                row.places[filled], row.z[filled] = places[coordinate], z
                filled += 1
    return filled, unknown, size


@helper
def block_of(blocks, half, block):  # type: ignore[no-untyped-def]
    """Matrix and vector of a block in one half of the store."""
    capacity, start = blocks[block, CAPACITY], blocks[block, START]
    middle = start + row_start(capacity)
    return half[start:middle], half[middle : middle + capacity]


@helper
def add_up(sums, row, filled, reward):  # type: ignore[no-untyped-def]
    """Add zz' and z · reward of a row to the sums."""
    matrix, vector = sums
    for a in range(filled):
        i = row.places[a]
        vector[i] += row.z[a] * reward
        for b in range(a + 1):
            j = row.places[b]
            matrix[row_start(i) + j if i > j else row_start(j) + i] += row.z[a] * row.z[b]
