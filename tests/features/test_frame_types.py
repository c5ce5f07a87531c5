"""Types of columns, one by one: what is a number, what a category, and what is refused."""

from __future__ import annotations

import datetime as dt
import json
import math
import subprocess
import sys
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from features.encoded import NAN, Table, both

from treebandit.core import Columns
from treebandit.errors import InputError, SavedFileError, ShapeError
from treebandit.features.frame_encoder import FrameEncoder
from treebandit.features.frames import is_frame, is_series


def test_json_tells_types_apart():
    frame = pd.DataFrame(
        {
            "text": ["True", "1", "x"],
            "flag": [True, False, None],
            "size": pd.Categorical([10, 2.5, 10], [2.5, 10]),
        }
    )
    encoder = Table()
    encoder.learn(frame)
    restored = FrameEncoder.restored(json.loads(json.dumps(encoder.state())))
    assert repr(restored.categories) == (
        "{'text': ('1', 'True', 'x'), 'flag': (False, True), 'size': (2.5, 10)}"
    )


def saved(*columns):
    return {"columns": [{"name": "a", "closed": False, **column} for column in columns], "shapes": {}}


@pytest.mark.parametrize(
    "values",
    [
        3,
        [3],
        {"columns": [3], "shapes": {}},
        {"columns": [{"name": "a", "categories": None}], "shapes": {}},
        {"columns": []},
        saved({}),
        saved({"categories": None, "closed": 1}),
        saved({"name": 3, "categories": None}),
        saved({"categories": [None]}),
        saved({"categories": ["x", "x"]}),
        saved({"categories": ["x", 1]}),
        saved({"categories": None}, {"categories": None}),
    ],
)
def test_foreign_json_is_refused(values):
    with pytest.raises(SavedFileError, match="saved columns cannot be read"):
        FrameEncoder.restored(values)


def test_empty_table_survives_json():
    restored = FrameEncoder.restored(json.loads(json.dumps(FrameEncoder().state())))
    assert restored.columns == Columns(())
    assert restored.encode(pl.DataFrame({"a": ["x"]}))[0].tolist() == [[0.0]]


@pytest.mark.parametrize(
    "values",
    [
        pd.Series([1, None, 3], dtype="Int64"),
        pd.Series([1, None, 3], dtype="Float32"),
        pd.Series([1, None, 3], dtype="int64[pyarrow]"),
        pd.Series([1, None, 3], dtype=object),
        pd.Series([1, pd.NA, Decimal(3)], dtype=object),
        pd.Series([1, pd.NaT, 3], dtype=object),
        pd.Series([True, None, 3], dtype=object),
        pd.Series(pd.Categorical([1, None, 3])),
        pd.Series(pd.arrays.SparseArray([1.0, NAN, 3.0])),
        pl.Series([1, None, 3], dtype=pl.UInt8),
        pl.Series([1, None, 3], dtype=pl.Decimal(10, 2)),
        pa.chunked_array([[1, None], [3]]),
    ],
)
def test_any_dtype_of_numbers_enters_a_number_column(values):
    encoder = Table()
    encoder.learn(pl.DataFrame({"a": [0.5]}))
    make = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}
    frame = make[type(values).__module__.partition(".")[0]]({"a": values})
    np.testing.assert_array_equal(encoder.learn(frame), np.array([[1], [NAN], [3]], np.float32))


@both
def test_booleans_enter_a_number_column_and_stay_categories_in_their_own(library):
    encoder = Table()
    encoder.learn(library({"a": [0.5], "b": [True]}))
    frame = library({"a": [True, False, None], "b": [None, False, True]})
    np.testing.assert_array_equal(encoder.score(frame), [[1, NAN], [0, 0], [NAN, 1]])
    assert encoder.columns.categories == (0, 2)


@pytest.mark.parametrize("size", [1, 3, 30])
@pytest.mark.parametrize("kind", ["int64", "int8", "bool", "float64", "Int64", "boolean", "category"])
@pytest.mark.parametrize("values", [[1, 2, 3], [True, False, True], [0.5, 1.5, 2.5]])
def test_a_missing_category_is_missing_beside_columns_of_any_type(values, kind, size):
    first = pd.DataFrame({"a": pd.Categorical(values), "b": pd.Series([1, 0, 1]).astype(kind)})
    missing = pd.DataFrame(
        {"a": pd.Categorical([None] * size, categories=values[:2]), "b": pd.Series([1] * size).astype(kind)}
    )
    numbers = pd.DataFrame({"a": [1.0, 2.0], "b": [1.0, 0.0]})
    for learned in (first, numbers):
        encoder = Table()
        encoder.learn(learned)
        known = encoder.score(learned.iloc[:1])[0, 1]
        for read in (encoder.score, encoder.learn):
            np.testing.assert_array_equal(read(missing), [[NAN, known]] * size)


def test_listed_categories_come_at_once_and_in_their_order():
    encoder = Table()
    frame = pd.DataFrame({"a": pd.Categorical(["x", "y"], ["z", "y", "x"])})
    assert encoder.learn(frame).ravel().tolist() == [2, 1]
    later = pl.DataFrame({"a": ["q", "w"]}, schema={"a": pl.Enum(["v", "w", "z", "q"])})
    assert encoder.learn(later).ravel().tolist() == [5, 4]
    assert encoder.categories == {"a": ("z", "y", "x", "v", "w", "q")}


@pytest.mark.parametrize("values", [["y", None, "x", "y"], [20, None, 10, 20]])
def test_pandas_dictionaries_of_pyarrow_are_categories(values):
    dictionary = pd.ArrowDtype(pa.array(values).dictionary_encode().type)
    encoder = Table()
    frame = pd.DataFrame(
        {"a": pd.Series(values).astype(pd.ArrowDtype(pa.array(values).type)).astype(dictionary)}
    )
    np.testing.assert_array_equal(encoder.learn(frame).ravel(), [1, NAN, 0, 1])
    assert encoder.categories == {"a": (values[2], values[0])}
    np.testing.assert_array_equal(encoder.score(frame[:2]).ravel(), [1, NAN])


def test_polars_categorical_goes_by_its_text():
    pl.Series(["elsewhere", "x"], dtype=pl.Categorical)
    encoder = Table()
    frame = pl.DataFrame({"a": ["y", None, "x", "y"]}, schema={"a": pl.Categorical})
    np.testing.assert_array_equal(encoder.learn(frame).ravel(), [1, NAN, 0, 1])
    assert encoder.categories == {"a": ("x", "y")}


def test_numbered_categories_are_seen_again_as_plain_numbers():
    encoder = Table()
    encoder.learn(pd.DataFrame({"a": pd.Categorical([30, 10])}))
    again = pd.DataFrame({"a": [30, 10, None, 20]})
    np.testing.assert_array_equal(encoder.score(again).ravel(), [1, 0, NAN, 2])


def test_an_all_missing_category_column_counts_one():
    encoder = Table()
    assert np.isnan(encoder.learn(pl.DataFrame({"a": [None]}, schema={"a": pl.String}))).all()
    assert encoder.columns == Columns((1,), ("a",))
    assert np.isnan(encoder.learn(pd.DataFrame({"a": [NAN]}))).all()


@both
def test_columns_may_have_any_number_of_rows_even_none(library):
    encoder = Table()
    frame = library({"a": [1.0, 2.0], "b": ["x", "y"]})
    if library is pd.DataFrame:
        frame = frame.astype({"b": "string"})  # before pandas 3, words have no type of their own
    assert encoder.learn(frame[:0]).shape == (0, 2)
    assert encoder.learn(frame).tolist() == [[1, 0], [2, 1]]


def test_column_names_that_are_numbers_become_text():
    encoder = Table()
    encoder.learn(pd.DataFrame(np.eye(2)))
    assert encoder.columns == Columns((0, 0), ("0", "1"))
    assert encoder.score(pl.DataFrame({"1": [5.0], "0": [3.0]})).tolist() == [[3, 5]]
    assert encoder.score(pd.DataFrame({1: [5.0], 0: [3.0]})).tolist() == [[3, 5]]


def refused(frame, error, *parts):
    """`frame` is refused with all `parts` in the message."""
    encoder = Table()
    encoder.learn(pl.DataFrame({"a": [1.5, 2.0], "b": ["x", "y"]}))
    with pytest.raises(error) as caught:
        encoder.learn(frame)
    for part in parts:
        assert part in str(caught.value)


@both
def test_wrong_frames_are_refused(library):
    new = ["new", "newer"]
    refused(library({"b": new}), ShapeError, "lack 'a'")
    refused(library({"a": [1, 2], "b": new, "c": [1, 2]}), ShapeError, "'c' is unexpected")
    refused(library({"b": new, "c": [1, 2]}), ShapeError, "lack 'a'", "'c' is unexpected")
    refused(
        library({"b": new, "a": [None, "many"]}),
        InputError,
        "'a' holds text where numbers belong",
        "'many' in row 1",
    )
    refused(library({"b": new, "a": [dt.date(2024, 1, 1), None]}), InputError, "'a'", "a date to numbers")
    refused(library({"b": new, "a": [dt.timedelta(1), None]}), InputError, "'a'", "a date to numbers")
    refused(library({"b": [3, 4], "a": [1, 2]}), InputError, "'b' holds numbers (3) where text belong")
    refused(library({"b": [True, None], "a": [1, 2]}), InputError, "'b' holds booleans")
    refused(library({"b": [[1], [2]], "a": [1, 2]}), InputError, "'b'", "neither numbers nor categories")


@both
def test_a_frame_of_numbers_refuses_dates(library):
    encoder = Table()
    encoder.learn(pd.DataFrame({"a": [1.0], "b": [2.0]}))
    with pytest.raises(InputError, match="a date to numbers"):
        encoder.score(library({"b": [1.0], "a": [dt.date(2024, 1, 1)]}))


def test_numbers_keep_their_64_bits_and_huge_ones_are_infinite():
    encoder = Table()
    assert encoder.learn(pl.DataFrame({"a": [1.7e9 + 0.25]})).tolist() == [[1.7e9 + 0.25]]
    assert encoder.learn([{"a": 10**400}]).tolist() == [[math.inf]]


@pytest.mark.parametrize(
    ("frame", "error", "message"),
    [
        (pl.DataFrame(), ShapeError, "at least one"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), ShapeError, "same name"),
        (pd.DataFrame({0: [1], "0": [2]}), ShapeError, "each its own name"),
        (pl.LazyFrame({"a": [1]}), InputError, "collect"),
        (3, InputError, "not a frame in memory"),
        (np.array([["a"]], object), InputError, "not a frame in memory"),
        (pl.DataFrame({"a": [None]}), InputError, "holds no value and has no type"),
        (pd.DataFrame({"a": [None]}, dtype=object), InputError, "holds no value and has no type"),
        (pd.DataFrame({"a": [1.5, "n/a"]}, dtype=object), InputError, "'n/a' in row 1"),
        (pd.DataFrame({"a": [1j]}), InputError, "neither numbers nor categories"),
        (pd.DataFrame({"a": pd.Categorical([1.5, math.inf])}), InputError, "infinite category"),
        (pd.DataFrame({"a": pd.cut([1, 2], 2)}), InputError, "Interval"),
        (pd.DataFrame({"a": pd.to_datetime(["2024-01-01"])}), InputError, "a date to numbers"),
        (pl.DataFrame({"a": [None]}, schema={"a": pl.Date}), InputError, "a date to numbers"),
    ],
)
def test_unusable_first_frames_are_refused(frame, error, message):
    encoder = Table()
    with pytest.raises(error, match=message):
        encoder.learn(frame)
    assert encoder.columns == Columns(())


def test_frames_are_told_from_everything_else():
    class Mine(pd.DataFrame):
        pass

    frames = [pd.DataFrame(), pl.DataFrame(), pl.LazyFrame(), pa.table({}), Mine()]
    others = [np.eye(2), np.array([["a"]], object), [[1]], None, 3, pd.Series([1]), pl.Series([1]), Table()]
    assert [is_series(other) for other in others] == [False] * 5 + [True, False, False]
    assert [is_frame(frame) for frame in frames] == [True] * len(frames)
    assert [is_frame(other) for other in others] == [False] * len(others)


def test_arrays_and_dicts_need_no_frame_library():
    code = (
        "import sys, numpy as np; from treebandit.features.inputs import Inputs;"
        "Inputs().enter(np.eye(2)); Inputs().enter_to_learn({'a': 1.0, 'b': 'x'}, 1.0);"
        "print([name for name in ('narwhals', 'pandas', 'polars') if name in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


def test_first_dicts_tell_the_types():
    encoder = Table()
    assert encoder.learn([{"age": 3, "city": "b", "old": True, "sum": NAN, 7: Decimal("1.5")}]).shape == (
        1,
        5,
    )
    assert encoder.columns == Columns((0, 1, 2, 0, 0), ("age", "city", "old", "sum", "7"))


@pytest.mark.parametrize(
    ("rows", "error", "message"),
    [
        ([], ShapeError, "no rows"),
        ([{}], ShapeError, "at least one"),
        ([{"a": 1}, 3], InputError, "3 is in a list of dicts"),
        ([{"a": 1}, {"b": 1}], ShapeError, "lack 'a', and 'b' is unexpected"),
        ([{("a",): 1}], InputError, "a column is named"),
        ([{1: 1, "1": 2}], ShapeError, "each its own name"),
        ([{"a": None}], InputError, "give NaN for a missing number"),
        ([{"a": [1, "x"]}], InputError, "'a' holds text"),
        ([{"a": b"x"}], InputError, "'a' holds values of type bytes"),
        ([{"a": 1}, {"a": "x"}], InputError, "'x' in row 1"),
    ],
)
def test_unusable_dicts_are_refused(rows, error, message):
    with pytest.raises(error, match=message):
        Table().learn(rows)


def test_true_is_no_number_to_a_column_of_booleans():
    encoder = Table()
    encoder.learn([{"a": True}])
    with pytest.raises(InputError, match="'a' holds numbers"):
        encoder.score([{"a": 1}])
