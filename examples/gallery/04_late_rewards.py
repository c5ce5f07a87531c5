"""
Late rewards
============

A purchase may come days after the offer. Decisions and learning are separate calls, so that rewards can come whenever
they are known, in any order.
"""

import matplotlib.pyplot as plt
import numpy as np

from treebandit import Bandit, play_round
from treebandit.environments import Delayed, Synthetic

# %%
# ``Delayed`` hands rewards over in batches: nothing is learned until a batch is complete. Small batches cost next
# to nothing; with large ones the price is the first batch, in which all choices are random.

figure, axis = plt.subplots()
for batch in (1, 50, 500):
    problem = Synthetic("interactions", arms=4, features=6, rewards="binary", seed=3)
    environment = Delayed(problem, batch=batch)
    agent = Bandit(seed=0)
    regret = np.cumsum([play_round(agent, environment)[1].regret for _ in range(2000)])
    axis.plot(regret, label=f"batches of {batch}" if batch > 1 else "at once")
axis.set(title="Four arms, rewards in batches", xlabel="round", ylabel="regret so far")
axis.legend()
plt.show()
