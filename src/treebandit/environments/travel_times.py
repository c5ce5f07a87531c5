"""How long each road takes at each time of day: a kernel density estimate over its recorded traversals."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from treebandit.core import Floats, Indices
from treebandit.datasets.roads import RoadNetwork
from treebandit.errors import MissingExtraError

try:
    from scipy.special import ndtr, ndtri
except ImportError as error:
    raise MissingExtraError("scipy", "sklearn") from error

#: Seconds of a day.
DAY = 86400.0
#: Standard deviation, in seconds, of the Gaussian weight of a traversal by its distance in time of day.
BANDWIDTH = 1800.0
#: Weight that every traversal of an edge has at any time, beside a weight of 1 for one at that very time.
BACKGROUND = 0.01
#: Recorded durations are whole seconds: a 0 counts as half a second.
LEAST_DURATION = 0.5
#: Least width of the noise in seconds, about what rounding to whole seconds hides.
LEAST_WIDTH = 0.3
#: The noise is at most this share of the time it is added to, so that leaving out times that are not positive
#: moves the mean by less than 0.2 %.
GREATEST_SHARE = 1 / 3
#: Terms of the series: exp(-k² s² / 2) is below 1e-8 from here on, s = 2π BANDWIDTH / DAY.
HARMONICS = 47


class TravelTimes:
    """Expected times of all edges, and samples of some, at any time of day.

    At time of day s, traversal i of an edge, entered at t_i, has the weight
    w_i = exp(-(s - t_i)² / (2 BANDWIDTH²)) + BACKGROUND, the difference taken around midnight. The expected
    time is Σ w_i d_i / Σ w_i. A sample is one d_i drawn by weight plus Gaussian noise of Silverman's width,
    given that the sum is positive. An edge never driven has one traversal of length / speed limit.

    Both sums are periodic and smooth in s, so they are kept as trigonometric series (that of the wrapped
    Gaussian, cut where its terms vanish): one matrix product gives all edges at any time of day.
    """

    def __init__(self, network: RoadNetwork) -> None:
        self._offsets, self._times, self._durations = _with_undriven(network)
        self._widths = silverman_widths(self._offsets, self._durations)
        self._series = _series(self._offsets, self._times, self._durations)

    def __len__(self) -> int:
        return len(self._widths)

    def expected(self, time: float) -> Floats:
        """Expected seconds of every edge, (m,), at this time of day in seconds."""
        angles = (2 * np.pi * time / DAY) * np.arange(1, HARMONICS + 1)
        waves = np.concatenate([[1.0], np.cos(angles), np.sin(angles)]).astype(np.float32)
        sums = (self._series @ waves).astype(np.float64)
        return np.asarray(sums[len(self) :] / sums[: len(self)])

    def sample(self, edges: Indices, time: float, *, which: Floats, noise: Floats) -> Floats:
        """Seconds that each of `edges` takes now, from two uniform draws on [0, 1) per edge, (k,) each."""
        counts = self._offsets[edges + 1] - self._offsets[edges]
        stops = np.cumsum(counts)
        rows = np.arange(stops[-1]) + np.repeat(self._offsets[edges] - stops + counts, counts)
        mass = np.cumsum(weights(self._times[rows], time))
        upper = mass[stops - 1]
        lower = np.concatenate([[0.0], upper[:-1]])
        picked = np.searchsorted(mass, lower + which * (upper - lower), side="right")
        base = self._durations[rows[np.clip(picked, stops - counts, stops - 1)]]
        return _blurred(base, self._widths[edges], noise)

    def widths(self) -> Floats:
        """Silverman's width of every edge in seconds, (m,), raised to LEAST_WIDTH."""
        return self._widths.copy()


def interval_means(network: RoadNetwork, seconds: float) -> RoadNetwork:
    """The network with one traversal per edge and interval of the day: the mean of those recorded in it.

    The mean stands at the middle of its interval. Such means are what traffic counts and SUMO's edge output give.
    """
    edge = np.repeat(np.arange(len(network)), np.diff(network.offsets))
    slots = int(np.ceil(DAY / seconds))
    slot = (network.times.astype(np.float64) % DAY // seconds).astype(np.int64)
    keys, group, counts = np.unique(edge * slots + slot, return_inverse=True, return_counts=True)
    durations = np.bincount(group, weights=network.durations, minlength=len(keys)) / counts
    start = keys % slots * seconds
    return replace(
        network,
        offsets=np.searchsorted(keys // slots, np.arange(len(network) + 1)),
        times=((start + np.minimum(start + seconds, DAY)) / 2).astype(np.float32),
        durations=durations.astype(np.float32),
    )


def weights(times: NDArray[np.floating], time: float) -> Floats:
    """Weight of traversals entered at `times` for the time of day `time`."""
    apart = np.abs(np.asarray(times, dtype=np.float64) - time)
    apart = np.minimum(apart, DAY - apart)
    return np.asarray(np.exp(-0.5 * (apart / BANDWIDTH) ** 2) + BACKGROUND)


def silverman_widths(offsets: Indices, durations: Floats) -> Floats:
    """0.9 min(sd, interquartile range / 1.34) n^(-1/5) of each edge's durations, at least LEAST_WIDTH."""
    counts = np.diff(offsets)
    edge = np.repeat(np.arange(len(counts)), counts)
    mean = np.add.reduceat(durations, offsets[:-1]) / counts
    squares = np.add.reduceat((durations - mean[edge]) ** 2, offsets[:-1])
    deviation = np.sqrt(squares / np.maximum(counts - 1, 1))
    rising = durations[np.lexsort((durations, edge))]
    lower, upper = (_quantile(rising, offsets, counts, share) for share in (0.25, 0.75))
    widths = 0.9 * np.minimum(deviation, (upper - lower) / 1.34) * counts**-0.2
    return np.asarray(np.maximum(widths, LEAST_WIDTH))


def _quantile(rising: Floats, offsets: Indices, counts: Indices, share: float) -> Floats:
    place = share * (counts - 1)
    below = np.floor(place).astype(np.intp)
    above = np.minimum(below + 1, counts - 1)
    low, high = rising[offsets[:-1] + below], rising[offsets[:-1] + above]
    return np.asarray(low + (place - below) * (high - low))


def _blurred(base: Floats, widths: Floats, noise: Floats) -> Floats:
    """Gaussian around `base` given that it is positive, from uniform `noise`: the law of drawing again."""
    width = np.minimum(widths, GREATEST_SHARE * base)
    negative = ndtr(-base / width)
    quantile = np.clip(negative + noise * (1 - negative), negative + 1e-12, 1 - 1e-12)
    return np.asarray(base + width * ndtri(quantile))


def _with_undriven(network: RoadNetwork) -> tuple[Indices, Floats, Floats]:
    """Offsets, times and durations, where an edge never driven has one traversal at its speed limit."""
    undriven = np.diff(network.offsets) == 0
    at = network.offsets[:-1][undriven]
    free = (network.lengths / network.speed_limits)[undriven]
    recorded = np.maximum(network.durations.astype(np.float64), LEAST_DURATION)
    offsets = network.offsets + np.concatenate([[0], np.cumsum(undriven)])
    times = np.insert(network.times.astype(np.float64) % DAY, at, 0.0)
    return offsets.astype(np.intp), times, np.insert(recorded, at, free)


def _series(offsets: Indices, times: Floats, durations: Floats) -> NDArray[np.float32]:
    """Coefficients (2m, 1 + 2 HARMONICS): each edge's sum of weights, then that of weighted durations."""
    m, bandwidth = len(offsets) - 1, 2 * np.pi * BANDWIDTH / DAY
    series = np.empty((2, m, 1 + 2 * HARMONICS), dtype=np.float32)
    scale = bandwidth / np.sqrt(2 * np.pi)
    turn = np.exp(2j * np.pi * times / DAY)
    wave = np.ones_like(turn)
    for k in range(HARMONICS + 1):
        size = scale * (2.0 if k else 1.0) * np.exp(-0.5 * (k * bandwidth) ** 2)
        for half, values in enumerate((wave, wave * durations)):
            total = np.add.reduceat(values, offsets[:-1])
            series[half, :, k] = size * total.real + (BACKGROUND * total.real if k == 0 else 0.0)
            if k:
                series[half, :, HARMONICS + k] = size * total.imag
        wave *= turn
    return series.reshape(2 * m, -1)
