import json

import numpy as np
import pytest
from features.encoded import NAN
from hypothesis import given
from hypothesis import strategies as st

from treebandit.errors import InputError, ShapeError
from treebandit.features.flatten import EMPTY, OBJECT, TEXTS, VALUES, flattened
from treebandit.features.frame_encoder import FrameEncoder


def test_objects_and_lists_become_named_values():
    row = {
        "age": 31,
        "user": {"city": "Rome", "plan": {"name": "pro", "trial": False}},
        "tags": ["new", "vip", "new", None],
        "sizes": [1.5, None, True],
        "visits": [{"page": "home"}, {"page": "cart", "items": [3]}],
        "nothing": None,
        "empty": [],
        "unknown": [None],
        "free": {},
        7: np.array([1.0, 2.0]),
    }
    flat = flattened(row)
    assert flat.values == {
        "age": 31,
        "user.city": "Rome",
        "user.plan.name": "pro",
        "user.plan.trial": False,
        "tags=new": 1.0,
        "tags=vip": 1.0,
        "sizes.0": 1.5,
        "sizes.1": None,
        "sizes.2": True,
        "visits.0.page": "home",
        "visits.1.page": "cart",
        "visits.1.items.0": 3,
        "nothing": None,
        "7.0": 1.0,
        "7.1": 2.0,
    }
    assert {flat.shapes[key] for key in ("user", "user.plan", "free", "visits.0")} == {OBJECT}
    assert (flat.shapes["tags"], flat.shapes["sizes"], flat.shapes["empty"]) == (TEXTS, VALUES, EMPTY)
    assert flat.shapes["unknown"] == EMPTY


@pytest.mark.parametrize(
    ("row", "error", "words"),
    [
        ({"a": {"b": 1}, "a.b": 2}, ShapeError, "two keys of a row give the column 'a.b'"),
        ({"a": ["x"], "a=x": 2}, ShapeError, "'a=x'"),
        ({"a": {"b": {}}, "a.b": 2}, ShapeError, "'a.b'"),
        ({1: 1, "1": 2}, ShapeError, "'1'"),
        ({"a": {"b": ["x", 1]}}, InputError, r"'a.b' holds text \('x'\) and other values \(1\)"),
        ({"a": {None: 1}}, InputError, "a column is named None"),
    ],
)
def test_ambiguous_rows_are_refused(row, error, words):
    with pytest.raises(error, match=words):
        flattened(row)


def test_a_row_that_holds_itself_is_refused():
    row = {}
    row["again"] = row
    with pytest.raises(InputError, match="deep"):
        flattened(row)


leaves = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3)
rows = st.dictionaries(
    st.text(max_size=2),
    st.recursive(
        leaves,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
        max_leaves=8,
    ),
    max_size=4,
)


@given(rows)
def test_any_json_object_is_flat_or_refused(row):
    try:
        flat = flattened(json.loads(json.dumps(row)))
    except InputError:
        return
    assert not any(isinstance(value, dict | list) for value in flat.values.values())
    assert not flat.values.keys() & flat.shapes.keys()


NESTED = {"tags": ["new"], "u": {"age": 1.0, "plan": {"name": "pro"}}, "v": [1.0, 2.0], "w": [{"x": 3.0}]}
COLUMNS = {"tags=new": 1.0, "u.age": 1.0, "u.plan.name": 0.0, "v.0": 1.0, "v.1": 2.0, "w.0.x": 3.0}


@pytest.mark.parametrize("new_columns", [False, True])
@pytest.mark.parametrize(
    ("change", "missing"),
    [
        ({"tags": None}, ["tags=new"]),
        ({"tags": NAN}, ["tags=new"]),
        ({"u": None}, ["u.age", "u.plan.name"]),
        ({"u": {"age": 1.0, "plan": None}}, ["u.plan.name"]),
        ({"v": None}, ["v.0", "v.1"]),
        ({"v": [None, None]}, ["v.0", "v.1"]),
        ({"v": [1.0, None]}, ["v.1"]),
        ({"v": []}, ["v.0", "v.1"]),
        ({"w": None}, ["w.0.x"]),
        ({"w": [None]}, ["w.0.x"]),
        (dict.fromkeys(NESTED), list(COLUMNS)),
    ],
)
def test_lists_and_objects_may_be_missing(change, missing, new_columns):
    encoder = FrameEncoder(new_columns=new_columns).encode([NESTED])[1]
    values = COLUMNS | dict.fromkeys(missing, NAN)
    expected = [values[name] for name in encoder.columns.names]
    changed = {**NESTED, **change}
    np.testing.assert_array_equal(encoder.encode([changed])[0], [expected])
    np.testing.assert_array_equal(encoder.encode([changed, NESTED])[0][0], expected)
    together, after = FrameEncoder(new_columns=new_columns).encode([changed, NESTED])
    assert dict(zip(after.columns.names, together[1].tolist(), strict=True)) == COLUMNS
    found = dict(zip(after.columns.names, together[0].tolist(), strict=True))
    assert {name for name, value in found.items() if np.isnan(value)} == set(missing)


def test_a_list_without_text_is_an_empty_set():
    encoder = FrameEncoder().encode([NESTED])[1]
    assert encoder.encode([{**NESTED, "tags": []}])[0][0].tolist()[0] == 0.0


@pytest.mark.parametrize("change", [{"v": [1.0]}, {"u": {}}, {"u": {"age": 1.0}}])
def test_parts_that_are_not_there_are_refused(change):
    encoder = FrameEncoder().encode([NESTED])[1]
    with pytest.raises(ShapeError, match="the rows lack"):
        encoder.encode([{**NESTED, **change}])
    with pytest.raises(ShapeError, match="^the rows lack 'tags=new'; give the columns learned first"):
        encoder.encode([{key: value for key, value in NESTED.items() if key != "tags"}])
