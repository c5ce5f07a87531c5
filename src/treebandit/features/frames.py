"""A data frame -> float32 features: categories as integer codes or one-hot, missing values as NaN."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from decimal import Decimal
from numbers import Integral
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from treebandit.core import Columns, Features, Indices
from treebandit.errors import InputError, SavedFileError, ShapeError

if TYPE_CHECKING:
    import narwhals.stable.v2 as nw

__all__ = ["Category", "OneHot", "OneHotLayout", "Table", "is_frame"]

Category = str | bool | int | float

_Raw = tuple[type, Any]  # a value with its type, because True == 1 to a dictionary

_FRAME_LIBRARIES = frozenset({"pandas", "polars", "pyarrow", "modin", "cudf", "dask", "narwhals"})
_FRAME_CLASSES = frozenset({"DataFrame", "LazyFrame", "Table"})
_FAMILIES = {str: "text", bool: "booleans", int: "numbers", float: "numbers"}


def is_frame(thing: Any) -> bool:
    """Whether `thing` is a data frame (pandas, polars, pyarrow and their like); imports nothing."""
    if type(thing) is np.ndarray:
        return False
    return any(
        kind.__name__ in _FRAME_CLASSES and kind.__module__.partition(".")[0] in _FRAME_LIBRARIES
        for kind in type(thing).__mro__
    )


@dataclass(frozen=True, slots=True)
class _Column:
    """One column: its name, and the code of each category met so far (None: a column of numbers)."""

    name: str
    codes: dict[Category, int] | None = None

    def met(self, categories: Iterable[Category]) -> _Column:
        """This column with `categories` appended where they are new."""
        assert self.codes is not None
        codes = dict(self.codes)
        for category in categories:
            codes.setdefault(category, len(codes))
        return self if len(codes) == len(self.codes) else replace(self, codes=codes)


class Table:
    """How frames become features, column by column.

    The first frame learned fixes the names of the columns and which of them hold numbers (integers, floats,
    decimals) and which categories (text, booleans, categorical, enum). Codes follow first appearance and
    never change; a dtype that lists its categories (pandas Categorical, polars Enum, booleans as False, True)
    brings all of them at once, in its own order. The categories of one column are all text, all booleans or
    all numbers. Later frames may have their columns in another order, and come from another library.
    """

    def __init__(self) -> None:
        self._columns: tuple[_Column, ...] = ()
        self._described = Columns(())

    @property
    def columns(self) -> Columns:
        """What the features of `encode` are; a column of categories counts those met so far, at least 1."""
        return self._described

    @property
    def categories(self) -> dict[str, tuple[Category, ...]]:
        """The categories of each categorical column; a category's place is its code."""
        return {column.name: tuple(column.codes) for column in self._columns if column.codes is not None}

    def encode(self, frame: Any, *, learn: bool) -> Features:
        """The (n, d) features of a frame of n rows: numbers as they are, categories as codes, missing as NaN.

        learn: append categories not met before. Otherwise the table stays as it is, and each of them gets the
        first code that is still free; a table that has met no frame yet then encodes this one as if learned.
        """
        data = _eager(frame)
        if not self._columns:
            series = _first(data)
            columns = tuple(_typed(one) for one in series)
            features, columns = _encode(columns, series, learn=True)
        else:
            order = self._order(data)
            fast = _all_numbers(self._columns, data, order)
            if fast is not None:
                return fast
            given = _series(data)
            series = [given[place] for place in order]
            features, columns = _encode(self._columns, series, learn=learn)
        if learn and columns != self._columns:
            self._become(columns)
        return features

    def to_json(self) -> dict[str, Any]:
        """The table as JSON values."""
        return {
            "columns": [
                {"name": column.name, "categories": None if column.codes is None else list(column.codes)}
                for column in self._columns
            ]
        }

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Table:
        """The table that `to_json` described."""
        try:
            columns = tuple(_restored(entry["name"], entry["categories"]) for entry in values["columns"])
        except (KeyError, TypeError) as error:
            raise SavedFileError(
                f"the saved columns cannot be read ({error!r}); expected what Table.to_json gives"
            ) from error
        table = cls()
        table._become(columns)
        return table

    def _become(self, columns: tuple[_Column, ...]) -> None:
        counts = tuple(0 if column.codes is None else max(1, len(column.codes)) for column in columns)
        self._columns = columns
        self._described = Columns(counts, tuple(column.name for column in columns))

    def _order(self, data: nw.DataFrame[Any]) -> list[int]:
        """Where in the frame each column of this table is."""
        given = [str(name) for name in data.columns]
        expected = self._described.names
        if given == list(expected):
            return list(range(len(given)))
        places = {name: place for place, name in enumerate(given)}
        missing = [repr(name) for name in expected if name not in places]
        extra = [repr(name) for name in given if name not in expected]
        if missing or extra or len(given) != len(expected):
            raise ShapeError(
                f"the frame lacks {', '.join(missing) or 'nothing'}, and {', '.join(extra) or 'nothing'} is "
                f"unexpected in it; give the columns of the first frame: {', '.join(map(repr, expected))}"
            )
        return [places[name] for name in expected]


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


def _series(data: nw.DataFrame[Any]) -> list[nw.Series[Any]]:
    return cast("list[nw.Series[Any]]", list(data.iter_columns()))


def _first(data: nw.DataFrame[Any]) -> list[nw.Series[Any]]:
    series = _series(data)
    if not series or len({str(one.name) for one in series}) < len(series):
        raise ShapeError(f"the frame has the columns {data.columns}; give at least one, each its own name")
    return series


def _typed(series: nw.Series[Any]) -> _Column:
    """The column that a first series is: of numbers or of categories."""
    import narwhals.stable.v2 as nw

    name, dtype = str(series.name), series.dtype
    _refuse_dates(series, name)
    if dtype.is_numeric():
        return _Column(name)
    if dtype in (nw.Boolean, nw.Categorical, nw.Enum):
        return _Column(name, {})
    families = {_FAMILIES[type(value)] for value in _scalars(series, name)[1].values() if value is not None}
    if not families and (dtype != nw.String or str(getattr(series.to_native(), "dtype", "")) == "object"):
        raise InputError(
            f"column {name!r} holds no value and has no type, so it may be of numbers or of categories; "
            "cast it in the first frame, for example to Float64 or to String"
        )
    return _Column(name, None if "numbers" in families and "text" not in families else {})


def _all_numbers(columns: tuple[_Column, ...], data: nw.DataFrame[Any], order: list[int]) -> Features | None:
    """The whole frame at once, where that is quick and safe; None where it is not."""
    # polars would turn dates into numbers here without a word, pandas gives objects.
    if not data.implementation.is_pandas() or any(column.codes is not None for column in columns):
        return None
    values = data.to_numpy()
    if values.dtype.kind not in "fiub":
        return None
    return _finite(_narrow(values[:, order]), columns)


def _encode(
    columns: tuple[_Column, ...], series: list[nw.Series[Any]], *, learn: bool
) -> tuple[Features, tuple[_Column, ...]]:
    """The features, and the columns as they are after learning."""
    features = np.empty((len(series[0]), len(columns)), np.float32)
    after = list(columns)
    for place, (column, one) in enumerate(zip(columns, series, strict=True)):
        if column.codes is None:
            features[:, place] = _numbers(one, column.name)
        else:
            features[:, place], after[place] = _codes(one, column, learn=learn)
    return _finite(features, columns), tuple(after)


def _numbers(series: nw.Series[Any], name: str) -> Features:
    """A column of numbers, (n,), from any dtype whose values are numbers or missing."""
    _refuse_dates(series, name)
    values = series.to_numpy()
    if values.dtype.kind in "fiub":
        return _narrow(values)
    raws, scalars = _scalars(series, name)
    texts = (value for value in scalars.values() if isinstance(value, str))
    if (text := next(texts, None)) is not None:
        row = next(row for row, raw in enumerate(raws) if scalars[raw] == text)
        raise InputError(
            f"column {name!r} holds text where numbers belong ({text!r} in row {row}); "
            "convert it to numbers, or leave missing values empty"
        )
    numbers = {raw: math.nan if value is None else _float(value) for raw, value in scalars.items()}
    return _narrow(np.array([numbers[raw] for raw in raws], np.float64))


def _codes(series: nw.Series[Any], column: _Column, *, learn: bool) -> tuple[Features, _Column]:
    """A column of categories as codes, (n,), and the column after learning."""
    assert column.codes is not None
    raws, scalars = _scalars(series, column.name)
    met = [value for value in scalars.values() if value is not None]
    declared = _declared(series, column.name)
    _check_family(column, [*declared, *met])
    if learn:
        flags = [False, True] if any(isinstance(value, bool) for value in met) else []
        column = column.met([*declared, *flags, *met])
    codes = cast("dict[Category, int]", column.codes)
    free = len(codes)
    lookup = {raw: math.nan if value is None else codes.get(value, free) for raw, value in scalars.items()}
    return np.array([lookup[raw] for raw in raws], np.float32), column


def _declared(series: nw.Series[Any], name: str) -> list[Category]:
    """The categories that a dtype lists, whether or not a row has them."""
    import narwhals.stable.v2 as nw

    dtype = series.dtype
    listed: Iterable[Any] = ()
    if isinstance(dtype, nw.Boolean):
        listed = (False, True)
    elif isinstance(dtype, nw.Enum):
        listed = dtype.categories
    elif isinstance(dtype, nw.Categorical) and not series.implementation.is_polars():
        listed = series.cat.get_categories().to_list()
    return [value for value in (_scalar(one, name) for one in listed) if value is not None]


def _check_family(column: _Column, values: list[Category]) -> None:
    """One column holds text, or booleans, or numbers: a mix is a mistake somewhere upstream."""
    first: Category | None = next(iter(column.codes or values), None)
    if first is None:
        return
    family = _FAMILIES[type(first)]
    for value in values:
        if _FAMILIES[type(value)] != family:
            raise InputError(
                f"column {column.name!r} holds {_FAMILIES[type(value)]} ({value!r}) where {family} belong "
                f"(such as {first!r}); convert its values to one type"
            )
        if isinstance(value, float) and math.isinf(value):
            raise InputError(f"column {column.name!r} has an infinite category; remove it or name it in text")


def _scalars(series: nw.Series[Any], name: str) -> tuple[list[_Raw], dict[_Raw, Category | None]]:
    """The values of a series, and for each different one, by appearance, the plain scalar it stands for."""
    values = series.to_list()
    raws = list(zip(map(type, values), values, strict=True))
    try:
        return raws, {raw: _scalar(raw[1], name) for raw in dict.fromkeys(raws)}
    except TypeError as error:
        raise _unusable(name, str(series.dtype), values[:1]) from error


def _scalar(value: Any, name: str) -> Category | None:
    """A value as a str, bool, int or float (never a whole one); None where it is missing."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return None
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, float | np.floating | Decimal):
        number = float(value)
        return None if math.isnan(number) else int(number) if number.is_integer() else number
    raise _unusable(name, type(value).__name__, [value])


def _refuse_dates(series: nw.Series[Any], name: str) -> None:
    if series.dtype.is_temporal():
        raise _unusable(name, str(series.dtype), series.drop_nulls().to_list()[:1])


def _unusable(name: str, kind: str, examples: list[Any]) -> InputError:
    example = f" ({examples[0]!r})" if examples else ""
    return InputError(
        f"column {name!r} holds values of type {kind}{example}, which are neither numbers nor categories; "
        "convert them first: a date to numbers (year, weekday, days since some day), anything else to text"
    )


def _float(number: Category) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.inf


def _narrow(values: NDArray[Any]) -> Features:
    with np.errstate(over="ignore"):
        return np.array(values, np.float32, order="C")


def _finite(features: Features, columns: tuple[_Column, ...]) -> Features:
    """The features, if none is infinite."""
    infinite = np.isinf(features)
    if infinite.any():
        row, place = (int(index) for index in np.argwhere(infinite)[0])
        raise InputError(
            f"column {columns[place].name!r} is infinite in row {row}, or too large for a 32-bit float; "
            "give finite numbers, and leave missing ones empty"
        )
    return features


def _restored(name: Any, categories: Any) -> _Column:
    if not isinstance(name, str):
        raise TypeError(f"a column is named {name!r}")
    if categories is None:
        return _Column(name)
    if any(type(category) not in _FAMILIES for category in categories):
        raise TypeError(f"a category of {name!r} is not a plain value")
    codes = {category: code for code, category in enumerate(categories)}
    if len(codes) < len(categories):
        raise TypeError(f"a category of {name!r} comes twice")
    return _Column(name, codes)


#: Of each one-hot column: the column it stems from, the code it stands for, and whether it stands for a code at all.
OneHotLayout = tuple[Indices, Features, NDArray[np.bool_]]


class OneHot:
    """Codes -> blocks of zeros and ones, column by column in the order of `columns`.

    A number stays one column; a category becomes `categories[j]` columns, of which the one of its code is 1.
    A missing value or a code without a column leaves its block all zeros; a missing number stays NaN.
    """

    def __init__(self, columns: Columns) -> None:
        categories = np.asarray(columns.categories, np.intp)
        widths = np.maximum(categories, 1)
        starts = np.cumsum(widths) - widths
        self.width = int(widths.sum())
        self._given = len(columns)
        self._source = np.repeat(np.arange(len(columns)), widths)
        self._codes = (np.arange(self.width) - starts[self._source]).astype(np.float32)
        self._coded = categories[self._source] > 0
        self.layout: OneHotLayout = self._source, self._codes, self._coded
        self._any_coded = bool(self._coded.any())
        names = columns.names or tuple(f"x{place}" for place in range(len(columns)))
        self.names = tuple(
            f"{names[place]}={code:.0f}" if coded else names[place]
            for place, code, coded in zip(self._source, self._codes, self._coded, strict=True)
        )

    def __call__(self, contexts: Features, *, out: Features | None = None) -> Features:
        """The (n, width) features of (n, d) contexts, in `out` if given."""
        if contexts.ndim != 2 or contexts.shape[1] != self._given:
            raise ShapeError(f"contexts of shape {contexts.shape}; expected (n, {self._given})")
        if out is not None and (out.shape != (len(contexts), self.width) or out.dtype != np.float32):
            raise ShapeError(
                f"out is {out.dtype} of shape {out.shape}; expected float32, {(len(contexts), self.width)}"
            )
        # mode="raise" would go through a buffer; the indices are known to fit.
        spread: Features = contexts.take(self._source, axis=1, out=out, mode="clip")
        if self._any_coded:
            np.copyto(spread, spread == self._codes, where=self._coded)
        return spread
