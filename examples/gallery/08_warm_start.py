"""
A warm start from an old log
============================

Most projects begin with rows that were collected before: somebody chose, and wrote down what came of it. An agent may
learn any rows before its first decision.
"""

import matplotlib.pyplot as plt
import numpy as np

from treebandit import Bandit, Uniform, play_round
from treebandit.core import Candidates
from treebandit.environments import Synthetic


def problem():
    """The same truth and the same rounds for all agents."""
    return Synthetic("interactions", arms=5, features=8, rewards="binary", seed=5)


# %%
# A log of 500 decisions at random, then the agents start on fresh rounds: one knows the log, the other does not.

environment, logger = problem(), Uniform(seed=9)
contexts, arms, rewards = [], [], []
for _ in range(500):
    this_round = environment.observe()
    row = logger.choose(this_round.candidates)
    outcome = environment.pull(row)
    contexts.append(this_round.candidates.contexts[row[0]])
    arms.append(this_round.candidates.arms[row[0]])
    rewards.append(outcome.rewards[0])

cold, warm = Bandit(seed=0), Bandit(seed=0)
columns = this_round.candidates.columns
warm.learn(Candidates(np.array(contexts), np.array(arms), columns), np.array(rewards))

figure, axis = plt.subplots()
for agent, name in ((cold, "cold start"), (warm, "500 logged rows first")):
    environment = problem()
    regret = np.cumsum([play_round(agent, environment)[1].regret for _ in range(2000)])
    axis.plot(regret, label=name)
axis.set(title="Five arms, interactions of three features", xlabel="round", ylabel="regret so far")
axis.legend()
plt.show()
