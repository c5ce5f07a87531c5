"""Tables of a study file -> objects: `class` names what is built, the other keys are its arguments.

Each is made once before the first run, so that mistakes show early. A study may name any class as
"package.module:Class": to run or check a study is to run that code.
"""

from __future__ import annotations

import inspect
import json
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from treebandit import registry
from treebandit.core import Agent, Environment, optional
from treebandit.errors import DescriptionError, MissingLogError, RoadsError, StudyError, TreebanditError
from treebandit.experiments.own_code import own_digests, use_folders
from treebandit.experiments.spec import PATH_KEYS, RunSpec, Table, shown

#: Keys that belong to the study. The name reaches a constructor that has such an argument, too.
_NOT_ARGUMENTS = ("name", "batch")
#: TOML has no word for None.
_NONE = "unlimited"


def build_agent(table: Table, *, seed: int) -> Agent:
    """The agent that a table describes."""
    agent: Agent = _build(table, "agent", seed)
    return agent


def build_environment(
    table: Table, *, seed: int, rounds: int | None = None, delayed: bool = True, foreign: bool = False
) -> Environment:
    """The environment that a table describes; `batch` wraps it in `Delayed`, unless `delayed` is false.

    rounds: of the run, where they are set; an environment that has such an argument is made for as many.
    foreign: the table is from a record that anyone may have written, so only registered classes are built.
    """
    if rounds is not None and not foreign and takes(table, "rounds"):
        table = {**table, "rounds": rounds}
    environment: Environment = _build(table, "environment", seed, foreign=foreign)
    if delayed and "batch" in table:
        from treebandit.environments import Delayed

        late: Environment = Delayed(environment, batch=table["batch"])
        return late
    return environment


def check_runs(
    runs: Iterable[RunSpec], *, source: str = "", rounds: bool = False, roads: bool = False
) -> None:
    """Make every agent and environment of these runs once; the first mistake is a StudyError.

    A library that is not installed fails its own runs only. rounds, roads: whether the number of rounds and the
    road network or the real log, which options and the environment may give, must be known by now.
    """
    seen: set[str] = set()
    for run in runs:
        for kind, table in (("agent", run.agent), ("environment", run.environment_table())):
            key = json.dumps([kind, table, run.rounds is None, run.folders], sort_keys=True, default=str)
            if key in seen:
                continue
            seen.add(key)
            use_folders(run.folders)
            try:
                _check(table, kind, run.rounds, endless=run.rounds is not None or not rounds)
            except ImportError:
                continue
            except (RoadsError, MissingLogError) as error:
                if roads or "roads" in table:
                    raise _refused(table, kind, source, error) from error
            except (Exception, SystemExit) as error:
                raise _refused(table, kind, source, error) from error


def check_table(table: Table, kind: str) -> None:
    """Find the classes and arguments of an agent's or environment's table, and build nothing."""
    if kind == "agent" and "batch" in table:
        raise StudyError(f"agent {table.get('name')!r} sets batch; it belongs to the environment")
    _build(table, kind, 0, dry=True)


def import_classes(spec: RunSpec) -> list[str]:
    """Import the modules that a run names as "package.module:Class"; gives their names."""
    for table in (spec.agent, spec.environment):
        for name, where in _foreign(table, "a table"):
            _find_elsewhere(name, where)
    return class_modules(spec.agent, spec.environment)


def class_modules(*tables: Table) -> list[str]:
    """The modules that tables name as "package.module:Class"."""
    return sorted({name.partition(":")[0] for table in tables for name, _ in _foreign(table, "")})


def takes(table: Table, *arguments: str) -> bool:
    """Whether the class that a table names has all these arguments."""
    try:
        name = table["class"]
        elsewhere = isinstance(name, str) and ":" in name
        found = _find_elsewhere(name, "a table") if elsewhere else registry.find(name)
        return set(arguments) <= set(inspect.signature(found).parameters)
    except (Exception, SystemExit):
        return False


def _check(table: Table, kind: str, rounds: int | None, *, endless: bool) -> None:
    check_table(table, kind)
    if kind == "agent":
        if not isinstance(build_agent(table, seed=0), Agent):
            raise StudyError(f"class is {table['class']!r}, which is no agent: it lacks score or learn")
        return
    environment = build_environment(table, seed=0, rounds=rounds)
    if not isinstance(environment, Environment):
        raise StudyError(f"class is {table['class']!r}, which is no environment: it lacks observe or pull")
    if not endless and optional(environment, "horizon") is None:
        raise StudyError("it has no end; set rounds in the study, or give --rounds")


def _refused(table: Table, kind: str, source: str, error: BaseException) -> StudyError:
    """One line for whatever went wrong with a table."""
    text, where = " ".join(str(error).split()), f"{kind} {table['name']!r}"
    if not isinstance(error, TreebanditError):
        last = traceback.extract_tb(error.__traceback__)[-1]
        text = (
            f"class {shown(table['class'])} cannot be made "
            f"({type(error).__name__}: {text}; {Path(last.filename).name}, line {last.lineno})"
        )
    text = text if text.startswith(where) else f"{where}: {text}"
    text = text if len(text) <= 1000 else f"{text[:997]}..."
    return StudyError(f"{source}: {text}" if source else text)


def _build(table: Table, kind: str, seed: int, *, foreign: bool = False, dry: bool = False) -> Any:
    where = f"{kind} {table.get('name')!r}"
    description = _described({key: value for key, value in table.items() if key not in _NOT_ARGUMENTS})
    classes = (
        {} if foreign else {name: _find_elsewhere(name, at) for name, at in _foreign(description, where)}
    )
    try:
        target = registry.find(description.get("class"), classes=classes, where=where)
        arguments = inspect.signature(target).parameters
        if "batch" in table and "batch" in arguments:
            raise StudyError(
                f"{where}: {shown(table['class'])} has an argument 'batch', which it cannot get: batch in a study is "
                "how many rounds rewards come late; call an argument of your own class something else"
            )
        if "name" in table and "name" in arguments:
            description["name"] = table["name"]
        if "seed" in arguments:
            description["seed"] = seed
        if "sha256" not in arguments and any(key in description for key in PATH_KEYS):
            description.pop("sha256", None)  # it tells the run's id which file it was
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
        own_digests([module_name])
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
