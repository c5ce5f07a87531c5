"""How the variance that the leaves tell compares with the variance of the prediction over new data sets.

Run: python benchmarks/variance.py
"""

import numpy as np

from treebandit.trees import ExtraTrees, LeafStatistics, RandomForestTrees, XGBoostTrees

LEARNERS = {
    "boosting, depth 10, η 0.3": XGBoostTrees(),
    "boosting, depth 3, η 0.3": XGBoostTrees(max_depth=3),
    "boosting, depth 3, η 0.1": XGBoostTrees(max_depth=3, learning_rate=0.1),
    "random forest, depth 10": RandomForestTrees(),
    "extra trees, depth 10": ExtraTrees(),
}


def truth(features):
    return np.where(features[:, 0] > 0, 1.0, 0.0) + 0.5 * features[:, 1]


def compare(learner, *, rows, noise, repeats=30):
    """Standard deviation by the leaf statistics, and that of the predictions of models grown on new data."""
    probe = np.random.default_rng(99).uniform(-1, 1, (50, 5)).astype(np.float32)
    estimates = []
    for seed in range(repeats):
        random = np.random.default_rng(seed)
        features = random.uniform(-1, 1, (rows, 5)).astype(np.float32)
        targets = truth(features) + noise * random.standard_normal(rows)
        forest = learner.fit(features, targets, seed=seed)
        estimates.append(LeafStatistics.measure(forest, features, targets).estimate(probe))
    estimated = np.mean([estimate.variance for estimate in estimates])
    true = np.var([estimate.mean for estimate in estimates], axis=0, ddof=1).mean()
    return np.sqrt(estimated), np.sqrt(true)


def main():
    print("| trees | rows | noise σ | estimated | true | estimated / true, as variances |")
    print("| --- | --- | --- | --- | --- | --- |")
    for rows, noise in ((20, 0.5), (100, 0.5), (1000, 0.5)):
        for name, learner in LEARNERS.items():
            estimated, true = compare(learner, rows=rows, noise=noise)
            print(
                f"| {name} | {rows} | {noise} | {estimated:.3f} | {true:.3f} | {(estimated / true) ** 2:.2f} |"
            )


if __name__ == "__main__":
    main()
