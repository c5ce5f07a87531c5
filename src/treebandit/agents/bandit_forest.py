"""Bandit Forest (Féraud et al. 2016): trees of decision stumps, grown by eliminating variables and then arms."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treebandit import schema
from treebandit.agents.base import BaseAgent
from treebandit.agents.elimination import EliminationForest, Limits
from treebandit.core import Candidates, Columns, Estimate, Features, Floats, Indices, Random
from treebandit.errors import ArmsError, NotFittedError, SavedFileError
from treebandit.features.arm_index import ArmIndex
from treebandit.models.history import History
from treebandit.models.model import Commit, copy_of
from treebandit.parameters import check_number
from treebandit.policies.floor import ScoreDraws

_Parts = tuple[ArmIndex, "_Variables | None", EliminationForest | None, float]


@dataclass(eq=False)
class BanditForest(BaseAgent):
    """Successive elimination in trees: a node plays arms in turn until one variable is left to split on, a leaf
    until one arm is left; the arm played is the one that most trees vote for.

    The confidence radii are made for rewards in [0, 1].

    n_trees: L, how many trees vote.
    min_depth, max_depth: each tree has a depth drawn from this range.
    variable_share: how many of the variables not used above a node are drawn for it.
    min_epsilon, max_epsilon: each tree has an ε drawn from this range; what is within ε of the best counts as good.
    delta: δ, the probability that a best variable or arm is eliminated in error.
    radius: multiplies the confidence radii; 1 is the paper's analysis, less is bolder.
    n_bins, bin_rows: numbers become n_bins - 1 variables 'above this quantile' of the first `bin_rows` rows, in
        which arms are drawn at random; categories become one variable each.
    standardise: rewards are shares of the range seen so far; False, they are taken as they are.

    >>> from treebandit import BanditForest
    >>> agent = BanditForest(n_trees=5, seed=0)
    >>> decision = agent.decide([1.0, 2.0], arms=["a", "b"])
    >>> agent.learn(decision, 1.0)
    """

    n_trees: int = 100
    min_depth: int = 2
    max_depth: int = 4
    variable_share: float = 0.8
    min_epsilon: float = 0.4
    max_epsilon: float = 0.8
    delta: float = 0.05
    radius: float = 0.2
    n_bins: int = 5
    bin_rows: int = 100
    standardise: bool = True
    seed: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_arguments()
        self._arms = ArmIndex()
        self._early = History()
        #: Least and greatest reward so far, and the one that counts as 0.
        self._range, self._least = (math.inf, -math.inf), 0.0
        self._variables: _Variables | None = None
        self.forest: EliminationForest | None = None

    def _check_arguments(self) -> None:
        for name, least in (("n_trees", 1), ("min_depth", 1), ("n_bins", 2), ("bin_rows", 1)):
            check_number(name, getattr(self, name), least=least, whole=True)
        check_number("max_depth", self.max_depth, least=self.min_depth, whole=True)
        check_number("min_epsilon", self.min_epsilon, least=0)
        check_number("max_epsilon", self.max_epsilon, least=self.min_epsilon)
        check_number("variable_share", self.variable_share, above=0, most=1)
        check_number("delta", self.delta, above=0, below=1)
        check_number("radius", self.radius, above=0)

    def _scores(self, candidates: Candidates) -> Floats:
        arms = self._need_arms(candidates)
        if self.forest is None or self._variables is None:
            return self._random.random(len(candidates))
        labels, place = np.unique(arms, return_inverse=True)
        arm_rows = self._arms.find(labels)
        bits = self._variables(candidates.contexts)
        if (bits == bits[0]).all():
            return self.forest.votes(bits[0], arm_rows, self.clock)[place]
        contexts, which = np.unique(bits, axis=0, return_inverse=True)
        votes = np.stack([self.forest.votes(row, arm_rows, self.clock) for row in contexts])
        return votes[which.ravel(), place]

    def _draws(self, candidates: Candidates, size: int) -> ScoreDraws:
        self._need_arms(candidates)
        if self.forest is None or self._variables is None:
            return ScoreDraws.random(len(candidates))
        return ScoreDraws(self._scores(candidates)[None])

    def _prepared(self, chosen: Candidates, rewards: Floats, *, t: int) -> Commit:
        self._need_arms(chosen)
        random = copy_of(self._random)
        least, greatest = self._range
        seen = min(least, float(rewards.min())), max(greatest, float(rewards.max()))
        early, parts = self._early, (self._arms, self._variables, self.forest, self._least)
        if self.forest is not None and self._variables is not None:
            parts = self._grown(
                self.forest.copy(), self._variables, chosen, rewards, seen, random, self._least
            )
        else:
            early = self._early.appended(chosen, rewards)
            if len(early) >= self.bin_rows or all(chosen.columns.categories):
                parts, early = self._first_forest(early, chosen.columns, seen, random), History()

        def commit() -> None:
            self._arms, self._variables, self.forest, self._least = parts
            self._early, self._range = early, seen
            self._random.bit_generator.state = random.bit_generator.state

        return commit

    def _first_forest(
        self, early: History, columns: Columns, seen: tuple[float, float], random: Random
    ) -> _Parts:
        """Variables fixed by the rows seen so far, and trees that have learned these rows."""
        variables = _Variables.found(columns, early.contexts, self.n_bins)
        depths = random.integers(self.min_depth, self.max_depth, self.n_trees, endpoint=True)
        epsilons = random.uniform(self.min_epsilon, self.max_epsilon, self.n_trees)
        forest = EliminationForest(self._limits(variables, depths, epsilons), random)
        zero = seen[0] if self.standardise else 0.0
        return self._grown(forest, variables, early.rows(columns), early.rewards, seen, random, zero)

    def _limits(self, variables: _Variables, depths: Indices, epsilons: Floats) -> Limits:
        return Limits(len(variables), depths, epsilons, self.variable_share, self.delta, self.radius)

    def _grown(
        self,
        forest: EliminationForest,
        variables: _Variables,
        rows: Candidates,
        rewards: Floats,
        seen: tuple[float, float],
        random: Random,
        least: float,
    ) -> _Parts:
        """The parts after `forest`, which nobody else uses, has learned these rows."""
        unit, index = self._unit(seen), ArmIndex(self._arms.labels)
        arm_rows = index.register(self._need_arms(rows))
        forest.widen(len(index))
        for row, arm_row, reward in zip(variables(rows.contexts), arm_rows, rewards, strict=True):
            forest.learn(row, arm_row, float(reward) - least, random, unit=unit)
        return index, variables, forest, least

    def _unit(self, seen: tuple[float, float]) -> float:
        """The reward that counts as 1, where rewards lie in this range."""
        return (seen[1] - seen[0] if self.standardise else 1.0) or 1.0

    def _estimate(self, candidates: Candidates) -> Estimate:
        arms = self._need_arms(candidates)
        if self.forest is None or self._variables is None:
            raise NotFittedError(
                f"no trees yet: {len(self._early)} rows learned, and {self.bin_rows} are needed to bin the numbers; "
                "learn more rows before asking for an estimate"
            )
        arm_rows = self._arms.find(arms)
        rows = zip(self._variables(candidates.contexts), arm_rows, strict=True)
        mean, variance, count = np.array([self.forest.estimate(bits, arm_row) for bits, arm_row in rows]).T
        return Estimate(self._least + mean, variance * self._unit(self._range) ** 2, count)

    def _need_arms(self, candidates: Candidates) -> Indices:
        if candidates.arms is None:
            raise ArmsError("BanditForest votes on arms and was given none; give `arms`, one label per row")
        return candidates.arms

    def _state(self) -> dict[str, Any]:
        return {
            "labels": self._arms.labels,
            "range": [*self._range, self._least],
            "early": self._early.state(),
            "variables": None if self._variables is None else self._variables.state(),
            "forest": None if self.forest is None else self.forest.state(),
        }

    def _deciding_state(self) -> dict[str, Any]:
        return {**self._state(), "early": self._early.state(history=False)}

    def _restore(self, state: dict[str, Any]) -> None:
        self._arms = ArmIndex(schema.labels(state, "labels"))
        self._early = History.restored(schema.part(state, "early"))
        self._early.check(self._inputs.columns, self._inputs.with_arms, whole=not self.decide_only)
        least, greatest, self._least = (float(value) for value in schema.items(state, "range", most=3))
        self._range = least, greatest
        if schema.optional(state, "forest") is None:
            return
        if self._inputs.columns is None:
            raise SavedFileError("trees are saved without their columns")
        self._variables = _Variables.restored(schema.part(state, "variables"), len(self._inputs.columns))
        saved = schema.part(state, "forest")
        depths = schema.array(saved, "depths", np.int64, (self.n_trees,), least=1)
        epsilons = schema.array(saved, "epsilons", np.float64, (self.n_trees,), least=0.0)
        limits = self._limits(self._variables, depths, epsilons)
        self.forest = EliminationForest.restored(saved, limits, len(self._arms))


class _Variables:
    """Contexts -> binary variables, (n, m): a category is this code, a number is above this threshold."""

    def __init__(self, columns: Indices, values: Features, coded: NDArray[np.bool_]) -> None:
        self._columns, self._values, self._coded = columns, values, coded

    @classmethod
    def found(cls, columns: Columns, contexts: Features, n_bins: int) -> _Variables:
        """The variables that these columns have, by the rows seen first; two categories need one variable only."""
        parts = [
            np.arange(1 if count == 2 else 0, count if count > 1 else 0)
            if count
            else _thresholds(contexts[:, place], n_bins)
            for place, count in enumerate(columns.categories)
        ]
        sizes = [len(part) for part in parts]
        coded = np.repeat(np.asarray(columns.categories) > 0, sizes)
        values = np.concatenate([np.empty(0), *parts]).astype(np.float32)
        return cls(np.repeat(np.arange(len(columns)), sizes), values, coded)

    def __len__(self) -> int:
        return len(self._columns)

    def __call__(self, contexts: Features) -> NDArray[np.bool_]:
        values = contexts[:, self._columns]
        return np.where(self._coded, values == self._values, values > self._values)

    def state(self) -> dict[str, Any]:
        return {"columns": self._columns, "values": self._values, "coded": self._coded}

    @classmethod
    def restored(cls, state: Mapping[str, Any], width: int) -> _Variables:
        columns = schema.array(state, "columns", np.intp, (None,), least=0, most=width - 1)
        values = schema.array(state, "values", np.float32, (len(columns),))
        return cls(columns, values, schema.array(state, "coded", np.bool_, (len(columns),)))


def _thresholds(values: Features, n_bins: int) -> Features:
    """Where to cut a column of numbers: between few values, or at quantiles of many."""
    present = values[~np.isnan(values)]
    different: Features = np.unique(present)
    if len(different) <= n_bins:
        return different[:-1]
    cuts: Features = np.quantile(present, np.arange(1, n_bins) / n_bins, method="lower")
    return np.unique(cuts[cuts < different[-1]])
