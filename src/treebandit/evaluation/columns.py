"""The columns of a decision log, and how frames of other types are brought to them."""

from __future__ import annotations

import json
from typing import Any

import polars as pl

from treebandit.errors import LogError, nearest

TIME = pl.Datetime("us", "UTC")

#: One row is one decision; docs/evaluation.md tells what each column means and where it may be null.
SCHEMA: dict[str, pl.DataType] = {
    "id": pl.String(),
    "time": TIME,
    "arms": pl.List(pl.String),
    "context": pl.String(),
    "arm_contexts": pl.List(pl.String),
    "chosen": pl.List(pl.Int32),
    "probability": pl.Float64(),
    "probabilities": pl.List(pl.Float64),
    "reward": pl.Float64(),
    "rewards": pl.List(pl.Float64),
    "reward_time": TIME,
    "policy": pl.String(),
    "version": pl.String(),
    "holdout": pl.Boolean(),
}
#: NDJSON has times as text, and contexts as objects, which polars reads as their text.
TEXT_SCHEMA = {name: pl.String() if kind == TIME else kind for name, kind in SCHEMA.items()}
#: How many candidates a decision has.
OFFERED = pl.coalesce(pl.col("arms").list.len(), pl.col("arm_contexts").list.len()).alias("offered")
#: The first, in most logs the only, chosen arm; the number of its row where arms have no names.
_ROW = pl.col("chosen").list.first()
CHOSEN_ARM = pl.coalesce(pl.col("arms").list.get(_ROW, null_on_oob=True), _ROW.cast(pl.String))
#: Whether it is not known how likely a chosen row was.
WITHOUT_PROBABILITY = pl.col("probabilities").is_null() & (
    (pl.col("chosen").list.len() > 1) | pl.col("probability").is_null()
)


def from_json(text: str) -> Any:
    """A context as it was logged; a LogError where it is no JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise LogError(
            f"a context cannot be read as JSON ({error}): {text[:60]!r}; log a JSON object, or a list of numbers"
        ) from error


def as_json(column: pl.Expr, kind: pl.DataType) -> pl.Expr:
    """Objects as their JSON text; decimal numbers as numbers, which polars would write as text."""
    plain = _without_decimals(kind)
    return (column if plain == kind else column.cast(plain)).struct.json_encode()


def _without_decimals(kind: Any) -> Any:
    if isinstance(kind, pl.Struct):
        return pl.Struct([pl.Field(each.name, _without_decimals(each.dtype)) for each in kind.fields])
    if isinstance(kind, pl.List):
        return pl.List(_without_decimals(kind.inner))
    return pl.Float64() if isinstance(kind, pl.Decimal) else kind


def conform(frame: pl.LazyFrame, source: str) -> pl.LazyFrame:
    """The columns of the schema, cast to its types; missing ones are null, others are left out."""
    given = frame.collect_schema()
    if not given.keys() & {"id", "chosen"}:
        raise LogError(
            f"{source} has neither id nor chosen among its columns ({', '.join(given) or 'none'}); "
            f"{nearest(next(iter(given), ''), SCHEMA)}a decision log has the columns {', '.join(SCHEMA)}; other files "
            "are read by treebandit.evaluation.from_columns and the converters"
        )
    for name in given.keys() & SCHEMA.keys():
        if not _can_be(name, given[name]):
            # Whole numbers may count seconds, or thousandths or millionths of them.
            unit = " or text in ISO 8601, such as 2026-01-01T12:00:00Z; pl.from_epoch makes times of numbers"
            raise LogError(
                f"{source} has {given[name]} in the column {name}; give {SCHEMA[name]}"
                + (unit if SCHEMA[name] == TIME else "")
            )
    columns = frame.select(
        _cast(name, given[name], kind) if name in given else pl.lit(None, kind).alias(name)
        for name, kind in SCHEMA.items()
    )
    if "rewards" in given:
        columns = columns.with_columns(reward=pl.coalesce("reward", pl.col("rewards").list.sum()))
    if "probabilities" in given:
        row = pl.when((pl.col("chosen").list.len() == 1) & (_ROW >= 0)).then(_ROW)
        known = pl.col("probabilities").list.get(row, null_on_oob=True)
        columns = columns.with_columns(probability=pl.coalesce("probability", known))
    return columns


def _with_zone(text: pl.Expr) -> pl.Expr:
    """Times in ISO 8601; those without a zone are in UTC, and days without a time begin there."""
    zoned = text.str.contains(r":.*(?:[Zz]|[+-]\d{2}(?::?\d{2})?)$")
    return (
        pl.when(zoned).then(text).when(text.str.contains(":")).then(text + "Z").otherwise(text + "T00:00:00Z")
    )


def _can_be(name: str, given: pl.DataType) -> bool:
    """Whether values of a type can stand in a column: objects in contexts alone, and lists where lists are wanted."""
    wanted = SCHEMA[name]
    if isinstance(given, pl.Struct):
        return name == "context"
    if isinstance(wanted, pl.List):
        return isinstance(given, pl.List | pl.Array | pl.Null) or (name == "chosen" and given.is_integer())
    if wanted == TIME:
        return isinstance(given, pl.Datetime | pl.Date | pl.String | pl.Null)
    return not isinstance(given, pl.List | pl.Array)


def _cast(name: str, given: pl.DataType, wanted: pl.DataType) -> pl.Expr:
    column = pl.col(name)
    if given == wanted:
        return column
    if name == "context" and isinstance(given, pl.Struct):
        return pl.when(column.is_not_null()).then(as_json(column, given)).alias(name)
    if name == "arm_contexts" and isinstance(given, pl.List) and isinstance(given.inner, pl.Struct):
        encoded = as_json(pl.element(), given.inner)
        return column.list.eval(pl.when(pl.element().is_not_null()).then(encoded))
    if wanted == TIME and given == pl.String():
        return _with_zone(column).str.to_datetime("%+", time_unit="us", time_zone="UTC")
    if wanted == TIME and isinstance(given, pl.Datetime):
        zoned = column if given.time_zone else column.dt.replace_time_zone("UTC")
        return zoned.dt.convert_time_zone("UTC").dt.cast_time_unit("us")
    if name == "chosen" and given.is_integer():
        return pl.when(column.is_not_null()).then(pl.concat_list(column)).cast(wanted).alias(name)
    return column.cast(wanted)
