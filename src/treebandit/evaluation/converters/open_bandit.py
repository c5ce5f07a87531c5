"""Logs of the Open Bandit Dataset (ZOZOTOWN) as CSV: one row is one position of a page of three."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import polars as pl

from treebandit.errors import LogError
from treebandit.evaluation.columns import CHOSEN_ARM, TIME
from treebandit.evaluation.log import DecisionLog
from treebandit.evaluation.log_files import reading

_NEEDED = ("timestamp", "item_id", "position", "click", "propensity_score")
_AFFINITY = "user-item_affinity_"
_USER = "user_feature_"
#: More items than any shop offers in one place; an item_id beyond is a mistake, and would fill the memory.
_MOST_ITEMS = 100_000


def read_open_bandit(path: str | os.PathLike[str], *, items: int | None = None) -> DecisionLog:
    """The log in a CSV file of the Open Bandit Dataset, such as obp/dataset/obd/bts/men/men.csv.

    The arms are the items 0 to items - 1; None: as many as the file has columns of affinities, else as the
    `item_context.csv` beside it lists, else as occur. Context: position and the user's features; each arm's own: the
    user's affinity to it. Each position of a page is a decision of its own, as the dataset's makers treat it: what else
    the page showed is not in the file.
    """
    place = Path(path)
    with reading(str(path), "read as CSV of the Open Bandit Dataset"):
        if not place.exists():
            raise LogError(f"{place} does not exist; give a CSV file of the Open Bandit Dataset")
        return _log(place, items)


def _log(place: Path, items: int | None) -> DecisionLog:
    table = pl.read_csv(place, glob=False, infer_schema_length=None)
    missing = [name for name in _NEEDED if name not in table.columns]
    if missing:
        raise LogError(
            f"{place} lacks {', '.join(missing)}; a log of the Open Bandit Dataset has these columns"
        )
    affinities = sorted(
        (name for name in table.columns if name.startswith(_AFFINITY)),
        key=lambda name: int(name.removeprefix(_AFFINITY)),
    )
    known = table["item_id"].cast(pl.Int64)
    if known.null_count() or int(np.min(known.to_numpy(), initial=0)) < 0:
        raise LogError(f"{place}: item_id is missing or negative in some rows; give items from 0 on")
    count = items or len(affinities) or _listed(place) or int(np.max(known.to_numpy(), initial=0)) + 1
    if count > _MOST_ITEMS:
        raise LogError(
            f"{place}: item_id goes up to {count - 1:,}; number the items from 0 to {_MOST_ITEMS - 1:,}"
        )
    users = [name for name in table.columns if name.startswith(_USER)]
    arms = pl.Series([[str(item) for item in range(count)]])
    frame = table.select(
        pl.int_range(pl.len()).cast(pl.String).alias("id"),
        time=pl.col("timestamp").str.to_datetime("%+", time_unit="us", time_zone="UTC").cast(TIME),
        arms=pl.lit(arms).first(),
        context=pl.struct("position", *users).struct.json_encode(),
        chosen=pl.concat_list(pl.col("item_id").cast(pl.Int32)),
        probability=pl.col("propensity_score").cast(pl.Float64),
        reward=pl.col("click").cast(pl.Float64),
        policy=pl.lit(place.parent.parent.name),
        arm_contexts=pl.concat_list(map(_affinity, affinities)) if len(affinities) == count else None,
    )
    return DecisionLog.from_frame(frame, source=str(place))


def _affinity(name: str) -> pl.Expr:
    return pl.concat_str(pl.lit('{"affinity":'), pl.col(name).cast(pl.Float64), pl.lit("}"))


def _listed(place: Path) -> int:
    beside = place.with_name("item_context.csv")
    return len(pl.read_csv(beside, glob=False)) if beside.exists() else 0


def write_open_bandit(log: DecisionLog, path: str | os.PathLike[str]) -> None:
    """Write a log as such a file; arms must be the items 0, 1, ... by number, and every decision have a reward."""
    log.check()
    with reading(os.fspath(path), "written as CSV of the Open Bandit Dataset"):
        _table(log).write_csv(Path(path))


def _table(log: DecisionLog) -> pl.DataFrame:
    rows = log.collected().frame.collect()
    item = rows.select(item=CHOSEN_ARM.cast(pl.Int64, strict=False))["item"]
    if item.null_count() or rows["reward"].null_count() or rows["probability"].null_count():
        raise LogError(
            f"{log.source} cannot be written as Open Bandit CSV: arms must be whole numbers, and every decision needs "
            "a probability and a reward"
        )
    if (rows["chosen"].list.len() > 1).any():
        raise LogError(f"{log.source} chooses several rows at a time; Open Bandit CSV has one item a row")
    contexts = rows["context"].str.json_decode(infer_schema_length=None)
    features = contexts.struct.unnest() if isinstance(contexts.dtype, pl.Struct) else pl.DataFrame()
    position = features["position"] if "position" in features.columns else pl.Series([1] * len(rows))
    made = {
        "": np.arange(len(rows)),
        "timestamp": rows["time"].dt.strftime("%Y-%m-%d %H:%M:%S%.6f+00:00"),
        "item_id": item,
        "position": position,
        "click": rows["reward"].cast(pl.Int64) if (rows["reward"] % 1 == 0).all() else rows["reward"],
        "propensity_score": rows["probability"],
    }
    table = pl.DataFrame(made).with_columns(features[name] for name in features.columns if name != "position")
    if rows["arm_contexts"].null_count() == 0:
        own = rows["arm_contexts"].list.to_struct(
            fields=[
                f"{_AFFINITY}{place}"
                for place in range(int(np.max(rows["arm_contexts"].list.len().to_numpy(), initial=0)))
            ]
        )
        kind = pl.Struct({"affinity": pl.Float64})
        table = table.with_columns(
            series.str.json_decode(kind).struct.field("affinity").alias(series.name)
            for series in own.struct.unnest().iter_columns()
        )
    return table
