"""
Arms that come and go
=====================

A shop that sells something new every day cannot learn its products by their numbers. Where products have features, one
model for all of them carries over what it has learned to those that nobody has seen yet.
"""

import matplotlib.pyplot as plt
import numpy as np

import treebandit

PRODUCTS, DAY, DAYS = 50, 100, 12


def chance(prices, weights, budget):
    """The truth: people buy what costs about what they want to spend, unless it is heavy."""
    return 0.02 + 0.6 * np.exp(-((prices - budget) ** 2)) * (weights < 0.6)


def play(described):
    """The share of the best possible sales, customer by customer."""
    random = np.random.default_rng(0)
    agent = treebandit.Bandit(random_start="rounds", random_rounds=10, seed=0)
    shares = []
    for customer in range(DAYS * DAY):
        if customer % DAY == 0:  # the shelf is filled anew
            prices, weights = random.uniform(1, 9, PRODUCTS), random.uniform(0, 1, PRODUCTS)
            numbers = np.arange(PRODUCTS) + customer
        budget = random.uniform(1, 9)
        chances = chance(prices, weights, budget)
        if described:  # one row per product: what it is, and for whom
            rows = np.column_stack([prices, weights, np.full(PRODUCTS, budget)])
            row = agent.choose(rows)[0]
            agent.learn(rows[[row]], [float(random.random() < chances[row])])
        else:  # one row for all products, which have numbers
            row = agent.choose([budget], arms=numbers)[0]
            agent.learn([budget], float(random.random() < chances[row]), arms=[numbers[row]])
        shares.append(chances[row] / chances.max())
    return np.array(shares)


figure, axis = plt.subplots()
days = np.arange(DAYS) + 1
for described, name in ((True, "products with features"), (False, "products by number alone")):
    axis.plot(days, play(described).reshape(DAYS, DAY).mean(1), "o-", label=name)
axis.set(
    title="50 new products every day", xlabel="day", ylabel="share of the best possible sales", ylim=(0, 1)
)
axis.legend()
plt.show()
