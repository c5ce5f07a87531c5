"""With which probability each choice is made: what an oracle chooses in draws of the scores, mixed with a floor.

The floor is a share of the decisions that any feasible choice may get, so that none has probability 0. The decision is
drawn from the distribution that is reported, so the reported probability is the true one, however few the draws.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from treebandit.core import Floats, Indices, Oracle, Random, choose_with
from treebandit.models import draw_kernels
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

    >>> import numpy as np
    >>> from treebandit.policies import ScoreDraws
    >>> ScoreDraws(np.array([[0.1, 0.4], [0.3, 0.2]])).mean
    array([0.2, 0.3])
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
        return cls(scores[:1] if scores.strides[0] == 0 else scores)

    @property
    def mean(self) -> Floats:
        """(n,): the mean score of each candidate."""
        mean: Floats = np.add.reduce(self.scores, axis=0) / len(self.scores)
        return mean


def choices(drawn: ScoreDraws, oracle: Oracle, *, floor: float, size: int, random: Random) -> Choices:
    """(1 - floor) · how often the oracle makes a choice in the draws + floor · how often it does so by chance alone.

    By chance: every candidate as likely (`best_arm`), every set of k as likely (`TopK`), or, for any other oracle, as
    often as it makes the choice for `size` vectors of scores from U(0, 1).
    """
    by_chance = min(floor + (1.0 - floor) * drawn.uniform, 1.0)
    scores = drawn.scores
    one_row = oracle is best_arm or (isinstance(oracle, TopK) and oracle.k == 1)
    if one_row and min(scores.shape) > 1 and scores.flags.forc:
        # What almost every decision of the service takes: one loop instead of six, and no other thread in between.
        counts = np.zeros(scores.shape[1])
        if draw_kernels.count_best(scores, counts):
            return OneRow((1.0 - by_chance) * (counts / len(scores)) + by_chance / len(counts))
    if one_row and scores.shape[1] > 1 and scores.min() > -np.inf:
        return OneRow((1.0 - by_chance) * _shares(scores) + by_chance / scores.shape[1])
    # What no draw allows, chance does not either.
    feasible: NDArray[np.bool_] = np.logical_or.reduce(scores > -np.inf, axis=0)
    if one_row:
        return OneRow(
            np.minimum((1.0 - by_chance) * _shares(scores) + by_chance / feasible.sum() * feasible, 1.0)
        )
    sets = _Sets(scores.shape[1])
    if by_chance < 1.0:
        sets.add(_chosen(scores, oracle, size, random), 1.0 - by_chance)
    if by_chance > 0.0 and isinstance(oracle, TopK):
        oracle.check_enough(int(np.count_nonzero(feasible)), len(drawn.mean))
        return TopKSets(sets, by_chance, np.flatnonzero(feasible), oracle.k, drawn.mean)
    if by_chance > 0.0:
        chance = np.where(feasible, random.random((size, len(feasible))), -np.inf)
        sets.add([choose_with(oracle, each, random) for each in chance], by_chance)
    return sets


@dataclass(frozen=True, slots=True, eq=False)
class OneRow:
    """One candidate is chosen, each with its probability."""

    marginals: Floats

    def draw(self, random: Random) -> tuple[Indices, float]:
        """A row, and its probability."""
        row = _drawn(self.marginals, random)
        return np.array([row], np.intp), float(self.marginals[row])


class _Sets:
    """Sets of candidates, each with its probability; equal where they hold the same rows, not by the order."""

    def __init__(self, n: int) -> None:
        #: (n,): the probability of each candidate so far.
        self.totals = np.zeros(n)
        self._rows: dict[bytes, Indices] = {}
        self._weights: dict[bytes, float] = {}

    @property
    def marginals(self) -> Floats:
        """(n,): the probability of each candidate being in the set."""
        return np.minimum(self.totals, 1.0)

    def add(self, chosen: Sequence[Indices], weight: float) -> None:
        """Sets that are equally likely, with this probability in all."""
        keys = _keys(chosen)
        for key, rows in zip(keys, chosen, strict=True):
            self._rows.setdefault(key, rows)
        for key, count in Counter(keys).items():
            self._weights[key] = self._weights.get(key, 0.0) + weight * (count / len(chosen))
        counts = np.bincount(np.concatenate(chosen), minlength=len(self.totals))
        self.totals += weight * (counts / len(chosen))

    def probability(self, rows: Indices) -> float:
        """What was added for this set."""
        return self._weights.get(_keys([rows])[0], 0.0)

    def draw(self, random: Random) -> tuple[Indices, float]:
        """A set, and its probability."""
        key = list(self._weights)[_drawn(np.array(list(self._weights.values())), random)]
        return self._rows[key].copy(), min(self._weights[key], 1.0)


class TopKSets:
    """Sets of candidates, mixed with all sets of k that are feasible: too many to be listed."""

    def __init__(self, sets: _Sets, by_chance: float, feasible: Indices, k: int, scores: Floats) -> None:
        self._sets, self._by_chance, self._feasible, self._scores = sets, by_chance, feasible, scores
        self._k = min(k, len(scores))
        totals = sets.totals.copy()
        totals[feasible] += by_chance * self._k / len(feasible)
        self.marginals = np.minimum(totals, 1.0)

    def draw(self, random: Random) -> tuple[Indices, float]:
        """A set, best first, and its probability."""
        if random.random() < self._by_chance:
            rows = random.choice(self._feasible, self._k, replace=False)
            rows = rows[np.argsort(-self._scores[rows], kind="stable")].astype(np.intp)
        else:
            rows, _ = self._sets.draw(random)
        chance = self._by_chance * _one_of_sets(len(self._feasible), self._k)
        return rows, min(self._sets.probability(rows) + chance, 1.0)


#: A distribution over the feasible choices: `marginals`, (n,), and `draw`, a choice with its probability.
Choices = OneRow | _Sets | TopKSets


def _shares(scores: Floats) -> Floats:
    """(n,): in which share of (size, n) scores each candidate is the best; of m equals each has an m-th."""
    best = scores.max(axis=1, keepdims=True)
    found = scores == best
    counts: Floats = np.add.reduce(found, axis=0, dtype=np.float64)
    if np.count_nonzero(found) != len(scores) or scores.shape[1] == 1:  # equals, a NaN, or nothing feasible
        for row in np.flatnonzero((best != best) | (best == -np.inf)):
            best_arm(scores[row])  # says what is wrong
        counts = (found / found.sum(axis=1, keepdims=True)).sum(axis=0)
    return counts / len(scores)


def _chosen(scores: Floats, oracle: Oracle, size: int, random: Random) -> list[Indices]:
    """What the oracle chooses in each draw; once, where neither scores nor oracle hold any chance."""
    if len(scores) > 1 and isinstance(oracle, TopK):
        return _top_rows(scores, oracle, random)
    if len(scores) > 1:
        return [choose_with(oracle, each, random) for each in scores]
    before = random.bit_generator.state
    first = choose_with(oracle, scores[0], random)
    if isinstance(oracle, _KNOWN) and random.bit_generator.state == before:
        return [first]  # no equals to draw from
    return [first, *(choose_with(oracle, scores[0], random) for _ in range(size - 1))]


def _top_rows(scores: Floats, oracle: TopK, random: Random) -> list[Indices]:
    """What `TopK` chooses in each of (size, n) scores, all at once but for those with equals at the edge."""
    order = np.argsort(-scores, axis=1, kind="stable")[:, : oracle.k + 1].astype(np.intp, copy=False)
    best = np.take_along_axis(scores, order, axis=1)
    with np.errstate(invalid="ignore"):
        plain = (np.diff(best, axis=1) < 0.0).all(axis=1) & (best[:, : oracle.k] > -np.inf).all(axis=1)
    chosen = list(order[:, : oracle.k])
    for row in np.flatnonzero(~plain | np.isnan(scores).any(axis=1)):
        chosen[row] = choose_with(oracle, scores[row], random)
    return chosen


def _drawn(weights: Floats, random: Random) -> int:
    """A place, as likely as its weight says; none of weight 0."""
    totals = weights.cumsum()
    place = int(totals.searchsorted(random.random() * totals[-1], side="right"))
    return place if place < len(weights) else int(weights.nonzero()[0][-1])  # the product was rounded up


def _keys(chosen: Sequence[Indices]) -> list[bytes]:
    """What is in each set, whatever the order."""
    if len({len(rows) for rows in chosen}) > 1:
        return [np.sort(rows).tobytes() for rows in chosen]
    table = np.sort(np.array(chosen, np.intp), axis=1)
    step, content = table[0].nbytes, table.tobytes()
    return [content[place * step : (place + 1) * step] for place in range(len(table))]


def _one_of_sets(n: int, k: int) -> float:
    """The probability of one set of k out of n, all as likely; never quite 0."""
    log_sets = math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
    return 1.0 / math.comb(n, k) if log_sets < _MOST_LOG_SETS else math.exp(-_MOST_LOG_SETS)
