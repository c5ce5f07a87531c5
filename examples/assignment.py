"""Dispatching: give each of four jobs to one of five workers, and learn who does which kind of job well."""

import numpy as np

from treebandit.agents import TETS
from treebandit.oracles import Assignment
from treebandit.trees import RandomForestTrees

JOBS, WORKERS = 4, 5


def main(rounds=200):
    random = np.random.default_rng(3)
    jobs, workers = (grid.ravel() for grid in np.meshgrid(range(JOBS), range(WORKERS), indexing="ij"))
    best_pairs = Assignment(jobs, workers)
    skill = random.random((WORKERS, 3))  # the truth that the agent does not know: worker x kind of job
    agent = TETS(RandomForestTrees(n_trees=30), random_start="rounds", seed=3)
    regrets = []
    for _ in range(rounds):
        kinds = random.integers(3, size=JOBS)
        contexts = np.column_stack([workers, kinds[jobs]]).astype(np.float32)
        pairs = agent.choose(contexts, oracle=best_pairs)
        quality = skill[workers, kinds[jobs]]
        agent.learn(contexts[pairs], quality[pairs] + random.normal(0, 0.1, len(pairs)))
        regrets.append(quality[best_pairs(quality)].sum() - quality[pairs].sum())
    first, last = np.mean(regrets[:50]), np.mean(regrets[-50:])
    print(f"quality lost per round: {first:.2f} in the first 50 rounds, {last:.2f} in the last 50")
    return first, last


if __name__ == "__main__":
    main()
