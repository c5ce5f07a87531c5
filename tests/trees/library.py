"""Each tree library behind one face, so that its own leaves and predictions can be compared with ours."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from unittest import mock

import numpy as np
from hypothesis import strategies as st

from treebandit.trees import (
    ExtraTrees,
    Forest,
    LightGBMTrees,
    RandomForestTrees,
    XGBoostTrees,
    lightgbm_trees,
    sklearn_trees,
    xgboost_trees,
)


@dataclass
class Fitted:
    """A forest of ours, and what the library itself says of the rows it is given."""

    forest: Forest
    predict: Callable[[np.ndarray], np.ndarray]
    find_leaves: Callable[[np.ndarray], np.ndarray]
    model: Any


def fit(learner: Any, features: np.ndarray, targets: np.ndarray, seed: int = 0) -> Fitted:
    module, reader = {
        XGBoostTrees: (xgboost_trees, "read_booster"),
        LightGBMTrees: (lightgbm_trees, "read_booster"),
        RandomForestTrees: (sklearn_trees, "read_ensemble"),
        ExtraTrees: (sklearn_trees, "read_ensemble"),
    }[type(learner)]
    with mock.patch.object(module, reader, wraps=getattr(module, reader)) as read:
        forest = learner.fit(features, targets, seed=seed)
    model = read.call_args.args[0]
    if isinstance(learner, XGBoostTrees):
        import xgboost

        def predict(rows):
            return model.predict(xgboost.DMatrix(rows, nthread=1))

        def leaves(rows):
            return model.predict(xgboost.DMatrix(rows, nthread=1), pred_leaf=True).reshape(len(rows), -1)
    elif isinstance(learner, LightGBMTrees):
        base = read.call_args.kwargs["base"]

        def predict(rows):
            return base + model.predict(rows, num_threads=1)

        def leaves(rows):
            return model.predict(rows, pred_leaf=True, num_threads=1).reshape(len(rows), -1)
    else:
        units, limit = read.call_args.args[2], np.finfo(np.float32).max

        def predict(rows):
            return model.predict(np.clip(rows / units.astype(float), -limit, limit))

        def leaves(rows):
            return model.apply(np.clip(rows / units.astype(float), -limit, limit))

    return Fitted(forest, predict, leaves, model)


def assert_same_leaves(fitted: Fitted, rows: np.ndarray) -> None:
    """In every tree our leaves part the rows exactly as the library's do."""
    ours, theirs = fitted.forest.find_leaves(rows), fitted.find_leaves(rows)
    assert ours.shape == theirs.shape
    for tree, (mine, other) in enumerate(zip(ours.T, theirs.T, strict=True)):
        pairs = set(zip(mine.tolist(), other.tolist(), strict=True))
        assert len(pairs) == len(set(mine.tolist())) == len(set(other.tolist())), f"tree {tree}"


def assert_same_predictions(fitted: Fitted, rows: np.ndarray, targets: np.ndarray) -> None:
    scale = max(1.0, float(np.abs(targets).max()))
    assert np.abs(fitted.forest.predict(rows) - fitted.predict(rows)).max() <= 1e-6 * scale


@dataclass
class Table:
    """Rows to grow on, their targets, and further rows with values missing where training had none."""

    features: np.ndarray
    targets: np.ndarray
    others: np.ndarray


_EDGES = np.array(
    [0.0, -0.0, 1e-38, -1e-38, 0.1, np.nextafter(np.float32(0.1), np.float32(1)), 1e30, -1e30], "f4"
)


@st.composite
def tables(draw: st.DrawFn, max_rows: int = 60) -> Table:
    """Random rows: ties, missing values, constant and empty columns, repeated rows, values at float32 edges."""
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, d = draw(st.integers(2, max_rows)), draw(st.integers(1, 5))
    features = random.standard_normal((n, d)).astype(np.float32)
    kind = draw(st.sampled_from(["free", "grid", "edges", "repeated", "constant"]))
    if kind == "grid":
        features = np.round(features)
    elif kind == "edges":
        features = random.choice(_EDGES, (n, d))
    elif kind == "repeated":
        features = features[random.integers(0, max(1, n // 4), n)]
    elif kind == "constant":
        features[:] = features[0]
    if draw(st.booleans()):
        features[:, 0] = 3.0
    holes = draw(st.sampled_from([0.0, 0.0, 0.2, 0.8]))
    features[random.random((n, d)) < holes] = np.nan
    if holes and draw(st.booleans()):
        features[:, -1] = np.nan
    targets = {
        "real": random.standard_normal(n) + np.nan_to_num(features[:, 0]).clip(-3, 3),
        "binary": (random.random(n) < 0.4).astype(float),
        "constant": np.full(n, 0.7),
    }[draw(st.sampled_from(["real", "binary", "constant"]))]
    others = np.concatenate([features, random.standard_normal((7, d)).astype(np.float32)])
    others[random.random(others.shape) < 0.3] = np.nan
    return Table(np.ascontiguousarray(features), targets.astype(np.float32).astype(float), others)


#: Numbers of trees around the number that the kernels walk in step.
tree_numbers = st.sampled_from([1, 2, 9, 10, 11, 23])
depths = st.sampled_from([1, 3, 10, None])
