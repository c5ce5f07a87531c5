"""Rebuilds on a thread, while decisions go on."""

import os
import pickle
import subprocess
import sys
import threading
from copy import deepcopy

import pytest
from rebuilt import DUE, TREES, rows_in, until
from taught import ARMS, X, Y

import treebandit
from treebandit import Bandit, EpsilonGreedy, HistogramForest
from treebandit.errors import ParameterError, TreebanditError


class Held(HistogramForest):
    """Grows no second forest before it is let go, and fails where it shall."""

    def fit_steps(self, *arguments, **options):
        began, go, error = GATES[self.n_trees]
        if began.is_set():
            assert go.wait(60)
            if error:
                raise MemoryError("no memory")
        began.set()
        return (yield from super().fit_steps(*arguments, **options))


GATES = {}


@pytest.fixture
def held():
    """A learner whose second fit waits, and what lets it go on."""

    def made(fails=False):
        trees = Held(n_trees=len(GATES) + 5, max_depth=4)
        GATES[trees.n_trees] = _, go, _ = threading.Event(), threading.Event(), fails
        return trees, go

    yield made
    for _, go, _ in GATES.values():
        go.set()


def test_decisions_go_on_while_a_thread_rebuilds(held):
    trees, go = held()
    agent = until(DUE, trees=trees, background=True)
    before = agent.model.leaves
    assert not agent.wait(0.01)
    until(DUE + 40, agent, DUE)
    agent.choose(X[0], arms=[0, 1, 2])
    assert agent.model.leaves is before
    assert rows_in(agent) == {DUE + 40}
    go.set()
    assert agent.wait()
    assert agent.model.leaves is not before
    assert agent.model.rebuild is None
    assert agent.model.level == 1
    assert rows_in(agent) == {DUE + 40}


def test_a_decision_takes_over_what_a_thread_has_finished(held):
    trees, go = held()
    agent = until(DUE, trees=trees, background=True)
    job = agent.model.rebuild
    go.set()
    assert job.join(60)
    agent.choose(X[0], arms=[0, 1, 2])
    assert agent.model.rebuild is None
    assert agent.model.leaves is job.fit.leaves


@pytest.mark.parametrize("make", [Bandit, lambda: EpsilonGreedy(Bandit(background=True))])
def test_to_wait_is_a_call_like_others_which_comes_after_a_decision_under_way(make):
    agent, alive = make(), []
    waiting = threading.Thread(target=agent.wait)

    def oracle(scores):
        waiting.start()
        waiting.join(0.2)
        alive.append(waiting.is_alive())
        return treebandit.best_arm(scores)

    agent.choose([1.0], arms=[0, 1], oracle=oracle)
    waiting.join(60)
    assert alive == [True]
    assert not waiting.is_alive()


@pytest.mark.parametrize("by", ["learn", "wait"])
def test_what_ends_a_thread_is_raised_once(by, held):
    trees, go = held(fails=True)
    agent = until(DUE, trees=trees, background=True)
    go.set()
    agent.model.rebuild.join(60)
    agent.choose(X[0], arms=[0, 1, 2])
    with pytest.raises(TreebanditError, match="MemoryError: no memory"):
        agent.wait() if by == "wait" else until(DUE + 1, agent, DUE)
    assert len(agent.model.history) == DUE
    until(DUE + 1, agent, DUE)
    assert len(agent.model.history) == DUE + 1


@pytest.mark.parametrize("memory", ["all", 100])
def test_the_next_rows_start_a_rebuild_anew_where_one_has_failed(memory, held, tmp_path):
    trees, go = held(fails=True)
    agent = until(DUE, trees=trees, memory=memory, background=True)
    go.set()
    agent.model.rebuild.join(60)
    with pytest.raises(TreebanditError, match="next `learn` starts a rebuild anew"):
        agent.wait()
    agent.save(tmp_path / "agent")
    for each in (agent, treebandit.load(tmp_path / "agent", classes=[Held])):
        until(DUE + 1, each, DUE)
        assert each.model.rebuild is not None


def test_agents_are_saved_and_copied_while_a_thread_rebuilds(held, tmp_path):
    trees, go = held()
    agent = until(DUE, trees=trees, background=True)
    until(DUE + 40, agent, DUE)
    agent.save(tmp_path / "agent", history=True)
    loaded = treebandit.load(tmp_path / "agent", classes=[Held])
    copies = [loaded, deepcopy(agent), pickle.loads(pickle.dumps(agent))]
    go.set()
    for each in (agent, *copies):
        assert each.wait()
        assert each.model.level == 1
        assert rows_in(each) == {DUE + 40}
    nodes = {each.model.leaves.forest.nodes.tobytes() for each in (agent, *copies)}
    assert len(nodes) == 1


def test_many_threads_decide_and_learn_while_another_rebuilds():
    agent = Bandit(TREES, rebuild="every 50", background=True, seed=0)
    agent.learn(X[:100], Y[:100], arms=ARMS[:100])

    def play(part):
        for row in range(part, 300, 3):
            chosen = int(agent.choose(X[row], arms=[0, 1, 2])[0])
            agent.learn(X[row], Y[row], arms=[chosen])

    threads = [threading.Thread(target=play, args=(part,)) for part in range(3)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(60)
    assert agent.wait()
    assert agent.clock == 400
    assert rows_in(agent) == {400}


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_makes_the_rebuild_itself(held):
    trees, go = held()
    agent = until(DUE, trees=trees, background=True)
    child = os.fork()
    if child == 0:
        go.set()
        os._exit(0 if agent.wait(60) and agent.model.level == 1 else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert agent.model.rebuild is not None
    go.set()
    assert agent.wait()
    assert agent.model.level == 1


def test_no_thread_is_left_at_the_end_of_a_process():
    code = (
        "import numpy as np, treebandit, threading, atexit\n"
        "atexit.register(lambda: print([t.name for t in threading.enumerate()][1:]))\n"
        "x = np.random.default_rng(0).normal(size=(4000, 4)).astype(np.float32)\n"
        "a = treebandit.Bandit(rebuild='every 4002', background=True, seed=0)\n"
        "a.learn(x, x[:, 0], arms=np.arange(4000) % 2); a.learn(x[:1], x[:1, 0], arms=[0])\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )
    assert (run.returncode, run.stderr, run.stdout.strip()) == (0, "", "[]")


def test_background_is_a_flag():
    with pytest.raises(ParameterError, match="background.*'yes'"):
        Bandit(background="yes")
