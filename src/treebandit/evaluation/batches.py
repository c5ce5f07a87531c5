"""A batch of logged decisions as flat arrays: all candidates of all decisions, one after the other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from treebandit.core import Floats, Indices
from treebandit.evaluation.columns import OFFERED, SCHEMA
from treebandit.evaluation.log import BATCH, DecisionLog


@dataclass
class ArmCodes:
    """Names of arms and their codes, in the order in which the log brings them."""

    names: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._kind = pl.Enum(self.names)

    def encode(self, names: pl.Series) -> Indices:
        """The codes of (m,) names; new ones get the next codes."""
        try:
            codes = names.cast(self._kind)
        except pl.exceptions.PolarsError:
            known = set(self.names)
            self.names += [name for name in names.unique(maintain_order=True) if name not in known]
            self._kind = pl.Enum(self.names)
            codes = names.cast(self._kind)
        return codes.to_physical().to_numpy().astype(np.intp)

    def __len__(self) -> int:
        return len(self.names)


@dataclass(frozen=True)
class Batch:
    """n decisions with m candidates in all, of which c were chosen (c = n where one is chosen at a time).

    frame: the rows. numbers: (n,) of decisions in the log, from 0. offered: (n,) candidates of each decision. starts:
    (n,) where they begin among the m. arms: (m,) codes; None without names, or
    where only `chosen_arms`, (c,), were asked for. chosen: (c,) places among the m. owner:
    (c,) decision of each chosen candidate. logged: (c,) probability with which it was chosen, NaN where not known.
    marginals: (m,) of every candidate, NaN where not known. reward: (n,). rewards: (c,) of each chosen candidate, NaN
    where only their sum is known.
    """

    frame: pl.DataFrame
    numbers: Indices
    offered: Indices
    starts: Indices
    arms: Indices | None
    chosen_arms: Indices | None
    chosen: Indices
    owner: Indices
    logged: Floats
    marginals: Floats | None
    reward: Floats
    rewards: Floats

    def __len__(self) -> int:
        return len(self.offered)

    @property
    def size(self) -> int:
        """m, the number of candidates."""
        return int(self.offered.sum())

    @property
    def control(self) -> NDArray[np.bool_]:
        """(n,), which decisions are of a control group."""
        if _CONTROL not in self.frame.columns:
            return np.zeros(len(self), np.bool_)
        return self.frame[_CONTROL].to_numpy()

    def without_control(self, codes: ArmCodes) -> Batch:
        """The other decisions, numbered as before."""
        return _flat(self.frame.filter(~self.control), codes) if self.control.any() else self

    @property
    def decisions(self) -> Indices:
        """(m,), the decision of each candidate."""
        return np.repeat(np.arange(len(self)), self.offered)

    @property
    def chosen_per_decision(self) -> Indices:
        """(n,), how many candidates each decision chose."""
        return np.bincount(self.owner, minlength=len(self))

    def sums(self, values: Floats) -> Floats:
        """(n,) sums of (m,) values over the candidates of each decision."""
        return np.add.reduceat(values, self.starts) if len(self) else np.zeros(0)

    def chosen_sums(self, values: Floats) -> Floats:
        """(n,) sums of (c,) values over the chosen candidates of each decision."""
        found: Floats = np.bincount(self.owner, values, minlength=len(self)).astype(np.float64)
        return found


#: Smaller logged probabilities count as this one, so that squares of weighted rewards are numbers. No evidence rests on
#: such a decision.
LEAST_LOGGED = 1e-50

#: What a batch always needs; contexts are read where a model or policy asks for them.
_ALWAYS = ("chosen", "probability", "probabilities", "reward", "rewards")
CONTEXTS = ("context", "arm_contexts")
#: Candidates with contexts of their own in memory at once: read as JSON, one of 20 features takes some 4 KB.
_MOST_CANDIDATES = 1 << 17
_CHOSEN_ARM, _WHERE, _CONTROL = "chosen arm", "where", "control"


def flat_batches(
    log: DecisionLog,
    codes: ArmCodes,
    *,
    columns: tuple[str, ...] = (),
    arms: Literal["all", "chosen"] = "all",
    marginals: bool = True,
    where: pl.Expr | None = None,
    every: int = 1,
    control: pl.Expr | None = None,
) -> Iterator[Batch]:
    """The log a batch at a time.

    columns: further ones that `frame` shall have. arms: whose codes are needed; those of all candidates cost time.
    marginals: whether the probabilities of candidates that were not chosen are. where: only the decisions for which
    this holds, numbered as in the whole log. every: 3 for each third of them. control: which
    decisions `Batch.control` tells of.
    """
    own = pl.col("arm_contexts").list.len().max() if "arm_contexts" in columns else pl.lit(None)
    found = log.frame.select(pl.col("chosen").list.len().max(), own=own).collect()
    sets, most = found.row(0)
    several = (sets or 1) > 1
    rows = max(1, min(BATCH, _MOST_CANDIDATES // most)) if most else BATCH
    # What is not asked for is not read: the names of a million decisions' arms take longer than all else together.
    wanted = [name for name in (*_ALWAYS, *columns) if name in SCHEMA]
    if not (marginals or several):
        wanted.remove("probabilities")
    extra = [OFFERED]
    if arms == "all" or several:
        wanted.append("arms")
    else:
        first = pl.col("chosen").list.first()
        extra.append(pl.col("arms").list.get(first, null_on_oob=True).alias(_CHOSEN_ARM))
    if control is not None:
        extra.append(control.alias(_CONTROL))
    if where is not None:
        extra.append(where.alias(_WHERE))
    lean = log.frame.select(*dict.fromkeys(wanted), *extra).with_row_index("number")
    if where is not None:
        lean = lean.filter(_WHERE)
    if every > 1:
        lean = lean.gather_every(every)
    for frame in DecisionLog(lean, log.source).batches(rows=rows):
        yield _flat(frame, codes)


def _flat(frame: pl.DataFrame, codes: ArmCodes) -> Batch:
    numbers = frame["number"].to_numpy().astype(np.intp)
    offered = frame["offered"].to_numpy().astype(np.intp)
    starts = np.cumsum(offered) - offered
    lengths = frame["chosen"].list.len().to_numpy()
    one_each = bool((lengths == 1).all())
    rows = frame["chosen"].list.first() if one_each else frame["chosen"].explode()
    owner = np.arange(len(offered)) if one_each else np.repeat(np.arange(len(offered)), lengths)
    chosen = starts[owner] + rows.to_numpy().astype(np.intp)
    marginals = _listed(frame, "probabilities", offered) if "probabilities" in frame.columns else None
    reward = _numbers(frame["reward"])
    if one_each:
        logged, rewards = _numbers(frame["probability"]), reward
        if marginals is not None:
            logged = np.where(np.isnan(logged), marginals[chosen], logged)
    else:
        assert "probabilities" in frame.columns
        logged = np.full(len(chosen), np.nan) if marginals is None else marginals[chosen]
        alone = lengths[owner] == 1
        logged = np.where(alone & np.isnan(logged), _numbers(frame["probability"])[owner], logged)
        listed = _listed(frame, "rewards", lengths.astype(np.intp))
        rewards = np.full(len(chosen), np.nan) if listed is None else listed
        rewards = np.where(alone & np.isnan(rewards), reward[owner], rewards)
    found = own = None
    if _CHOSEN_ARM in frame.columns:
        if frame[_CHOSEN_ARM].null_count() == 0:
            own = codes.encode(frame[_CHOSEN_ARM])
    elif frame["arms"].null_count() == 0:
        found = codes.encode(frame["arms"].explode())
        own = found[chosen]
    logged = np.maximum(logged, LEAST_LOGGED)
    return Batch(
        frame, numbers, offered, starts, found, own, chosen, owner, logged, marginals, reward, rewards
    )


def _numbers(series: pl.Series) -> Floats:
    return series.cast(pl.Float64).fill_null(float("nan")).to_numpy()


def _listed(frame: pl.DataFrame, name: str, lengths: NDArray[np.intp]) -> Floats | None:
    """The entries of a list column one after the other, NaN for lists that are null; None where all are."""
    series = frame[name]
    missing = series.null_count()
    if missing == len(series):
        return None
    if missing == 0:
        return series.explode().to_numpy()
    values = np.full(int(lengths.sum()), np.nan)
    there = np.repeat(series.is_not_null().to_numpy(), lengths)
    values[there] = series.drop_nulls().explode().to_numpy()
    return values
