"""Mean and variance of each arm's rewards, whatever the contexts."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from treebandit import schema
from treebandit.core import Candidates, Estimate, Floats, Indices, Random
from treebandit.errors import ArmsError, NotFittedError, SavedFileError
from treebandit.features.arm_index import ArmIndex
from treebandit.models.model import CopiedModel


class ArmStatistics(NamedTuple):
    """Of each row's arm, (n,): plays, mean and variance (ddof 0) of its rewards; and the plays of all arms."""

    counts: Floats
    means: Floats
    variances: Floats
    plays: float


class ArmMeans(CopiedModel):
    """Running mean and variance per arm.

    unit_range: `statistics` tells rewards as shares of the range seen so far, 0 for the least and 1 for the greatest.
    """

    def __init__(self, *, unit_range: bool = False) -> None:
        self._unit_range = unit_range
        self._arms = ArmIndex()
        self._counts, self._means, self._squares = np.zeros((3, 1))
        self._least, self._greatest = np.inf, -np.inf

    @property
    def fitted(self) -> bool:
        """Whether any row was learned."""
        return len(self._arms) > 1

    def _learn(self, rows: Candidates, rewards: Floats, *, t: int, random: Random, started: bool) -> None:
        """Take in rows, one after the other."""
        self._arms = ArmIndex(self._arms.labels)
        arm_rows = self._arms.register(_arms(rows))
        more = (0, len(self._arms) - len(self._counts))
        counts, means, squares = (np.pad(each, more) for each in (self._counts, self._means, self._squares))
        for arm_row, reward in zip(arm_rows, rewards, strict=True):
            counts[arm_row] += 1.0
            error = reward - means[arm_row]
            means[arm_row] += error / counts[arm_row]
            squares[arm_row] += error * (reward - means[arm_row])
        self._counts, self._means, self._squares = counts, means, squares
        self._least = min(self._least, float(rewards.min()))
        self._greatest = max(self._greatest, float(rewards.max()))

    def statistics(self, rows: Candidates) -> ArmStatistics:
        """What was seen of each row's arm."""
        arm_rows = self._arms.find(_arms(rows))
        counts, means = self._counts[arm_rows], self._means[arm_rows]
        variances = self._squares[arm_rows] / np.maximum(counts, 1.0)
        if self._unit_range and self._greatest > self._least:
            width = self._greatest - self._least
            means, variances = (means - self._least) / width, variances / width**2
        elif self._unit_range:
            means = np.zeros(len(means))
        return ArmStatistics(counts, means, variances, float(self._counts.sum()))

    def estimate(self, rows: Candidates) -> Estimate:
        """Mean reward of each row's arm, variance of that mean, plays.

        An arm never played has mean and variance of all rewards, and one played once the variance within arms.
        """
        arm_rows = self._arms.find(_arms(rows))
        if not self.fitted:
            raise NotFittedError("no rows learned yet; learn some before asking for an estimate")
        counts = self._counts[arm_rows]
        mean, variance, within = self._moments()
        own = self._squares[arm_rows] / np.maximum(counts - 1.0, 1.0) / np.maximum(counts, 1.0)
        return Estimate(
            np.where(counts > 0.0, self._means[arm_rows], mean),
            np.where(counts > 1.0, own, np.where(counts > 0.0, within, variance)),
            counts,
        )

    def _moments(self) -> tuple[float, float, float]:
        """Mean and variance of all rewards; their variance within arms, that of all where no arm was played twice."""
        counts, plays = self._counts, self._counts.sum()
        mean = float(counts @ self._means / plays)
        squares, between = self._squares.sum(), counts @ np.square(self._means - mean)
        variance = float((squares + between) / max(plays - 1.0, 1.0))
        again = float(np.maximum(counts - 1.0, 0.0).sum())
        return mean, variance, float(squares / again) if again else variance

    def sample(self, rows: Candidates, draws: int, random: Random, *, scale: float = 1.0) -> Floats:
        """Draws from N(mean, variance of the mean), (draws, n); rows of one arm share its draw."""
        estimate = self.estimate(rows)
        labels, place = np.unique(_arms(rows), return_inverse=True)
        noise = random.standard_normal((draws, len(labels)))[:, place]
        return estimate.mean + scale * np.sqrt(estimate.variance) * noise

    def state(self, *, history: bool = True) -> dict[str, Any]:
        """All that is needed to go on elsewhere; there is no history in it."""
        statistics = np.stack([self._counts, self._means, self._squares])
        return {"labels": self._arms.labels, "statistics": statistics, "range": [self._least, self._greatest]}

    def restore(self, state: dict[str, Any]) -> None:
        """Take up what `state` gave."""
        index = ArmIndex(schema.labels(state, "labels"))
        statistics = schema.array(state, "statistics", np.float64, (3, len(index)))
        least, greatest = (float(end) for end in schema.items(state, "range", most=2))
        if (statistics[[0, 2]] < 0).any() or np.isnan([least, greatest]).any():
            raise SavedFileError("the saved means of the arms do not fit each other")
        self._arms, self._least, self._greatest = index, least, greatest
        self._counts, self._means, self._squares = statistics.copy()


def _arms(rows: Candidates) -> Indices:
    if rows.arms is None:
        raise ArmsError(
            "this agent keeps one mean per arm and was given no arms; give `arms`, one label per row"
        )
    return rows.arms
