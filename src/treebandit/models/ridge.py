"""Ridge regressions that learn row by row: one per arm, or one for all arms with a level for each."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from treebandit.core import Estimate, Floats, Indices
from treebandit.features.arm_index import ArmIndex


class Ridge(Protocol):
    """A ridge regression that learns row by row."""

    def learn(self, rows: Floats, arms: Indices, rewards: Floats) -> None:
        """Take in (m, width) rows of (m,) arms with their rewards."""

    def estimate(self, rows: Floats, arms: Indices) -> Estimate:
        """Mean and variance of each row's expected reward under the posterior, and the rows of its arm."""

    def draw(self, rows: Floats, arms: Indices, exploration: float, random: np.random.Generator) -> Floats:
        """Expected rewards of the rows, (n,), under one draw of all coefficients from N(θ, exploration² A⁻¹)."""

    def rescale(self, ratio: Floats, offset: Floats) -> None:
        """From now on, rows come as ratio · row + offset."""

    def widen(self, places: Indices, width: int) -> None:
        """From now on, rows have `width` features, the present ones at `places`."""

    def state(self) -> dict[str, Any]:
        """All that is needed to go on elsewhere."""

    def restore(self, state: dict[str, Any]) -> None:
        """Take up what `state` gave."""


class DisjointRidge:
    """One regression per arm met: A = λI + Σ zz', A⁻¹, Σ zr and θ = A⁻¹ Σ zr. Slot 0 keeps the prior."""

    def __init__(self, width: int, ridge: float) -> None:
        self._width, self._ridge = width, ridge
        self._slots = ArmIndex()
        self._reserve(1)

    def _reserve(self, slots: int) -> None:
        """Room for this many slots, all at the prior."""
        width, identity = self._width, np.eye(self._width)
        self._grams = np.tile(self._ridge * identity, (slots, 1, 1))
        self._inverses = np.tile(identity / self._ridge, (slots, 1, 1))
        self._moments = np.zeros((slots, width))
        self._thetas = np.zeros((slots, width))
        self._counts = np.zeros(slots)

    def _arrays(self) -> tuple[Floats, ...]:
        return self._grams, self._inverses, self._moments, self._thetas, self._counts

    def _meet(self, arms: Indices) -> Indices:
        slots = self._slots.register(arms)
        if len(self._slots) > len(self._counts):
            kept, used = self._arrays(), len(self._counts)
            self._reserve(max(len(self._slots), used + used // 4))
            for new, old in zip(self._arrays(), kept, strict=True):
                new[:used] = old
        return slots

    def learn(self, rows: Floats, arms: Indices, rewards: Floats) -> None:
        """Take in (m, width) rows of (m,) arms with their rewards."""
        slots = self._meet(arms)
        if len(slots) == 1:
            self._update(slice(slots[0], slots[0] + 1), rows, rewards)
            return
        order = np.argsort(slots, kind="stable")
        each, starts, counts = np.unique(slots[order], return_index=True, return_counts=True)
        once = order[starts[counts == 1]]
        if len(once):
            self._update(slots[once], rows[once], rewards[once])
        for slot, start, count in zip(each, starts, counts, strict=True):
            if count > 1:
                mine = order[start : start + count]
                self._grams[slot] += rows[mine].T @ rows[mine]
                self._moments[slot] += rewards[mine] @ rows[mine]
                self._counts[slot] += count
        self._invert(each[counts > 1])

    def _update(self, slots: Indices | slice, rows: Floats, rewards: Floats) -> None:
        """One row for each of these slots, (m, width) and (m,), by Sherman and Morrison's formula."""
        image = np.matmul(self._inverses[slots], rows[:, :, None])[:, :, 0]
        shrunk = image / (1.0 + np.einsum("ij,ij->i", rows, image))[:, None]
        errors = rewards - np.einsum("ij,ij->i", rows, self._thetas[slots])
        self._inverses[slots] -= image[:, :, None] * shrunk[:, None, :]
        self._grams[slots] += rows[:, :, None] * rows[:, None, :]
        self._moments[slots] += rows * rewards[:, None]
        self._thetas[slots] += shrunk * errors[:, None]
        self._counts[slots] += 1

    def _invert(self, slots: Indices | slice) -> None:
        self._inverses[slots] = _inverse(self._grams[slots])
        self._thetas[slots] = np.matmul(self._inverses[slots], self._moments[slots][:, :, None])[:, :, 0]

    def estimate(self, rows: Floats, arms: Indices) -> Estimate:
        """Mean and variance of each row's expected reward under the posterior, and the rows of its arm."""
        slots = self._slots.find(arms)
        mean = np.einsum("ij,ij->i", rows, self._thetas[slots])
        image = np.matmul(self._inverses[slots], rows[:, :, None])[:, :, 0]
        variance = np.maximum(np.einsum("ij,ij->i", rows, image), 0.0)
        return Estimate(mean, variance, self._counts[slots])

    def draw(self, rows: Floats, arms: Indices, exploration: float, random: np.random.Generator) -> Floats:
        """Expected rewards of the rows, (n,), under one draw of all coefficients from N(θ, exploration² A⁻¹)."""
        labels, place = np.unique(arms, return_inverse=True)
        if len(labels) == len(arms):
            # One row per arm: what its θ̃ would give is a number drawn for itself.
            estimate = self.estimate(rows, arms)
            noise = random.standard_normal(len(arms))
            return estimate.mean + exploration * np.sqrt(estimate.variance) * noise
        slots = self._slots.find(labels)
        thetas = self._thetas[slots] + exploration * _draw(self._grams[slots], random)
        scores: Floats = np.einsum("ij,ij->i", rows, thetas[place])
        return scores

    def rescale(self, ratio: Floats, offset: Floats) -> None:
        """From now on, rows come as ratio · row + offset."""
        used = slice(1, len(self._slots))
        prior = self._ridge * np.eye(self._width)
        self._grams[used] = _carried(self._grams[used] - prior, ratio, offset) + prior
        self._moments[used] = ratio * self._moments[used] + offset * self._moments[used, :1]
        self._invert(used)

    def widen(self, places: Indices, width: int) -> None:
        """From now on, rows have `width` features, the present ones at `places`."""
        kept = self._arrays()
        self._width = width
        self._reserve(len(self._counts))
        square = (slice(None), places[:, None], places[None, :])
        self._grams[square], self._inverses[square] = kept[0], kept[1]
        self._moments[:, places], self._thetas[:, places], self._counts = kept[2:]

    def state(self) -> dict[str, Any]:
        """All that is needed to go on elsewhere."""
        used = len(self._slots)
        return {"labels": self._slots.labels, "arrays": [array[:used] for array in self._arrays()]}

    def restore(self, state: dict[str, Any]) -> None:
        """Take up what `state` gave."""
        self._slots = ArmIndex(state["labels"])
        self._reserve(len(self._slots))
        for mine, saved in zip(self._arrays(), state["arrays"], strict=True):
            mine[...] = saved


class SharedRidge:
    """One regression with a level per arm met: r = z·β + level of the arm, all with prior N(0, 1/λ).

    The levels are integrated out: S = λI + Σ zz' - Σ_arms cc'/(n+λ) with c = Σ z and n rows of an arm, so that
    only one matrix is inverted, and one more row adds (n+λ)/(n+1+λ) uu' to it, u = z - c/(n+λ).
    """

    def __init__(self, width: int, ridge: float) -> None:
        self._width, self._ridge = width, ridge
        self._slots = ArmIndex()
        self._gram = np.zeros((width, width))
        self._moment = np.zeros(width)
        self._inverse = np.eye(width) / ridge
        self._beta = np.zeros(width)
        self._sums = np.zeros((1, width))
        self._totals = np.zeros(1)
        self._counts = np.zeros(1)

    def learn(self, rows: Floats, arms: Indices, rewards: Floats) -> None:
        """Take in (m, width) rows of (m,) arms with their rewards."""
        slots = self._slots.register(arms)
        if len(self._slots) > len(self._counts):
            room = max(len(self._slots), len(self._counts) + len(self._counts) // 4) - len(self._counts)
            self._sums = np.pad(self._sums, ((0, room), (0, 0)))
            self._totals, self._counts = np.pad(self._totals, (0, room)), np.pad(self._counts, (0, room))
        self._gram += rows.T @ rows
        self._moment += rewards @ rows
        few = len(rows) <= self._width
        if few:
            for row, slot, reward in zip(rows, slots, rewards, strict=True):
                self._update(row, slot, reward)
            return
        np.add.at(self._sums, slots, rows)
        np.add.at(self._totals, slots, rewards)
        np.add.at(self._counts, slots, 1.0)
        self._invert()

    def _update(self, row: Floats, slot: np.intp, reward: float) -> None:
        weight = self._counts[slot] + self._ridge
        centred = row - self._sums[slot] / weight
        image = self._inverse @ centred
        shrunk = image / ((weight + 1.0) / weight + centred @ image)
        error = reward - self._totals[slot] / weight - centred @ self._beta
        self._inverse -= np.outer(image, shrunk)
        self._beta += shrunk * error
        self._sums[slot] += row
        self._totals[slot] += reward
        self._counts[slot] += 1.0

    def _precision(self) -> Floats:
        weighted = self._sums / (self._counts + self._ridge)[:, None]
        precision: Floats = self._ridge * np.eye(self._width) + self._gram - self._sums.T @ weighted
        return (precision + precision.T) / 2.0

    def _invert(self) -> None:
        self._inverse = _inverse(self._precision())
        self._beta = self._inverse @ (
            self._moment - self._sums.T @ (self._totals / (self._counts + self._ridge))
        )

    def estimate(self, rows: Floats, arms: Indices) -> Estimate:
        """Mean and variance of each row's expected reward under the posterior, and the rows of its arm."""
        slots = self._slots.find(arms)
        weight = self._counts[slots] + self._ridge
        centred = rows - self._sums[slots] / weight[:, None]
        mean = centred @ self._beta + self._totals[slots] / weight
        variance = 1.0 / weight + np.maximum(np.einsum("ij,ij->i", centred, centred @ self._inverse), 0.0)
        return Estimate(mean, variance, self._counts[slots])

    def draw(self, rows: Floats, arms: Indices, exploration: float, random: np.random.Generator) -> Floats:
        """Expected rewards of the rows, (n,), under one draw of all coefficients from N(θ, exploration² A⁻¹)."""
        beta = self._beta + exploration * _draw(self._precision()[None], random)[0]
        labels, place = np.unique(arms, return_inverse=True)
        slots = self._slots.find(labels)
        weight = self._counts[slots] + self._ridge
        noise = exploration * random.standard_normal(len(labels)) / np.sqrt(weight)
        levels = (self._totals[slots] - self._sums[slots] @ beta) / weight + noise
        scores: Floats = rows @ beta + levels[place]
        return scores

    def rescale(self, ratio: Floats, offset: Floats) -> None:
        """From now on, rows come as ratio · row + offset."""
        self._gram = _carried(self._gram[None], ratio, offset)[0]
        self._moment = ratio * self._moment + offset * self._moment[0]
        self._sums = ratio * self._sums + offset * self._counts[:, None]
        self._invert()

    def widen(self, places: Indices, width: int) -> None:
        """From now on, rows have `width` features, the present ones at `places`."""
        gram, moment, sums = self._gram, self._moment, self._sums
        self._width = width
        self._gram, self._moment = np.zeros((width, width)), np.zeros(width)
        self._sums = np.zeros((len(sums), width))
        self._gram[places[:, None], places], self._moment[places] = gram, moment
        self._sums[:, places] = sums
        self._invert()

    def state(self) -> dict[str, Any]:
        """All that is needed to go on elsewhere."""
        names = ("gram", "moment", "inverse", "beta", "sums", "totals", "counts")
        return {"labels": self._slots.labels, **{name: getattr(self, f"_{name}") for name in names}}

    def restore(self, state: dict[str, Any]) -> None:
        """Take up what `state` gave."""
        self._slots = ArmIndex(state["labels"])
        for name, value in state.items():
            if name != "labels":
                setattr(self, f"_{name}", value)


def _inverse(matrices: Floats) -> Floats:
    inverse = np.linalg.inv(matrices)
    symmetric: Floats = (inverse + inverse.swapaxes(-1, -2)) / 2.0
    return symmetric


def _carried(grams: Floats, ratio: Floats, offset: Floats) -> Floats:
    """Σ zz' of rows z whose first entry is 1, (m, width, width), for the rows ratio · z + offset instead."""
    half = ratio[:, None] * grams + offset[:, None] * grams[:, :1, :]
    carried: Floats = half * ratio + half[:, :, :1] * offset
    return carried


def _draw(precisions: Floats, random: np.random.Generator) -> Floats:
    """One draw from N(0, P⁻¹) for each of (m, width, width) matrices P."""
    roots = np.linalg.cholesky(precisions)
    noise = random.standard_normal(precisions.shape[:2])
    draws: Floats = np.linalg.solve(roots.swapaxes(-1, -2), noise[:, :, None])[:, :, 0]
    return draws
