import pytest
from playing import SMALL

from treebandit import TETS, TEUCB, RandomForestTrees, XGBoostTrees


@pytest.fixture(params=["ucb", "ts"])
def kind(request):
    return {"ucb": TEUCB, "ts": TETS}[request.param]


@pytest.fixture(params=["xgboost", "forest"])
def small_trees(request):
    return {"xgboost": XGBoostTrees(**SMALL), "forest": RandomForestTrees(**SMALL)}[request.param]
