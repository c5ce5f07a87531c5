"""Every registered agent, environment and tree learner keeps the public contracts.

Whoever adds a class to the registry adds a recipe here.
"""

import pytest

from treebandit import agents, environments, trees
from treebandit.agents import LinUCB
from treebandit.checks import check_agent, check_environment, check_tree_learner
from treebandit.evaluation import shop_log
from treebandit.registry import registered
from treebandit.trees import ExtraTrees, HistogramForest, LightGBMTrees, RandomForestTrees, XGBoostTrees

BOOSTED, BAGGED = XGBoostTrees(n_trees=10, max_depth=3), RandomForestTrees(n_trees=10, max_depth=3)

#: The arguments with which an agent is examined, one case each; small where its defaults take long.
AGENTS = {
    "Bandit": [
        {},
        {"trees": HistogramForest(n_trees=10), "arm_encoding": "one_hot", "prior_rows": 1.0, "linear": False},
    ],
    "BanditForest": [{"n_trees": 10}],
    "BartTS": [
        {"n_trees": 5, "draws": 3},
        {"n_trees": 5, "draws": 3, "burn_in": 0, "categories": "codes", "rebuild": "every 7"},
    ],
    "EnsembleSampling": [{}, {"members": 3, "rebuild": "every 7"}],
    "EpsilonGreedy": [{}, {"agent": LinUCB(), "epsilon": 0.5}],
    "LinTS": [{}, {"shared": True}],
    "LinUCB": [{}, {"shared": True}],
    "NeuralTS": [{"hidden": [8], "epochs": 2}, {"hidden": [8], "epochs": 2, "features": "unit"}],
    "NeuralUCB": [{"hidden": [8], "epochs": 2}],
    "TETS": [
        {"trees": BOOSTED},
        {"trees": BAGGED, "statistics": "out_of_bag", "arm_encoding": "one_hot", "categories": "one_hot"},
        {"trees": LightGBMTrees(n_trees=10), "random_start": "in_turn", "rebuild": "every 7"},
    ],
    "TEUCB": [
        {"trees": BOOSTED},
        {"trees": BOOSTED, "statistics": "held_out", "leaf_output": "average", "bonus": "undivided"},
        {
            "trees": ExtraTrees(n_trees=10),
            "arm_encoding": "none",
            "random_rounds": 20,
            "random_start": "rounds",
        },
        {"trees": BAGGED, "rebuild": "never", "random_rounds": 2},
    ],
    "TreeBootstrap": [{}, {"mode": "replicates", "replicates": 3}, {"trees": RandomForestTrees(n_trees=3)}],
    "UCB1": [{}],
    "UCB1Normal": [{}],
    "UCB1Tuned": [{}],
    "Uniform": [{}],
}

ENVIRONMENTS = {
    "Classification": [
        lambda kind: kind("mushroom", seed=1),
        lambda kind: kind("adult", gaussian_noise=0.3, flip_noise=0.1),
    ],
    "Clicks": [lambda kind: kind(), lambda kind: kind("three-way", arms=3, spend=True, seed=1)],
    "Delayed": [
        lambda kind: kind(environments.Synthetic(seed=1), batch=3),
        lambda kind: kind(environments.DescribedArms(slots=2, seed=1), batch=1),
    ],
    "DescribedArms": [lambda kind: kind(), lambda kind: kind(30, offered=8, slots=3, rewards="continuous")],
    "Logged": [
        lambda kind: kind(shop_log(400, seed=1), seed=1),
        lambda kind: kind(shop_log(400, policy="uniform", seed=1), seed=2),
    ],
    "Navigation": [
        lambda kind: kind("B2", "K3", roads="small-town"),
        lambda kind: kind(
            "A0", "A11", roads="small-town", closures={"A0A1": [2, 9], "A10A11": [1, 5]}, seed=2
        ),
    ],
    "Synthetic": [
        lambda kind: kind(),
        lambda kind: kind("interactions", rewards="continuous", drift=1.0, change_every=3),
    ],
}

#: Arguments of a learner, and the contracts that it does not promise.
LEARNERS = {
    "CrossValidatedTrees": [({}, ()), ({"trees": BOOSTED, "folds": 2}, ())],
    "DecisionTreeTrees": [({}, ("counts",)), ({"min_samples_leaf": 2, "max_depth": 3}, ())],
    "ExtraTrees": [({"n_trees": 13}, ()), ({"n_trees": 5, "bootstrap": True, "max_features": 1}, ())],
    "HistogramForest": [
        ({"n_trees": 13}, ()),
        ({"n_trees": 13, "bootstrap": False, "subsample": 0.8}, ()),
        ({"n_trees": 1, "max_depth": None, "max_features": 1, "bins": 5}, ()),
    ],
    "LightGBMTrees": [({"n_trees": 13}, ()), ({"n_trees": 13, "mode": "forest"}, ())],
    "RandomForestTrees": [({"n_trees": 13}, ()), ({"n_trees": 1, "max_depth": None}, ())],
    "XGBoostTrees": [({}, ()), ({"n_trees": 7, "max_depth": None, "options": {"subsample": 0.7}}, ())],
}


def cases(exported, recipes):
    return [
        pytest.param(name, recipe, id=f"{name}-{number}")
        for name in exported
        for number, recipe in enumerate(recipes.get(name, [None]))
    ]


def needs_recipe(name, recipe, table):
    if recipe is None:
        pytest.fail(f"{name} is exported, but nobody has said how to examine it; give it a recipe in {table}")


@pytest.mark.parametrize(("name", "recipe"), cases(registered("agent"), AGENTS))
def test_agents(name, recipe):
    needs_recipe(name, recipe, "AGENTS")
    check_agent(getattr(agents, name)(**recipe))


@pytest.mark.parametrize(("name", "recipe"), cases(registered("environment"), ENVIRONMENTS))
def test_environments(name, recipe):
    needs_recipe(name, recipe, "ENVIRONMENTS")
    check_environment(lambda: recipe(getattr(environments, name)))


@pytest.mark.parametrize(("name", "recipe"), cases(registered("tree learner"), LEARNERS))
def test_tree_learners(name, recipe):
    needs_recipe(name, recipe, "LEARNERS")
    arguments, not_promised = recipe
    check_tree_learner(getattr(trees, name)(**arguments), skip=not_promised)


@pytest.mark.parametrize("table", ["AGENTS", "ENVIRONMENTS", "LEARNERS"])
def test_a_class_without_a_recipe_fails_by_name(table):
    ((name, recipe),) = [case.values for case in cases(["Newcomer"], globals()[table])]
    with pytest.raises(pytest.fail.Exception, match=f"Newcomer is exported.*recipe in {table}"):
        needs_recipe(name, recipe, table)
