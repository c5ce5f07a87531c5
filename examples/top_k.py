"""A front page: show three of twenty articles each time, and learn which ones a reader opens."""

import numpy as np

from treebandit.agents import TEUCB
from treebandit.oracles import TopK
from treebandit.trees import XGBoostTrees


def main(rounds=400):
    random = np.random.default_rng(2)
    three_best = TopK(3)
    agent = TEUCB(XGBoostTrees(n_trees=50, max_depth=4), random_start="rounds", seed=2)
    regrets = []
    for _ in range(rounds):
        articles = random.random((20, 4), dtype=np.float32)  # new ones every time: freshness, length, ...
        shown = agent.choose(articles, oracle=three_best)
        chance = opened(articles)
        agent.learn(articles[shown], random.random(3) < chance[shown])
        regrets.append(chance[three_best(chance)].sum() - chance[shown].sum())
    first, last = np.mean(regrets[:50]), np.mean(regrets[-50:])
    print(f"articles not opened for want of a better page: {first:.2f} at first, {last:.2f} at last")
    return first, last


def opened(articles):
    """The truth that the agent does not know: readers open what is fresh and not long."""
    return np.where((articles[:, 0] > 0.6) & (articles[:, 1] < 0.5), 0.8, 0.1)


if __name__ == "__main__":
    main()
