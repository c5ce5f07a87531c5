"""A ridge regression per arm on rows as they are: no scaling, no one-hot columns, no intercept."""

from __future__ import annotations

from typing import Any

import numpy as np

from treebandit import schema
from treebandit.core import Candidates, Estimate, Floats, Indices, Random
from treebandit.errors import InputError, SavedFileError
from treebandit.features.arm_index import ArmIndex
from treebandit.features.encoding import plain_rows
from treebandit.models.model import Commit, arms_of

#: Regressions that would take more bytes than this are refused.
_MOST_BYTES = 1 << 32
_Sums = tuple[Floats, Floats, Floats, Floats]


class PlainRidge:
    """θ = A⁻¹ Σ xr and A = λI + Σ xx' over an arm's rows; row 0 is the prior, for arms not seen yet.

    This is the linear baseline of Zhang et al. (2021), whose grids the paper searches: categories are integer codes,
    and there is no intercept. `Ridge` is the better model; this one shows where the paper's linear figures come
    from.

    ridge: λ. unit: each row is divided by its length first.
    """

    def __init__(self, ridge: float = 1.0, *, unit: bool = False) -> None:
        self.ridge, self.unit = ridge, unit
        self._arms = ArmIndex()
        #: Of each arm: rows, A, Σ xr and A⁻¹.
        self._sums: _Sums = np.zeros(1), np.zeros((1, 0, 0)), np.zeros((1, 0)), np.zeros((1, 0, 0))

    def __len__(self) -> int:
        """How many rows were learned."""
        return int(self._sums[0].sum())

    @property
    def fitted(self) -> bool:
        """Whether any row was learned."""
        return len(self) > 0

    def prepared(
        self, rows: Candidates, rewards: Floats, *, t: int, random: Random, started: bool = True
    ) -> Commit:
        """All that may fail of learning rows; the commit writes what was computed."""
        x, arms = self._rows(rows)
        index = ArmIndex(self._arms.labels)
        arm_rows = index.register(arms)
        parts = self._with_capacity(len(index), x.shape[1])
        counts, gram, moment, inverse = parts
        touched, place = np.unique(arm_rows, return_inverse=True)
        new_counts = counts[touched] + np.bincount(place)
        new_gram, new_moment = gram[touched], moment[touched]
        np.add.at(new_gram, place, x[:, :, None] * x[:, None, :])
        np.add.at(new_moment, place, x * np.asarray(rewards)[:, None])
        new_inverse = np.linalg.inv(new_gram)

        def commit() -> None:
            counts[touched], gram[touched] = new_counts, new_gram
            moment[touched], inverse[touched] = new_moment, new_inverse
            self._arms, self._sums = index, parts

        return commit

    def estimate(self, rows: Candidates) -> Estimate:
        """x·θ, leverage x'A⁻¹x (rewards are taken to have noise of variance 1), and the rows of the arm."""
        x, arms = self._rows(rows)
        arm_rows = self._arms.find(arms)
        parts = self._with_capacity(len(self._arms), x.shape[1])
        counts, _, moment, inverse = (part[arm_rows] for part in parts)
        image = np.einsum("nij,nj->ni", inverse, x)
        mean, leverage = np.einsum("ni,ni->n", image, moment), np.einsum("ni,ni->n", image, x)
        return Estimate(mean, np.maximum(leverage, 0.0), counts)

    def sample(self, rows: Candidates, draws: int, random: Random, *, scale: float = 1.0) -> Floats:
        """Expected rewards of the rows, (draws, n), under draws of each arm's coefficients from N(θ, scale² A⁻¹)."""
        estimate, (x, arms) = self.estimate(rows), self._rows(rows)
        noise = random.standard_normal((draws, len(arms))) * np.sqrt(estimate.variance)
        labels, counts = np.unique(arms, return_counts=True)
        inverses = self._with_capacity(len(self._arms), x.shape[1])[3]
        for label in labels[counts > 1]:
            group = arms == label
            values, vectors = np.linalg.eigh(inverses[self._arms.find(np.array([label]))[0]])
            root = vectors * np.sqrt(np.maximum(values, 0.0))
            noise[:, group] = random.standard_normal((draws, len(values))) @ root.T @ x[group].T
        return estimate.mean + scale * noise

    def state(self, *, history: bool = True) -> dict[str, Any]:
        """All that is needed to go on elsewhere; there is no history in it."""
        counts, gram, moment, _ = (part[: len(self._arms)] for part in self._sums)
        return {"labels": self._arms.labels, "counts": counts, "gram": gram, "moment": moment}

    def restore(self, state: dict[str, Any]) -> None:
        """Take up what `state` gave."""
        index = ArmIndex(schema.labels(state, "labels"))
        gram = schema.array(state, "gram", np.float64, (len(index), None, None))
        width = gram.shape[1]
        moment = schema.array(state, "moment", np.float64, (len(index), width))
        counts = schema.array(state, "counts", np.float64, (len(index),), least=0.0)
        if gram.shape[2] != width or not np.array_equal(gram, gram.transpose(0, 2, 1)):
            raise SavedFileError(
                "the saved sums of a ridge regression are not symmetric; save the agent again"
            )
        if width and np.linalg.eigvalsh(gram).min() < 0.0:
            raise SavedFileError(
                "the saved sums of a ridge regression are not those of rows; save the agent again"
            )
        self._arms, self._sums = index, (counts, gram, moment, np.linalg.inv(gram))

    def _rows(self, rows: Candidates) -> tuple[Floats, Indices]:
        x = plain_rows(rows.contexts, unit=self.unit)
        return x, arms_of(rows)

    def _with_capacity(self, arm_rows: int, width: int) -> _Sums:
        """The sums with at least as many rows; those in use where they have them."""
        old = len(self._sums[0]) if self._sums[1].shape[1] else 0
        if old >= arm_rows:
            return self._sums
        capacity = arm_rows + arm_rows // 4
        if 16 * capacity * width**2 > _MOST_BYTES:
            raise InputError(
                f"regressions of {arm_rows - 1} arms with {width} columns would take more than "
                f"{_MOST_BYTES >> 20} MiB; give fewer columns"
            )
        counts, moment = np.zeros(capacity), np.zeros((capacity, width))
        gram, inverse = (
            np.tile(size * np.eye(width), (capacity, 1, 1)) for size in (self.ridge, 1.0 / self.ridge)
        )
        grown = counts, gram, moment, inverse
        for new, known in zip(grown, self._sums, strict=True):
            if old:
                new[:old] = known
        return grown
