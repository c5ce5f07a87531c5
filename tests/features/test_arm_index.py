import copy
import enum

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from treebandit.errors import ArmsError, SavedFileError, ShapeError
from treebandit.features.arm_index import ArmIndex, ArmLabels, others


class Colour(enum.StrEnum):
    RED = "red"


@given(st.lists(st.lists(st.text(max_size=2), max_size=5), max_size=6))
def test_names_get_codes_in_the_order_of_offering(offers):
    labels, seen = ArmLabels(), []
    for names in offers:
        before = labels.state()
        codes, after = labels.encode(names)
        assert labels.state() == before
        seen += [name for name in dict.fromkeys(names) if name not in seen]
        assert codes.tolist() == [seen.index(name) for name in names]
        assert after.state() == seen
        assert (after is labels) == (len(seen) == len(before))
        labels = ArmLabels.restored(after.state())


@pytest.mark.parametrize("library", [list, tuple, np.array, pd.Series, pl.Series, pd.Index])
def test_labels_in_any_list(library):
    assert ArmLabels().encode(library([7, -3, 7]))[0].tolist() == [7, -3, 7]
    assert ArmLabels().encode(library(["b", "a", "b"]))[0].tolist() == [0, 1, 0]


def test_labels_of_other_libraries_are_plain_ones():
    assert ArmLabels().encode([np.int8(3), np.uint64(4)])[0].tolist() == [3, 4]
    _, labels = ArmLabels().encode([np.str_("a"), Colour.RED])
    assert [type(label) for label in labels.state()] == [str, str]
    assert labels.encode(pd.Categorical(["red", "a"]))[0].tolist() == [1, 0]


@pytest.mark.parametrize(
    ("arms", "error", "words"),
    [
        ([-(2**63)], ArmsError, "-9223372036854775808 is beyond"),
        (np.array([-(2**63)]), ArmsError, "is beyond"),
        (np.array([2**63], np.uint64), ArmsError, "is beyond"),
        ([2**24 + 1], ArmsError, "number arms from 0, or name them"),
        ([10**400], ArmsError, "is beyond"),
        (["a", 1], ArmsError, "arm 1 is a number, but this agent has arms with names"),
        ([1, "a"], ArmsError, "arm 'a' is a name, but this agent has arms with numbers"),
        ([True, False], ArmsError, "True of type bool in row 0; give whole numbers or strings"),
        ([0.0], ArmsError, "0.0 of type float in row 0"),
        ([None], ArmsError, "None of type NoneType in row 0"),
        ([b"a"], ArmsError, "of type bytes"),
        (np.array([1.5]), ArmsError, "1.5 of type float in row 0"),
        (np.array([True]), ArmsError, "of type bool"),
        (np.ma.masked_array([1, 2], [0, 1]), ArmsError, "arms have masked values"),
        (pd.Series(["a", None]), ArmsError, "in row 1"),
        ([[0, 1]], ShapeError, "one label per row"),
        (np.zeros((2, 2), int), ShapeError, r"arms of shape \(2, 2\)"),
        ({1, 2}, ShapeError, "a set; give a list"),
        ((arm for arm in "ab"), ShapeError, "a generator; give a list"),
        ({"a": 1}, ShapeError, "a dict; give a list"),
        ("ab", ShapeError, "'ab', a str; give a list"),
        (3, ShapeError, "give a list"),
    ],
)
def test_odd_labels_are_refused(arms, error, words):
    with pytest.raises(error, match=words):
        ArmLabels().encode(arms)


def test_one_label_alone_will_do_where_one_row_is_learned():
    assert ArmLabels().encode("ab", scalar=True)[0].tolist() == [0]
    assert ArmLabels().encode(np.int64(3), scalar=True)[0].tolist() == [3]
    with pytest.raises(ArmsError, match="bool"):
        ArmLabels().encode(True, scalar=True)


@pytest.mark.parametrize("state", [[1, 1], ["a", 1], [2**30], [None], 3, [[1]]])
def test_saved_labels_are_checked(state):
    with pytest.raises(SavedFileError, match="saved arm"):
        ArmLabels.restored(state)


@given(st.lists(st.lists(st.integers(-5, 5), max_size=6), max_size=5), st.lists(st.integers(-6, 6)))
def test_rows_of_arms_in_order_of_registration(batches, asked):
    index, seen = ArmIndex(), []
    for batch in batches:
        before = copy.copy(index)
        length = len(before)
        rows = index.register(np.array(batch, np.intp))
        seen += [arm for arm in dict.fromkeys(batch) if arm not in seen]
        assert rows.tolist() == [1 + seen.index(arm) for arm in batch]
        assert len(before) == length
    assert len(index) == 1 + len(seen)
    found = ArmIndex(index.labels).find(np.array(asked, np.intp))
    assert found.tolist() == [1 + seen.index(arm) if arm in seen else 0 for arm in asked]


def test_others_are_the_arms_that_are_not_known():
    known = frozenset([3, -7])
    assert others(known, np.array([3, -7, 3])) is None
    assert others(known, np.empty(0, np.intp)) is None
    np.testing.assert_array_equal(others(known, np.array([3, 4, -7, 0])), [False, True, False, True])
    np.testing.assert_array_equal(others(frozenset(), np.array([5])), [True])
