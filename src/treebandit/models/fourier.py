"""Smooth functions of many numbers at once: ridge regressions on random Fourier features (Rahimi and Recht, 2007)."""

from __future__ import annotations

import math
from collections.abc import Generator
from typing import Any, Self

import numpy as np

from treebandit import schema
from treebandit.core import Features, Floats, Indices
from treebandit.errors import SavedFileError
from treebandit.features.arm_index import ArmIndex
from treebandit.steps import exhausted

#: Fourier features: at most so many, in steps of the second number, and their squares over all arms.
_MOST, _STEP, _MOST_NUMBERS = 512, 64, 1 << 22
#: λ of the regressions, on features of variance 1 and standardised rewards.
_RIDGE = 30.0
#: Scaled numbers are cut off here; the median distance of rows is 1.
_BOUND = 10.0
#: Pairs of rows whose distance sets the width of the kernel.
_PAIRS = 500
#: So many rows are transformed at a time.
_BLOCK = 512


class FourierScores:
    """What a regression per arm says of each row, on z = (1, √2 cos(Wx + b)), fitted once.

    W is drawn so that z·z' is about a Gaussian kernel of x, its width the median distance of learned rows. Numbers are
    divided by their standard deviation, and by √(κ/3) where their kurtosis κ is above 3: a pixel that is rarely dark
    must not outweigh the others when it is. An arm without rows scores 0.

    key: of the random W and b. scale: (2, d), mean and factor of each column. theta: (arms + 1, features + 1).
    """

    __slots__ = ("_arms", "_key", "_phases", "_scale", "_theta", "_waves")

    def __init__(self, arms: ArmIndex, key: int, scale: Floats, theta: Floats) -> None:
        self._arms, self._key, self._scale, self._theta = arms, key, scale, theta
        random, size = np.random.default_rng(key), theta.shape[1] - 1
        self._waves = random.standard_normal((scale.shape[1], size), np.float32)
        self._phases = (2.0 * math.pi * random.random(size)).astype(np.float32)

    @classmethod
    def fit(cls, contexts: Features, arms: Indices, targets: Floats, *, random: np.random.Generator) -> Self:
        """Regressions of (n,) standardised rewards on (n, d) numbers, one per arm."""
        return exhausted(cls.fit_steps(contexts, arms, targets, random=random))

    @classmethod
    def fit_steps(
        cls, contexts: Features, arms: Indices, targets: Floats, *, random: np.random.Generator
    ) -> Generator[float, None, Self]:
        """The same in steps of a few milliseconds."""
        index, key = ArmIndex(), int(random.integers(2**31))
        places = index.register(arms)
        size = min(_MOST, max(_STEP, int(math.sqrt(_MOST_NUMBERS / len(index))) // _STEP * _STEP))
        scores = cls(index, key, _scale(contexts, random), np.zeros((len(index), size + 1)))
        order = np.argsort(places, kind="stable")
        starts = np.searchsorted(places[order], np.arange(1, len(index) + 1))
        for place in range(1, len(index)):
            own = order[starts[place - 1] : starts[place]]
            gram, moment = _RIDGE * np.eye(size + 1), np.zeros(size + 1)
            for begin in range(0, len(own), _BLOCK):
                rows = own[begin : begin + _BLOCK]
                z = scores._transformed(contexts[rows])
                gram += z.T @ z
                moment += z.T @ targets[rows].astype(np.float32)
                yield float(starts[place - 1] + begin) / len(order)
            scores._theta[place] = np.linalg.solve(gram, moment)
        return scores

    def __call__(self, contexts: Features, arms: Indices) -> Floats:
        """The scores of (n, d) numbers and (n,) arms."""
        theta = self._theta[self._arms.find(arms)]
        if len(contexts) > 1 and (contexts == contexts[0]).all():
            contexts = contexts[:1]  # what all arms share is transformed once
        scores: Floats = np.einsum(
            "ij,ij->i", np.broadcast_to(self._transformed(contexts), theta.shape), theta
        )
        return scores

    def _transformed(self, contexts: Features) -> Features:
        mean, factor = self._scale.astype(np.float32)
        scaled = np.nan_to_num((contexts - mean) * factor, copy=False)
        angles = np.clip(scaled, -_BOUND, _BOUND, out=scaled) @ self._waves + self._phases
        z = np.empty((len(contexts), len(self._phases) + 1), np.float32)
        z[:, 0] = 1.0
        z[:, 1:] = np.float32(math.sqrt(2.0)) * np.cos(angles)
        return z

    def state(self) -> dict[str, Any]:
        """All of it as arrays and a number."""
        return {"arms": self._arms.labels, "key": self._key, "scale": self._scale, "theta": self._theta}

    @classmethod
    def restored(cls, state: dict[str, Any], width: int) -> Self:
        """The scores that `state` described, of `width` columns."""
        labels = schema.labels(state, "arms")
        scale = schema.array(state, "scale", np.float64, (2, width))
        theta = schema.array(state, "theta", np.float64, (len(labels) + 1, None))
        if not 1 < theta.shape[1] <= _MOST + 1:
            raise SavedFileError(f"Fourier features are saved {theta.shape[1]} wide; save the agent again")
        return cls(ArmIndex(labels), schema.whole(state, "key", most=2**31), scale, theta)


def _scale(contexts: Features, random: np.random.Generator) -> Floats:
    """Mean and factor of each of (n, d) columns; the median distance of scaled rows is 1."""
    values = contexts.astype(np.float64)
    missing = np.isnan(values)
    count = np.maximum((~missing).sum(axis=0), 1)
    mean = np.where(missing, 0.0, values).sum(axis=0) / count
    centred = np.where(missing, 0.0, values - mean)
    largest = np.maximum(np.abs(centred).max(axis=0), np.finfo(np.float64).tiny)
    shares = np.square(centred / largest)
    square, fourth = shares.sum(axis=0) / count, np.square(shares).sum(axis=0) / count
    varies = square > 1e-14
    kurtosis = fourth / np.where(varies, square, 1.0) ** 2
    factor = np.where(varies, 1.0 / (largest * np.sqrt(np.where(varies, square, 1.0))), 0.0)
    factor /= np.sqrt(np.maximum(kurtosis / 3.0, 1.0))
    one, other = random.integers(len(values), size=(2, _PAIRS))
    distance = float(np.median(np.linalg.norm((centred[one] - centred[other]) * factor, axis=1)))
    return np.stack([mean, factor / (distance or 1.0)])
