import json
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, get_type_hints

import numpy as np
import pytest

import treebandit
from treebandit import TETS, EpsilonGreedy, LinUCB, TopK, XGBoostTrees, best_arm
from treebandit.errors import DescriptionError
from treebandit.registry import KINDS, build, class_name, classes_in, describe, find, registered


@dataclass(frozen=True)
class Part:
    size: int = 1
    inner: Any = None
    table: dict = field(default_factory=dict)


def again(thing, **options):
    return build(json.loads(json.dumps(describe(thing))), **options)


@pytest.mark.parametrize(
    "thing",
    [
        TETS(XGBoostTrees(n_trees=3, options={"max_bin": 64}), exploration=0.25, seed=5),
        EpsilonGreedy(LinUCB(shared=True), seed=np.int64(3)),
        TopK(2),
        [1, 2.5, None, True, "text"],
    ],
)
def test_a_description_is_plain_and_builds_the_object_again(thing):
    assert repr(again(thing)) == repr(thing).replace("np.int64(3)", "3")


def test_a_registered_function_is_described_by_its_name():
    assert describe(best_arm) == {"class": "best_arm"}
    assert again(best_arm) is best_arm


@pytest.mark.parametrize("key", ["class", "$class", "$", "$$array", "$array"])
def test_no_key_of_a_mapping_is_taken_for_a_class(key):
    part = Part(table={key: {"class": "os:system", "command": "true"}})
    assert again(part, classes=[Part]) == part


def test_classes_of_ones_own_must_be_handed_over():
    part = Part(2, Part(3))
    with pytest.raises(DescriptionError, match=r"no class of treebandit; .* classes=\[Part\]"):
        again(part)
    assert again(part, classes=[Part]) == part
    assert classes_in(part) == [Part, Part]


def test_a_class_that_has_moved_is_known_by_its_last_name():
    assert build({"class": "__main__:Outer.Part", "size": 4}, classes=[Part]) == Part(4)
    with pytest.raises(DescriptionError, match="no class of treebandit"):
        build({"class": "__main__:Whole"}, classes=[Part])


def test_only_the_kinds_asked_for_are_built():
    with pytest.raises(DescriptionError, match="no class 'Synthetic'"):
        build({"class": "Synthetic"}, kinds=["agent"])
    assert find("TETS", kinds=["agent"]) is TETS


@pytest.mark.parametrize(
    ("description", "words"),
    [
        ({"class": "os:system", "command": "true"}, "'os:system' is no class of treebandit"),
        ({"class": "Oracle9"}, "no class 'Oracle9'; .*TETS"),
        ({"class": ["TETS"]}, "class is"),
        (
            {"class": "TETS", "colour": "red"},
            "unknown key 'colour'; did you mean 'columns'. allowed are trees",
        ),
        ({"class": "TETS", "_random": 1}, "unknown key '_random'"),
        (
            {"class": "TETS", "trees": {"class": "XGBoostTrees", "n_trees": 1.5}},
            "trees: n_trees is 1.5; expected a whole",
        ),
        ({"class": "TETS", "trees": None}, "trees is None"),
        ({"class": "TETS", "seed": "abc"}, "seed is 'abc'; expected a whole number or none"),
        ({"class": "TETS", "random_start": 3}, "random_start is 3; expected one of 'per_arm'"),
        ({"class": "Bandit", "linear": 1}, "linear is 1; expected true or false"),
        ({"class": "NeuralUCB", "hidden": ["a"]}, "hidden is .*; expected a list"),
        ({"class": "TopK"}, "k is missing"),
    ],
)
@pytest.mark.parametrize("dry", [False, True])
def test_descriptions_are_checked_before_a_constructor_is_called(description, words, dry):
    with pytest.raises(DescriptionError, match=words):
        build(description, dry=dry)


def test_deep_descriptions_are_refused():
    deep: Any = None
    for _ in range(5000):
        deep = {"class": "EpsilonGreedy", "agent": deep}
    with pytest.raises(DescriptionError, match="too many objects"):
        build(deep)


class Plain:
    """Not a dataclass."""


@pytest.mark.parametrize(
    "inner", [Plain(), len, lambda x: x, Plain, np.random.default_rng(0), object(), {1: 2}]
)
def test_what_cannot_be_described_is_refused(inner):
    with pytest.raises(DescriptionError, match="Part, inner"):
        describe(Part(inner=inner))


def test_what_holds_itself_is_refused():
    agent = EpsilonGreedy()
    agent.agent = agent
    with pytest.raises(DescriptionError, match="holds itself"):
        describe(agent)


@pytest.mark.parametrize("kind", KINDS)
def test_every_registered_class_declares_types_that_can_be_read(kind):
    for name, module in registered(kind).items():
        thing = getattr(import_module(module), name)
        assert class_name(thing) == name
        assert get_type_hints(thing if hasattr(thing, "__dataclass_fields__") else thing.__init__) is not None
        if kind != "environment":
            assert getattr(treebandit, name) is thing
