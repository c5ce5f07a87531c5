from dataclasses import dataclass, field

import numpy as np
import pytest

from treebandit import TETS, UCB1, Bandit, LinUCB, TreeBootstrap, Uniform
from treebandit.errors import ParameterError
from treebandit.parameters import check_choice, check_number, check_seed, check_text

NOT_NUMBERS = [
    "1",
    None,
    True,
    [1],
    {},
    np.ones(2),
    1j,
    float("nan"),
    float("inf"),
    -np.inf,
    object,
    np.bool_(1),
]


@pytest.mark.parametrize("value", NOT_NUMBERS, ids=repr)
def test_what_is_no_number_is_refused(value):
    with pytest.raises(ParameterError, match=r"size is .*; give a finite number"):
        check_number("size", value)


@pytest.mark.parametrize(
    ("value", "limits", "message"),
    [
        (0, {"least": 1, "whole": True}, "size is 0; give a whole number of at least 1"),
        (1.5, {"whole": True}, "size is 1.5; give a whole number"),
        (0.0, {"above": 0.0}, "size is 0.0; give a finite number above 0"),
        (2.0, {"least": 0.0, "most": 0.5}, "size is 2.0; give a finite number of at least 0 and at most 0.5"),
        ("a", {"optional": True}, "size is 'a'; give a finite number, or leave it out"),
        ("a" * 500, {}, r"^.{20,80}$"),
    ],
)
def test_limits_are_named(value, limits, message):
    with pytest.raises(ParameterError, match=message):
        check_number("size", value, **limits)


def test_good_values_pass():
    for value in (0, -3.5, np.float32(2), np.int8(1), 10**400):
        check_number("size", value)
    check_number("size", np.int64(3), least=3, most=3, whole=True)
    check_number("size", None, optional=True)
    for seed in (None, 0, 2**70, np.uint8(3)):
        check_seed(seed)
    check_choice("kind", "b", ("a", "b"))
    check_text("label", "y")
    check_text("label", None, optional=True)


def test_seeds_words_and_text():
    for seed in (-1, "abc", 1.0, True, [1, 2]):
        with pytest.raises(
            ParameterError, match="seed is .*; give a whole number of at least 0, or leave it out"
        ):
            check_seed(seed)
    for kind in ("c", None, 3, ["a"], np.array(["a", "b"])):
        with pytest.raises(ParameterError, match="kind is .*; give one of a, b"):
            check_choice("kind", kind, ("a", "b"))
    for text in ("", "a\0", None, 3, b"y", ["y"]):
        with pytest.raises(ParameterError, match="label is .*; give text"):
            check_text("label", text)


def test_a_time_span_is_no_whole_number():
    with pytest.raises(ParameterError, match="size is"):
        check_number("size", np.timedelta64(3, "s"), whole=True)


@pytest.mark.parametrize("seed", ["abc", -1, 1.5, True, [1, 2], np.random.default_rng(0), np.timedelta64(1)])
@pytest.mark.parametrize("kind", [Uniform, LinUCB, Bandit])
def test_a_seed_that_is_none_is_told_when_an_agent_is_made(kind, seed):
    with pytest.raises(ParameterError, match="seed is"):
        kind(seed=seed)


@pytest.mark.parametrize("standardise", [None, 1, "yes", np.ones(2)])
def test_flags_of_agents_are_flags(standardise):
    for kind in (UCB1, TreeBootstrap, TETS):
        with pytest.raises(ParameterError, match=rf"{kind.__name__}.standardise is .*; give true or false"):
            kind(standardise=standardise)


def test_numbers_of_numpy_become_plain_ones():
    agent = LinUCB(exploration=np.float16(0.5), shared=np.bool_(True), seed=np.int8(3))
    assert [type(value) for value in (agent.exploration, agent.shared, agent.seed)] == [float, bool, int]


def test_fields_that_a_class_of_ones_own_declares_are_its_own_matter():
    @dataclass(eq=False)
    class Mine(LinUCB):
        exploration: str = "much"
        notes: list = field(default_factory=list)

        def _parts(self):
            return LinUCB(seed=0)._parts()

    assert Mine(notes="anything").exploration == "much"


def test_words_of_a_field_that_a_subclass_declares_anew_are_checked():
    @dataclass(eq=False)
    class Mine(TETS):
        leaf_output: str = "middle"

    with pytest.raises(ParameterError, match="leaf_output is 'middle'"):
        Mine()
