"""Where the numbers of a report come from: its studies, how to run them again, versions and machines."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from typing import Any

import polars as pl

from treebandit.datasets.roads import ABOUT
from treebandit.experiments.study_file import load_study, shipped_studies
from treebandit.reports.palette import in_order
from treebandit.reports.summary import Results
from treebandit.reports.tables import seconds

#: What of a run's provenance differs from run to run and is shown in sums.
_PER_RUN = {"cpu_seconds", "duration", "started", "note", "seed"}
_MOST_VALUES = 6


@dataclass(frozen=True)
class PlayedStudy:
    """A study of the folder: its name, its title or "", and the commands that play its runs again."""

    name: str
    title: str
    commands: tuple[str, ...]


def played_studies(results: Results) -> list[PlayedStudy]:
    """The studies whose runs the report shows, by name."""
    return [_played(name, results) for name in results.runs["study"].unique().sort()]


def _played(name: str, results: Results) -> PlayedStudy:
    shipped = name in shipped_studies()
    plan = results.plan.filter(pl.col("study") == name)
    titles, sources = (
        list(filter(None, plan[column].unique(maintain_order=True))) for column in ("title", "source")
    )
    if shipped:
        titles, sources = titles or [load_study(name).title], sources or [name]
    seeds, rounds = plan["seed"].unique().sort().to_list(), plan["rounds"].unique().to_list()
    options = ["--into", f"{results.folder.resolve().name or 'results'}-again"]
    if seeds and seeds == list(range(len(seeds))):
        options += ["--seeds", str(len(seeds))]
    if len(rounds) == 1 and rounds[0] is not None:
        options += ["--rounds", str(rounds[0])]
    commands = (shlex.join(["treebandit", "run", file, *options]) for file in sources or [f"{name}.toml"])
    return PlayedStudy(name, (titles or [""])[0], tuple(commands))


def provenance_rows(results: Results) -> dict[str, list[str]]:
    """The provenance of all runs together: name -> lines."""
    runs = results.runs
    started = runs["started"]
    first, last = str(started.min()), str(started.max())
    rows = {
        "runs": [f"{runs.height:,} of {results.expected:,}"],
        "seeds": [f"{runs['seed'].n_unique():,}"],
        "started": [first if first == last else f"{first} to {last}"],
        "CPU time": [seconds(float(runs["cpu_seconds"].sum()))],
        "to run it again": [line for study in played_studies(results) for line in study.commands],
    }
    found: dict[str, dict[str, None]] = {}
    for text in runs["provenance"]:
        for name, value in json.loads(text).items():
            if name not in _PER_RUN:
                found.setdefault(name, {})[_text(value)] = None
    rows |= {name: list(values) for name, values in found.items()}
    return {name: _first_few(lines) for name, lines in rows.items()}


def about_data(results: Results) -> list[str]:
    """Sentences on the road networks of the folder that need some."""
    tables = (json.loads(spec)["environment"] for spec in results.runs["spec"].unique(maintain_order=True))
    found = (ABOUT.get(str(table.get("sha256"))) for table in tables)
    return list(dict.fromkeys(filter(None, found)))


def settings(runs: pl.DataFrame) -> dict[str, str]:
    """Agent -> the spec of its first run as JSON."""
    specs = dict(runs.unique("agent", keep="first").select("agent", "spec").iter_rows())
    return {
        agent: json.dumps(json.loads(specs[agent]), indent=2, ensure_ascii=False) for agent in in_order(specs)
    }


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_text(part)}" for name, part in value.items())
    return ", ".join(map(_text, value)) if isinstance(value, list) else str(value)


def _first_few(lines: list[str]) -> list[str]:
    rest = len(lines) - _MOST_VALUES
    return lines if rest <= 0 else [*lines[:_MOST_VALUES], f"and {rest} more"]
