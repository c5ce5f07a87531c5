"""How often intervals for the true mean hold it, on made problems whose mean is known.

Run: python benchmarks/calibration.py [--trees NAME ...] [--problems NAME ...] [--seeds 10 11 12] [--agent]

The first ten problems were there while the method was made, on seeds 1 to 3. The `other` ones decided nothing.
"""

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from treebandit import (
    TETS,
    HistogramForest,
    LightGBMTrees,
    RandomForestTrees,
    TreeEnsembleRegressor,
    XGBoostTrees,
)

TREES = {
    "HistogramForest": HistogramForest(),
    "RandomForestTrees": RandomForestTrees(max_features=0.5),
    "XGBoostTrees": XGBoostTrees(),
    "LightGBMTrees": LightGBMTrees(),
}
LEVELS = {0.80: 1.2816, 0.95: 1.96, 0.99: 2.5758}
TEST_ROWS = 2000
HEADER = ["problem", "mean, 80 / 95 / 99 %", "leaf variance", "jackknife", "new observation"]
HEADER += ["error", "told", "leaf told", "CPU s"]


@dataclass(frozen=True)
class Problem:
    """Rows, their true means, and the noise around them."""

    rows: int
    width: int
    mean: Callable
    noise: Callable | float
    categories: int = 0

    def draw(self, random, n):
        """(n, width) features, their means and their targets."""
        if self.categories:
            features = random.integers(0, self.categories, (n, self.width)).astype(np.float32)
        else:
            features = random.uniform(-1, 1, (n, self.width)).astype(np.float32)
        mean = self.mean(features)
        if callable(self.noise):
            return features, mean, self.noise(random, features, mean)
        return features, mean, mean + self.noise * random.standard_normal(n)


def friedman(x):
    u = (x + 1) / 2
    curved = 10 * np.sin(np.pi * u[:, 0] * u[:, 1]) + 20 * (u[:, 2] - 0.5) ** 2
    return (curved + 10 * u[:, 3] + 5 * u[:, 4]) / 5


def smooth(x):
    return np.sin(3 * x[:, 0]) + x[:, 1] * x[:, 2]


_SINGLE = np.random.default_rng(5).normal(size=(4, 6))
_PAIRS = np.random.default_rng(6).normal(size=(6, 6))


def categories(x):
    codes = x.astype(int)
    return sum(_SINGLE[j][codes[:, j]] for j in range(4)) + _PAIRS[codes[:, 0], codes[:, 1]]


def growing_noise(random, x, mean):
    return mean + (0.1 + np.abs(x[:, 0])) * random.standard_normal(len(mean))


def clicks(random, x, mean):
    return (random.random(len(mean)) < mean).astype(float)


PROBLEMS = {
    "step": Problem(500, 5, lambda x: 1.0 * (x[:, 0] > 0) + 0.5 * (x[:, 1] > 0.3), 0.3),
    "sine": Problem(1000, 4, lambda x: np.sin(4 * x[:, 0]), 0.2),
    "friedman": Problem(500, 10, friedman, 1.0),
    "linear": Problem(2000, 5, lambda x: x @ np.array([1, 0.8, 0.6, 0.4, 0.2]), 1.0),
    "sparse": Problem(1000, 50, lambda x: 2 * x[:, 0] * x[:, 1] + x[:, 2], 0.5),
    "categories": Problem(2000, 4, categories, 1.0, categories=6),
    "no noise": Problem(2000, 5, smooth, 0.0),
    "growing noise": Problem(2000, 4, smooth, growing_noise),
    "much noise": Problem(5000, 6, lambda x: 0.5 * smooth(x), 2.0),
    "few rows": Problem(200, 4, lambda x: x[:, 0] + 1.0 * (x[:, 1] > 0), 0.5),
    "many rows": Problem(20_000, 10, friedman, 1.0),
}
OTHERS = {
    "waves": Problem(3000, 3, lambda x: np.sin(5 * x[:, 0]) * np.cos(4 * x[:, 1]), 0.4),
    "clicks": Problem(4000, 6, lambda x: 0.05 + 0.3 * (x[:, 0] > 0.2) * (x[:, 1] + 1) / 2, clicks),
    "kinks": Problem(
        800, 8, lambda x: np.abs(x[:, 0]) + np.maximum(x[:, 1], 0) - np.abs(x[:, 2] + x[:, 3]), 0.3
    ),
    "heavy tails": Problem(
        1500, 6, smooth, lambda random, x, mean: mean + 0.4 * random.standard_t(3, len(mean))
    ),
}


def fitted(trees, features, targets, seed, agent):
    """A model with `estimate`, on these rows; of an agent, after learning them in ten batches."""
    if not agent:
        return TreeEnsembleRegressor(trees, variance="calibrated", random_state=seed).fit(features, targets)
    learner = TETS(trees, variance="calibrated", random_start="rounds", rebuild="2 ln t", seed=seed)
    for rows in np.array_split(np.arange(len(targets)), 10):
        learner.learn(features[rows], targets[rows])
    return learner


def jackknife(trees, features, targets, test, seed):
    """The jackknife after bootstrap of Wager, Hastie and Efron (2014), corrected for the number of trees: (n,)."""
    forest = trees.fit(features, targets, seed=seed)
    if forest.in_bag is None:
        return None
    outputs = forest.values[forest.find_leaves(test)] * forest.n_trees
    out, mean = (~forest.in_bag).astype(float), outputs.mean(1)
    without = outputs @ out.T / np.maximum(out.sum(1), 1.0)
    plain = np.square(without - mean[:, None]).sum(1)
    rows, count = forest.in_bag.shape
    return np.maximum(plain - (np.e - 1) * rows / count * outputs.var(1), 0.0)


def measure(problem, trees, seed, agent=False):
    """Shares of test rows in intervals of the three levels, calibrated, leaf, jackknife; new observations; costs."""
    random = np.random.default_rng(seed)
    features, _, targets = problem.draw(random, problem.rows)
    test, mean, observed = problem.draw(random, TEST_ROWS)
    began = time.process_time()
    model = fitted(trees, features, targets, seed, agent)
    seconds = time.process_time() - began
    estimate = model.estimate(test)
    if agent:
        leaves, deviation = model.model.leaves, model.model.scale.deviation
        sums = leaves.leaf_sums(model.model.encoder(test, None))
    else:
        leaves, deviation = model.leaves_, model.scale_.deviation
        sums = leaves.leaf_sums(test)
    error, width = np.abs(estimate.mean - mean), np.sqrt(estimate.variance)
    held = {"calibrated": [np.mean(error <= z * width) for z in LEVELS.values()]}
    leaf = deviation * np.sqrt(sums.variance)
    held["leaf"] = [np.mean(error <= z * leaf) for z in LEVELS.values()]
    if not agent and (others := jackknife(trees, features, targets, test, seed)) is not None:
        held["jackknife"] = [np.mean(error <= z * np.sqrt(others)) for z in LEVELS.values()]
    if not agent:
        for level in LEVELS:
            lower, upper = model.predict(test, interval=level)
            held.setdefault("new", []).append(np.mean((lower <= observed) & (observed <= upper)))
    rest = [np.sqrt(np.mean(error**2)), np.sqrt(np.mean(width**2)), np.sqrt(np.mean(leaf**2)), seconds]
    return held, rest


def _held(runs, kind):
    """Percents of the three levels, over all runs; nothing where there are none of this kind."""
    known = [held[kind] for held, _ in runs if kind in held]
    return " / ".join(f"{100 * share:.0f}" for share in np.mean(known, 0)) if known else ""


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--trees", nargs="+", default=list(TREES), choices=TREES)
    every = PROBLEMS | OTHERS
    parser.add_argument("--problems", nargs="+", default=list(every), choices=every)
    parser.add_argument("--seeds", nargs="+", type=int, default=[10, 11, 12])
    parser.add_argument("--agent", action="store_true")
    asked = parser.parse_args()
    for name in asked.trees:
        print(f"\n{name}{', TETS.estimate' if asked.agent else ''}, seeds {asked.seeds}\n")
        print(f"| {' | '.join(HEADER)} |\n|{' --- |' * len(HEADER)}", flush=True)
        rows = []
        for each in asked.problems:
            runs = [measure(every[each], TREES[name], seed, asked.agent) for seed in asked.seeds]
            shown = [_held(runs, kind) for kind in ("calibrated", "leaf", "jackknife", "new")]
            numbers = " | ".join(f"{x:.3f}" for x in np.mean([rest for _, rest in runs], 0)[:3])
            seconds = np.mean([rest[3] for _, rest in runs])
            print(f"| {each} | {' | '.join(shown)} | {numbers} | {seconds:.1f} |", flush=True)
            rows.append(np.mean([held["calibrated"] for held, _ in runs], 0))
        off = 100 * (np.array(rows) - np.array(list(LEVELS)))
        print(f"\nmean {np.round(off.mean(0), 1)}, mean size {np.round(np.abs(off).mean(0), 1)}, ", end="")
        print(f"least {np.round(off.min(0), 1)}, greatest {np.round(off.max(0), 1)} points off", flush=True)


if __name__ == "__main__":
    main()
