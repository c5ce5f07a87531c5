import numpy as np
import pytest

from treebandit.core import Columns
from treebandit.errors import ParameterError
from treebandit.features.encoding import Encoder, check_encoding

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


def test_an_arm_met_later_is_all_zeros_in_one_hot():
    encoder = Encoder(COLUMNS, ARMS, arm_encoding="one_hot")
    np.testing.assert_array_equal(encoder(CONTEXTS, np.array([99, 7]))[:, :2], [[0, 0], [0, 1]])


@pytest.mark.parametrize("arm_encoding", ["auto", "label", "one_hot", "none"])
@pytest.mark.parametrize("categories", ["codes", "one_hot"])
@pytest.mark.parametrize("arms", [ARMS, None])
def test_state_restores_the_same_encoding(arm_encoding, categories, arms):
    encoder = Encoder(COLUMNS, arms, arm_encoding=arm_encoding, categories=categories)
    again = Encoder.restored(encoder.state(), categories=categories)
    np.testing.assert_array_equal(encoder(CONTEXTS, arms), again(CONTEXTS, arms))


def test_unknown_names_are_refused():
    with pytest.raises(ParameterError, match="arm_encoding='number'"):
        check_encoding("number", "codes")
    with pytest.raises(ParameterError, match="categories='dummy'"):
        check_encoding("label", "dummy")
