"""
How probabilities sharpen
=========================

Every decision tells the probability it was drawn with. At first all arms are likely; the more is known, the more the
decisions agree, down to the floor that keeps every arm in play.
"""

import matplotlib.pyplot as plt
import numpy as np

import treebandit

random = np.random.default_rng(0)
arms = ["a", "b", "c", "d"]
means = {"a": 0.55, "b": 0.50, "c": 0.35, "d": 0.20}

# %%
# Four arms with the same context in every round. ``a`` and ``b`` are close, so that it takes long to tell them
# apart.

agent = treebandit.TETS(
    treebandit.HistogramForest(n_trees=20, max_depth=4), exploration=3.0, random_rounds=5, seed=0
)
history = []
for _ in range(500):
    decision = agent.decide(np.zeros(1), arms=arms, floor=0.04)
    agent.learn(decision, float(random.random() < means[decision.arm]))
    history.append(decision.probabilities)

figure, axis = plt.subplots()
axis.stackplot(
    range(500), np.array(history).T, labels=[f"{arm}: pays {means[arm]:.2f}" for arm in arms], alpha=0.85
)
axis.set(title="Probability of each arm", xlabel="round", ylim=(0, 1), xlim=(0, 500))
axis.legend(loc="upper left", bbox_to_anchor=(1, 1))
plt.show()

# %%
# The floor gives each arm 0.04 / 4 of the decisions for ever. That is the price of being able to say later, from
# the log alone, what another rule would have earned.
