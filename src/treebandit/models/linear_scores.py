"""What a linear model says of each candidate, and how sure it is: one more column for the trees, and a bonus."""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from treebandit.core import Candidates, Columns, Features, Floats, Indices
from treebandit.features.encoding import ArmEncoding, Encoder, OneHot, OneHotLayout
from treebandit.models import ridge_kernels as kernels

_RIDGE = 1.0
#: Columns with more categories than this are numbers to trees and linear models alike.
_MOST_CATEGORIES = 64
#: With more arms than this, or matrices of more numbers in all, one linear model serves all arms.
_MOST_ARMS = 64
_MOST_NUMBERS = 1 << 22
#: Linear models see no more features than this, the first ones.
_MOST_FEATURES = 1024

_NO_ARMS = np.zeros(0, np.intp)


class ArmRidges:
    """A ridge regression per arm, kept up to date row by row.

    θ = A⁻¹ Σ z (r - mean reward) and A = λI + Σ zz' over the arm's rows, z = (1, scaled numbers, one-hot categories).
    An arm without rows scores the mean reward. Where rows have no arms, or very many, all share one θ. Scales and mean
    reward are those of the rows it was fitted to.
    """

    def __init__(self, model: dict[str, NDArray[Any]]) -> None:
        self.model = model
        base, spread = model["rewards"].tolist()
        self._parts = (
            model["known"],
            base,
            model["means"],
            model["scales"],
            model["thetas"],
            model["inverses"],
        )
        #: Mean and standard deviation of the rewards, and the bonus of a row that its arm knows nothing of: s over
        #: √width, so that over an arm's rows it is about the standard error of the arm's mean; times √log₂ K, as the
        #: best of K arms is harder to find.
        self.base, self.spread = base, spread
        self.unit = spread * math.sqrt(math.log2(max(len(model["known"]), 2)) / model["thetas"].shape[1])

    @classmethod
    def fit(
        cls, x: Features, coded: NDArray[np.bool_], arms: Indices | None, rewards: Floats
    ) -> tuple[Self, Floats]:
        """The regressions of (n, d) features, and the (n,) scores of these rows, each by all other rows."""
        x, coded = x[:, :_MOST_FEATURES], coded[:_MOST_FEATURES]
        means, scales = _moments(x, coded)
        width = 1 + len(means)
        known = _NO_ARMS if arms is None else np.unique(arms)
        if len(known) > _MOST_ARMS or len(known) * width**2 > _MOST_NUMBERS:
            known = _NO_ARMS
        grams = np.zeros(((len(known) or 1) + 1, width, width))
        thetas = np.zeros((len(grams), width))
        level = np.array([np.mean(rewards), np.std(rewards)])
        kernels.add_up(x, rewards - level[0], _array(arms), known, means, scales, grams, thetas)
        grams += _RIDGE * np.eye(width)
        for slot in range(len(grams)):
            grams[slot] = np.linalg.inv(grams[slot])
            thetas[slot] = grams[slot] @ thetas[slot]
        model = {"known": known, "means": means, "scales": scales, "rewards": level, "thetas": thetas}
        ridges = cls({**model, "inverses": grams})
        scores, leverage = kernels.look_up(x, _array(arms), *ridges._parts)
        return ridges, rewards - (rewards - scores) / np.maximum(1.0 - leverage, 1e-6)

    def doubt(self, best: float) -> float:
        """How much more a round deserves a try whose best candidate is expected to pay `best`.

        1, or, where that is more than a standard deviation below the mean reward, the square of how many it is.
        """
        missed = self.base - best
        return (missed / self.spread) ** 2 if missed > self.spread > 0.0 else 1.0

    def look_up(
        self, contexts: Features, arms: Indices | None, layout: OneHotLayout, features: Features, front: int
    ) -> Floats:
        """Write `contexts` into the features from column `front` on, and the score z·θ + mean reward behind them.

        Returns the leverage z'A⁻¹z of each row, (n,).
        """
        leverage: Floats = kernels.encode_and_look_up(
            contexts, *layout, features, front, _array(arms), *self._parts
        )
        return leverage

    def update(self, x: Features, arms: Indices | None, rewards: Floats) -> None:
        """Take in more rows; those of arms without a regression have to wait for the next fit."""
        kernels.learn_rows(x, rewards, _array(arms), *self._parts)


class LinearEncoder(Encoder):
    """An encoder that puts, behind arm and one-hot features, what a ridge regression says of the row.

    ridges: the regressions; None for an encoder without the score.
    """

    def __init__(self, columns: Columns, arms: Indices | None, *, arm_encoding: ArmEncoding) -> None:
        few = tuple(count if count <= _MOST_CATEGORIES else 0 for count in columns.categories)
        shown = Columns(few, columns.names)
        super().__init__(shown, arms, arm_encoding=arm_encoding, categories="one_hot")
        self.columns = columns
        self._layout = (self._spread or OneHot(shown)).layout
        self.ridges: ArmRidges | None = None

    @classmethod
    def fit(
        cls, rows: Candidates, rewards: Floats, *, arm_encoding: ArmEncoding, linear: bool = True
    ) -> tuple[Self, Features]:
        """The encoder, and the (n, width) features of the rows it was fitted to.

        The score of such a row is what all other rows say of it (leave-one-out), or trees would trust it too much.
        """
        encoder = cls(rows.columns, rows.arms, arm_encoding=arm_encoding)
        features = Encoder.__call__(encoder, rows.contexts, rows.arms)
        if not linear:
            return encoder, features
        x = features[:, encoder._front :]
        encoder.ridges, scores = ArmRidges.fit(x, encoder._layout[2], rows.arms, rewards)
        return encoder, np.column_stack([features, scores.astype(np.float32)])

    def __call__(self, contexts: Features, arms: Indices | None) -> Features:
        """(n, width) features of (n, d) contexts and their (n,) arms, the score included."""
        return self.look_up(contexts, arms)[0]

    def look_up(self, contexts: Features, arms: Indices | None) -> tuple[Features, Floats]:
        """The features, and each row's leverage z'A⁻¹z, (n,)."""
        if self.ridges is None:
            return super().__call__(contexts, arms), np.zeros(len(contexts))
        features = np.empty((len(contexts), self.width + 1), np.float32)
        if self._front:
            self._fill_arms(features, arms)
        return features, self.ridges.look_up(contexts, arms, self._layout, features, self._front)

    def update(self, features: Features, arms: Indices | None, rewards: Floats) -> None:
        """Let encoded rows change the regressions of their arms."""
        if self.ridges is not None:
            self.ridges.update(features[:, self._front : -1], arms, rewards)

    def state(self) -> dict[str, Any]:
        """What tells this encoder from another of the same agent."""
        return {**super().state(), "linear": {} if self.ridges is None else self.ridges.model}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """The encoder that `state` described."""
        columns = Columns(tuple(state["categories"]), tuple(state["names"]))
        hot = state["known"] is not None
        arms = state["known"] if hot else np.zeros(1, np.intp) if state["labels"] else None
        encoder = cls(columns, arms, arm_encoding="one_hot" if hot else "label")
        if state["linear"]:
            encoder.ridges = ArmRidges({name: part.copy() for name, part in state["linear"].items()})
        return encoder


def _array(arms: Indices | None) -> Indices:
    """Arms as compiled loops take them: none are an empty array."""
    return _NO_ARMS if arms is None else arms


def _moments(x: Features, coded: NDArray[np.bool_]) -> tuple[Floats, Floats]:
    """Mean and standard deviation of each column of numbers; 0 and 1 for the 0/1 columns of categories."""
    means, scales = np.zeros(len(coded)), np.ones(len(coded))
    numbers = x[:, ~coded].astype(np.float64)
    known = ~np.isnan(numbers)
    count = np.maximum(known.sum(0), 1)
    means[~coded] = center = np.where(known, numbers, 0.0).sum(0) / count
    spread = np.sqrt(np.where(known, (numbers - center) ** 2, 0.0).sum(0) / count)
    scales[~coded] = np.where(spread > 0.0, spread, 1.0)
    return means, scales
