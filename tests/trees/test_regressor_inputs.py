"""What the regressor takes as rows and targets, and what it refuses."""

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from treebandit.errors import InputError
from treebandit.trees import HistogramForest, TreeEnsembleRegressor

DAYS = np.array(["2024-01-01", "NaT", "2024-01-03"] * 20, "datetime64[s]")
NUMBERS = np.arange(60.0)


def make(trees=None, **arguments):
    return TreeEnsembleRegressor(
        trees or HistogramForest(n_trees=20), **{"variance": "leaf", "random_state": 0} | arguments
    )


def test_digits_that_32_bits_do_not_hold_are_kept():
    seconds = 1.7e9 + np.random.default_rng(0).integers(0, 60, 400)[:, None]
    late = (seconds[:, 0] > 1.7e9 + 30).astype(float)
    model = make().fit(seconds[:200], late[:200])
    assert model.score(seconds[200:], late[200:]) > 0.95
    model.partial_fit(seconds[200:], late[200:])
    assert model.score(seconds, late) > 0.95
    small = 1e-30 * (seconds - 1.7e9)
    assert make().fit(small, late).score(small, late) > 0.95


def test_a_column_that_32_bits_cannot_tell_apart_is_named():
    frame = pd.DataFrame({"x": NUMBERS, "far": 2.0**70 + 2.0**20 * NUMBERS})
    with pytest.raises(InputError, match="column 'far' differs only in digits"):
        make().fit(frame, NUMBERS)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])
def test_ordinary_rows_are_the_same_in_any_type(dtype):
    rows = np.random.default_rng(0).integers(0, 50, (80, 3))
    expected = make().fit(rows.astype(np.float32), rows[:, 0]).predict(rows.astype(np.float32))
    assert (
        make().fit(rows.astype(dtype), rows[:, 0]).predict(rows.astype(dtype)).tolist() == expected.tolist()
    )


@pytest.mark.parametrize(
    "rows",
    [
        DAYS[:, None],
        (DAYS - DAYS[0])[:, None],
        [[each] for each in DAYS],
        np.array([[each, 1.0] for each in DAYS], object),
        NUMBERS[:, None].astype(str),
        pd.DataFrame({"day": pd.to_datetime(DAYS)}),
        pd.DataFrame({"day": pd.to_datetime(DAYS).tz_localize("UTC"), "x": NUMBERS}),
        pd.DataFrame([[1.0, pd.Timestamp(0)]] * 60, columns=["x", "x"]),
        pl.DataFrame({"day": [datetime.date(2024, 1, 1)] * 60, "x": NUMBERS}),
        pa.table({"day": [datetime.datetime(2024, 1, 1)] * 60}),
        np.ma.masked_array(NUMBERS[:, None], mask=NUMBERS[:, None] % 2 == 0),
        pd.DataFrame({"a": ["1", "2", "10"] * 20}),
        pd.DataFrame({"a": ["1", "2", None] * 20, "x": NUMBERS}, dtype=object),
        pd.DataFrame({"a": pd.Categorical(["1", "2", "10"] * 20)}),
        pl.DataFrame({"a": ["1", "2", "10"] * 20}),
        pl.DataFrame({"a": ["1", "2", "10"] * 20}, schema={"a": pl.Categorical}),
        pa.table({"a": pa.array(["1", "2", "10"] * 20).dictionary_encode()}),
        np.array([["1", 2.0]] * 60, object),
    ],
    ids=lambda rows: type(rows).__name__,
)
def test_rows_that_are_no_numbers_are_refused(rows):
    with pytest.raises(InputError, match=r"dates|time spans|text|masked|date to numbers|same name"):
        make().fit(rows, NUMBERS)
    model = make().fit(np.ones((60, np.shape(rows)[1])), NUMBERS)
    with pytest.raises(InputError):
        model.predict(rows)


@pytest.mark.parametrize("values", [[1, 2, None, 3], [True, False, None, True]])
def test_categories_that_are_numbers_are_read_as_numbers(values):
    """Missing ones are missing, whatever stands beside them."""
    given = values * 15
    beside = [type(values[0])()] * 60
    expected = np.column_stack([[np.nan if value is None else float(value) for value in given], beside])
    frames = [
        pd.DataFrame({"a": pd.Categorical(given), "b": beside}, index=np.arange(60)[::-1]),
        pd.DataFrame({"a": pd.Series(given, dtype=object), "b": beside}),
        pa.table({"a": pa.array(given).dictionary_encode(), "b": beside}),
        pl.DataFrame({"a": given, "b": beside}),
    ]
    targets = np.tile([1.0, 2.0, 9.0, 4.0], 15)
    means = make().fit(expected, targets).predict(expected)
    for frame in frames:
        model = make().fit(frame, targets)
        assert model.feature_names_in_.tolist() == ["a", "b"]
        assert model.predict(frame).tolist() == means.tolist()


def test_columns_of_a_record_batch_go_by_name():
    model = make().fit(pa.record_batch({"a": NUMBERS, "b": -NUMBERS}), NUMBERS)
    assert model.feature_names_in_.tolist() == ["a", "b"]
    with pytest.raises(ValueError, match="feature names"):
        model.predict(pa.record_batch({"b": -NUMBERS, "a": NUMBERS}))
    with pytest.raises(InputError, match="is a table of a kind that is not known"):
        model.predict(pa.table({"a": NUMBERS, "b": -NUMBERS}).to_reader())


@pytest.mark.parametrize(
    "targets",
    [
        pd.date_range("2024-01-01", periods=60),
        DAYS - DAYS[0],
        pl.Series([datetime.date(2024, 1, 1)] * 60),
        NUMBERS.astype(str),
        np.ma.masked_array(NUMBERS, mask=NUMBERS % 2 == 1),
    ],
    ids=lambda targets: type(targets).__name__,
)
def test_targets_that_are_no_numbers_are_refused(targets):
    with pytest.raises(InputError, match="targets"):
        make().fit(NUMBERS[:, None], targets)


def test_masks_that_hide_nothing_are_taken():
    rows, targets = np.ma.masked_array(NUMBERS[:, None]), np.ma.masked_array(NUMBERS, mask=False)
    assert make().fit(rows, targets).score(rows, targets) > 0.9


class Failing:
    """Fails where rows have two columns."""

    def fit(self, features, targets, *, seed):
        if features.shape[1] == 2:
            raise RuntimeError("no")
        return HistogramForest(n_trees=5).fit(features, targets, seed=seed)


@pytest.mark.parametrize("names", [list("abcde"), None])
def test_a_fit_that_fails_leaves_the_regressor_as_it_was(names):
    rows = np.random.default_rng(0).normal(size=(100, 5))
    table = rows if names is None else pd.DataFrame(rows, columns=names)
    model = make(Failing(), memory=80).fit(table, rows[:, 4])
    before, members = model.predict(table), vars(model).copy()
    with pytest.raises(RuntimeError):
        model.fit(pd.DataFrame(rows[:, :2], columns=["y", "z"]), rows[:, 0])
    with pytest.raises(InputError):
        model.fit(DAYS[:, None], NUMBERS)
    with pytest.raises(ValueError):
        model.partial_fit(table, np.full(100, np.nan))
    assert vars(model) == members
    assert model.predict(table).tolist() == before.tolist()
    unfitted = make(Failing())
    with pytest.raises(RuntimeError):
        unfitted.fit(rows[:, :2], rows[:, 0])
    assert not hasattr(unfitted, "n_features_in_")


def test_rows_that_are_kept_are_no_longer_the_callers():
    rows = np.random.default_rng(0).normal(size=(100, 2)).astype(np.float32)
    targets = rows[:, 0].astype(np.float64)
    one, other = make(memory=80).fit(rows.copy(), targets.copy()), make(memory=80).fit(rows, targets)
    rows[:], targets[:] = 7.0, 7.0
    more = np.random.default_rng(1).normal(size=(40, 2)).astype(np.float32)
    predicted = [model.partial_fit(more, more[:, 0]).predict(more).tolist() for model in (one, other)]
    assert predicted[0] == predicted[1]


@pytest.mark.parametrize("largest", [1e39, 1e300])
def test_numbers_beyond_32_bits_are_called_too_large(largest):
    rows = np.random.default_rng(0).normal(size=(20, 2)) * [1.0, largest]
    with pytest.raises(InputError, match=r"column 1 is infinite in row \d, or too large for 32 bits"):
        TreeEnsembleRegressor(HistogramForest(n_trees=3)).fit(rows, rows[:, 0])
