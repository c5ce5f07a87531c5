"""Features as small whole numbers: at most 255 bins a column, and thresholds that mean the same."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from treebandit.core import Features
from treebandit.errors import ParameterError
from treebandit.features.encoding import ColumnGroups
from treebandit.trees.grower import Table, starts_of

#: Codes are bytes, and the last one of a column is for missing values.
MOST_BINS = 255
#: Where missing values are sorted in.
_MISSING = np.full(1, np.nan, np.float32)


@dataclass(frozen=True, slots=True)
class Bins:
    """How (n, d) features become (n, groups) codes.

    A group is one column, cut at its `edges`: code k means edges[k-1] <= x < edges[k], and code `width` a missing
    value. Or it is one-hot, the columns from `first` on that are one category's: code k means that the k-th of them
    is 1, code 0 that none is. `starts` tells where a group's bins begin in a histogram.
    """

    first: NDArray[np.int64]
    widths: NDArray[np.int64]
    one_hot: NDArray[np.bool_]
    edges: tuple[NDArray[np.float32], ...]
    levels: NDArray[np.float32]
    starts: NDArray[np.uint64]

    @classmethod
    def fit(cls, features: Features, most_bins: int, column_groups: ColumnGroups = ()) -> Bins:
        """Cut every column by quantiles; a column with few different values gets a bin for each.

        column_groups: (start, stop) of the columns that are one category's one-hot; each other column is a group.
        """
        runs = _runs(features.shape[1], column_groups)
        levels = np.full((len(runs), MOST_BINS + 1), np.inf, np.float32)
        edges = tuple(
            cut(features[:, start], most_bins, row)
            if stop - start == 1
            else np.zeros(stop - start + 1, np.float32)
            for (start, stop), row in zip(runs, levels, strict=True)
        )
        widths = np.array([len(each) for each in edges], np.int64)
        return cls(
            first=np.array([start for start, _ in runs], np.int64),
            widths=widths,
            one_hot=np.array([stop - start > 1 for start, stop in runs], np.bool_),
            edges=edges,
            levels=levels,
            starts=starts_of(widths),
        )

    def encode(self, features: Features) -> NDArray[np.uint8]:
        """The (n, groups) codes of (n, d) features."""
        codes = np.empty((len(features), len(self.first)), np.uint8)
        for group, (start, edges) in enumerate(zip(self.first.tolist(), self.edges, strict=True)):
            if self.one_hot[group]:
                codes[:, group] = _place_of_one(features, start, start + len(edges) - 1)
            else:
                codes[:, group] = edges.searchsorted(features[:, start], side="right")
        return codes

    def table(self, codes: NDArray[np.uint8]) -> Table:
        """Codes as trees are grown on them."""
        return Table(codes, self.widths, self.one_hot, self.levels, self.starts)

    def thresholds(
        self, nodes: NDArray[np.void]
    ) -> tuple[NDArray[np.int64], NDArray[np.float32], NDArray[np.bool_]]:
        """Column, threshold (go right at or above it) and whether missing values go left, of each node's split."""
        # As contiguous numbers of the width of an index, since each is used several times.
        group, low, high = (nodes[name].astype(np.intp) for name in ("group", "low", "high"))
        padded = np.full((len(self.edges), MOST_BINS + 1), np.inf, np.float32)
        for row, edges, one_hot in zip(padded, self.edges, self.one_hot, strict=True):
            row[1 : len(edges)] = np.float32(0.5) if one_hot else edges[:-1]
        codes = np.arange(-1, MOST_BINS)
        columns = self.first[:, None] + codes * self.one_hot[:, None]
        place = group * (MOST_BINS + 1) + low
        return columns.take(place), padded.take(place), high <= self.widths.take(group)


def cut(column: NDArray[np.float32], most_bins: int, levels: NDArray[np.float32]) -> NDArray[np.float32]:
    """Rising edges, halfway between neighbouring values, that cut a column into bins of about equal weight.

    Behind them comes NaN, which is where missing values are sorted in: after all others. The middle of each bin's
    values is put into `levels`.
    """
    values = np.sort(column)  # missing ones last
    values = values[: len(values) - np.count_nonzero(np.isnan(column))]
    ranks = np.flatnonzero(values[1:] != values[:-1])
    if len(ranks) >= most_bins:
        wanted = np.arange(1, most_bins) * (len(values) / most_bins) - 1
        ranks = ranks[np.unique(ranks.searchsorted(wanted).clip(max=len(ranks) - 1))]
    below, above = values[ranks], values[ranks + 1]
    if len(values):
        lowest, highest = np.concatenate((values[:1], above)), np.concatenate((below, values[-1:]))
        levels[: len(lowest)] = lowest / 2 + highest / 2
    middle = ((below.astype(np.float64) + above) / 2).astype(np.float32)
    return np.concatenate((np.where(middle > below, middle, above), _MISSING))


def _runs(width: int, column_groups: ColumnGroups) -> list[tuple[int, int]]:
    """All columns in order, those of one category together as far as their codes fit a byte."""
    runs: list[tuple[int, int]] = []
    column = 0
    for start, stop in (*column_groups, (width, width)):
        if not column <= start <= stop <= width:
            raise ParameterError(
                f"column_groups={list(column_groups)!r} of {width} columns; expected (start, stop) pairs in rising "
                "order that do not overlap"
            )
        runs += [(single, single + 1) for single in range(column, start)]
        runs += [(part, min(part + MOST_BINS - 1, stop)) for part in range(start, stop, MOST_BINS - 1)]
        column = stop
    return runs


@cache
def _places_and_ones(width: int) -> Features:
    """(width, 2): 1, 2, ..., and ones."""
    return np.column_stack([np.arange(1, width + 1), np.ones(width)]).astype(np.float32)


def _place_of_one(features: Features, start: int, stop: int) -> Features:
    """Which of the columns from start to stop is 1 in each row, counted from 1; 0 where none is."""
    block = features[:, start:stop]
    # A matrix product is much faster than a search. A row's sum is at most 1, which is the least number of entries that
    # a row with any has: so if sums and numbers of entries are equal in all, each such row has one entry, which is 1.
    with np.errstate(invalid="ignore", over="ignore"):
        sums: Features = block @ _places_and_ones(stop - start)
    place, total = sums[:, 0], sums[:, 1]
    within = total.max(initial=0.0) <= 1.0 and total.min(initial=0.0) >= 0.0
    if not (within and np.count_nonzero(block != 0.0) == total.sum(dtype=np.float64)):
        raise ParameterError(
            f"columns {start} to {stop - 1} are grouped as one category's one-hot, but hold other numbers than at "
            "most a single 1 a row; group only one-hot columns"
        )
    return place
