"""Numbers of any size: offset and unit that keep their digits in 32 bits, and columns standardised."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treebandit import schema
from treebandit.core import Columns, Features, Floats
from treebandit.errors import InputError
from treebandit.features.values import LARGEST

#: A column whose values differ by less than this share of their size needs an offset.
_CLOSE = 2.0**-12
#: A single value from here on gets an offset where 32 bits do not hold it; all values from the second limit on do.
_LARGE, _VERY_LARGE = 2.0**12, 2.0**24
#: Columns of smaller numbers get a unit.
_SMALL = 2.0**-16
#: Sums of offset and value must not overflow, and nothing of this size needs its last digits.
_TOO_LARGE = 2.0**64
#: In so many first rows columns are watched; so many of them that 32 bits cannot tell from the first are refused.
_WATCHED_ROWS, _EQUAL_ROWS = 64, 8
#: Values further apart than so many steps of 32-bit floats are distinct well enough.
_STEPS = 32.0
#: So many numbers are looked at one by one.
_FEW = 64
#: A standard deviation that is so many times that of most values is made by outliers; these count as if they were _NEAR
#: deviations away. Below, values can still be told apart.
_OUTLYING, _NEAR = 64.0, 10.0
#: What the median absolute deviation of a normal column has to be multiplied by.
_NORMAL = 1.4826


class ColumnUnits:
    """How 64-bit columns become 32-bit features: (value - offset) / unit. Replaced, never changed.

    32 bits hold 7 digits: unix seconds of one hour would all become the same number. A column's offset is 0 where 7
    digits are enough, else the first value learned. Its unit is 1, or a power of two for columns of very small numbers,
    which tree libraries take for equal. Both are fixed with the first value (offset NaN: none yet). A column whose
    first rows differ by less than 32 bits can tell all the same is refused.

    first, rows, equal: the first row learned, how many rows were, and how many of them differ from the first in a
    column but not in its 32 bits (-1: the column is distinct). Where rows after the first are near 0 and its offset is
    far from it, the first of these counts instead: an outlier has made the offset, and theirs are the digits lost.
    """

    __slots__ = ("_plain", "equal", "first", "fixed", "offset", "rows", "unit")

    def __init__(
        self, offset: Floats, unit: Floats, first: Floats, rows: int, equal: NDArray[np.intp]
    ) -> None:
        self.offset, self.unit, self.first, self.rows, self.equal = offset, unit, first, rows, equal
        #: Whether no more rows are needed.
        self.fixed = rows >= _WATCHED_ROWS and not np.isnan(offset).any()
        self._plain = not offset.any() and bool((unit == 1.0).all())

    @classmethod
    def none(cls, columns: Columns) -> ColumnUnits:
        """Nothing learned yet; categories stay as they are."""
        offset = np.where(np.asarray(columns.categories, np.intp) > 0, 0.0, np.nan)
        ones, nothing = np.ones(len(offset)), np.full(len(offset), np.nan)
        return cls(offset, ones, nothing, 0, np.zeros(len(offset), np.intp))

    @classmethod
    def plain(cls, columns: Columns) -> ColumnUnits:
        """All columns as they are, as for rows that are 32-bit numbers already."""
        zeros = np.zeros(len(columns))
        return cls(zeros, zeros + 1.0, zeros, _WATCHED_ROWS, np.zeros(len(columns), np.intp))

    def __len__(self) -> int:
        """How many columns there are."""
        return len(self.offset)

    def widened(self, columns: Columns) -> ColumnUnits:
        """These units, and none yet for columns added at the end; only those are watched from now on."""
        fresh, width = ColumnUnits.none(columns), len(self)
        for ours, theirs in ((self.offset, fresh.offset), (self.unit, fresh.unit), (self.first, fresh.first)):
            theirs[:width] = ours
        fresh.equal[:width] = -1 if self.rows >= _WATCHED_ROWS else self.equal
        return ColumnUnits(fresh.offset, fresh.unit, fresh.first, 0, fresh.equal)

    def completed(self, values: NDArray[Any]) -> ColumnUnits:
        """These units, those that are not fixed yet by (n, d) numbers."""
        if self.fixed or not len(values) or not (open_columns := np.isnan(self.offset)).any():
            return self
        offset, unit = _first_units(values.astype(np.float64))
        offset = np.where(open_columns, offset, self.offset)
        unit = np.where(open_columns, unit, self.unit)
        return ColumnUnits(offset, unit, self.first, self.rows, self.equal)

    def learned(self, values: NDArray[Any], columns: Columns) -> ColumnUnits:
        """The units after learning (n, d) numbers."""
        if self.fixed or not len(values):
            return self
        values = values.astype(np.float64, copy=False)
        after = self.completed(values)
        first, equal = after._compared_with(values)
        with np.errstate(over="ignore", invalid="ignore"):
            narrow = after._in_units(first).astype(np.float32)
            step = np.spacing(np.abs(narrow)).astype(np.float64)
            apart = (np.abs(values - first) / after.unit > _STEPS * step).any(axis=0)
            same = (after._in_units(values).astype(np.float32) == narrow) & (values != first)
        equal = np.where(apart | (equal < 0), -1, equal + same.sum(axis=0))
        if equal.max(initial=0) >= _EQUAL_ROWS:
            place = int(equal.argmax())
            other = values[same[:, place], place][0] if same[:, place].any() else values[0, place]
            if _near_zero(first, after.offset)[place]:
                raise InputError(
                    f"column {column_name(columns, place)} was {after.offset[place]} in the first row learned, and is "
                    f"{first[place]} or {other} since: beside the first, 32-bit numbers do not tell these apart; begin "
                    "anew without that row, or with NaN there"
                )
            raise InputError(
                f"column {column_name(columns, place)} differs only in digits that 32-bit numbers do not have "
                f"({first[place]}, {other}); subtract a constant from it, or multiply it"
            )
        return ColumnUnits(after.offset, after.unit, first, self.rows + len(values), equal)

    def _compared_with(self, values: Floats) -> tuple[Floats, NDArray[np.intp]]:
        """What (n, d) numbers are compared with in each column, and how many rows were equal to it so far."""
        first = np.where(np.isnan(self.first), _first(values), self.first)
        near = _near_zero(values, self.offset)
        moved = near.any(axis=0) & ~_near_zero(first, self.offset) & (self.equal >= 0)
        if not moved.any():
            return first, self.equal
        return np.where(moved, _first(np.where(near, values, np.nan)), first), np.where(moved, 0, self.equal)

    def _in_units(self, values: NDArray[Any]) -> Floats:
        scaled: Floats = (values - np.where(np.isnan(self.offset), 0.0, self.offset)) / self.unit
        return scaled

    def narrow(self, values: NDArray[Any], columns: Columns, *, rows: int | None = None) -> Features:
        """(n, d) numbers as 32-bit features, C-contiguous; `rows` times the same where there is one row only."""
        if not self._plain:
            with np.errstate(over="ignore"):
                values = self._in_units(values)
        elif rows is None and values.dtype == np.float32:
            features: Features = np.ascontiguousarray(values)
            refuse_infinite(features, columns)
            return features
        features = np.empty((len(values) if rows is None else rows, values.shape[1]), np.float32)
        if fits(values):
            features[...] = values
        else:
            with np.errstate(over="ignore"):
                features[...] = values
            refuse_infinite(features, columns)
        return features

    def original(self, values: Floats) -> Floats:
        """What (n, d) features were before `narrow`, as far as 32 bits tell; of the columns that were learned."""
        width = min(values.shape[1], len(self))
        found: Floats = values[:, :width] * self.unit[:width] + np.nan_to_num(self.offset[:width])
        return found

    def state(self) -> dict[str, Any]:
        """All of it as arrays and JSON values."""
        numbers = np.stack([self.offset, self.unit, self.first])
        return {"numbers": numbers, "rows": self.rows, "equal": self.equal}

    @classmethod
    def restored(cls, state: dict[str, Any], width: int) -> ColumnUnits:
        """The units that `state` gave, of `width` columns."""
        numbers = schema.array(state, "numbers", np.float64, (3, width), nan=True)
        equal = schema.array(state, "equal", np.intp, (width,))
        if not (numbers[1] > 0.0).all():
            raise schema.refused("units of columns", numbers[1], "numbers above 0")
        return cls(numbers[0], numbers[1], numbers[2], schema.whole(state, "rows"), equal)


def refuse_infinite(features: Features, columns: Columns) -> None:
    """Raise where a feature is infinite; a missing one may be NaN."""
    if fits(features):
        return
    infinite = np.isinf(features)
    if infinite.any():
        row, place = (int(index) for index in np.argwhere(infinite)[0])
        raise InputError(
            f"column {column_name(columns, place)} is infinite in row {row}, or too large for 32 bits; "
            "give finite numbers, NaN for missing ones"
        )


def fits(values: NDArray[Any]) -> bool:
    """Whether all numbers are there and fit into 32 bits; of very large ones it may say no in error."""
    flat = values.ravel()
    if len(flat) <= _FEW:
        # No more than numpy needs to begin, and it says nothing of overflow.
        return math.hypot(*flat.tolist()) <= LARGEST
    return bool(np.maximum.reduce(np.abs(flat)) <= LARGEST)


def column_name(columns: Columns, place: int) -> str:
    """What messages call a column: its name, or its place."""
    return repr(columns.names[place]) if columns.names else str(place)


def _first(values: Floats) -> Floats:
    """The first present value of each column; NaN where there is none."""
    rows = (~np.isnan(values)).argmax(axis=0)
    first: Floats = values[rows, np.arange(values.shape[1])]
    return first


def _near_zero(values: Floats, offset: Floats) -> NDArray[np.bool_]:
    """Whether values are so much nearer to 0 than their column's offset that it costs them half of their digits."""
    near: NDArray[np.bool_] = np.abs(values) < _CLOSE * np.abs(offset)
    return near


def _first_units(values: Floats) -> tuple[Floats, Floats]:
    """Offset and unit of each column by its first rows; offset NaN where they have no value."""
    present = ~np.isnan(values)
    first = _first(values)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        low = values.min(axis=0, where=present, initial=np.inf)
        high = values.max(axis=0, where=present, initial=-np.inf)
        size, spread = np.abs(first), high - low
        long = (size >= _VERY_LARGE) | ((size >= _LARGE) & (first.astype(np.float32) != first))
        alone = (spread == 0.0) & long & ~_is_fill_value(size)
        close = (spread < _CLOSE * size) & ((spread > 0.0) | alone) & (size < _TOO_LARGE)
        largest = np.maximum(np.abs(low), np.abs(high))
        small = (largest > 0.0) & (largest < _SMALL)
        unit = np.where(small, 2.0 ** np.maximum(np.round(np.log2(largest)), -64.0), 1.0)
    return np.where(close, first, np.where(present.any(axis=0), 0.0, np.nan)), unit


def _is_fill_value(size: Floats) -> NDArray[np.bool_]:
    """Whether a size is a power of ten or two, or one less: such a value often means 'missing' (999999999, 2³¹-1).

    As an offset it would cost the true values their digits.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        tens = 10.0 ** np.round(np.log10(size))
        twos = 2.0 ** np.round(np.log2(size))
    found: NDArray[np.bool_] = (size == tens) | (size + 1.0 == tens) | (size == twos) | (size + 1.0 == twos)
    return found


@dataclass(frozen=True, slots=True, eq=False)
class Standardiser:
    """Columns scaled to mean 0 and standard deviation 1; replaced, never changed.

    A missing number becomes 0, the mean. A column that does not vary is only centred. Columns that are not numbers
    (one-hot) stay as they are.
    """

    mean: Floats
    deviation: Floats

    @classmethod
    def of(cls, rows: NDArray[Any], numbers: NDArray[np.bool_]) -> Standardiser:
        """The scale of (n, d) rows; numbers: (d,), whether each column is one of numbers.

        Where a few outliers make a column's deviation many times what its middle half shows, they count as if they
        were nearer, or all other values would become one.
        """
        values = np.where(numbers, np.asarray(rows, np.float64), np.nan)
        mean, deviation = _moments(values)
        for place in np.flatnonzero(numbers & (deviation > 0.0)):
            column = values[~np.isnan(values[:, place]), place]
            middle = np.median(column)
            usual = _NORMAL * np.median(np.abs(column - middle))
            if 0.0 < _OUTLYING * usual < deviation[place]:
                near = np.clip(column, middle - _NEAR * usual, middle + _NEAR * usual)
                mean[place], deviation[place] = (float(each[0]) for each in _moments(near[:, None]))
        # Rounding alone gives a constant column a deviation of about 1e-16 of its size.
        return cls(mean, np.where(deviation > 1e-12 * np.abs(mean), deviation, 1.0))

    def __call__(self, rows: NDArray[Any]) -> Floats:
        """(n, d) rows, standardised, as float64."""
        scaled: Floats = (rows - self.mean) / self.deviation
        scaled[np.isnan(scaled)] = 0.0
        return scaled

    def state(self) -> dict[str, NDArray[Any]]:
        """All of it as arrays."""
        return {"moments": np.stack([self.mean, self.deviation])}

    @classmethod
    def restored(cls, state: dict[str, Any], width: int) -> Standardiser:
        """The standardiser that `state` gave, of `width` columns."""
        moments = schema.array(state, "moments", np.float64, (2, width))
        if not (moments[1] > 0.0).all():
            raise schema.refused("deviations", moments[1], "numbers above 0")
        return cls(*moments)


def _moments(values: Floats) -> tuple[Floats, Floats]:
    """Mean and standard deviation (ddof 0) of the values of each column that are there."""
    present = ~np.isnan(values)
    count = np.maximum(present.sum(axis=0), 1)
    mean: Floats = np.where(present, values, 0.0).sum(axis=0) / count
    return mean, np.sqrt((np.where(present, values - mean, 0.0) ** 2).sum(axis=0) / count)
