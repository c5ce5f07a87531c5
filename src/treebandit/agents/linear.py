"""LinUCB and LinTS: ridge regression per arm, or one with a level per arm, kept up to date row by row."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from treebandit.agents.base import BaseAgent
from treebandit.core import Candidates, Columns, Estimate, Features, Floats, Indices
from treebandit.errors import InputError, NotFittedError, ParameterError
from treebandit.features.encoding import OneHot
from treebandit.models.ridge import DisjointRidge, Ridge, SharedRidge

_SMALLEST_RIDGE = 1e-8
_RESCALE_GROWTH = 1.125
_RESCALE_ROWS = 4096


@dataclass(eq=False)
class _LinearAgent(BaseAgent):
    """Ridge regression on (1, scaled numbers, one-hot categories) but for the last line, LinUCB's or LinTS's.

    exploration: ν (α in Li et al. 2010); 0 is greedy.
    ridge: λ, the weight of the prior: coefficients start at 0 with variance 1/λ.
    shared: False, each arm has coefficients of its own (the disjoint model). True, all arms share them and each
        has a level of its own (a hybrid model): what one arm teaches helps the others.

    Numbers are scaled by mean and standard deviation of the rows learned so far. When these rows have grown by an
    eighth, the sums that the models rest on are carried over to the new scale, which loses nothing, and inverted
    afresh; in between every row is a rank-one update. A missing number counts as the mean of its time.
    """

    exploration: float = 0.1
    ridge: float = 1.0
    shared: bool = False
    seed: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (self.exploration >= 0 and math.isfinite(self.exploration)):
            raise ParameterError(f"exploration={self.exploration!r}; expected a number of at least 0")
        if not (self.ridge >= _SMALLEST_RIDGE and math.isfinite(self.ridge)):
            raise ParameterError(f"ridge={self.ridge!r}; expected a number of at least {_SMALLEST_RIDGE}")
        self._scaling: _Scaling | None = None
        self._model: Ridge | None = None

    def _new_model(self, width: int) -> Ridge:
        return SharedRidge(width, self.ridge) if self.shared else DisjointRidge(width, self.ridge)

    def _explore(self, model: Ridge, rows: Floats, arms: Indices) -> Floats:
        raise NotImplementedError

    def _scores(self, candidates: Candidates) -> Floats:
        scaling = self._scaling or _Scaling(candidates.columns)
        model = self._model or self._new_model(scaling.width)
        return self._explore(model, scaling(candidates.contexts), _arms(candidates))

    def _estimate(self, candidates: Candidates) -> Estimate:
        if self._scaling is None or self._model is None:
            raise NotFittedError("no rows learned yet; learn some before asking for an estimate")
        return self._model.estimate(self._scaling(candidates.contexts), _arms(candidates))

    def _learn(self, chosen: Candidates, rewards: Floats) -> None:
        if self._scaling is None or self._model is None:
            self._scaling = _Scaling(chosen.columns)
            self._model = self._new_model(self._scaling.width)
        elif chosen.columns.categories != self._scaling.columns.categories:
            self._widen(chosen.columns)
        scaling, model = self._scaling, self._model
        scaling.see(chosen.contexts)
        if scaling.due:
            model.rescale(*scaling.renew())
        model.learn(scaling(chosen.contexts), _arms(chosen), rewards)

    def _widen(self, columns: Columns) -> None:
        """Make room for categories met for the first time: their coefficients start at the prior."""
        assert self._scaling is not None
        assert self._model is not None
        wider, places = self._scaling.widened(columns)
        if wider.width > self._scaling.width:
            self._model.widen(places, wider.width)
        self._scaling = wider

    def _state(self) -> dict[str, Any]:
        if self._scaling is None or self._model is None:
            return {"scaling": None, "model": None}
        return {"scaling": self._scaling.state(), "model": self._model.state()}

    def _restore(self, state: dict[str, Any]) -> None:
        if state["scaling"] is not None:
            self._scaling = _Scaling.restored(state["scaling"])
            self._model = self._new_model(self._scaling.width)
            self._model.restore(state["model"])


@dataclass(eq=False)
class LinUCB(_LinearAgent):
    """Linear upper confidence bound (Li et al. 2010): U = z·θ + ν √(z'A⁻¹z), A = λI + Σ zz'."""

    def _explore(self, model: Ridge, rows: Floats, arms: Indices) -> Floats:
        estimate = model.estimate(rows, arms)
        return estimate.mean + self.exploration * np.sqrt(estimate.variance)


@dataclass(eq=False)
class LinTS(_LinearAgent):
    """Linear Thompson sampling (Agrawal and Goyal 2013): z·θ̃ with θ̃ drawn from N(θ, ν² A⁻¹), once per arm."""

    def _explore(self, model: Ridge, rows: Floats, arms: Indices) -> Floats:
        return model.draw(rows, arms, self.exploration, self._random)


def _arms(candidates: Candidates) -> Indices:
    """One model serves all rows that have no arm."""
    return np.zeros(len(candidates), np.intp) if candidates.arms is None else candidates.arms


class _Scaling:
    """Contexts -> rows (1, features): numbers scaled by what was seen, categories one-hot, missing numbers 0."""

    def __init__(self, columns: Columns) -> None:
        self.columns = columns
        self._spread = OneHot(columns)
        self.width = 1 + self._spread.width
        widths = np.maximum(columns.categories, 1)
        self._starts = 1 + np.cumsum(widths) - widths
        self._numbers = np.flatnonzero(np.asarray(columns.categories) == 0)
        self._places = self._starts[self._numbers]
        self.rows = 0
        self._renewed_at = 0
        self._count, self._mean, self._squares = np.zeros((3, len(self._numbers)))
        self._shift = np.zeros(self.width)
        self._factor = np.ones(self.width)

    def __call__(self, contexts: Features) -> Floats:
        """(n, width) rows of (n, d) contexts."""
        rows = np.empty((len(contexts), self.width))
        rows[:, 0] = 1.0
        rows[:, 1:] = self._spread(contexts)
        if len(self._numbers):
            rows -= self._shift
            rows *= self._factor
            np.copyto(rows, 0.0, where=np.isnan(rows))
        return rows

    def see(self, contexts: Features) -> None:
        """Take rows into the running mean and the sum of squares around it, column by column."""
        self.rows += len(contexts)
        if not len(self._numbers):
            return
        values = contexts[:, self._numbers].astype(np.float64)
        present = ~np.isnan(values)
        added = present.sum(axis=0)
        both = np.maximum(self._count + added, 1.0)
        mean = np.where(present, values, 0.0).sum(axis=0) / np.maximum(added, 1)
        step = np.where(added > 0, mean - self._mean, 0.0)
        self._squares += (np.where(present, values - mean, 0.0) ** 2).sum(axis=0)
        self._squares += step**2 * self._count * added / both
        self._mean += step * added / both
        self._count += added

    @property
    def due(self) -> bool:
        """Whether the rows seen have grown enough for a new scale."""
        return self.rows >= min(self._renewed_at * _RESCALE_GROWTH, self._renewed_at + _RESCALE_ROWS)

    def renew(self) -> tuple[Floats, Floats]:
        """Take up the scale of the rows seen; ratio and offset, (width,), lead there: new = ratio · old + offset."""
        shift, factor = self._shift.copy(), self._factor.copy()
        deviation = np.sqrt(self._squares / np.maximum(self._count, 1.0))
        # Rounding alone gives a constant column a deviation of about 1e-16 of its size.
        varies = deviation > 1e-7 * np.abs(self._mean)
        shift[self._places] = self._mean
        factor[self._places] = 1.0 / np.where(varies, deviation, 1.0)
        ratio, offset = factor / self._factor, (self._shift - shift) * factor
        self._shift, self._factor, self._renewed_at = shift, factor, self.rows
        return ratio, offset

    def widened(self, columns: Columns) -> tuple[_Scaling, Indices]:
        """This scaling with all categories of `columns` too, and where its present features are in the new one."""
        pairs = list(zip(self.columns.categories, columns.categories, strict=True))
        for place, (ours, theirs) in enumerate(pairs):
            if (ours == 0) != (theirs == 0):
                kinds = ["categories" if count else "numbers" for count in (ours, theirs)]
                raise InputError(
                    f"column {place} held {kinds[0]} and now holds {kinds[1]}; keep to {kinds[0]}"
                )
        wider = _Scaling(Columns(tuple(max(pair) for pair in pairs), columns.names))
        blocks = zip(wider._starts, np.maximum(self.columns.categories, 1), strict=True)
        places = np.concatenate([[0], *(start + np.arange(width) for start, width in blocks)]).astype(np.intp)
        wider.rows, wider._renewed_at = self.rows, self._renewed_at
        wider._count, wider._mean, wider._squares = self._count, self._mean, self._squares
        wider._shift[places], wider._factor[places] = self._shift, self._factor
        return wider, places

    def state(self) -> dict[str, Any]:
        return {
            "columns": [list(self.columns.categories), list(self.columns.names)],
            "rows": [self.rows, self._renewed_at],
            "seen": np.stack([self._count, self._mean, self._squares]),
            "scale": np.stack([self._shift, self._factor]),
        }

    @classmethod
    def restored(cls, state: dict[str, Any]) -> _Scaling:
        categories, names = state["columns"]
        scaling = cls(Columns(tuple(categories), tuple(names)))
        scaling.rows, scaling._renewed_at = state["rows"]
        scaling._count, scaling._mean, scaling._squares = state["seen"].copy()
        scaling._shift, scaling._factor = state["scale"].copy()
        return scaling
