"""Agents saved without their history decide and estimate, and do not learn."""

import json
import zipfile

import numpy as np
import pytest
from every import EVERY
from taught import ARMS, OFFERS, X, Y, fingerprint, taught

import treebandit
from treebandit import HistogramForest, TreeBootstrap
from treebandit.errors import (
    DecideOnlyError,
    ParameterError,
    SavedFileError,
)


@pytest.mark.parametrize("name", [name for name in EVERY if name != "TreeBootstrap"])
@pytest.mark.parametrize("arms", [ARMS, None])
def test_an_agent_saved_without_history_decides_and_estimates_and_does_not_learn(name, arms, tmp_path):
    if arms is None and name in ("UCB1", "UCB1-Tuned", "UCB1-Normal", "BanditForest"):
        pytest.skip("needs arms")
    agent = EVERY[name]()
    agent.learn(X, Y, arms=arms)
    offered = None if arms is None else [0, 1, 5]
    agent.choose(X[:3], arms=offered)
    agent.save(tmp_path / "whole")
    agent.save(tmp_path / "small", history=False)
    small = treebandit.load(tmp_path / "small")
    assert [agent.decide_only, small.decide_only] == [False, True]
    mine, others = (each.estimate(X[:3], arms=offered) for each in (agent, small))
    for member in ("mean", "variance", "count"):
        assert getattr(mine, member).tolist() == getattr(others, member).tolist()
    for t in range(20):
        first, second = (each.decide(X[t : t + 3], arms=offered, draws=10) for each in (agent, small))
        assert first.rows == second.rows
        assert first.probabilities.tolist() == second.probabilities.tolist()
    with pytest.raises(DecideOnlyError, match="saved without its history"):
        small.learn(first, 1.0)
    small.save(tmp_path / "again")
    again = treebandit.load(tmp_path / "again")
    assert again.decide(X[:3], arms=offered).rows == small.decide(X[:3], arms=offered).rows
    with pytest.raises(DecideOnlyError):
        again.learn(X[:1], [1.0], arms=offered and [0])
    sizes = [(tmp_path / which).stat().st_size for which in ("small", "whole")]
    if hasattr(agent, "model") and len(getattr(agent.model, "history", ())) == len(X):
        assert sizes[0] < 0.6 * sizes[1]


def test_an_agent_that_has_learned_nothing_is_saved_to_decide_only(tmp_path):
    for name, make in EVERY.items():
        if name != "TreeBootstrap":
            make().save(tmp_path / "small", history=False)
            small = treebandit.load(tmp_path / "small")
            decision = small.decide(X[0], arms=OFFERS)
            assert decision.arm in OFFERS
            with pytest.raises(DecideOnlyError):
                small.learn(decision, 1.0)


def test_exact_bootstraps_need_their_rows(tmp_path):
    agent = taught("TreeBootstrap")
    with pytest.raises(SavedFileError, match="draws from its rows at every decision"):
        agent.save(tmp_path / "small", history=False)
    with pytest.raises(ParameterError, match="history is 0"):
        agent.save(tmp_path / "small", history=0)
    assert not list(tmp_path.iterdir())


def test_replicates_saved_in_the_random_start_decide_after_it(tmp_path):
    agent = TreeBootstrap(HistogramForest(n_trees=5), mode="replicates", random_rounds=15, seed=0)
    rewards = X[:, 0] + 5.0 * (ARMS == 1)
    for row in range(20):
        agent.choose(X[row], arms=[0, 1])
        agent.learn(X[row], rewards[row], arms=ARMS[row] % 2, new_arms=True)
    before = fingerprint(agent)
    agent.save(tmp_path / "small", history=False)
    assert fingerprint(agent) == before
    small = treebandit.load(tmp_path / "small")
    mine, others = (each.estimate(X[:2], arms=[0, 1]) for each in (agent, small))
    assert mine.count.tolist() == others.count.tolist()
    np.testing.assert_allclose(mine.mean, others.mean, atol=1.5)
    assert small.probabilities(X[0], arms=[0, 1], floor=0.0).tolist() == [0.5, 0.5]
    for _ in range(40):
        small.choose(X[0], arms=[0, 1])
    assert small.probabilities(X[0], arms=[0, 1], floor=0.0).tolist() == [0.0, 1.0]
    small.save(tmp_path / "again")
    assert fingerprint(treebandit.load(tmp_path / "again")) == fingerprint(small)


@pytest.mark.parametrize("name", ["Bandit", "TETS-RF", "NeuralTS", "TreeBootstrap-replicates"])
@pytest.mark.parametrize("history", [True, False])
def test_a_file_that_lies_about_its_history_is_refused(name, history, tmp_path):
    agent, path = taught(name), tmp_path / "agent"
    agent.save(path, history=history)
    with zipfile.ZipFile(path) as archive:
        members = {each: archive.read(each) for each in archive.namelist()}
    document = json.loads(members["agent.json"])
    assert document["state"]["decide_only"] is not history
    document["state"]["decide_only"] = history
    members["agent.json"] = json.dumps(document).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for each, content in members.items():
            archive.writestr(each, content)
    with pytest.raises(SavedFileError, match="only decides, or missing from one that learns"):
        treebandit.load(path)
