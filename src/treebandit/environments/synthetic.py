"""Problems whose truth is known, so that the regret is exact."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from treebandit.core import Candidates, Columns, Features, Floats, Indices, Oracle, Outcome, Random, Round
from treebandit.environments.rounds import OneRoundAtATime
from treebandit.errors import ChoiceError, InputError, ParameterError, ShapeError
from treebandit.oracles import TopK, best_arm
from treebandit.parameters import check_choice, check_fields, check_number, check_seed

PROBLEMS = ("linear", "interactions")
REWARDS = ("binary", "continuous")
CHANGES = ("swap", "gradual", "recurring", "one_arm", "new_arms")
DRIFT_PERIOD = 2_000
#: The contexts of one round have at most so many numbers.
MOST_NUMBERS = 10**7
#: Greatest noise and drift: contexts and rewards stay far from the limits of 32 bits.
LARGEST = 1e12


class _KnownTruth(OneRoundAtATime):
    """What both problems share: one round at a time, rewards drawn around known means."""

    def _begin(self, *, rewards: str, noise: float, seed: int | None) -> Random:
        check_choice("rewards", rewards, REWARDS)
        check_number("noise", noise, least=0, most=LARGEST)
        check_seed(seed)
        streams = np.random.SeedSequence(seed).spawn(4)
        truth, self._stream, self._luck, self._ties = (np.random.default_rng(stream) for stream in streams)
        self._binary, self._noise, self._choose = rewards == "binary", noise, 1
        self._means: Floats = np.empty(0)
        return truth

    def _outcome(self, rows: Indices) -> Outcome:
        """One reward per chosen row; the regret is that of the true means."""
        if len(rows) != self._choose:
            raise ChoiceError(f"choice {rows.tolist()}; choose {self._choose} of the {len(self._means)} rows")
        means = self._means[rows]
        best = np.partition(self._means, -self._choose)[-self._choose :].sum()
        if self._binary:
            rewards = (self._luck.random(len(means)) < means).astype(np.float64)
        else:
            rewards = means + self._noise * self._luck.standard_normal(len(means))
        return Outcome(rewards, max(0.0, float(best - means.sum())))

    def _squash(self, scores: Floats) -> Floats:
        return 1.0 / (1.0 + np.exp(-2.0 * scores)) if self._binary else scores


@dataclass(eq=False)
class Synthetic(_KnownTruth):
    """One context for all labelled arms, each arm with a truth of its own.

    problem: "linear", mean θ_k·x, or "interactions", a random value per arm and sign pattern of the first
        `informative` features, while all others mean nothing.
    arms, features: how many.
    informative: how many features matter in "interactions".
    rewards: "binary" (the mean through a sigmoid for "linear") or "continuous" with Gaussian `noise`.
    noise: standard deviation of continuous rewards.
    drift: how far the contexts wander to and fro in 2,000 rounds, the truth unchanged.
    change_every: after so many rounds the truth changes; None, it never does.
    change: how. "swap": the arms swap their truths; "gradual": likewise, but the means move there little by little
        until the next change; "recurring": to and fro between two truths; "one_arm": one arm gets a new truth;
        "new_arms": one more arm is offered, the first one alone at the start.
    seed: of truth, contexts, rewards and ties.

    >>> from treebandit import Uniform, play_round
    >>> from treebandit.environments import Synthetic
    >>> environment = Synthetic("interactions", arms=3, seed=0)
    >>> choice, outcome = play_round(Uniform(seed=0), environment)
    >>> outcome.regret >= 0
    True
    """

    problem: str = "linear"
    arms: int = field(default=4, kw_only=True)
    features: int = field(default=8, kw_only=True)
    informative: int = field(default=3, kw_only=True)
    rewards: str = field(default="binary", kw_only=True)
    noise: float = field(default=0.1, kw_only=True)
    drift: float = field(default=0.0, kw_only=True)
    change_every: int | None = field(default=None, kw_only=True)
    change: str = field(default="swap", kw_only=True)
    seed: int | None = field(default=None, kw_only=True)

    horizon = None

    def __post_init__(self) -> None:
        vars(self).update(check_fields(self))
        check_choice("problem", self.problem, PROBLEMS)
        check_choice("change", self.change, CHANGES)
        check_number("drift", self.drift, least=-LARGEST, most=LARGEST)
        _check_counts(arms=self.arms, features=self.features, informative=self.informative)
        _check_size(arms=self.arms, features=self.features)
        if self.informative > min(self.features, 16):
            raise ParameterError(
                f"informative is {self.informative}; give at most 16 and at most features={self.features}"
            )
        check_number("change_every", self.change_every, least=1, whole=True, optional=True)
        truth = self._begin(rewards=self.rewards, noise=self.noise, seed=self.seed)
        linear = self.problem == "linear"
        self._weights = truth.standard_normal((self.arms, self.features)) if linear else None
        self._values = truth.random((self.arms, 2**self.informative))
        self._direction = truth.standard_normal(self.features) / np.sqrt(self.features)
        self._truth = truth
        self.columns = Columns.numeric(self.features)
        self._arms = np.arange(self.arms, dtype=np.intp)
        self._owner = self._before = self._arms
        self._oracle = partial(best_arm, random=self._ties)
        self._round = 0

    def _next_round(self) -> Round:
        """The next context, (arms, features) with equal rows."""
        if self.change_every and self._round and self._round % self.change_every == 0:
            self._change()
        context = self._stream.uniform(-1.0, 1.0, self.features)
        if self.drift:
            context += self.drift * np.sin(2 * np.pi * self._round / DRIFT_PERIOD) * self._direction
        row = context.astype(np.float32)
        self._round += 1
        arms = self._arms[: self._offered]
        self._means = self.means(row)[: len(arms)]
        contexts = row[np.newaxis].repeat(len(arms), axis=0)
        return Round(Candidates(contexts, arms, self.columns), self._oracle)

    @property
    def _offered(self) -> int:
        """How many arms this round offers."""
        if self.change != "new_arms" or not self.change_every:
            return self.arms
        return min(1 + (self._round - 1) // self.change_every, self.arms)

    def _change(self) -> None:
        """Change the truth."""
        self._before = self._owner
        if self.change == "one_arm":
            arm = self._truth.integers(self.arms)
            if self._weights is not None:
                self._weights[arm] = self._truth.standard_normal(self.features)
            self._values[arm] = self._truth.random(2**self.informative)
        elif self.change == "recurring":
            self._owner = np.roll(self._arms, 1) if self._owner is self._arms else self._arms
        elif self.change != "new_arms":
            self._owner = self._truth.permutation(self.arms)

    def means(self, row: Features) -> Floats:
        """The true mean reward of every arm for a context (features,), as of this round."""
        row = _features(row, (self.features,))
        means = self._means_of(row, self._owner)
        if self.change == "gradual" and self.change_every:
            share = ((self._round - 1) % self.change_every + 1) / self.change_every
            means = (1.0 - share) * self._means_of(row, self._before) + share * means
        return means

    def _means_of(self, row: Features, owner: Indices) -> Floats:
        """Of every arm, with the truth of another one, or its own."""
        if self._weights is not None:
            return self._squash(self._weights[owner] @ row.astype(np.float64))
        pattern = int((row[: self.informative] > 0) @ (1 << np.arange(self.informative)))
        values: Floats = self._values[owner, pattern]
        return values


@dataclass(eq=False)
class DescribedArms(_KnownTruth):
    """Many arms that are known by their features: each round offers some of them to one visitor.

    arms: how many there are.
    offered: how many of them a round offers.
    slots: how many are chosen a round.
    features, arm_features: numbers that are known of a visitor and of an arm.
    rewards: "binary" or "continuous".
    noise: standard deviation of continuous rewards.
    seed: of truth, contexts, rewards and ties.

    A row holds the visitor's `features` and the arm's `arm_features`; its mean is visitor · M · arm, through
    a sigmoid for "binary" rewards. `slots` rows are chosen a round, each with its own reward.

    >>> from treebandit import Uniform, play_round
    >>> from treebandit.environments import DescribedArms
    >>> environment = DescribedArms(50, offered=5, seed=0)
    >>> choice, outcome = play_round(Uniform(seed=0), environment)
    >>> outcome.regret >= 0
    True
    """

    arms: int = 200
    offered: int = field(default=20, kw_only=True)
    slots: int = field(default=1, kw_only=True)
    features: int = field(default=4, kw_only=True)
    arm_features: int = field(default=4, kw_only=True)
    rewards: str = field(default="binary", kw_only=True)
    noise: float = field(default=0.1, kw_only=True)
    seed: int | None = field(default=None, kw_only=True)

    horizon = None

    def __post_init__(self) -> None:
        vars(self).update(check_fields(self))
        _check_counts(
            arms=self.arms,
            offered=self.offered,
            slots=self.slots,
            features=self.features,
            arm_features=self.arm_features,
        )
        _check_size(arms=self.arms, features=self.features + self.arm_features)
        _check_size(arms=self.arm_features, features=self.features)
        if not self.slots <= self.offered <= self.arms:
            raise ParameterError(
                f"slots={self.slots}, offered={self.offered}, arms={self.arms}; none may exceed the next"
            )
        truth = self._begin(rewards=self.rewards, noise=self.noise, seed=self.seed)
        self._choose = self.slots
        self._descriptions = truth.uniform(-1.0, 1.0, (self.arms, self.arm_features)).astype(np.float32)
        self._bonds = truth.standard_normal((self.features, self.arm_features))
        self.columns = Columns.numeric(self.features + self.arm_features)
        oracle: Oracle = best_arm if self.slots == 1 else TopK(self.slots)
        self._oracle = partial(oracle, random=self._ties)

    def _next_round(self) -> Round:
        """The next visitor and the arms on offer, (offered, features + arm_features)."""
        visitor = self._stream.uniform(-1.0, 1.0, self.features).astype(np.float32)
        offer = self._descriptions[self._stream.choice(self.arms, self.offered, replace=False)]
        contexts = np.hstack([visitor[np.newaxis].repeat(self.offered, axis=0), offer])
        self._means = self.means(contexts)
        return Round(Candidates(contexts, None, self.columns), self._oracle)

    def means(self, contexts: Features) -> Floats:
        """The true mean reward of each row, (n,)."""
        contexts = _features(contexts, (None, self.features + self.arm_features))
        visitors = contexts[:, : self.features].astype(np.float64)
        offers = contexts[:, self.features :].astype(np.float64)
        return self._squash(((visitors @ self._bonds) * offers).sum(axis=1))


def _check_counts(**counts: int) -> None:
    for name, count in counts.items():
        check_number(name, count, least=1, most=MOST_NUMBERS, whole=True)


def _check_size(*, arms: int, features: int) -> None:
    if arms * features > MOST_NUMBERS:
        raise ParameterError(f"{arms} arms of {features} features need too much memory; give fewer")


def _features(given: Any, shape: tuple[int | None, ...]) -> Features:
    """Contexts as float32 of this shape, None for any number of rows."""
    try:
        contexts = np.asarray(given)
    except ValueError as error:
        raise ShapeError(f"contexts cannot be read as an array: {error}") from error
    if contexts.dtype.kind not in "fiub":
        raise InputError(f"contexts of type {contexts.dtype}; give numbers")
    if contexts.ndim != len(shape) or contexts.shape[-1] != shape[-1]:
        raise ShapeError(f"contexts of shape {contexts.shape}; expected {shape[-1]} features")
    with np.errstate(over="ignore"):
        return contexts.astype(np.float32, copy=False)
