"""Every public name says what it is for, explains its arguments, and shows an example that runs."""

import doctest
import inspect
import typing
from importlib import import_module

import pytest

import treebandit
from treebandit.docstrings import described, inherit_arguments
from treebandit.registry import _PUBLIC

PUBLIC = {
    f"{module}.{name}": (f"treebandit.{module}", name)
    for modules in _PUBLIC.values()
    for module, names in modules.items()
    for name in names.split()
}
#: Names of values and types, which have no docstring of their own.
VALUES = {"core.Oracle", "datasets.catalogue.CATALOGUE", "evaluation.estimators.ESTIMATORS"}


def look_up(name):
    module, attribute = PUBLIC[name]
    return getattr(import_module(module), attribute)


CLASSES = [name for name in PUBLIC if name not in VALUES and isinstance(look_up(name), type)]


@pytest.mark.parametrize("name", [name for name in PUBLIC if name not in VALUES])
def test_public_names_say_what_they_are_for(name):
    first = (look_up(name).__doc__ or "").split("\n\n")[0].strip()
    assert first.endswith((".", ":")), f"{name}: {first!r}"


@pytest.mark.parametrize("name", CLASSES)
def test_all_arguments_are_explained(name):
    thing = look_up(name)
    if typing.is_protocol(thing) if hasattr(typing, "is_protocol") else getattr(thing, "_is_protocol", False):
        return
    known = set().union(*(names for names, _ in described(thing.__doc__)))
    missing = [each for each in inspect.signature(thing).parameters if each not in known | {"args", "kwargs"}]
    assert not missing, f"help({thing.__name__}) does not explain {missing}"


@pytest.mark.parametrize("name", CLASSES)
def test_examples_run(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    thing = look_up(name)
    assert ">>> " in (thing.__doc__ or ""), f"{name} has no example"
    found = doctest.DocTestFinder(recurse=False).find(thing, thing.__name__, globs={"treebandit": treebandit})
    report = []
    for test in found:
        doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE).run(
            test, out=report.append
        )
    assert not report, "".join(report)


def test_inherited_arguments_are_explained_once_before_the_example():
    class Base:
        """A base.

        one: the first.
        two, three: the others,
            together.
        four: no field.
        """

        one: int
        two: int
        three: int

    class Derived(Base):
        """Derived.

        one: mine.

        >>> 1 + 1
        2
        """

    inherit_arguments(Derived)
    expected = "Derived.\n\none: mine.\ntwo, three: the others,\n    together.\n\n>>> 1 + 1\n2"
    assert Derived.__doc__ == expected


def test_help_of_the_default_agent_begins_with_what_it_is_for():
    first = treebandit.Bandit.__doc__.split("\n\n")[0]
    assert "decide" in first or "decisions" in first
