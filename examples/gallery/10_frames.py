"""
Frames with categories and missing values
=========================================

Rows may be frames of pandas, polars or pyarrow, or dicts: text and true/false columns are categories, an empty cell is
missing, and a category that comes later is no problem.
"""

import matplotlib.pyplot as plt
import numpy as np
import polars as pl

import treebandit

random = np.random.default_rng(0)
cities, plans = np.array(["Rome", "Oslo", "Lima"]), np.array(["free", "basic", "pro"])
offers = ["trial", "upgrade", "nothing"]


def customer():
    """One customer; the age is often not known."""
    return {
        "city": str(random.choice(cities)),
        "plan": str(random.choice(plans)),
        "age": float(random.integers(18, 80)) if random.random() < 0.7 else float("nan"),
    }


def gain(customer, offer):
    """The truth: an upgrade pays with basic customers, a trial with free ones in Oslo, else it annoys."""
    if offer == "upgrade":
        return 3.0 if customer["plan"] == "basic" else -0.5
    if offer == "trial":
        return 2.0 if customer["plan"] == "free" and customer["city"] == "Oslo" else -0.2
    return 0.0


agent = treebandit.Bandit(seed=0)
for _ in range(600):
    person = customer()
    offer = offers[agent.choose(person, arms=offers)[0]]
    agent.learn(person, gain(person, offer) + random.normal(0, 1), arms=offer)

# %%
# A frame asks for many estimates at once: one row per kind of customer, the age unknown. The offers that pay are
# known well. Of offers that disappointed at once, such as a trial for "pro", only this much is known: that they
# were not worth another try. An agent learns what it needs for its decisions, not the whole truth.

kinds = pl.DataFrame({"city": np.repeat(cities, 3), "plan": np.tile(plans, 3), "age": [float("nan")] * 9})
figure, axes = plt.subplots(1, 3, figsize=(9.5, 3), sharey=True)
for axis, offer in zip(axes, offers, strict=True):
    belief = agent.estimate(kinds, arms=[offer] * 9)
    axis.imshow(belief.mean.reshape(3, 3), cmap="PiYG", vmin=-3, vmax=3)
    for place, mean in np.ndenumerate(belief.mean.reshape(3, 3)):
        axis.text(place[1], place[0], f"{mean:+.1f}", ha="center", va="center")
    axis.set(
        title=f"gain of '{offer}'", xticks=range(3), xticklabels=plans, yticks=range(3), yticklabels=cities
    )
    axis.grid(False)
plt.show()
