"""RunSpec and Study: what is to be played; the id of a run is a hash of its spec."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any

from treebandit.errors import StudyError, nearest

ID_LENGTH = 12
#: Rounds are numbered by 32-bit integers in a record.
MOST_ROUNDS = 2**31 - 1
MOST_SEEDS = 100_000

#: Keys of an environment that name a user's own table, and all that name a file or folder.
FILE_KEYS = ("csv", "parquet")
PATH_KEYS = (*FILE_KEYS, "log", "roads")

Table = Mapping[str, Any]


@dataclass(frozen=True)
class RunSpec:
    """Everything that decides one run: the agent, the environment, the seed and the number of rounds.

    agent, environment: tables of a study file, their `name` included.
    seed: of the run; agent and environment have streams of their own of it.
    rounds: None for as many as there are.
    study: its name.
    varied, value: the parameter that the study varies and what it is here; already set in the tables.
    title, source: the study's title and file; the run does not depend on them.
    roads: folder of the road network, where the environment needs one and its table names none; likewise.
    folders: where modules with classes of one's own are looked for first; likewise.

    >>> from treebandit.experiments import RunSpec, play
    >>> agent = {"name": "LinUCB", "class": "LinUCB"}
    >>> environment = {"name": "mushroom", "class": "Classification", "data": "mushroom"}
    >>> play(RunSpec(agent, environment, seed=0, rounds=20)).frame.height
    20
    """

    agent: Table
    environment: Table
    seed: int
    rounds: int | None
    study: str = ""
    varied: str | None = None
    value: Any = None
    title: str = field(default="", compare=False)
    source: str = field(default="", compare=False)
    roads: str | None = field(default=None, compare=False)
    folders: tuple[str, ...] = field(default=(), compare=False)

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
        text = json.dumps(canonical(description), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:ID_LENGTH]

    def environment_table(self) -> Table:
        """What the environment is built from: its table, with the road network that it does not name."""
        return self.environment if self.roads is None else {"roads": self.roads, **self.environment}

    def to_dict(self) -> dict[str, Any]:
        """The spec as the plain tables that its record keeps, with its run id."""
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

    def plan_row(self) -> dict[str, Any]:
        """The run as a row of the folder's plan."""
        return self.to_dict() | {
            "agent": self.agent["name"],
            "environment": self.environment["name"],
            "value": value_text(self.value),
            "title": self.title,
            "source": _found_from_anywhere(self.source),
            "folders": list(self.folders),
        }


@dataclass(frozen=True)
class Study:
    """A grid of agents x environments x seeds, and perhaps x values of one parameter.

    name: of the study.
    agents, environments: tables of the study file.
    seeds: of the runs.
    rounds: of each run; None for as many as the environment has.
    title: what reports call it.
    varied, values: the path of the parameter that is varied, and what it takes.
    source: the study's file, or the name of a shipped one.
    roads: the folder of the road network for each environment, by its name, that needs one and names none.
    folders: where modules with classes of one's own are looked for first.

    >>> from pathlib import Path
    >>> from treebandit.experiments import load_study
    >>> _ = Path("my.toml").write_text('''
    ... rounds = 20
    ... seeds = 2
    ... environments = ["mushroom"]
    ... [[agents]]
    ... name = "LinUCB"
    ... class = "LinUCB"
    ... ''')
    >>> study = load_study("my.toml")
    >>> len(list(study.runs()))
    2
    """

    name: str
    agents: tuple[Table, ...]
    environments: tuple[Table, ...]
    seeds: tuple[int, ...]
    rounds: int | None = None
    title: str = ""
    varied: str | None = None
    values: tuple[Any, ...] = ()
    source: str = ""
    roads: Mapping[str, str] = field(default_factory=dict)
    folders: tuple[str, ...] = ()

    def __len__(self) -> int:
        values = len(self.values) if self.varied else 1
        return len(self.agents) * len(self.environments) * len(self.seeds) * values

    def runs(self) -> Iterator[RunSpec]:
        """All runs, seed by seed, so that an early look at the results has a bit of everything."""
        values = self.values if self.varied else (None,)
        for seed, value, environment, agent in product(self.seeds, values, self.environments, self.agents):
            yield self._run(agent, environment, seed, value)

    def has_dropped(self, row: Table) -> bool:
        """Whether a row of a plan is of this study, but of an agent, environment or value that it does not have now.

        Seeds and rounds do not count, since options of a command may set them.
        """
        if (row.get("study"), row.get("source")) != (self.name, _found_from_anywhere(self.source)):
            return False
        agents, environments = (
            [table["name"] for table in part] for part in (self.agents, self.environments)
        )
        values = [value_text(value) for value in self.values] if self.varied else [None]
        return (
            row.get("agent") not in agents
            or row.get("environment") not in environments
            or row.get("varied") != self.varied
            or row.get("value") not in values
        )

    def _run(self, agent: Table, environment: Table, seed: int, value: Any) -> RunSpec:
        tables = {"agent": deepcopy(dict(agent)), "environment": deepcopy(dict(environment))}
        if self.varied is not None:
            _set(tables, self.varied, value, self.source)
        where = f"{self.source}: rounds of environment {environment['name']!r}"
        return RunSpec(
            tables["agent"],
            tables["environment"],
            seed,
            read_rounds(tables["environment"].pop("rounds", self.rounds), where),
            study=self.name,
            varied=self.varied,
            value=value,
            title=self.title,
            source=self.source,
            roads=self.roads.get(environment["name"]),
            folders=self.folders,
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
            study = replace(study, seeds=read_seeds(seeds, "--seeds"))
        if rounds is not None:
            read_rounds(rounds, "--rounds")
            if study.varied == "environment.rounds":
                raise StudyError(
                    f"--rounds is {rounds}, but {self.source} varies {study.varied}; leave --rounds out"
                )
            shorter = tuple({**table, "rounds": rounds} for table in self.environments)
            study = replace(study, rounds=rounds, environments=shorter)
        if agents:
            study = replace(study, agents=_named(study.agents, agents, "agent", self.source))
        if environments:
            chosen = _named(study.environments, environments, "environment", self.source)
            study = replace(study, environments=chosen)
        return study


def read_seeds(seeds: Any, where: str) -> tuple[int, ...]:
    """Seeds 0 to n - 1 for a number n, or those of a list."""
    if type(seeds) is int and 1 <= seeds <= MOST_SEEDS:
        return tuple(range(seeds))
    listed = isinstance(seeds, list) and 0 < len(seeds) <= MOST_SEEDS
    if listed and all(type(seed) is int and 0 <= seed < 2**63 for seed in seeds):
        return tuple(dict.fromkeys(seeds))
    raise StudyError(
        f"{where} is {shown(seeds)}; give how many there are, up to {MOST_SEEDS:,}, or a list of whole numbers"
    )


def read_rounds(rounds: Any, where: str) -> int | None:
    """A number of rounds; None for as many as the environment has."""
    if rounds is None or (type(rounds) is int and 1 <= rounds <= MOST_ROUNDS):
        return rounds
    raise StudyError(f"{where} is {shown(rounds)}; give a whole number from 1 to {MOST_ROUNDS:,}")


def shown(value: Any) -> str:
    """A value as a message shows it: on one line, and not too long."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):
        text = f"a very large {type(value).__name__}"
    return text if len(text) <= 80 else f"{text[:77]}..."


def value_text(value: Any) -> str | None:
    """A varied parameter's value in a table of runs: 1 and 1.0 are the same."""
    return None if value is None else str(canonical(value))


def canonical(value: Any) -> Any:
    """The value with whole floats as integers, so that 1 and 1.0 are the same setting."""
    if isinstance(value, Mapping):
        return {key: canonical(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [canonical(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _named(tables: tuple[Table, ...], names: tuple[str, ...], kind: str, source: str) -> tuple[Table, ...]:
    known = [table["name"] for table in tables]
    for name in names:
        if name not in known:
            raise StudyError(
                f"{source} has no {kind} {name!r}; {nearest(name, known)}it has {', '.join(known)}"
            )
    return tuple(table for table in tables if table["name"] in names)


def _set(tables: dict[str, Any], parameter: str, value: Any, source: str) -> None:
    *path, last = parameter.split(".")
    table: Any = tables
    for step in path:
        table = table.get(step) if isinstance(table, dict) else None
    if not isinstance(table, dict):
        name = tables[path[0]]["name"]
        raise StudyError(
            f"{source}: vary.parameter is {parameter!r}, but {path[0]} {name!r} has no table {'.'.join(path)}; "
            "give it one, or vary another parameter"
        )
    table[last] = value


def _found_from_anywhere(source: str) -> str:
    """A study's file by its absolute path; a shipped study by its name."""
    return str(Path(source).resolve()) if source.endswith(".toml") else source


def _without_folder(environment: Table) -> dict[str, Any]:
    """A user's file or road network counts by its name and checksum, wherever it lies."""
    if "sha256" not in environment:
        return dict(environment)
    return {
        key: Path(item).name if key in PATH_KEYS and isinstance(item, str) else item
        for key, item in environment.items()
    }
