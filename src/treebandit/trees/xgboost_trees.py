"""Gradient boosting with XGBoost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from treebandit.core import Features, Floats
from treebandit.errors import ParameterError
from treebandit.trees import ubjson
from treebandit.trees.forest import Forest, joined
from treebandit.trees.limits import check_installed, check_limits, own_options, single_precision

#: Options under which rows too few to split give trees that can be written down without the library.
_PLAIN = frozenset(
    {"base_score", "lambda", "reg_lambda", "gamma", "min_split_loss", "max_bin", "tree_method"}
)
_REFUSED = (
    *("booster", "eta", "multi_strategy", "num_class", "num_parallel_tree", "objective"),
    *("n_jobs", "nthread"),
)


@dataclass(frozen=True)
class XGBoostTrees:
    """Boosted trees of XGBoost with squared error; the defaults are the paper's, the rest XGBoost's own.

    n_trees: how many.
    max_depth: None for no limit.
    learning_rate: η, the step of each tree.
    min_samples_leaf: XGBoost's `min_child_weight` (squared error: one per row).
    threads: of XGBoost; one, as more of them only wait for each other on a busy machine.
    options: any further parameter of `xgboost.train`, by its own name, but for those that change what a tree is.
        Those in the unit of the targets (`base_score`, `gamma`, `alpha`) apply to standardised targets where agents
        standardise.

    >>> import numpy as np
    >>> from treebandit import XGBoostTrees
    >>> features = np.arange(20, dtype=np.float32).reshape(-1, 1)
    >>> forest = XGBoostTrees(n_trees=5).fit(features, np.where(features[:, 0] < 10, 0.0, 1.0), seed=0)
    >>> forest.n_trees
    5
    """

    n_trees: int = 100
    max_depth: int | None = 10
    learning_rate: float = 0.3
    min_samples_leaf: int = 2
    threads: int = 1
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_limits(self)
        object.__setattr__(self, "options", own_options(self, self.options, _REFUSED))
        check_installed("xgboost", "xgboost", "xgboost")

    def fit(self, features: Features, targets: Floats, *, seed: int) -> Forest:
        """Boost `n_trees` trees on (n, d) features and (n,) targets."""
        import xgboost

        if len(targets) < 2 * self.min_samples_leaf and _PLAIN.issuperset(self.options):
            return self._unsplit(features.shape[1], single_precision(self, targets))
        parameters = {
            "objective": "reg:squarederror",
            "tree_method": "hist",
            "max_depth": self.max_depth or 0,
            "learning_rate": self.learning_rate,
            "min_child_weight": self.min_samples_leaf,
            "nthread": self.threads,
            "seed": seed,
            "verbosity": 0,
            **self.options,
        }
        data = xgboost.DMatrix(features, single_precision(self, targets), nthread=self.threads)
        try:
            # xgboost.train does the same with callbacks around each tree, which take as long as a small tree.
            booster = xgboost.Booster(parameters, [data])
            for tree in range(self.n_trees):
                booster.update(data, tree)
        except xgboost.core.XGBoostError as error:
            raise ParameterError(f"XGBoost cannot grow {self!r}: {error}") from error
        return read_booster(booster, float(parameters["learning_rate"]))

    def _unsplit(self, width: int, targets: Floats) -> Forest:
        """The trees that XGBoost grows on so few rows: one leaf each, a step of η towards the mean, held back by λ.

        A fit takes XGBoost 10 ms even so, and TreeBootstrap has thousands of arms with a few rows.
        """
        n, ridge = len(targets), float(self.options.get("lambda", self.options.get("reg_lambda", 1.0)))
        base = float(np.float32(self.options.get("base_score", targets.mean())))
        # What is left after k trees shrinks by the same share each time.
        share = self.learning_rate * n / (n + ridge) if n >= self.min_samples_leaf else 0.0
        left = float(targets.mean()) - base
        steps = share * left * (1.0 - share) ** np.arange(self.n_trees)
        return Forest.of_single_leaves(
            steps.astype(np.float32), n_features=width, base=base, learning_rate=self.learning_rate
        )


def read_booster(booster: Any, learning_rate: float) -> Forest:
    """The forest inside a fitted `xgboost.Booster` of boosted regression trees."""
    learner = ubjson.read(bytes(booster.save_raw("ubj")))["learner"]
    trees = learner["gradient_booster"]["model"]["trees"]
    parameters = learner["learner_model_param"]
    left = joined(trees, "left_children", np.int64)
    condition = joined(trees, "split_conditions", np.float32)
    return Forest.from_nodes(
        sizes=[len(tree["left_children"]) for tree in trees],
        left=left,
        right=joined(trees, "right_children", np.int64),
        feature=np.where(left < 0, 0, joined(trees, "split_indices", np.int64)),
        threshold=condition,
        missing_left=joined(trees, "default_left", np.bool_),
        value=condition,
        n_features=int(parameters["num_feature"]),
        base=float(parameters["base_score"].strip("[]")),
        learning_rate=learning_rate,
    )
