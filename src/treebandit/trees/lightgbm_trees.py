"""Gradient boosting and random forests of LightGBM."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from treebandit.core import Features, Floats
from treebandit.errors import ParameterError
from treebandit.parameters import check_choice, check_number
from treebandit.trees.forest import Forest, joined, less_or_equal
from treebandit.trees.limits import check_installed, check_limits, own_options, single_precision

_DEFAULT_LEFT, _MISSING_KIND, _MISSING_NAN = 2, 12, 8

#: Options that make other trees than those measured here, that `n_trees` and `threads` are for, or that call machines.
_REFUSED = """
app application boost boost_from_average boosting boosting_type cat_column cat_feature categorical_column
categorical_feature categorical_features eta linear_tree linear_trees loss num_class num_classes objective
objective_type reg_sqrt shrinkage_rate zero_as_missing
max_iter n_estimators n_iter nrounds num_boost_round num_iteration num_iterations num_round num_rounds
num_tree num_trees n_jobs nthread nthreads num_thread num_threads
local_listen_port local_port machine_list machine_list_file machine_list_filename machines mlist nodes
num_machine num_machines port workers
""".split()  # noqa: SIM905


@dataclass(frozen=True)
class LightGBMTrees:
    """Trees of LightGBM with squared error, boosted or as a forest; the defaults are the paper's, then LightGBM's.

    n_trees: how many.
    learning_rate: η, the step of each boosted tree.
    min_samples_leaf: the fewest rows in a leaf.
    mode: 'boosting', or 'forest' (LightGBM's `boosting="rf"`).
    bagging_fraction: share of the rows that each tree of a forest sees.
    threads: of LightGBM.
    max_depth: None for no limit; LightGBM also stops at `num_leaves`, 31 by its own default: see `options`.
    options: any further parameter of `lightgbm.train`, by its own name, but for those that change what a tree is.

    >>> import numpy as np
    >>> from treebandit import LightGBMTrees
    >>> features = np.arange(20, dtype=np.float32).reshape(-1, 1)
    >>> forest = LightGBMTrees(n_trees=5).fit(features, np.where(features[:, 0] < 10, 0.0, 1.0), seed=0)
    >>> forest.n_trees
    5
    """

    n_trees: int = 100
    max_depth: int | None = 10
    learning_rate: float = 0.1
    min_samples_leaf: int = 2
    mode: str = "boosting"
    bagging_fraction: float = 0.632
    threads: int = 1
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_limits(self)
        object.__setattr__(self, "options", own_options(self, self.options, _REFUSED))
        check_choice("LightGBMTrees.mode", self.mode, ("boosting", "forest"))
        check_number("LightGBMTrees.bagging_fraction", self.bagging_fraction, above=0.0, most=0.999)
        check_installed("lightgbm", "lightgbm", "lightgbm")

    def fit(self, features: Features, targets: Floats, *, seed: int) -> Forest:
        """Grow `n_trees` trees on (n, d) features and (n,) targets."""
        import lightgbm

        boosting = self.mode == "boosting"
        parameters = {
            "objective": "regression",
            "boosting": "gbdt" if boosting else "rf",
            "boost_from_average": False,
            "max_depth": self.max_depth or -1,
            "learning_rate": self.learning_rate,
            "min_data_in_leaf": self.min_samples_leaf,
            "num_threads": self.threads,
            "seed": seed,
            "deterministic": True,
            "force_row_wise": True,
            "verbosity": -1,
            **({} if boosting else {"bagging_freq": 1, "bagging_fraction": self.bagging_fraction}),
            **self.options,
        }
        base = float(np.mean(targets))
        data = lightgbm.Dataset(features, single_precision(self, targets - base), params={"verbosity": -1})
        try:
            booster = lightgbm.train(parameters, data, self.n_trees)
        except lightgbm.basic.LightGBMError as error:
            raise ParameterError(f"LightGBM cannot grow {self!r}: {error}") from error
        return read_booster(
            booster, base=base, learning_rate=parameters["learning_rate"] if boosting else 0.0
        )


def read_booster(booster: Any, *, base: float, learning_rate: float) -> Forest:
    """The forest inside a fitted `lightgbm.Booster` that was trained on targets minus `base`."""
    text = booster.model_to_string(importance_type="split")
    trees = [_read_tree(block) for block in text.split("\nTree=")[1:]]
    if learning_rate == 0.0:
        for tree in trees:
            tree["value"] = (tree["value"] + base) / len(trees)
        base = 0.0
    return Forest.from_nodes(
        sizes=[len(tree["left"]) for tree in trees],
        left=joined(trees, "left", np.int64),
        right=joined(trees, "right", np.int64),
        feature=joined(trees, "feature", np.int64),
        threshold=less_or_equal(joined(trees, "threshold", np.float64)),
        missing_left=joined(trees, "missing_left", np.bool_),
        value=joined(trees, "value", np.float64),
        n_features=booster.num_feature(),
        base=base,
        learning_rate=learning_rate,
    )


def _read_tree(block: str) -> dict[str, Any]:
    """One tree of the model text; inner nodes keep their numbers, leaf k becomes node k + number of inner nodes."""
    block = block.split("\n\n", 1)[0]
    fields = dict(line.split("=", 1) for line in block.splitlines()[1:] if "=" in line)

    def numbers(name: str, dtype: Any) -> Any:
        return np.array(fields.get(name, "").split(), dtype)

    # A forest's tree whose bag holds no row has the value NaN; 0 is the mean of the targets.
    values = np.nan_to_num(numbers("leaf_value", np.float64))
    leaves, inner = len(values), len(values) - 1
    pad = np.zeros(leaves, np.int64)
    children = [numbers(side, np.int64) for side in ("left_child", "right_child")]
    left, right = (np.concatenate((np.where(c < 0, ~c + inner, c), pad - 1)) for c in children)
    threshold = numbers("threshold", np.float64)
    decision = numbers("decision_type", np.int64)
    # LightGBM reads NaN as 0 at a node whose feature had no missing value in training.
    with_nan = (decision & _MISSING_KIND) == _MISSING_NAN
    missing_left = np.where(with_nan, (decision & _DEFAULT_LEFT) > 0, threshold >= 0.0)
    return {
        "left": left,
        "right": right,
        "feature": np.concatenate((numbers("split_feature", np.int64), pad)),
        "threshold": np.concatenate((threshold, pad.astype(np.float64))),
        "missing_left": np.concatenate((missing_left, pad > 0)),
        "value": np.concatenate((np.zeros(inner), values)),
    }
