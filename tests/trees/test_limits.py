import sys

import numpy as np
import pytest
from sklearn.ensemble import RandomForestRegressor

from treebandit import TETS, TEUCB, TreeBootstrap
from treebandit.errors import MissingExtraError, ParameterError
from treebandit.trees import DecisionTreeTrees, ExtraTrees, LightGBMTrees, RandomForestTrees, XGBoostTrees

LEARNERS = [XGBoostTrees, LightGBMTrees, RandomForestTrees, ExtraTrees, DecisionTreeTrees]


BAD = {
    "n_trees": [0, -1, 1.5, "10", None, True, [1], float("nan"), 10**6],
    "max_depth": [0, -3, 2.5, "3", True, float("inf"), 10**6],
    "min_samples_leaf": [0, -1, 2.5, "2", None],
    "threads": [0, "all", None, 1.0, 10**6],
    "learning_rate": [0.0, -0.1, 1.5, "0.3", None, float("nan")],
    "bootstrap": [None, "yes", 1],
    "max_features": [0, 0.0, -1, 1.5, "sqrt", None, float("nan"), True],
    "bagging_fraction": [0.0, 1.0, 2, "half", None],
    "mode": ["dart", None, 3],
    "options": [None, 3, "a=1", [("a", 1)], {1: 2}],
}


@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind in LEARNERS for name in kind.__dataclass_fields__]
)
def test_bad_arguments_are_named_at_construction(kind, name):
    for value in BAD[name]:
        with pytest.raises(ParameterError, match=rf"{kind.__name__}\.{name} is .*; give"):
            kind(**{name: value})


def test_good_arguments_pass():
    XGBoostTrees(n_trees=np.int64(3), max_depth=None, learning_rate=1, options={"gamma": 0})
    LightGBMTrees(mode="forest", bagging_fraction=np.float32(0.5))
    RandomForestTrees(max_features=1.0)
    RandomForestTrees(max_features=1, bootstrap=False)
    DecisionTreeTrees(min_samples_leaf=1)


@pytest.mark.parametrize(
    ("kind", "module", "extra"),
    [
        (XGBoostTrees, "xgboost", "xgboost"),
        (LightGBMTrees, "lightgbm", "lightgbm"),
        (RandomForestTrees, "sklearn", "sklearn"),
        (ExtraTrees, "sklearn", "sklearn"),
        (DecisionTreeTrees, "sklearn", "sklearn"),
    ],
)
def test_a_missing_library_is_told_at_construction(monkeypatch, kind, module, extra):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match=rf"pip install 'treebandit\[{extra}\]'"):
        kind()


@pytest.mark.parametrize("kind", [TEUCB, TETS, TreeBootstrap])
@pytest.mark.parametrize(
    ("trees", "said"),
    [
        (XGBoostTrees, r"trees is the class XGBoostTrees; give an object: XGBoostTrees\(\)"),
        (RandomForestRegressor(), "give a tree learner such as RandomForestTrees"),
        (RandomForestRegressor, "the class RandomForestRegressor"),
        ("XGBoostTrees", "trees is 'XGBoostTrees'"),
        (None, "trees is None"),
        (3, "trees is 3"),
    ],
)
def test_what_is_no_tree_learner_is_told_when_the_agent_is_made(kind, trees, said):
    with pytest.raises(ParameterError, match=said):
        kind(trees)


def test_a_learner_of_ones_own_may_take_any_keywords():
    class Mine:
        def fit(self, features, targets, **options):
            return XGBoostTrees().fit(features, targets, **options)

    TEUCB(Mine())


@pytest.mark.parametrize("kind", [XGBoostTrees, LightGBMTrees])
def test_targets_that_32_bits_cannot_tell_apart_are_refused(kind):
    features = np.arange(20, dtype=np.float32)[:, None]
    odd = np.arange(20) % 2.0
    kind(n_trees=2).fit(features, 1e3 + odd, seed=0)
    kind(n_trees=2).fit(features, np.full(20, 0.7), seed=0)
    refused = [1e25 * odd] if kind is LightGBMTrees else [1e9 + odd, -1e12 + odd, 1e25 * odd]
    for targets in refused:
        with pytest.raises(ParameterError, match="cannot be told apart in the 32-bit floats of"):
            kind(n_trees=2).fit(features, targets, seed=0)
