"""Offers that are clicked rarely: rewards full of noise, and a truth that is known."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from treebandit.core import Candidates, Columns, Features, Floats, Indices, Outcome, Round
from treebandit.environments.rounds import OneRoundAtATime
from treebandit.errors import ChoiceError, ParameterError, ShapeError
from treebandit.oracles import best_arm
from treebandit.parameters import check_choice, check_flag, check_number, check_seed

KINDS = ("discrete", "numbers", "three-way")
#: Categories of a visitor's four columns; two numbers follow.
CATEGORIES = (6, 5, 4, 3)
#: Standard deviation of the logarithm of what a click spends.
_LOG_SD = 1.5
_MOST_ARMS = 10_000


@dataclass(eq=False)
class Clicks(OneRoundAtATime):
    """Visitors with four categories and two numbers are shown one of several offers, and click or do not.

    The rate of an offer is lowest + (highest - lowest) · sigmoid(effect - 1). The effect adds up what the offer is
    worth to each category ("discrete"), and slopes of both numbers ("numbers"). Or each combination of the first three
    categories has an effect of its own ("three-way"), which no sum of categories tells.

    kind: one of these. arms: how many offers.
    lowest, highest: between which the click rates lie.
    spend: a click pays what is spent, with a heavy tail: a lognormal number of mean 1. False: it pays 1.
    seed: of truth, visitors, clicks and ties.

    >>> from treebandit import Uniform, play_round
    >>> from treebandit.environments import Clicks
    >>> environment = Clicks("numbers", arms=5, seed=0)
    >>> choice, outcome = play_round(Uniform(seed=0), environment)
    >>> 0 <= outcome.regret <= 0.07
    True
    """

    kind: str = "discrete"
    arms: int = field(default=10, kw_only=True)
    lowest: float = field(default=0.01, kw_only=True)
    highest: float = field(default=0.08, kw_only=True)
    spend: bool = field(default=False, kw_only=True)
    seed: int | None = field(default=None, kw_only=True)

    horizon = None
    columns = Columns((*CATEGORIES, 0, 0))

    def __post_init__(self) -> None:
        check_choice("kind", self.kind, KINDS)
        check_number("arms", self.arms, least=1, most=_MOST_ARMS, whole=True)
        check_number("lowest", self.lowest, least=0, most=1)
        check_number("highest", self.highest, least=0, most=1)
        check_flag("spend", self.spend)
        check_seed(self.seed)
        if self.lowest > self.highest:
            raise ParameterError(f"lowest={self.lowest} is above highest={self.highest}; swap them")
        streams = np.random.SeedSequence(self.seed).spawn(4)
        truth, self._stream, self._luck, self._ties = (np.random.default_rng(stream) for stream in streams)
        three_way = self.kind == "three-way"
        sizes = [CATEGORIES[:3]] if three_way else [(count,) for count in CATEGORIES]
        self._effects = [
            (2.0 if three_way else 1.0) * truth.normal(size=(*size, self.arms)) for size in sizes
        ]
        slopes = truth.normal(size=(2, self.arms))
        self._slopes = 1.5 * slopes if self.kind == "numbers" else np.zeros((2, self.arms))
        self._arms = np.arange(self.arms, dtype=np.intp)
        self._oracle = partial(best_arm, random=self._ties)
        self._means: Floats = np.empty(0)

    def _next_round(self) -> Round:
        """The next visitor, (arms, 6) with equal rows."""
        codes = self._stream.integers(CATEGORIES)
        row = np.concatenate([codes, self._stream.normal(size=2)]).astype(np.float32)
        self._means = self.means(row)
        return Round(
            Candidates(np.repeat(row[None], self.arms, axis=0), self._arms, self.columns), self._oracle
        )

    def means(self, row: Features | Any) -> Floats:
        """The expected reward of every offer, (arms,), for a visitor's row (6,)."""
        row = np.asarray(row, np.float64)
        if row.shape != (len(self.columns),):
            raise ShapeError(f"a visitor of shape {row.shape}; expected ({len(self.columns)},)")
        codes = row[: len(CATEGORIES)].astype(np.intp)
        effect = row[len(CATEGORIES) :] @ self._slopes
        if len(self._effects) == 1:
            effect = effect + self._effects[0][tuple(codes[:3])]
        else:
            effect = effect + sum(part[code] for part, code in zip(self._effects, codes, strict=True))
        rates: Floats = self.lowest + (self.highest - self.lowest) / (1.0 + np.exp(1.0 - effect))
        return rates

    def _outcome(self, rows: Indices) -> Outcome:
        """Whether the offer was clicked, or what was spent; the regret is that of the expected rewards."""
        if len(rows) != 1:
            raise ChoiceError(f"choice {rows.tolist()}; choose one offer")
        mean = float(self._means[rows[0]])
        reward = float(self._luck.random() < mean)
        spent = float(self._luck.lognormal(-(_LOG_SD**2) / 2.0, _LOG_SD))
        if self.spend:
            reward *= spent
        return Outcome(np.array([reward]), float(self._means.max()) - mean)
