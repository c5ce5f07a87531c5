"""
How sure is a tree ensemble?
============================

Every leaf of a tree is a small sample, so an ensemble can tell how far off its prediction may be. The estimate behind
the bandits is also a scikit-learn regressor.
"""

import matplotlib.pyplot as plt
import numpy as np

from treebandit import RandomForestTrees, TreeEnsembleRegressor, XGBoostTrees

random = np.random.default_rng(0)
x = np.concatenate([random.uniform(-3, -0.5, 150), random.uniform(0.8, 3, 60)])
y = np.sin(2 * x) + 0.5 * (x > 0) + random.normal(0, np.where(x < -1.5, 0.35, 0.1))

# %%
# Two ensembles, and two ways to tell how sure they are. The deviation of the leaves, the paper's, is large on the
# left, where the noise is strong, and small where it is weak. It ranks rows by how little is known of them and is no
# confidence interval, as trees grown on the same rows err together, which the sum over the leaves does not count.
# The calibrated deviation is right on average: the band of twice its width holds the true mean about 95 times in
# 100. In the gap without rows each tree answers with the leaf next to it, and the deviation is that leaf's: trees
# cannot see that nothing lies there.

grid = np.linspace(-3, 3, 400)
figure, axes = plt.subplots(2, 2, figsize=(9, 4.6), sharex=True, sharey="row", height_ratios=(2, 1))
ensembles = {
    "random forest": RandomForestTrees(n_trees=100, max_depth=6),
    "XGBoost": XGBoostTrees(n_trees=100, max_depth=3, learning_rate=0.1),
}
for (top, bottom), (name, trees) in zip(axes.T, ensembles.items(), strict=True):
    top.plot(x, y, ".", color="0.6", ms=4, label="rows")
    for variance in ("leaf", "calibrated"):
        model = TreeEnsembleRegressor(trees, variance=variance, random_state=0).fit(x[:, None], y)
        mean, deviation = model.predict(grid[:, None], return_std=True)
        bottom.semilogy(grid, deviation, label=variance)
    top.plot(grid, mean, label="prediction")
    top.fill_between(grid, mean - 2 * deviation, mean + 2 * deviation, alpha=0.3, label="calibrated, twice")
    top.set_title(name)
    bottom.set_xlabel("x")
axes[0, 0].legend()
axes[1, 0].legend()
axes[1, 0].set_ylabel("deviation")
plt.show()

# %%
# What stands behind the numbers, and how far off they are, is on the page :doc:`/variance`.
