"""A labelled table: features as float32, categories and classes as codes; read from CSV or parquet."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from treebandit.core import Columns, Features, Indices
from treebandit.errors import DataError, InputError, MissingExtraError
from treebandit.features.frame_encoder import FrameEncoder
from treebandit.features.scaling import ColumnUnits

try:
    import polars as pl
except ImportError as error:
    raise MissingExtraError("polars", "experiments") from error


#: Marks of a missing value in a column of numbers.
_MISSING_MARKS = (
    *("", "NA", "N/A", "NaN", "NULL", "None", "?", "-", "--", "."),
    *("na", "n/a", "nan", "null", "none", "#N/A", "missing"),
)


@dataclass(frozen=True, eq=False)
class LabelledTable:
    """Rows with features and a class each.

    contexts: (n, d) float32, categories as codes, missing numbers as NaN.
    labels: (n,), index into `classes`.
    classes: their names.
    columns: what the d columns are.

    >>> from treebandit.datasets import load
    >>> table = load("mushroom")
    >>> table.contexts.shape, table.classes
    ((8124, 22), ('e', 'p'))
    """

    contexts: Features
    labels: Indices
    classes: tuple[str, ...]
    columns: Columns

    def __post_init__(self) -> None:
        self.contexts.setflags(write=False)
        self.labels.setflags(write=False)

    def __len__(self) -> int:
        return len(self.labels)


def read_labelled(
    path: str | Path,
    label: str,
    *,
    sha256: str | None = None,
    numeric: tuple[str, ...] | None = None,
) -> LabelledTable:
    """Read a CSV (also gzipped) or parquet file whose column `label` holds the class of each row.

    sha256: what the file must hash to. numeric: the columns that are numbers; None finds them in the data, where a
    number may be missing as an empty cell or as one of the usual marks (NA, ?, null). A missing label is refused.
    """
    path = Path(path)
    content = read_checked(path, sha256)
    types: Mapping[str, pl.DataType] | None = None
    try:
        if path.suffix == ".parquet":
            frame = pl.read_parquet(content)
        else:
            header = pl.read_csv(content, n_rows=0).columns
            if numeric is not None:
                types = {name: pl.Float64() if name in numeric else pl.String() for name in header}
            frame = pl.read_csv(content, schema_overrides=types, infer_schema_length=None)
            if numeric is None:
                texts = [one for one in frame if one.dtype == pl.String]
                frame = frame.with_columns(
                    [
                        _without_marks(one) if one.name == label else _numbers_or_text(one, str(path))
                        for one in texts
                    ]
                )
    except (pl.exceptions.PolarsError, OSError) as error:
        raise DataError(f"{path} cannot be read as a table: {error}") from error
    return encode(frame, label, source=str(path))


def read_checked(path: Path, sha256: str | None) -> bytes:
    """The bytes of a file, after its sha256 was found to be the one given."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path} cannot be opened: {error.strerror}; check the path") from error
    found = hashlib.sha256(content).hexdigest()
    if sha256 is not None and found != sha256:
        raise DataError(
            f"{path} has sha256 {found}, expected {sha256}; the file is damaged or was changed: restore it"
        )
    return content


def _numbers_or_text(column: pl.Series, source: str) -> pl.Series:
    """A column of text as numbers, if it holds nothing but numbers and marks of missing ones."""
    present, numbers = _numbers(column)
    odd = present & numbers.is_null()
    if not present.any() or 2 * odd.sum() >= present.sum():
        return column
    if odd.any():
        row = int(odd.arg_max() or 0)
        raise DataError(
            f"column {column.name!r} of {source} holds numbers, but {column[row]!r} in row {row + 1}; correct it, "
            "leave it empty if it is missing, or give the column as text in a parquet file"
        )
    return numbers


def _without_marks(column: pl.Series) -> pl.Series:
    """Labels as text, without marks of missing ones if all others are numbers; among words they are words."""
    present, numbers = _numbers(column)
    whole = present.any() and bool((numbers.is_not_null() | ~present).all())
    return column.set(~present, None) if whole else column


def _numbers(column: pl.Series) -> tuple[pl.Series, pl.Series]:
    """Where a column of text holds more than a mark of a missing value, and its numbers there."""
    marked = pl.Series(column.name, column.str.strip_chars())
    present = marked.is_not_null() & ~marked.is_in(_MISSING_MARKS)
    return present, marked.set(~present, None).cast(pl.Float64, strict=False)


def encode(frame: pl.DataFrame, label: str, *, source: str = "the table") -> LabelledTable:
    """Turn a frame into a labelled table, its features as agents encode the same frame."""
    if label not in frame.columns:
        raise DataError(f"{source} has no column {label!r}; its columns are {', '.join(frame.columns)}")
    if frame.width < 2 or not frame.height:
        raise DataError(
            f"{source} has {frame.height} rows and {frame.width} columns; a feature and rows are needed"
        )
    labels, classes = _encode_labels(frame[label], source)
    try:
        values, encoder = FrameEncoder().encode(frame.drop(label))
        units = ColumnUnits.none(encoder.columns).completed(values)
        contexts = units.narrow(values, encoder.columns)
    except InputError as error:
        raise DataError(f"{source} cannot be used: {error} (rows count from 0)") from error
    return LabelledTable(contexts, labels, classes, encoder.columns)


def _encode_labels(column: pl.Series, source: str) -> tuple[Indices, tuple[str, ...]]:
    kind = column.dtype
    if kind.is_float():
        column = column.fill_nan(None)
    if kind.is_float() and not bool((column.is_null() | (column == column.round())).all()):
        raise DataError(
            f"label {column.name!r} of {source} holds fractions; a class is text or a whole number"
        )
    if column.null_count():
        raise DataError(
            f"label {column.name!r} of {source} is missing in {column.null_count()} rows; drop them"
        )
    if not (kind.is_numeric() or kind == pl.Boolean or _is_text(kind)):
        raise DataError(
            f"label {column.name!r} of {source} is of type {kind}; a class is text or a whole number"
        )
    if kind.is_float():
        column = column.cast(pl.Int64)
    if _is_text(kind):
        column = column.cast(pl.String)
    classes = column.unique().sort()
    if len(classes) < 2:
        raise DataError(
            f"label {column.name!r} of {source} has one class, {classes[0]!r}; at least two are needed"
        )
    return classes.search_sorted(column).to_numpy().astype(np.intp), tuple(str(value) for value in classes)


def _is_text(kind: pl.DataType) -> bool:
    return kind in (pl.String, pl.Categorical, pl.Enum)
