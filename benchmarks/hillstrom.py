"""The study `hillstrom` with the value of every agent, which the study's own table does not have.

    TREEBANDIT_LOGS=folder python benchmarks/hillstrom.py [--seeds 3] [--rounds 30000] [--reward visit]

Prints a table for docs/results/hillstrom.md: reward per used event, mean over the seeds; its standard error is that of
all used events together, as the seeds show the same customers in another order. Frozen policies come from `evaluate`.
"""

import argparse
import time

import numpy as np

from treebandit import play_round
from treebandit.environments import Logged
from treebandit.evaluation import evaluate, open_log
from treebandit.experiments import load_study
from treebandit.experiments.build import build_agent


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=30_000)
    parser.add_argument("--reward", default="visit")
    given = parser.parse_args()
    name = f"hillstrom:{given.reward}"
    log = open_log(name)
    fixed = ["arm:Mens E-Mail", "arm:Womens E-Mail", "arm:No E-Mail", "uniform"]
    found = evaluate(log, fixed, estimators=("snips", "dr"))
    print("| policy | SNIPS | DR |\n| --- | --- | --- |")
    for policy in found.policies:
        cells = [f"{each.value:.4f} ± {each.error:.4f}" for each in policy.estimates.values()]
        print(f"| {policy.name} | {' | '.join(cells)} |", flush=True)
    print(f"\n{given.rounds:,} events, seeds 0 to {given.seeds - 1}\n")
    print("| agent | reward of used events | last half | used events | regret by the model | CPU s |")
    print("| --- | --- | --- | --- | --- | --- |", flush=True)
    agents = {run.agent["name"]: run.agent for run in load_study("hillstrom").runs()}
    for label, described in agents.items():
        values, late, used, regrets, seconds = [], [], [], [], []
        for seed in range(given.seeds):
            environment, agent = Logged(name, seed=seed), build_agent(described, seed=seed)
            started, regret = time.process_time(), 0.0
            for _ in range(given.rounds):
                regret += play_round(agent, environment)[1].regret
            earned = np.array(environment._earned)
            values.append(earned.mean())
            late.append(earned[len(earned) // 2 :].mean())
            used.append(environment.used)
            regrets.append(regret)
            seconds.append(time.process_time() - started)
        error = np.sqrt(np.mean(values) * (1 - np.mean(values)) / np.mean(used))
        print(
            f"| {label} | {np.mean(values):.4f} (sd of seeds {np.std(values, ddof=1):.4f}; ± {error:.4f} a seed) "
            f"| {np.mean(late):.4f} | {np.mean(used):,.0f} | {np.mean(regrets):.0f} ± {np.std(regrets, ddof=1):.0f} | "
            f"{np.mean(seconds):.0f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
