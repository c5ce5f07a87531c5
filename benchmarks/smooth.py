"""How smooth the default agent is: `python benchmarks/smooth.py`; ratios to another version by `--against FOLDER`.

FOLDER is the `src` of that version, such as version 0.1.0 in a worktree of its own. Both are run in turns, in
processes of their own, and compared by CPU time, because machines are noisy.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import numpy as np

ARMS = np.arange(5)


def problem(n, seed=0):
    """(n, 20) rows, and the best of five arms for each."""
    rows = np.random.default_rng(seed).normal(size=(n, 20)).astype(np.float32)
    best = (rows[:, 0] > 0).astype(int) + 2 * (rows[:, 1] > 0.5) + (rows[:, 2] * rows[:, 3] > 1)
    return rows, best


def taught(n, more, **arguments):
    """An agent that has learned n rows at once, and further rows to play."""
    from treebandit import Bandit

    rows, best = problem(n + more)
    agent, arms = Bandit(seed=0, **arguments), np.random.default_rng(1).integers(0, 5, n)
    agent.learn(rows[:n], (best[:n] == arms).astype(float), arms=arms)
    return agent, rows[n:], best[n:]


def play(agent, row, best):
    """Seconds of a decision: wall; and of a update: CPU of this thread."""
    started = time.perf_counter()
    arm = int(agent.choose(row, arms=ARMS)[0])
    chosen, cpu = time.perf_counter() - started, time.thread_time()
    agent.learn(row, float(best == arm), arms=[arm])
    return chosen, time.thread_time() - cpu


def longest():
    """CPU ms of the longest `learn` in as many rounds as there are between two rebuilds."""
    play(*(each if place == 0 else each[0] for place, each in enumerate(taught(500, 1))))
    for n in (10_000, 100_000):
        agent, rows, best = taught(n, 3 * n // 10)
        spans = [play(agent, row, label)[1] for row, label in zip(rows, best, strict=True)]
        yield f"longest learn at {n:,} rows, CPU ms", 1e3 * max(spans)


def rounds():
    """CPU seconds of 10,000 rounds of Adult."""
    from treebandit import Bandit, play_round
    from treebandit.environments import Classification

    for count in (600, 10_000):  # the first time compiled code is loaded
        environment, agent = Classification("adult", seed=0), Bandit(seed=0)
        started = time.process_time()
        for _ in range(count):
            play_round(agent, environment)
    yield "10,000 rounds of Adult, CPU s", time.process_time() - started


def cold():
    """CPU seconds of 60 decisions and updates; with an empty folder for compiled code, nearly all is compiling."""
    from treebandit import Bandit

    agent, (rows, best) = Bandit(seed=0), problem(60)
    started = time.process_time()
    for row, label in zip(rows, best, strict=True):
        play(agent, row, label)
    yield "60 rounds of a process, CPU s", time.process_time() - started


def background():
    """Wall ms of `choose` while a thread rebuilds; needs a core for each."""
    for n in (10_000, 100_000):
        agent, rows, best = taught(n, 60_000, background=True)
        spans = []
        for place, (row, label) in enumerate(zip(rows, best, strict=True)):
            if agent.model.rebuild is None:
                agent.model.level -= 1  # so that the next update starts a rebuild
            if place % 20 == 0:
                play(agent, row, label)
            busy, started = agent.model.rebuild is not None, time.perf_counter()
            agent.choose(row, arms=ARMS)
            spans += [time.perf_counter() - started] * busy
        for share in (0.5, 0.99, 0.999):
            yield (
                f"choose during rebuilds at {n:,} rows, quantile {share}, ms",
                1e3 * np.quantile(spans, share),
            )


def million():
    """CPU seconds after 100,000 and 1,000,000 rounds of one run, their ratio, and memory; takes minutes."""
    from treebandit import Bandit

    agent, spans = Bandit(seed=0), {}
    problem(100_000)  # as much memory as all parts take
    began, started = peak(), time.process_time()
    for part in range(1, 11):
        for row, label in zip(*problem(100_000, seed=part), strict=True):
            play(agent, row, label)
        spans[part] = time.process_time() - started
        if part in (1, 2, 5, 10):
            yield f"{100_000 * part:,} rounds, CPU s", spans[part]
            yield f"{100_000 * part:,} rounds, MB more than before", (peak() - began) / 1024
    yield "1,000,000 rounds / 100,000 rounds", spans[10] / spans[1]


def peak():
    """The most memory that this process has held, in kB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


PARTS = {part.__name__: part for part in (longest, rounds, cold, background, million)}


def measured(part, source):
    """What a part yields in a process that imports the package from `source`."""
    environment = {**os.environ, "PYTHONPATH": source} if source else None
    command = [sys.executable, __file__, "--only", part, "--json"]
    run = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return [json.loads(line) for line in run.stdout.splitlines()]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=PARTS, help="one part")
    parser.add_argument("--against", help="the `src` folder of another version")
    parser.add_argument("--turns", type=int, default=3, help="the best of so many is taken")
    parser.add_argument("--json", action="store_true", help="one turn in this process, as JSON")
    arguments = parser.parse_args()
    if arguments.json:
        for line in PARTS[arguments.only]():
            print(json.dumps(line), flush=True)
        return
    print("| what | here | there | here / there |\n| --- | --- | --- | --- |")
    for part in [arguments.only] if arguments.only else [part for part in PARTS if part != "million"]:
        compared = bool(arguments.against) and part != "background"
        sources = [None, arguments.against] if compared else [None]
        turns = [[measured(part, source) for source in sources] for _ in range(arguments.turns)]
        for place, (what, _) in enumerate(turns[0][0]):
            here = min(turn[0][place][1] for turn in turns)
            there = min(turn[1][place][1] for turn in turns) if compared else None
            tail = f"{there:.3g} | {here / there:.2f}" if there else "|"
            print(f"| {what} | {here:.3g} | {tail} |", flush=True)


if __name__ == "__main__":
    main()
