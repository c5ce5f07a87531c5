"""Records of runs that never took place: plausible curves, written and planned like real ones."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import treebandit
from treebandit.experiments.records import RunRecord, merge_plan, write_record
from treebandit.reports.paper import paper_table

PAPER_ROUNDS = {"adult": 10_000, "magic": 10_000, "mushroom": 8_124, "shuttle": 10_000}


def spec_of(agent, environment, seed, rounds, *, varied=None, value=None, study="invented", **settings):
    kept = value if isinstance(value, str | None) else str(value)
    parts = (study, agent, environment, seed, rounds, varied, kept, *settings.values())
    run_id = hashlib.sha256(repr(parts).encode()).hexdigest()[:12]
    return {
        "run_id": run_id,
        "study": study,
        "agent": {"name": agent, **settings},
        "environment": {"name": environment},
        "seed": seed,
        "rounds": rounds,
        "varied": varied,
        "value": kept,
    }


def plan_row(spec: dict[str, Any]) -> dict[str, Any]:
    names = {"agent": spec["agent"]["name"], "environment": spec["environment"]["name"]}
    return spec | names | {"title": "", "source": ""}


def make_record(spec: dict[str, Any], regret: np.ndarray, *, milliseconds=1.0, note="") -> RunRecord:
    """A record with these regrets per round; a fifth of the time goes to choosing, a half to rebuilding."""
    count = len(regret)
    rebuilding = np.where(np.arange(count) % 50 == 0, 25 * milliseconds, 0.0)
    frame = pl.DataFrame(
        {
            "round": np.arange(1, count + 1, dtype=np.int32),
            "arms": np.zeros((count, 1), dtype=np.int32),
            "rewards": (1.0 - regret).astype(np.float32)[:, None],
            "regret": regret,
            "choosing": np.full(count, 0.2e-3 * milliseconds),
            "learning": np.full(count, 0.3e-3 * milliseconds),
            "rebuilding": rebuilding * 1e-3,
        },
        schema_overrides={"arms": pl.List(pl.Int32), "rewards": pl.List(pl.Float32)},
    )
    provenance = {
        "cpu_seconds": count * milliseconds * 1e-3,
        "duration": count * milliseconds * 1.1e-3,
        "started": f"2026-03-0{1 + spec['seed'] % 9}T12:00:00+00:00",
        "treebandit": treebandit.__version__,
        "seed": spec["seed"],
        "packages": {"numpy": "2.4.6", "xgboost-cpu": "3.2.0"},
        "machine": {"system": "Linux", "processor": "A <fast> one", "cores": 2},
        "note": note,
    }
    return RunRecord(spec, provenance, frame)


def curve(rounds: int, final: float, generator: np.random.Generator) -> np.ndarray:
    """Regret 0 or 1 a round whose chance falls like 1 / sqrt(t) and sums to about `final`."""
    chance = np.sqrt(1.0 / np.arange(1, rounds + 1)) + 0.02
    chance *= final / chance.sum()
    return (generator.random(rounds) < np.minimum(chance, 1.0)).astype(np.float64)


def write_paper_like(
    folder: Path, *, seeds: int = 5, agents: Iterable[str] | None = None, shorten: int = 1, missing: int = 0
) -> None:
    """The paper's table as records: its means and spreads, `shorten` times fewer rounds, some left out."""
    generator = np.random.default_rng(0)
    rows = [row for row in paper_table().to_dicts() if agents is None or row["agent"] in set(agents)]
    specs = []
    for row in rows:
        rounds = PAPER_ROUNDS[row["environment"]] // shorten
        slow = row["paper_cpu_seconds"] / 50 / rounds * 1e3
        for seed in range(seeds):
            spec = spec_of(row["agent"], row["environment"], seed, rounds)
            specs.append(spec)
            final = max(1.0, generator.normal(row["paper_mean"], row["paper_sd"])) / shorten
            note = "last layer only" if row["agent"].startswith("Neural") else ""
            if len(specs) > missing:
                write_record(
                    make_record(spec, curve(rounds, final, generator), milliseconds=slow, note=note), folder
                )
    merge_plan(folder, [plan_row(spec) for spec in specs])


def write_varied(
    folder: Path,
    varied: str,
    values: Iterable[Any],
    *,
    seeds: int = 3,
    rounds: int = 300,
    agents: Iterable[str],
) -> None:
    """A sensitivity study: final regret grows a little with the place of the value."""
    generator = np.random.default_rng(1)
    specs = []
    for place, value in enumerate(values):
        for number, agent in enumerate(agents):
            for environment in ("adult", "mushroom"):
                for seed in range(seeds):
                    spec = spec_of(agent, environment, seed, rounds, varied=varied, value=value)
                    specs.append(spec)
                    final = rounds * (0.1 + 0.02 * number + 0.01 * abs(place - 3)) * generator.normal(1, 0.05)
                    write_record(make_record(spec, curve(rounds, final, generator)), folder)
    merge_plan(folder, [plan_row(spec) for spec in specs])
