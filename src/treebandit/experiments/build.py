"""Tables of a study file -> objects: `class` names what is built, the other keys are its arguments."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from treebandit.core import Agent, Environment
from treebandit.errors import StudyError

ROOMS = ("treebandit.agents", "treebandit.trees", "treebandit.environments", "treebandit.oracles")
_NOT_ARGUMENTS = ("name", "class", "batch")
#: TOML has no word for None.
_NONE = "unlimited"


def build_agent(table: Mapping[str, Any], *, seed: int) -> Agent:
    """The agent that a table describes."""
    agent: Agent = _build(_arguments(table), table["class"], where=f"agent {table['name']!r}", seed=seed)
    return agent


def build_environment(table: Mapping[str, Any], *, seed: int, delayed: bool = True) -> Environment:
    """The environment that a table describes; `batch` wraps it in `Delayed`, unless `delayed` is false."""
    where = f"environment {table['name']!r}"
    environment: Environment = _build(_arguments(table), table["class"], where=where, seed=seed)
    if delayed and "batch" in table:
        from treebandit.environments import Delayed

        late: Environment = Delayed(environment, batch=table["batch"])
        return late
    return environment


def check_table(table: Mapping[str, Any], kind: str) -> None:
    """Find the classes and arguments of an agent's or environment's table, and build nothing."""
    if kind == "agent" and "batch" in table:
        raise StudyError(f"agent {table['name']!r} sets batch; it belongs to the environment")
    _check(_arguments(table), table["class"], where=f"{kind} {table['name']!r}")


def find_class(name: Any, *, where: str = "a table") -> Callable[..., Any]:
    """The class of this name in the rooms of this package, or "package.module:Class"."""
    if not isinstance(name, str):
        raise StudyError(f'{where}: class is {name!r}; give a name such as "TEUCB" or "package.module:Class"')
    if ":" in name:
        return _find_elsewhere(name, where)
    known: list[str] = []
    for room in ROOMS:
        module = import_module(room)
        if name in module.__all__:
            found: Callable[..., Any] = getattr(module, name)
            return found
        known += (each for each in module.__all__ if each[0].isupper())
    raise StudyError(f'{where}: no class {name!r}; give "package.module:Class" or one of {", ".join(known)}')


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


def _arguments(table: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in table.items() if key not in _NOT_ARGUMENTS}


def _build(arguments: Mapping[str, Any], name: Any, *, where: str, seed: int | None = None) -> Any:
    target = find_class(name, where=where)
    built = {key: _build_value(value, f"{where}, {key}") for key, value in arguments.items()}
    _check_arguments(target, built, where)
    if seed is not None and "seed" in _parameters(target):
        built["seed"] = seed
    return target(**built)


def _build_value(value: Any, where: str) -> Any:
    if isinstance(value, list):
        return [_build_value(item, where) for item in value]
    if isinstance(value, str) and value == _NONE:
        return None
    if isinstance(value, Mapping) and "class" in value:
        return _build({k: v for k, v in value.items() if k != "class"}, value["class"], where=where)
    return value


def _check(arguments: Mapping[str, Any], name: Any, *, where: str) -> None:
    _check_arguments(find_class(name, where=where), arguments, where)
    for key, value in arguments.items():
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, Mapping) and "class" in item:
                inner = {k: v for k, v in item.items() if k != "class"}
                _check(inner, item["class"], where=f"{where}, {key}")


def _check_arguments(target: Callable[..., Any], arguments: Mapping[str, Any], where: str) -> None:
    parameters = _parameters(target)
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        return
    for key in arguments:
        if key not in parameters:
            allowed = ", ".join(name for name in parameters if name != "seed")
            raise StudyError(f"{where}: unknown key {key!r}; allowed are {allowed}")


def _parameters(target: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    return inspect.signature(target).parameters
