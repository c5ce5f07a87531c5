"""TEUCB and TETS: one tree ensemble for all arms, its leaves telling how sure it is (paper, Algorithm 1)."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from treebandit.agents.base import BaseAgent
from treebandit.core import Candidates, Estimate, Features, Floats
from treebandit.errors import NotFittedError, ParameterError
from treebandit.features.encoding import ArmEncoding, CategoryEncoding, Encoder, check_encoding
from treebandit.models.history import History
from treebandit.models.schedule import Schedule
from treebandit.trees.forest import Forest, TreeLearner
from treebandit.trees.leaf_statistics import LeafOutput, LeafStatistics
from treebandit.trees.xgboost_trees import XGBoostTrees

RandomStart = Literal["per_arm", "rounds", "in_turn"]
StatisticsFrom = Literal["all", "held_out", "out_of_bag"]


@dataclass(eq=False)
class _TreeEnsembleAgent(BaseAgent):
    """Algorithm 1 but for its last line, which TEUCB and TETS write.

    trees: the tree library and its settings.
    exploration: ν in the paper; 0 is greedy.
    random_rounds, random_start: T_I. 'per_arm': that many random rounds times the number of arms (paper; times
        one where the features alone tell candidates apart); 'rounds': that many in all; 'in_turn': each arm in
        turn, that many times.
    rebuild: '8 ln t' (paper: whenever ⌈8 ln t⌉ grows), 'every 100' or 'never' (after the first time).
    arm_encoding: the arm's 'label' in front of the features, 'one_hot' of it, or 'none'; 'auto' is the label
        where arms are given.
    categories: columns of categories as integer 'codes' or 'one_hot'.
    leaf_output: o as the 'library' set it, or the plain 'average' of what the rows suggest.
    statistics: from 'all' rows, from a 'held_out' share of them that no tree is grown on, or 'out_of_bag'.
    prior_rows: rows' weight of the variance of all rewards in the variance of each leaf; 0 in the paper, where a
        leaf of equal rewards is sure of itself.
    """

    trees: TreeLearner = field(default_factory=XGBoostTrees)
    exploration: float = 1.0
    random_rounds: int = 10
    random_start: RandomStart = "per_arm"
    rebuild: str = "8 ln t"
    arm_encoding: ArmEncoding = "auto"
    categories: CategoryEncoding = "codes"
    leaf_output: LeafOutput = "library"
    statistics: StatisticsFrom = "all"
    held_out_share: float = 0.5
    prior_rows: float = 0.0
    seed: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_arguments()
        self._schedule = Schedule.parse(self.rebuild)
        self._history = History()
        self._leaves: LeafStatistics | None = None
        self._encoder: Encoder | None = None
        self._level = 0
        self._arms_met = 0

    def _check_arguments(self) -> None:
        check_encoding(self.arm_encoding, self.categories)
        choices = {
            "random_start": ("per_arm", "rounds", "in_turn"),
            "leaf_output": ("library", "average"),
            "statistics": ("all", "held_out", "out_of_bag"),
        }
        for name, allowed in choices.items():
            if getattr(self, name) not in allowed:
                raise ParameterError(f"{name}={getattr(self, name)!r}; choose one of {', '.join(allowed)}")
        if not (self.exploration >= 0 and math.isfinite(self.exploration)):
            raise ParameterError(f"exploration={self.exploration!r}; expected a number of at least 0")
        if self.random_rounds < 0:
            raise ParameterError(f"random_rounds={self.random_rounds!r}; expected 0 or more")
        if not 0 < self.held_out_share < 1:
            raise ParameterError(f"held_out_share={self.held_out_share!r}; expected a share between 0 and 1")
        if not (self.prior_rows >= 0 and math.isfinite(self.prior_rows)):
            raise ParameterError(f"prior_rows={self.prior_rows!r}; expected a number of at least 0")
        if not isinstance(self.trees, TreeLearner):
            raise ParameterError(f"trees={self.trees!r} has no method fit(features, targets, *, seed)")

    @property
    def start_rounds(self) -> int:
        """T_I: rounds before the trees decide."""
        return self.random_rounds if self.random_start == "rounds" else self.random_rounds * self._arms_met

    def _count(self, arms: NDArray[Any] | None) -> int:
        """How many arms the random start is for: one where the features alone tell candidates apart."""
        return 1 if arms is None or self.arm_encoding == "none" else len(np.unique(arms))

    def _explore(self, leaves: LeafStatistics, features: Features) -> Floats:
        raise NotImplementedError

    def _scores(self, candidates: Candidates) -> Floats:
        if not self._arms_met:
            self._arms_met = self._count(candidates.arms)
        if self._leaves is None or self.clock <= self.start_rounds:
            return self._start(candidates)
        return self._explore(self._leaves, self._encode(candidates))

    def _start(self, candidates: Candidates) -> Floats:
        """Scores of the random start: any choice as likely as its rivals, or the arm whose turn it is."""
        scores = self._random.random(len(candidates))
        if self.random_start == "in_turn":
            arms = np.arange(len(candidates)) if candidates.arms is None else candidates.arms
            place = np.unique(arms, return_inverse=True)[1]
            scores = scores - (place - self.clock) % (place.max() + 1)
        return scores

    def _estimate(self, candidates: Candidates) -> Estimate:
        if self._leaves is None:
            raise NotFittedError(
                f"no trees yet: {len(self._history)} rows learned in {self.clock} rounds, of which the first "
                f"{self.start_rounds} are random; learn more rows before asking for an estimate"
            )
        return self._leaves.estimate(self._encode(candidates))

    def _encode(self, candidates: Candidates) -> Features:
        assert self._encoder is not None
        return self._encoder(candidates.contexts, candidates.arms)

    def _learn(self, chosen: Candidates, rewards: Floats) -> None:
        before, arms_met = len(self._history), self._arms_met
        self._history.append(chosen, rewards)
        if not self._decided:
            self._arms_met = self._count(self._history.arms)
        level = self._schedule.level(self.clock + 1)
        if self._leaves is None:
            due = self.clock >= self.start_rounds and len(self._history) >= 2
        else:
            due = level > self._level
        if not due:
            if self._leaves is not None:
                self._update(self._leaves, chosen, rewards)
            return
        try:
            self._rebuild()
        except BaseException:
            self._history.truncate(before)
            self._arms_met = arms_met
            raise
        self._level = level

    def _update(self, leaves: LeafStatistics, chosen: Candidates, rewards: Floats) -> None:
        """Let rows change the leaves they reach, between rebuilds."""
        leaves.update(self._encode(chosen), rewards)

    def _all_rows(self) -> Candidates:
        history, columns = self._history, self._inputs.columns
        assert columns is not None
        arms = history.arms
        return Candidates(history.contexts, None if arms is None else arms.astype(np.intp), columns)

    def _rebuild(self) -> None:
        """Fit the ensemble to all rows and set the leaf values (Algorithm 1, line 7)."""
        started = time.perf_counter()
        rows = self._all_rows()
        targets = self._history.rewards.astype(np.float64)
        encoder, features = self._fit_encoder(rows, targets)
        seed = int(self._random.integers(2**31 - 1))
        self._leaves = self._measure(features, targets, seed)
        self._encoder = encoder
        self.rebuild_seconds += time.perf_counter() - started

    def _fit_encoder(self, rows: Candidates, targets: Floats) -> tuple[Encoder, Features]:
        """How rows enter the trees from now on, and how these rows enter them."""
        encoder = Encoder(rows.columns, rows.arms, arm_encoding=self.arm_encoding, categories=self.categories)
        return encoder, encoder(rows.contexts, rows.arms)

    def _restored_encoder(self, state: dict[str, Any]) -> Encoder:
        return Encoder.restored(state, categories=self.categories)

    def _measure(self, features: Features, targets: Floats, seed: int) -> LeafStatistics:
        if self.statistics == "held_out" and len(targets) >= 4:
            order = self._random.permutation(len(targets))
            cut = min(max(round(len(targets) * self.held_out_share), 1), len(targets) - 2)
            held, grown = np.sort(order[:cut]), np.sort(order[cut:])
            forest = self.trees.fit(features[grown], targets[grown], seed=seed)
            features, targets = features[held], targets[held]
        else:
            forest = self.trees.fit(features, targets, seed=seed)
        return LeafStatistics.measure(
            forest,
            features,
            targets,
            output=self.leaf_output,
            out_of_bag=self.statistics == "out_of_bag",
            prior_rows=self.prior_rows,
        )

    def _state(self) -> dict[str, Any]:
        state: dict[str, Any] = {
            "history": self._history.state(),
            "level": self._level,
            "arms_met": self._arms_met,
            "leaves": None,
        }
        if self._leaves is not None and self._encoder is not None:
            state["leaves"] = {
                "forest": {**self._leaves.forest.arrays(), **self._leaves.forest.scalars()},
                "table": self._leaves.table,
                "prior": self._leaves.prior,
                "encoder": self._encoder.state(),
            }
        return state

    def _restore(self, state: dict[str, Any]) -> None:
        self._history = History.restored(state["history"])
        self._level, self._arms_met = int(state["level"]), int(state["arms_met"])
        leaves = state["leaves"]
        if leaves is not None:
            self._leaves = LeafStatistics(
                Forest(**leaves["forest"]), leaves["table"], leaves["prior"], self.prior_rows
            )
            self._encoder = self._restored_encoder(leaves["encoder"])


@dataclass(eq=False)
class TEUCB(_TreeEnsembleAgent):
    """Tree Ensemble Upper Confidence Bound: U = μ + √(ν² σ² ln(t-1) / c), as Algorithm 1 prints it.

    σ² already is Σ s²/c, so the printed rule divides by counts twice; bonus='undivided' leaves out the second
    division: U = μ + √(ν² σ² ln(t-1)).
    """

    bonus: Literal["printed", "undivided"] = "printed"

    def _check_arguments(self) -> None:
        super()._check_arguments()
        if self.bonus not in ("printed", "undivided"):
            raise ParameterError(f"bonus={self.bonus!r}; choose 'printed' or 'undivided'")

    def _explore(self, leaves: LeafStatistics, features: Features) -> Floats:
        estimate = leaves.estimate(features)
        growth = self.exploration**2 * math.log(max(self.clock - 1, 1))
        variance = estimate.variance
        if self.bonus == "printed":
            variance = variance / np.maximum(estimate.count, 1.0)
        return estimate.mean + np.sqrt(growth * variance)


@dataclass(eq=False)
class TETS(_TreeEnsembleAgent):
    """Tree Ensemble Thompson Sampling: a draw from N(μ, ν² σ²) per candidate.

    sampling: 'candidates' draws each candidate for itself, as Algorithm 1 prints it; 'leaves' draws each leaf's
        output, so that every candidate has the same N(μ, ν² σ²) but candidates in the same leaf share its draw.
        The trees cannot tell such candidates apart there, so independent draws only add noise to the choice.
    """

    sampling: Literal["candidates", "leaves"] = "candidates"

    def _check_arguments(self) -> None:
        super()._check_arguments()
        if self.sampling not in ("candidates", "leaves"):
            raise ParameterError(f"sampling={self.sampling!r}; choose 'candidates' or 'leaves'")

    def _explore(self, leaves: LeafStatistics, features: Features) -> Floats:
        if self.sampling == "leaves":
            key = int(self._random.integers(2**63))
            return leaves.sample(features, exploration=self.exploration, key=key)
        estimate = leaves.estimate(features)
        draws = self._random.standard_normal(len(estimate.mean))
        return estimate.mean + self.exploration * np.sqrt(estimate.variance) * draws
