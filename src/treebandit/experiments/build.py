"""Tables of a study file -> objects: `class` names what is built, the other keys are its arguments.

A study may name any class as "package.module:Class": to run or check a study is to run that code.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import Any

from treebandit import registry
from treebandit.core import Agent, Environment
from treebandit.errors import DescriptionError, StudyError

_NOT_ARGUMENTS = ("name", "batch")
#: TOML has no word for None.
_NONE = "unlimited"


def build_agent(table: Mapping[str, Any], *, seed: int) -> Agent:
    """The agent that a table describes."""
    agent: Agent = _build(table, "agent", seed)
    return agent


def build_environment(
    table: Mapping[str, Any], *, seed: int, delayed: bool = True, foreign: bool = False
) -> Environment:
    """The environment that a table describes; `batch` wraps it in `Delayed`, unless `delayed` is false.

    foreign: the table is from a record that anyone may have written, so only registered classes are built.
    """
    environment: Environment = _build(table, "environment", seed, foreign=foreign)
    if delayed and "batch" in table:
        from treebandit.environments import Delayed

        late: Environment = Delayed(environment, batch=table["batch"])
        return late
    return environment


def check_table(table: Mapping[str, Any], kind: str) -> None:
    """Find the classes and arguments of an agent's or environment's table, and build nothing."""
    if kind == "agent" and "batch" in table:
        raise StudyError(f"agent {table.get('name')!r} sets batch; it belongs to the environment")
    _build(table, kind, 0, dry=True)


def find_class(name: Any) -> Callable[..., Any]:
    """The registered class of this name, or the one that "package.module:Class" names."""
    elsewhere = isinstance(name, str) and ":" in name
    return _find_elsewhere(name, "a table") if elsewhere else registry.find(name)


def _build(
    table: Mapping[str, Any], kind: str, seed: int, *, foreign: bool = False, dry: bool = False
) -> Any:
    where = f"{kind} {table.get('name')!r}"
    description = _described({key: value for key, value in table.items() if key not in _NOT_ARGUMENTS})
    classes = (
        {} if foreign else {name: _find_elsewhere(name, at) for name, at in _foreign(description, where)}
    )
    try:
        target = registry.find(description.get("class"), classes=classes, where=where)
        if "seed" in inspect.signature(target).parameters:
            description["seed"] = seed
        return registry.build(description, classes=classes, where=where, dry=dry)
    except DescriptionError as error:
        raise StudyError(str(error)) from error


def _described(value: Any) -> Any:
    """A table's values as a description has them."""
    if isinstance(value, Mapping):
        return {key: _described(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_described(part) for part in value]
    return None if isinstance(value, str) and value == _NONE else value


def _foreign(value: Any, where: str) -> Iterator[tuple[str, str]]:
    """All names "package.module:Class" in a description, and where they are."""
    if isinstance(value, Mapping):
        name = value.get("class")
        if isinstance(name, str) and ":" in name:
            yield name, where
        for key, part in value.items():
            yield from _foreign(part, f"{where}, {key}")
    elif isinstance(value, list):
        for part in value:
            yield from _foreign(part, where)


def _find_elsewhere(name: str, where: str) -> Callable[..., Any]:
    module_name, _, attribute = name.partition(":")
    try:
        module = import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise
        raise StudyError(
            f"{where}: no module {module_name!r}; install it or put it beside the study file"
        ) from error
    found: Callable[..., Any] | None = getattr(module, attribute, None)
    if found is None or not callable(found):
        raise StudyError(f"{where}: module {module_name!r} has no class {attribute!r}")
    return found
