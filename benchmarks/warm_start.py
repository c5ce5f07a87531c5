"""Does learning an old policy's log help? Regret of the first 1,000 rounds in the generated shop.

    python benchmarks/warm_start.py [--seeds 10] [--rounds 1000] [--log 2000]

Prints a table for docs/evaluation.md. The truth of the shop is known, so that the regret is exact.
"""

import argparse

import numpy as np
import polars as pl

from treebandit import Bandit, LinUCB
from treebandit.evaluation import DecisionLog, shop_log, warm_start
from treebandit.evaluation.generated import ARMS, shop_rewards


def starts(decisions, seed):
    """Name -> log to start from; None for none."""
    biased = shop_log(decisions, seed=1_000 + seed)
    narrow = biased.filter(
        pl.col("probability") > 0.5  # what a policy without exploration would have logged
    )
    return {
        "cold": None,
        "uniform old policy": shop_log(decisions, policy="uniform", seed=1_000 + seed),
        "biased old policy, each arm at least 5 %": biased,
        "biased old policy, no exploration": DecisionLog(narrow.frame, "narrow"),
    }


def regret(agent, rounds, seed):
    random = np.random.default_rng([seed, 7])
    total = 0.0
    for _ in range(rounds):
        hour, age = int(random.integers(8, 20)), int(random.integers(18, 80))
        city = ("Bonn", "Kiel", "Ulm")[random.integers(3)]
        context = {"hour": hour, "age": age, "city": city}
        means = shop_rewards([hour], [age])[0]
        row = int(agent.choose(context, arms=list(ARMS))[0])
        agent.learn(context, [float(random.random() < means[row])], [ARMS[row]])
        total += means.max() - means[row]
    return total


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=1_000)
    parser.add_argument("--log", type=int, default=2_000)
    given = parser.parse_args()
    print("| start | " + " | ".join(kind.__name__ for kind in (Bandit, LinUCB)) + " |\n| --- | --- | --- |")
    for name in starts(10, 0):
        cells = []
        for kind in (Bandit, LinUCB):
            found = []
            for seed in range(given.seeds):
                agent = kind(seed=seed)
                log = starts(given.log, seed)[name]
                if log is not None:
                    warm_start(agent, log)
                found.append(regret(agent, given.rounds, seed))
            cells.append(f"{np.mean(found):.1f} ± {np.std(found, ddof=1):.1f}")
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
