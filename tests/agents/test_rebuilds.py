"""Rebuilds that take their time: spread over rounds, or on a thread."""

import inspect
import pickle
import sys
from copy import deepcopy
from itertools import pairwise

import numpy as np
import pytest
from rebuilt import DUE, SPREAD, TREES, rows_in, until
from taught import ARMS, Interrupted, X, Y, fingerprint

import treebandit
from treebandit import TETS, Bandit, EnsembleSampling, NeuralTS, RandomForestTrees
from treebandit.errors import SavedFileError
from treebandit.models.rebuild import Rebuild
from treebandit.models.schedule import Schedule


@pytest.mark.parametrize("text", ["8 ln t", "2.5 ln t", "8 ln t, 3 ln t from 700", "every 7"])
def test_a_level_begins_where_it_grows_and_lasts_until_the_next(text):
    schedule = Schedule.parse(text)
    grown = [t for t in range(60, 2000) if schedule.level(t) > schedule.level(t - 1)]
    for first, after in pairwise(grown):
        begins, lasting = schedule.rounds(schedule.level(first))
        assert begins == first
        assert abs(lasting - (after - first)) <= 1
    assert Schedule.parse("never").rounds(3) == (0, 0)


@pytest.mark.parametrize("rows", [1, 60])
def test_rows_are_never_overdue_where_every_round_brings_as_many(rows):
    schedule = Schedule.parse("8 ln t")
    for fitted in (1, 2, 5, 20, 300):
        assert not any(schedule.overdue((rows * t, t), (rows * fitted, fitted)) for t in range(fitted, 3000))
        assert schedule.overdue((rows * 2 * fitted, fitted), (rows * fitted, fitted))
    assert not schedule.overdue((300, 10), (299, 300))  # a clock that was set back
    assert not Schedule.parse("never").overdue((1000, 1), (1, 1))


LEARNERS = {
    "Bandit": lambda: Bandit(trees=TREES, seed=0),
    "in the background": lambda: Bandit(trees=TREES, background=True, seed=0),
    "memory": lambda: Bandit(trees=TREES, memory=150, seed=0),
    "every 50": lambda: TETS(TREES, rebuild="every 50", seed=0),
    "network": lambda: NeuralTS(hidden=(8,), epochs=1, seed=0),
    "ensemble": lambda: EnsembleSampling(seed=0),
}


@pytest.mark.parametrize("name", LEARNERS)
def test_rewards_that_come_after_the_decisions_are_fitted_too(name):
    agent = LEARNERS[name]()
    decisions = [agent.decide(row, arms=[0, 1, 2]) for row in X[:400]]
    for decision, row in zip(decisions, Y, strict=False):
        agent.learn(decision, float(row))
        agent.wait()
    model = agent.model
    assert len(model.history) <= 1.5 * model.fitted_at[0] + 1
    assert len(model.history) == 400 or len(model.history) <= 1.5 * 150 + 1


#: Rows are fitted anew once there are half more than these: the fit is overdue with row 450, and spread over four more.
LATE, LATE_SPREAD = 300, 4


def late_until(stop, agent=None, start=LATE, **arguments):
    """An agent that made all decisions first, and has since learned the rewards before `stop`, 300 of them at once."""
    if agent is None:
        agent = Bandit(TREES, seed=0, **arguments)
        for row in X[:600]:
            agent.choose(row, arms=[0, 1, 2])
        agent.learn(X[:LATE], Y[:LATE], arms=ARMS[:LATE])
    return until(stop, agent, start)


def test_a_fit_of_rewards_that_come_late_is_spread_over_rows_and_misses_none():
    agent = late_until(449)
    before = agent.model.leaves
    assert agent.model.rebuild is None
    late_until(449 + LATE_SPREAD, agent, 449)
    assert agent.model.rebuild is not None
    assert agent.model.rebuild.fitted_at == (450, 601)
    assert agent.model.leaves is before
    assert rows_in(agent) == {449 + LATE_SPREAD}
    late_until(450 + LATE_SPREAD, agent, 449 + LATE_SPREAD)
    assert agent.model.rebuild is None
    assert agent.model.fitted_at == (450, 601)
    assert agent.model.leaves is not before
    assert rows_in(agent) == {450 + LATE_SPREAD}


def test_decisions_in_between_do_not_hold_up_a_fit_of_late_rewards():
    agent = late_until(451)
    agent.choose(X[0], arms=[0, 1, 2])
    late_until(450 + LATE_SPREAD, agent, 451)
    assert agent.model.fitted_at == (450, 601)


def test_late_rewards_that_come_at_once_are_fitted_at_once():
    agent = late_until(LATE)
    agent.learn(X[LATE:460], Y[LATE:460], arms=ARMS[LATE:460])
    assert agent.model.rebuild is None
    assert agent.model.fitted_at == (460, 601)
    few = late_until(449)
    few.learn(X[449:452], Y[449:452], arms=ARMS[449:452])
    assert few.model.rebuild.fitted_at == (452, 601)
    few.learn(X[452:454], Y[452:454], arms=ARMS[452:454])
    assert few.model.rebuild is None


@pytest.mark.parametrize("copy", ["saved", "pickled", "deepcopied"])
@pytest.mark.parametrize("stop", [450, 452, 453])
def test_a_copy_made_during_a_fit_of_late_rewards_goes_on_alike(copy, stop, tmp_path):
    agent = late_until(stop)
    assert agent.model.rebuild is not None
    if copy == "saved":
        agent.save(tmp_path / "agent")
        twin = treebandit.load(tmp_path / "agent")
    else:
        twin = pickle.loads(pickle.dumps(agent)) if copy == "pickled" else deepcopy(agent)
    for row in range(stop, 458):
        fits = []
        for each in (agent, twin):
            late_until(row + 1, each, row)
            fits.append((each.model.rebuild is None, each.model.fitted_at))
        assert fits[0] == fits[1]
        assert fingerprint(twin) == fingerprint(agent)
    assert agent.model.rebuild is None


@pytest.mark.parametrize("background", [False, True])
def test_fewer_rows_are_kept_than_rounds_are_between_rebuilds(background, tmp_path):
    """The schedule begins again at 0 then, but the rows that are kept stand for as many rounds as before."""
    agent = TETS(TREES, memory=20, rebuild="every 50", background=background, random_rounds=2, seed=0)
    fits = []
    for row in range(280):
        if row < 130:
            agent.choose(X[row], arms=[0, 1, 2])
        agent.learn(X[row], Y[row], arms=ARMS[row : row + 1])
        agent.wait()
        fits.append(agent.model.leaves)
        if row == 129:
            assert agent.model.fitted_at == (20, 20)
            agent.save(tmp_path / "agent.treebandit")
            again = treebandit.load(tmp_path / "agent.treebandit")
            assert fingerprint(again) == fingerprint(agent)
    anew = [before is not after for before, after in pairwise(fits)]
    assert sum(anew[60:129]) == 1
    assert 12 <= sum(anew[129:]) <= 15  # without decisions, one for ten rows


def test_rows_without_decisions_end_a_rebuild_that_rounds_would_end():
    agent = until(DUE + 1)
    agent.decide(X[DUE + 1], arms=[0, 1, 2])  # from now on decisions are the rounds
    agent.learn(X[DUE + 1], Y[DUE + 1], arms=ARMS[DUE + 1 : DUE + 2])
    assert agent.model.rebuild is not None
    for _ in range(3):
        agent.learn(X[:400], Y[:400], arms=ARMS[:400])
    assert agent.model.rebuild is None
    assert agent.model.fitted_at[0] > 1000


def test_a_rebuild_is_spread_over_rounds_and_misses_no_row():
    agent = until(DUE - 1)
    before = agent.model.leaves
    until(DUE + SPREAD - 1, agent, DUE - 1)
    assert agent.model.rebuild is not None
    assert agent.model.leaves is before
    assert rows_in(agent) == {DUE + SPREAD - 1}
    until(DUE + SPREAD, agent, DUE + SPREAD - 1)
    assert agent.model.rebuild is None
    assert agent.model.leaves is not before
    assert rows_in(agent) == {DUE + SPREAD}


def test_the_trees_are_those_of_a_rebuild_at_once():
    agent = until(DUE)
    job = deepcopy(agent.model.rebuild)
    job.advance(agent.model, 1.0)
    until(DUE + SPREAD, agent, DUE)
    assert len(job.history) == DUE
    assert agent.model.leaves.forest.nodes.tobytes() == job.fit.leaves.forest.nodes.tobytes()


def test_a_rebuild_is_whole_where_many_rows_come_at_once_or_trees_have_no_steps():
    agent = until(DUE - 1)
    agent.learn(X[DUE - 1 : 600], Y[DUE - 1 : 600], arms=ARMS[DUE - 1 : 600])
    assert agent.model.rebuild is None
    assert agent.model.level == 1
    agent = TETS(RandomForestTrees(n_trees=3, max_depth=3), rebuild="every 480", seed=0)
    agent.learn(X[:100], Y[:100], arms=ARMS[:100])
    until(DUE, agent, 100)
    assert agent.model.rebuild is None
    assert agent.model.level == 1


def test_choices_are_repeatable():
    first, second = until(DUE + 3), until(DUE + 3)
    for row in range(DUE + 3, DUE + 30):
        chosen = [int(agent.choose(X[row], arms=[0, 1, 2])[0]) for agent in (first, second)]
        assert chosen[0] == chosen[1]
        for agent in (first, second):
            agent.learn(X[row], Y[row], arms=[chosen[0]])


@pytest.mark.parametrize("background", [False, True])
def test_rows_that_are_forgotten_when_a_rebuild_starts_are_in_none_of_its_leaves(background):
    agent = until(DUE + SPREAD + 5, memory=150, background=background)
    agent.wait()
    assert agent.model.rebuild is None
    assert rows_in(agent) == {len(agent.model.history)}
    assert len(agent.model.history) < DUE


@pytest.mark.parametrize("copy", ["saved", "pickled", "deepcopied"])
def test_a_copy_made_during_a_spread_rebuild_goes_on_alike(copy, tmp_path):
    agent = until(DUE + 4)
    if copy == "saved":
        agent.save(tmp_path / "agent")
        twin = treebandit.load(tmp_path / "agent")
    else:
        twin = pickle.loads(pickle.dumps(agent)) if copy == "pickled" else deepcopy(agent)
    assert fingerprint(twin) == fingerprint(agent)
    until(DUE + SPREAD + 3, agent, DUE + 4)
    until(DUE + SPREAD + 3, twin, DUE + 4)
    assert fingerprint(twin) == fingerprint(agent)


class Written(np.ndarray):
    """What a rebuild has read; it reads more just when that is copied, as a thread may."""

    def __deepcopy__(self, memo):
        self.rebuild.snapshot["completed"] = np.zeros(7)
        return np.array(self)


def test_a_rebuild_is_copied_while_its_thread_reads_the_model():
    rebuild = until(DUE + 1).model.rebuild
    rebuild.snapshot["beside"] = seen = np.zeros(7).view(Written)
    seen.rebuild = rebuild
    assert list(deepcopy(rebuild).snapshot) == ["beside"]
    assert list(rebuild.snapshot) == ["beside", "completed"]


@pytest.mark.parametrize("copy", ["pickled", "saved"])
def test_a_copy_of_a_rebuild_that_has_read_the_model_reads_the_same(copy, tmp_path):
    random = np.random.default_rng(0)
    arms, rows = random.integers(0, 100, 1000), random.normal(size=(1000, 3))
    effects = random.normal(size=100)
    rewards = rows[:, 0] + np.abs(rows[:, 2]) + effects[arms] + random.normal(size=1000)
    agent = Bandit(TREES, rebuild="every 480", seed=0)
    agent.learn(rows[:470], rewards[:470], arms=arms[:470])
    row = 470
    while agent.model.rebuild is None or agent.model.rebuild.fit is None:
        agent.learn(rows[row], rewards[row], arms=arms[row : row + 1])
        row += 1
    if copy == "saved":
        agent.save(tmp_path / "agent")
    twin = pickle.loads(pickle.dumps(agent)) if copy == "pickled" else treebandit.load(tmp_path / "agent")
    for each in (agent, twin):
        for late in range(row, row + 20):
            each.learn(rows[late], rewards[late], arms=arms[late : late + 1])
        assert each.model.rebuild is None
    assert 0.0 < agent.linear_weight < 1.0
    assert agent.model.encoder.effects.active
    assert fingerprint(twin) == fingerprint(agent)


def test_a_decider_is_saved_without_the_rebuild(tmp_path):
    until(DUE + 4).save(tmp_path / "decider", history=False)
    assert treebandit.load(tmp_path / "decider").model.rebuild is None


@pytest.mark.parametrize(
    "forged",
    [
        {"rows": 1},
        {"rows": 10_000},
        {"seed": -1},
        {"level": None},
        {"rounds": 0},
        {"since": 10_000},
        {"since": -1},
        {"since": 0.5},
        {"read": None},
        {"read": {"beside": np.zeros(6)}},
        {"read": {"completed": np.full(7, -1.0)}},
        {"columns": {"names": [], "categories": [0, 2, 0, 0]}},
        {"columns": {"names": [], "categories": [0] * 5}},
        {"newest": {"names": [], "categories": [0] * 3}},
        {"columns": {"names": []}},
        {"columns": 3},
    ],
)
def test_a_forged_rebuild_is_refused(forged):
    agent = until(DUE)
    state = agent.model.state()
    state["rebuild"] |= forged
    with pytest.raises(SavedFileError):
        Bandit(TREES, rebuild="every 480").model.restore(state)


def test_an_exception_in_a_share_changes_nothing(monkeypatch):
    agent, twin = until(DUE + 4), until(DUE + SPREAD + 3)
    before = fingerprint(agent)
    grow = treebandit.trees.grower.grow_trees

    def broken(*arguments):
        raise Interrupted

    monkeypatch.setattr(treebandit.trees.grower, "grow_trees", broken)
    with pytest.raises(Interrupted):
        until(DUE + SPREAD, agent, DUE + 4)
    monkeypatch.setattr(treebandit.trees.grower, "grow_trees", grow)
    assert fingerprint(agent) == before
    assert fingerprint(until(DUE + SPREAD + 3, agent, DUE + 4)) == fingerprint(twin)


def test_waiting_does_the_rest_of_a_spread_rebuild():
    agent = until(DUE + 2)
    assert agent.wait()
    assert agent.model.rebuild is None
    assert rows_in(agent) == {DUE + 2}
    assert agent.wait()
    assert treebandit.LinUCB().wait()


def test_an_interruption_as_a_rebuild_ends_leaves_an_agent_that_learns_on():
    agent, advance = until(DUE + 2), Rebuild.advance.__code__
    lines, first = inspect.getsourcelines(Rebuild.advance)
    last = first + next(place for place, line in enumerate(lines) if "end.value" in line)
    before = len(agent.model.history)

    def trace(frame, event, argument):
        if frame.f_code is not advance:
            return None
        if event == "line" and frame.f_lineno == last:
            raise KeyboardInterrupt
        return trace

    with pytest.raises(KeyboardInterrupt):  # noqa: PT012
        for row in range(DUE + 2, DUE + 2 * SPREAD):
            former = sys.gettrace()
            sys.settrace(trace)
            try:
                agent.learn(X[row], Y[row], arms=ARMS[row : row + 1])
            finally:
                sys.settrace(former)
    assert before < len(agent.model.history) < before + 2 * SPREAD - 2
    until(DUE + 4 * SPREAD, agent, start=len(agent.model.history))
    assert rows_in(agent) == {float(DUE + 4 * SPREAD)}
