"""What an arm pays beyond what its features tell: a random effect per arm, its variance learned from all arms."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from treebandit import schema
from treebandit.core import Floats, Indices, Random
from treebandit.errors import SavedFileError
from treebandit.features.arm_index import ArmIndex
from treebandit.models.model import Commit

#: Effects need so many arms with two rows or more; with fewer there is nothing to learn their variance from.
_FEWEST_ARMS = 5
#: With so many first rows of new arms, these tell enough.
FEW_FIRST_ROWS = 16
#: The unit of residuals is at least this share of its mean.
_LEAST_UNIT = 0.05
#: Where rows tell their unit, residuals are cut off at so many of them: one jam must not close a road for good.
_MOST_UNITS = 4.0
#: Draws deviate by so much more where arms held out have told τ², which holds no noise then.
_UNSEEN_SCALE = 1.5
COUNT, SUM, SQUARES = range(3)


class ArmEffects:
    """reward = prediction + unit · (u + noise), with u from N(0, τ²) for each arm and noise from N(0, σ²).

    unit(m) = intercept + slope · m is how far rewards are from a prediction of m on average: long roads vary by more
    seconds than short ones. It is fitted to the residuals, so that nothing depends on the unit of the rewards, nor on
    where their 0 is. Or each row tells its own, (n,) `units` in all calls: roads that end at a signal vary by more than
    others of their length. Residuals are then cut off.

    τ² and σ² are those of a one-way analysis of variance (empirical Bayes); an arm without rows has the variance τ²,
    one with many rows its own mean. But predictions of learned rows have seen their arms. So τ² is at least what the
    first rows of new arms show, which were predicted before anything was known of their arm; while these are few, that
    of arms that the trees have not seen is at least what arms show that were held out (`models/unseen_arms.py`). Of the
    others, trees have learned the effect. Where rows tell their units, the mean of these others has the τ² that the
    analysis of variance alone finds, which is of what the trees have left of them.

    unit: intercept, slope and least value. variances: τ² and σ².
    left: τ² of the means of arms that the trees were fitted to.
    sums: (arms + 1, 3), count, sum and sum of squares of each arm's residuals in units; row 0 is of arms not seen.
    first: count and sum of squares of the residuals of new arms.
    unseen: τ² as arms held out tell it, 0 where it is not more; and how many rows of `sums` the fit has filled.
    """

    __slots__ = ("_arms", "first", "left", "sums", "unit", "unseen", "variances")

    def __init__(self, arms: ArmIndex, unit: Floats, variances: Floats, sums: Floats, first: Floats) -> None:
        self._arms, self.unit, self.variances, self.sums, self.first = arms, unit, variances, sums, first
        self.unseen, self.left = np.array([0.0, len(sums)]), float(variances[0])

    @classmethod
    def fit(
        cls,
        arms: Indices,
        predicted: Floats,
        rewards: Floats,
        *,
        units: Floats | None = None,
        counts: Indices | None = None,
        first: Floats | None = None,
        unseen: tuple[Indices, Floats, Floats] | None = None,
    ) -> Self:
        """The effects of (n,) arms whose rows were predicted and paid so much.

        counts: (n,), how many rows the arm of each row has, where these are only some of them; they then stand for all.
        first: as known so far. unseen: arms, predictions and rewards of rows whose arms were held out when these
            predictions were learned; they count while there are few first rows.
        """
        residuals = rewards - predicted
        index, unit = ArmIndex(), _unit(predicted, np.abs(residuals)) if units is None else _least_unit(units)
        places = index.register(arms)
        first = np.zeros(2) if first is None else first
        effects = cls(index, unit, np.zeros(2), np.zeros((len(index), 3)), first)
        effects.sums = _sums_of(places, effects._in_units(residuals, predicted, units), len(index))
        effects.variances = _variances(effects.sums, first)
        effects.left = float(
            (effects.variances if units is None else _variances(effects.sums, np.zeros(2)))[0]
        )
        if counts is not None:
            rows = np.zeros(len(index))
            rows[places] = counts
            effects.sums *= (rows / np.maximum(effects.sums[:, COUNT], 1.0))[:, None]
        if unseen is not None and first[COUNT] < FEW_FIRST_ROWS:
            held, expected, paid = unseen
            _, places = np.unique(held, return_inverse=True)
            sums = _sums_of(places, (paid - expected) / effects._units(expected), len(held))
            if (common := _common(sums)) > effects.variances[0]:
                effects.unseen[0] = common
        return effects

    @property
    def active(self) -> bool:
        """Whether arms differ by more than chance."""
        return bool(self.variances[0] > 0.0 or self.unseen[0] > 0.0)

    def estimate(
        self, arms: Indices, predicted: Floats, *, units: Floats | None = None
    ) -> tuple[Floats, Floats]:
        """Mean and variance of the effects of (n,) arms where so much is predicted, in the unit of rewards."""
        mean, variance = self._posterior(self._arms.find(arms))
        units = self._units(predicted, units)
        return units * mean, units**2 * variance

    def sample(
        self,
        arms: Indices,
        predicted: Floats,
        draws: int,
        random: Random,
        *,
        scale: float,
        groups: NDArray[np.int32] | None = None,
        units: Floats | None = None,
    ) -> Floats:
        """Joint draws of the effects, (draws, n): rows of one arm share its draw.

        groups: (n,), arms without rows share their draw with those of the same group, that of an arm's first row. Where
            a prediction is wrong about one arm, it is so about others that look alike: a whole road is then tried, and
            not single edges of it.
        """
        places = self._arms.find(arms)
        mean, variance = self._posterior(places)
        labels, first, place = arms, slice(None), slice(None)  # type: Indices, Any, Any
        if not (arms[1:] > arms[:-1]).all():  # on roads, each arm comes once
            labels, first, place = np.unique(arms, return_index=True, return_inverse=True)
        noise = random.standard_normal((draws, len(labels)))
        new = self.sums[places[first], COUNT] == 0.0
        if groups is not None and new.any():
            found, member = _ranked(groups[first][new])
            noise[:, new] = random.standard_normal((draws, found))[:, member]
        deviation = scale * np.sqrt(variance)
        if self.unseen[0] > 0.0:
            deviation[self._not_fitted(places)] *= _UNSEEN_SCALE
        return self._units(predicted, units) * (mean + deviation * noise[:, place])

    def prepared_update(
        self,
        arms: Indices,
        predicted: Floats,
        rewards: Floats,
        *,
        units: Floats | None = None,
        new_rows: bool = True,
    ) -> Commit:
        """Let rows change the effects of their arms; `predicted` may be filled in just before the call.

        new_rows: False, these are learned again, and have been counted among the first of new arms.
        """
        index = self._arms
        places = index.find(arms)
        new, first = places == 0, self.first
        if not places.all():
            index = ArmIndex(index.labels)
            places = index.register(arms)
        known = np.zeros((len(index), 3))
        known[: len(self.sums)] = self.sums

        def commit() -> None:
            residuals = self._in_units(rewards - predicted, predicted, units)
            sums = known.copy()
            np.add.at(sums, places, np.column_stack([np.ones(len(residuals)), residuals, residuals**2]))
            self._arms, self.sums = index, sums
            if new_rows:
                self.first = first + np.array([new.sum(), np.square(residuals[new]).sum()])

        return commit

    def state(self) -> dict[str, Any]:
        """All of it as arrays."""
        arrays = {"unit": self.unit, "variances": self.variances, "sums": self.sums, "first": self.first}
        return {"arms": self._arms.labels, "unseen": self.unseen, "left": self.left, **arrays}

    @classmethod
    def restored(cls, state: dict[str, Any]) -> Self:
        """The effects that `state` described."""
        labels = schema.labels(state, "arms")
        unit = schema.array(state, "unit", np.float64, (3,))
        variances = schema.array(state, "variances", np.float64, (2,), least=0.0)
        sums = schema.array(state, "sums", np.float64, (len(labels) + 1, 3))
        first = schema.array(state, "first", np.float64, (2,), least=0.0)
        if unit[2] <= 0.0 or variances[1] <= 0.0 or (sums[:, [COUNT, SQUARES]] < 0.0).any():
            raise SavedFileError("the saved effects of arms are not those of rows; save the agent again")
        effects = cls(ArmIndex(labels), unit, variances, sums, first)
        effects.left = schema.number(state, "left", least=0.0, most=float(variances[0]))
        effects.unseen = schema.array(state, "unseen", np.float64, (2,), least=0.0)
        if not 1.0 <= effects.unseen[1] <= len(sums):
            raise schema.refused("unseen", effects.unseen, f"a count of 1 to {len(sums)} arms behind τ²")
        return effects

    def _not_fitted(self, places: Indices) -> NDArray[np.bool_]:
        """Whether the trees have not seen the arms of these rows of `sums`, (n,)."""
        fitted = int(self.unseen[1])
        return np.asarray((places == 0) | (places >= fitted), np.bool_)

    def _posterior(self, places: Indices) -> tuple[Floats, Floats]:
        """Mean and variance of u of the arms of these rows of `sums`, (n,) each."""
        sums = self.sums[places]
        between, within = self.variances.tolist()
        if self.unseen[0] > 0.0:
            between = np.where(self._not_fitted(places), self.unseen[0], between)
        share = own = between / (within + between * sums[:, COUNT])
        if self.left < self.variances[0]:
            left = np.where(self._not_fitted(places), between, self.left)
            own = left / (within + left * sums[:, COUNT])
        return own * sums[:, SUM], share * within

    def _in_units(self, residuals: Floats, predicted: Floats, units: Floats | None) -> Floats:
        found: Floats = residuals / self._units(predicted, units)
        return found if units is None else np.clip(found, -_MOST_UNITS, _MOST_UNITS)

    def _units(self, predicted: Floats, units: Floats | None = None) -> Floats:
        """How far rewards are from these predictions, (n,); where rows tell that, as they do."""
        intercept, slope, least = self.unit.tolist()
        found: Floats = np.maximum(intercept + slope * predicted if units is None else units, least)
        return found


def _ranked(groups: NDArray[np.int32]) -> tuple[int, Indices]:
    """How many different groups there are, and the rank of each of (n,) among them; nodes of one tree lie close."""
    places = groups - groups.min()
    there = np.zeros(places.max() + 1, np.bool_)
    there[places] = True
    ranks = np.cumsum(there) - 1
    return int(ranks[-1]) + 1, ranks[places]


def _unit(predicted: Floats, sizes: Floats) -> Floats:
    """Least squares of (n,) sizes of residuals on predictions; intercept, slope and least value."""
    mean, size = float(predicted.mean()), float(sizes.mean())
    centred = predicted - mean
    squares = float(centred @ centred)
    slope = float(centred @ sizes) / squares if squares > 0.0 else 0.0
    if not size > 0.0:
        return np.array([0.0, 0.0, 1.0])
    return np.array([size - slope * mean, slope, _LEAST_UNIT * size])


def _least_unit(units: Floats) -> Floats:
    """The same where rows tell their unit: only the least value counts."""
    mean = float(units.mean())
    return np.array([0.0, 0.0, _LEAST_UNIT * mean if mean > 0.0 else 1.0])


def _sums_of(places: Indices, residuals: Floats, size: int) -> Floats:
    """(size, 3), count, sum and sum of squares of the residuals of each place."""
    values = None, residuals, residuals**2
    return np.column_stack([np.bincount(places, each, minlength=size) for each in values])


def _common(sums: Floats) -> float:
    """The mean over arms of products of two residuals of one arm, which hold no noise; 0 with too few arms."""
    count, total, squares = sums[sums[:, COUNT] >= 2.0].T
    if len(count) < _FEWEST_ARMS:
        return 0.0
    return float(np.mean((total**2 - squares) / (count * (count - 1.0))))


def _variances(sums: Floats, first: Floats) -> Floats:
    """τ² and σ² by the method of moments; τ² = 0 where arms do not differ."""
    count, total, squares = sums[sums[:, COUNT] >= 2.0].T
    rows = count.sum()
    if len(count) < _FEWEST_ARMS:
        return np.array([0.0, 1.0])
    within = (squares - total**2 / count).sum() / (rows - len(count))
    around = (total**2 / count).sum() - total.sum() ** 2 / rows
    between = (around - (len(count) - 1) * within) / (rows - (count**2).sum() / rows)
    if first[0] > _FEWEST_ARMS:
        between = max(between, first[1] / first[0] - within)
    return np.array([max(between, 0.0), max(within, 1e-12)])
