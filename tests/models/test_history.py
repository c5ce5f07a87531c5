import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from treebandit.core import Candidates, Columns
from treebandit.errors import ParameterError
from treebandit.models.history import History
from treebandit.models.schedule import Schedule


def rows(n, d=3, arms=True, start=0):
    contexts = np.arange(start, start + n * d, dtype=np.float32).reshape(n, d)
    return Candidates(contexts, np.arange(n) if arms else None, Columns.numeric(d))


@given(st.lists(st.integers(0, 40), max_size=20), st.booleans())
def test_history_returns_all_rows_in_order(sizes, arms):
    history = History()
    expected_rows, expected_rewards = [], []
    for k, size in enumerate(sizes):
        chosen, rewards = rows(size, arms=arms, start=100 * k), np.arange(size) + k / 8
        history = history.appended(chosen, rewards)
        expected_rows.append(chosen.contexts)
        expected_rewards.append(rewards)
    assert len(history) == sum(sizes)
    if sizes:
        assert np.array_equal(history.contexts, np.concatenate(expected_rows))
        assert np.array_equal(history.rewards, np.concatenate(expected_rewards))
        assert (history.arms is None) == (not arms)


def test_history_takes_at_most_1_3_times_the_bytes_it_holds():
    history = History()
    one, d = rows(1, d=14), 14
    for n in range(1, 5001):
        history = history.appended(one, np.ones(1))
        if n >= 200:
            assert history.nbytes <= 1.3 * n * (d * 4 + 8)


def test_a_history_stays_as_it_is_when_rows_are_appended():
    first = History().appended(rows(5), np.arange(5.0))
    dropped = first.appended(rows(4), np.full(4, 7.0))
    second = first.appended(rows(3), np.full(3, 9.0))
    assert first.rewards.tolist() == [0, 1, 2, 3, 4]
    assert second.rewards.tolist() == [0, 1, 2, 3, 4, 9, 9, 9]
    assert len(dropped) == 9


def test_rewards_keep_all_their_digits():
    history = History().appended(rows(2), np.array([1e9, 1e9 + 1e-3]))
    assert history.rewards.tolist() == [1e9, 1e9 + 1e-3]


def test_state_restores_a_history_that_can_grow():
    again = History.restored(History().appended(rows(5), np.arange(5.0)).state())
    assert again.appended(rows(2), np.ones(2)).rewards.tolist() == [0, 1, 2, 3, 4, 1, 1]
    assert len(History.restored(History().state())) == 0


@pytest.mark.parametrize("text", ["8 ln t", "8ln(t)", "8 * ln t", "8.0 LN T"])
def test_the_paper_schedule_is_the_ceiling_of_8_ln_t(text):
    schedule = Schedule.parse(text)
    assert [schedule.level(t) for t in range(1, 500)] == [math.ceil(8 * math.log(t)) for t in range(1, 500)]


def test_the_paper_schedule_grows_between_40_and_50_times_after_20_random_rounds():
    schedule = Schedule.parse("8 ln t")
    levels = [schedule.level(t) for t in range(21, 10_001)]
    assert 40 <= len(set(levels)) <= 50


def test_other_schedules():
    assert [Schedule.parse("every 3").level(t) for t in range(1, 8)] == [0, 0, 1, 1, 1, 2, 2]
    assert {Schedule.parse("never").level(t) for t in range(1, 100)} == {0}


def test_a_schedule_may_slow_down():
    levels = [Schedule.parse("8 ln t, 4 ln t from 2000").level(t) for t in range(1, 10_001)]
    assert levels[:2000] == [math.ceil(8 * math.log(t)) for t in range(1, 2001)]
    assert levels[2000:] == [
        math.ceil(8 * math.log(2000) + 4 * math.log(t / 2000)) for t in range(2001, 10_001)
    ]
    assert levels[-1] - levels[4999] == 3  # the paper's: 5 or 6


@pytest.mark.parametrize(
    "text",
    [
        *("", "8 log t", "every 0", "0 ln t", "every -1", "sometimes", "-8 ln t"),
        *("8 ln t, 4 ln t", "8 ln t, 0 ln t from 9", "8 ln t, 4 ln t from 0"),
    ],
)
def test_an_unknown_schedule_says_what_can_be_written(text):
    with pytest.raises(ParameterError, match="'8 ln t', 'every 100' or 'never'"):
        Schedule.parse(text)


def test_columns_added_later_are_missing_in_earlier_rows():
    history = History()
    for k, d in enumerate((2, 2, 4, 5)):
        before, length = history, len(history)
        history = history.appended(rows(3, d=d, start=100 * k), np.full(3, float(k)))
        assert len(before) == length
    assert history.contexts.shape == (12, 5)
    assert np.isnan(history.contexts).sum(axis=1).tolist() == [3] * 6 + [1] * 3 + [0] * 3
    np.testing.assert_array_equal(history.contexts[6:9, :4], rows(3, d=4, start=200).contexts)
