"""An exception at any moment leaves an agent as it was before a call, or as it is after it."""

import pickle
import signal
import sys
import threading
import time
from contextlib import suppress
from copy import copy, deepcopy

import numpy as np
import pytest
from every import EVERY
from taught import ARMS, Interrupted, X, Y, fingerprint, taught

from treebandit import Bandit, HistogramForest, LinUCB
from treebandit.errors import TreebanditError


@pytest.fixture
def alarm():
    """Raises Interrupted in this thread after some seconds of its work."""

    def ring(*_):
        raise Interrupted

    before = signal.signal(signal.SIGVTALRM, ring)
    yield lambda seconds: signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)
    signal.signal(signal.SIGVTALRM, before)


@pytest.mark.parametrize("rows", [1, 120])
@pytest.mark.parametrize("name", EVERY)
def test_learn_is_done_or_not_done(name, rows, alarm):
    agent = taught(name)
    before, new = fingerprint(agent), slice(300, 300 + rows)
    twin = deepcopy(agent)
    started = time.process_time()
    twin.learn(X[new], Y[new], arms=ARMS[new])
    seconds, after = time.process_time() - started, fingerprint(twin)
    moments = np.random.default_rng(1).uniform(0.02, 1.0, 12)
    for moment in moments:
        twin = deepcopy(agent)
        try:
            alarm(max(moment * seconds, 1e-6))
            twin.learn(X[new], Y[new], arms=ARMS[new])
            alarm(0.0)
        except Interrupted:
            pass
        twin.estimate(X[:2], arms=ARMS[:2])  # any use brings an interrupted call to its end
        assert fingerprint(twin) in (before, after)


def lines_of(call, cut_at=None):
    """How many lines of the package a call runs; an interruption comes before the line of number `cut_at`."""
    seen = 0

    def line(frame, event, argument):
        nonlocal seen
        seen += event == "line"
        if seen == cut_at:
            raise Interrupted
        return line

    before = sys.gettrace()
    sys.settrace(lambda frame, *_: line if "/treebandit/" in frame.f_code.co_filename else None)
    try:
        call()
    finally:
        sys.settrace(before)
    return seen


CALLS = {
    "choose": lambda agent: agent.choose(X[0], arms=[0, 1, 9]),
    "decide": lambda agent: agent.decide(X[0], arms=[0, 1, 9], draws=5, id="a"),
    "decide_many": lambda agent: agent.decide_many(X[:3], arms=[0, 1, 2], draws=5, ids=["a", "b", "c"]),
    "probabilities": lambda agent: agent.probabilities(X[0], arms=[0, 1, 2], draws=5),
    "learn": lambda agent: agent.learn(X[300:303], Y[300:303], arms=[7, 8, 7], new_arms=True),
}


@pytest.mark.parametrize("name", EVERY)
def test_a_call_cut_short_at_any_line_is_done_or_not_done(name):
    agent, random = taught(name), np.random.default_rng(2)
    before = fingerprint(agent)
    for call in CALLS.values():
        twin = deepcopy(agent)
        # The last line leaves `with self._lock`, where no signal is handled.
        moments = random.integers(1, lines_of(lambda twin=twin, call=call: call(twin)), 2)
        after = fingerprint(twin)
        for moment in moments.tolist():
            twin = deepcopy(agent)
            with suppress(Interrupted):
                lines_of(lambda twin=twin, call=call: call(twin), moment)
            assert fingerprint(deepcopy(twin)) in (before, after)
            call(twin)


@pytest.mark.parametrize("name", EVERY)
def test_choose_is_done_or_not_done_even_where_the_oracle_fails(name):
    agent = taught(name)
    before = fingerprint(agent)

    def broken(scores):
        raise Interrupted

    with pytest.raises(Interrupted):
        agent.choose(X[:3], arms=[0, 1, 2], oracle=broken)
    assert fingerprint(agent) == before


def test_a_learner_that_fails_changes_nothing():
    class Fragile:
        def __init__(self, works):
            self.works = works

        def fit(self, features, targets, *, seed):
            if not self.works:
                raise MemoryError
            self.works -= 1
            from treebandit import HistogramForest

            return HistogramForest(n_trees=5).fit(features, targets, seed=seed)

    agent = Bandit(Fragile(1), rebuild="every 1", random_rounds=0, seed=0)
    agent.learn(X[:50], Y[:50], arms=ARMS[:50])
    before = fingerprint(agent)
    with pytest.raises(MemoryError):
        agent.learn(X[50:60], Y[50:60], arms=ARMS[50:60])
    assert fingerprint(agent) == before


def test_an_oracle_may_look_but_not_play():
    agent = taught("Bandit")

    def looking(scores):
        assert len(agent.estimate(X[:3], arms=[0, 1, 2]).mean) == 3
        return np.array([int(np.argmax(scores))])

    clock = agent.clock
    agent.choose(X[:3], arms=[0, 1, 2], oracle=looking)
    assert agent.clock == clock + 1

    def playing(scores):
        agent.learn(X[:1], [1.0], arms=[0])
        return np.array([0])

    with pytest.raises(TreebanditError, match="from inside its oracle"):
        agent.choose(X[:3], arms=[0, 1, 2], oracle=playing)
    assert agent.clock == clock + 1


@pytest.mark.parametrize("name", EVERY)
def test_threads_lose_nothing(name, tmp_path):
    """Eight threads choose, decide, decide on many rows, learn, look and save."""
    agent, errors, learned = EVERY[name](), [], []
    agent.learn(X[:30], Y[:30], arms=ARMS[:30])

    def work(number):
        mine = np.random.default_rng(number)
        try:
            for _ in range(10):
                x, kind = mine.normal(size=4).astype(np.float32), mine.integers(4)
                if kind == 0:
                    row = int(agent.choose(x, arms=[0, 1, 2])[0])
                    agent.learn(x, float(row == 1), arms=[row])
                    rows = 1
                elif kind == 1:
                    decision = agent.decide(x, arms=[0, 1, 2], draws=3)
                    agent.learn(decision, float(decision.arm == 1))
                    rows = 1
                elif kind == 2:
                    decisions = agent.decide_many(mine.normal(size=(2, 4)), arms=[0, 1, 2], draws=3)
                    agent.learn(decisions, [0.0, 1.0])
                    rows = 2
                else:
                    agent.estimate(x[None], arms=[1])
                    agent.probabilities(x, arms=[0, 1, 2], draws=3)
                    agent.save(tmp_path / "agent")
                    rows = 0
                learned.append(rows)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert agent.clock == 30 + sum(learned)
    counts = agent.estimate(np.zeros((3, 4)), arms=[0, 1, 2]).count
    if (
        name.startswith(("LinUCB", "LinTS", "UCB1", "EnsembleSampling", "EpsilonGreedy"))
        and "shared" not in name
        and "newest" not in name
    ):
        assert counts.sum() == 30 + sum(learned)
    if hasattr(agent, "model") and hasattr(agent.model, "history"):
        assert agent.memory != "all" if "newest" in name else len(agent.model.history) == 30 + sum(learned)


def test_two_threads_saving_to_one_path_leave_a_good_file(tmp_path):
    agent, path = taught("TETS-RF"), tmp_path / "agent"
    threads = [threading.Thread(target=agent.save, args=(path,)) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert fingerprint(type(agent).load(path)) == fingerprint(agent)
    assert [file.name for file in tmp_path.iterdir()] == ["agent"]


@pytest.fixture
def many_switches():
    """Threads take turns as often as can be."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.parametrize("copied", [deepcopy, copy, lambda agent: pickle.loads(pickle.dumps(agent))])
def test_an_agent_is_copied_whole_while_another_thread_teaches_it(copied, many_switches):
    agent, stop = (
        Bandit(HistogramForest(n_trees=8, max_depth=3), rebuild="every 400", seed=0),
        threading.Event(),
    )
    agent.learn(X[:300], Y[:300], arms=ARMS[:300])

    def teach():
        while not stop.is_set():
            agent.learn(X[:1], Y[:1], arms=ARMS[:1])

    teacher, found = threading.Thread(target=teach), []
    teacher.start()
    try:
        for _ in range(200):
            twin = copied(agent)
            model = twin.model
            counted = model.leaves.table[:, 2].sum() / model.leaves.forest.n_trees
            found.append((twin.clock, len(model.history), len(model.encoder.ridge), round(counted)))
    finally:
        stop.set()
        teacher.join()
    assert [each for each in found if len(set(each)) > 1] == []
    assert len(set(found)) > 1


class Watching(LinUCB):
    """An agent with a member that tells of it, one that cannot be copied, and one that is shared."""

    def __post_init__(self):
        super().__post_init__()
        self.own, self.socket = [self], threading.Lock()
        self.also_own = self.own

    def __getstate__(self):
        return super().__getstate__() | {"socket": None}


@pytest.mark.parametrize("copied", [deepcopy, lambda agents: pickle.loads(pickle.dumps(agents))])
def test_copies_of_an_agent_keep_what_is_shared_in_it(copied):
    agent = Watching(seed=0)
    agent.learn(X[:9], Y[:9], arms=ARMS[:9])
    one, other = copied([agent, agent])
    assert one is other is one.own[0] is not agent
    assert one.own is one.also_own is not agent.own
    assert one.socket is None
    assert fingerprint(one) == fingerprint(agent)
    one.learn(X[:1], Y[:1], arms=ARMS[:1])
    assert fingerprint(one) != fingerprint(agent)


@pytest.mark.parametrize("copied", [deepcopy, pickle.dumps])
def test_an_oracle_cannot_copy_the_agent_that_asks_it(copied):
    agent = taught("LinUCB")
    before = fingerprint(agent)
    with pytest.raises(TreebanditError, match="inside its oracle"):
        agent.choose(X[:3], arms=[0, 1, 2], oracle=lambda scores: copied(agent) and [0])
    assert fingerprint(agent) == before
