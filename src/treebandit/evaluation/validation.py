"""What must hold in every row of a decision log, checked column by column, a batch at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import polars as pl

from treebandit.errors import LogError
from treebandit.features.values import LARGEST

#: Probabilities that went through 32-bit numbers or six printed digits are off by this much.
TOLERANCE = 1e-3

#: What is checked; contexts are checked where they are read.
CHECKED = ("id", "chosen", "probability", "probabilities", "reward", "rewards", "arms", "arm_contexts")
_OFFERED = pl.coalesce(pl.col("arms").list.len(), pl.col("arm_contexts").list.len())
_CHOSEN = pl.col("chosen").list
_PROBABILITIES = pl.col("probabilities").list

#: What cannot be true of a row -> what to do about it.
_IMPOSSIBLE: dict[str, tuple[pl.Expr, str]] = {
    "without an id": (pl.col("id").is_null(), "give each decision an id of its own"),
    "without a chosen row": (_CHOSEN.len() < 1, "list the chosen rows, such as [2]"),
    "without arms and without arm_contexts": (
        _OFFERED.is_null(),
        "list what was offered, so that the number of candidates is known",
    ),
    "with an arm that is null": (
        pl.col("arms").list.drop_nulls().list.len() < pl.col("arms").list.len(),
        "name every arm, or leave arms out",
    ),
    "with arms and arm_contexts of different length": (
        pl.col("arms").list.len() != pl.col("arm_contexts").list.len(),
        "give one of each per candidate",
    ),
    "with a chosen row that was not offered": (
        (_CHOSEN.min() < 0) | (_CHOSEN.max() >= _OFFERED),
        "rows go from 0 to the number of candidates - 1",
    ),
    "with a chosen row that is null": (_CHOSEN.drop_nulls().list.len() < _CHOSEN.len(), "give row numbers"),
    "with a row chosen twice": (_CHOSEN.n_unique() < _CHOSEN.len(), "list each chosen row once"),
    "with a probability outside (0, 1]": (
        ~((pl.col("probability") > 0) & (pl.col("probability") <= 1)) | pl.col("probability").is_nan(),
        "log the probability with which the choice was made; leave it null where it is not known",
    ),
    "with probabilities of another number than the candidates": (
        (_PROBABILITIES.len() != _OFFERED) | (_PROBABILITIES.drop_nulls().list.len() < _PROBABILITIES.len()),
        "give one per candidate, or null",
    ),
    "with probabilities outside [0, 1]": (
        (_PROBABILITIES.min() < 0) | (_PROBABILITIES.max() > 1 + TOLERANCE) | _PROBABILITIES.sum().is_nan(),
        "give for each candidate the probability that it is chosen",
    ),
    "with probabilities that do not sum to the number of chosen rows": (
        (_PROBABILITIES.sum() - _CHOSEN.len()).abs() > TOLERANCE * _OFFERED,
        "give for each candidate the probability that it is chosen",
    ),
    "with a chosen row of probability 0": (
        _PROBABILITIES.get(_CHOSEN.first(), null_on_oob=True) <= 0,
        "what was chosen had a probability above 0",
    ),
    "with a probability unlike the one in probabilities": (
        (_CHOSEN.len() == 1)
        & ((_PROBABILITIES.get(_CHOSEN.first(), null_on_oob=True) - pl.col("probability")).abs() > TOLERANCE),
        "both are the probability of the chosen row",
    ),
    "with a reward that is not finite": (
        ~pl.col("reward").is_finite(),
        "leave it null where there is none yet",
    ),
    f"with a reward beyond {LARGEST:.1e}": (
        pl.max_horizontal(pl.col("reward").abs(), pl.col("rewards").list.eval(pl.element().abs()).list.max())
        > LARGEST,
        "give rewards in a larger unit",
    ),
    "with rewards of another number than the chosen rows": (
        pl.col("rewards").list.len() != _CHOSEN.len(),
        "give one per chosen row, or reward alone",
    ),
    "with rewards that are not finite": (
        ~pl.col("rewards").list.sum().is_finite()
        | (pl.col("rewards").list.drop_nulls().list.len() < pl.col("rewards").list.len()),
        "leave the whole list null where there are none yet",
    ),
}


@dataclass(frozen=True, slots=True)
class LogSummary:
    """What a checked log holds: decisions, how many have rewards and probabilities, the arms and their counts."""

    decisions: int
    rewarded: int
    with_probability: int
    most_offered: int
    sets: bool


def check_batches(batches: Iterable[pl.DataFrame], source: str) -> LogSummary:
    """Raise a LogError that names the first impossible row and counts all; else what the log holds."""
    counts: Counter[str] = Counter()
    first: dict[str, str] = {}
    totals: Counter[str] = Counter()
    most, sets = 0, False
    for batch in batches:
        if not batch.height:
            continue
        found = batch.select(
            rewarded=pl.col("reward").count(),
            known=pl.col("probability").count(),
            most=_OFFERED.max(),
            sets=(_CHOSEN.len() > 1).any(),
        ).row(0, named=True)
        if not _is_plainly_right(batch):
            _count_impossible(batch, counts, first)
        totals.update(decisions=batch.height, rewarded=found["rewarded"], known=found["known"])
        most, sets = max(most, found["most"] or 0), sets or found["sets"]
    wrong = [name for name in _IMPOSSIBLE if counts[name]]
    if wrong:
        lines = [
            f"{counts[name]:,} {name} (the first: id {first[name]!r}); {_IMPOSSIBLE[name][1]}"
            for name in wrong
        ]
        raise LogError(f"{source}: of {totals['decisions']:,} decisions " + ". ".join(lines))
    return LogSummary(totals["decisions"], totals["rewarded"], totals["known"], most, sets)


def _is_plainly_right(batch: pl.DataFrame) -> bool:
    """Whether nothing is wrong with a batch of decisions of one row each, seen in a fraction of the time.

    False where that cannot be seen so quickly: then every condition is looked at, which also tells the rows.
    """
    arms, lengths = batch["arms"], batch["chosen"].list.len()
    if (
        arms.null_count()
        or batch["arm_contexts"].null_count() < batch.height
        or not bool((lengths == 1).all())
    ):
        return False
    if (
        batch["id"].null_count()
        or arms.explode().null_count()
        or batch["rewards"].null_count() < batch.height
    ):
        return False
    chosen = batch["chosen"].list.first()
    offered = arms.list.len().to_numpy().astype(np.intp)
    if chosen.null_count() or batch["probability"].null_count() or offered.min() < 1:
        return False
    rows, probability = chosen.to_numpy(), batch["probability"].to_numpy()
    reward = batch["reward"].drop_nulls().to_numpy()
    if rows.min() < 0 or (rows >= offered).any() or not (np.abs(reward) <= LARGEST).all():
        return False
    if not ((probability > 0) & (probability <= 1)).all():
        return False
    listed = batch["probabilities"]
    if listed.null_count() == batch.height:
        return True
    if listed.null_count() or (listed.list.len().to_numpy() != offered).any():
        return False
    flat = listed.explode()
    if flat.null_count():
        return False
    values, starts = flat.to_numpy(), np.cumsum(offered) - offered
    return bool(
        values.min() >= 0
        and values.max() <= 1 + TOLERANCE
        and (np.abs(np.add.reduceat(values, starts) - 1) <= TOLERANCE * offered).all()
        and (values[starts + rows] > 0).all()
        and (np.abs(values[starts + rows] - probability) <= TOLERANCE).all()
    )


def _count_impossible(batch: pl.DataFrame, counts: Counter[str], first: dict[str, str]) -> None:
    """Count the rows of a batch that cannot be true, by what is wrong with them, and note the first of each."""
    found = batch.select(
        *(_fail(expression).sum().alias(f"n {name}") for name, (expression, _) in _IMPOSSIBLE.items()),
        *(
            pl.col("id").filter(_fail(expression)).first().alias(f"id {name}")
            for name, (expression, _) in _IMPOSSIBLE.items()
        ),
    ).row(0, named=True)
    for name in _IMPOSSIBLE:
        counts[name] += found[f"n {name}"]
        if found[f"n {name}"]:
            first.setdefault(name, str(found[f"id {name}"]))


def _fail(expression: pl.Expr) -> pl.Expr:
    """Where a condition is null, the columns it is about are: nothing is wrong with them."""
    return expression.fill_null(False)


def check_ids(frame: pl.LazyFrame, source: str) -> None:
    """Raise a LogError where a decision's id comes twice; keeps 8 bytes a row in memory."""
    hashes = frame.select(pl.col("id").hash()).collect()["id"]
    repeated = hashes.len() - hashes.n_unique()
    if not repeated:
        return
    twice = hashes.filter(hashes.is_duplicated()).unique()
    examples = (
        frame.select("id").filter(pl.col("id").hash().is_in(twice.implode())).unique().head(3).collect()["id"]
    )
    raise LogError(
        f"{source}: {repeated:,} rows repeat the id of an earlier decision (such as "
        f"{', '.join(map(repr, examples.sort()))}); read it with duplicates='first' to keep the first row of each id, "
        "or give each decision an id of its own"
    )
