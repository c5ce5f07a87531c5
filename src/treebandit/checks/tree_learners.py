"""Contracts of tree learners."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection

import numpy as np

from treebandit.checks.contracts import SEED, Subject, check_description, run, same
from treebandit.core import Features, Floats
from treebandit.trees.forest import Forest, TreeLearner
from treebandit.trees.leaf_statistics import LeafStatistics

_FEATURES = 3


def check_tree_learner(
    learner: TreeLearner | Callable[[], TreeLearner],
    *,
    rows: int = 120,
    skip: Collection[str] = (),
) -> None:
    """Raise a CheckError where a tree learner breaks a contract.

    learner: one, or a class or function that returns one.
    rows: how many rows to grow trees on.
    skip: names of contracts that are not promised: 'predictions', 'seed', 'description', 'missing_values',
        'little_data', 'counts', 'statistics'.
    """
    run(_CONTRACTS, Subject.of(learner, method="fit", size=rows), skip)


def _data(n: int) -> tuple[Features, Floats]:
    random = np.random.default_rng(0)
    features = random.uniform(-1.0, 1.0, (n, _FEATURES)).astype(np.float32)
    targets = np.where(features[:, 0] > 0.1, 2.0, -1.0) + 0.1 * random.standard_normal(n)
    return features, targets


def _fit(examined: Subject[TreeLearner], features: Features, targets: Floats) -> Forest:
    forest = examined.make().fit(features, targets, seed=SEED)
    contract = "fit returns a Forest over the features it was given"
    examined.require(isinstance(forest, Forest), contract, f"it returned a {type(forest).__name__}")
    examined.require(
        forest.n_features == features.shape[1],
        contract,
        f"the forest has {forest.n_features} features, not {features.shape[1]}",
    )
    return forest


def _predictions(examined: Subject[TreeLearner], forest: Forest, features: Features, on: str) -> Floats:
    predictions = forest.predict(features)
    examined.require(
        predictions.shape == (len(features),) and np.isfinite(predictions).all(),
        "a forest predicts one finite number per row",
        f"on {on} it gave {predictions[:5].tolist()} ... of shape {predictions.shape}",
    )
    return predictions


def _check_predictions(examined: Subject[TreeLearner]) -> None:
    features, targets = _data(examined.size)
    given = features.copy(), targets.copy()
    forest = _fit(examined, features, targets)
    examined.require(
        same(given, (features, targets)), "fit leaves its arrays as they are", "it wrote into them"
    )
    error = float(np.mean((_predictions(examined, forest, features, "its own rows") - targets) ** 2))
    variance = float(np.var(targets))
    examined.require(
        error < variance,
        "trees fit rows that one split explains better than their mean does",
        f"the mean squared error is {error:.3g} where the mean's is {variance:.3g}",
    )


def _check_seed(examined: Subject[TreeLearner]) -> None:
    features, targets = _data(examined.size)
    first, second = (_fit(examined, features, targets) for _ in range(2))
    kept = same(first.find_leaves(features), second.find_leaves(features))
    kept = kept and same(first.predict(features), second.predict(features))
    examined.require(kept, "the same seed grows the same trees", "two fits differ")


def _check_missing_values(examined: Subject[TreeLearner]) -> None:
    features, targets = _data(examined.size)
    holes = np.where(np.random.default_rng(1).random(features.shape) < 0.3, np.float32(np.nan), features)
    holes[:, -1] = np.nan
    nothing = np.full((2, _FEATURES), np.nan, np.float32)
    for trained, on in (
        (holes, "rows with missing values"),
        (features, "missing values that training did not have"),
    ):
        forest = _fit(examined, trained, targets)
        _predictions(examined, forest, holes, on)
        _predictions(examined, forest, nothing, on)


def _check_little_data(examined: Subject[TreeLearner]) -> None:
    """One leaf, equal rows, equal targets, two rows, one column."""
    features, targets = _data(examined.size)
    _predictions(examined, _fit(examined, np.zeros_like(features), targets), features, "constant features")
    _predictions(examined, _fit(examined, features[:2], targets[:2]), features, "trees grown on two rows")
    _predictions(
        examined, _fit(examined, features[:, :1].copy(), targets), features[:, :1].copy(), "one column"
    )
    repeated = np.repeat(features[:3], 4, axis=0)
    _predictions(examined, _fit(examined, repeated, targets[:12]), features, "repeated rows")
    forest = _fit(examined, features, np.full(examined.size, 2.5))
    predictions = _predictions(examined, forest, features, "constant targets")
    examined.require(
        np.allclose(predictions, 2.5, atol=1e-5),
        "trees grown on equal targets predict them",
        f"2.5 was predicted as {predictions[np.abs(predictions - 2.5).argmax()]}",
    )


def _check_counts(examined: Subject[TreeLearner]) -> None:
    features, targets = _data(examined.size)
    forest = _fit(examined, features, targets)
    leaves = forest.find_leaves(features)
    few = [tree for tree, ends in enumerate(leaves.T) if np.unique(ends, return_counts=True)[1].min() < 2]
    contract = "at least two training rows reach a leaf"
    examined.require(not few, contract, f"one row alone reaches a leaf of tree {few and few[0]}")


def _check_statistics(examined: Subject[TreeLearner]) -> None:
    """Output, variance and count of the leaves are those of the appendix "Calculating Leaf Values"."""
    features, targets = _data(examined.size)
    forest = _fit(examined, features, targets)
    estimate = LeafStatistics.measure(forest, features, targets, output="average").estimate(features)
    expected = _slow_estimate(forest, features, targets)
    scale = float(np.var(targets)) + 1.0
    for name, wanted in zip(("mean", "variance", "count"), expected, strict=True):
        off = float(np.abs(getattr(estimate, name) - wanted)[~np.isnan(wanted)].max(initial=0.0)) / scale
        examined.require(off < 1e-9, f"the {name} rests on the leaves' own rows", f"it is off by {off:.3g}")
    plain = LeafStatistics.measure(forest, features, targets).estimate(features).mean
    examined.require(
        np.allclose(plain, forest.predict(features), rtol=1e-9, atol=1e-9),
        "with the library's leaf outputs the mean is the forest's prediction",
        f"they differ by up to {np.abs(plain - forest.predict(features)).max():.3g}",
    )


def _slow_estimate(forest: Forest, features: Features, targets: Floats) -> list[Floats]:
    """Mean, variance and count of each row by the appendix's two loops, one row and one tree at a time."""
    leaves = forest.find_leaves(features).tolist()
    suggested: dict[int, list[float]] = defaultdict(list)
    for row, target in zip(leaves, targets.tolist(), strict=True):
        prefix = forest.base
        for leaf in row:
            boosted = forest.learning_rate > 0
            suggested[leaf].append(
                forest.learning_rate * (target - prefix) if boosted else target / forest.n_trees
            )
            prefix += float(forest.values[leaf])
    means = {leaf: math.fsum(given) / len(given) for leaf, given in suggested.items()}
    variances = {leaf: _variance(given, means[leaf]) for leaf, given in suggested.items()}
    return [
        np.array([forest.base + math.fsum(means[leaf] for leaf in row) for row in leaves]),
        np.array([math.fsum(variances[leaf] for leaf in row) for row in leaves]),
        np.array([math.fsum(len(suggested[leaf]) for leaf in row) for row in leaves]),
    ]


def _variance(given: list[float], mean: float) -> float:
    """s²/c, which one row alone does not have."""
    if len(given) < 2:
        return math.nan
    return math.fsum((y - mean) ** 2 for y in given) / (len(given) - 1) / len(given)


_CONTRACTS: dict[str, Callable[[Subject[TreeLearner]], None]] = {
    "predictions": _check_predictions,
    "seed": _check_seed,
    "description": check_description,
    "missing_values": _check_missing_values,
    "little_data": _check_little_data,
    "counts": _check_counts,
    "statistics": _check_statistics,
}
