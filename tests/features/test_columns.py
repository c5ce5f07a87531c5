"""Declared columns, columns that come later, and nested rows, as the encoder of named rows takes them."""

import json
import math

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from treebandit.core import Columns
from treebandit.errors import InputError, ParameterError, SavedFileError, ShapeError
from treebandit.features.frame_encoder import FrameEncoder

NAN = math.nan
SHOP = {"age": "number", "city": ["rome", "paris"], "member": "flag", "plan": "category", "size": [42, 38.5]}
NOTHING = dict.fromkeys(SHOP)


def learned(encoder, *batches):
    """The values of the last batch, and the encoder after all of them."""
    for rows in batches:
        values, encoder = encoder.encode(rows)
    return values.tolist(), encoder


def same(found, expected):
    np.testing.assert_array_equal(found, expected)


def test_declared_columns_need_no_first_row():
    encoder = FrameEncoder.declared(SHOP)
    assert encoder.columns == Columns((0, 2, 2, 1, 2), tuple(SHOP))
    same(learned(encoder, [NOTHING])[0], [[NAN] * 5])
    row = {"size": 38.5, "age": 3, "member": True, "city": "paris", "plan": "pro"}
    values, after = learned(encoder, [NOTHING], [row, {**NOTHING, "plan": "free"}])
    same(values, [[3, 1, 1, 1, 1], [NAN, NAN, NAN, 0, NAN]])
    assert after.categories["plan"] == ("free", "pro")
    assert after.begins_with(SHOP)
    assert not after.begins_with({**SHOP, "city": ["rome"]})
    for library in (pd.DataFrame, pl.DataFrame):
        same(learned(after, library([row]))[0], [[3, 1, 1, 1, 1]])


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ([], "give the kind of each column by name"),
        ({}, "give the kind of each column by name"),
        ({3: "number"}, "a column 3; name columns with strings"),
        ({"a": "numbers"}, "declares 'a' as 'numbers'; give 'number', 'flag', 'category'"),
        ({"a": 3}, "declares 'a' as 3"),
        ({"a": []}, r"declares 'a' as \[\]"),
        ({"a": ["x", None]}, "'a' with the category None"),
        ({"a": [["x"]]}, "'a' with the category"),
        ({"a": ["x", 1]}, r"column 'a' holds numbers \(1\) where text belong"),
        ({"a": ["x", "y", "x"]}, "category of 'a' twice"),
        ({"a": [1, math.inf]}, "infinite"),
    ],
)
def test_wrong_declarations_name_the_column(columns, words):
    with pytest.raises(ParameterError, match=words):
        FrameEncoder.declared(columns)


@pytest.mark.parametrize(
    ("row", "error", "words"),
    [
        ({"age": "old"}, InputError, "'age' holds text where numbers belong"),
        (
            {"city": "oslo"},
            InputError,
            r"'city' holds 'oslo', which is none of its declared categories \('rome'",
        ),
        ({"city": 3}, InputError, "'city' holds numbers"),
        ({"member": "yes"}, InputError, "'member' holds text"),
        ({"size": 7}, InputError, "'size' holds 7, which is none"),
        ({"aeg": 3}, ShapeError, "'aeg' is unexpected"),
        ({"plan": {"name": "pro"}}, InputError, "'plan' held single values and now holds an object"),
    ],
)
@pytest.mark.parametrize("new_columns", [False, True])
def test_rows_that_are_not_as_declared_name_the_column(row, error, words, new_columns):
    encoder = FrameEncoder.declared(SHOP, new_columns=new_columns)
    if "aeg" in row and new_columns:
        assert encoder.encode([row])[1].columns.names == (*SHOP, "aeg")
        return
    with pytest.raises(error, match=words):
        encoder.encode([{**NOTHING, **row}])


def test_a_row_lacks_nothing_unless_new_columns_are_allowed():
    with pytest.raises(ShapeError, match="lack 'city'"):
        FrameEncoder.declared(SHOP).encode([{"age": 3}])
    encoder = FrameEncoder.declared(SHOP, new_columns=True)
    same(learned(encoder, [{"age": 3}])[0], [[3, NAN, NAN, NAN, NAN]])
    same(learned(encoder, pl.DataFrame({"age": [3] * 20}))[0], [[3, NAN, NAN, NAN, NAN]] * 20)


OPEN = FrameEncoder(new_columns=True)


def test_new_columns_come_last_by_row_and_name():
    values, after = learned(OPEN, [{"b": 1, "a": "x"}], [{"d": 2, "a": "y"}, {"c": True, "b": 3}])
    assert after.columns == Columns((2, 0, 0, 2), ("a", "b", "d", "c"))
    same(values, [[1, NAN, 2, NAN], [NAN, 3, NAN, 1]])
    same(learned(after, [{"c": False, "e": None}])[0], [[NAN, NAN, NAN, 0]])
    frame = pd.DataFrame({"z": ["q"] * 9, "b": [5] * 9, "f": [None] * 9, "e": [1.5] * 9})
    values, after = learned(after, frame)
    same(values, [[NAN, 5, NAN, NAN, 1.5, 0]] * 9)
    assert after.columns.names == ("a", "b", "d", "c", "e", "z")


def test_a_column_without_a_value_waits_for_one():
    after = learned(OPEN, [{"a": 1, "b": None, "c": NAN}])[1]
    assert after.columns.names == ("a",)
    assert learned(after, [{"b": "x", "c": "y"}])[1].columns == Columns((0, 1, 1), ("a", "b", "c"))


def test_rows_without_columns_are_rows():
    values, after = learned(OPEN, [{}, {"a": None}])
    same(values, [[0], [0]])
    values, after = learned(after, [{"a": 3}, {}])
    same(values, [[0, 3], [0, NAN]])
    same(learned(after, [{}])[0], [[0, NAN]])
    same(learned(after, [{"b": "x"}])[0], [[0, NAN, 0]])
    with pytest.raises(ShapeError, match="no columns"):
        FrameEncoder().encode([{}])


def test_what_a_list_does_not_hold_is_0_and_a_missing_list_is_missing():
    rows = [{"tags": ["a", "b"]}, {"tags": []}, {"tags": None}, {}, {"tags": ["b", "c"]}]
    expected = [[1, 1, 0], [0, 0, 0], [NAN] * 3, [NAN] * 3, [0, 1, 1]]
    values, after = learned(OPEN, rows)
    assert after.columns == Columns((0, 0, 0), ("tags=a", "tags=b", "tags=c"))
    same(values, expected)
    for row, cells in zip(rows, expected, strict=True):
        same(learned(after, [row])[0], [cells])
    closed = FrameEncoder()
    values, after = learned(closed, [rows[0], rows[4]])
    same(values, [[1, 1, 0], [0, 1, 1]])
    same(learned(after, [rows[1]])[0], [[0, 0, 0]])
    with pytest.raises(ShapeError, match="'tags=d' is unexpected"):
        after.encode([{"tags": ["d"]}])


def test_nested_rows_are_rows_of_dotted_names():
    row = {"user": {"age": 3, "city": "rome"}, "v": [1.0, 2.0]}
    values, after = learned(FrameEncoder(), [row])
    same(values, [[3, 0, 1, 2]])
    frame = pd.DataFrame({"v.1": [5.0], "v.0": [4.0], "user.city": ["rome"], "user.age": [1]})
    same(learned(after, frame)[0], [[1, 0, 4, 5]])
    same(learned(FrameEncoder(new_columns=True), [row], [{"v": [7]}])[0], [[NAN, NAN, 7, NAN]])


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"n": "many"}, "'n' holds text where numbers belong \\('many' in row 0\\)"),
        ({"t": 3}, r"'t' holds numbers \(3\) where text belong"),
        ({"f": "yes"}, r"'f' holds text \('yes'\) where booleans belong"),
        ({"n": [3]}, "'n' held single values and now holds a list of values"),
        ({"n": {"m": 3}}, "'n' held single values and now holds an object"),
        ({"o": 3}, "'o' held an object and now holds 3; give an object"),
        ({"l": "a"}, "'l' held a list of text and now holds 'a'; give a list of text"),
        ({"l": [1]}, "'l' held a list of text and now holds a list of values"),
        ({"o": {"x": "y"}}, "'o.x' holds text"),
    ],
)
def test_keys_are_never_retyped(row, words):
    first = {"n": 1, "t": "x", "f": True, "o": {"x": 1}, "l": ["a"]}
    after = OPEN.encode([first])[1]
    before = json.dumps(after.state())
    with pytest.raises(InputError, match=words):
        after.encode([row])
    assert json.dumps(after.state()) == before
    restored = FrameEncoder.restored(json.loads(before), new_columns=True)
    with pytest.raises(InputError, match=words):
        restored.encode([row])


@pytest.mark.parametrize("shapes", [3, {"a": "a poem"}, None])
def test_foreign_shapes_are_refused(shapes):
    with pytest.raises(SavedFileError, match="saved columns cannot be read"):
        FrameEncoder.restored({"columns": [], "shapes": shapes})


kinds = {
    "n": st.integers(-5, 5) | st.floats(-1, 1) | st.none(),
    "t": st.sampled_from(["x", "y", "z"]) | st.none(),
    "f": st.booleans() | st.none(),
    "l": st.lists(st.sampled_from(["a", "b"]), max_size=2) | st.none(),
    "v": st.lists(st.integers(0, 3), max_size=2),
    "o": st.fixed_dictionaries({}, optional={"p": st.integers(0, 3), "q": st.sampled_from(["x", "y"])}),
}
open_rows = st.fixed_dictionaries({}, optional=kinds)


@settings(deadline=None)
@given(st.lists(open_rows, min_size=1, max_size=6), st.randoms())
def test_the_same_rows_in_the_same_order_give_the_same_encoder(rows, random):
    straight, shuffled = OPEN, OPEN
    for row in rows:
        items = list(row.items())
        random.shuffle(items)
        values, straight = straight.encode([row])
        again, shuffled = shuffled.encode([dict(items)])
        same(values, again)
        # What is known now is read quickly, and gives the same.
        same(straight.encode([row])[0], values)
        assert straight.encode([row])[1] is straight
    assert straight.state() == shuffled.state()
    restored = FrameEncoder.restored(json.loads(json.dumps(straight.state())), new_columns=True)
    for row in rows:
        same(restored.encode([row])[0], straight.encode([row])[0])


@settings(deadline=None)
@given(st.lists(open_rows, min_size=1, max_size=6))
def test_columns_only_ever_grow_at_the_end(rows):
    encoder = OPEN
    for row in rows:
        values, after = encoder.encode([row])
        assert after.columns.names[: len(encoder.columns)] == encoder.columns.names
        kinds = [count > 0 for count in after.columns.categories[: len(encoder.columns)]]
        assert kinds == [count > 0 for count in encoder.columns.categories]
        assert values.shape == (1, len(after.columns))
        encoder = after
