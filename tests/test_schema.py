import numpy as np
import pytest

from treebandit import schema
from treebandit.core import Columns
from treebandit.errors import SavedFileError

STATE = {
    "n": 3,
    "x": 0.5,
    "yes": True,
    "inner": {"a": 1},
    "none": None,
    "list": [1, 2],
    "rows": np.arange(6, dtype=np.float32).reshape(3, 2),
    "gaps": np.array([1.0, np.nan]),
    "codes": np.array([0, 2, 1]),
}


def test_what_is_right_is_given_back():
    assert schema.whole(STATE, "n", most=3) == 3
    assert schema.number(STATE, "n") == 3.0
    assert schema.number(STATE, "x", least=0.5, most=0.5) == 0.5
    assert schema.flag(STATE, "yes") is True
    assert schema.part(STATE, "inner") == {"a": 1}
    assert schema.optional(STATE, "none") is None
    assert schema.items(STATE, "list") == [1, 2]
    assert schema.array(STATE, "rows", np.float32, (None, 2)) is STATE["rows"]
    assert schema.array(STATE, "gaps", np.float64, (2,), nan=True, least=1.0).shape == (2,)
    assert schema.array(STATE, "codes", np.int64, (3,), least=0, most=2).tolist() == [0, 2, 1]


def test_arrays_are_made_ready_for_compiled_loops():
    state = {"a": np.asfortranarray(STATE["rows"])}
    state["a"].setflags(write=False)
    array = schema.array(state, "a", np.float32, (3, 2))
    assert array.flags.c_contiguous
    assert array.flags.writeable


@pytest.mark.parametrize(
    ("check", "words"),
    [
        (lambda: schema.value(STATE, "absent"), "'absent' is missing"),
        (lambda: schema.value([1], "n"), "where a table"),
        (lambda: schema.part(STATE, "n"), "n is 3; expected a table"),
        (lambda: schema.items(STATE, "n"), "expected a list"),
        (lambda: schema.items(STATE, "list", most=1), "at most 1"),
        (lambda: schema.whole(STATE, "yes"), "yes is True; expected a whole number"),
        (lambda: schema.whole(STATE, "x"), "x is 0.5; expected a whole number"),
        (lambda: schema.whole(STATE, "n", most=2), "from 0 to 2"),
        (lambda: schema.whole({"n": 10**400}, "n"), "a whole number"),
        (lambda: schema.number({"x": float("nan")}, "x"), "finite"),
        (lambda: schema.number({"x": float("inf")}, "x"), "finite"),
        (lambda: schema.number({"x": 10**400}, "x"), "finite"),
        (lambda: schema.number(STATE, "x", least=1), "from 1"),
        (lambda: schema.number(STATE, "yes"), "expected a number"),
        (lambda: schema.flag(STATE, "n"), "true or false"),
        (lambda: schema.array(STATE, "n", np.float32, (2,)), "expected an array of float32 and shape"),
        (
            lambda: schema.array(STATE, "rows", np.float64, (3, 2)),
            "of float32 .* expected an array of float64",
        ),
        (lambda: schema.array(STATE, "rows", ">f4", (3, 2)), "expected an array of >f4"),
        (lambda: schema.array(STATE, "rows", np.float32, (3, 3)), r"shape \(3, 2\); .* shape \(3, 3\)"),
        (lambda: schema.array(STATE, "rows", np.float32, (6,)), r"shape \(6,\)"),
        (lambda: schema.array(STATE, "gaps", np.float64, (2,)), "gaps holds numbers that are not finite"),
        (lambda: schema.array({"a": np.array([np.inf])}, "a", np.float64, (1,), nan=True), "not finite"),
        (lambda: schema.array(STATE, "codes", np.int64, (3,), least=1), "from 0 to 2; expected 1"),
        (lambda: schema.array(STATE, "codes", np.int64, (3,), most=1), "expected None to 1"),
        (lambda: schema.columns([], [0, -1]), "categories of a column is -1"),
        (lambda: schema.columns([], [0, True]), "categories of a column is True"),
        (lambda: schema.columns([], [2**20, 1]), "columns and categories in all"),
        (lambda: schema.columns(["a"], [0, 0]), "names of columns"),
        (lambda: schema.columns(None, [0, 0]), "two lists"),
    ],
)
def test_what_is_wrong_is_named(check, words):
    with pytest.raises(SavedFileError, match=words):
        check()


def test_columns():
    assert schema.columns(["a", "b"], [0, 3]) == Columns((0, 3), ("a", "b"))
    assert schema.columns([], [0, 3]) == Columns((0, 3))


def random_state(**changes):
    state = np.random.default_rng(0).bit_generator.state
    return {"random": {**state, **changes}}


def test_random_states():
    state = random_state()
    assert schema.random_state(state, "random") == state["random"]
    for change in (
        {"bit_generator": "MT19937"},
        {"has_uint32": 2},
        {"uinteger": 2**32},
        {"state": {"state": 0, "inc": 0}},  # draws 0 for ever, and choosing would never end
        {"state": {"state": 2**128, "inc": 1}},
        {"state": {"state": -1, "inc": 1}},
        {"state": 3},
    ):
        with pytest.raises(SavedFileError):
            schema.random_state(random_state(**change), "random")
