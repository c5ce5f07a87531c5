"""Rows with named columns -> numbers: frames of any library and dicts, categories as codes, missing values as NaN."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from treebandit.core import Columns, Floats
from treebandit.errors import InputError, SavedFileError, ShapeError
from treebandit.features.values import Category, is_plain, plain_number, plain_value, shown

if TYPE_CHECKING:
    import narwhals.stable.v2 as nw

_FRAME_LIBRARIES = frozenset({"pandas", "polars", "pyarrow", "modin", "cudf", "dask", "narwhals"})
_FRAME_CLASSES = frozenset({"DataFrame", "LazyFrame", "Table"})
#: So many rows are read value by value sooner than column by column.
_FEW_ROWS = 8
_FAMILIES: dict[type, str] = {str: "text", bool: "booleans", int: "numbers", float: "numbers"}

_Raw = tuple[type, Any]  # a value with its type, because True == 1 to a dictionary


def is_frame(thing: Any) -> bool:
    """Whether `thing` is a data frame (pandas, polars, pyarrow and their like); imports nothing."""
    return _is_of(thing, _FRAME_CLASSES)


def is_series(thing: Any) -> bool:
    """Whether `thing` is a pandas series, which names its values."""
    return _is_of(thing, ("Series",)) and hasattr(thing, "index")


def rows_of(frame: Any, rows: Sequence[int] | None = None) -> Any:
    """These rows of a frame, or a copy of all of it, as a frame of the same library."""
    data = _eager(frame)
    return data[list(range(len(data)) if rows is None else rows)].to_native()


def as_dicts(frame: Any) -> list[dict[str, Any]]:
    """The rows of a frame."""
    return _eager(frame).rows(named=True)


def _is_of(thing: Any, names: Iterable[str]) -> bool:
    return any(
        kind.__name__ in names and kind.__module__.partition(".")[0] in _FRAME_LIBRARIES
        for kind in type(thing).__mro__
    )


@dataclass(frozen=True, slots=True)
class _Column:
    """One column: its name, and the code of each category seen so far (None: a column of numbers)."""

    name: str
    codes: dict[Category, int] | None = None

    @property
    def family(self) -> type | None:
        """The type of the categories; None where there are none yet."""
        return type(next(iter(self.codes))) if self.codes else None

    def registered(self, categories: Iterable[Category]) -> _Column:
        """This column with `categories` appended where they are new."""
        assert self.codes is not None
        codes = dict(self.codes)
        for category in categories:
            codes.setdefault(category, len(codes))
        return self if len(codes) == len(self.codes) else replace(self, codes=codes)


class _Given(NamedTuple):
    """One column as it was given: an array of numbers, or a list of plain values.

    listed: the categories that its type lists. numeric: what its type says it is; None where only the values tell.
    """

    name: str
    values: NDArray[Any] | list[Any]
    listed: tuple[Category, ...] = ()
    numeric: bool | None = None


class FrameEncoder:
    """How named columns become numbers; replaced, never changed.

    The first rows learned fix the names of the columns and which of them hold numbers (integers, floats, decimals)
    and which categories (text, booleans, categorical, enum). A category's code never changes. New ones are
    numbered in the order in which frames bring them, and within one frame by their own order; a type that lists its
    categories (pandas Categorical, polars Enum, booleans as False, True) brings all of them at once, in its order.
    The categories of one column are all text, all booleans or all numbers. Later rows may have their columns in
    another order, and come from another library.
    """

    __slots__ = ("_columns", "columns")

    def __init__(self, columns: tuple[_Column, ...] = ()) -> None:
        self._columns = columns
        counts = tuple(0 if column.codes is None else max(1, len(column.codes)) for column in columns)
        #: What `encode` gives; a column of categories counts those seen so far, at least 1.
        self.columns = Columns(counts, tuple(column.name for column in columns))

    @property
    def categories(self) -> dict[str, tuple[Category, ...]]:
        """The categories of each categorical column; a category's place is its code."""
        return {column.name: tuple(column.codes) for column in self._columns if column.codes is not None}

    def encode(self, rows: Any) -> tuple[Floats, FrameEncoder]:
        """The (n, d) values of n rows, and the encoder that knows their categories: `self` where none is new.

        rows: a frame, or a sequence of dicts. Numbers stay as they are, categories are codes, missing values NaN.
        """
        if isinstance(rows, Sequence):
            known = _known_values(self._columns, rows)
            if known is not None:
                return known, self
            given = _read_dicts(rows)
        else:
            data = _eager(rows)
            known = _quickly(self._columns, data) if self._columns else None
            if known is not None:
                return known, self
            given = _read_frame(data)
        if self._columns:
            given = self._ordered(given)
        columns = self._columns or tuple(_typed(one) for one in given)
        values = np.empty((len(given[0].values), len(columns)))
        after = list(columns)
        for place, (column, one) in enumerate(zip(columns, given, strict=True)):
            if column.codes is None:
                values[:, place] = _numbers(one)
            else:
                values[:, place], after[place] = _codes(one, column)
        return values, self if tuple(after) == self._columns else FrameEncoder(tuple(after))

    def state(self) -> list[dict[str, Any]]:
        """The columns as JSON values."""
        return [
            {"name": column.name, "categories": None if column.codes is None else list(column.codes)}
            for column in self._columns
        ]

    @classmethod
    def restored(cls, state: Any) -> FrameEncoder:
        """The encoder that `state` gave."""
        try:
            columns = tuple(_restored(entry["name"], entry["categories"]) for entry in state)
            names = {column.name for column in columns}
            if len(names) < len(columns):
                raise TypeError("two columns have the same name")
        except (KeyError, TypeError) as error:
            raise SavedFileError(
                f"the saved columns cannot be read ({error!r}); save the agent again"
            ) from error
        return cls(columns)

    def _ordered(self, given: list[_Given]) -> list[_Given]:
        """The columns given, in this encoder's order."""
        names = [one.name for one in given]
        return [given[place] for place in _order([column.name for column in self._columns], names)]


def _order(expected: list[str], given: list[str]) -> list[int]:
    """Where among the names given each of those expected is."""
    if given == expected:
        return list(range(len(given)))
    places = {name: place for place, name in enumerate(given)}
    missing = [repr(name) for name in expected if name not in places]
    extra = [repr(name) for name in given if name not in expected]
    if missing or extra or len(given) != len(expected):
        raise ShapeError(
            f"the rows lack {', '.join(missing) or 'nothing'}, and {', '.join(extra) or 'nothing'} is unexpected in "
            f"them; give the columns learned first: {', '.join(map(repr, expected))}"
        )
    return [places[name] for name in expected]


def _check_names(names: list[str]) -> None:
    if not names or len(set(names)) < len(names):
        raise ShapeError(f"the columns are {names}; give at least one, each its own name")


def _eager(frame: Any) -> nw.DataFrame[Any]:
    import narwhals.stable.v2 as nw
    from narwhals.exceptions import DuplicateError

    try:
        return nw.from_native(nw.to_native(frame, pass_through=True), eager_only=True)
    except DuplicateError as error:
        raise ShapeError("two columns of the frame have the same name; rename one of them") from error
    except TypeError as error:
        kind = f"{type(frame).__module__}.{type(frame).__name__}"
        raise InputError(
            f"{kind} is not a frame in memory; give a pandas or polars DataFrame (a lazy one: .collect())"
        ) from error


def _quickly(columns: tuple[_Column, ...], data: nw.DataFrame[Any]) -> Floats | None:
    """The whole frame at once, where that is quick and safe; None where it is not."""
    # As an array, polars would turn dates into numbers without a word; pandas gives objects.
    if data.implementation.is_pandas() and all(column.codes is None for column in columns):
        values = data.to_numpy()
        if values.dtype.kind in "fiub":
            order = _order([column.name for column in columns], [str(name) for name in data.columns])
            return values[:, order].astype(np.float64)
    return _known_values(columns, data.rows(named=True)) if len(data) <= _FEW_ROWS else None


def _read_frame(data: nw.DataFrame[Any]) -> list[_Given]:
    given = [_read_series(cast("nw.Series[Any]", series)) for series in data.iter_columns()]
    _check_names([one.name for one in given])
    return given


def _read_series(series: nw.Series[Any]) -> _Given:
    import narwhals.stable.v2 as nw

    name, dtype = str(series.name), series.dtype
    if dtype.is_temporal():
        raise _unusable(name, str(dtype), series.drop_nulls().to_list()[:1])
    if dtype.is_numeric():
        values = series.to_numpy()
        return _Given(name, values if values.dtype.kind in "fiub" else series.to_list(), numeric=True)
    listed: Iterable[Any] = ()
    numeric = False if isinstance(dtype, nw.Boolean | nw.Enum | nw.Categorical) else None
    if isinstance(dtype, nw.Boolean):
        listed = (False, True)
    elif isinstance(dtype, nw.Enum):
        listed = dtype.categories
    elif isinstance(dtype, nw.Categorical) and not series.implementation.is_polars():
        listed = series.cat.get_categories().to_list()
    elif isinstance(dtype, nw.String) and str(getattr(series.to_native(), "dtype", "")) != "object":
        numeric = False
    categories = _plain(name, list(listed))[1].values()
    return _Given(name, series.to_list(), tuple(one for one in categories if one is not None), numeric)


def _read_dicts(rows: Sequence[Any]) -> list[_Given]:
    for row in rows:
        if not isinstance(row, Mapping):
            raise InputError(f"{shown(row)} stands among dicts; give one dict per row")
    if not rows:
        raise ShapeError("no rows; give at least one")
    for key in rows[0]:
        if not isinstance(key, str | int):
            raise InputError(f"a column is named {shown(key)}; name columns with strings")
    names = [str(key) for key in rows[0]]
    _check_names(names)
    orders = [_order(names, [str(key) for key in row]) for row in rows]
    cells = [list(row.values()) for row in rows]
    return [
        _Given(name, [row[order[place]] for row, order in zip(cells, orders, strict=True)])
        for place, name in enumerate(names)
    ]


def _known_values(columns: tuple[_Column, ...], rows: Sequence[Any]) -> Floats | None:
    """Dicts of plain values that bring nothing new, at a fraction of the cost; None where one does."""
    values = np.empty((len(rows), len(columns)))
    try:
        for place, row in enumerate(rows):
            if type(row) is not dict or len(row) != len(columns):
                return None
            for number, column in enumerate(columns):
                value = row[column.name]
                if column.codes is None:
                    if type(value) is not float and type(value) is not int:
                        return None
                    values[place, number] = value
                elif type(value) is column.family:
                    values[place, number] = column.codes[cast("Category", value)]
                else:
                    return None
    except (KeyError, OverflowError):
        return None
    return values if columns and rows else None


def _typed(given: _Given) -> _Column:
    """The column that a first one is: of numbers or of categories."""
    if given.numeric is not None:
        return _Column(given.name, None if given.numeric else {})
    values = given.values
    families = {_FAMILIES[type(one)] for one in _plain(given.name, values)[1].values() if one is not None}
    if not families and not any(isinstance(one, float) for one in values):
        raise InputError(
            f"column {given.name!r} holds no value and has no type, so it may be of numbers or of categories; in the "
            "first rows give NaN for a missing number, or cast the column of a frame, for example to String"
        )
    return _Column(given.name, None if not families or "numbers" in families else {})


def _numbers(given: _Given) -> Floats:
    """A column of numbers, (n,), from any type whose values are numbers or missing."""
    name, values = given.name, given.values
    if isinstance(values, np.ndarray):
        return values.astype(np.float64)
    raws, plain = _plain(name, values)
    texts = (value for value in plain.values() if isinstance(value, str))
    if (text := next(texts, None)) is not None:
        row = next(row for row, raw in enumerate(raws) if plain[raw] == text)
        raise InputError(
            f"column {name!r} holds text where numbers belong ({shown(text)} in row {row}); "
            "convert it to numbers, or leave missing values empty"
        )
    numbers = {raw: cast("float", plain_number(value)) for raw, value in plain.items()}
    return np.array([numbers[raw] for raw in raws], np.float64)


def _codes(given: _Given, column: _Column) -> tuple[Floats, _Column]:
    """A column of categories as codes, (n,), and the column with those that are new."""
    values = given.values.tolist() if isinstance(given.values, np.ndarray) else given.values
    raws, plain = _plain(given.name, values)
    found = [value for value in plain.values() if value is not None]
    _check_family(column, [*given.listed, *found])
    flags = (False, True) if found and isinstance(found[0], bool) else ()
    column = column.registered([*given.listed, *flags, *sorted(found)])
    codes = cast("dict[Category, int]", column.codes)
    lookup = {raw: math.nan if value is None else codes[value] for raw, value in plain.items()}
    return np.array([lookup[raw] for raw in raws], np.float64), column


def _check_family(column: _Column, values: list[Category]) -> None:
    """One column holds text, or booleans, or numbers: a mix is a mistake somewhere upstream."""
    first: Category | None = next(iter(column.codes or values), None)
    if first is None:
        return
    family = _FAMILIES[type(first)]
    for value in values:
        if _FAMILIES[type(value)] != family:
            raise InputError(
                f"column {column.name!r} holds {_FAMILIES[type(value)]} ({shown(value)}) where {family} belong "
                f"(such as {shown(first)}); convert its values to one type"
            )
        if isinstance(value, float) and math.isinf(value):
            raise InputError(f"column {column.name!r} has an infinite category; remove it or name it in text")


def _plain(name: str, values: NDArray[Any] | list[Any]) -> tuple[list[_Raw], dict[_Raw, Category | None]]:
    """The values with their types, and for each different one, by appearance, the plain value it stands for."""
    kinds = list(map(type, values))
    for kind in dict.fromkeys(kinds):
        if not is_plain(kind):
            raise _unusable(name, kind.__name__, [values[kinds.index(kind)]])
    raws = list(zip(kinds, values, strict=True))
    return raws, {raw: plain_value(raw[1]) for raw in dict.fromkeys(raws)}


def _unusable(name: str, kind: str, examples: list[Any]) -> InputError:
    example = f" ({shown(examples[0])})" if examples else ""
    return InputError(
        f"column {name!r} holds values of type {kind}{example}, which are neither numbers nor categories; "
        "convert them first: a date to numbers (year, weekday, days since some day), anything else to text"
    )


def _restored(name: Any, categories: Any) -> _Column:
    if not isinstance(name, str):
        raise TypeError(f"a column is named {name!r}")
    if categories is None:
        return _Column(name)
    families = {_FAMILIES.get(type(category), "") for category in categories}
    if "" in families or len(families) > 1:
        raise TypeError(f"the categories of {name!r} are not all text, all booleans or all numbers")
    codes = {category: code for code, category in enumerate(categories)}
    if len(codes) < len(categories):
        raise TypeError(f"a category of {name!r} comes twice")
    return _Column(name, codes)
