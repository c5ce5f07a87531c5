"""Small agents and a small game for the tests."""

import numpy as np

from treebandit import TEUCB, XGBoostTrees

SMALL = {"n_trees": 8, "max_depth": 4}


def make_agent(kind=TEUCB, trees=None, **arguments):
    arguments = {"random_rounds": 3, "seed": 1, **arguments}
    return kind(trees or XGBoostTrees(**SMALL), **arguments)


def play(agent, rounds=60, seed=0, arms=(0, 1), width=4, learn_each=1):
    """Rows whose sign of x0 tells the better of two arms; returns the choices."""
    random = np.random.default_rng(seed)
    choices, waiting = [], []
    for _ in range(rounds):
        x = random.normal(size=width).astype(np.float32)
        row = int(agent.choose(x, arms=list(arms))[0])
        choices.append(row)
        waiting.append((x, float((x[0] > 0) == (row == 1)), arms[row]))
        if len(waiting) == learn_each:
            xs, rewards, played = zip(*waiting, strict=True)
            agent.learn(np.array(xs), rewards, arms=list(played))
            waiting = []
    return choices
