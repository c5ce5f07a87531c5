"""
Several agents on one problem
=============================

Environments show rounds and pay rewards; ``play_round`` is the whole loop. All agents meet the same rounds, as the
environment has a seed of its own.
"""

import matplotlib.pyplot as plt
import numpy as np

from treebandit import Bandit, LinUCB, UCB1Tuned, Uniform, play_round
from treebandit.environments import Classification

# %%
# The Mushroom table as a bandit: two arms, "eat" and "leave" so to speak, and a reward of 1 for the right one. Its
# features nearly decide it; ``UCB1Tuned``, which does not look at them, can learn only which arm is right more
# often.

agents = {
    "Bandit": Bandit(seed=0),
    "LinUCB": LinUCB(seed=0),
    "UCB1Tuned (no features)": UCB1Tuned(seed=0),
    "Uniform": Uniform(seed=0),
}
regrets = {}
for name, agent in agents.items():
    environment = Classification("mushroom", seed=0)
    regrets[name] = np.cumsum([play_round(agent, environment)[1].regret for _ in range(1500)])

figure, axis = plt.subplots()
for name, regret in regrets.items():
    axis.plot(regret, label=f"{name}: {regret[-1]:.0f}")
axis.set(title="Mushroom, 1,500 rounds, one seed", xlabel="round", ylabel="regret so far (symlog)")
axis.set_yscale("symlog", linthresh=10)
axis.legend()
plt.show()

# %%
# One seed is a picture, not a result: for results with many seeds write a study (:doc:`/experiments`).
