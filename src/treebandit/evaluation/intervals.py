"""Confidence intervals of a mean: normal, bootstrap, and time-uniform ones that may be looked at at any time."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, Literal

import numpy as np

from treebandit.core import Floats
from treebandit.errors import ParameterError
from treebandit.parameters import check_number

IntervalKind = Literal["normal", "bootstrap", "time-uniform"]
INTERVALS: tuple[IntervalKind, ...] = ("normal", "bootstrap", "time-uniform")

#: Rows are resampled one by one up to so many, and in as many blocks of neighbours where there are more.
MOST_BLOCKS = 2_000
#: Shares of the capital that the time-uniform interval bets in turn, from careful to bold.
_STAKES = 0.5 ** np.arange(1, 15)
#: Weighted rewards are rounded down to so many values a factor of two, so that a long log costs no more than a short.
_STEPS_PER_DOUBLING = 200
#: Bisection halves the bracket so often.
_HALVINGS = 30


@dataclass(frozen=True, slots=True)
class Interval:
    """Limits between which the mean lies with the given probability; infinite where they are not known.

    low, high: the limits.

    >>> import numpy as np
    >>> from treebandit.evaluation import normal
    >>> interval = normal(np.array([0.0, 1.0, 0.0, 1.0]))
    >>> interval.low < 0.5 < interval.high
    True
    """

    low: float
    high: float

    def holds(self, value: float) -> bool:
        """Whether `value` is not outside."""
        return self.low <= value <= self.high

    def joined(self, other: Interval) -> Interval:
        """From the lower of both low limits to the higher of both high ones."""
        return Interval(min(self.low, other.low), max(self.high, other.high))

    def minus(self, other: Interval) -> Interval:
        """In which the difference lies of what lies in both."""
        return Interval(self.low - other.high, self.high - other.low)


UNKNOWN = Interval(-np.inf, np.inf)


def level_of_both(level: float) -> float:
    """The level at which two intervals hold at once at `level`, whatever they have to do with each other."""
    return 0.5 + level / 2


def check_level(level: float) -> None:
    """Raise unless `level` is a probability for intervals."""
    check_number("level", level, above=0, most=0.9999)


def standard_error(values: Floats) -> float:
    """Standard deviation of the mean of independent values; NaN for fewer than two."""
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else np.nan


def normal(values: Floats, *, level: float = 0.95) -> Interval:
    """mean ± z · standard error; right for many decisions, too short while a few of them carry the weight."""
    return around(float(values.mean()), standard_error(values), level) if len(values) else UNKNOWN


def around(mean: float, error: float, level: float) -> Interval:
    """The interval of a normal distribution with this mean and standard deviation; of one that is NaN, all numbers."""
    if not np.isfinite(error):
        return UNKNOWN
    reach = NormalDist().inv_cdf(0.5 + level / 2) * error
    return Interval(mean - reach, mean + reach)


def of_share(mean: float, size: float, *, reward_range: tuple[float, float], level: float = 0.95) -> Interval:
    """Wilson's interval of a share among `size` decisions, for a mean as a share of the range of rewards.

    Never of length 0, and never too short: rewards within a range deviate by no more than if each were one of its ends.
    """
    least, most = reward_range
    share, z = float(np.clip((mean - least) / (most - least), 0, 1)), NormalDist().inv_cdf(0.5 + level / 2)
    centre = (share + z**2 / (2 * size)) / (1 + z**2 / size)
    reach = z / (1 + z**2 / size) * float(np.sqrt(share * (1 - share) / size + z**2 / (4 * size**2)))
    low, high = max(0.0, centre - reach), min(1.0, centre + reach)
    return Interval(least + low * (most - least), least + high * (most - least))


@dataclass(frozen=True, slots=True)
class RareRewards:
    """Decisions too few of which have another reward than the most common one to tell how far rewards deviate.

    size: how many they are, or are worth. reward_range: the least and the greatest reward of a decision.
    """

    size: float
    reward_range: tuple[float, float]

    def interval(self, mean: float, *, level: float = 0.95) -> Interval:
        """What the interval of their mean holds at least."""
        return of_share(mean, self.size, reward_range=self.reward_range, level=level)

    def error(self, mean: float) -> float:
        """What the standard error of their mean is at least: mean ± 1.96 of it holds the interval of 95 %."""
        found = self.interval(mean)
        return max(found.high - mean, mean - found.low) / NormalDist().inv_cdf(0.975)


def bootstrap(
    values: Floats, *, level: float = 0.95, resamples: int = 1_000, seed: int | None = 0
) -> Interval:
    """Studentised bootstrap: quantiles of (mean* - mean) / error* over resampled decisions.

    Skewed values make it longer on the side of the tail, where the normal interval misses. Of more than
    `MOST_BLOCKS` values, means of neighbouring blocks are resampled.
    """
    check_number("resamples", resamples, least=100, whole=True)
    error = standard_error(values)
    if not np.isfinite(error):
        return UNKNOWN
    mean = float(values.mean())
    blocks = _block_means(values)
    centred = blocks - blocks.mean()
    scale = standard_error(centred)
    if error == 0 or scale == 0:  # all values alike, or all but those left over at the end
        return around(mean, error, level)
    random = np.random.default_rng(seed)
    ratios = np.empty(resamples)
    part = max(1, 2_000_000 // len(blocks))
    for start in range(0, resamples, part):
        size = min(part, resamples - start)
        drawn = centred[random.integers(0, len(blocks), (size, len(blocks)), dtype=np.int32)]
        means, errors = drawn.mean(axis=1), drawn.std(axis=1, ddof=1) / np.sqrt(len(blocks))
        # A resample without the rare large values has almost no spread of its own: it tells nothing of the tail.
        ratios[start : start + size] = means / np.maximum(errors, 0.1 * scale)
    low, high = np.quantile(ratios, [(1 - level) / 2, (1 + level) / 2])
    return Interval(mean - float(high) * error, mean - float(low) * error)


def _block_means(values: Floats) -> Floats:
    """Means of equally long runs of neighbours, at most MOST_BLOCKS; rows left over at the end count in none."""
    length = -(-len(values) // MOST_BLOCKS)
    whole = len(values) // length * length
    means: Floats = values[:whole].reshape(-1, length).mean(axis=1)
    return means


def time_uniform(
    reward: Floats, weight: Floats, *, reward_range: tuple[float, float], level: float = 0.95
) -> Interval:
    """An interval for the target's value that holds at all times at once, from weights and rewards alone.

    Stop whenever you like, look as often as you like: the probability that it ever misses is at most 1 - level. It
    needs true probabilities and rewards inside `reward_range`, and no bound on the weights. Whoever bets that the mean
    of w x (x: the reward as a share of its range) is above m wins only where it is; a mixture of stakes turns into a
    lower bound, and the same for w (1 - x) into an upper one, because the mean of w is 1 (Waudby-Smith and others,
    Anytime-valid off-policy inference for contextual bandits, 2022).
    """
    least, most = check_range(reward_range)
    if len(reward):
        check_rewards((least, most), float(reward.min()), float(reward.max()))
    share = (reward - least) / (most - least)
    alpha = (1 - level) / 2
    low = lower_bound(weight * share, alpha)
    high = 1 - lower_bound(weight * (1 - share), alpha)
    return Interval(least + low * (most - least), least + min(1.0, high) * (most - least))


def sequence(
    reward: Floats,
    weight: Floats,
    *,
    reward_range: tuple[float, float],
    level: float = 0.95,
    points: int = 40,
) -> list[tuple[int, Interval]]:
    """The time-uniform interval after growing numbers of decisions; each lies inside those before it."""
    n = len(reward)
    if n == 0:
        return []
    moments = np.unique(np.geomspace(min(10, n), n, points).astype(int))
    found = []
    low, high = reward_range
    for moment in moments:
        now = time_uniform(reward[:moment], weight[:moment], reward_range=reward_range, level=level)
        low, high = max(low, now.low), min(high, now.high)
        found.append((int(moment), Interval(low, max(low, high))))
    return found


def lower_bound(values: Floats, alpha: float) -> float:
    """A number that the mean of values >= 0 is below at any time with probability at most alpha; 0 to 1."""
    if not len(values):
        return 0.0
    amounts, counts = _rounded_down(values)
    goal = np.log(1 / alpha)
    below, above = 0.0, 1.0
    if _log_capital(amounts, counts, 1.0) >= goal:
        return 1.0
    for _ in range(_HALVINGS):
        middle = (below + above) / 2
        if _log_capital(amounts, counts, middle) >= goal:
            below = middle
        else:
            above = middle
    return below


def _log_capital(amounts: Floats, counts: Floats, mean: float) -> float:
    """Log of what a unit of capital has become that bet on a mean above `mean`, the average over all stakes."""
    gains = np.log1p(_STAKES[:, None] * (amounts[None, :] / max(mean, 1e-12) - 1)) @ counts
    top = gains.max()
    return float(top + np.log(np.exp(gains - top).mean()))


def _rounded_down(values: Floats) -> tuple[Floats, Floats]:
    """Different values and how often each comes; rounded down, which makes a lower bound lower, never wrong."""
    if len(values) > 4 * _STEPS_PER_DOUBLING:
        positive = values > 0
        steps = np.floor(np.log2(values, where=positive, out=np.zeros_like(values)) * _STEPS_PER_DOUBLING)
        values = np.where(positive, np.minimum(np.exp2(steps / _STEPS_PER_DOUBLING), values), 0.0)
    amounts, counts = np.unique(values, return_counts=True)
    return amounts, counts.astype(np.float64)


def check_range(reward_range: Any) -> tuple[float, float]:
    """The least and the greatest possible reward; raise unless they are two finite numbers, the second the greater."""
    try:
        least, most = (float(each) for each in reward_range if not isinstance(each, str))
        right = np.isfinite(least) and np.isfinite(most) and least < most
    except (TypeError, ValueError):
        right = False
    if not right:
        raise ParameterError(
            f"reward_range is {reward_range!r}; give the least and the greatest possible reward, such as (0, 1)"
        )
    return least, most


def check_rewards(reward_range: tuple[float, float], least: float, most: float) -> None:
    """Raise unless rewards from `least` to `most` are inside the range."""
    if least < reward_range[0] or most > reward_range[1]:
        raise ParameterError(
            f"reward_range is {reward_range}, but the log holds rewards from {least:g} to {most:g}; give the least and "
            "the greatest possible reward"
        )
