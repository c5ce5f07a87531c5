"""What the columns of a row, and its arm, add to the mean that a model expects of it."""

from __future__ import annotations

from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from treebandit.core import Candidates, Columns, Floats, Indices

#: Where a feature stems from that is no column: the arm, or the score of a linear model.
ARM, LINEAR_MODEL = -1, -2


class Attribution(NamedTuple):
    """The mean of each row is `baseline` + `columns` + `arm` + `linear_model`, summed over its columns.

    baseline: (n,). columns: (n, d). arm: (n,).
    linear_model: (n,), what trees make of the score of a linear model that is one of their features.
    """

    baseline: Floats
    columns: Floats
    arm: Floats
    linear_model: Floats

    @property
    def mean(self) -> Floats:
        """(n,): all of it together."""
        mean: Floats = self.baseline + self.columns.sum(1) + self.arm + self.linear_model
        return mean

    def scaled(self, factor: float | Floats, shift: float | Floats = 0.0) -> Attribution:
        """Of factor · mean + shift; a number, or (n,)."""
        baseline, columns, *rest = self
        scaled = np.multiply(factor, baseline) + shift, np.multiply(factor, columns.T).T
        return Attribution(*scaled, *(factor * part for part in rest))

    def plus(self, other: Attribution) -> Attribution:
        """Of the sum of two means; the other may know fewer columns, the first ones."""
        columns = self.columns.copy()
        columns[:, : other.columns.shape[1]] += other.columns
        arm, linear_model = self.arm + other.arm, self.linear_model + other.linear_model
        return Attribution(self.baseline + other.baseline, columns, arm, linear_model)


@runtime_checkable
class Explains(Protocol):
    """A reward model that can tell where its means come from."""

    def attribution(self, rows: Candidates) -> Attribution:
        """What columns and arm add to the mean of each row."""


def of_features(features: Floats, baseline: float, sources: Indices, columns: Columns) -> Attribution:
    """(n, width) attributions of features, summed up by where each stems from."""
    n, d = len(features), len(columns)
    summed = np.zeros((d + 2, n))
    np.add.at(summed, np.where(sources >= 0, sources, d - 1 - sources), features.T)
    return Attribution(np.full(n, baseline), summed[:d].T, summed[d], summed[d + 1])
