"""What an evaluation found: estimates with intervals, or why there are none."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from treebandit.core import Floats, Indices
from treebandit.errors import EvidenceError, ParameterError, nearest
from treebandit.evaluation import intervals
from treebandit.evaluation.diagnostics import LogDiagnostics, WeightDiagnostics
from treebandit.evaluation.estimators import Sample
from treebandit.evaluation.intervals import (
    UNKNOWN,
    Interval,
    IntervalKind,
    RareRewards,
    check_level,
    level_of_both,
    normal,
    standard_error,
)
from treebandit.evaluation.settings import Settings


@dataclass(frozen=True)
class Estimated:
    """One estimate of a policy's mean reward per decision.

    estimator: its name in `ESTIMATORS`.
    value: the estimate.
    error: its standard error.
    interval: in which the truth lies, at the level asked for.
    values: (n,) contributions of the decisions, whose mean it is.
    rare: what the interval rests on where rewards are rare.

    >>> from treebandit.evaluation import evaluate, shop_log
    >>> found = evaluate(shop_log(2_000), ["arm:coffee"], estimators=("ips",))
    >>> estimate = found["arm:coffee"]["ips"]
    >>> estimate.interval.low < estimate.value < estimate.interval.high
    True
    """

    estimator: str
    value: float
    error: float
    interval: Interval
    values: Floats = field(repr=False)
    rare: RareRewards | None = field(default=None, repr=False)

    def as_dict(self) -> dict[str, Any]:
        """Plain numbers, null where there is no limit."""
        limits = (self.interval.low, self.interval.high)
        low, high = (limit if np.isfinite(limit) else None for limit in limits)
        return {"value": _plain(self.value), "standard_error": _plain(self.error), "low": low, "high": high}


@dataclass
class PolicyValue:
    """What the log tells of one policy.

    name, kind: what it is called, and which sort of policy it is.
    diagnostics: of its weights.
    sample: what the estimators saw.
    numbers: (n,) which decisions these are, from 0 among those with a reward.
    settings: of the evaluation.
    shares: how many rows it plays for each that is chosen in the log; the least and the greatest.
    rewards: the least and the greatest reward that it can have from a decision, if no row pays less or more than those
        of the log, 0 and 1.
    refusal: why the log tells too little; then there are estimates only `anyway`.
    estimates: by the names of the estimators.

    >>> from treebandit.evaluation import evaluate, shop_log
    >>> found = evaluate(shop_log(2_000), ["arm:coffee"], estimators=("ips",))
    >>> found["arm:coffee"].refusal is None
    True
    """

    name: str
    kind: str
    diagnostics: WeightDiagnostics
    sample: Sample = field(repr=False)
    numbers: Indices = field(repr=False)
    settings: Settings = field(repr=False)
    shares: tuple[float, float] = field(default=(1.0, 1.0), repr=False)
    rewards: tuple[float, float] = field(default=(0.0, 1.0), repr=False)
    refusal: str | None = None
    estimates: dict[str, Estimated] = field(default_factory=dict)

    def add(self, estimator: str, values: Floats) -> None:
        """Add the estimate that is the mean of `values`."""
        mean, interval = float(values.mean()), self.interval(estimator, values, level=self.settings.level)
        self.estimates[estimator] = Estimated(
            estimator, mean, standard_error(values), interval, values, self._rare
        )

    def interval(self, estimator: str, values: Floats, *, level: float) -> Interval:
        """The interval of an estimate that is the mean of `values`, of the kind that the settings name."""
        if self.settings.interval == "time-uniform":
            if estimator != "ips":
                return UNKNOWN
            reward, weight = self.sample.reward, self.sample.weight
            return intervals.time_uniform(reward, weight, reward_range=self.reward_range, level=level)
        found = deviation_interval(values, self.settings, level)
        rare = self._rare
        return found if rare is None else found.joined(rare.interval(float(values.mean()), level=level))

    @property
    def _rare(self) -> RareRewards | None:
        if not self.diagnostics.rare:
            return None
        return RareRewards(max(self.diagnostics.effective, 1.0), self.reward_range)

    @property
    def reward_range(self) -> tuple[float, float]:
        """The least and the greatest reward that this policy can have from a decision."""
        reward, given = self.sample.reward, self.settings.reward_range
        if given is None:
            # Sums of the log's rows may differ from so many times one row by rounding.
            return float(reward.min(initial=self.rewards[0])), float(reward.max(initial=self.rewards[1]))
        # It is that of all rows that the log chooses, of which the policy may play fewer.
        return min(share * given[0] for share in self.shares), max(share * given[1] for share in self.shares)

    def __getitem__(self, estimator: str) -> Estimated:
        if estimator in self.estimates:
            return self.estimates[estimator]
        if self.refusal is not None:
            raise EvidenceError(f"{self.name}: {self.refusal}; anyway=True shows the number")
        raise ParameterError(
            f"{self.name} was not estimated by {estimator!r}; there are {', '.join(self.estimates)}"
        )

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "policy": self.name,
            "enough_evidence": self.refusal is None,
            "reason": self.refusal,
            "diagnostics": {name: _plain(value) for name, value in self.diagnostics.as_dict().items()},
            "warnings": self.diagnostics.warnings(),
            "estimates": {name: each.as_dict() for name, each in self.estimates.items()},
        }


@dataclass
class Evaluation:
    """All policies evaluated on one log.

    source: what the log is called.
    decisions, used: how many it has, and how many of them have a reward.
    policies: what it tells of each.
    notes: what was left out or assumed.
    log: diagnostics of the log itself.
    arms: their names.
    level, interval: of the intervals, and which sort they are.
    reward: (n,) of the decisions used.
    control: which of them are of a control group that always gets the same arm; only the logging policy counts them.

    >>> from treebandit.evaluation import evaluate, shop_log
    >>> found = evaluate(shop_log(2_000), ["arm:coffee"], estimators=("ips",))
    >>> found.decisions
    2000
    """

    source: str
    decisions: int
    used: int
    policies: list[PolicyValue]
    notes: list[str]
    log: LogDiagnostics
    arms: list[str]
    level: float
    interval: IntervalKind
    reward: Floats = field(repr=False)
    control: Indices = field(default_factory=lambda: np.zeros(0, np.intp), repr=False)

    def __getitem__(self, name: str) -> PolicyValue:
        for policy in self.policies:
            if policy.name == name:
                return policy
        names = [policy.name for policy in self.policies]
        raise ParameterError(f"no policy {name!r}; {nearest(name, names)}there are {', '.join(names)}")

    def difference(self, first: str, second: str, *, estimator: str = "snips") -> Estimated:
        """The value of one policy minus that of another on the same decisions, with the interval of the difference.

        A control group's decisions count where one of them is the logging policy.
        """
        one, two = self[first][estimator].values, self[second][estimator].values
        decisions = self[first].numbers, self[second].numbers
        ours, theirs = (np.setdiff1d(each, self.control) for each in decisions)
        if not np.array_equal(ours, theirs):
            raise ParameterError(
                f"{first} and {second} were estimated on {len(one):,} and {len(two):,} decisions, of which "
                f"{len(np.intersect1d(*decisions)):,} are the same; compare policies that can make the same decisions, "
                "or filter the log to those that both can make"
            )
        every = np.union1d(*decisions)
        one, two = (_among(every, *each) for each in zip(decisions, (one, two), strict=True))
        values = one - two
        mean, both = float(values.mean()), (self[first], self[second])
        found = UNKNOWN
        if self.interval != "time-uniform":
            found = deviation_interval(values, both[0].settings, self.level)
        if self.interval == "time-uniform" or any(policy.diagnostics.rare for policy in both):
            level = level_of_both(self.level)
            first_interval, second_interval = (
                policy.interval(estimator, policy[estimator].values, level=level) for policy in both
            )
            apart = first_interval.minus(second_interval)
            found = apart if self.interval == "time-uniform" else found.joined(apart)
        return Estimated(estimator, mean, standard_error(values), found, values)

    def warnings(self) -> list[str]:
        """What is doubtful in the log itself."""
        return self.log.warnings()

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "log": self.source,
            "decisions": self.decisions,
            "used": self.used,
            "mean_reward": float(self.reward.mean()),
            "level": self.level,
            "interval": self.interval,
            "notes": self.notes,
            "warnings": self.warnings(),
            "calibration": [
                {name: _plain(value) for name, value in row.items()} for row in self.log.calibration
            ],
            "drift": self.log.drift,
            "arms": self.log.arm_rewards(self.arms),
            "policies": [policy.as_dict() for policy in self.policies],
        }


def _among(every: Indices, numbers: Indices, values: Floats) -> Floats:
    """Values of some decisions as values of all, with the same mean and the same deviation of the mean."""
    if len(values) == len(every):
        return values
    mean = values.mean()
    found = np.full(len(every), mean)
    found[np.searchsorted(every, numbers)] += (values - mean) * (len(every) / len(values))
    return found


def deviation_interval(values: Floats, settings: Settings, level: float) -> Interval:
    """The interval of a mean by how its values deviate: normal or bootstrap."""
    if settings.interval == "bootstrap":
        return intervals.bootstrap(values, level=level, seed=settings.seed)
    return normal(values, level=level)


def difference_between_logs(first: Estimated, second: Estimated, *, level: float = 0.95) -> Estimated:
    """The difference of two estimates from different logs, with an interval that counts the noise of both."""
    check_level(level)
    value, error = first.value - second.value, float(np.hypot(first.error, second.error))
    found = intervals.around(value, error, level)
    if first.rare is not None or second.rare is not None:
        ours, theirs = (_interval_at(each, level_of_both(level)) for each in (first, second))
        found = found.joined(ours.minus(theirs))
    return Estimated(first.estimator, value, error, found, np.zeros(0))


def _interval_at(estimate: Estimated, level: float) -> Interval:
    found = intervals.around(estimate.value, estimate.error, level)
    return (
        found if estimate.rare is None else found.joined(estimate.rare.interval(estimate.value, level=level))
    )


def _plain(value: Any) -> Any:
    return None if isinstance(value, float) and not np.isfinite(value) else value
