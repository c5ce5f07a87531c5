"""Means and intervals of the dashboard, from sums that the store has made."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from statistics import median
from typing import NamedTuple

from treebandit.service.config import BanditConfig
from treebandit.service.dashboard_bodies import ArmLine, Headline, Mean, Point
from treebandit.service.queries import Cell
from treebandit.service.times import iso

#: Standard errors on either side of a 95 % interval.
WIDTH = 1.959964
#: Fewer rewards than this have no interval: the normal distribution is too far away.
LEAST = 30
#: Rewards that tell how far rewards deviate (`Sums.telling`): fewer of either side do not give its own deviation, and
#: fewer of all that an interval is about give none.
_TELLING, _TELLING_AT_ALL = 20.0, 10.0
#: Where variances are smaller shares of the squared mean, fourth powers are rounded too much.
_ALIKE = 1e-6
#: Arms with a line of their own; the others are one.
ARMS = 8


class Sums(NamedTuple):
    """Rewards: how many, their sum and those of their powers."""

    size: int = 0
    total: float = 0.0
    squares: float = 0.0
    cubes: float = 0.0
    fourths: float = 0.0

    @property
    def mean(self) -> float:
        """Their mean."""
        return self.total / self.size

    @property
    def error(self) -> float:
        """The standard error of the mean."""
        return math.sqrt(self.variance / self.size) if self.size > 1 else math.inf

    @property
    def variance(self) -> float:
        """That of one reward, of two at least."""
        return max(0.0, self.squares - self.size * self.mean**2) / (self.size - 1)

    @property
    def alike(self) -> bool:
        """Whether they hardly deviate, or not at all."""
        return self.variance <= _ALIKE * self.mean**2

    @property
    def telling(self) -> float:
        """How many of them tell how far rewards deviate: (Σ d²)² / Σ d⁴ for deviations d from the mean.

        A third of normal ones; of shares, the rarer of both. Where few do, the variance is most likely too small.
        """
        if self.size < 2 or self.alike:
            return 0.0
        m = self.mean
        fourths = self.fourths - 4 * m * self.cubes + 6 * m**2 * self.squares - 3 * self.size * m**4
        return (self.squares - self.size * m**2) ** 2 / fourths if fourths > 0 else 0.0


def summed(cells: Iterable[Cell]) -> Sums:
    """The final rewards of some cells."""
    chosen = list(cells)
    return Sums(
        sum(each.final for each in chosen),
        math.fsum(each.total for each in chosen),
        math.fsum(each.squares for each in chosen),
        math.fsum(each.cubes for each in chosen),
        math.fsum(each.fourths for each in chosen),
    )


def mean(sums: Sums, *, least: int) -> Mean:
    """A mean with its interval, where enough rewards tell how far they deviate: a few equal ones do not."""
    if not sums.size:
        return Mean(0)
    if sums.size < least or sums.telling < _TELLING_AT_ALL:
        return Mean(sums.size, sums.mean)
    half = WIDTH * sums.error
    return Mean(sums.size, sums.mean, sums.mean - half, sums.mean + half)


def headline(cells: Sequence[Cell], config: BanditConfig, awaiting: int) -> Headline:
    """Whether the policy earns more than the holdout, in words and numbers."""
    policy, holdout = summed(c for c in cells if not c.holdout), summed(c for c in cells if c.holdout)
    shown = mean(policy, least=LEAST), mean(holdout, least=LEAST)
    nothing = Mean(policy.size + holdout.size)
    if not cells:
        says = "Send the first decision; this page then fills by itself."
        return Headline("no decisions", "No decisions yet", says, *shown, nothing)
    waits = f" {awaiting:,} more wait for their reward." if awaiting else ""
    if not holdout.size and not config.holdout and not any(c.holdout for c in cells):
        earns = f"The bandit earns {number(policy.mean)} per decision. " if policy.size else ""
        says = f"{earns}Set a holdout share, such as 0.1, to see what it is worth.{waits}"
        return Headline("no holdout", "No holdout to compare with", says, *shown, nothing)
    short = max(0, LEAST - policy.size), max(0, LEAST - holdout.size)
    if any(short):
        parts = [f"{n} of the {who}" for n, who in zip(short, ("bandit", "holdout"), strict=True) if n]
        says = f"{' and '.join(parts)} are missing until the two can be compared.{waits}"
        return Headline("unclear", "Not enough evidence yet", f"Rewards: {says}", *shown, nothing, sum(short))
    difference = policy.mean - holdout.mean
    error = _error(policy, holdout)
    if error is None:
        says = f"Rewards: too few of them differ from the others to compare the two.{waits}"
        return Headline("unclear", "Not enough evidence yet", says, *shown, nothing)
    low, high = difference - WIDTH * error, difference + WIDTH * error
    found = Mean(policy.size + holdout.size, difference, low, high)
    if low <= 0 <= high:
        missing = _missing(found.decisions, difference, error)
        needed = (
            "The two earn the same so far"
            if missing is None
            else f"About {missing:,} more rewards would tell, if the difference stays"
        )
        says = f"{signed(difference)} per decision, anywhere from {signed(low)} to {signed(high)}. {needed}.{waits}"
        return Headline("unclear", "Not enough evidence yet", says, *shown, found, missing)
    better = low > 0
    relative = f" ({100 * difference / abs(holdout.mean):+.0f} %)" if holdout.mean else ""
    title = f"The bandit earns {'more' if better else 'less'} than the holdout"
    says = (
        f"{signed(difference)} per decision{relative}, 95 % interval {signed(low)} to {signed(high)}; "
        f"{number(policy.mean)} against {number(holdout.mean)}.{waits}"
    )
    return Headline("more" if better else "less", title, says, *shown, found)


def _error(policy: Sums, holdout: Sums) -> float | None:
    """The standard error of the difference of two means; None where too few rewards tell how far they deviate.

    A side with none of the rare rewards seems to deviate by nothing: where rewards are rare, both sides deviate as all
    of them do, at least. Without that, one null comparison in three has a winner, such as 1 % of 900 and of 100.
    """
    error = math.hypot(policy.error, holdout.error)
    if min(policy.telling, holdout.telling) >= _TELLING:
        return error
    size, *powers = map(sum, zip(policy, holdout, strict=True))
    both = Sums(int(size), *powers)
    if both.telling < _TELLING_AT_ALL and not both.alike:
        return None
    return max(error, math.sqrt(both.variance * (1 / policy.size + 1 / holdout.size)))


def _missing(count: int, difference: float, error: float) -> int | None:
    """How many rewards more would take zero out of the interval, in two digits; None where none would."""
    if not difference or not error:
        return None
    needed = count * ((WIDTH * error / difference) ** 2 - 1)
    if needed > 1e9:
        return None
    digits = max(0, len(str(int(needed))) - 2)
    unit = int(10**digits)
    return max(1, math.ceil(needed / unit) * unit)


def points(cells: Sequence[Cell], since: int, step: int, buckets: int) -> list[Point]:
    """Mean rewards over time, in spans so long that most have enough rewards for an interval.

    A span with far fewer rewards than usual, as the newest one where most still wait, has no mean: it would leap.
    """
    sides = [summed(c for c in cells if c.holdout is holdout) for holdout in (False, True)]
    tell = [min(side.size / LEAST, side.telling / _TELLING) for side in sides if side.size]
    fewest = min(filter(None, tell), default=0)
    wide = next(size for size in (1, 2, 3, 4, 6) if size == 6 or fewest * size >= buckets)
    by: dict[tuple[int, bool], list[Cell]] = {}
    for each in cells:
        by.setdefault((each.bucket // wide, each.holdout), []).append(each)
    spans = range(-(-buckets // wide))
    lines = [_over_time([summed(by.get((span, holdout), ())) for span in spans]) for holdout in (False, True)]
    return [
        Point(iso(since + round((span + 0.5) * wide * step)), *means)
        for span, means in zip(spans, zip(*lines, strict=True), strict=True)
    ]


def _over_time(spans: Sequence[Sums]) -> list[Mean]:
    usual = median([each.size for each in spans if each.size] or [0])
    return [mean(each, least=10) if 4 * each.size >= usual else Mean(each.size) for each in spans]


def arm_lines(cells: Sequence[Cell], buckets: int) -> list[ArmLine]:
    """The arms with the most decisions of the policy first; those behind the first few as one."""
    by: dict[str, list[Cell]] = {}
    in_bucket = [0] * buckets
    for each in cells:
        if not each.holdout:
            by.setdefault(each.arm, []).append(each)
            in_bucket[each.bucket] += each.decisions
    total = sum(in_bucket)
    order = sorted(by, key=lambda arm: (-sum(c.decisions for c in by[arm]), arm))
    kept = order if len(order) <= ARMS + 1 else order[:ARMS]
    rest = [each for arm in order[len(kept) :] for each in by[arm]]
    lines = [_line(arm, by[arm], total, in_bucket) for arm in kept]
    if rest:
        lines.append(_line(f"{len(order) - len(kept):,} other arms", rest, total, in_bucket, other=True))
    return lines


def _line(
    arm: str, cells: Sequence[Cell], total: int, in_bucket: list[int], *, other: bool = False
) -> ArmLine:
    made = [0] * len(in_bucket)
    for each in cells:
        made[each.bucket] += each.decisions
    shares = [n / all_ if all_ else None for n, all_ in zip(made, in_bucket, strict=True)]
    count = sum(made)
    return ArmLine(arm, count / total, count, mean(summed(cells), least=LEAST), shares, other)


def number(value: float) -> str:
    """A reward with three digits that count."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def signed(value: float) -> str:
    """A difference with its sign."""
    return ("+" if value >= 0 else "−") + number(abs(value))
