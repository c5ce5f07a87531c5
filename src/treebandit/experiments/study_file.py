"""Studies read from TOML: any file gives a study whose agents and environments can be made, or one sentence."""

from __future__ import annotations

import datetime
import hashlib
import math
import tomllib
import unicodedata
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from treebandit.datasets.roads import SHIPPED, roads_checksum, roads_folder
from treebandit.errors import RoadsError, StudyError, nearest
from treebandit.experiments.build import check_runs, class_modules, takes
from treebandit.experiments.own_code import find_source, forget_changed, use_folders
from treebandit.experiments.spec import (
    FILE_KEYS,
    PATH_KEYS,
    Study,
    Table,
    canonical,
    read_rounds,
    read_seeds,
    shown,
)

STUDIES = Path(__file__).parent / "studies"
MOST_RUNS = 1_000_000
DEEPEST = 16
LONGEST_NAME = 200

_STUDY_KEYS = (
    "agents_of",
    "title",
    "rounds",
    "seeds",
    "environments",
    "environment",
    "agents",
    "agent",
    "vary",
)
#: What the study itself decides; varied, it would change nothing or no longer fit the rest of its table.
_NOT_VARIED = ("name", "seed", "sha256", *PATH_KEYS)


def shipped_studies() -> list[str]:
    """The names of the studies that come with the package."""
    return sorted(path.stem for path in STUDIES.glob("*.toml"))


def load_study(study: str | Path, *, roads: str | Path | None = None) -> Study:
    """Read a study: the name of a shipped one, or a TOML file.

    Every agent and environment is made once, so that mistakes show here: a study file runs the code that its
    `class` entries name. As for a script, the file's folder is put in front of `sys.path`, in the place of that
    of the study before, then those of files that `agents_of` names; modules in them that were edited since they
    were imported are imported anew.
    roads: folder of the road network for environments that name none; without it, TREEBANDIT_ROADS.
    """
    path = _find(study)
    source = path.stem if path.parent == STUDIES else str(path)
    return read_study(_read_toml(path), name=path.stem, source=source, folder=path.parent, roads=roads)


def read_study(
    table: Table, *, name: str, source: str, folder: Path, roads: str | Path | None = None
) -> Study:
    """The study that a table describes; files named in it are relative to `folder`."""
    _check_keys(table, _STUDY_KEYS, source)
    _check_plain(table, source, "", DEEPEST)
    varied, values = _read_vary(table.get("vary"), source)
    agents, others = _read_agents(table, source, folder, ())
    own = [str(folder.resolve())] if source.endswith(".toml") else []
    folders = tuple(dict.fromkeys((*own, *others)))
    _check_modules(agents, folders, source)
    use_folders(folders)
    forget_changed()
    found = [
        _read_environment(entry, source, folder, roads) for entry in _entries(table, "environment", source)
    ]
    title = table.get("title", "")
    if not isinstance(title, str):
        raise StudyError(f"{source}: title is {shown(title)}; give text")
    study = Study(
        name=name,
        agents=_unique(agents, source),
        environments=_unique([environment for environment, _ in found], source),
        seeds=read_seeds(table.get("seeds", 10), f"{source}: seeds"),
        rounds=read_rounds(table.get("rounds"), f"{source}: rounds"),
        title=title,
        varied=varied,
        values=values,
        source=source,
        roads={environment["name"]: used for environment, used in found if used is not None},
        folders=folders,
    )
    if len(study) > MOST_RUNS:
        raise StudyError(
            f"{source} asks for {len(study):,} runs; give fewer seeds or values: at most {MOST_RUNS:,}"
        )
    check_runs(study.select(seeds=1).runs(), source=source)
    return study


def _find(study: str | Path) -> Path:
    if Path(study).suffix == ".toml":
        return Path(study)
    names = shipped_studies()
    if str(study) not in names:
        raise StudyError(
            f"no study {str(study)!r}; {nearest(str(study), names)}give one of {', '.join(names)}, or a .toml file"
        )
    return STUDIES / f"{study}.toml"


def _read_toml(path: Path) -> Table:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise StudyError(f"{path} cannot be opened: {error.strerror}; check the path") from error
    except RecursionError:
        raise StudyError(f"{path} is nested too deeply; nest at most {DEEPEST} tables or lists") from None
    except ValueError as error:
        raise StudyError(f"{path} is not TOML: {' '.join(str(error).split())}") from error


def _read_agents(
    table: Table, source: str, folder: Path, seen: tuple[Path, ...]
) -> tuple[list[dict[str, Any]], list[str]]:
    """The agents of the study that `agents_of` names, if any, then the table's own; and the folders of such studies."""
    if (other := table.get("agents_of")) is None:
        return [_read_agent(entry, source) for entry in _entries(table, "agent", source)], []
    if not isinstance(other, str):
        raise StudyError(f"{source}: agents_of is {shown(other)}; give a study's name or file")
    path = _find(folder / other if other.endswith(".toml") else other).resolve()
    if path in seen:
        raise StudyError(
            f"{source}: agents_of is {other!r}, which takes its agents from here; name another study"
        )
    taken = _read_toml(path)
    _check_plain(taken, str(path), "", DEEPEST)
    agents, folders = _read_agents(taken, str(path), path.parent, (*seen, path))
    own = _entries(table, "agent", source) if {"agent", "agents"} & set(table) else []
    beside = [] if path.parent == STUDIES.resolve() else [str(path.parent)]
    return agents + [_read_agent(entry, source) for entry in own], [*beside, *folders]


def _check_modules(agents: list[dict[str, Any]], folders: tuple[str, ...], source: str) -> None:
    """Refuse a module that lies beside two of the files that agents are taken from: which is meant cannot be told."""
    for agent in agents:
        for module in class_modules(agent):
            homes = [folder for folder in folders if find_source(module, [folder]) is not None]
            if len(homes) > 1:
                raise StudyError(
                    f"{source}: module {shown(module)} of agent {agent['name']!r} is in {' and in '.join(homes)}; "
                    "give one of them another name"
                )


def _entries(table: Table, key: str, source: str) -> list[Any]:
    several, single = table.get(f"{key}s", []), table.get(key)
    if not isinstance(several, list):
        raise StudyError(f"{source}: {key}s is {shown(several)}; give a list")
    entries = [*several, *([] if single is None else [single])]
    if not entries:
        raise StudyError(f"{source}: no {key}; give {key}s = [...] with at least one")
    return entries


def _read_agent(entry: Any, source: str) -> dict[str, Any]:
    table = {"class": entry} if isinstance(entry, str) else entry
    if not isinstance(table, dict) or not ("class" in table or "name" in table):
        raise StudyError(f"{source}: agent {shown(entry)}; give a table with name and class")
    either = table.get("name", table.get("class")), table.get("class", table.get("name"))
    table = {"name": either[0], "class": either[1], **table}
    _check_name(table, "agent", source)
    return table


def _read_environment(
    entry: Any, source: str, folder: Path, roads: str | Path | None
) -> tuple[dict[str, Any], str | None]:
    """An environment's table, and the folder of the road network that it needs and does not name."""
    table = {"name": entry} if isinstance(entry, str) else entry
    if not isinstance(table, dict):
        raise StudyError(f"{source}: environment {shown(entry)}; give a data set's name or a table")
    files = [key for key in FILE_KEYS if key in table]
    for key in files:
        if not isinstance(table[key], str) or not table[key]:
            raise StudyError(f"{source}: {key} is {shown(table[key])}; give the path of a file")
    guess = table.get("data") or (Path(table[files[0]]).stem if files else table.get("class"))
    table = {"name": guess, "class": "Classification", **table}
    _check_name(table, "environment", source)
    if table["class"] == "Classification" and not files:
        table.setdefault("data", table["name"])
    for key in files:
        table |= _checksum(table[key], key, source, folder)
    if takes(table, "log") and isinstance(table.get("log"), str):
        table |= _log_checksum(table["log"], folder)
    return _with_roads(table, source, folder, roads)


def _checksum(file: str, key: str, source: str, folder: Path) -> dict[str, str]:
    path = folder / file
    try:
        content = path.resolve().read_bytes() if path.is_file() else None
    except (OSError, ValueError) as error:
        raise StudyError(f"{source}: {key} is {shown(file)}, which cannot be read: {error}") from error
    if content is None:
        raise StudyError(
            f"{source}: {key} {shown(file)} is no file ({shown(str(path))}); paths are relative to the study"
        )
    return {key: str(path.resolve()), "sha256": hashlib.sha256(content).hexdigest()}


def _log_checksum(log: str, folder: Path) -> dict[str, str]:
    """The place and checksum of a decision log, a file or a folder of parts; nothing of one that is known by a name."""
    path = (folder / log).resolve()
    if not path.exists():
        return {}
    parts = sorted(part for part in path.iterdir() if part.is_file()) if path.is_dir() else [path]
    hashed = hashlib.sha256()
    for part in parts:
        hashed.update(hashlib.sha256(part.read_bytes()).digest())
    return {"log": str(path), "sha256": hashed.hexdigest()}


def _with_roads(
    table: dict[str, Any], source: str, folder: Path, roads: str | Path | None
) -> tuple[dict[str, Any], str | None]:
    if not takes(table, "roads", "sha256"):
        return table, None
    given, used = table.get("roads"), None
    try:
        if given is None:
            given = used = str(roads_folder(roads).resolve())
        elif isinstance(given, str) and given != SHIPPED and (folder / given).is_dir():
            table["roads"] = given = str((folder / given).resolve())
        if isinstance(given, str):
            table.setdefault("sha256", roads_checksum(given))
    except (RoadsError, OSError, ValueError) as error:
        if "roads" in table or roads is not None:
            raise StudyError(f"{source}: environment {table['name']!r}: {error}") from error
    return table, used


def _check_name(table: Table, kind: str, source: str) -> None:
    name = table["name"]
    if not isinstance(name, str) or not name.strip():
        raise StudyError(f'{source}: {kind} {shown(dict(table))} has no name; add name = "..."')
    if len(name) > LONGEST_NAME or any(unicodedata.category(mark) in ("Cc", "Zl", "Zp") for mark in name):
        raise StudyError(
            f"{source}: name of {kind} is {shown(name)}; give one line of at most {LONGEST_NAME} characters"
        )
    if "seed" in table:
        raise StudyError(f"{source}: {kind} {name!r} sets seed; seeds belong to the study: seeds = 10")


def _check_keys(table: Table, allowed: tuple[str, ...], source: str) -> None:
    for key in table:
        if key not in allowed:
            raise StudyError(
                f"{source}: unknown key {shown(key)}; {nearest(key, allowed)}allowed are {', '.join(sorted(allowed))}"
            )


def _check_plain(value: Any, source: str, where: str, depth: int) -> None:
    """Refuse what no setting can be, and what the id of a run cannot be made of, by its place in the file."""
    if isinstance(value, Mapping | list):
        if not depth:
            raise StudyError(
                f"{source}: {where[:80]} is nested too deeply; nest at most {DEEPEST} tables or lists"
            )
        items = value.items() if isinstance(value, Mapping) else enumerate(value)
        for key, item in items:
            place = f"{where}[{key}]" if isinstance(key, int) else f"{where}.{key}".removeprefix(".")
            _check_plain(item, source, place if place.isprintable() else ascii(place), depth - 1)
        return
    wanted = ""
    if isinstance(value, float) and math.isnan(value):
        wanted = "a number"
    elif isinstance(value, int) and not -(2**63) <= value < 2**63:
        wanted = "a whole number of at most 64 bits"
    elif isinstance(value, datetime.date | datetime.time):
        wanted = f"text, {str(value)!r}, where a class of your own reads a date"
    if wanted:
        raise StudyError(f"{source}: {where[:80]} is {shown(value)}; give {wanted}")


def _read_vary(vary: Any, source: str) -> tuple[str | None, tuple[Any, ...]]:
    if vary is None:
        return None, ()
    if not isinstance(vary, dict):
        raise StudyError(f"{source}: vary is {shown(vary)}; give a table with parameter and values")
    _check_keys(vary, ("parameter", "values"), f"{source}: vary")
    parameter, values = vary.get("parameter"), vary.get("values")
    steps = parameter.split(".") if isinstance(parameter, str) else []
    if len(steps) < 2 or steps[0] not in ("agent", "environment") or not all(steps):
        raise StudyError(
            f"{source}: vary.parameter is {shown(parameter)}; give a path such as agent.trees.max_depth"
        )
    if len(steps) == 2 and steps[1] in _NOT_VARIED:
        instead = "set seeds of the study" if steps[1] == "seed" else f"give one {steps[0]} for each value"
        raise StudyError(f"{source}: vary.parameter is {parameter!r}, which cannot be varied; {instead}")
    if not isinstance(values, list) or not values:
        raise StudyError(f"{source}: vary.values is {shown(values)}; give a list such as [2, 4, 8]")
    for value, count in Counter(repr(canonical(value)) for value in values).items():
        if count > 1:
            raise StudyError(f"{source}: vary.values has {value[:80]} {count} times; give each value once")
    return str(parameter), tuple(values)


def _unique(tables: list[dict[str, Any]], source: str) -> tuple[dict[str, Any], ...]:
    for name, count in Counter(table["name"] for table in tables).items():
        if count > 1:
            raise StudyError(f"{source}: the name {name!r} is used {count} times; give each its own")
    return tuple(tables)
