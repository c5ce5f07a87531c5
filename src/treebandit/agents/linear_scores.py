"""What a linear model says of each candidate, as one more column for the trees."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from treebandit.agents.encoding import ArmEncoding, Encoder
from treebandit.bandit import Candidates, Columns, Features, Floats, Indices

_RIDGE = 1.0
#: Columns with more categories than this are numbers to trees and linear models alike.
_MOST_CATEGORIES = 64
#: With more arms than this, one linear model serves them all.
_MOST_ARMS = 64


class LinearEncoder(Encoder):
    """An encoder that puts, behind arm and one-hot features, what a ridge regression says of the row.

    The score is z·θ of the row's arm plus the mean reward, with θ = (λI + Σ zz')⁻¹ Σ z (r - mean reward) over the
    arm's rows and z = (1, scaled numbers, one-hot categories); an arm without rows scores the mean reward. Where rows
    have no arms, or very many, all share one θ. The models are fixed from one rebuild to the next.
    """

    def __init__(self, columns: Columns, arms: Indices | None, *, arm_encoding: ArmEncoding) -> None:
        few = tuple(count if count <= _MOST_CATEGORIES else 0 for count in columns.categories)
        super().__init__(Columns(few, columns.names), arms, arm_encoding=arm_encoding, categories="one_hot")
        self.columns = columns
        self._coded = np.repeat(np.array(few) > 0, np.maximum(few, 1))
        self._take({})

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
        scores = encoder._learn(features[:, encoder._front :], rows.arms, rewards)
        return encoder, np.column_stack([features, scores.astype(np.float32)])

    def __call__(self, contexts: Features, arms: Indices | None) -> Features:
        """(n, width) features of (n, d) contexts and their (n,) arms, the score included."""
        features = super().__call__(contexts, arms)
        if not self._model:
            return features
        x, place = features[:, self._front :], self._places(arms, len(features))
        weights, offsets = self._model["weights"][place], self._model["offsets"][place]
        scores = np.einsum("ij,ij->i", x, weights) + offsets
        if np.isnan(scores).any():
            filled = np.where(np.isnan(x), self._model["means"], x)
            scores = np.einsum("ij,ij->i", filled, weights) + offsets
        return np.concatenate([features, scores[:, None]], axis=1)

    def _take(self, model: dict[str, NDArray[Any]]) -> None:
        self._model = model
        self._slots = {arm: slot for slot, arm in enumerate(model["known"].tolist())} if model else {}

    def _learn(self, x: Features, arms: Indices | None, rewards: Floats) -> Floats:
        """Fit the models; the score of each of their rows by all other rows."""
        means, scales = _moments(x, self._coded)
        z = np.ones((len(x), 1 + x.shape[1]))
        z[:, 1:] = np.nan_to_num((x - means) / scales)
        base = float(np.mean(rewards))
        known = np.zeros(0, np.intp) if arms is None else np.unique(arms)
        self._take({"known": known if len(known) <= _MOST_ARMS else known[:0]})
        place = self._places(arms, len(x))
        theta = np.zeros((max(len(self._slots), 1) + 1, z.shape[1]))
        scores = np.empty(len(rewards))
        for slot in range(len(theta) - 1):
            at = place == slot
            theta[slot], scores[at] = _ridge(z[at], rewards[at] - base)
        weights = theta[:, 1:] / scales
        offsets = theta[:, 0] - weights @ means + base
        for name, part in (("means", means), ("weights", weights), ("offsets", offsets)):
            self._model[name] = part.astype(np.float32)
        return scores + base

    def _places(self, arms: Indices | None, n: int) -> Indices:
        """Which model serves each row: its arm's, the only one, or the last, which knows the mean reward alone."""
        if arms is None or not self._slots:
            return np.zeros(n, np.intp)
        last = len(self._slots)
        return np.array([self._slots.get(arm, last) for arm in arms.tolist()], np.intp)

    def state(self) -> dict[str, Any]:
        """What tells this encoder from another of the same agent."""
        return {**super().state(), "linear": self._model}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """The encoder that `state` described."""
        columns = Columns(tuple(state["categories"]), tuple(state["names"]))
        hot = state["known"] is not None
        arms = state["known"] if hot else np.zeros(1, np.intp) if state["labels"] else None
        encoder = cls(columns, arms, arm_encoding="one_hot" if hot else "label")
        encoder._take(dict(state["linear"]))
        return encoder


def _moments(x: Features, coded: NDArray[np.bool_]) -> tuple[Floats, Floats]:
    """Mean and standard deviation of each column of numbers; 0 and 1 for the 0/1 columns of categories."""
    known = ~np.isnan(x)
    count = np.maximum(known.sum(0), 1)
    values = np.where(known, x, 0.0).astype(np.float64)
    means = values.sum(0) / count
    spread = np.sqrt(np.where(known, (values - means) ** 2, 0.0).sum(0) / count)
    return np.where(coded, 0.0, means), np.where(coded | (spread <= 0.0), 1.0, spread)


def _ridge(z: Floats, targets: Floats) -> tuple[Floats, Floats]:
    """Coefficients, and each row's prediction by the coefficients of all other rows."""
    inverse = np.linalg.inv(z.T @ z + _RIDGE * np.eye(z.shape[1]))
    theta = inverse @ (z.T @ targets)
    leverage = np.einsum("ij,ij->i", z @ inverse, z)
    return theta, targets - (targets - z @ theta) / np.maximum(1.0 - leverage, 1e-6)
