"""Rows with named columns -> numbers: frames of any library and dicts, categories as codes, missing values as NaN."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from treebandit import schema
from treebandit.core import Columns, Floats
from treebandit.errors import InputError, SavedFileError, ShapeError
from treebandit.features import frames
from treebandit.features.columns import Column, GivenColumn, codes_of, declared, numbers, typed
from treebandit.features.dicts import order, read_dicts, shapes_after
from treebandit.features.flatten import EMPTY, SHAPES, TEXTS, flattened
from treebandit.features.values import Category, is_plain, shown

#: Types of numbers that need no closer look.
_NUMBERS = frozenset({float, int, np.float64, np.float32, np.int64, np.int32})
#: The column of an encoder that takes new ones, where the first rows have none: models need one to begin with. It is 0.
_NO_COLUMN = Column("", closed=True)
_NOWHERE: tuple[int, None, None] = (-1, None, None)
#: Columns that rows may bring in all: every learned row keeps a number for each.
_MOST_COLUMNS = 4096


class FrameEncoder:
    """How named columns become numbers; replaced, never changed.

    Declared columns come first, as declared. Otherwise the first rows fix the names of the columns and which of them
    hold numbers (integers, floats, decimals) and which categories (text, booleans, categorical, enum). A category's
    code never changes. New ones are numbered in the order in which frames bring them, and within one frame by their own
    order; a type that lists its categories (pandas Categorical, polars Enum, booleans as False, True) brings all of
    them at once, in its order. The categories of one column are all text, all booleans or all numbers. Later rows may
    have their columns in another order, and come from another library. Dicts may be nested: see `flattened`.

    new_columns: rows may bring further columns, which are appended row by row, those of one row by name; columns that a
        row lacks are missing in it. False: all rows have the same columns.
    shapes: what keys of dicts held where that is no single value: an object or a list.
    """

    __slots__ = ("_blank", "_columns", "_items", "_places", "_shapes", "columns", "new_columns")

    def __init__(
        self,
        columns: tuple[Column, ...] = (),
        *,
        new_columns: bool = False,
        shapes: Mapping[str, str] | None = None,
    ) -> None:
        if new_columns and len(columns) > _MOST_COLUMNS:
            raise InputError(
                f"with {shown(columns[-1].name)} there would be {len(columns):,} columns, and an agent takes at most "
                f"{_MOST_COLUMNS:,}; leave out keys that differ from row to row, such as ids: make them values"
            )
        self._columns, self._shapes, self.new_columns = columns, dict(shapes or {}), new_columns
        counts = tuple(0 if column.codes is None else max(1, len(column.codes)) for column in columns)
        #: What `encode` gives; a column of categories counts those seen so far, at least 1.
        self.columns = Columns(counts, tuple(column.name for column in columns))
        #: What known rows are read by: name -> place, codes of categories, their type.
        self._places = {
            column.name: (place, column.codes, column.family) for place, column in enumerate(columns)
        }
        #: A row that lacks everything.
        self._blank = [0.0 if column == _NO_COLUMN else math.nan for column in columns]
        #: The places of the items of each list of text.
        self._items = {
            key: [place for name, (place, _, _) in self._places.items() if name.startswith(f"{key}=")]
            for key, shape in self._shapes.items()
            if shape == TEXTS
        }

    @classmethod
    def declared(cls, columns: Any, *, new_columns: bool = False) -> FrameEncoder:
        """The encoder of columns that an agent declares; see `columns.declared`."""
        return cls(declared(columns), new_columns=new_columns)

    def begins_with(self, columns: Any) -> bool:
        """Whether the first columns are those declared, as they were or with categories seen since."""
        ours, theirs = (
            [(one.name, one.closed, one.codes if one.closed else one.codes is None) for one in each]
            for each in (self._columns[: len(columns)], declared(columns))
        )
        return ours == theirs

    @property
    def categories(self) -> dict[str, tuple[Category, ...]]:
        """The categories of each categorical column; a category's place is its code."""
        return {column.name: tuple(column.codes) for column in self._columns if column.codes is not None}

    def encode(self, rows: Any) -> tuple[Floats, FrameEncoder]:
        """The (n, d) values of n rows, and the encoder that knows their categories: `self` where none is new.

        rows: a frame, or a sequence of dicts. Numbers stay as they are, categories are codes, missing values NaN.
        """
        if isinstance(rows, Sequence):
            read = self._read(rows) if all(type(row) is dict for row in rows) else None
            return self._completed(*read, self._shapes) if read else self._encode_dicts(rows)
        if self._columns and (few := frames.few_rows(rows)):
            read = self._read(few)
            if read and not read[1]:  # categories that are new come in the order of their type
                return read[0], self
        data = frames.eager(rows)
        known = self._whole(data)
        return (known, self) if known is not None else self._encode_frame(data)

    def state(self) -> dict[str, Any]:
        """All of it as JSON values, but for whether columns may be added."""
        return {"columns": [column.state() for column in self._columns], "shapes": self._shapes}

    @classmethod
    def restored(cls, state: Any, *, new_columns: bool = False) -> FrameEncoder:
        """The encoder that `state` gave."""
        try:
            columns = tuple(Column.restored(entry) for entry in state["columns"])
            shapes = dict(state["shapes"])
            if len({column.name for column in columns}) < len(columns):
                raise TypeError("two columns have the same name")
            if not all(isinstance(key, str) and shape in SHAPES for key, shape in shapes.items()):
                raise TypeError(f"shapes are {shown(shapes)}")
        except (KeyError, TypeError, ValueError) as error:
            raise SavedFileError(
                f"the saved columns cannot be read ({error!r}); save the agent again"
            ) from error
        return cls(columns, new_columns=new_columns, shapes=shapes)

    def _read(
        self, rows: Sequence[dict[Any, Any]], shapes: Sequence[Mapping[str, str]] = ()
    ) -> tuple[Floats, list[GivenColumn]] | None:
        """Flat rows read value by value, at a fraction of the cost; None where columns have to be looked at in all.

        Their (n, d) values, and the columns that bring something new, which have to be looked at again.
        shapes: what the keys of each row held, where rows were nested.
        """
        cells: list[list[float]] = []
        news: dict[str, None] = {}
        for row in rows:
            new = self._read_row(row, cells)
            if new is None:
                return None
            news.update(dict.fromkeys(sorted(new)))
        for row_cells, held in zip(cells, shapes, strict=bool(shapes)):
            for key, shape in held.items():
                if shape not in (self._shapes.get(key), EMPTY):
                    return None
                for place in self._items.get(key, ()):
                    # What the list holds is 1 already, and what it does not hold is not in it.
                    row_cells[place] = 1.0 if row_cells[place] == 1.0 else 0.0
        if shapes and any("=" in name for name in news):
            return None  # an item that is new is 0 in other rows that have the list
        try:
            values = np.array(cells, np.float64)
        except OverflowError:  # a whole number beyond all floats
            return None
        return (
            (values, [GivenColumn(name, [row.get(name) for row in rows]) for name in news]) if cells else None
        )

    def _read_row(self, row: dict[Any, Any], cells: list[list[float]]) -> list[str] | None:
        """Append the values of one row; the columns that have to be looked at again. None where more has."""
        places = self._places
        if not places or (not self.new_columns and len(row) != len(places)):
            return None
        found, news = self._blank.copy(), []
        for key, value in row.items():
            kind = type(value)
            place, codes, family = places.get(key, _NOWHERE)
            if codes is None and kind in _NUMBERS and place >= 0:
                found[place] = value
            elif codes is not None and kind is family and value in codes:
                found[place] = codes[value]
            elif place < 0 and not (self.new_columns and type(key) is str and key not in self._shapes):
                return None  # a key that cannot become a column
            elif value is not None and (place < 0 or kind is not float or value == value):
                if not is_plain(kind):
                    return None
                news.append(key)
        cells.append(found)
        return news

    def _completed(
        self, values: Floats, given: Sequence[GivenColumn], shapes: Mapping[str, str]
    ) -> tuple[Floats, FrameEncoder]:
        """Values and encoder of rows whose (n, d) values are known but for these columns."""
        if not given and self._columns:
            return values, self
        columns, more = list(self._columns), []
        for one in given:
            if one.name in self._places:
                place = self._places[one.name][0]
                values[:, place], columns[place] = _encoded(one, columns[place])
            elif (column := self._first(one)) is not None:
                encoded, column = _encoded(one, column)
                more.append(encoded)
                columns.append(column)
        if not columns:
            if not self.new_columns:
                raise ShapeError("the rows have no columns; give at least one, each its own name")
            more, columns = [np.zeros(len(values))], [_NO_COLUMN]
        return np.column_stack([values, *more]) if more else values, self._after(columns, shapes)

    def _whole(self, data: Any) -> Floats | None:
        """A frame of numbers only, in one piece; None where that would not be safe."""
        if not self._columns or any(column.codes is not None for column in self._columns):
            return None
        table = frames.whole_table(data)
        if table is None or (self.new_columns and set(table[0]) != set(self._places)):
            return None
        names, values = table
        return values[:, order(list(self._places), names)].astype(np.float64)

    def _encode_dicts(self, rows: Sequence[Any]) -> tuple[Floats, FrameEncoder]:
        for row in rows:
            if not isinstance(row, Mapping):
                raise InputError(f"{shown(row)} is in a list of dicts; give one dict per row")
        if not rows:
            raise ShapeError("no rows; give at least one")
        flats = [flattened(row) for row in rows]
        if any(flat.shapes for flat in flats):
            flat_rows = [flat.values for flat in flats]
            read = self._read(flat_rows, [flat.shapes for flat in flats])
            if read:
                return self._completed(*read, self._shapes)
        shapes = shapes_after(self._shapes, self._places, flats)
        given = read_dicts(flats, self._places, shapes, new_columns=self.new_columns)
        return self._completed(np.full((len(rows), len(self._columns)), np.nan), given, shapes)

    def _encode_frame(self, data: Any) -> tuple[Floats, FrameEncoder]:
        given = {one.name: one for one in frames.read_frame(data)}
        if self.new_columns:
            nothing: list[Any] = [None] * len(data)
            names = [*self._places, *sorted(given.keys() - self._places.keys())]
            columns = [given.get(name, GivenColumn(name, nothing)) for name in names]
        else:
            columns = list(given.values())
            if self._columns:
                columns = [columns[place] for place in order(list(self._places), list(given))]
        return self._completed(np.full((len(data), len(self._columns)), np.nan), columns, self._shapes)

    def _after(self, columns: list[Column], shapes: Mapping[str, str]) -> FrameEncoder:
        """The encoder with these columns; `self` where they are its own."""
        if tuple(columns) == self._columns and shapes == self._shapes:
            return self
        if sum(len(column.codes or "1") for column in columns) > schema.MOST_COLUMNS:
            raise InputError(f"more than {schema.MOST_COLUMNS} columns and categories in all; give fewer")
        return FrameEncoder(tuple(columns), new_columns=self.new_columns, shapes=shapes)

    def _first(self, given: GivenColumn) -> Column | None:
        """The column that one seen for the first time is; None where it holds nothing yet, and may come later."""
        column = typed(given, nan_is_number=not self.new_columns)
        if column is None and not self.new_columns:
            raise InputError(
                f"column {given.name!r} holds no value and has no type, so it may be of numbers or of categories; in "
                "the first rows give NaN for a missing number, cast the column of a frame, for example to String, or "
                f"declare it: columns={{{given.name!r}: 'number'}}"
            )
        return column


def _encoded(given: GivenColumn, column: Column) -> tuple[Floats, Column]:
    """The values of a column, (n,), and the column with categories that are new."""
    if column.codes is not None:
        return codes_of(given, column)
    return (np.nan_to_num(numbers(given)) if column == _NO_COLUMN else numbers(given)), column
