import json
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trees.library import fit

from treebandit.errors import SavedFileError
from treebandit.trees import XGBoostTrees, ubjson

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)


def integer(number):
    for mark, code, bits in ((b"i", ">b", 8), (b"I", ">h", 16), (b"l", ">i", 32), (b"L", ">q", 64)):
        if -(2 ** (bits - 1)) <= number < 2 ** (bits - 1):
            return mark + struct.pack(code, number)
    raise AssertionError(number)


def key(text):
    encoded = text.encode()
    return integer(len(encoded)) + encoded


def write(value, *, counted):
    """UBJSON as its specification has it, one value at a time."""
    if value is None or isinstance(value, bool):
        return {None: b"Z", True: b"T", False: b"F"}[value]
    if isinstance(value, int):
        return integer(value)
    if isinstance(value, float):
        return b"D" + struct.pack(">d", value)
    if isinstance(value, str):
        return b"S" + key(value)
    head = b"#" + integer(len(value)) if counted else b""
    if isinstance(value, list):
        body = b"".join(write(member, counted=counted) for member in value)
        return b"[" + head + body + (b"" if counted else b"]")
    body = b"".join(key(name) + write(member, counted=counted) for name, member in value.items())
    return b"{" + head + body + (b"" if counted else b"}")


@settings(deadline=None)
@given(values, st.booleans())
def test_what_is_written_is_read(value, counted):
    assert ubjson.read(write(value, counted=counted)) == value


@pytest.mark.parametrize(("mark", "dtype"), [(b"d", ">f4"), (b"l", ">i4"), (b"L", ">i8"), (b"U", "u1")])
def test_arrays_of_one_kind_are_numpy_arrays(mark, dtype):
    numbers = np.array([0, 1, 5, 127], dtype)
    array = ubjson.read(b"[$" + mark + b"#" + integer(4) + numbers.tobytes())
    assert isinstance(array, np.ndarray)
    np.testing.assert_array_equal(array, numbers)


def test_a_typed_object_shares_its_kind():
    data = b"{$i#" + integer(2) + key("a") + b"\x01" + key("b") + b"\xff"
    assert ubjson.read(data) == {"a": 1, "b": -1}


def test_a_character_is_a_string():
    assert ubjson.read(b"Cx") == "x"


@pytest.mark.parametrize(
    "data", [b"", b"S", b"Si\x05ab", b"[", b"{i\x01a", b"?", b"[$d#i\x03\x00\x00", b"Si\x01\xff", b"L\x00"]
)
def test_a_damaged_document_is_refused(data):
    with pytest.raises(SavedFileError, match="UBJSON"):
        ubjson.read(data)


def test_a_model_of_xgboost_reads_as_its_json_does():
    random = np.random.default_rng(0)
    model = fit(XGBoostTrees(n_trees=3), random.random((40, 2), np.float32), random.random(40)).model

    def plain(value):
        if isinstance(value, dict):
            return {name: plain(member) for name, member in value.items()}
        if isinstance(value, np.ndarray):
            return pytest.approx(value.tolist(), rel=1e-6)
        return [plain(member) for member in value] if isinstance(value, list) else value

    binary, text = (bytes(model.save_raw(kind)) for kind in ("ubj", "json"))
    ours, theirs = ubjson.read(binary)["learner"], json.loads(text)["learner"]
    assert theirs["gradient_booster"]["model"]["trees"] == [
        plain(tree) for tree in ours["gradient_booster"]["model"]["trees"]
    ]
    assert ours["learner_model_param"]["num_feature"] == theirs["learner_model_param"]["num_feature"]
