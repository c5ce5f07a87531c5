"""A decision log: what was offered, what was chosen with which probability, and what it brought."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self

import polars as pl

from treebandit.errors import LogError
from treebandit.evaluation import log_files
from treebandit.evaluation.columns import SCHEMA, conform
from treebandit.evaluation.log_files import reading
from treebandit.evaluation.validation import (
    CHECKED,
    LogSummary,
    check_batches,
    check_contexts,
    check_ids,
)
from treebandit.parameters import check_choice

Duplicates = Literal["refuse", "first"]
#: Decisions in memory at once.
BATCH = 65_536

_REWARD_COLUMNS = ("reward", "rewards", "reward_time")


@dataclass(frozen=True, eq=False)
class DecisionLog:
    """Decisions in the order in which they were logged; nothing is read before it is needed.

    frame: polars LazyFrame with the columns of `SCHEMA`, late rewards joined.
    source: what messages call the log.
    late: reward rows found apart from their decisions.
    repeated: rewards that a later one of the same id replaced.
    unmatched: late rewards whose id no decision has; they are written with the log, as their decisions may be
        elsewhere.

    >>> from treebandit.evaluation import DecisionLog
    >>> log = DecisionLog.from_records(
    ...     [{"id": "1", "arms": ["a", "b"], "chosen": [0], "probability": 0.5, "reward": 1.0}]
    ... )
    >>> log.write("log.parquet")
    >>> len(DecisionLog.read("log.parquet"))
    1
    """

    frame: pl.LazyFrame
    source: str = "the log"
    late: int = 0
    repeated: int = 0
    unmatched: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=SCHEMA))

    @property
    def lost(self) -> int:
        """How many late rewards no decision has the id of."""
        return self.unmatched.height

    @classmethod
    def scan(cls, path: str | os.PathLike[str], *, duplicates: Duplicates = "refuse") -> Self:
        """The log in a file or folder, read a batch at a time whenever it is used; `check` checks it."""
        source = os.fspath(path)
        with reading(source):
            frame = log_files.scan_files(path)
        return cls.from_frame(frame, source=source, duplicates=duplicates)

    @classmethod
    def read(cls, path: str | os.PathLike[str], *, duplicates: Duplicates = "refuse") -> Self:
        """The log in a file or folder, in memory and checked.

        duplicates: 'first' keeps the first of several decisions with one id; 'refuse' raises a LogError.
        """
        log = cls.scan(path, duplicates=duplicates).collected()
        log.check()
        return log

    @classmethod
    def from_frame(
        cls,
        frame: pl.DataFrame | pl.LazyFrame,
        *,
        source: str = "the log",
        duplicates: Duplicates = "refuse",
    ) -> Self:
        """The log that a frame with these columns is; rows without `chosen` are late rewards."""
        check_choice("duplicates", duplicates, ("refuse", "first"))
        if not isinstance(frame, pl.DataFrame | pl.LazyFrame):
            raise LogError(f"{source} is a {type(frame).__name__}; give a polars frame, or use from_records")
        with reading(source):
            rows = conform(frame.lazy(), source)
            late = rows.select(pl.col("chosen").null_count()).collect().item()
            decisions = rows.filter(pl.col("chosen").is_not_null()) if late else rows
            if duplicates == "first":
                decisions = decisions.unique("id", keep="first", maintain_order=True)
            log = cls(decisions, source)
            return log.with_rewards(rows.filter(pl.col("chosen").is_null())) if late else log

    @classmethod
    def from_records(cls, records: Iterable[Mapping[str, Any]], *, source: str = "the records") -> Self:
        """The log of dicts such as NDJSON has, one per decision or late reward; checked."""
        import json

        try:
            lines = "\n".join(
                json.dumps(dict(record), allow_nan=False, ensure_ascii=False) for record in records
            )
        except (TypeError, ValueError) as error:
            raise LogError(
                f"{source} hold what JSON cannot ({error}); give numbers, text, lists and dicts, times as text, and "
                "null for a missing number"
            ) from error
        with reading(source):
            rows = log_files.scan_text(lines).collect()
        log = cls.from_frame(rows, source=source)
        log.check()
        return log

    def check(self) -> LogSummary:
        """Raise a LogError where a row cannot be true or an id comes twice; else what the log holds."""
        with reading(self.source):
            summary = check_batches(self.batches(CHECKED), self.source)
            check_ids(self.frame, self.source)
        return summary

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the log as its name says: `.parquet`, `.ndjson`, `.jsonl` (also `.gz`), or a folder of parts."""
        with reading(os.fspath(path), "written"):
            log_files.write_files(self._all_rows(), path)

    def append(self, path: str | os.PathLike[str]) -> None:
        """Add these decisions, or late rewards, at the end of a log, which is made where there is none.

        A folder gets one more part and NDJSON more lines; a Parquet file is written anew, and one with `.gz` read
        before, so prefer a folder for a log that grows. Contexts that cannot be read are refused.
        """
        with reading(os.fspath(path), "written"):
            rows = self._all_rows()
            check_contexts(rows, self.source)
            log_files.append_files(rows, path)

    def _all_rows(self) -> pl.LazyFrame:
        return pl.concat([self.frame, self.unmatched.lazy()]) if self.lost else self.frame

    def with_rewards(self, rewards: pl.DataFrame | pl.LazyFrame | Sequence[Mapping[str, Any]]) -> Self:
        """The log with late rewards joined by id: `id`, `reward` or `rewards`, and `reward_time` where known.

        Of several rewards of one id the one with the latest `reward_time` counts, and of equal ones the last; a
        decision's own reward counts as the first. `late`, `lost` and `repeated` tell what was found.
        """
        with reading("the rewards"):
            if not isinstance(rewards, pl.DataFrame | pl.LazyFrame):
                if not all(isinstance(each, Mapping) for each in rewards):
                    raise LogError(
                        "late rewards are dicts such as {'id': 'visit-1', 'reward': 1.0}; give a list"
                    )
                if not rewards:
                    return self
                rewards = pl.DataFrame([dict(each) for each in rewards], infer_schema_length=None)
        with reading(self.source):
            rows = conform(rewards.lazy(), "the rewards").collect()
            late = rows.select("id", *_REWARD_COLUMNS)
            _check_rewards(late, self.source)
            known = self.frame.select("id", pl.col("reward").is_not_null().alias("own"))
            unmatched = rows.lazy().join(known, on="id", how="anti", maintain_order="left").collect()
            joined = late.lazy().join(known, on="id", how="inner").select("id", "own").collect()
            last = late.sort("reward_time", nulls_last=False, maintain_order=True).unique(
                "id", keep="last", maintain_order=True
            )
            own = joined.filter("own")["id"].n_unique()
            return replace(
                self,
                frame=_joined(self.frame, last.lazy()),
                late=self.late + late.height,
                repeated=self.repeated + joined.height - joined["id"].n_unique() + own,
                unmatched=pl.concat([self.unmatched, unmatched]),
            )

    def batches(self, columns: Sequence[str] | None = None, *, rows: int = BATCH) -> Iterator[pl.DataFrame]:
        """Frames of at most `rows` decisions each, in order, with these columns alone."""
        frame = self.frame if columns is None else self.frame.select(columns)
        with reading(self.source):
            for batch in frame.collect_batches(chunk_size=rows, maintain_order=True):
                yield from batch.iter_slices(rows)

    def collected(self) -> Self:
        """The same log in memory."""
        with reading(self.source):
            return replace(self, frame=self.frame.collect().lazy())

    def filter(self, *conditions: Any) -> Self:
        """Only the decisions for which these polars expressions hold."""
        return replace(self, frame=self.frame.filter(*conditions))

    def without_control(self) -> tuple[Self, LogSummary, int]:
        """The log without a control group that always gets the same arm, checked, and how many decisions are left out.

        They tell nothing of other policies. Who is in the group does not depend on the context, so that the others
        are as good a sample.
        """
        summary = self.check()
        if summary.in_control is None:
            return self, summary, 0
        others = self.filter(~summary.in_control)
        return others, others.check(), summary.control

    def rewarded(self) -> Self:
        """Only the decisions whose reward has come."""
        return self.filter(pl.col("reward").is_not_null())

    def records(self) -> Iterator[dict[str, Any]]:
        """The decisions as dicts such as NDJSON has."""
        for batch in self.batches():
            yield from log_files.records(batch)

    def teach(self, agent: Any) -> None:
        """Let an agent learn all decisions that have rewards; what `agent.learn(log)` calls (see `warm_start`)."""
        from treebandit.evaluation.decisions import warm_start

        warm_start(agent, self)

    def __len__(self) -> int:
        with reading(self.source):
            return int(self.frame.select(pl.len()).collect().item())


def _check_rewards(late: pl.DataFrame, source: str) -> None:
    reward = pl.col("reward")
    wrong = late.filter(pl.col("id").is_null() | reward.is_null() | ~reward.is_finite())
    if wrong.height:
        raise LogError(
            f"{source}: {wrong.height:,} rows without chosen are no late rewards (the first: id {wrong['id'][0]!r}, "
            f"reward {wrong['reward'][0]}); a decision has chosen, a late reward has an id and a finite reward"
        )


def _joined(decisions: pl.LazyFrame, rewards: pl.LazyFrame) -> pl.LazyFrame:
    """The decisions, each with the later of its own reward and the one of the same id in `rewards`."""
    found = rewards.select("id", *(pl.col(name).alias(f"{name}:late") for name in _REWARD_COLUMNS), late=True)
    older = pl.col("reward_time:late") < pl.col("reward_time")
    use = pl.col("late").fill_null(False) & ~(older.fill_null(False) & pl.col("reward").is_not_null())
    return (
        decisions.join(found, on="id", how="left", maintain_order="left")
        .with_columns(
            reward=pl.when(use).then("reward:late").otherwise("reward"),
            rewards=pl.when(use).then("rewards:late").otherwise("rewards"),
            reward_time=pl.when(use).then("reward_time:late").otherwise("reward_time"),
        )
        .select(*SCHEMA)
    )
