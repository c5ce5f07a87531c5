"""Agents in the middle of a rebuild."""

import numpy as np
from taught import ARMS, X, Y

from treebandit import Bandit, HistogramForest

TREES = HistogramForest(n_trees=12, max_depth=5, bootstrap=False, subsample=0.8)
#: A rebuild is due in round 480, and spread over ten more.
DUE, SPREAD = 479, 10


def until(stop, agent=None, start=0, **arguments):
    """An agent that has learned the rows before `stop`, all but the first 100 of them one by one."""
    if agent is None:
        agent = Bandit(**{"trees": TREES, "rebuild": "every 480", "seed": 0} | arguments)
        agent.learn(X[:100], Y[:100], arms=ARMS[:100])
        start = 100
    for row in range(start, stop):
        agent.learn(X[row], Y[row], arms=ARMS[row : row + 1])
    return agent


def rows_in(agent):
    """How many rows the leaves of each tree have counted."""
    leaves = agent.model.leaves
    return set(np.add.reduceat(leaves.table[:-1, 2], leaves.forest.starts).tolist())
