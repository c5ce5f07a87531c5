"""RunSpec and Study, read from TOML; the id of a run is a hash of its spec."""

from __future__ import annotations

import contextlib
import hashlib
import json
import tomllib
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from treebandit.datasets.roads import roads_checksum
from treebandit.errors import RoadsError, StudyError

STUDIES = Path(__file__).parent / "studies"
ID_LENGTH = 12

_STUDY_KEYS = {
    "agents_of",
    "title",
    "rounds",
    "seeds",
    "environments",
    "environment",
    "agents",
    "agent",
    "vary",
}
_VARY_KEYS = {"parameter", "values"}
_FILE_KEYS = ("csv", "parquet")
_PATH_KEYS = (*_FILE_KEYS, "roads")


@dataclass(frozen=True)
class RunSpec:
    """Everything that decides one run: the agent, the environment, the seed and the number of rounds.

    agent, environment: tables of a study file, their `name` included. rounds: None for as many as there are.
    varied, value: the parameter that the study varies and what it is here; already set in the tables.
    """

    agent: Mapping[str, Any]
    environment: Mapping[str, Any]
    seed: int
    rounds: int | None
    study: str = ""
    varied: str | None = None
    value: Any = None

    @cached_property
    def run_id(self) -> str:
        """A short hash of the spec, the same for any order of keys and in any study."""
        description = {
            "agent": self.agent,
            "environment": _without_folder(self.environment),
            "seed": self.seed,
            "rounds": self.rounds,
        }
        if self.varied is not None:
            description |= {"varied": self.varied, "value": self.value}
        text = json.dumps(_canonical(description), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:ID_LENGTH]

    def to_dict(self) -> dict[str, Any]:
        """The spec as plain tables, with its run id."""
        return {
            "run_id": self.run_id,
            "study": self.study,
            "agent": deepcopy(dict(self.agent)),
            "environment": deepcopy(dict(self.environment)),
            "seed": self.seed,
            "rounds": self.rounds,
            "varied": self.varied,
            "value": self.value,
        }

    @classmethod
    def from_dict(cls, table: Mapping[str, Any]) -> RunSpec:
        """The spec that `to_dict` gave."""
        return cls(**{name: value for name, value in table.items() if name != "run_id"})

    def plan_row(self) -> dict[str, Any]:
        """The run as a row of the folder's plan."""
        return self.to_dict() | {
            "agent": self.agent["name"],
            "environment": self.environment["name"],
            "value": value_text(self.value),
        }


@dataclass(frozen=True)
class Study:
    """A grid of agents x environments x seeds, and perhaps x values of one parameter."""

    name: str
    agents: tuple[Mapping[str, Any], ...]
    environments: tuple[Mapping[str, Any], ...]
    seeds: tuple[int, ...]
    rounds: int | None = None
    title: str = ""
    varied: str | None = None
    values: tuple[Any, ...] = ()
    source: str = ""

    def runs(self) -> Iterator[RunSpec]:
        """All runs, seed by seed, so that an early look at the results has a bit of everything."""
        for seed in self.seeds:
            for value in self.values if self.varied else (None,):
                for environment in self.environments:
                    for agent in self.agents:
                        yield self._run(agent, environment, seed, value)

    def _run(
        self, agent: Mapping[str, Any], environment: Mapping[str, Any], seed: int, value: Any
    ) -> RunSpec:
        tables = {"agent": deepcopy(dict(agent)), "environment": deepcopy(dict(environment))}
        if self.varied is not None:
            _set(tables, self.varied, value, self.source)
        rounds = tables["environment"].pop("rounds", self.rounds)
        return RunSpec(
            tables["agent"],
            tables["environment"],
            seed,
            rounds,
            study=self.name,
            varied=self.varied,
            value=value,
        )

    def select(
        self,
        *,
        seeds: int | None = None,
        rounds: int | None = None,
        agents: tuple[str, ...] = (),
        environments: tuple[str, ...] = (),
    ) -> Study:
        """The study with other seeds or rounds, or with some of its agents and environments only."""
        study = self
        if seeds is not None:
            study = replace(study, seeds=_read_seeds(seeds, "--seeds"))
        if rounds is not None:
            shorter = tuple(
                {**table, "rounds": _read_rounds(rounds, "--rounds")} for table in self.environments
            )
            study = replace(study, rounds=rounds, environments=shorter)
        if agents:
            study = replace(study, agents=_named(study.agents, agents, "agent", self.source))
        if environments:
            chosen = _named(study.environments, environments, "environment", self.source)
            study = replace(study, environments=chosen)
        return study


def value_text(value: Any) -> str | None:
    """A varied parameter's value in a table of runs: 1 and 1.0 are the same."""
    return None if value is None else str(_canonical(value))


def shipped_studies() -> list[str]:
    """The names of the studies that come with the package."""
    return sorted(path.stem for path in STUDIES.glob("*.toml"))


def load_study(study: str | Path) -> Study:
    """Read a study: the name of a shipped one, or a TOML file."""
    path = Path(study)
    if path.suffix != ".toml":
        path = STUDIES / f"{study}.toml"
        if not path.is_file():
            raise StudyError(
                f"no study {str(study)!r}; give one of {', '.join(shipped_studies())} or a .toml file"
            )
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise StudyError(f"{path} cannot be opened: {error.strerror}; check the path") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise StudyError(f"{path} is not TOML: {error}") from error
    return read_study(table, name=path.stem, source=str(path), folder=path.parent)


def read_study(table: Mapping[str, Any], *, name: str, source: str, folder: Path) -> Study:
    """The study that a table describes; files named in it are relative to `folder`."""
    _check_keys(table, _STUDY_KEYS, source)
    agents = _unique(_read_agents(table, source, folder), source)
    environments = _unique(
        [_read_environment(entry, source, folder) for entry in _entries(table, "environment", source)], source
    )
    vary = table.get("vary")
    if vary is not None:
        _check_vary(vary, source)
    study = Study(
        name=name,
        agents=agents,
        environments=environments,
        seeds=_read_seeds(table.get("seeds", 10), f"{source}: seeds"),
        rounds=_read_rounds(table.get("rounds"), f"{source}: rounds"),
        title=str(table.get("title", "")),
        varied=vary["parameter"] if vary else None,
        values=tuple(vary["values"]) if vary else (),
        source=source,
    )
    next(study.runs())  # a parameter that cannot be varied shows here
    return study


def _read_agents(table: Mapping[str, Any], source: str, folder: Path) -> list[dict[str, Any]]:
    """The agents of the study that `agents_of` names, if any, then the table's own."""
    if (other := table.get("agents_of")) is None:
        return [_read_agent(entry, source) for entry in _entries(table, "agent", source)]
    if not isinstance(other, str):
        raise StudyError(f"{source}: agents_of is {other!r}; give a study's name or file")
    taken = load_study(folder / other if other.endswith(".toml") else other).agents
    own = _entries(table, "agent", source) if {"agent", "agents"} & set(table) else []
    return [dict(agent) for agent in taken] + [_read_agent(entry, source) for entry in own]


def _entries(table: Mapping[str, Any], key: str, source: str) -> list[Any]:
    several, single = table.get(f"{key}s", []), table.get(key)
    if not isinstance(several, list):
        raise StudyError(f"{source}: {key}s is {several!r}; give a list")
    entries = [*several, *([] if single is None else [single])]
    if not entries:
        raise StudyError(f"{source}: no {key}; give {key}s = [...] with at least one")
    return entries


def _read_agent(entry: Any, source: str) -> dict[str, Any]:
    table = {"class": entry} if isinstance(entry, str) else entry
    if not isinstance(table, dict) or not ("class" in table or "name" in table):
        raise StudyError(f"{source}: agent {entry!r}; give a table with name and class")
    table = {
        "name": table.get("name", table.get("class")),
        "class": table.get("class", table.get("name")),
        **table,
    }
    _check_name(table, "agent", source)
    return table


def _read_environment(entry: Any, source: str, folder: Path) -> dict[str, Any]:
    table = {"name": entry} if isinstance(entry, str) else entry
    if not isinstance(table, dict):
        raise StudyError(f"{source}: environment {entry!r}; give a data set's name or a table")
    files = [key for key in _FILE_KEYS if key in table]
    guess = table.get("data") or (Path(str(table[files[0]])).stem if files else table.get("class"))
    table = {"name": guess, "class": "Classification", **table}
    if table["class"] == "Classification" and not files:
        table.setdefault("data", table["name"])
    for key in files:
        path = (folder / str(table[key])).resolve()
        if not path.is_file():
            raise StudyError(
                f"{source}: {key} {table[key]!r} is no file ({path}); paths are relative to the study"
            )
        table |= {key: str(path), "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
    if table["class"] == "Navigation":
        with contextlib.suppress(RoadsError):  # without roads the runs will fail, and say so
            table.setdefault("sha256", roads_checksum(table.get("roads")))
    _check_name(table, "environment", source)
    if "rounds" in table:
        _read_rounds(table["rounds"], f"{source}: rounds of {table['name']}")
    return table


def _check_name(table: Mapping[str, Any], kind: str, source: str) -> None:
    if not isinstance(table["name"], str) or not table["name"]:
        raise StudyError(f'{source}: {kind} {dict(table)!r} has no name; add name = "..."')
    if "seed" in table:
        raise StudyError(
            f"{source}: {kind} {table['name']!r} sets seed; seeds belong to the study: seeds = 10"
        )


def _check_keys(table: Mapping[str, Any], allowed: set[str], source: str) -> None:
    for key in table:
        if key not in allowed:
            raise StudyError(f"{source}: unknown key {key!r}; allowed are {', '.join(sorted(allowed))}")


def _check_vary(vary: Any, source: str) -> None:
    if not isinstance(vary, dict):
        raise StudyError(f"{source}: vary is {vary!r}; give a table with parameter and values")
    _check_keys(vary, _VARY_KEYS, f"{source}: vary")
    parameter, values = vary.get("parameter"), vary.get("values")
    if not isinstance(parameter, str) or parameter.split(".")[0] not in ("agent", "environment"):
        raise StudyError(
            f"{source}: vary.parameter is {parameter!r}; give a path such as agent.trees.max_depth"
        )
    if not isinstance(values, list) or not values:
        raise StudyError(f"{source}: vary.values is {values!r}; give a list such as [2, 4, 8]")


def _read_seeds(seeds: Any, source: str) -> tuple[int, ...]:
    if isinstance(seeds, int) and not isinstance(seeds, bool) and seeds >= 1:
        return tuple(range(seeds))
    if isinstance(seeds, list) and seeds and all(type(seed) is int and seed >= 0 for seed in seeds):
        return tuple(dict.fromkeys(seeds))
    raise StudyError(f"{source} is {seeds!r}; give how many there are, or a list of whole numbers")


def _read_rounds(rounds: Any, source: str) -> int | None:
    if rounds is None or (type(rounds) is int and rounds >= 1):
        return rounds
    raise StudyError(f"{source} is {rounds!r}; give a whole number of at least 1")


def _unique(tables: list[dict[str, Any]], source: str) -> tuple[dict[str, Any], ...]:
    names = [table["name"] for table in tables]
    for name in names:
        if names.count(name) > 1:
            raise StudyError(
                f"{source}: the name {name!r} is used {names.count(name)} times; give each its own"
            )
    return tuple(tables)


def _named(
    tables: tuple[Mapping[str, Any], ...], names: tuple[str, ...], kind: str, source: str
) -> tuple[Mapping[str, Any], ...]:
    known = [table["name"] for table in tables]
    for name in names:
        if name not in known:
            raise StudyError(f"{source} has no {kind} {name!r}; it has {', '.join(known)}")
    return tuple(table for table in tables if table["name"] in names)


def _set(tables: dict[str, Any], parameter: str, value: Any, source: str) -> None:
    *path, last = parameter.split(".")
    table: Any = tables
    for step in path:
        table = table.get(step) if isinstance(table, dict) else None
    if not isinstance(table, dict):
        agent = tables["agent"]["name"]
        raise StudyError(f"{source}: {parameter} cannot be varied, {agent!r} has no table {'.'.join(path)}")
    table[last] = value


def _canonical(value: Any) -> Any:
    """The value with whole floats as integers, so that 1 and 1.0 are the same setting."""
    if isinstance(value, Mapping):
        return {key: _canonical(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_canonical(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _without_folder(environment: Mapping[str, Any]) -> dict[str, Any]:
    """A user's file or road network counts by its name and checksum, wherever it lies."""
    if "sha256" not in environment:
        return dict(environment)
    return {key: Path(item).name if key in _PATH_KEYS else item for key, item in environment.items()}
