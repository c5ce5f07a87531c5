"""What must hold in every row of a decision log, checked column by column, a batch at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import polars as pl

from treebandit.errors import LogError
from treebandit.evaluation.columns import CHOSEN_ARM, OFFERED, WITHOUT_PROBABILITY
from treebandit.features.values import LARGEST

#: Numbers that went through 32-bit numbers or a few printed digits are off by this much.
TOLERANCE = 1e-3
#: A probability is off by at most this share of it, and by the last of six digits.
_MOST_OFF, _LAST_DIGIT = 0.01, 1e-6
#: However many candidates there are, their probabilities sum to the number of chosen rows but for this share of it.
_MOST_OFF_SUM = 0.05

#: What is checked; contexts are checked where they are read.
CHECKED = (
    "id",
    "chosen",
    "probability",
    "probabilities",
    "reward",
    "rewards",
    "arms",
    "arm_contexts",
    "holdout",
)
_CHOSEN = pl.col("chosen").list
#: A decision of a holdout that played its arm for certain, though there were others.
_HOLDOUT = (pl.col("holdout") & (OFFERED > 1)).fill_null(False)
_CERTAIN = _HOLDOUT & (pl.col("probability") >= 1.0).fill_null(False)
#: One that does not tell how likely its arm was.
_UNTOLD = _HOLDOUT & WITHOUT_PROBABILITY
_PROBABILITIES = pl.col("probabilities").list
_REWARDS = pl.col("rewards").list

#: What cannot be true of a row -> what to do about it.
_IMPOSSIBLE: dict[str, tuple[pl.Expr, str]] = {
    "without an id": (pl.col("id").is_null(), "give each decision an id of its own"),
    "without a chosen row": (_CHOSEN.len() < 1, "list the chosen rows, such as [2]"),
    "without arms and without arm_contexts": (
        OFFERED.is_null(),
        "list what was offered, so that the number of candidates is known",
    ),
    "with an arm that is null": (
        pl.col("arms").list.count_matches(None) > 0,
        "name every arm, or leave arms out",
    ),
    "with arms and arm_contexts of different length": (
        pl.col("arms").list.len() != pl.col("arm_contexts").list.len(),
        "give one of each per candidate",
    ),
    "with a chosen row that was not offered": (
        (_CHOSEN.min() < 0) | (_CHOSEN.max() >= OFFERED),
        "rows go from 0 to the number of candidates - 1",
    ),
    "with a chosen row that is null": (_CHOSEN.count_matches(None) > 0, "give row numbers"),
    "with a row chosen twice": (_CHOSEN.n_unique() < _CHOSEN.len(), "list each chosen row once"),
    "with a probability outside (0, 1]": (
        ~((pl.col("probability") > 0) & (pl.col("probability") <= 1)) | pl.col("probability").is_nan(),
        "log the probability with which the choice was made; leave it null where it is not known",
    ),
    "with probabilities of another number than the candidates": (
        (_PROBABILITIES.len() != OFFERED) | (_PROBABILITIES.count_matches(None) > 0),
        "give one per candidate, or null",
    ),
    "with probabilities outside [0, 1]": (
        (_PROBABILITIES.min() < 0) | (_PROBABILITIES.max() > 1 + TOLERANCE) | _PROBABILITIES.sum().is_nan(),
        "give for each candidate the probability that it is chosen",
    ),
    "with probabilities that do not sum to the number of chosen rows": (
        (_PROBABILITIES.sum() - _CHOSEN.len()).abs()
        > pl.min_horizontal(TOLERANCE * OFFERED, _MOST_OFF_SUM * _CHOSEN.len()),
        "give for each candidate the probability that it is chosen",
    ),
    "with a chosen row of probability 0": (
        _PROBABILITIES.gather(_CHOSEN.eval(pl.element().clip(0)), null_on_oob=True).list.min() <= 0,
        "what was chosen had a probability above 0",
    ),
    "with a probability unlike the one in probabilities": (
        (_CHOSEN.len() == 1)
        & (
            (_PROBABILITIES.get(_CHOSEN.first(), null_on_oob=True) - pl.col("probability")).abs()
            > _MOST_OFF * pl.col("probability") + _LAST_DIGIT
        ),
        "both are the probability of the chosen row",
    ),
    "with a reward that is not finite": (
        ~pl.col("reward").is_finite(),
        "leave it null where there is none yet",
    ),
    f"with a reward beyond {LARGEST:.1e}": (
        pl.max_horizontal(pl.col("reward").abs(), _REWARDS.eval(pl.element().abs()).list.max()) > LARGEST,
        "give rewards in a larger unit",
    ),
    "with rewards of another number than the chosen rows": (
        _REWARDS.len() != _CHOSEN.len(),
        "give one per chosen row, or reward alone",
    ),
    "with a reward that is not the sum of rewards": (
        (_REWARDS.sum() - pl.col("reward")).abs()
        > TOLERANCE * _REWARDS.eval(pl.element().abs()).list.sum() + 1e-9,
        "give their sum, or rewards alone",
    ),
    "with rewards that are not finite": (
        ~_REWARDS.sum().is_finite() | (_REWARDS.count_matches(None) > 0),
        "leave the whole list null where there are none yet",
    ),
}


@dataclass(frozen=True, slots=True)
class LogSummary:
    """What a checked log holds: decisions, how many have rewards and probabilities, the most candidates, and sets.

    certain, untold: decisions of a holdout that played its arm for certain, and of one that does not tell how likely
        its arm was.
    one_arm: whether the latter all chose the same arm, and so did it for certain, too.
    """

    decisions: int
    rewarded: int
    with_probability: int
    most_offered: int
    sets: bool
    certain: int = 0
    untold: int = 0
    one_arm: bool = False

    @property
    def control(self) -> int:
        """How many decisions are of a control group that always gets the same arm."""
        return self.certain + self.untold * self.one_arm

    @property
    def in_control(self) -> pl.Expr | None:
        """Whether a decision of the log is one of these; None where no decision or every one is."""
        if not 0 < self.control < self.decisions:
            return None
        return _CERTAIN | _UNTOLD if self.one_arm else _CERTAIN


def check_batches(batches: Iterable[pl.DataFrame], source: str) -> LogSummary:
    """Raise a LogError that names the first impossible row and counts all; else what the log holds."""
    totals: Counter[str] = Counter()
    first: dict[str, str] = {}
    most = 0
    held: set[tuple[str, int]] = set()
    for batch in batches:
        # Where a condition is null, the columns it is about are: nothing is wrong with them, and no sum counts them.
        found = batch.select(
            pl.len().alias("decisions"),
            rewarded=pl.col("reward").count(),
            known=pl.col("probability").count(),
            sets=(_CHOSEN.len() > 1).sum(),
            certain=_CERTAIN.sum(),
            untold=_UNTOLD.sum(),
            most=OFFERED.max(),
            **{name: condition.sum() for name, (condition, _) in _IMPOSSIBLE.items()},
        ).row(0, named=True)
        most = max(most, found.pop("most") or 0)
        totals.update(found)
        if found["untold"] and len(held) < 2:
            held |= set(batch.filter(_UNTOLD).select(CHOSEN_ARM.alias("arm"), _CHOSEN.len()).unique().rows())
        for name, (condition, _) in _IMPOSSIBLE.items():
            if found[name] and name not in first:
                first[name] = str(batch.filter(condition)["id"][0])
    if first:
        lines = [
            f"{totals[name]:,} {name} (the first: id {first[name]!r}); {repair}"
            for name, (_, repair) in _IMPOSSIBLE.items()
            if name in first
        ]
        raise LogError(f"{source}: of {totals['decisions']:,} decisions " + ". ".join(lines))
    return LogSummary(
        decisions=totals["decisions"],
        rewarded=totals["rewarded"],
        with_probability=totals["known"],
        most_offered=most,
        sets=totals["sets"] > 0,
        certain=totals["certain"],
        untold=totals["untold"],
        one_arm=len(held) == 1 and all(size == 1 for _, size in held),
    )


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


def check_contexts(frame: pl.LazyFrame, source: str) -> None:
    """Raise a LogError that names the first decision with a context that is no JSON."""
    own = pl.col("arm_contexts").list.eval(_is_no_json(pl.element())).list.any()
    wrong = frame.filter(_is_no_json(pl.col("context")) | own.fill_null(False)).select("id").head(1).collect()
    if wrong.height:
        raise LogError(
            f"{source}: a context of decision {wrong['id'][0]!r} cannot be read as JSON; give a JSON object, or a list "
            "of numbers"
        )


def _is_no_json(text: pl.Expr) -> pl.Expr:
    unread = text.str.json_path_match("$").is_null() & (text.str.strip_chars() != "null")
    return unread.fill_null(False)
