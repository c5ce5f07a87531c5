"""ADWIN against river's numbers (benchmarks/foreign_drift.py), and against all cuts of the numbers themselves."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from treebandit.drift import Adwin, error_window, packed, unpacked
from treebandit.errors import SavedFileError

RIVER = json.loads(Path(__file__).with_name("adwin.json").read_text())["streams"]


@pytest.mark.parametrize("name", RIVER)
def test_alarms_and_windows_are_those_of_river(name):
    """Which begins anew after each alarm."""
    window, alarms, fresh = Adwin(), [], False
    for place, number in enumerate(RIVER[name]["numbers"]):
        window = Adwin() if fresh else window
        if fresh := window.update([number]):
            alarms.append([place + 1, window.width, window.mean, window.squares])
    end = [place + 1, window.width, window.mean, window.squares]
    assert len(alarms) == len(RIVER[name]["alarms"])
    for mine, its in zip([*alarms, end], [*RIVER[name]["alarms"], RIVER[name]["end"]], strict=True):
        assert mine[:2] == its[:2]
        assert mine[2:] == pytest.approx(its[2:])


def test_the_streams_show_something():
    alarms = {name: len(each["alarms"]) for name, each in RIVER.items()}
    assert alarms["none"] == 0
    assert alarms["twice"] > alarms["abrupt"] > 0


@given(st.lists(st.floats(-5, 5), min_size=1, max_size=200))
def test_the_window_knows_mean_and_variance_of_its_numbers(numbers):
    window = Adwin(1e-300)
    window.update(numbers)
    assert window.width == len(numbers)
    assert window.mean == pytest.approx(np.mean(numbers), abs=1e-9)
    assert window.variance == pytest.approx(np.var(numbers), abs=1e-7)
    for power, size in enumerate(window.buckets):
        assert len(size) <= 5 or power == 0
    inside = [each for size in window.buckets[::-1] for each in size]
    assert sum(total for total, _ in inside) == pytest.approx(sum(numbers), abs=1e-7)


@given(st.lists(st.floats(-5, 5), min_size=1, max_size=200), st.integers(-3, 210))
def test_without_its_newest_numbers_a_window_is_that_of_the_older_ones(numbers, count):
    window = Adwin(1e-300)
    window.update(numbers)
    window.drop_newest(count)
    left = numbers[: window.width]
    assert len(left) <= max(len(numbers) - max(count, 0), 0)
    assert window.total == pytest.approx(sum(left), abs=1e-7)
    assert window.variance == pytest.approx(np.var(left) if left else 0.0, abs=1e-6)
    again = unpacked(packed([window]), Adwin(1e-300), 1)[0]
    for each in (window, again):
        each.update(numbers)
        assert each.width == len(left) + len(numbers)
        assert each.mean == pytest.approx(np.mean([*left, *numbers]), abs=1e-7)


def test_no_more_numbers_are_dropped_than_the_last_bucket_holds():
    window = Adwin(1e-300)
    window.update(range(100))
    assert [len(size) for size in window.buckets] == [4, 4, 4, 5, 2]
    window.drop_newest(5)
    assert window.width == 100 - 4 - 2


@settings(max_examples=50)
@given(st.integers(60, 200), st.integers(30, 60), st.floats(-3, 3), st.integers(0, 99))
def test_errors_that_move_away_from_0_are_told_from_those_that_come_closer(old, new, step, seed):
    random = np.random.default_rng(seed)
    noise = random.normal(size=old + new) * 0.1
    worse, better = Adwin(1e-3, every=1, tolerance=0.1), Adwin(1e-3, every=1, tolerance=0.1)
    if abs(step) > 2:
        assert worse.update(noise + np.r_[np.zeros(old), np.full(new, step)])
        assert worse.width <= new + 8
    assert not better.update(noise * 0.01 + np.r_[np.full(old, step), np.zeros(new)])


def test_changes_below_the_tolerance_are_none():
    random = np.random.default_rng(0)
    stream = np.r_[random.normal(0, 0.1, 5000), random.normal(0.09, 0.1, 5000)]
    assert not Adwin(1e-3, every=8, tolerance=0.1).update(stream)
    assert Adwin(1e-3, every=8, tolerance=0.05).update(stream)


@pytest.mark.parametrize("seed", range(3))
def test_a_few_rare_clicks_in_a_row_are_no_change(seed):
    clicks = np.random.default_rng(seed).random(20_000) < 0.005
    errors = (clicks - 0.005) / math.sqrt(0.005 * 0.995)
    window = error_window()
    assert not window.update(errors)
    assert window.greatest == errors.max() > 10


def test_clicks_that_become_four_times_as_many_are_a_change():
    random = np.random.default_rng(0)
    clicks = np.r_[random.random(5000) < 0.02, random.random(1000) < 0.08]
    window = error_window()
    assert window.update((clicks - 0.02) / 0.14)
    assert 500 < window.width < 1200


def test_memory_grows_with_the_logarithm():
    window = Adwin()
    window.update(np.random.default_rng(0).normal(size=20_000))
    assert sum(map(len, window.buckets)) <= 5 * (1 + math.log2(20_000))


def test_windows_go_on_where_they_were_saved():
    random = np.random.default_rng(1)
    windows = [Adwin(1e-3, every=8, tolerance=0.1) for _ in range(3)]
    for window in windows:
        window.update(random.normal(size=random.integers(1, 300)))
    again = unpacked(packed(windows), Adwin(1e-3, every=8, tolerance=0.1), 3)
    rest = random.normal(size=100) + 5.0
    for window, other in zip(windows, again, strict=True):
        assert window.update(rest) == other.update(rest)
        assert (window.width, window.mean, window.squares) == (other.width, other.mean, other.squares)
        assert window.greatest == other.greatest > 2


FORGERIES = {
    "seen": lambda a: np.zeros_like(a),
    "sums": lambda a: -np.abs(a) - 1,
    "powers": lambda a: a + 1,
    "counts": lambda a: np.r_[a[:-1], a[-1] + 6],
    "buckets": lambda a: a * np.array([1.0, np.nan]),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_forged_windows_are_refused(name):
    window = Adwin()
    window.update(np.random.default_rng(1).normal(size=100))
    state = packed([window])
    with pytest.raises(SavedFileError):
        unpacked({**state, name: FORGERIES[name](state[name])}, Adwin(), 1)
    assert unpacked(state, Adwin(), 1)[0].width == window.width
