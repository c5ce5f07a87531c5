import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reports.invented import make_record, spec_of, write_paper_like

from treebandit.experiments.records import load_records, write_record
from treebandit.reports.frames import curves, odd_ones, panels, seconds_per_round, value_axis
from treebandit.reports.summary import summarise


def test_curves_are_means_over_seeds_at_few_rounds(tmp_path):
    write_paper_like(tmp_path, seeds=3, agents=["LinTS"], shorten=10)
    runs, rounds = load_records(tmp_path)
    frame = curves(runs, rounds, points=40)
    for environment, length in (("adult", 1000), ("mushroom", 812)):
        part = frame.filter(pl.col("environment") == environment)
        assert part.height <= 40
        assert (part["round"][0], part["round"][-1]) == (1, length)
        ids = runs.filter(pl.col("environment") == environment)["run_id"]
        for row in part.to_dicts():
            sums = [
                rounds.filter(pl.col("run_id") == name, pl.col("round") <= row["round"])["regret"].sum()
                for name in ids
            ]
            assert row["mean"] == pytest.approx(np.mean(sums))
            assert row["sd"] == pytest.approx(np.std(sums, ddof=1))
            assert row["seeds"] == 3


def test_many_curves_have_fewer_points_each(tmp_path):
    for place in range(100):
        spec = spec_of("A", f"p-{place}", 0, 500)
        write_record(make_record(spec, np.ones(500)), tmp_path)
    assert curves(*load_records(tmp_path)).height == 100 * 90


def test_agents_with_fewer_rounds_join_the_others_and_are_named(tmp_path):
    played = [("A", 0, 30), ("A", 1, 30), ("B", 0, 30), ("B", 1, 30), ("C", 0, 12), ("D", 0, 12), ("A", 0, 7)]
    for agent, seed, length in played:
        write_record(make_record(spec_of(agent, "road", seed, length), np.ones(length)), tmp_path)
    frame = curves(*load_records(tmp_path))
    assert panels(frame) == [("road", 7, "road, 7 rounds"), ("road", 30, "road, 30 rounds")]
    shorter, longer = (frame.filter(pl.col("rounds") == length) for length in (7, 30))
    assert shorter["agent"].unique().to_list() == ["A"]
    assert longer.filter(pl.col("agent") == "C")["round"].max() == 12
    assert odd_ones(longer, 30) == ["C, D: 12 rounds, 1 seed"]
    assert odd_ones(shorter, 7) == []


def test_seconds_of_a_round_are_split_into_shares(tmp_path):
    write_paper_like(tmp_path, seeds=1, agents=["LinTS"], shorten=10)
    frame = seconds_per_round(summarise(tmp_path)).filter(pl.col("environment") == "adult")
    shares = dict(frame.select("part", "share").iter_rows())
    assert shares == pytest.approx({"choosing": 0.2, "learning": 0.3, "rebuilding": 0.5}, rel=1e-3)
    assert frame["ms"].sum() == pytest.approx(frame["total"][0])


def test_values_over_decades_stand_on_a_log_axis_with_zero_left_of_them():
    axis = value_axis(["0", "0.01", "0.1", "0.3", "1", "3", "10", "100"])
    assert axis.logarithmic
    assert axis.places["100"] == pytest.approx(2.0)
    assert axis.places["0"] < axis.places["0.01"] == pytest.approx(-2.0)
    assert "0" not in axis.joined


def test_words_stand_right_of_the_numbers():
    axis = value_axis(["unlimited", "2", "4", "20"])
    assert not axis.logarithmic
    assert list(axis.places) == ["2", "4", "20", "unlimited"]
    assert axis.joined == {"2", "4", "20"}


def test_words_alone_are_evenly_spaced_in_the_order_given():
    schedules = ["16 ln t", "2 ln t", "8 ln t", "every 100", "never"]
    assert list(value_axis(schedules).places) == ["2 ln t", "8 ln t", "16 ln t", "every 100", "never"]
    axis = value_axis(["one-hot", "codes", "one-hot", "both"])
    assert list(axis.places) == ["one-hot", "codes", "both"]
    assert np.ptp(np.diff(list(axis.places.values()))) == pytest.approx(0.0)


numbers = st.floats(-1e6, 1e6, allow_nan=False).map(lambda number: str(round(number, 3)))
texts = st.sampled_from(["unlimited", "never", "codes", "nan", "inf"])


@given(st.lists(numbers | texts, min_size=1, max_size=12, unique=True), st.integers(1, 11))
def test_values_keep_their_order_and_agents_their_side(values, agents):
    axis = value_axis(values)
    assert set(axis.places) == set(values)
    places = sorted(axis.places.values())
    assert np.isfinite(places).all()
    known = sorted((float(value), axis.places[value]) for value in values if value in axis.joined)
    assert [place for _, place in known] == sorted(place for _, place in known)
    shifts = [axis.shift(place, agents) for place in range(agents)]
    assert shifts == sorted(shifts)
    assert sum(shifts) == pytest.approx(0.0, abs=1e-6)
    assert shifts[-1] - shifts[0] <= axis.step
