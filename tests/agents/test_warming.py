"""After a warm-up nothing is left to compile."""

import subprocess
import sys

import numpy as np
import pytest

from treebandit import UCB1, BanditForest, EpsilonGreedy, LinUCB, Uniform, warm_up
from treebandit.errors import ParameterError

USE = """
import gc, tempfile
import numpy as np, pandas as pd
from numba.core.dispatcher import Dispatcher
import treebandit
from treebandit import Bandit

def kernels():
    return [d for d in gc.get_objects() if isinstance(d, Dispatcher) and "treebandit" in d.py_func.__module__]

treebandit.warm_up()
before = {kernel: len(kernel.signatures) for kernel in kernels()}
random = np.random.default_rng(0)
X = random.normal(size=(300, 5))
named, numbered, described, frames = (Bandit(seed=seed) for seed in range(4))
for t in range(40):
    row = named.choose(X[t], arms=["a", "b", "c"])
    named.learn(X[t], float(X[t, 0] > 0), arms=[["a", "b", "c"][row[0]]])
    numbered.choose(X[t].astype("f4"), arms=list(range(70)))
    numbered.learn(X[t : t + 2].astype("f4"), X[t : t + 2, 0], arms=[t, t + 1])
    described.choose(X[t : t + 4])
    described.learn(X[t : t + 1], X[t : t + 1, 0])
    frame = pd.DataFrame({"x": X[t : t + 3, 0], "kind": ["a", "b", None]})
    frames.choose(frame)
    frames.learn(frame[:1], [float(t % 2)])
    for agent, rows, arms in ((named, X[t], ["a", "b", "c"]), (described, X[t : t + 4], None), (named, X[t], ["a"])):
        agent.learn(agent.decide(rows, arms=arms), 1.0)
for _ in range(12):
    named.choose(X, arms=["a"] * 300)
named.learn(X, X[:, 0], arms=["a", "b", "c"] * 100)
with tempfile.TemporaryDirectory() as folder:
    named.save(folder + "/a")
    again = treebandit.load(folder + "/a")
again.estimate(X[:3], arms=["a", "b", "c"])
again.estimate(X, arms=["a"] * 300)
again.learn(X[0], 1.0, arms=["a"])
again.choose(X[0], arms=["a", "b"])
again.decide(X, arms=["a"] * 300)
again.explain(X[:3], arms=["a", "b", "c"])
described.explain(X[:4])
late = {k.py_func.__name__: k.signatures for k in kernels() if len(k.signatures) > before.get(k, 0)}
print(late or "nothing")
"""


@pytest.mark.slow
def test_nothing_is_left_to_compile_for_the_default_agent():
    done = subprocess.run([sys.executable, "-c", USE], capture_output=True, text=True, timeout=600)
    assert done.stdout.strip() == "nothing", done.stdout + done.stderr


@pytest.mark.parametrize("agent", [LinUCB(), UCB1(), Uniform(), EpsilonGreedy(), BanditForest(n_trees=3)])
def test_any_agent_can_be_warmed_up_and_learns_nothing_from_it(agent):
    warm_up(agent)
    assert agent.clock == 0
    assert agent.seed is None
    assert len(agent.choose(np.ones((2, 7)), arms=[0, 1])) == 1


@pytest.mark.parametrize("agent", [LinUCB, "LinUCB", 3])
def test_what_is_no_agent_is_refused(agent):
    with pytest.raises(ParameterError, match="is no agent"):
        warm_up(agent)
