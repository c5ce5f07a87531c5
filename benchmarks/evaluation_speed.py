"""How long evaluations of long logs take, and how much memory; prints a table for docs/results/evaluation-speed.md.

    OMP_NUM_THREADS=1 POLARS_MAX_THREADS=1 nice -n 10 python benchmarks/evaluation_speed.py [--rows 1000000] [--arms 10]

CPU and wall seconds of one process; peak memory from the operating system, which never falls again, so that each task
runs in a process of its own.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl

TASKS = {
    "read whole and check": {},
    "IPS and SNIPS with diagnostics, uniform": {"policies": ["uniform"], "estimators": ("ips", "snips")},
    "the same for an arm and the logging policy too": {
        "policies": ["uniform", "arm:arm-3", "logging"],
        "estimators": ("ips", "snips"),
    },
    "the same with time-uniform intervals": {
        "policies": ["uniform"],
        "estimators": ("ips",),
        "interval": "time-uniform",
    },
    "the same with bootstrap intervals": {
        "policies": ["uniform"],
        "estimators": ("ips", "snips"),
        "interval": "bootstrap",
    },
    "DR, uniform, forest in 5 folds": {"policies": ["uniform"], "estimators": ("dr",)},
}


def make(path, rows, arms, batch=100_000):
    """A log of `rows` decisions over `arms` arms, 8 numbers and a category of context, in parts."""
    from treebandit.evaluation import DecisionLog

    names = [f"arm-{place}" for place in range(arms)]
    for start in range(0, rows, batch):
        random = np.random.default_rng(start)
        n = min(batch, rows - start)
        logged = random.dirichlet(np.ones(arms), n) * 0.9 + 0.1 / arms
        chosen = (random.random(n)[:, None] > logged.cumsum(axis=1)).sum(axis=1).clip(0, arms - 1)
        table = {f"x{place}": random.random(n).round(4) for place in range(8)}
        table["city"] = np.array(["Bonn", "Kiel", "Ulm"])[random.integers(0, 3, n)]
        mean = 0.1 + 0.3 * (table["x0"] > 0.5) * (chosen % 3 == 0)
        frame = pl.DataFrame(
            {
                "id": np.arange(start, start + n).astype(str),
                "context": pl.DataFrame(table).select(pl.struct(pl.all()).struct.json_encode()).to_series(),
                "arms": pl.Series([names], dtype=pl.List(pl.String)).new_from_index(0, n),
                "chosen": pl.Series(chosen.astype(np.int32)).reshape((-1, 1)).arr.to_list(),
                "probability": logged[np.arange(n), chosen],
                "probabilities": pl.Series(logged, dtype=pl.Array(pl.Float64, arms)).arr.to_list(),
                "reward": (random.random(n) < mean).astype(float),
            }
        )
        DecisionLog.from_frame(frame).append(path)


def work(task, path):
    """One task in this process: CPU seconds, wall seconds, peak megabytes beyond those after the imports."""
    from treebandit.evaluation import DecisionLog, contributions, evaluate, shop_log  # noqa: F401
    from treebandit.trees import HistogramForest

    arguments = dict(TASKS[task])
    if "dr" in arguments.get("estimators", ()):
        random = np.random.default_rng(0)  # compiled, or read from the cache, before the clock starts
        HistogramForest(n_trees=2).fit(random.random((50, 3), np.float32), random.random(50), seed=0)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    cpu, wall = time.process_time(), time.perf_counter()
    if arguments:
        evaluate(DecisionLog.scan(path), arguments.pop("policies"), **arguments)
    else:
        DecisionLog.read(path)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return time.process_time() - cpu, time.perf_counter() - wall, (after - before) / 1024


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--arms", type=int, default=10)
    parser.add_argument("--task")
    parser.add_argument("--log")
    given = parser.parse_args()
    if given.task:
        print(json.dumps(work(given.task, given.log)))
        return
    with tempfile.TemporaryDirectory() as folder:
        path = given.log or str(Path(folder) / "log")
        if not os.path.exists(path):
            make(path, given.rows, given.arms)
        print(f"{given.rows:,} decisions, {given.arms} arms\n")
        print("| task | CPU s | wall s | peak memory, MB |\n| --- | --- | --- | --- |", flush=True)
        for task in TASKS:
            command = [sys.executable, __file__, "--task", task, "--log", path]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            cpu, wall, megabytes = json.loads(done.stdout)
            print(f"| {task} | {cpu:.1f} | {wall:.1f} | {megabytes:,.0f} |", flush=True)


if __name__ == "__main__":
    main()
