"""Draw the picture of docs/how-to/explain.md: python scripts/write_explanation.py docs/images/explain.svg"""

import sys

import numpy as np

import treebandit
from treebandit.reports import explanation_figure

OFFERS = ["coffee", "tea", "water"]


def taught() -> treebandit.Bandit:
    """An agent that has served 2,000 visitors: the old drink tea, members of the club coffee, in Rome above all."""
    agent, random = treebandit.Bandit(seed=0), np.random.default_rng(0)
    for _ in range(2000):
        row = {
            "age": int(random.integers(18, 80)),
            "city": str(random.choice(["Rome", "Oslo", "Bern"])),
            "member": bool(random.random() < 0.4),
        }
        arm = OFFERS[int(agent.choose(row, arms=OFFERS)[0])]
        chance = 0.1
        if arm == "tea":
            chance += 0.01 * max(row["age"] - 40, 0)
        if arm == "coffee":
            chance += 0.2 * row["member"] + 0.3 * (row["city"] == "Rome")
        agent.learn(row, float(random.random() < chance), arms=[arm])
    return agent


if __name__ == "__main__":
    visitor = {"age": 62, "city": "Rome", "member": True}
    explanation_figure(taught().explain(visitor, arms=OFFERS)).save(sys.argv[1])
