"""One RunSpec -> one RunRecord."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import cache
from typing import Any

import numpy as np
import polars as pl

from treebandit.core import Agent, Candidates, Environment, Floats, optional, play_round
from treebandit.errors import NoEstimateError, NotFittedError, StudyError
from treebandit.experiments.build import build_agent, build_environment, import_classes
from treebandit.experiments.own_code import loaded_digest, use_folders
from treebandit.experiments.provenance import describe_code, describe_machine, describe_packages
from treebandit.experiments.records import SCHEMA, RunRecord
from treebandit.experiments.spec import RunSpec

THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "POLARS_MAX_THREADS",
)
WARM_UP_ROUNDS = 120
WARM_UP_SECONDS = 3.0
PROGRESS_EVERY = 200
MOST_ESTIMATES = 100_000


class TimedAgent:
    """An agent that is timed: wall seconds of the last round, split into what they were spent on."""

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self.shown: Candidates | None = None
        self.choosing = self.learning = self.rebuilding = 0.0

    def score(self, candidates: Candidates) -> Floats:
        """The agent's scores; starts the round's times anew."""
        self.shown = candidates
        self.learning = self.rebuilding = 0.0
        start = time.perf_counter()
        scores = self.agent.score(candidates)
        self.choosing = time.perf_counter() - start
        return scores

    def learn(self, chosen: Candidates, rewards: Floats, /) -> None:
        """Let the agent learn; time that it counts as rebuilding is kept apart."""
        before = _rebuild_seconds(self.agent)
        start = time.perf_counter()
        self.agent.learn(chosen, rewards)
        seconds = time.perf_counter() - start
        self.rebuilding = _rebuild_seconds(self.agent) - before
        self.learning = max(0.0, seconds - self.rebuilding)


def play(spec: RunSpec, *, progress: Callable[[int, int], None] | None = None) -> RunRecord:
    """Play all rounds of a run; `progress` is called now and then with rounds played and rounds in all."""
    use_folders(spec.folders)
    agent_seed, environment_seed = split_seed(spec.seed)
    environment = build_environment(spec.environment_table(), seed=environment_seed, rounds=spec.rounds)
    agent = build_agent(spec.agent, seed=agent_seed)
    rounds, code = _count_rounds(spec, environment), describe_code(agent, environment)
    timed, rows = TimedAgent(agent), []
    ties = np.random.default_rng(np.random.SeedSequence(spec.seed).spawn(3)[2])
    started, wall, cpu = datetime.now(UTC), time.perf_counter(), time.process_time()
    for position in range(rounds):
        choice, outcome = play_round(timed, environment, random=ties)
        arms = timed.shown.arms if timed.shown is not None else None
        seconds = timed.choosing, timed.learning, timed.rebuilding
        rows.append((choice if arms is None else arms[choice], outcome.rewards, outcome.regret, *seconds))
        if progress is not None and position % PROGRESS_EVERY == 0:
            progress(position, rounds)
    duration, cpu_seconds = time.perf_counter() - wall, time.process_time() - cpu
    provenance = code | {
        "seed": spec.seed,
        "started": started.isoformat(timespec="seconds"),
        "duration": duration,
        "cpu_seconds": cpu_seconds,
        "packages": describe_packages(),
        "machine": describe_machine(),
        "note": "; ".join(filter(None, (str(optional(each, "note", "")) for each in (agent, environment)))),
        "unit": str(optional(environment, "unit", "")),
    }
    return RunRecord(spec.to_dict(), provenance, _frame(rows), final_estimates(agent, environment))


def final_estimates(agent: Agent, environment: Environment) -> Floats | None:
    """What the agent believes each arm pays in the end, (arms,), NaN for arms that were not asked for.

    Only of an environment that has `final_candidates()`, at most MOST_ESTIMATES of them, and of an agent that has
    `estimate`; else None.
    """
    ask, estimate = optional(environment, "final_candidates"), optional(agent, "estimate")
    if ask is None or estimate is None:
        return None
    candidates: Candidates = ask()
    arms = candidates.arms
    if arms is None or not len(arms) or int(arms.max()) >= MOST_ESTIMATES:
        return None
    means = np.full(int(arms.max()) + 1, np.nan)
    try:
        means[arms] = estimate(candidates).mean
    except (NoEstimateError, NotFittedError):
        return None
    return means


def warm_up(spec: RunSpec) -> None:
    """Play a few rounds with a throwaway agent, so that imports and compiling count in no run's time.

    Once per process for each agent and class of environment, and anew for other code of the study's own.
    """
    use_folders(spec.folders)
    end = time.perf_counter() + WARM_UP_SECONDS
    try:
        code = {name: loaded_digest(sys.modules[name]) for name in import_classes(spec)}
        key = json.dumps(
            [dict(spec.agent), spec.environment.get("class"), code, spec.folders], sort_keys=True, default=str
        )
        if key in _warmed_up():
            return
        _warmed_up().add(key)
        environment = build_environment(spec.environment_table(), seed=0, rounds=spec.rounds, delayed=False)
        agent = build_agent(spec.agent, seed=0)
        for _ in range(min(WARM_UP_ROUNDS, _count_rounds(spec, environment))):
            play_round(agent, environment)
            if time.perf_counter() > end or _rebuild_seconds(agent) > 0:
                break
        play_round(agent, environment)
    except Exception:  # the run itself will fail in the same way, and is reported
        return


@cache
def _warmed_up() -> set[str]:
    return set()


def limit_threads() -> None:
    """Ask the numeric libraries, before they are loaded, for one thread each."""
    os.environ.update(dict.fromkeys(THREAD_VARIABLES, "1"))


def split_seed(seed: int) -> tuple[int, int]:
    """Seeds of the agent and of the environment, from separate streams of the run's seed."""
    agent, environment = np.random.SeedSequence(seed).spawn(2)
    return int(agent.generate_state(1)[0]), int(environment.generate_state(1)[0])


def _count_rounds(spec: RunSpec, environment: Environment) -> int:
    limits = [n for n in (spec.rounds, optional(environment, "horizon")) if n is not None]
    if not limits:
        name = spec.environment["name"]
        raise StudyError(f"environment {name!r} has no end; set rounds in the study or give --rounds")
    return int(min(limits))


def _rebuild_seconds(agent: Agent) -> float:
    return float(optional(agent, "rebuild_seconds", 0.0))


def _frame(rows: list[tuple[Any, ...]]) -> pl.DataFrame:
    """A record's frame: arms, rewards, regret and seconds of each round, numbered from 1."""
    arms, rewards, *numbers = zip(*rows, strict=True)
    lists = _lists(arms, np.int32), _lists(rewards, np.float32)
    columns = np.arange(1, len(rows) + 1), *lists, *map(np.array, numbers)
    return pl.DataFrame(dict(zip(SCHEMA, columns, strict=True)), schema=SCHEMA)


def _lists(rows: Sequence[Any], kind: type[np.generic]) -> pl.Series:
    flat = np.concatenate(rows).astype(kind)
    lengths = np.array([len(row) for row in rows])
    if (lengths == lengths[0]).all():
        return pl.Series(flat.reshape(len(rows), -1)).arr.to_list()
    return pl.Series(np.split(flat, lengths.cumsum()[:-1]))
