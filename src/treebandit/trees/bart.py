"""Bayesian additive regression trees (Chipman, George and McCulloch, 2010), sampled by stochtree."""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np

from treebandit.core import Features, Floats
from treebandit.parameters import check_number
from treebandit.trees.forest import Forest, joined, less_or_equal
from treebandit.trees.limits import check_installed

#: Scale of the prior of the noise's variance: without one it falls to 0 where trees fit all rewards, and stochtree
#: refuses that.
_NOISE = 1e-6
#: Fewest rows in a leaf, as in stochtree; it needs more than twice as many rows.
MIN_SAMPLES_LEAF = 5


@dataclass(frozen=True, slots=True)
class PosteriorSettings:
    """What is sampled, and how long: the arguments of BartTS under the same names."""

    n_trees: int = 50
    draws: int = 20
    burn_in: int = 10
    warm_start: int = 5

    def __post_init__(self) -> None:
        check_number("n_trees", self.n_trees, least=1, most=10_000, whole=True)
        check_number("draws", self.draws, least=1, most=10_000, whole=True)
        check_number("burn_in", self.burn_in, least=0, most=1_000_000, whole=True)
        check_number("warm_start", self.warm_start, least=0, most=10_000, whole=True)
        check_installed("stochtree", "stochtree", "bart")


def sample_posterior(
    features: Features, targets: Floats, settings: PosteriorSettings, *, seed: int
) -> Forest:
    """Ensembles drawn from the posterior, given (n, d) features and (n,) targets: `n_trees` trees each, in one forest.

    targets: of mean 0 and standard deviation 1. Tree k belongs to draw k // n_trees; `predictions` sums up the trees of
    each draw. Where all targets are the same there is nothing to learn: all trees are one leaf of value 0.
    """
    from stochtree import BARTModel

    if targets.min() == targets.max():
        return Forest.of_single_leaves(
            np.zeros(settings.draws * settings.n_trees), n_features=features.shape[1]
        )
    model = BARTModel()
    model.sample(
        _filled(features),
        np.ascontiguousarray(targets, np.float64),
        num_gfr=settings.warm_start,
        num_burnin=settings.burn_in,
        num_mcmc=settings.draws,
        general_params={
            "random_seed": seed,
            "num_threads": 1,
            "standardize": False,
            "sigma2_init": 1.0,
            "sigma2_global_scale": _NOISE,
        },
        mean_forest_params={"num_trees": settings.n_trees, "min_samples_leaf": MIN_SAMPLES_LEAF},
    )
    saved = json.loads(model.forest_container_mean.dump_json_string())
    forests = [saved[f"forest_{draw}"] for draw in range(settings.draws)]
    trees = [forest[f"tree_{tree}"] for forest in forests for tree in range(settings.n_trees)]
    left = joined(trees, "left", np.int64)
    return Forest.from_nodes(
        sizes=[len(tree["left"]) for tree in trees],
        left=left,
        right=joined(trees, "right", np.int64),
        feature=np.where(left < 0, 0, joined(trees, "split_index", np.int64)),
        threshold=less_or_equal(joined(trees, "threshold", np.float64)),
        missing_left=np.ones(len(left), np.bool_),
        value=joined(trees, "leaf_value", np.float64),
        n_features=features.shape[1],
    )


def predictions(forest: Forest, features: Features, draws: int) -> Floats:
    """(draws, n): what each draw expects of (n, d) features."""
    outputs = forest.values[forest.find_leaves(np.ascontiguousarray(features))]
    found: Floats = outputs.reshape(len(features), draws, -1).sum(axis=2).T
    return found


def _filled(features: Features) -> Floats:
    """Features as float64, a missing value below all others of its column: it goes left at every split."""
    filled = features.astype(np.float64)
    missing = np.isnan(filled)
    if missing.any():
        lowest = np.where(missing, np.inf, filled).min(axis=0)
        filled = np.where(missing, np.where(np.isfinite(lowest), lowest, 0.0) - 1.0, filled)
    return filled
