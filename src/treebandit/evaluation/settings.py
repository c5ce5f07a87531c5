"""How to evaluate."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from treebandit.evaluation.diagnostics import LEAST_EFFECTIVE
from treebandit.evaluation.estimators import Tuning, check_estimators
from treebandit.evaluation.intervals import INTERVALS, IntervalKind, check_level, check_range
from treebandit.parameters import check_choice, check_flag, check_number, check_seed


@dataclass(frozen=True)
class Settings:
    """Estimators, intervals, models, and when to refuse.

    estimators: names in `ESTIMATORS`.
    interval: 'normal', 'bootstrap', or 'time-uniform', which only IPS has.
    level: of the intervals.
    tuning: constants of the estimators.
    reward_model: a tree learner or a new agent; None for a histogram forest.
    folds: the reward model is cross-fitted in so many.
    reward_range: least and greatest possible reward of a decision, for time-uniform intervals and rare rewards; None
        takes those of the log, 0 and 1. Where k rows are chosen, k times those of one row.
    missing_reward: what decisions without a reward count as, each of several rows an equal part; None leaves them out.
    anyway: tell estimates below `least_effective`, too.
    least_effective: the least effective sample size with which an estimate is given.
    draws, floor: of agents that are evaluated, as in `decide`.
    seed: of bootstrap intervals, folds and models.

    >>> from treebandit.evaluation import Settings
    >>> Settings(estimators=("snips",), level=0.9).interval
    'normal'
    """

    estimators: tuple[str, ...] = ("ips", "snips", "dr")
    interval: IntervalKind = "normal"
    level: float = 0.95
    tuning: Tuning = field(default_factory=Tuning)
    reward_model: Any = None
    folds: int = 5
    reward_range: tuple[float, float] | None = None
    missing_reward: float | None = None
    anyway: bool = False
    least_effective: float = LEAST_EFFECTIVE
    draws: int = 100
    floor: float = 0.01
    seed: int = 0

    def __post_init__(self) -> None:
        check_estimators(self.estimators)
        check_choice("interval", self.interval, INTERVALS)
        check_level(self.level)
        check_number("folds", self.folds, least=2, whole=True)
        if self.reward_range is not None:
            check_range(self.reward_range)
        check_number("missing_reward", self.missing_reward, optional=True)
        check_number("least_effective", self.least_effective, least=0)
        check_number("draws", self.draws, least=1, whole=True)
        check_number("floor", self.floor, least=0, most=1)
        check_flag("anyway", self.anyway)
        check_seed(self.seed)
