"""What the dashboard is drawn from: the answer of `GET /v1/bandits/{name}/dashboard`. Times are ISO 8601, UTC."""

from __future__ import annotations

from typing import Literal

import msgspec

#: Does the bandit earn more than its holdout?
Verdict = Literal["more", "less", "unclear", "no holdout", "no decisions"]


class Mean(msgspec.Struct):
    """A mean reward per decision with its 95 % interval; null where there is none."""

    decisions: int
    mean: float | None = None
    low: float | None = None
    high: float | None = None


class Headline(msgspec.Struct):
    """Whether the bandit earns more than its holdout. missing: rewards until that is known, about."""

    verdict: Verdict
    title: str
    detail: str
    policy: Mean
    holdout: Mean
    difference: Mean
    missing: int | None = None


class Point(msgspec.Struct):
    """One span of time: the mean reward of the policy and of the holdout."""

    time: str
    policy: Mean
    holdout: Mean


class ArmLine(msgspec.Struct):
    """One arm: its share of the policy's decisions, now and over time, and what it earned. other: of several arms."""

    arm: str
    share: float
    decisions: int
    reward: Mean
    shares: list[float | None]
    other: bool = False


class Lateness(msgspec.Struct):
    """How late rewards come, of the newest decisions. bins: seconds up to which, and how many."""

    rewards: int
    late: int
    median: float | None
    most: float | None
    bins: list[tuple[float, int]]


class Exploration(msgspec.Struct):
    """One span of time: mean probability of what was chosen, share that was not the best arm, share by the floor."""

    time: str
    probability: float
    not_best: float
    by_floor: float


class Version(msgspec.Struct):
    """A published model."""

    version: int
    time: str
    rows: int
    rebuilds: int
    rebuild_seconds: float


class Latency(msgspec.Struct):
    """Seconds to answer this bandit's requests, of this process in `latency_seconds`: half of them, 95 and 99 %."""

    operation: str
    requests: int
    half: float
    p95: float
    p99: float


class Alert(msgspec.Struct):
    """One plain sentence, and what to do."""

    kind: str
    says: str
    do: str


class OtherPolicy(msgspec.Struct):
    """What another policy would have earned per decision; why that is unknown where there is no value.

    warnings: what makes the value doubtful.
    """

    policy: str
    value: float | None = None
    low: float | None = None
    high: float | None = None
    refusal: str | None = None
    warnings: list[str] = []


class OtherPolicies(msgspec.Struct):
    """Off-policy estimates on the newest decisions whose rewards are final. problem: why there are none.

    warnings: what is doubtful in the log itself.
    """

    decisions: int = 0
    policies: list[OtherPolicy] = []
    problem: str | None = None
    warnings: list[str] = []


class Feature(msgspec.Struct):
    """How much a feature alone tells of which arm is best in the policy's eyes: 0 nothing, 1 all."""

    feature: str
    share: float


class DashboardAnswer(msgspec.Struct, kw_only=True):
    """Everything that the dashboard shows of one bandit.

    since, until: the decisions that it is about; capped: older ones were left out. awaiting: decisions whose reward is
    not final yet. behind: entries of the log that came after what the newest version has learned.
    """

    name: str
    description: str
    mode: str
    time: str
    since: str
    until: str
    seconds: float
    capped: bool
    decisions: int
    awaiting: int
    headline: Headline
    rewards: list[Point]
    arms: list[ArmLine]
    lateness: Lateness
    wait: float
    floor: float
    exploration: list[Exploration]
    features: list[Feature]
    versions: list[Version]
    version: int
    behind: int
    latency: list[Latency]
    latency_seconds: float
    alerts: list[Alert]
    others: OtherPolicies
