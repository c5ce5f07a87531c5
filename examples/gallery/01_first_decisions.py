"""
First decisions
===============

Three offers, and visitors of whom two numbers are known. The agent shows one offer at a time and sees only whether that
one was bought.
"""

import matplotlib.pyplot as plt
import numpy as np

import treebandit

random = np.random.default_rng(0)
offers = ["coffee", "tea", "water"]


def chances(visitor):
    """The truth that the agent does not know: how likely each offer is to be bought."""
    morning, thirsty = visitor > 0
    return np.array(
        [0.7 if morning else 0.1, 0.5 if not morning and not thirsty else 0.1, 0.6 if thirsty else 0.2]
    )


# %%
# Each visit is a decision, a purchase or none, and one row to learn from.

agent = treebandit.Bandit(seed=0)
lost = []
for _ in range(1000):
    visitor = random.normal(size=2)
    decision = agent.decide(visitor, arms=offers)
    bought = random.random() < chances(visitor)[decision.row]
    agent.learn(decision, float(bought))
    lost.append(chances(visitor).max() - chances(visitor)[decision.row])

# %%
# Left: what the choices cost, against always showing the best offer. Right: the offer that it thinks best now, for
# visitors of all kinds, with the true borders as lines. Where both numbers are large, coffee and water sell nearly
# alike (0.7 and 0.6), and few visitors come from there: a mistake there costs little, so it is mended late.

at_random = np.mean([c.max() - c.mean() for c in map(chances, random.normal(size=(2000, 2)))])
grid = np.stack(np.meshgrid(np.linspace(-2, 2, 60), np.linspace(-2, 2, 60)), axis=-1).reshape(-1, 2)
belief = np.column_stack([agent.estimate(grid, arms=[offer] * len(grid)).mean for offer in offers])

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4))
left.plot(np.cumsum(lost), label="treebandit.Bandit()")
left.plot([0, 1000], [0, 1000 * at_random], color="0.6", ls="--", label="offers at random")
left.set(title="Purchases lost so far", xlabel="visit", ylabel="expected purchases")
left.legend()

colours = plt.matplotlib.colors.ListedColormap(["#8c510a", "#5aae61", "#67a9cf"])
right.imshow(
    belief.argmax(1).reshape(60, 60), origin="lower", extent=(-2, 2, -2, 2), cmap=colours, vmin=0, vmax=2
)
right.axvline(0, color="w", lw=1)
right.plot([-2, 0], [0, 0], color="w", lw=1)
for offer, place in zip(offers, [(1.0, -0.1), (-1.0, -1.0), (-1.0, 1.0)], strict=True):
    right.text(*place, offer, color="w", ha="center", weight="bold")
right.set(title="The offer it thinks best", xlabel="first number", ylabel="second number")
right.grid(False)
plt.show()
