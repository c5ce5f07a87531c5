"""What rows of one category paid: a number in place of hundreds of one-hot columns."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from treebandit import schema
from treebandit.core import Candidates, Columns, Features, Floats, Indices
from treebandit.features.arm_index import ArmIndex

#: The mean reward of the arm counts as so many rows of every category.
_PRIOR_ROWS = 2.0


class TargetStatistics:
    """The mean reward of each category with each arm, of the columns with too many categories for one-hot.

    (Σ r + 2 m) / (rows + 2) with m the mean reward of the arm; a category without rows has m, an arm without rows the
    mean of all rewards.

    places: the columns. tables: of each (arms + 1, categories + 1) means; the last one is for other categories.
    """

    __slots__ = ("_arms", "_places", "_tables")

    def __init__(self, arms: ArmIndex, places: Indices, tables: list[Floats]) -> None:
        self._arms, self._places, self._tables = arms, places, tables

    @classmethod
    def fit(
        cls, rows: Candidates, rewards: Floats, *, places: Indices, folds: Indices
    ) -> tuple[Self, Features]:
        """The statistics, and those of the (n,) rows themselves, (n, places): each by the rows of the other folds.

        A row's own reward must not be in its statistic, nor may it be left out alone: see `LinearEncoder.fit`.
        """
        assert rows.arms is not None
        index, categories = ArmIndex(), rows.columns.categories
        arm_rows = index.register(rows.arms)
        own = np.empty((len(rows), len(places)), np.float32)
        tables = []
        for at, place in enumerate(places.tolist()):
            count = categories[place] + 1
            cells = arm_rows * count + known_codes(rows.contexts[:, place], categories[place]).astype(np.intp)
            table = _means(cells, rewards, len(index), count)
            tables.append(table)
            for fold in range(int(folds.max()) + 1):
                inside = folds == fold
                others = _means(cells[~inside], rewards[~inside], len(index), count)
                own[inside, at] = others.ravel()[cells[inside]]
        return cls(index, places, tables), own

    def __call__(self, contexts: Features, arms: Indices | None) -> Features:
        """(n, places) statistics of (n, d) contexts and their arms."""
        arm_rows = self._arms.find(np.zeros(len(contexts), np.intp) if arms is None else arms)
        found = np.empty((len(contexts), len(self._places)), np.float32)
        for at, (place, table) in enumerate(zip(self._places.tolist(), self._tables, strict=True)):
            codes = known_codes(contexts[:, place], table.shape[1] - 1).astype(np.intp)
            found[:, at] = table[arm_rows, codes]
        return found

    def state(self) -> dict[str, Any]:
        """All of it as arrays."""
        return {"arms": self._arms.labels, "tables": np.hstack(self._tables)}

    @classmethod
    def restored(cls, state: dict[str, Any], columns: Columns, places: Indices) -> Self:
        """The statistics that `state` described, of these columns."""
        labels = schema.labels(state, "arms")
        counts = np.array([columns.categories[place] + 1 for place in places], np.intp)
        tables = schema.array(state, "tables", np.float64, (len(labels) + 1, int(counts.sum())))
        parts = np.split(tables, np.cumsum(counts)[:-1], axis=1)
        return cls(ArmIndex(labels), places, [np.ascontiguousarray(part) for part in parts])


def known_codes(codes: Features, counts: int | Indices) -> Features:
    """The codes of categories; for a missing or later one the count of its column."""
    known: Features = np.where((codes >= 0.0) & (codes < counts), codes, counts)
    return known


def _means(cells: Indices, rewards: Floats, arms: int, count: int) -> Floats:
    """(arms, count) shrunk means of rewards, cells being arm · count + code."""
    size = arms * count
    rows = np.bincount(cells, minlength=size).reshape(arms, count).astype(np.float64)
    sums = np.bincount(cells, rewards, minlength=size).reshape(arms, count)
    overall = float(rewards.mean()) if len(rewards) else 0.0
    of_arm = (sums.sum(axis=1) + _PRIOR_ROWS * overall) / (rows.sum(axis=1) + _PRIOR_ROWS)
    means: Floats = (sums + _PRIOR_ROWS * of_arm[:, None]) / (rows + _PRIOR_ROWS)
    return means
