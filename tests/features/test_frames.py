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
from hypothesis import given, settings
from hypothesis import strategies as st

from treebandit.core import Columns
from treebandit.errors import InputError, SavedFileError, ShapeError
from treebandit.features.frames import OneHot, Table, is_frame

NAN = math.nan
LIBRARIES = [pd.DataFrame, pl.DataFrame]
both = pytest.mark.parametrize("library", LIBRARIES)

# Lone surrogates stay away: polars refuses them.
texts = st.sampled_from(["", "a", "b", "None", "nan", "ä", "1", "True"]) | st.text(
    st.characters(exclude_categories=["Cs"]), max_size=3
)
kinds = st.sampled_from(["number", "integer", "text", "boolean", "enum"])
values_of = {
    "number": st.floats(-(2.0**100), 2.0**100, width=32) | st.just(NAN),
    "integer": st.integers(-(2**24), 2**24),
    "text": texts,
    "boolean": st.booleans(),
    "enum": st.sampled_from(["low", "mid", "high"]),
}
LEVELS = ["high", "low", "mid", "never"]


@st.composite
def tables(draw, frames=2):
    """Kinds of columns, and for each of some frames the values of each column."""
    names = draw(st.lists(texts, min_size=1, max_size=4, unique=True))
    kind_of = {name: draw(kinds) for name in names}
    contents = []
    for _ in range(frames):
        n = draw(st.integers(1, 6))
        contents.append(
            {
                name: draw(st.lists(st.none() | values_of[kind], min_size=n, max_size=n))
                for name, kind in kind_of.items()
            }
        )
    return kind_of, contents


def as_pandas(kind_of, content):
    dtypes = {"number": "float64", "integer": "Int64", "text": "str", "boolean": "boolean"}
    return pd.DataFrame(
        {
            name: pd.Series(pd.Categorical(content[name], LEVELS))
            if kind == "enum"
            else pd.Series(content[name], dtype=dtypes[kind])
            for name, kind in kind_of.items()
        }
    )


def as_polars(kind_of, content):
    dtypes = {
        "number": pl.Float64,
        "integer": pl.Int64,
        "text": pl.String,
        "boolean": pl.Boolean,
        "enum": pl.Enum(LEVELS),
    }
    return pl.DataFrame(content, schema={name: dtypes[kind] for name, kind in kind_of.items()})


def missing(value):
    return value is None or value != value


def slow_codes(met, values):
    """Codes by first appearance, one value at a time; `met` grows."""
    for value in values:
        if not missing(value) and value not in met:
            met.append(value)
    return [NAN if missing(value) else met.index(value) for value in values]


@settings(deadline=None)
@given(tables())
def test_both_libraries_give_the_slow_reference(table):
    kind_of, contents = table
    from_pandas, from_polars = Table(), Table()
    start = {"text": [], "boolean": [False, True], "enum": LEVELS}
    met = {name: list(start[kind]) for name, kind in kind_of.items() if kind in start}
    for content in contents:
        expected = np.column_stack(
            [
                slow_codes(met[name], values)
                if name in met
                else [NAN if missing(value) else value for value in values]
                for name, values in content.items()
            ]
        ).astype(np.float32)
        for encoder, make in ((from_pandas, as_pandas), (from_polars, as_polars)):
            features = encoder.encode(make(kind_of, content), learn=True)
            assert features.dtype == np.float32
            np.testing.assert_array_equal(features, expected)
    assert from_pandas.to_json() == from_polars.to_json()
    assert from_pandas.categories == {name: tuple(values) for name, values in met.items()}
    assert from_pandas.columns == Columns(
        tuple(max(1, len(met[name])) if name in met else 0 for name in kind_of), tuple(kind_of)
    )


@settings(deadline=None)
@given(tables(frames=1))
def test_decoding_gives_back_the_categories(table):
    kind_of, (content,) = table
    encoder = Table()
    features = encoder.encode(as_polars(kind_of, content), learn=True)
    for place, name in enumerate(kind_of):
        if name in encoder.categories:
            categories = encoder.categories[name]
            decoded = [None if np.isnan(code) else categories[int(code)] for code in features[:, place]]
            assert decoded == content[name]


@settings(deadline=None)
@given(tables(), st.booleans())
def test_scoring_never_changes_a_table(table, learned):
    kind_of, contents = table
    encoder = Table()
    if learned:
        encoder.encode(as_pandas(kind_of, contents[0]), learn=True)
    before, columns = json.dumps(encoder.to_json()), encoder.columns
    features = encoder.encode(as_polars(kind_of, contents[1]), learn=False)
    assert json.dumps(encoder.to_json()) == before
    assert encoder.columns == columns
    if learned:
        for place, (name, kind) in enumerate(kind_of.items()):
            if kind == "text":
                met = encoder.categories[name]
                expected = [
                    NAN if value is None else met.index(value) if value in met else len(met)
                    for value in contents[1][name]
                ]
                np.testing.assert_array_equal(features[:, place], np.array(expected, np.float32))
    else:
        np.testing.assert_array_equal(features, Table().encode(as_pandas(kind_of, contents[1]), learn=True))


@settings(deadline=None)
@given(tables(), st.data())
def test_order_of_columns_is_irrelevant(table, data):
    kind_of, contents = table
    straight, shuffled = Table(), Table()
    for encoder in (straight, shuffled):
        encoder.encode(as_pandas(kind_of, contents[0]), learn=True)
    names = data.draw(st.permutations(list(kind_of)))
    make = data.draw(st.sampled_from([as_pandas, as_polars]))
    frame = make(kind_of, contents[1])
    np.testing.assert_array_equal(
        straight.encode(frame, learn=True), shuffled.encode(frame[names], learn=True)
    )
    assert straight.to_json() == shuffled.to_json()


@settings(deadline=None)
@given(tables())
def test_json_gives_back_the_table(table):
    kind_of, contents = table
    encoder = Table()
    encoder.encode(as_pandas(kind_of, contents[0]), learn=True)
    restored = Table.from_json(json.loads(json.dumps(encoder.to_json())))
    assert restored.columns == encoder.columns
    assert repr(restored.categories) == repr(encoder.categories)
    frame = as_polars(kind_of, contents[1])
    np.testing.assert_array_equal(restored.encode(frame, learn=True), encoder.encode(frame, learn=True))
    assert restored.to_json() == encoder.to_json()


def test_json_tells_types_apart():
    frame = pd.DataFrame(
        {
            "text": ["True", "1", "x"],
            "flag": [True, False, None],
            "size": pd.Categorical([10, 2.5, 10], [2.5, 10]),
        }
    )
    encoder = Table()
    encoder.encode(frame, learn=True)
    restored = Table.from_json(json.loads(json.dumps(encoder.to_json())))
    assert repr(restored.categories) == (
        "{'text': ('True', '1', 'x'), 'flag': (False, True), 'size': (2.5, 10)}"
    )


@pytest.mark.parametrize(
    "values",
    [
        {},
        [],
        {"columns": 3},
        {"columns": [3]},
        {"columns": [{"name": "a"}]},
        {"columns": [{"name": 3, "categories": None}]},
        {"columns": [{"name": "a", "categories": [None]}]},
        {"columns": [{"name": "a", "categories": ["x", "x"]}]},
    ],
)
def test_foreign_json_is_refused(values):
    with pytest.raises(SavedFileError, match="saved columns cannot be read"):
        Table.from_json(values)


def test_empty_table_survives_json():
    restored = Table.from_json(json.loads(json.dumps(Table().to_json())))
    assert restored.columns == Columns(())
    assert restored.encode(pl.DataFrame({"a": ["x"]}), learn=True).tolist() == [[0.0]]


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
    encoder.encode(pl.DataFrame({"a": [0.5]}), learn=True)
    make = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}
    frame = make[type(values).__module__.partition(".")[0]]({"a": values})
    np.testing.assert_array_equal(encoder.encode(frame, learn=True), np.array([[1], [NAN], [3]], np.float32))


@both
def test_booleans_enter_a_number_column_and_stay_categories_in_their_own(library):
    encoder = Table()
    encoder.encode(library({"a": [0.5], "b": [True]}), learn=True)
    frame = library({"a": [True, False, None], "b": [None, False, True]})
    np.testing.assert_array_equal(encoder.encode(frame, learn=False), [[1, NAN], [0, 0], [NAN, 1]])
    assert encoder.columns.categories == (0, 2)


def test_listed_categories_come_at_once_and_in_their_order():
    encoder = Table()
    frame = pd.DataFrame({"a": pd.Categorical(["x", "y"], ["z", "y", "x"])})
    assert encoder.encode(frame, learn=True).ravel().tolist() == [2, 1]
    later = pl.DataFrame({"a": ["q", "w"]}, schema={"a": pl.Enum(["v", "w", "z", "q"])})
    assert encoder.encode(later, learn=False).ravel().tolist() == [3, 3]
    assert encoder.encode(later, learn=True).ravel().tolist() == [5, 4]
    assert encoder.categories == {"a": ("z", "y", "x", "v", "w", "q")}


def test_polars_categorical_goes_by_appearance():
    pl.Series(["elsewhere", "x"], dtype=pl.Categorical)
    encoder = Table()
    frame = pl.DataFrame({"a": ["y", None, "x", "y"]}, schema={"a": pl.Categorical})
    np.testing.assert_array_equal(encoder.encode(frame, learn=True).ravel(), [0, NAN, 1, 0])
    assert encoder.categories == {"a": ("y", "x")}


def test_numbered_categories_are_met_again_as_plain_numbers():
    encoder = Table()
    encoder.encode(pd.DataFrame({"a": pd.Categorical([30, 10])}), learn=True)
    again = pd.DataFrame({"a": [30, 10, None, 20]})
    np.testing.assert_array_equal(encoder.encode(again, learn=False).ravel(), [1, 0, NAN, 2])


def test_an_all_missing_category_column_counts_one():
    encoder = Table()
    assert np.isnan(encoder.encode(pl.DataFrame({"a": [None]}, schema={"a": pl.String}), learn=True)).all()
    assert encoder.columns == Columns((1,), ("a",))
    assert np.isnan(encoder.encode(pd.DataFrame({"a": [NAN]}), learn=True)).all()


@both
def test_columns_may_have_any_number_of_rows_even_none(library):
    encoder = Table()
    frame = library({"a": [1.0, 2.0], "b": ["x", "y"]})
    assert encoder.encode(frame[:0], learn=True).shape == (0, 2)
    assert encoder.encode(frame, learn=True).tolist() == [[1, 0], [2, 1]]


def test_column_names_that_are_numbers_become_text():
    encoder = Table()
    encoder.encode(pd.DataFrame(np.eye(2)), learn=True)
    assert encoder.columns == Columns((0, 0), ("0", "1"))
    assert encoder.encode(pl.DataFrame({"1": [5.0], "0": [3.0]}), learn=False).tolist() == [[3, 5]]
    assert encoder.encode(pd.DataFrame({1: [5.0], 0: [3.0]}), learn=False).tolist() == [[3, 5]]


def refused(frame, error, *parts):
    """`frame` is refused with all `parts` in the message, and the table stays as it was."""
    encoder = Table()
    encoder.encode(pl.DataFrame({"a": [1.5, 2.0], "b": ["x", "y"]}), learn=True)
    before = encoder.to_json()
    for learn in (True, False):
        with pytest.raises(error) as caught:
            encoder.encode(frame, learn=learn)
        for part in parts:
            assert part in str(caught.value)
    assert encoder.to_json() == before


@both
def test_wrong_frames_are_refused_and_change_nothing(library):
    new = ["new", "newer"]
    refused(library({"b": new}), ShapeError, "lacks 'a'")
    refused(library({"a": [1, 2], "b": new, "c": [1, 2]}), ShapeError, "'c' is unexpected")
    refused(library({"b": new, "c": [1, 2]}), ShapeError, "lacks 'a'", "'c' is unexpected")
    refused(library({"b": new, "a": [1.0, math.inf]}), InputError, "'a' is infinite in row 1")
    refused(library({"b": new, "a": [-1e39, 0.0]}), InputError, "'a' is infinite in row 0", "too large")
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


def test_number_tables_refuse_what_is_infinite_or_a_date():
    encoder = Table()
    encoder.encode(pd.DataFrame({"a": [1.0], "b": [2.0]}), learn=True)
    with pytest.raises(InputError, match="'a' is infinite in row 0"):
        encoder.encode(pd.DataFrame({"b": [1.0], "a": [math.inf]}), learn=False)
    for library in LIBRARIES:
        with pytest.raises(InputError, match="a date to numbers"):
            encoder.encode(library({"b": [1.0], "a": [dt.date(2024, 1, 1)]}), learn=False)
    with pytest.raises(InputError, match="'a' is infinite in row 0"):
        encoder.encode(pd.DataFrame({"b": [1], "a": pd.Series([10**400], dtype=object)}), learn=False)


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
        (pd.DataFrame({"a": [1.5, "n/a"]}, dtype=object), InputError, "convert its values to one type"),
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
        encoder.encode(frame, learn=True)
    assert encoder.columns == Columns(())


def test_frames_are_told_from_everything_else():
    class Mine(pd.DataFrame):
        pass

    frames = [pd.DataFrame(), pl.DataFrame(), pl.LazyFrame(), pa.table({}), Mine()]
    others = [np.eye(2), np.array([["a"]], object), [[1]], None, 3, pd.Series([1]), pl.Series([1]), Table()]
    assert [is_frame(frame) for frame in frames] == [True] * len(frames)
    assert [is_frame(other) for other in others] == [False] * len(others)


def test_arrays_need_no_frame_library():
    code = (
        "import sys, numpy as np; from treebandit.core import Columns;"
        "from treebandit.features.frames import OneHot, is_frame;"
        "assert not is_frame(np.eye(2)); OneHot(Columns((0, 2)))(np.zeros((2, 2), np.float32));"
        "print([name for name in ('narwhals', 'pandas', 'polars') if name in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


def slow_one_hot(contexts, columns):
    rows = []
    for context in contexts:
        row = []
        for value, count in zip(context, columns.categories, strict=True):
            row += [value] if count == 0 else [float(value == code) for code in range(count)]
        rows.append(row)
    width = sum(max(1, count) for count in columns.categories)
    return np.array(rows, np.float32).reshape(len(contexts), width)


@settings(deadline=None)
@given(
    st.lists(st.integers(0, 4), min_size=1, max_size=5),
    st.integers(0, 5),
    st.integers(0, 2**32),
    st.booleans(),
)
def test_one_hot_equals_the_slow_reference(categories, n, seed, fortran):
    columns = Columns(tuple(categories))
    values = np.array([NAN, -1, -0.0, 0, 0.5, 1, 2, 3, 4, 7], np.float32)
    contexts = np.random.default_rng(seed).choice(values, (n, len(categories)))
    contexts = np.asfortranarray(contexts) if fortran else contexts
    given_contexts = contexts.copy()
    expected = slow_one_hot(contexts, columns)
    features = OneHot(columns)(contexts)
    assert features.dtype == np.float32
    np.testing.assert_array_equal(features, expected)
    assert not np.shares_memory(features, contexts)
    np.testing.assert_array_equal(contexts, given_contexts)
    out = np.full_like(expected, 9)
    assert OneHot(columns)(contexts, out=out) is out
    np.testing.assert_array_equal(out, expected)


def test_one_hot_names_its_columns():
    encoder = OneHot(Columns((0, 2, 1), ("age", "city", "club")))
    assert encoder.names == ("age", "city=0", "city=1", "club=0")
    assert encoder.width == 4
    assert OneHot(Columns((2, 0))).names == ("x0=0", "x0=1", "x1")


def test_one_hot_refuses_wrong_shapes():
    encoder = OneHot(Columns((0, 2)))
    for wrong in (np.zeros((2, 3), np.float32), np.zeros(2, np.float32)):
        with pytest.raises(ShapeError, match=r"expected \(n, 2\)"):
            encoder(wrong)
    for out in (np.zeros((2, 2), np.float32), np.zeros((2, 3))):
        with pytest.raises(ShapeError, match=r"expected float32, \(2, 3\)"):
            encoder(np.zeros((2, 2), np.float32), out=out)


def test_an_unmet_category_has_no_column():
    encoder = Table()
    encoder.encode(pl.DataFrame({"a": ["x", "y"]}), learn=True)
    unmet = encoder.encode(pl.DataFrame({"a": ["z", "y"]}), learn=False)
    assert OneHot(encoder.columns)(unmet).tolist() == [[0, 0], [0, 1]]
