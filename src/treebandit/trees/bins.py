"""Features as small whole numbers: at most 255 bins a column, thresholds that map back to the features exactly."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from treebandit.core import Features

#: Codes are bytes, and the last one of a column may stand for missing values.
MOST_BINS = 255


@dataclass(frozen=True, slots=True)
class BinnedFeatures:
    """What a tree builder sees of (n, d) features: one row of codes per group of columns.

    A group is one column cut at `edges`: code k means edges[k-1] <= x < edges[k], and code widths[g] a missing
    value. Or it is a run of 0/1 columns of which at most one is 1 in any row, as one-hot coding makes them: code k
    means that column first[g] + k - 1 is 1, code 0 that none is; then singles[g] is true, and a split sets one code
    apart from all others.
    """

    codes: NDArray[np.uint8]
    widths: NDArray[np.int64]
    singles: NDArray[np.bool_]
    first: NDArray[np.int64]
    edges: list[NDArray[np.float32]]

    @classmethod
    def of(cls, features: Features, most_bins: int) -> BinnedFeatures:
        """Bin every column by quantiles; a column with few different values gets a bin for each."""
        groups = _exclusive_runs(features, most_bins)
        codes = np.empty((len(groups), len(features)), np.uint8)
        edges = []
        for group, (start, stop) in enumerate(groups):
            if stop - start > 1:
                edges.append(np.zeros(stop - start, np.float32))
                codes[group] = features[:, start:stop] @ np.arange(1, stop - start + 1, dtype=np.float32)
                continue
            column = features[:, start]
            cuts = _edges(column, most_bins)
            edges.append(cuts)
            codes[group] = np.searchsorted(cuts, column, side="right")
            codes[group][np.isnan(column)] = len(cuts) + 1
        return cls(
            codes=codes,
            widths=np.array([len(cuts) + 1 for cuts in edges], np.int64),
            singles=np.array([stop - start > 1 for start, stop in groups], np.bool_),
            first=np.array([start for start, _ in groups], np.int64),
            edges=edges,
        )

    def thresholds(
        self, groups: NDArray[np.int32], cuts: NDArray[np.int32]
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Column and threshold (go right at or above it) of splits that send codes from `cuts` on to the right.

        A group of 0/1 columns sends the one code to the right; a cut at widths[g] parts missing values from all.
        """
        padded = np.full((len(self.edges), int(self.widths.max()) + 1), np.inf, np.float32)
        for group, edges in enumerate(self.edges):
            padded[group, 1 : len(edges) + 1] = np.float32(0.5) if self.singles[group] else edges
        single = self.singles[groups]
        return self.first[groups] + np.where(single, cuts - 1, 0), padded[groups, cuts]


def _edges(column: NDArray[np.float32], most_bins: int) -> NDArray[np.float32]:
    """Rising edges, halfway between neighbouring values, that cut the column into bins of about equal weight."""
    values = np.sort(column)  # missing ones last
    values = values[: len(values) - np.count_nonzero(np.isnan(column))]
    ranks = np.flatnonzero(values[1:] != values[:-1])
    if len(ranks) >= most_bins:
        wanted = np.arange(1, most_bins) * (len(values) / most_bins) - 1
        ranks = ranks[np.unique(ranks.searchsorted(wanted).clip(max=len(ranks) - 1))]
    below, above = values[ranks], values[ranks + 1]
    middle = ((below.astype(np.float64) + above) / 2).astype(np.float32)
    return np.where(middle > below, middle, above)


def _exclusive_runs(features: Features, most_bins: int) -> list[tuple[int, int]]:
    """Columns from start to stop that form a group: single columns, and runs of 0/1 columns never 1 together."""
    binary = ((features == 0) | (features == 1)).all(0)
    runs: list[tuple[int, int]] = []
    taken = np.zeros(len(features), np.bool_)
    for column in range(features.shape[1]):
        ones = features[:, column] == 1
        joins = runs and binary[column] and binary[column - 1] and column - runs[-1][0] < most_bins - 1
        if joins and not (taken & ones).any():
            runs[-1] = runs[-1][0], column + 1
            taken |= ones
        else:
            runs.append((column, column + 1))
            taken = ones
    return runs
