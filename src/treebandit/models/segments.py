"""What arms pay in combinations of categories, averaged with regressions by how probable each is."""

from __future__ import annotations

import math
from itertools import combinations
from typing import Any, Self

import numpy as np

from treebandit import schema
from treebandit.core import Candidates, Features, Floats, Indices
from treebandit.errors import SavedFileError
from treebandit.features.arm_index import ArmIndex
from treebandit.features.reward_scale import LARGEST
from treebandit.models.attribution import Attribution
from treebandit.models.model import Commit, arms_of
from treebandit.models.target_statistics import known_codes

#: All segmentations together have this probability before anything is known.
_PRIOR = 0.1
#: No more segmentations are looked at, none with more segments, nor with more means of arms in them.
_MOST_SEGMENTATIONS, _MOST_SEGMENTS, _MOST_MEANS = 60, 2048, 1 << 16
#: Segmentations below this probability are left out, and all but so many of the most probable ones.
_LEAST_PROBABILITY, _MOST_KEPT = 0.01, 4
#: ρ is looked for among these: the evidence hardly tells values between them apart.
_RATIOS = 4.0 ** np.arange(-5, 4)


class Segments:
    """Means of the arms in segments, for some segmentations, each with its probability.

    A segmentation is two or more columns of categories, a segment one combination of theirs. An arm with n rows in a
    segment is expected to pay there

        mean + ρ Σ (r - mean) / (1 + ρ n),   with leverage ρ / (1 + ρ n),

    the posterior if each arm has an effect from N(0, ρ σ²) in each segment, σ² the variance of the noise. Regressions
    add up what categories pay; here a combination may pay what no sum tells. Trees find combinations by what single
    columns pay, and under much noise they do not.

    arms: that have means; of all others regressions alone tell. mean: of all rewards when it was fitted.
    columns: (m, d), whether a segmentation has a column; sizes: (d,), the codes of each column, the last of which is
        for missing and later categories; 1 for numbers.
    ratios: (m,), ρ. probabilities: (m,), of each segmentation; the regressions have the rest.
    sums: (2, size), rows and their rewards, arm by arm and segment by segment, one segmentation after the other; arm 0
        stands for those without means.
    """

    __slots__ = (
        "_arms",
        "_columns",
        "_factors",
        "_mean",
        "_offsets",
        "_others",
        "_used",
        "probabilities",
        "ratios",
        "sums",
    )

    def __init__(
        self,
        arms: ArmIndex,
        mean: float,
        columns: Indices,
        sizes: Indices,
        ratios: Floats,
        probabilities: Floats,
    ) -> None:
        self._arms, self._mean, self._columns = arms, mean, columns
        self.ratios, self.probabilities = ratios, probabilities
        segments = np.prod(np.where(columns == 1, sizes, 1), axis=1)
        starts = np.concatenate([[0], np.cumsum(segments * len(arms))])
        #: The columns of any segmentation, their last codes, and what a code adds to the place of a row's sums.
        self._used = np.flatnonzero(columns.any(axis=0))
        self._others = sizes[self._used] - 1
        self._factors = np.array([_factors(each, sizes)[self._used] for each in columns]).T
        #: Where a segmentation starts, and how long an arm is in it.
        self._offsets = starts[:-1], segments
        self.sums: Floats = np.zeros((2, int(starts[-1])))

    @classmethod
    def fit(cls, rows: Candidates, rewards: Floats, evidence: float) -> Self | None:
        """The most probable segmentations of learned rows; None where the regressions are more probable than all.

        evidence: log evidence of the regressions for these rewards, in the unit of `ridge_prior.evidence_of`.
        """
        index = ArmIndex()
        arm_rows, sizes = index.register(arms_of(rows)), np.array(rows.columns.categories, np.intp) + 1
        candidates, mean = segmentations(rows.columns.categories, len(index)), float(rewards.mean())
        squares, models = float(np.square(rewards - mean).sum()), []
        used = np.flatnonzero(candidates.any(axis=0))
        codes = known_codes(rows.contexts[:, used], sizes[used] - 1)
        for columns in candidates:
            segments = math.prod(sizes[columns == 1].tolist())
            places = (codes @ _factors(columns, sizes)[used]).astype(np.intp) + segments * arm_rows
            counts, paid = (np.bincount(places, each, segments * len(index)) for each in (None, rewards))
            sums = np.array([counts, paid])
            models.append((*_greatest_evidence(sums, mean, len(rewards), squares), sums))
        if not models:
            return None
        evidences, ratios = np.array([model[:2] for model in models]).T
        greatest = max(float(evidences.max()), evidence)
        weights = _PRIOR / len(models) * np.exp(evidences - greatest)
        others = (1.0 - _PRIOR) * math.exp(evidence - greatest)
        kept = np.argsort(-weights, kind="stable")[:_MOST_KEPT]
        kept = kept[weights[kept] >= _LEAST_PROBABILITY * (others + weights[kept].sum())]
        if not len(kept):
            return None
        probabilities = weights[kept] / (others + weights[kept].sum())
        found = cls(index, mean, candidates[kept], sizes, ratios[kept], probabilities)
        found.sums = np.hstack([models[i][2] for i in kept])
        return found

    def average(self, contexts: Features, arms: Indices, scores: Floats, leverage: Floats) -> None:
        """Average what regressions say of (n,) rows, score and leverage, with what segments say, in place."""
        arm_rows = self._arms.find(arms)
        share, effects = self._posterior(contexts, arm_rows)
        known = arm_rows > 0
        rest = np.where(known, self._rest, 1.0)
        scores *= rest
        scores += known * ((self._mean + effects) @ self.probabilities)
        leverage *= rest
        leverage += known * (share @ self.probabilities)

    def attributed(self, contexts: Features, arms: Indices, regressions: Attribution) -> Attribution:
        """What columns and arm add to such a score; columns of a segmentation have equal shares in its effects.

        regressions: what they add to that of the regressions alone.
        """
        arm_rows = self._arms.find(arms)
        _, effects = self._posterior(contexts, arm_rows)
        known = arm_rows > 0
        rest = np.where(known, self._rest, 1.0)
        baseline = regressions.baseline * rest + known * self._mean * self.probabilities.sum()
        columns = regressions.columns * rest[:, None]
        weights = self.probabilities / self._columns.sum(axis=1)
        columns[:, : contexts.shape[1]] += known[:, None] * ((effects * weights) @ self._columns)
        return Attribution(baseline, columns, regressions.arm * rest, regressions.linear_model * rest)

    @property
    def _rest(self) -> float:
        """The probability of the regressions; sums of the others may round to more than 1."""
        return max(1.0 - float(self.probabilities.sum()), 0.0)

    def prepared_update(self, contexts: Features, arms: Indices, rewards: Floats) -> Commit:
        """Let rows change the means of their segments; arms without means get theirs when they are fitted next."""
        arm_rows = self._arms.find(arms)
        known = arm_rows > 0
        places = self._places(contexts[known], arm_rows[known])
        changed, of_row = np.unique(places, return_inverse=True)
        paid = np.repeat(rewards[known], len(self.ratios))
        rows = (
            np.bincount(of_row.ravel(), minlength=len(changed)),
            np.bincount(of_row.ravel(), paid, len(changed)),
        )
        after = self.sums[:, changed] + rows

        def commit() -> None:
            self.sums[:, changed] = after

        return commit

    def _posterior(self, contexts: Features, arm_rows: Indices) -> tuple[Floats, Floats]:
        """Leverage and effect of each row in each segmentation, (n, m) each."""
        rows, paid = self.sums[:, self._places(contexts, arm_rows)]
        share = self.ratios / (1.0 + self.ratios * rows)
        return share, share * (paid - self._mean * rows)

    def _places(self, contexts: Features, arm_rows: Indices) -> Indices:
        """Where the sums of each row are, (n, m)."""
        starts, segments = self._offsets
        codes = known_codes(contexts[:, self._used], self._others)
        places: Indices = (codes @ self._factors).astype(np.intp) + starts + np.outer(arm_rows, segments)
        return places

    def state(self) -> dict[str, Any]:
        """All of it as arrays."""
        return {
            "arms": self._arms.labels,
            "mean": self._mean,
            "columns": self._columns,
            "ratios": self.ratios,
            "probabilities": self.probabilities,
            "sums": self.sums,
        }

    @classmethod
    def restored(cls, state: dict[str, Any], categories: tuple[int, ...]) -> Self:
        """The segments that `state` described, of columns with so many categories."""
        labels, shape = schema.labels(state, "arms"), (None, len(categories))
        columns = schema.array(state, "columns", np.intp, shape, least=0, most=1)
        possible = segmentations(categories, len(labels) + 1)
        if not 1 <= len(columns) <= _MOST_KEPT or not all(
            (each == possible).all(1).any() for each in columns
        ):
            raise schema.refused("columns of segments", columns, "some of the segmentations of the columns")
        m = (len(columns),)
        ratios = schema.array(state, "ratios", np.float64, m, least=_RATIOS[0], most=_RATIOS[-1])
        probabilities = schema.array(state, "probabilities", np.float64, m, least=0.0, most=1.0)
        if probabilities.sum() > 1.0 + 1e-9:
            raise SavedFileError("the probabilities of segmentations add up to more than 1")
        sizes = np.array(categories, np.intp) + 1
        mean = schema.number(state, "mean", least=-LARGEST, most=LARGEST)
        segments = cls(ArmIndex(labels), mean, columns, sizes, ratios, probabilities)
        segments.sums = schema.array(state, "sums", np.float64, segments.sums.shape)
        rows, paid = segments.sums
        counts = rows.min() >= 0.0 and rows.max() <= schema.MOST
        if not counts or (np.abs(paid) > rows * LARGEST).any():
            raise SavedFileError("the saved means of segments are not those of rows; save the agent again")
        return segments


def segmentations(categories: tuple[int, ...], arms: int) -> Indices:
    """All that are looked at, (m, d), 1 where one has a column: all pairs, all triples, ... while at most 60 in all."""
    places = [place for place, count in enumerate(categories) if count > 1]
    found: list[tuple[int, ...]] = []
    most, looked_at = min(_MOST_SEGMENTS, _MOST_MEANS // arms), 0
    for size in range(2, len(places) + 1):
        looked_at += math.comb(len(places), size)
        if looked_at > _MOST_SEGMENTATIONS:
            break
        of_size = combinations(places, size)
        found += [each for each in of_size if math.prod(categories[place] + 1 for place in each) <= most]
    columns = np.zeros((len(found), len(categories)), np.intp)
    for i, each in enumerate(found):
        columns[i, list(each)] = 1
    return columns


def _factors(columns: Indices, sizes: Indices) -> Floats:
    """What the code of each column is multiplied with, so that all segments have numbers of their own."""
    steps = np.cumprod(np.where(columns == 1, sizes, 1))
    return np.where(columns == 1, np.append(1, steps[:-1]), 0).astype(np.float64)


def _greatest_evidence(sums: Floats, mean: float, n: int, total: float) -> tuple[float, float]:
    """The log evidence of a segmentation with the best ρ, and that ρ, from rows and rewards of its means.

    As `ridge_prior.evidence_of`: - n/2 · ln(Q / Σ (r - mean)²) - ½ Σ ln(1 + ρ n), with Q what the effects leave.
    """
    rows, paid = sums[:, sums[0] > 0.0]
    grown = 1.0 + _RATIOS[:, None] * rows
    explained = (_RATIOS[:, None] * np.square(paid - mean * rows) / grown).sum(axis=1)
    evidences = -0.5 * (n * np.log(np.maximum(1.0 - explained / total, 1e-12)) + np.log(grown).sum(axis=1))
    best = int(np.argmax(evidences))
    return float(evidences[best]), float(_RATIOS[best])
