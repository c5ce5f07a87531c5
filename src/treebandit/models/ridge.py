"""Ridge regression that learns row by row: one per arm, or one for all arms with an intercept for each."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treebandit import schema
from treebandit.core import Candidates, Columns, Estimate, Features, Floats, Indices, Random
from treebandit.errors import InputError, SavedFileError
from treebandit.features.arm_index import ArmIndex
from treebandit.features.encoding import OneHotLayout
from treebandit.models import ridge_kernels, ridge_store
from treebandit.models.attribution import Attribution
from treebandit.models.model import Commit
from treebandit.models.ridge_arrays import (
    CAPACITY,
    ORIGIN,
    REWARD_MEAN,
    REWARD_SQUARES,
    REWARDS,
    SIZE,
    START,
    SUMS,
    VERSION,
    Arrays,
    Parts,
    scratch,
)

_NO_ARMS = np.empty(0, np.intp)
_NO_LAYOUT: OneHotLayout = np.empty(0, np.intp), np.empty(0, np.float32), np.empty(0, np.bool_)


class Ridge:
    """Bayesian linear regression on z = (1, standardised numbers, one-hot categories), one per arm.

    θ = A⁻¹ Σ zr and A = λI + Σ zz' over the arm's rows; an arm without rows is at the prior N(0, 1/λ).

    ridge: λ.
    standardise: regress on (r - mean) / sd of all rewards learned so far, so that nothing depends on their unit: an arm
        without rows is expected to pay the mean reward. False: regress on the rewards themselves, whose noise is taken
        to have variance 1.

    Numbers are scaled by the mean and standard deviation of the rows learned so far. When these have changed, the sums
    are carried over to the new scale, which loses nothing, and inverted afresh; in between every row is a rank-one
    update. A missing number counts as the mean of its time, and columns of 0 and 1 are not scaled.

    Rows may have more columns than those before, which are missing in these: a column's first number is the mean of
    that time. trailing: so many columns stay the last ones; new ones come before them.
    """

    def __init__(self, ridge: float = 1.0, *, standardise: bool = True, trailing: int = 0) -> None:
        self.ridge, self.standardise, self._trailing = ridge, standardise, trailing
        self._columns: Columns | None = None
        self._arms = ArmIndex()
        #: `Arrays` as kernels take them; empty before the first row.
        self.parts: Parts = ()
        #: Scratch for arrays of this width, kept from one row to the next.
        self._scratch: tuple[NDArray[np.int64], Floats] = np.empty(0, np.int64), np.empty((3, 0))

    def __len__(self) -> int:
        """How many rows were learned."""
        return int(self._numbers[REWARDS])

    @property
    def fitted(self) -> bool:
        """Whether any row was learned."""
        return len(self) > 0

    @property
    def categories(self) -> tuple[int, ...]:
        """The number of categories of each column learned; 0 for numbers."""
        return () if self._columns is None else self._columns.categories

    @property
    def reward_moments(self) -> tuple[float, float]:
        """Mean and standard deviation of the rewards learned so far."""
        numbers = self._numbers.tolist()
        deviation = math.sqrt(numbers[REWARD_SQUARES] / max(numbers[REWARDS], 1.0))
        return numbers[ORIGIN] + numbers[REWARD_MEAN], deviation

    @property
    def reward_sd(self) -> float:
        """Standard deviation of the rewards learned so far."""
        return self.reward_moments[1]

    def prepared(self, rows: Candidates, rewards: Floats, **how: Any) -> Commit:
        """All that may fail of learning rows; the callable does the rest, and may be called twice.

        how: what `RewardModel` names besides; a regression learns the same in any round, and without chance.
        """
        return self.prepared_arrays(rows.columns, *plain_arrays(rows.contexts, rows.arms), rewards)

    def prepared_arrays(self, columns: Columns, contexts: Features, arms: Indices, rewards: Floats) -> Commit:
        """The same of what `plain_arrays` gave."""
        if self._columns is not None and columns is not self._columns:
            columns = self._merged(columns)
        index, parts = self._arms, self.parts
        if columns is not self._columns or not self._has_room(arms):
            index, parts = self._with_room(columns, contexts, arms)
        version, targets = parts[-1].item(VERSION), np.array(rewards, np.float64)
        counts = np.zeros((2, len(parts[1])), np.int64)

        def commit() -> None:
            self._columns, self._arms, self.parts = columns, index, parts
            ridge_kernels.learn(parts, contexts, arms, targets, version, (*self._own_scratch(parts), counts))

        return commit

    def _own_scratch(self, parts: Parts) -> tuple[NDArray[np.int64], Floats]:
        """Scratch for arrays of this model, which one caller uses at a time."""
        if len(self._scratch[0]) != parts[2].shape[1]:
            self._scratch = scratch(parts)
        return self._scratch

    @property
    def arms(self) -> Indices:
        """The arms learned, in the order in which they came."""
        return self._arms.labels

    def look_up(self, contexts: Features, arms: Indices, layout: OneHotLayout, features: Features) -> Floats:
        """z·θ, leverage and rows of the arm, (3, n); fills in the features of trees, see the kernel."""
        found, parts = np.empty((3, len(arms))), self.parts
        ridge_kernels.predict(parts, contexts, arms, layout, (found, features), self._own_scratch(parts))
        return found

    def _has_room(self, arms: Indices) -> bool:
        """Whether one more row of this arm surely fits into the arrays as they are; not asked of many rows."""
        if self._columns is None or len(arms) != 1 or not (block := self._arms.row(arms.item())):
            return False
        _, blocks, places, _, _ = self.parts
        size, capacity = blocks.item(block, SIZE), blocks.item(block, CAPACITY)
        if capacity >= places.shape[1]:
            return True
        categories = self._columns.categories
        coded = len(categories) - categories.count(0)
        return bool(size + coded <= capacity)

    def _with_room(self, columns: Columns, contexts: Features, arms: Indices) -> tuple[ArmIndex, Parts]:
        """Arms and arrays that these rows fit into; what they hold is the same."""
        arrays = Arrays(*self.parts) if self.parts else ridge_store.empty(columns, self._settings)
        if self._columns is not None and columns is not self._columns:
            arrays = ridge_store.widened(arrays, columns, self._trailing)
        index = self._arms
        arm_rows = index.find(arms)
        if not arm_rows.all():
            index = ArmIndex(index.labels)
            arm_rows = index.register(arms)
            arrays = ridge_store.with_arms(arrays, index.labels)
        needed = ridge_store.needed_capacities(arrays, contexts, arm_rows)
        return index, tuple(ridge_store.with_capacity(arrays, needed))

    def learn(self, rows: Candidates, rewards: Floats, *, t: int = 0) -> None:
        """Take in rows with their rewards."""
        self.prepared(rows, rewards)()

    def solve_anew(self, ridge: float) -> bool:
        """Take up another λ as if all rows had been learned at once with it.

        Returns False and changes nothing where the last digits would differ: an arm with no more rows than coordinates
        learns them one by one.
        """
        counts = ridge_store.set_prior(Arrays(*self.parts), ridge)
        if counts is not None:
            self.ridge, rows = ridge, (np.empty((0, len(self.categories)), np.float32), _NO_ARMS, np.empty(0))
            ridge_kernels.learn(self.parts, *rows, 0.0, (*self._own_scratch(self.parts), counts))
        return counts is not None

    def predict(self, rows: Candidates) -> tuple[Floats, Floats, Floats]:
        """z·θ in the unit of rewards, leverage z'A⁻¹z, and rows of the arm, of each row; by the columns learned."""
        return self._predict(self._learned_columns(rows))

    def _predict(self, rows: Candidates) -> tuple[Floats, Floats, Floats]:
        parts, (contexts, arms) = self._parts_for(rows), plain_arrays(rows.contexts, rows.arms)
        made = np.empty((3, len(arms))), np.empty((len(arms), 1), np.float32)
        ridge_kernels.predict(parts, contexts, arms, _NO_LAYOUT, made, self._own_scratch(parts))
        return made[0][0], made[0][1], made[0][2]

    def estimate(self, rows: Candidates) -> Estimate:
        """Mean and variance of each row's expected reward under the posterior, and the rows of its arm."""
        mean, leverage, count = self.predict(rows)
        return Estimate(mean, self._noise**2 * leverage, count)

    def sample(self, rows: Candidates, draws: int, random: Random, *, scale: float = 1.0) -> Floats:
        """Expected rewards of the rows, (draws, n), under draws of all coefficients from N(θ, scale² s² A⁻¹).

        s is the standard deviation of rewards, or 1 where they are not standardised.
        """
        rows = self._learned_columns(rows)
        mean, leverage, _ = self._predict(rows)
        contexts, arms = plain_arrays(rows.contexts, rows.arms)
        labels, place, counts = np.unique(arms, return_inverse=True, return_counts=True)
        if len(labels) == len(arms):
            # One row per arm: what its coefficients would give is a number drawn for itself.
            noise = np.sqrt(leverage) * random.standard_normal((draws, len(arms)))
        else:
            noise, arm_rows = np.empty((draws, len(arms))), self._arms.find(labels)
            parts = self._parts_for(rows)
            groups = np.split(np.argsort(place, kind="stable"), np.cumsum(counts)[:-1])
            for arm_row, group in zip(arm_rows, groups, strict=True):
                root = _root(parts, contexts[group], int(arm_row))
                noise[:, group] = random.standard_normal((draws, root.shape[1])) @ root.T
        return mean + scale * self._noise * noise

    def attribution(self, rows: Candidates) -> Attribution:
        """z_j·θ_j of each column and the level of the arm: what they add to the mean of all rewards.

        The prediction is linear in z, and a column that is missing has z_j = 0: so each is shown alone.
        """
        rows = self._learned_columns(rows)
        shown = np.full_like(rows.contexts, np.nan)
        level = self._predict(Candidates(shown, rows.arms, rows.columns))[0]
        columns = np.empty(shown.shape)
        for j in range(shown.shape[1]):
            shown[:, j] = rows.contexts[:, j]
            columns[:, j] = self._predict(Candidates(shown, rows.arms, rows.columns))[0] - level
            shown[:, j] = np.nan
        baseline = np.full(len(rows), self.reward_moments[0]) if rows.arms is not None else level
        return Attribution(baseline, columns, level - baseline, np.zeros(len(rows)))

    def cross_fitted(self, rows: Candidates, rewards: Floats, folds: Indices) -> Floats:
        """Scores of learned rows, (n,), each by regressions on the rows of the other folds."""
        mean = float(np.mean(rewards))
        contexts, arms = plain_arrays(rows.contexts, rows.arms)
        made = np.zeros(len(rows)), np.zeros(self.parts[3].shape)
        ridge_kernels.cross_fit(
            self.parts, contexts, arms, (rewards - mean, folds), made, scratch(self.parts)
        )
        return made[0] + mean

    def state(self, *, history: bool = True) -> dict[str, Any]:
        """All that is needed to go on elsewhere; there is no history in it."""
        if self._columns is None:
            return {"columns": None}
        return ridge_store.state_of(Arrays(*self.parts), self._columns, self._arms.labels)

    def restore(self, state: dict[str, Any]) -> None:
        """Take up what `state` gave; raises SavedFileError where that does not fit together."""
        if schema.value(state, "columns") is None:
            self._columns, self._arms, self.parts = None, ArmIndex(), ()
            return
        arrays, columns, labels = ridge_store.arrays_of(state, self._settings)
        self._columns, self._arms, self.parts = columns, ArmIndex(labels), tuple(arrays)

    @property
    def _settings(self) -> Floats:
        return np.array([self.ridge, self.standardise], np.float64)

    @property
    def _numbers(self) -> Floats:
        numbers: Floats = self.parts[-1] if self.parts else np.zeros(8)
        return numbers

    @property
    def _noise(self) -> float:
        """The deviation of rewards; while all are equal, their size, so that it scales with them."""
        return (self.reward_sd or abs(self.reward_moments[0]) or 1.0) if self.standardise else 1.0

    def _parts_for(self, rows: Candidates) -> Parts:
        """The model, or the prior before the first row; with coordinates for all categories of the rows."""
        if self._columns is None:
            return tuple(ridge_store.with_capacity(ridge_store.empty(rows.columns, self._settings), {}))
        columns = self._merged(rows.columns)
        if columns is self._columns:
            return self.parts
        return tuple(ridge_store.widened(Arrays(*self.parts), columns))

    def _learned_columns(self, rows: Candidates) -> Candidates:
        """The rows without columns that no row learned has had."""
        if self._columns is None or len(rows.columns) <= len(self._columns):
            return rows
        tail = len(rows.columns) - self._trailing
        kept = [*range(len(self._columns) - self._trailing), *range(tail, len(rows.columns))]
        columns = Columns(tuple(rows.columns.categories[place] for place in kept))
        return Candidates(rows.contexts[:, kept], rows.arms, columns)

    def _merged(self, given: Columns) -> Columns:
        """The columns known, and what is given in addition."""
        known = self._columns
        assert known is not None
        if len(given) > len(known):
            cut, more = len(known) - self._trailing, len(given) - self._trailing
            categories = (*known.categories[:cut], *given.categories[cut:more], *known.categories[cut:])
            known = Columns(categories, given.names)
        return merged(known, given)


class SharedRidge(Ridge):
    """One ridge regression for all arms, each with an intercept of its own: the arm is one more category, the last.

    All coefficients have the prior N(0, 1/λ). Time and memory grow with the square of the number of arms seen.
    """

    def __init__(self, ridge: float = 1.0, *, standardise: bool = True) -> None:
        super().__init__(ridge, standardise=standardise, trailing=1)
        self._codes = ArmIndex()
        self._counts = np.zeros(1)

    def prepared(self, rows: Candidates, rewards: Floats, **how: Any) -> Commit:
        """All that may fail of learning rows; the callable does the rest, and may be called twice."""
        arms, index = plain_arrays(rows.contexts, rows.arms)[1], self._codes
        if not index.find(arms).all():
            index = ArmIndex(index.labels)
            index.register(arms)
        counts = np.zeros(len(index))
        counts[: len(self._counts)] = self._counts
        np.add.at(counts, index.find(arms), 1.0)
        learn = super().prepared(_with_category(rows, index), rewards)

        def commit() -> None:
            self._codes, self._counts = index, counts
            learn()

        return commit

    def predict(self, rows: Candidates) -> tuple[Floats, Floats, Floats]:
        """z·θ in the unit of rewards, leverage z'A⁻¹z, and rows of the arm, of each row; by the columns learned."""
        mean, leverage, _ = super().predict(_with_category(rows, self._codes))
        return mean, leverage, self._counts[self._codes.find(plain_arrays(rows.contexts, rows.arms)[1])]

    def attribution(self, rows: Candidates) -> Attribution:
        """z_j·θ_j of each column, and the level of the arm."""
        found = super().attribution(_with_category(rows, self._codes))
        return found._replace(columns=found.columns[:, :-1], arm=found.arm + found.columns[:, -1])

    def sample(self, rows: Candidates, draws: int, random: Random, *, scale: float = 1.0) -> Floats:
        """Expected rewards of the rows, (draws, n), under draws of all coefficients; see `Ridge.sample`.

        What arms not seen have of their own is drawn apart: it has nothing to do with all else.
        """
        contexts, arms = plain_arrays(rows.contexts, rows.arms)
        codes = self._codes.find(arms)
        known = Columns((*rows.columns.categories, len(self._codes)))
        shared = np.column_stack([contexts, np.where(codes > 0, codes, np.nan).astype(np.float32)])
        samples = super().sample(Candidates(shared, None, known), draws, random, scale=scale)
        new, place = np.unique(arms[codes == 0], return_inverse=True)
        if len(new):
            own = random.standard_normal((draws, len(new))) / np.sqrt(self.ridge)
            samples[:, codes == 0] += scale * self._noise * own[:, place]
        return samples

    def state(self, *, history: bool = True) -> dict[str, Any]:
        """All that is needed to go on elsewhere; there is no history in it."""
        return {"labels": self._codes.labels, "counts": self._counts, "ridge": super().state()}

    def restore(self, state: dict[str, Any]) -> None:
        """Take up what `state` gave; raises SavedFileError where that does not fit together."""
        labels = schema.labels(state, "labels")
        counts = schema.array(state, "counts", np.float64, (len(labels) + 1,), least=0.0)
        super().restore(schema.part(state, "ridge"))
        if labels.size and (not self.categories or self.categories[-1] != len(labels) + 1):
            raise SavedFileError(
                "the saved ridge regression has other arms than it counts; save the agent again"
            )
        self._codes, self._counts = ArmIndex(labels.copy()), counts.copy()


def merged(known: Columns, given: Columns) -> Columns:
    """The columns with all categories of both; `known` itself where it has them all."""
    if known.categories == given.categories:
        return known
    for place, (ours, theirs) in enumerate(zip(known.categories, given.categories, strict=True)):
        if (ours == 0) != (theirs == 0):
            kinds = ["categories" if count else "numbers" for count in (ours, theirs)]
            raise InputError(f"column {place} held {kinds[0]} and now holds {kinds[1]}; keep to {kinds[0]}")
    both = tuple(map(max, known.categories, given.categories))
    return known if both == known.categories else Columns(both, given.names)


def plain_arrays(contexts: Features, arms: Indices | None) -> tuple[Features, Indices]:
    """Contexts and arms as one compilation takes them; one regression serves all rows that have no arm."""
    contexts = contexts if contexts.flags.carray else np.array(contexts, order="C")
    if arms is None:
        return contexts, np.zeros(len(contexts), np.intp)
    return contexts, arms if arms.flags.carray and arms.dtype == np.intp else np.array(arms, np.intp)


def _root(parts: Parts, contexts: Features, block: int) -> Floats:
    """A root of the covariance of what the coefficients of a block say of (n, d) contexts, (n, k)."""
    _, blocks, places, store, _ = parts
    n, start = len(contexts), int(blocks[block, START])
    end = start + ridge_store.triangle(int(blocks[block, CAPACITY]))
    z, covariance = np.zeros((n, places.shape[1])), np.zeros((n, n))
    made = z, covariance, places[block].copy(), store[SUMS, start:end].copy()
    size = ridge_kernels.roots(parts, contexts, block, made, scratch(parts))
    return covariance if size == n else np.ascontiguousarray(z[:, :size])


def _with_category(rows: Candidates, index: ArmIndex) -> Candidates:
    """The rows with their arm as one more category; arms not seen get codes of their own behind those that were."""
    contexts, arms = plain_arrays(rows.contexts, rows.arms)
    codes = index.find(arms)
    new, place = np.unique(arms[codes == 0], return_inverse=True)
    codes[codes == 0] = len(index) + place
    columns = Columns((*rows.columns.categories, len(index) + len(new)))
    return Candidates(np.column_stack([contexts, codes.astype(np.float32)]), None, columns)
