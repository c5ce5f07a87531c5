"""What the floor costs: regret of the default agent with `decide` in the loop, for several floors.

python benchmarks/floor.py --runs floor-runs.jsonl --write docs/results/floor.md

Every run is one line of the file given by --runs; runs that are there already are not played again.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import numpy as np

from treebandit import Bandit
from treebandit.environments import Classification

SETS = ("adult", "magic", "mushroom", "shuttle")
FLOORS = (0.0, 0.01, 0.05)


def play(name, floor, seed, rounds):
    """Regret of one run."""
    environment, agent, regret = Classification(name, seed=seed), Bandit(seed=seed), 0.0
    for _ in range(rounds):
        candidates = environment.observe().candidates
        decision = agent.decide(candidates, floor=floor)
        outcome = environment.pull(decision.rows)
        agent.learn(decision, outcome.rewards)
        regret += outcome.regret
    return regret


def rounds_of(name, most):
    horizon = Classification(name, seed=0).horizon
    return min(most, horizon or most)


def page(regrets, rounds, seeds, command):
    """The table as Markdown."""
    lines = [
        "# What the floor costs",
        "",
        f"Regret of the default agent, mean and standard deviation over {len(seeds)} seeds, every decision made by "
        f"`decide` with 100 draws. `{command}` measures it anew.",
        "",
        "| data set | rounds | floor 0 | floor 0.01 | floor 0.05 | wrong choices by chance alone at 0.05 |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for name in SETS:
        cells = []
        for floor in FLOORS:
            values = np.array([regrets[name, floor, seed] for seed in seeds])
            cells.append(f"{values.mean():.0f} ± {values.std(ddof=1):.0f}")
        arms = len(Classification(name, seed=0).observe().candidates)
        chance = 0.05 * rounds[name] * (1.0 - 1.0 / arms)
        lines.append(f"| {name} | {rounds[name]:,} | {' | '.join(cells)} | {chance:.0f} |")
    return "\n".join([*lines, ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=10_000)
    parser.add_argument("--runs", type=Path, default=Path("floor-runs.jsonl"))
    parser.add_argument("--write", type=Path)
    arguments = parser.parse_args()
    regrets = {}
    if arguments.runs.exists():
        for line in arguments.runs.read_text().splitlines():
            run = json.loads(line)
            if run["most"] == arguments.rounds:
                regrets[run["set"], run["floor"], run["seed"]] = run["regret"]
    rounds = {name: rounds_of(name, arguments.rounds) for name in SETS}
    for seed in range(arguments.seeds):
        for name in SETS:
            for floor in FLOORS:
                if (name, floor, seed) in regrets:
                    continue
                regret = regrets[name, floor, seed] = play(name, floor, seed, rounds[name])
                run = {"set": name, "floor": floor, "seed": seed, "most": arguments.rounds, "regret": regret}
                with arguments.runs.open("a") as file:
                    file.write(json.dumps(run) + "\n")
    options = f"--seeds {arguments.seeds} --rounds {arguments.rounds}"
    command = f"python benchmarks/floor.py {options} --write docs/results/floor.md"
    table = page(regrets, rounds, range(arguments.seeds), command)
    print(table)
    if arguments.write:
        arguments.write.write_text(table)


if __name__ == "__main__":
    main()
