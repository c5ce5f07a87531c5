"""With which probability each choice is made: what an oracle chooses in draws of the scores, mixed with a floor.

The floor is a share of the decisions that any feasible choice may get, so that none has probability 0. The decision is
drawn from the distribution that is told, so the told probability is the true one, however few the draws.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from treebandit.core import Floats, Indices, Oracle, choose_with
from treebandit.errors import NoFeasibleChoiceError
from treebandit.oracles import Assignment, ShortestPath, TopK, best_arm

#: Oracles whose only chance is the generator that they are given.
_KNOWN = (TopK, ShortestPath, Assignment)
#: e to this power is near the largest number there is.
_MOST_LOG_SETS = 690.0


@dataclass(frozen=True, slots=True, eq=False)
class ScoreDraws:
    """What may be scored in one decision.

    scores: (size, n), equally likely; one row where there is no chance in them.
    uniform: the probability that scores are drawn from U(0, 1) instead, each candidate for itself.
    """

    scores: Floats
    uniform: float = 0.0

    @classmethod
    def random(cls, n: int) -> ScoreDraws:
        """Nothing but random scores; their mean is a half."""
        return cls(np.full((1, n), 0.5), 1.0)

    @classmethod
    def of(cls, scores: Floats) -> ScoreDraws:
        """(size, n) scores, the same ones once only."""
        return cls(scores[:1] if scores.strides[0] == 0 or len(scores) == 1 else scores)


class Choices(Protocol):
    """A distribution over the feasible choices."""

    @property
    def marginals(self) -> Floats:
        """(n,): the probability of each candidate being chosen."""

    def draw(self, random: np.random.Generator) -> tuple[Indices, float]:
        """A choice, and its probability."""


def choices(
    drawn: ScoreDraws, oracle: Oracle, *, floor: float, size: int, random: np.random.Generator
) -> Choices:
    """(1 - floor) · how often the oracle makes a choice in the draws + floor · how often it does so by chance alone.

    By chance: every candidate as likely (`best_arm`), every set of k as likely (`TopK`), or, for any other oracle, as
    often as it makes the choice for `size` vectors of scores from U(0, 1).
    """
    by_chance = min(floor + (1.0 - floor) * drawn.uniform, 1.0)
    scores = drawn.scores
    # What no draw allows, chance does not either.
    feasible: NDArray[np.bool_] = np.ones(scores.shape[1], np.bool_)
    if not scores.min() > -np.inf:
        feasible = np.logical_or.reduce(scores > -np.inf, axis=0)
    if oracle is best_arm or (isinstance(oracle, TopK) and oracle.k == 1):
        return OneRow((1.0 - by_chance) * _shares(scores) + by_chance / feasible.sum() * feasible)
    sets = _Sets(scores.shape[1])
    if by_chance < 1.0:
        sets.add(_chosen(scores, oracle, size, random), 1.0 - by_chance)
    if by_chance > 0.0 and isinstance(oracle, TopK):
        return TopKSets(sets, by_chance, np.flatnonzero(feasible), oracle.k, scores.mean(axis=0))
    if by_chance > 0.0:
        chance = np.where(feasible, random.random((size, len(feasible))), -np.inf)
        sets.add([choose_with(oracle, each, random) for each in chance], by_chance)
    return sets


@dataclass(frozen=True, slots=True, eq=False)
class OneRow:
    """One candidate is chosen, each with its probability."""

    marginals: Floats

    def draw(self, random: np.random.Generator) -> tuple[Indices, float]:
        """A row, and its probability."""
        row = _drawn(self.marginals, random)
        return np.array([row], np.intp), float(self.marginals[row])


class _Sets:
    """Sets of candidates, each with its probability; told apart by what is in them, not by the order."""

    def __init__(self, n: int) -> None:
        self.marginals = np.zeros(n)
        self._rows: list[Indices] = []
        self._weights: list[float] = []
        self._places: dict[bytes, int] = {}

    def add(self, chosen: list[Indices], weight: float) -> None:
        """Sets that are equally likely, with this probability in all."""
        each = weight / len(chosen)
        for rows in chosen:
            place = self._places.setdefault(_key(rows), len(self._rows))
            if place == len(self._rows):
                self._rows.append(rows)
                self._weights.append(0.0)
            self._weights[place] += each
            self.marginals[rows] += each

    def probability(self, rows: Indices) -> float:
        """What was added for this set."""
        place = self._places.get(_key(rows))
        return 0.0 if place is None else self._weights[place]

    def draw(self, random: np.random.Generator) -> tuple[Indices, float]:
        """A set, and its probability."""
        place = _drawn(np.array(self._weights), random)
        return self._rows[place], self._weights[place]


class TopKSets:
    """Sets of candidates, mixed with all sets of k that are feasible: too many to be listed."""

    def __init__(self, sets: _Sets, by_chance: float, feasible: Indices, k: int, scores: Floats) -> None:
        self._sets, self._by_chance, self._feasible, self._scores = sets, by_chance, feasible, scores
        self._k = min(k, len(scores))
        if len(feasible) < self._k:
            raise NoFeasibleChoiceError(
                f"{k} rows are to be chosen, but only {len(feasible)} of {len(scores)} have a score above -inf; "
                "choose fewer or allow more"
            )
        self.marginals = sets.marginals.copy()
        self.marginals[feasible] += by_chance * self._k / len(feasible)

    def draw(self, random: np.random.Generator) -> tuple[Indices, float]:
        """A set, best first, and its probability."""
        if random.random() < self._by_chance:
            rows = random.choice(self._feasible, self._k, replace=False)
            rows = rows[np.argsort(-self._scores[rows], kind="stable")].astype(np.intp)
        else:
            rows, _ = self._sets.draw(random)
        chance = self._by_chance * _one_of_sets(len(self._feasible), self._k)
        return rows, min(self._sets.probability(rows) + chance, 1.0)


def _shares(scores: Floats) -> Floats:
    """(n,): in which share of (size, n) scores each candidate is the best; of m equals each has an m-th."""
    best = scores.max(axis=1, keepdims=True)
    found = scores == best
    counts: Floats = np.add.reduce(found, axis=0, dtype=np.float64)
    if counts.sum() != len(scores) or scores.shape[1] == 1:  # equals, a NaN, or nothing feasible
        for row in np.flatnonzero((best != best) | (best == -np.inf)):
            best_arm(scores[row])  # says what is wrong
        counts = (found / found.sum(axis=1, keepdims=True)).sum(axis=0)
    return counts / len(scores)


def _chosen(scores: Floats, oracle: Oracle, size: int, random: np.random.Generator) -> list[Indices]:
    """What the oracle chooses in each draw; once, where neither scores nor oracle hold any chance."""
    if len(scores) > 1:
        return [choose_with(oracle, each, random) for each in scores]
    before = random.bit_generator.state
    first = choose_with(oracle, scores[0], random)
    if isinstance(oracle, _KNOWN) and random.bit_generator.state == before:
        return [first]  # no equals to draw from
    return [first, *(choose_with(oracle, scores[0], random) for _ in range(size - 1))]


def _drawn(weights: Floats, random: np.random.Generator) -> int:
    """A place, as likely as its weight says; none of weight 0."""
    totals = weights.cumsum()
    place = int(totals.searchsorted(random.random() * totals[-1], side="right"))
    return place if place < len(weights) else int(weights.nonzero()[0][-1])  # the product was rounded up


def _key(rows: Indices) -> bytes:
    return np.sort(rows).tobytes()


def _one_of_sets(n: int, k: int) -> float:
    """The probability of one set of k out of n, all as likely; never quite 0."""
    log_sets = math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
    return 1.0 / math.comb(n, k) if log_sets < _MOST_LOG_SETS else math.exp(-_MOST_LOG_SETS)
