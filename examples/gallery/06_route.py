"""
A route over a grid of streets
==============================

Edges are the candidates, a path is the choice, and afterwards the time of every edge driven is known. The agent learns
one model for all edges, so that a street never driven is estimated from others like it.
"""

import matplotlib.pyplot as plt
import numpy as np

from treebandit import TETS, ShortestPath, XGBoostTrees

random = np.random.default_rng(0)
SIDE = 8
nodes = [(x, y) for x in range(SIDE) for y in range(SIDE)]
edges = [(a, b) for a in nodes for b in nodes if abs(a[0] - b[0]) + abs(a[1] - b[1]) == 1]
starts, ends = zip(*edges, strict=True)
middles = (np.array(starts) + np.array(ends)) / 2
wide = random.random(len(edges)) < 0.3


def minutes(hour):
    """The truth that the agent does not know: the centre is slow before noon, the south after."""
    centre = np.hypot(*(middles - 3.5).T) < 2.2
    slow = centre if hour < 12 else middles[:, 1] < 2
    return np.where(slow, 6.0, 2.0) - 0.8 * wide


# %%
# ``ShortestPath`` takes the two nodes of every edge. Times are negative rewards. A road that was never tried pays
# nothing and teaches nothing, so routes need an agent that explores: Thompson sampling on boosted trees draws
# widely.

path_finder = ShortestPath(starts, ends, source=(0, 0), target=(SIDE - 1, SIDE - 1))
agent = TETS(XGBoostTrees(n_trees=50, max_depth=4), random_start="rounds", random_rounds=5, seed=0)
lost = []
for _ in range(200):
    hour = random.uniform(6, 18)
    contexts = np.column_stack([middles, wide, np.full(len(edges), hour)])
    path = agent.choose(contexts, oracle=path_finder)
    expected = minutes(hour)
    agent.learn(contexts[path], -random.gamma(20, expected[path] / 20))
    lost.append(expected[path].sum() - expected[path_finder(-expected)].sum())

# %%
# The way it would take at nine and at three, over the times that are true then.

figure, axes = plt.subplots(1, 3, figsize=(10, 3.4))
for axis, hour in zip(axes, (9, 15), strict=False):
    contexts = np.column_stack([middles, wide, np.full(len(edges), hour)])
    for (a, b), time in zip(edges, minutes(hour), strict=True):
        axis.plot(*zip(a, b, strict=True), color=plt.cm.YlOrRd(time / 7), lw=3, zorder=1)
    for row in path_finder(agent.estimate(contexts).mean):
        axis.plot(*zip(*edges[row], strict=True), color="#2166ac", lw=3.5, zorder=2)
    axis.set(title=f"{hour} o'clock", aspect="equal", xticks=[], yticks=[])
    axis.grid(False)
    axis.spines[:].set_visible(False)
axes[2].plot(np.convolve(lost, np.ones(20) / 20, mode="valid"))
axes[2].set(title="Minutes lost per drive", xlabel="drive", ylim=(0, None))
plt.show()
