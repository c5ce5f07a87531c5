import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from treebandit.errors import InputError, ShapeError
from treebandit.features.flatten import EMPTY, OBJECT, TEXTS, VALUES, flattened


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
