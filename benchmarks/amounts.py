"""Regret where rewards have heavy tails, and what is paid depends on the offer or on the size of a customer.

    python benchmarks/amounts.py

`shop`: one of four offers sells for twice as much as the others; a twentieth of the visits buys, for amounts with a
heavy tail. `customers`: two offers, of which one brings a fifth more; what a customer pays is proportional to a size
with a heavy tail, so that large rewards are no outliers. Regret in mean amounts, seeds 0 to 7, mean ± standard error.
"""

from __future__ import annotations

import numpy as np

from treebandit import Bandit, LinUCB

SEEDS = range(8)


def shop(agent, random):
    """8,000 visits."""
    worth, regret = np.array([1.0, 1.0, 1.0, 2.0]), 0.0
    for _ in range(8000):
        visit = np.repeat(random.normal(size=(1, 3)), 4, axis=0)
        offer = agent.choose(visit, arms=[0, 1, 2, 3]).item()
        paid = (random.random() < 0.05) * random.lognormal(-1.125, 1.5) * worth[offer]
        agent.learn(visit[:1], [paid], arms=[offer])
        regret += 0.05 * (worth.max() - worth[offer])
    return regret


def customers(agent, random):
    """4,000 customers."""
    regret = 0.0
    for _ in range(4000):
        size, taste = random.lognormal(0.0, 1.5), random.normal()
        customer = np.repeat([[np.log(size), size, taste]], 2, axis=0)
        offer = agent.choose(customer, arms=[0, 1]).item()
        mean = size * (1.2 if offer == (taste > 0.0) else 1.0)
        agent.learn(customer[:1], [mean * random.normal(1.0, 0.3)], arms=[offer])
        regret += 1.2 * size - mean
    return regret


if __name__ == "__main__":
    for problem in (shop, customers):
        for make in (Bandit, LinUCB):
            regrets = [problem(make(seed=seed), np.random.default_rng(seed)) for seed in SEEDS]
            error = np.std(regrets, ddof=1) / np.sqrt(len(regrets))
            print(
                f"{problem.__name__:10s} {make.__name__:8s} {np.mean(regrets):6.1f} ± {error:.1f}", flush=True
            )
