"""The same candidates round after round: the tree agents cache what does not change, and nothing else changes."""

from copy import deepcopy
from unittest import mock

import numpy as np
import pytest

from treebandit import TETS, TEUCB, RandomForestTrees, XGBoostTrees, play_round, saving
from treebandit.environments import Navigation
from treebandit.trees import leaf_cache

TREES = [XGBoostTrees(n_trees=12, max_depth=6), RandomForestTrees(n_trees=12, max_depth=6)]


def town(seed=0):
    """A small town; roads of its best path are closed for some rounds."""
    names = Navigation("B2", "K3", roads="small-town").network.edge_names
    path = Navigation("B2", "K3", roads="small-town").best_path(8 * 3600.0)
    closures = {names[path[3]]: (20, 30), names[path[5]]: (45, 46)}
    return Navigation("B2", "K3", roads="small-town", closures=closures, seed=seed)


def driver(kind, trees, **arguments):
    arguments = {"rebuild": "every 15", "random_start": "rounds", "random_rounds": 3, "seed": 0, **arguments}
    return kind(trees, arm_encoding="none", **arguments)


def without_cache():
    return mock.patch.object(leaf_cache, "FEWEST_ROWS", 10**9)


def drive(agent, environment, rounds):
    return [play_round(agent, environment)[0].tolist() for _ in range(rounds)]


def assert_same_estimates(agent, other, environment):
    candidates = environment.observe().candidates
    one, two = agent.estimate(candidates), other.estimate(candidates)
    np.testing.assert_array_equal(one.mean, two.mean)
    np.testing.assert_array_equal(one.variance, two.variance)
    np.testing.assert_array_equal(one.count, two.count)


@pytest.mark.parametrize("trees", TREES, ids=["xgboost", "forest"])
@pytest.mark.parametrize(
    ("kind", "arguments"),
    [(TEUCB, {}), (TETS, {}), (TETS, {"sampling": "leaves"}), (TEUCB, {"prior_rows": 1.0})],
)
def test_choices_are_those_of_an_agent_without_cache(kind, arguments, trees):
    agent, plain = driver(kind, trees, **arguments), driver(kind, trees, **arguments)
    environment = town()
    choices = drive(agent, environment, 70)
    assert agent.model.leaves.cache.hits > 0
    with without_cache():
        assert choices == drive(plain, town(), 70)
    assert_same_estimates(agent, plain, environment)


@pytest.mark.parametrize("encoding", ["label", "one_hot"])
def test_arms_in_the_features_are_cached_with_them(encoding):
    arguments = {"rebuild": "every 15", "random_start": "rounds", "random_rounds": 3, "seed": 0}
    agent, plain = (TEUCB(TREES[0], arm_encoding=encoding, **arguments) for _ in range(2))
    choices = drive(agent, town(), 25)
    assert agent.model.leaves.cache.hits > 0
    with without_cache():
        assert choices == drive(plain, town(), 25)


def test_a_copy_and_a_loaded_agent_go_on_alike(tmp_path):
    agent = driver(TEUCB, TREES[0])
    environment = town()
    drive(agent, environment, 60)
    agent.save(tmp_path / "agent")
    twin, loaded = deepcopy(agent), TEUCB.load(tmp_path / "agent")
    worlds = deepcopy(environment), deepcopy(environment)
    choices = drive(agent, environment, 30)
    assert choices == drive(twin, worlds[0], 30)
    assert choices == drive(loaded, worlds[1], 30)
    assert_same_estimates(agent, twin, environment)
    assert_same_estimates(agent, loaded, environment)


def test_a_copy_learns_for_itself():
    agent = driver(TEUCB, TREES[0], rebuild="never")
    environment = town()
    drive(agent, environment, 15)
    twin = deepcopy(agent)
    candidates = environment.observe().candidates
    before = agent.estimate(candidates).mean
    twin.learn(candidates[:20], np.full(20, -500.0))
    np.testing.assert_array_equal(agent.estimate(candidates).mean, before)
    assert (twin.estimate(candidates).mean[:20] < before[:20]).all()


def test_files_hold_nothing_of_it(tmp_path):
    agent, plain = driver(TEUCB, TREES[0]), driver(TEUCB, TREES[0])
    drive(agent, town(), 40)
    with without_cache():
        drive(plain, town(), 40)
    agent.model.rebuild_seconds = plain.model.rebuild_seconds = 0.0
    agent.save(tmp_path / "agent")
    plain.save(tmp_path / "plain")
    assert (tmp_path / "agent").stat().st_size == (tmp_path / "plain").stat().st_size
    mine, other = (saving.read(tmp_path / name)[1]["own"]["model"]["leaves"] for name in ("agent", "plain"))
    assert mine.keys() == other.keys()
    np.testing.assert_array_equal(mine["table"], other["table"])
