"""
Who does which job
==================

Four jobs a round, five workers, each worker at most one job. The candidates are the pairs, and ``Assignment`` is the
oracle that chooses pairs which go together.
"""

import matplotlib.pyplot as plt
import numpy as np

from treebandit import Assignment, Bandit

JOBS, WORKERS, KINDS = 4, 5, 3
random = np.random.default_rng(3)
skill = random.random((WORKERS, KINDS))  # the truth that the agent does not know
jobs, workers = (grid.ravel() for grid in np.meshgrid(range(JOBS), range(WORKERS), indexing="ij"))
best_pairs = Assignment(jobs, workers)

agent = Bandit(random_start="rounds", random_rounds=5, seed=0)
lost = []
for _ in range(200):
    kinds = random.integers(KINDS, size=JOBS)
    contexts = np.column_stack([np.eye(WORKERS)[workers], np.eye(KINDS)[kinds[jobs]]])
    pairs = agent.choose(contexts, oracle=best_pairs)
    quality = skill[workers, kinds[jobs]]
    agent.learn(contexts[pairs], quality[pairs] + random.normal(0, 0.1, len(pairs)))
    lost.append(quality[best_pairs(quality)].sum() - quality[pairs].sum())

# %%
# The skills as they are, as they are estimated, and what was lost on the way. A worker who is bad at a kind of job
# is tried at it now and then, and no more often than it takes to know.

pairs = np.array(
    [np.concatenate([np.eye(WORKERS)[w], np.eye(KINDS)[k]]) for w in range(WORKERS) for k in range(KINDS)]
)
estimate = agent.estimate(pairs).mean.reshape(WORKERS, KINDS)
figure, axes = plt.subplots(1, 3, figsize=(9.5, 3.4), width_ratios=(1, 1, 1.6))
for axis, values, title in ((axes[0], skill, "true skill"), (axes[1], estimate, "estimated")):
    axis.imshow(values, vmin=0, vmax=1, cmap="Greens")
    for (w, k), value in np.ndenumerate(values):
        axis.text(
            k, w, f"{value:.2f}", ha="center", va="center", color="w" if value > 0.6 else "k", fontsize=8
        )
    axis.set(title=title, xlabel="kind of job", ylabel="worker", xticks=range(KINDS), yticks=range(WORKERS))
    axis.grid(False)
axes[2].plot(np.convolve(lost, np.ones(15) / 15, mode="valid"))
axes[2].set(title="Quality lost per round", xlabel="round", ylim=(0, None))
plt.show()
