"""Data frames of any library, read column by column, or row by row where they are small."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from treebandit.core import Floats
from treebandit.errors import InputError, ShapeError
from treebandit.features.columns import Column, GivenColumn, check_family, numbers, plain, unusable

if TYPE_CHECKING:
    import narwhals.stable.v2 as nw

_FRAME_LIBRARIES = frozenset({"pandas", "polars", "pyarrow", "modin", "cudf", "dask", "narwhals"})
_FRAME_CLASSES = frozenset({"DataFrame", "LazyFrame", "Table", "RecordBatch"})
#: What only things with named columns have.
_TABLE_MARKS = ("__dataframe__", "column_names")
#: So many rows are read value by value sooner than column by column.
_FEW_ROWS = 8


def is_frame(thing: Any) -> bool:
    """Whether `thing` is a data frame (pandas, polars, pyarrow and their like); imports nothing."""
    return _is_of(thing, _FRAME_CLASSES)


def refuse_table(thing: Any) -> None:
    """Raise an InputError where `thing` has named columns, which it would lose as an array."""
    streams_columns = hasattr(thing, "__arrow_c_stream__") and (
        hasattr(thing, "columns") or hasattr(thing, "schema")
    )
    if streams_columns or any(hasattr(thing, mark) for mark in _TABLE_MARKS):
        kind = f"{type(thing).__module__}.{type(thing).__name__}"
        raise InputError(
            f"{kind} is a table of a kind that is not known; give a pandas, polars or pyarrow frame"
        )


def is_series(thing: Any) -> bool:
    """Whether `thing` is a pandas series, which names its values."""
    return _is_of(thing, ("Series",)) and hasattr(thing, "index")


def rows_of(frame: Any, rows: Sequence[int] | None = None) -> Any:
    """These rows of a frame, or a copy of all of it, as a frame of the same library."""
    library = type(frame).__module__.partition(".")[0]
    if type(frame).__name__ == "DataFrame" and library in ("pandas", "polars"):
        if rows is None or len(rows) == len(frame) == 1:
            return frame.copy() if library == "pandas" else frame.clone()
        return frame.iloc[list(rows)] if library == "pandas" else frame[list(rows)]
    data = eager(frame)
    return data[list(range(len(data)) if rows is None else rows)].to_native()


def stacked(frames: Sequence[Any]) -> Any | None:
    """Frames of one library and one schema, one below the other; None where they differ, and must be read by rows."""
    import narwhals.stable.v2 as nw

    data = [eager(frame) for frame in frames]
    pandas = [each.to_native() for each in data if each.implementation.is_pandas()]
    listed = _differing_categories(pandas) if len(pandas) == len(data) else {}
    schemas = [{**each.schema, **dict.fromkeys(listed)} for each in data]
    kinds = {
        (each.implementation, tuple(map(str, schema.items())))
        for each, schema in zip(data, schemas, strict=True)
    }
    if len(kinds) > 1:
        return None
    found: Any = nw.concat([each.drop(list(listed)) for each in data] if listed else data).to_native()
    for name, categories in listed.items():
        values = [value for frame in pandas for value in frame[name].tolist()]
        column = type(pandas[0][name])(values, dtype=object).astype("category")
        found.insert(data[0].columns.index(name), name, column.cat.set_categories(categories).array)
    return found


def _differing_categories(frames: list[Any]) -> dict[Any, list[Any]]:
    """The categories of all pandas frames, for each column of categories whose type is not the same in all of them.

    pandas would not keep such a column categorical.
    """
    found: dict[Any, list[Any]] = {}
    types = [dict(zip(frame.columns, frame.dtypes, strict=True)) for frame in frames]
    if any(each.keys() != types[0].keys() for each in types):
        return found
    for name in types[0]:
        kinds = [each[name] for each in types]
        if any(str(kind) == "category" for kind in kinds) and any(kind != kinds[0] for kind in kinds):
            parts = [frame[name].astype("category").cat.categories.tolist() for frame in frames]
            values = plain(str(name), [one for part in parts for one in part])[1]
            check_family(Column(str(name)), [one for one in values.values() if one is not None])
            found[name] = list(dict.fromkeys(one for _, one in values))
    return found


def as_dicts(frame: Any) -> list[dict[str, Any]]:
    """The rows of a frame."""
    return eager(frame).rows(named=True)


def _is_of(thing: Any, names: Iterable[str]) -> bool:
    return any(
        kind.__name__ in names and kind.__module__.partition(".")[0] in _FRAME_LIBRARIES
        for kind in type(thing).__mro__
    )


def few_rows(frame: Any) -> list[dict[str, Any]] | None:
    """The rows of a small pandas or polars frame as dicts, without the cost of reading columns; None of any other.

    Values keep the types they have in the frame, so that dates and the like still differ from numbers.
    """
    library = type(frame).__module__.partition(".")[0]
    if type(frame).__name__ != "DataFrame" or library not in ("pandas", "polars") or len(frame) > _FEW_ROWS:
        return None
    if library == "polars":
        names, rows = frame.columns, frame.rows()
    else:
        # As objects: an array of one type has no place for the missing values of a categorical.
        names, rows = frame.columns.tolist(), frame.to_numpy(object).tolist()
    found = [dict(zip(names, row, strict=True)) for row in rows]
    return found if not found or len(found[0]) == len(names) else None


def whole_table(data: nw.DataFrame[Any]) -> tuple[list[str], Floats] | None:
    """Names and values of a pandas frame of numbers, in one piece; None of any other frame."""
    # Other types may become wrong numbers without a word: dates of polars, missing values of categoricals.
    if not data.implementation.is_pandas() or not all(map(_is_numpy_number, data.to_native().dtypes)):
        return None
    values = data.to_numpy()
    return ([str(name) for name in data.columns], values) if values.dtype.kind in "fiub" else None


def _is_numpy_number(dtype: Any) -> bool:
    return isinstance(dtype, np.dtype) and dtype.kind in "fiub"


def eager(frame: Any) -> nw.DataFrame[Any]:
    """The frame as narwhals sees it, if it is in memory."""
    import narwhals.stable.v2 as nw
    from narwhals.exceptions import DuplicateError

    native = nw.to_native(frame, pass_through=True)
    if _is_of(native, ("RecordBatch",)):
        import pyarrow as pa

        native = pa.Table.from_batches([native])
    try:
        return nw.from_native(native, eager_only=True)
    except DuplicateError as error:
        raise ShapeError("two columns of the frame have the same name; rename one of them") from error
    except TypeError as error:
        kind = f"{type(frame).__module__}.{type(frame).__name__}"
        raise InputError(
            f"{kind} is not a frame in memory; give a pandas or polars DataFrame (a lazy one: .collect())"
        ) from error


def with_numbers(frame: Any) -> Any:
    """The frame with every column as numbers, missing ones NaN; an InputError where one holds anything else."""
    import narwhals.stable.v2 as nw

    data = eager(frame)
    others = [cast("nw.Series[Any]", each) for each in data.iter_columns() if not each.dtype.is_numeric()]
    read = [
        nw.new_series(each.name, numbers(_read_series(each)), nw.Float64, backend=data.implementation)
        for each in others
    ]
    return data.with_columns(*read).to_native() if read else data.to_native()


def read_frame(data: nw.DataFrame[Any]) -> list[GivenColumn]:
    """The columns of a frame, in its order."""
    given = [_read_series(cast("nw.Series[Any]", series)) for series in data.iter_columns()]
    names = [one.name for one in given]
    if not names or len(set(names)) < len(names):
        raise ShapeError(f"the columns are {names}; give at least one, each its own name")
    return given


def _read_series(series: nw.Series[Any]) -> GivenColumn:
    import narwhals.stable.v2 as nw

    name, dtype = str(series.name), series.dtype
    if dtype.is_temporal():
        raise unusable(name, str(dtype), series.drop_nulls().to_list()[:1])
    if dtype.is_numeric():
        values = series.to_numpy()
        return GivenColumn(name, values if values.dtype.kind in "fiub" else series.to_list(), numeric=True)
    listed: Iterable[Any] = ()
    numeric = False if isinstance(dtype, nw.Boolean | nw.Enum | nw.Categorical) else None
    if isinstance(dtype, nw.Boolean):
        listed = (False, True)
    elif isinstance(dtype, nw.Enum):
        listed = dtype.categories
    elif isinstance(dtype, nw.Categorical) and _lists_categories(series):
        listed = series.cat.get_categories().to_list()
    elif isinstance(dtype, nw.String) and str(getattr(series.to_native(), "dtype", "")) != "object":
        numeric = False
    categories = plain(name, list(listed))[1].values()
    return GivenColumn(name, series.to_list(), tuple(one for one in categories if one is not None), numeric)


def _lists_categories(series: nw.Series[Any]) -> bool:
    """Whether a categorical series lists its own categories: polars has those of all, pandas over pyarrow none."""
    if series.implementation.is_pandas_like():
        return str(series.to_native().dtype) == "category"
    return not series.implementation.is_polars()
