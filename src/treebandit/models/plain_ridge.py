"""A ridge regression per arm on rows as they are: no scaling, no one-hot columns, no intercept."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from treebandit import schema
from treebandit.core import Candidates, Estimate, Floats, Random
from treebandit.errors import InputError, SavedFileError
from treebandit.features.encoding import plain_rows
from treebandit.models.model import CopiedModel, arms_of

#: Regressions that would take more bytes than this are refused.
_MOST_BYTES = 1 << 32
#: Rounding may make an eigenvalue of sums of rows negative, up to this share of the greatest.
_ROUNDING = 1e-12


class _Arm(NamedTuple):
    """How many rows an arm has, A, Σ xr, and R with RR' = A⁻¹."""

    rows: float
    gram: Floats
    moment: Floats
    root: Floats


@lru_cache(maxsize=8)
def _prior(ridge: float, width: int) -> _Arm:
    """An arm without rows."""
    return _Arm(0.0, ridge * np.eye(width), np.zeros(width), np.eye(width) / ridge**0.5)


def _root(gram: Floats, ridge: float) -> Floats:
    """R with RR' = A⁻¹. No eigenvalue of A counts as less than λ, which rounding may take out of large sums."""
    values, vectors = np.linalg.eigh(gram)
    root: Floats = vectors / np.sqrt(np.maximum(values, ridge))
    return root


class PlainRidge(CopiedModel):
    """θ = A⁻¹ Σ xr and A = λI + Σ xx' over an arm's rows; an arm not seen yet is at the prior.

    This is the linear baseline of Zhang et al. (2021), whose grids the paper searches: categories are integer codes,
    and there is no intercept. `Ridge` is the better model; this one shows where the paper's linear figures come
    from.

    ridge: λ. unit: each row is divided by its length first.
    """

    def __init__(self, ridge: float = 1.0, *, unit: bool = False) -> None:
        self.ridge, self.unit = ridge, unit
        self._arms: dict[int, _Arm] = {}

    def __len__(self) -> int:
        """How many rows were learned."""
        return int(sum(arm.rows for arm in self._arms.values()))

    @property
    def fitted(self) -> bool:
        """Whether any row was learned."""
        return bool(self._arms)

    def _learn(self, rows: Candidates, rewards: Floats, *, t: int, random: Random, started: bool) -> None:
        """Add rows to the sums of their arms."""
        x, labels = plain_rows(rows.contexts, unit=self.unit), arms_of(rows)
        new, width = np.unique(labels).tolist(), x.shape[1]
        if 16 * len(self._arms.keys() | new) * width**2 > _MOST_BYTES:
            raise InputError(
                f"regressions of {len(self._arms.keys() | new)} arms with {width} columns would take more than "
                f"{_MOST_BYTES >> 20} MiB; give fewer columns"
            )
        self._arms = dict(self._arms)
        for label in new:
            own, arm = x[labels == label], self._arms.get(label) or _prior(self.ridge, width)
            gram, moment = arm.gram + own.T @ own, arm.moment + own.T @ rewards[labels == label]
            self._arms[label] = _Arm(arm.rows + len(own), gram, moment, _root(gram, self.ridge))

    def estimate(self, rows: Candidates) -> Estimate:
        """x·θ, leverage x'A⁻¹x (rewards are taken to have noise of variance 1), and the rows of the arm."""
        x = plain_rows(rows.contexts, unit=self.unit)
        prior = _prior(self.ridge, x.shape[1])
        counts, _, moment, root = zip(
            *(self._arms.get(label, prior) for label in arms_of(rows).tolist()), strict=True
        )
        # Products with R apart keep what A⁻¹ loses where its largest and least eigenvalues are far from each other.
        image, weight = (np.einsum("nij,ni->nj", np.array(root), each) for each in (x, np.array(moment)))
        return Estimate((image * weight).sum(1), (image**2).sum(1), np.array(counts))

    def sample(self, rows: Candidates, draws: int, random: Random, *, scale: float = 1.0) -> Floats:
        """Expected rewards of the rows, (draws, n), under draws of each arm's coefficients from N(θ, scale² A⁻¹)."""
        x, arms = plain_rows(rows.contexts, unit=self.unit), arms_of(rows)
        estimate, prior = self.estimate(rows), _prior(self.ridge, x.shape[1])
        noise = random.standard_normal((draws, len(arms))) * np.sqrt(estimate.variance)
        labels, counts = np.unique(arms, return_counts=True)
        for label in labels[counts > 1].tolist():
            group = arms == label
            image = x[group] @ self._arms.get(label, prior).root
            noise[:, group] = random.standard_normal((draws, image.shape[1])) @ image.T
        return estimate.mean + scale * noise

    def state(self, *, history: bool = True) -> dict[str, Any]:
        """All that is needed to go on elsewhere, the prior first; there is no history in it."""
        known = list(self._arms.values())
        prior = _prior(self.ridge, len(known[0].moment) if known else 0)
        counts, gram, moment, _ = zip(prior, *known, strict=True)
        sums = {"counts": np.array(counts), "gram": np.stack(gram), "moment": np.stack(moment)}
        return {"labels": np.array(list(self._arms), np.intp), **sums}

    def restore(self, state: dict[str, Any]) -> None:
        """Take up what `state` gave."""
        labels = schema.labels(state, "labels")
        gram = schema.array(state, "gram", np.float64, (len(labels) + 1, None, None))
        width = gram.shape[1]
        moment = schema.array(state, "moment", np.float64, (len(gram), width))
        counts = schema.array(state, "counts", np.float64, (len(gram),), least=0.0)
        if gram.shape[2] != width or not np.array_equal(gram, gram.transpose(0, 2, 1)):
            raise SavedFileError(
                "the saved sums of a ridge regression are not symmetric; save the agent again"
            )
        values = np.linalg.eigvalsh(gram) if width else np.zeros((1, 1))
        if (values[:, 0] < -_ROUNDING * values[:, -1]).any():
            raise SavedFileError(
                "the saved sums of a ridge regression are not those of rows; save the agent again"
            )
        parts = zip(counts.tolist(), gram, moment, [_root(each, self.ridge) for each in gram], strict=True)
        self._arms = dict(zip(labels.tolist(), map(_Arm._make, list(parts)[1:]), strict=True))
