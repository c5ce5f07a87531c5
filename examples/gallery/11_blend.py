"""
Trees or slopes? The default agent measures
===========================================

``Bandit`` blends a forest with a linear model per arm, by how well each predicted the rows that came. On a linear
problem the weight of the linear model goes to 1; where features interact it falls below a half as rows come.
"""

import matplotlib.pyplot as plt
import numpy as np

from treebandit import Bandit, play_round
from treebandit.environments import Synthetic

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4))
for problem in ("linear", "interactions"):
    environment = Synthetic(problem, arms=4, features=6, rewards="continuous", noise=0.3, seed=0)
    agent = Bandit(seed=0)
    weights, regrets = [], []
    for _ in range(1500):
        regrets.append(play_round(agent, environment)[1].regret)
        weights.append(agent.linear_weight)
    left.plot(weights, label=problem)
    right.plot(np.cumsum(regrets), label=problem)
left.set(title="Weight of the linear model", xlabel="round", ylim=(-0.05, 1.05))
right.set(title="Regret so far", xlabel="round")
left.legend()
plt.show()
