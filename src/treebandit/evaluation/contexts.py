"""Logged contexts, JSON text, as numbers for reward models: one layout of columns for the whole log."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from treebandit.core import Columns, Features
from treebandit.errors import LogError
from treebandit.evaluation.batches import Batch

#: A list of more texts than this is no set of tags but data of another kind.
MOST_TAGS = 1_000
#: Contexts without any column: models need one.
_CONSTANT = "constant"


@dataclass
class ContextLayout:
    """Columns of the contexts, in the order in which the log brings them: name -> codes of its texts, or a number.

    Nested objects become columns `a.b`; lists of numbers `a.0`, `a.1`; lists of texts one column `a=item` per item.
    Columns and texts may come at any time until `closed`; afterwards new columns are left out.
    """

    codes: dict[str, dict[str, int] | None] = field(default_factory=dict)
    closed: bool = False

    @property
    def columns(self) -> Columns:
        """What the columns are: numbers, or so many categories."""
        return Columns(
            tuple(0 if codes is None else max(1, len(codes)) for codes in self.codes.values()),
            tuple(self.codes),
        )

    def encode(self, batch: Batch, *, chosen: bool = False) -> Features:
        """The (m, d) contexts of a batch's candidates, what they share and what each has of its own.

        chosen: only the (c, d) of those that were chosen.
        """
        owner = batch.owner if chosen else batch.decisions
        found = {name: values[owner] for name, values in self._numbers(batch.frame["context"], "the context")}
        found |= self._own(batch, chosen=chosen)
        if not self.codes and not self.closed:
            self.codes[_CONSTANT] = None
        features = np.full((len(owner), len(self.codes)), np.nan, np.float32)
        for place, name in enumerate(self.codes):
            features[:, place] = found.get(name, 0.0 if name == _CONSTANT else np.nan)
        return features

    def _own(self, batch: Batch, *, chosen: bool) -> dict[str, Features]:
        column = batch.frame["arm_contexts"]
        if column.null_count() == len(column):
            return {}
        there = np.repeat(column.is_not_null().to_numpy(), batch.offered)
        texts = column.drop_nulls().explode()
        if chosen:
            # Places among the candidates of decisions that have arm_contexts at all.
            inside = np.cumsum(there) - 1
            there = there[batch.chosen]
            texts = texts.gather(inside[batch.chosen][there])
        found = {}
        for name, values in self._numbers(texts, "an arm's context"):
            found[name] = np.full(len(there), np.nan, np.float32)
            found[name][there] = values
        return found

    def _numbers(self, texts: pl.Series, what: str) -> Iterator[tuple[str, Features]]:
        if texts.null_count() == len(texts):
            return
        for name, series in _flattened(_decoded(texts, what)):
            is_text = series.dtype == pl.String
            if name not in self.codes:
                if self.closed:
                    continue
                self.codes[name] = {} if is_text else None
            codes = self.codes[name]
            if codes is None:
                numbers = series.cast(pl.Float64, strict=False) if is_text else series.cast(pl.Float64)
                yield name, numbers.fill_null(float("nan")).to_numpy().astype(np.float32)
            else:
                yield name, self._coded(series.cast(pl.String), codes)

    def _coded(self, series: pl.Series, codes: dict[str, int]) -> Features:
        for text in series.unique(maintain_order=True).drop_nulls():
            if text not in codes and not self.closed:
                codes[text] = len(codes)
        found = series.replace_strict(codes, default=None, return_dtype=pl.Float64) if codes else series
        return found.cast(pl.Float64).fill_null(float("nan")).to_numpy().astype(np.float32)


def _decoded(texts: pl.Series, what: str) -> pl.Series:
    """JSON texts as values: a struct, or a list where features have no names."""
    try:
        try:
            return texts.str.json_decode(infer_schema_length=None)
        except pl.exceptions.PolarsError:
            values = [None if text is None else json.loads(text) for text in texts]
            alike = [None if each is None else json.dumps(each) for each in _alike(values)]
            return pl.Series(alike, dtype=pl.String).str.json_decode(infer_schema_length=None)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, ValueError, RecursionError) as error:
        reason = str(error).partition("\n")[0]
        raise LogError(
            f"{what} of a decision cannot be read as JSON ({reason}); log a JSON object, or a list of numbers"
        ) from error


def _alike(values: list[Any]) -> list[Any]:
    """Values of one key as polars takes them: where some are objects, any other is the member without a name of one."""
    if any(isinstance(value, dict) for value in values):
        values = [value if isinstance(value, dict | None) else {"": value} for value in values]
        objects = [value for value in values if value is not None]
        for key in {key for value in objects for key in value}:
            having = [value for value in objects if key in value]
            for value, member in zip(having, _alike([value[key] for value in having]), strict=True):
                value[key] = member
    elif any(isinstance(value, list) for value in values):
        items = iter(_alike([item for value in values if isinstance(value, list) for item in value]))
        values = [[next(items) for _ in value] if isinstance(value, list) else value for value in values]
    return values


def _flattened(series: pl.Series, name: str = "") -> Iterator[tuple[str, pl.Series]]:
    """Columns of numbers and texts with their names."""
    kind = series.dtype
    if isinstance(kind, pl.Struct):
        for part in kind.fields:
            yield from _flattened(
                series.struct.field(part.name),
                f"{name}.{part.name}" if name and part.name else name or part.name,
            )
    elif isinstance(kind, pl.List | pl.Array):
        inner = kind.inner
        if inner == pl.String:
            items = series.explode().drop_nulls().unique(maintain_order=True)
            for item in items.head(MOST_TAGS):
                yield f"{name}={item}", series.list.contains(item).cast(pl.Float64)
        elif inner != pl.Null:
            for place in range(int(series.list.len().drop_nulls().to_numpy().max(initial=0))):
                yield from _flattened(
                    series.list.get(place, null_on_oob=True), f"{name}.{place}" if name else f"x{place}"
                )
    elif kind == pl.Boolean or kind.is_numeric():
        yield name or "x0", series.cast(pl.Float64)
    elif kind == pl.String:
        yield name or "x0", series
    elif kind != pl.Null:
        raise LogError(f"contexts hold {kind} in {name!r}; log numbers, texts, lists and objects")
