import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from treebandit.core import Columns
from treebandit.errors import ShapeError
from treebandit.features.encoding import Encoder, OneHot

CONTEXTS = np.array([[0.5, 2.0], [np.nan, 0.0]], np.float32)
COLUMNS = Columns((0, 3))
ARMS = np.array([7, 4])


@pytest.mark.parametrize(
    ("arm_encoding", "categories", "expected"),
    [
        ("label", "codes", [[7, 0.5, 2], [4, np.nan, 0]]),
        ("auto", "codes", [[7, 0.5, 2], [4, np.nan, 0]]),
        ("none", "codes", [[0.5, 2], [np.nan, 0]]),
        ("one_hot", "codes", [[0, 1, 0.5, 2], [1, 0, np.nan, 0]]),
        ("label", "one_hot", [[7, 0.5, 0, 0, 1], [4, np.nan, 1, 0, 0]]),
        ("none", "one_hot", [[0.5, 0, 0, 1], [np.nan, 1, 0, 0]]),
    ],
)
def test_the_arm_comes_first_then_the_features(arm_encoding, categories, expected):
    encoder = Encoder(COLUMNS, ARMS, arm_encoding=arm_encoding, categories=categories)
    features = encoder(CONTEXTS, ARMS)
    np.testing.assert_array_equal(features, np.array(expected, np.float32))
    assert features.dtype == np.float32
    assert features.flags.c_contiguous
    assert features.shape[1] == encoder.width


def test_auto_without_arms_is_the_features_alone():
    np.testing.assert_array_equal(Encoder(COLUMNS, None)(CONTEXTS, None), CONTEXTS)


def test_an_arm_seen_later_is_all_zeros_in_one_hot():
    encoder = Encoder(COLUMNS, ARMS, arm_encoding="one_hot")
    np.testing.assert_array_equal(encoder(CONTEXTS, np.array([99, 7]))[:, :2], [[0, 0], [0, 1]])


@pytest.mark.parametrize("arm_encoding", ["auto", "label", "one_hot", "none"])
@pytest.mark.parametrize("categories", ["codes", "one_hot"])
@pytest.mark.parametrize("arms", [ARMS, None])
def test_state_restores_the_same_encoding(arm_encoding, categories, arms):
    encoder = Encoder(COLUMNS, arms, arm_encoding=arm_encoding, categories=categories)
    again = Encoder.restored(encoder.state(), categories=categories)
    np.testing.assert_array_equal(encoder(CONTEXTS, arms), again(CONTEXTS, arms))


def test_column_groups_are_the_one_hot_columns_of_each_category():
    one_hot = OneHot(Columns((0, 3, 0, 1, 2)))
    assert one_hot.column_groups == ((1, 4), (5, 6), (6, 8))
    assert one_hot.numbers.tolist() == [True, False, False, False, True, False, False, False]
    encoder = Encoder(COLUMNS, ARMS, arm_encoding="one_hot", categories="one_hot")
    assert encoder.column_groups == ((0, 2), (3, 6))
    for start, stop in encoder.column_groups:
        assert (encoder(CONTEXTS, ARMS)[:, start:stop].sum(axis=1) == 1).all()
    assert Encoder(COLUMNS, ARMS, categories="codes").column_groups == ()
    assert Encoder(COLUMNS, None, categories="one_hot").column_groups == ((1, 4),)


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
    values = np.array([np.nan, -1, -0.0, 0, 0.5, 1, 2, 3, 4, 7], np.float32)
    contexts = np.random.default_rng(seed).choice(values, (n, len(categories)))
    contexts = np.asfortranarray(contexts) if fortran else contexts
    given_contexts = contexts.copy()
    expected = slow_one_hot(contexts, columns)
    features = OneHot(columns)(contexts)
    assert features.dtype == np.float32
    np.testing.assert_array_equal(features, expected)
    assert not np.shares_memory(features, contexts)
    np.testing.assert_array_equal(contexts, given_contexts)


def test_one_hot_refuses_wrong_shapes():
    encoder = OneHot(Columns((0, 2)))
    for wrong in (np.zeros((2, 3), np.float32), np.zeros(2, np.float32)):
        with pytest.raises(ShapeError, match=r"expected \(n, 2\)"):
            encoder(wrong)
