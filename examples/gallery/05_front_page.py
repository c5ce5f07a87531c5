"""
A front page: three of twenty
=============================

Articles come and go, so they have no fixed names: each is a row of features. An oracle says which sets of rows may
be chosen; ``TopK(3)`` takes three.
"""

import matplotlib.pyplot as plt
import numpy as np

from treebandit import Bandit, TopK

random = np.random.default_rng(1)
three_best = TopK(3)


def chance_to_open(articles):
    """The truth that the agent does not know: readers open what is fresh and not long."""
    fresh, length = articles[:, 0], articles[:, 1]
    return np.where((fresh > 0.6) & (length < 0.5), 0.8, 0.1)


# %%
# One reward per article shown: all three are learned from, opened or not.

agent = Bandit(random_start="rounds", random_rounds=5, seed=0)
opened, best = [], []
for _ in range(400):
    articles = random.random((20, 4))  # freshness, length, and two numbers that mean nothing
    rows = agent.choose(articles, oracle=three_best)
    clicks = random.random(3) < chance_to_open(articles[rows])
    agent.learn(articles[rows], clicks.astype(float))
    opened.append(chance_to_open(articles[rows]).sum())
    best.append(np.sort(chance_to_open(articles))[-3:].sum())


def smooth(values, width=20):
    """The mean of the last `width` values."""
    return np.convolve(values, np.ones(width) / width, mode="valid")


# %%
# Left: how many articles are opened. Right: what it has learned of freshness and length, the other two numbers at
# one half.

side = np.linspace(0, 1, 50)
rows = np.array([[fresh, length, 0.5, 0.5] for length in side for fresh in side])

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4))
left.plot(smooth(best), color="0.6", ls="--", label="the best page")
left.plot(smooth(opened), label="the agent's page")
left.set(title="Articles opened per page", xlabel="page", ylabel="expected, mean of 20 pages", ylim=(0, None))
left.legend()
picture = right.imshow(
    agent.estimate(rows).mean.reshape(50, 50), origin="lower", extent=(0, 1, 0, 1), vmin=0, vmax=1
)
right.set(title="Estimated chance to be opened", xlabel="freshness", ylabel="length")
right.grid(False)
figure.colorbar(picture, ax=right)
plt.show()
