"""Agents and environments of a study, made once before the first run."""

from __future__ import annotations

import inspect
import json
import traceback
from collections.abc import Iterable
from pathlib import Path

from treebandit.core import Agent, Environment, optional
from treebandit.errors import MissingLogError, RoadsError, StudyError, TreebanditError
from treebandit.experiments.build import build_agent, build_environment, check_table, find_class
from treebandit.experiments.spec import RunSpec, Table, shown


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
            key = json.dumps([kind, table, run.rounds is None], sort_keys=True, default=str)
            if key in seen:
                continue
            seen.add(key)
            try:
                _check(table, kind, endless=run.rounds is not None or not rounds)
            except ImportError:
                continue
            except (RoadsError, MissingLogError) as error:
                if roads or "roads" in table:
                    raise _refused(table, kind, source, error) from error
            except (Exception, SystemExit) as error:
                raise _refused(table, kind, source, error) from error


def takes(table: Table, *arguments: str) -> bool:
    """Whether the class that a table names has all these arguments."""
    try:
        return set(arguments) <= set(inspect.signature(find_class(table["class"])).parameters)
    except (Exception, SystemExit):
        return False


def _check(table: Table, kind: str, *, endless: bool) -> None:
    check_table(table, kind)
    if kind == "agent":
        if not isinstance(build_agent(table, seed=0), Agent):
            raise StudyError(f"class is {table['class']!r}, which is no agent: it lacks score or learn")
        return
    environment = build_environment(table, seed=0)
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
