"""Any frame by naming its columns, and a log as such a frame."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping, Sequence
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
import polars as pl

from treebandit.errors import LogError, ParameterError, nearest
from treebandit.evaluation.columns import CHOSEN_ARM, TIME, as_json
from treebandit.evaluation.log import DecisionLog, Duplicates
from treebandit.evaluation.log_files import reading


def from_columns(
    frame: Any,
    *,
    arm: str,
    reward: str,
    context: Sequence[str] = (),
    probability: str | float | Mapping[str, float] | None = None,
    arms: Sequence[str] | str | None = None,
    id: str | None = None,  # noqa: A002
    time: str | None = None,
    policy: str | None = None,
    source: str = "the frame",
    duplicates: Duplicates = "refuse",
) -> DecisionLog:
    """The log that a table with one decision a row holds.

    frame: a polars frame, or anything that polars makes one of, such as a pandas frame.
    arm, reward, id, time: names of columns. context: names of the columns with features.
    probability: the column that holds it; one number for all decisions; a dict by arm; None where it is not known.
    arms: all arms that every decision offered, or the column that lists them; None: all that occur.
    policy: the name of the policy that decided.
    duplicates: 'first' keeps the first of several rows with one id; 'refuse' raises a LogError.
    """
    with reading(source):
        table = _polars(frame)
        context = [context] if isinstance(context, str) else context
        listed = [each for each in (probability, arms) if isinstance(each, str)]
        for name in (arm, reward, *context, *(each for each in (id, time) if each is not None), *listed):
            if name not in table.columns:
                raise LogError(
                    f"{source} has no column {name!r}; {nearest(name, table.columns)}there are "
                    + ", ".join(table.columns)
                )
        label = table[arm].cast(pl.String)
        if label.null_count():
            raise LogError(
                f"{source}: {label.null_count():,} rows of {arm!r} are null; every decision chose an arm"
            )
        offered = table[arms].cast(pl.List(pl.String)) if isinstance(arms, str) else _offered(label, arms)
        places = _place(offered, label)
        if places.null_count():
            unknown = label.filter(places.is_null()).unique(maintain_order=True).head(3).to_list()
            raise LogError(
                f"{source}: {unknown} were chosen but are not among the arms; list all that were offered"
            )
        ids = table[id].cast(pl.String) if id else pl.Series([f"row-{n}" for n in range(len(table))])
        made = {
            "id": ids,
            "time": None if time is None else _times(table[time]),
            "arms": offered,
            "context": _contexts(table.select(context)) if context else None,
            "chosen": places.cast(pl.Int32).reshape((-1, 1)).arr.to_list(),
            "probability": _probability(table, label, probability),
            "reward": table[reward].cast(pl.Float64),
            "policy": policy,
        }
        return DecisionLog.from_frame(pl.DataFrame(made), source=source, duplicates=duplicates)


def _contexts(table: pl.DataFrame) -> pl.Series:
    return table.select(as_json(pl.struct(pl.all()), pl.Struct(table.schema))).to_series()


def to_columns(log: DecisionLog) -> pl.DataFrame:
    """One row per decision: id, time, arm, probability, reward, and one column per feature that all arms share.

    Arms without names are the numbers of their rows. Features that only one arm has are left out.
    """
    log.check()
    rows = log.collected().frame.collect()
    if rows.select((pl.col("chosen").list.len() > 1).any()).item():
        raise LogError(f"{log.source} chooses several rows at a time; a table has one arm a row")
    found = rows.select("id", "time", CHOSEN_ARM.alias("arm"), "probability", "reward")
    if rows["context"].null_count() == len(rows):
        return found
    with reading(log.source):
        contexts = rows["context"].str.json_decode(infer_schema_length=None)
    if not isinstance(contexts.dtype, pl.Struct | pl.List):
        raise LogError(
            f"{log.source} has contexts that are neither objects nor lists; a table has named columns"
        )
    if not isinstance(contexts.dtype, pl.Struct):
        width = int(np.max(contexts.list.len().drop_nulls().to_numpy(), initial=0))
        return found.with_columns(
            contexts.list.get(place, null_on_oob=True).alias(f"x{place}") for place in range(width)
        )
    features = contexts.struct.unnest()
    return found.with_columns(
        features.rename({name: f"context.{name}" for name in features.columns if name in found.columns})
    )


def _polars(frame: Any) -> pl.DataFrame:
    if isinstance(frame, pl.DataFrame):
        return frame
    try:
        if isinstance(frame, pl.LazyFrame):
            return frame.collect()
        return pl.DataFrame(frame)
    except (TypeError, ValueError, pl.exceptions.PolarsError) as error:
        raise LogError(
            f"{type(frame).__name__} is no table ({error}); give a frame or a dict of columns"
        ) from error


def _offered(label: pl.Series, arms: Sequence[str] | None) -> pl.Series:
    names = sorted(label.unique().to_list()) if arms is None else [str(arm) for arm in arms]
    return pl.Series([names], dtype=pl.List(pl.String)).new_from_index(0, len(label))


def _place(offered: pl.Series, label: pl.Series) -> pl.Series:
    """(n,), the place of each label among its arms; null where it is not there."""
    rows = pl.DataFrame({"arm": label, "arms": offered}).with_row_index()
    places = pl.int_ranges(pl.col("arms").list.len()).alias("place")
    found = rows.with_columns(places).explode("arms", "place").filter(pl.col("arm") == pl.col("arms"))
    first = found.unique("index", keep="first", maintain_order=True)
    return rows.join(first, on="index", how="left", maintain_order="left")["place"]


def _probability(table: pl.DataFrame, label: pl.Series, given: Any) -> pl.Series | float | None:
    if isinstance(given, str):
        return table[given].cast(pl.Float64)
    if isinstance(given, Mapping):
        missing = set(label.unique()) - {str(arm) for arm in given}
        if missing:
            raise ParameterError(
                f"probability has no entry for {', '.join(sorted(missing))}; give one per arm"
            )
        chances = {str(arm): _number(value) for arm, value in given.items()}
        return label.replace_strict(chances, return_dtype=pl.Float64)
    return None if given is None else _number(given)


def _number(given: Any) -> float:
    if isinstance(given, bool) or not isinstance(given, Real | Decimal):
        raise ParameterError(
            f"probability is {reprlib.repr(given)}; give the name of its column, one number for all decisions, or a "
            "dict of a number for each arm"
        )
    return float(given)


def _times(series: pl.Series) -> pl.Series:
    if series.dtype == pl.String:
        series = series.str.to_datetime(time_unit="us", strict=True)
    kind = series.dtype
    if isinstance(kind, pl.Datetime) and kind.time_zone is None:
        series = series.dt.replace_time_zone("UTC")
    # What is no time is told when the columns of the log are looked at.
    return series.cast(TIME) if isinstance(kind, pl.Datetime | pl.Date) else series
