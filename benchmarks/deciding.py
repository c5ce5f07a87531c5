"""What a decision with its probability costs, next to `choose`: python benchmarks/deciding.py

Times are the best of many short turns, because machines are noisy; the ratio compares both in the same run.
"""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import numpy as np

from treebandit import TETS, Bandit, HistogramForest, LinTS, LinUCB, TopK


def best(call, *, repeats=3, turns=1500, seconds=3.0):
    """Microseconds of one call, in turns of a few calls, for at most so many seconds."""
    call()
    started, times = time.perf_counter(), []
    while len(times) < turns and time.perf_counter() - started < seconds:
        before = time.perf_counter()
        for _ in range(repeats):
            call()
        times.append((time.perf_counter() - before) / repeats)
    return min(times) * 1e6


def taught(agent, arms, rows=5_000, width=14):
    """The agent after some rows, and contexts to decide on."""
    random = np.random.default_rng(0)
    contexts, labels = random.normal(size=(rows, width)), random.integers(0, arms, rows)
    rewards = contexts[:, 0] * labels / arms + contexts[:, 1] * contexts[:, 2] + random.normal(size=rows)
    agent.learn(contexts, rewards, arms=labels)
    agent.choose(contexts[0], arms=list(range(arms)))
    return agent, contexts


CASES = {
    "treebandit": (lambda: Bandit(seed=0), (2, 10, 50), {2: "150", 10: "600"}),
    "TETS, leaves": (
        lambda: TETS(HistogramForest(), sampling="leaves", random_rounds=1, seed=0),
        (2, 10),
        {},
    ),
    "LinTS": (lambda: LinTS(seed=0), (2, 10), {}),
    "LinUCB": (lambda: LinUCB(seed=0), (2, 10), {}),
}


def main():
    print("| agent | arms | `choose`, µs | `decide`, 100 draws, µs | ratio | of two, µs | asked for, µs |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for name, (make, sizes, wanted) in CASES.items():
        for arms in sizes:
            agent, contexts = taught(make(), arms)
            row, labels = contexts[0], list(range(arms))
            chosen = best(lambda agent=agent, row=row, labels=labels: agent.choose(row, arms=labels))
            decided = best(lambda agent=agent, row=row, labels=labels: agent.decide(row, arms=labels))
            two = best(
                lambda agent=agent, row=row, labels=labels: agent.decide(row, arms=labels, oracle=TopK(2))
            )
            asked = f"under {wanted[arms]}" if arms in wanted else ""
            print(
                f"| {name} | {arms} | {chosen:.0f} | {decided:.0f} | {decided / chosen:.1f} | {two:.0f} | {asked} |",
                flush=True,
            )
    agent, contexts = taught(Bandit(seed=0), 2)
    # Few rows: a longer call would hardly ever be left alone on a shared machine.
    many = best(lambda: agent.decide_many(contexts[:5], arms=[0, 1]), repeats=1) / 5
    print(f"\n`decide_many` of 5 rows, two arms: {many:.0f} µs each")
    with tempfile.TemporaryDirectory() as folder:
        for rows in (5_000, 20_000):
            agent, _ = taught(Bandit(seed=0), 2, rows)
            sizes = []
            for history in (True, False):
                path = Path(folder) / f"agent-{history}"
                agent.save(path, history=history)
                sizes.append(path.stat().st_size)
            print(
                f"Saved after {rows:,} rows of 14 numbers: {sizes[0] / 1e6:.1f} MB, without history "
                f"{sizes[1] / 1e6:.1f} MB ({sizes[1] / sizes[0]:.2f})"
            )


if __name__ == "__main__":
    main()
