"""An ensemble of linear models, each learning perturbed rewards from a prior of its own (Lu and Van Roy, 2017)."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from treebandit import schema
from treebandit.core import Candidates, Columns, Estimate, Features, Floats, Random
from treebandit.errors import InputError, NotFittedError, SavedFileError
from treebandit.features.encoding import OneHot
from treebandit.features.scaling import Standardiser
from treebandit.models.history import HistoryModel
from treebandit.models.model import arms_of

#: Standardised numbers are cut off here, so that one outlier does not outweigh all other rows.
_BOUND = 10.0
_MOST_BYTES = 1 << 32


@dataclass(frozen=True, slots=True)
class EnsembleSettings:
    """What the model is made of; the arguments of EnsembleSampling under the same names."""

    members: int = 30
    exploration: float = 0.25
    ridge: float = 1.0
    rebuild: str = "8 ln t"
    standardise: bool = True


@dataclass(frozen=True, slots=True, eq=False)
class _Arm:
    """One arm's rows in sums: A⁻¹ = (λI + Σ zz')⁻¹, (d, d), and λ θ₀ + Σ z (r + w) of every member, (d, members)."""

    inverse: Floats
    moments: Floats
    count: int

    @property
    def coefficients(self) -> Floats:
        """θ of every member, (d, members)."""
        return self.inverse @ self.moments


class EnsembleModel(HistoryModel):
    """M linear models per arm. Member m starts at θ₀ from N(0, ν²/λ) and sees every reward with noise w from N(0, ν²).

    Over the members, θ has the mean and the covariance ν² A⁻¹ of Bayesian linear regression, which LinTS draws from
    anew each time; here M draws are kept up to date instead, and a decision follows one of them. What the members
    disagree on is what the data leave open, and no posterior is ever written down.

    Numbers are standardised by the rows known at the last rebuild; in between every row is a rank-one update.
    """

    def __init__(self, settings: EnsembleSettings, seed: int) -> None:
        super().__init__(settings.rebuild, standardise=settings.standardise)
        self.settings, self._seed = settings, seed
        self._columns: Columns | None = None
        self._rows = Standardiser(np.zeros(0), np.ones(0))
        self._arms: dict[int, _Arm] = {}
        self._level = 0

    @property
    def fitted(self) -> bool:
        """Whether any row was learned."""
        return self._columns is not None

    def _learn(self, rows: Candidates, rewards: Floats, *, t: int, random: Random, started: bool) -> None:
        """Rank-one updates of the rows' arms, or all sums anew where it is time."""
        known, level = len(self.history), self._schedule.level(t + 1)
        self.history, self._arms = self.history.appended(rows, rewards), dict(self._arms)
        now = len(self.history), t + 1
        due = level > self._level or self._schedule.overdue(now, self.fitted_at)
        if rows.columns != self._columns or due or not self.scale.fits(rewards):
            self._columns, self._level, self.fitted_at = rows.columns, level, now
            self._rebuild(rows.columns)
            return
        z, targets = self.encoded(rows.contexts, rows.columns), self.scale.standardised(rewards)
        noise = self.noise(known, len(rows))
        for place, label in enumerate(arms_of(rows).tolist()):
            self._arms[label] = self._updated(label, z[place], targets[place] + noise[place])

    def _rebuild(self, columns: Columns) -> None:
        """All sums from all rows, numbers and rewards standardised by what is known now."""
        began, history, one_hot = time.perf_counter(), self.history, OneHot(columns)
        self._rows = Standardiser.of(one_hot(history.contexts), one_hot.numbers)
        self.scale = self._scale_of(history)
        z = self.encoded(history.contexts, columns)
        targets = self.scale.standardised(history.rewards)[:, None] + self.noise(0, len(history))
        labels = arms_of(history.rows(columns))
        for label in np.unique(labels).tolist():
            own = labels == label
            inverse = np.linalg.inv(self.settings.ridge * np.eye(z.shape[1]) + z[own].T @ z[own])
            moments = self.prior(label, z.shape[1]) + z[own].T @ targets[own]
            self._arms[label] = _Arm(inverse, moments, int(own.sum()))
        _check_size(len(self._arms), z.shape[1])
        self.rebuild_seconds += time.perf_counter() - began

    def _updated(self, label: int, z: Floats, targets: Floats) -> _Arm:
        """The arm after one row (Sherman and Morrison), of which every member sees a reward of its own."""
        arm = self._arms.get(label)
        if arm is None:
            _check_size(len(self._arms) + 1, len(z))
            arm = _Arm(np.eye(len(z)) / self.settings.ridge, self.prior(label, len(z)), 0)
        image = arm.inverse @ z
        inverse = arm.inverse - np.outer(image, image / (1.0 + image @ z))
        return _Arm(inverse, arm.moments + np.outer(z, targets), arm.count + 1)

    def noise(self, first: int, rows: int) -> Floats:
        """What is added to the rewards of these rows for each member, (rows, members): always the same for a row.

        A row takes as many steps of a counter-based generator as any other, so that its draws can be made again
        without those of the rows before it (Box and Muller, two uniform draws for two normal ones).
        """
        pairs = 2 * -(-self.settings.members // 4)
        steps = np.random.Philox(self._seed, counter=[first * pairs // 2, 0, 0, 0])
        uniform = np.random.Generator(steps).random((rows, 2, pairs))
        radius, angle = np.sqrt(-2.0 * np.log1p(-uniform[:, 0])), 2.0 * np.pi * uniform[:, 1]
        normal = np.hstack([radius * np.cos(angle), radius * np.sin(angle)])
        noise: Floats = self.settings.exploration * normal[:, : self.settings.members]
        return noise

    def prior(self, label: int, width: int) -> Floats:
        """λ θ₀ of every member, (width, members)."""
        draws = np.random.Generator(np.random.Philox(self._seed, counter=[label % 2**63, 1, 0, 0]))
        prior: Floats = draws.standard_normal((width, self.settings.members))
        prior *= self.settings.exploration * np.sqrt(self.settings.ridge)
        return prior

    def encoded(self, contexts: Features, columns: Columns) -> Floats:
        """(n, d) rows z: a 1 in front, standardised numbers, one-hot categories; columns added since are left out."""
        scaled = np.clip(self._rows(OneHot(columns)(contexts[:, : len(columns)])), -_BOUND, _BOUND)
        return np.column_stack([np.ones(len(scaled)), scaled])

    def predictions(self, rows: Candidates) -> Floats:
        """What every member expects of each row, in units of the scale: (n, members)."""
        if self._columns is None:
            raise NotFittedError("no rows learned yet; learn some before asking for an estimate")
        # Categories seen for the first time have no coefficient before the next rebuild.
        z, labels = self.encoded(rows.contexts, self._columns), arms_of(rows)
        found = np.empty((len(rows), self.settings.members))
        for label in np.unique(labels).tolist():
            own, arm = labels == label, self._arms.get(label)
            theta = self.prior(label, z.shape[1]) / self.settings.ridge if arm is None else arm.coefficients
            found[own] = z[own] @ theta
        return found

    def estimate(self, rows: Candidates) -> Estimate:
        """Mean and variance over the members, and the rows of the arm."""
        found = self.predictions(rows)
        counts = [self._arms[label].count if label in self._arms else 0 for label in arms_of(rows).tolist()]
        return self.scale.original(Estimate(found.mean(1), found.var(1), np.array(counts, np.float64)))

    def sample(self, rows: Candidates, draws: int, random: Random, *, scale: float = 1.0) -> Floats:
        """What a member drawn at random expects of all rows, `draws` times: (draws, n)."""
        found = self.predictions(rows)
        mean = found.mean(1)
        chosen = found[:, random.integers(self.settings.members, size=draws)].T
        samples: Floats = self.scale.mean + self.scale.deviation * (mean + scale * (chosen - mean))
        return samples

    def state(self, *, history: bool = True) -> dict[str, Any]:
        """All that is needed to go on elsewhere; without history, to estimate and sample."""
        columns = self._columns
        return {
            **super().state(history=history),
            "level": self._level,
            "columns": None if columns is None else [list(columns.names), list(columns.categories)],
            "rows": self._rows.state(),
            "labels": np.array(list(self._arms), np.intp),
            "counts": np.array([arm.count for arm in self._arms.values()], np.int64),
            "inverses": _stacked([arm.inverse for arm in self._arms.values()]),
            "moments": _stacked([arm.moments for arm in self._arms.values()]),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Take up what `state` gave."""
        super().restore(state)
        self._level = schema.whole(state, "level")
        labels, saved = schema.labels(state, "labels"), schema.value(state, "columns")
        if (saved is None) != (len(self.history) == 0) or (saved is None) != (len(labels) == 0):
            raise SavedFileError("rows, columns and arms of the saved ensemble do not fit each other")
        if saved is None:
            return
        self._columns = schema.columns(*schema.items(state, "columns", most=2))
        width = OneHot(self._columns).width
        self._rows = Standardiser.restored(schema.part(state, "rows"), width)
        shape = len(labels), width + 1
        counts = schema.array(state, "counts", np.int64, shape[:1], least=0)
        inverses = schema.array(state, "inverses", np.float64, (*shape, width + 1))
        moments = schema.array(state, "moments", np.float64, (*shape, self.settings.members))
        for label, *parts in zip(labels.tolist(), inverses, moments, counts.tolist(), strict=True):
            self._arms[label] = _Arm(*parts)


def _stacked(parts: list[Floats]) -> Floats:
    return np.stack(parts) if parts else np.zeros((0, 0, 0))


def _check_size(arms: int, width: int) -> None:
    if 8 * arms * width**2 > _MOST_BYTES:
        raise InputError(
            f"ensembles of {arms} arms with {width} features would take more than {_MOST_BYTES >> 20} MiB; give fewer "
            "categories or arms"
        )
