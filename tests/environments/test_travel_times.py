import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_roads import network

from treebandit.environments.travel_times import (
    BACKGROUND,
    LEAST_DURATION,
    LEAST_WIDTH,
    TravelTimes,
    interval_means,
)

traversal = st.tuples(st.integers(0, 86399).map(float), st.integers(0, 600).map(float))
days = st.lists(st.lists(traversal, max_size=12), min_size=1, max_size=4)
times_of_day = st.floats(0, 86400, exclude_max=True)


def slow_weights(rows, time):
    apart = [min(abs(t - time), 86400 - abs(t - time)) for t, _ in rows]
    return np.array([np.exp(-(x**2) / (2 * 1800**2)) + BACKGROUND for x in apart])


def slow_expected(roads, day, time):
    seconds = []
    for edge, rows in enumerate(day):
        if not rows:
            seconds.append(roads.lengths[edge] / roads.speed_limits[edge])
            continue
        weights = slow_weights(rows, time)
        seconds.append(weights @ [max(d, LEAST_DURATION) for _, d in rows] / weights.sum())
    return np.array(seconds)


@given(days, times_of_day)
def test_series_agree_with_the_weighted_mean(day, time):
    roads = network(["ab"] * len(day), day)
    np.testing.assert_allclose(TravelTimes(roads).expected(time), slow_expected(roads, day, time), rtol=1e-4)


@given(days, st.sampled_from([60.0, 900.0, 3600.0, 50_000.0, 86400.0]))
def test_interval_means_agree_with_a_slow_loop(day, seconds):
    roads = network(["ab"] * len(day), day)
    means = interval_means(roads, seconds)
    for edge, rows in enumerate(day):
        groups = {}
        for time, duration in rows:
            groups.setdefault(int(time // seconds), []).append(duration)
        first, last = means.offsets[edge : edge + 2]
        middles = [(k * seconds + min((k + 1) * seconds, 86400.0)) / 2 for k in sorted(groups)]
        assert means.times[first:last].tolist() == middles
        expected = [np.mean(groups[k]) for k in sorted(groups)]
        np.testing.assert_allclose(means.durations[first:last], expected, rtol=1e-6)


def test_midnight_is_no_wall():
    roads = network(["ab"], [[(86400 - 600.0, 30.0), (12 * 3600.0, 90.0)]])
    times = TravelTimes(roads)
    assert times.expected(600.0)[0] < 32
    assert times.expected(12 * 3600.0)[0] > 88
    assert times.expected(0.0) == pytest.approx(times.expected(86400.0), rel=1e-5)


def test_far_from_all_traversals_the_mean_of_all_counts():
    times = TravelTimes(network(["ab"], [[(0.0, 10.0), (3600.0, 20.0), (7200.0, 30.0)]]))
    assert times.expected(13 * 3600.0)[0] == pytest.approx(20.0, rel=1e-4)


@settings(max_examples=40)
@given(days, times_of_day, st.integers(0, 2**32))
def test_samples_average_to_the_expected_time(day, time, seed):
    roads = network(["ab"] * len(day), day)
    times, random = TravelTimes(roads), np.random.default_rng(seed)
    for edge, expected in enumerate(times.expected(time)):
        which, noise = random.random((2, 4000))
        drawn = times.sample(np.full(4000, edge), time, which=which, noise=noise)
        assert drawn.min() > 0
        allowed = 0.003 * expected + 6 * drawn.std() / np.sqrt(4000) + 1e-6
        # A rare traversal of small weight may not be drawn at all, which a bound from the sample cannot see.
        rare = 12 * max((d for _, d in day[edge]), default=0.0) / 4000
        assert abs(drawn.mean() - expected) < allowed + rare


def test_samples_follow_the_weights():
    day = [[(8 * 3600.0, 100.0), (20 * 3600.0, 900.0)]]
    times = TravelTimes(network(["ab"], day))
    which, noise = np.random.default_rng(0).random((2, 20_000))
    drawn = times.sample(np.zeros(20_000, dtype=int), 8 * 3600.0, which=which, noise=noise)
    weights = slow_weights(day[0], 8 * 3600.0)
    assert (drawn > 500).mean() == pytest.approx(weights[1] / weights.sum(), abs=0.004)


def test_each_edge_is_sampled_from_its_own_traversals():
    day = [[(0.0, 10.0)], [], [(0.0, 1000.0), (50.0, 1000.0)], [(9.0, 50.0)]]
    times = TravelTimes(network(["ab"] * 4, day))
    edges = np.array([2, 0, 1, 3, 0])
    for which in (0.0, 0.5, 1 - 1e-16):
        drawn = times.sample(edges, 0.0, which=np.full(5, which), noise=np.full(5, 0.5))
        assert drawn == pytest.approx([1000.0, 10.0, 10.1, 50.0, 10.0], rel=1e-2)


def test_zero_seconds_become_half_a_second_and_noise_stays_positive():
    times = TravelTimes(network(["ab"], [[(0.0, 0.0), (10.0, 0.0)]]))
    noise = np.concatenate([[0.0, 1 - 1e-16], np.random.default_rng(0).random(5000)])
    drawn = times.sample(np.zeros(5002, dtype=int), 0.0, which=np.full(5002, 0.3), noise=noise)
    assert drawn.min() > 0
    assert np.isfinite(drawn).all()
    assert times.expected(0.0)[0] == pytest.approx(LEAST_DURATION)


@given(st.lists(st.integers(0, 600).map(float), min_size=1, max_size=30))
def test_widths_are_silvermans(seconds):
    times = TravelTimes(network(["ab"], [[(0.0, d) for d in seconds]]))
    values = np.maximum(seconds, LEAST_DURATION)
    deviation = values.std(ddof=1) if len(values) > 1 else 0.0
    spread = np.subtract(*np.percentile(values, [75, 25])) / 1.34
    expected = max(0.9 * min(deviation, spread) * len(values) ** -0.2, LEAST_WIDTH)
    assert times.widths()[0] == pytest.approx(expected)
