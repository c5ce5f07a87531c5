"""`decide`, `decide_many`, `probabilities`, and learning from decisions."""

import json
import pickle
import threading
import zipfile
from copy import deepcopy
from dataclasses import dataclass

import numpy as np
import pandas as pd
import polars as pl
import pytest
from every import EVERY
from taught import ARMS, Interrupted, X, Y, fingerprint, inputs_of, taught

import treebandit
from treebandit import TETS, Bandit, BaseAgent, Candidates, Columns, LinTS, LinUCB, TopK, Uniform
from treebandit.errors import (
    ArmsError,
    ChoiceError,
    DecideOnlyError,
    InputError,
    NoFeasibleChoiceError,
    ParameterError,
    SavedFileError,
    ShapeError,
    TreebanditError,
)

OFFERS = ["coffee", "tea", "water"]


def test_a_decision_tells_what_was_chosen_and_how_likely_that_was():
    agent = taught("Bandit")
    decision = agent.decide(X[0], arms=[0, 1, 2], id="visit 7")
    assert decision.id == "visit 7"
    assert decision.arm == decision.row == decision.rows[0]
    assert decision.arms == (decision.arm,)
    assert decision.labels == (0, 1, 2)
    assert decision.probability == decision.probabilities[decision.row]
    assert decision.probabilities.sum() == pytest.approx(1.0, abs=1e-12)
    assert decision.probabilities.min() >= 0.01 / 3
    assert decision.scores.shape == (3,)
    assert len({agent.decide(X[0], arms=[0, 1, 2]).id for _ in range(20)}) == 20


def test_sets_have_rows_and_no_row():
    decision = LinUCB(seed=0).decide(X[:4], oracle=TopK(2))
    assert len(decision.rows) == 2
    assert decision.probabilities.sum() == pytest.approx(2.0)
    with pytest.raises(ChoiceError, match="2 rows were chosen, not one; use `rows`"):
        decision.row
    with pytest.raises(ArmsError, match="have no arms; use `row` or `rows`"):
        decision.arm
    with pytest.raises(ChoiceError, match="use `rows` and `arms`"):
        LinUCB(seed=0).decide(X[:3], arms=[4, 5, 6], oracle=TopK(2)).arm


@pytest.mark.parametrize("name", EVERY)
def test_probabilities_change_nothing_and_are_what_decide_tells(name):
    agent = taught(name)
    before = fingerprint(agent)
    reported = agent.probabilities(X[0], arms=[0, 1, 2], draws=20)
    assert fingerprint(agent) == before
    assert reported.tolist() == agent.decide(X[0], arms=[0, 1, 2], draws=20).probabilities.tolist()


@pytest.mark.parametrize("name", EVERY)
def test_many_draws_leave_an_agent_as_one_decision_would(name):
    """All but the random stream, whatever the number of draws."""
    agent = taught(name)
    states = []
    for draws in (1, 30):
        twin = deepcopy(agent)
        twin.decide(X[0], arms=[0, 1, 2], draws=draws)
        states.append({**fingerprint(twin), "random": None})
    twin = deepcopy(agent)
    twin.choose(X[0], arms=[0, 1, 2])
    assert states[0] == states[1] == {**fingerprint(twin), "random": None}


@pytest.mark.parametrize("name", EVERY)
def test_the_first_decisions_have_probabilities_too(name):
    agent = EVERY[name]()
    for t in range(12):
        decision = agent.decide(X[t], arms=OFFERS, draws=10)
        assert 0.0 < decision.probability <= 1.0
        assert decision.probabilities.sum() == pytest.approx(1.0)
        agent.learn(decision, Y[t])
    assert agent.clock == 12


def test_random_starts_and_uniform_agents_are_told_exactly():
    for agent in (Uniform(seed=0), TETS(seed=0), treebandit.BanditForest(seed=0)):
        assert agent.decide(X[0], arms=OFFERS).probabilities.tolist() == [1 / 3] * 3
    chosen = [(each := Bandit(seed=0)).decide(X[0], arms=OFFERS, floor=0.0) for _ in range(2)]
    assert {decision.probability for decision in chosen} == {1.0}  # each in turn
    assert each.clock == 1


def test_epsilon_greedy_is_told_exactly():
    agent = treebandit.EpsilonGreedy(epsilon=0.3, seed=0)
    agent.learn(X[:50], Y[:50] + ARMS[:50], arms=ARMS[:50])
    best = agent.estimate(X[:3], arms=[0, 1, 2]).mean.argmax()
    reported = agent.probabilities(X[:3], arms=[0, 1, 2], floor=0.0)
    assert reported[best] == pytest.approx(0.7 + 0.1)
    assert np.delete(reported, best) == pytest.approx([0.1, 0.1])


def test_equals_share_exactly():
    agent = treebandit.UCB1(seed=0)
    assert agent.probabilities(None, arms=OFFERS, floor=0.0) == pytest.approx([1 / 3] * 3)
    agent.learn(None, [1.0, 1.0, 0.0], arms=OFFERS)
    assert agent.probabilities(None, arms=OFFERS, floor=0.0) == pytest.approx([0.5, 0.5, 0.0])
    assert agent.probabilities(None, arms=OFFERS, floor=0.3) == pytest.approx([0.45, 0.45, 0.1])


def test_what_cannot_be_chosen_is_not_chosen_by_chance_either():
    @dataclass(eq=False)
    class Closed(BaseAgent):
        closed: int = 1
        seed: int | None = None

        def _scores(self, candidates):
            return np.where(np.arange(len(candidates)) == self.closed, -np.inf, 1.0)

    agent = Closed(seed=0)
    assert agent.probabilities(X[:3], floor=0.5).tolist() == [0.5, 0.0, 0.5]
    assert agent.probabilities(X[:3], floor=0.5, oracle=TopK(2)).tolist() == [1.0, 0.0, 1.0]
    with pytest.raises(NoFeasibleChoiceError):
        agent.decide(X[:3], oracle=TopK(3))
    with pytest.raises(NoFeasibleChoiceError):
        Closed(closed=0, seed=0).decide(X[:1])


@dataclass(eq=False)
class Own(BaseAgent):
    """An agent of a user, who has written `_scores` only; it keeps what it scored last."""

    seed: int | None = None

    def _scores(self, candidates):
        self.calls = getattr(self, "calls", 0) + 1
        return self._random.normal([0.0, 0.5, 1.0])

    def _prepared(self, chosen, rewards, *, t):
        return lambda: None


def test_an_agent_with_scores_only_is_asked_again_and_again():
    agent = Own(seed=0)
    reported = np.mean([agent.probabilities(X[:3], draws=400, floor=0.0) for _ in range(1)], axis=0)
    assert not hasattr(agent, "calls")
    assert reported[2] > reported[1] > reported[0] > 0.0
    decision = agent.decide(X[:3])
    assert (agent.clock, agent.calls) == (1, 1)
    agent.learn(decision, 1.0)


def test_scores_of_a_subclass_count_more_than_draws_of_its_parent():
    class Stubborn(LinTS):
        def _scores(self, candidates):
            return np.arange(len(candidates), dtype=float)

    agent = Stubborn(seed=0)
    agent.learn(X[:50], Y[:50], arms=ARMS[:50])
    assert agent.probabilities(X[0], arms=[0, 1, 2], floor=0.0).tolist() == [0.0, 0.0, 1.0]


# Learning from decisions


CONTEXTS = {
    "array": X[0].astype(np.float64),
    "float32 rows": X[:3],
    "lists": X[:3].tolist(),
    "dict": {"x": 1.0, "kind": "new"},
    "dicts": [{"x": 1.0, "kind": "a"}, {"x": 2.0, "kind": "b"}, {"x": 3.0, "kind": None}],
    "pandas": pd.DataFrame({"x": [1.0, 2.0, 3.0], "kind": ["a", "b", None]}),
    "polars": pl.DataFrame({"x": [1.0, 2.0, 3.0], "kind": ["a", "b", None]}),
    "one row": pl.DataFrame({"x": [1.0], "kind": ["a"]}),
    "series": pd.Series({"x": 1.0, "kind": "a"}),
    "numbers in a series": pd.Series([1.0, 2.0]),
    "none": None,
}


def rows_of(contexts, rows):
    """What a caller would give to `learn`."""
    if isinstance(contexts, pd.DataFrame):
        return contexts.iloc[rows]
    if isinstance(contexts, pl.DataFrame) and len(contexts) > 1:
        return contexts[rows]
    if isinstance(contexts, list) or (isinstance(contexts, np.ndarray) and contexts.ndim > 1):
        return [contexts[row] for row in rows]
    return contexts


@pytest.mark.parametrize("kind", CONTEXTS)
@pytest.mark.parametrize("k", [1, 2])
def test_learning_a_decision_is_learning_its_rows(kind, k):
    given, rewards = CONTEXTS[kind], [1.0, 0.5][:k]
    agent, twin = Bandit(seed=0), Bandit(seed=0)
    for _ in range(3):
        decision = agent.decide(given, arms=OFFERS, oracle=TopK(k))
        twin.decide(given, arms=OFFERS, oracle=TopK(k))
        agent.learn(decision, rewards if k > 1 else rewards[0])
        twin.learn(rows_of(given, decision.rows.tolist()), rewards, arms=list(decision.arms))
    assert fingerprint(agent) == fingerprint(twin)
    batch, apart = Bandit(seed=0), Bandit(seed=0)
    batch.learn([decision, decision], [rewards, rewards])
    apart.learn([decision], [rewards])
    apart.learn(decision, rewards)
    assert inputs_of(batch)["labels"] == inputs_of(apart)["labels"]
    assert batch.model.history.contexts.tobytes() == apart.model.history.contexts.tobytes()


def test_a_decision_is_learned_by_an_agent_with_other_codes(tmp_path):
    """Codes of categories and arms are those of the agent that learns."""
    teacher, pupil = Bandit(seed=0), Bandit(seed=1)
    teacher.learn([{"kind": "a"}, {"kind": "b"}], [0, 1], arms=["tea", "coffee"])
    pupil.learn([{"kind": "c"}, {"kind": "b"}, {"kind": "a"}], [0, 1, 2], arms=["coffee", "water", "tea"])
    decision = pickle.loads(pickle.dumps(teacher.decide({"kind": "b"}, arms=["coffee"])))
    pupil.learn(decision, 5.0)
    assert inputs_of(pupil)["labels"] == ["coffee", "water", "tea"]
    history = pupil.model.history
    assert (history.contexts[-1, 0], history.arms[-1], history.rewards[-1]) == (1.0, 0, 5.0)
    pupil.save(tmp_path / "agent")
    treebandit.load(tmp_path / "agent").learn([decision, decision], [1.0, 2.0])


def test_a_decision_keeps_its_own_copy_of_what_was_given():
    for given in (X[:3].copy(), X[0].copy(), {"x": 1.0}, pd.DataFrame({"x": [1.0, 2.0, 3.0]})):
        agent = Bandit(seed=0)
        decision = agent.decide(given, arms=OFFERS)
        before = decision.candidates.contexts.copy()
        if isinstance(given, dict):
            given["x"] = 99.0
        elif isinstance(given, pd.DataFrame):
            given.iloc[:, 0] = 99.0
        else:
            given[...] = 99.0
        agent.learn(decision, 1.0)
        assert agent.model.history.contexts[0, 0] != 99.0
        assert decision.candidates.contexts.tolist() == before.tolist()


def test_decisions_over_candidates_are_learned_as_candidates():
    rows = Candidates(X[:3].copy(), np.array([7, 8, 9]), Columns.numeric(4))
    agent = Bandit(seed=0)
    decisions = [agent.decide(rows) for _ in range(2)]
    assert decisions[0].labels == (7, 8, 9)
    rows.contexts[...] = 0.0
    agent.learn(decisions, [1.0, 2.0])
    assert agent.model.history.arms.tolist() == [each.arm for each in decisions]
    assert agent.model.history.contexts.any()


def test_decisions_over_candidates_with_more_and_more_categories():
    def offered(*categories):
        rows = Candidates(np.ones((2, 2), np.float32), np.array([0, 1]), Columns(categories))
        return LinUCB(seed=0).decide(rows)

    agent = Bandit(seed=0)
    agent.learn([offered(2, 9), offered(5, 3)], [1.0, 2.0])
    assert inputs_of(agent)["columns"][0] == [5, 9]
    with pytest.raises(InputError, match="different columns in one list"):
        agent.learn([offered(2, 9), offered(0, 3)], [1.0, 2.0])


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda a, d: a.learn(d, [1.0, 2.0]), "2 rewards for 1 chosen rows"),
        (lambda a, d: a.learn(d, 1.0, arms=["tea"]), "a Decision knows its arms"),
        (lambda a, d: a.learn(d, np.nan), "the reward of row 0 is nan"),
        (lambda a, d: a.learn([d, d], [1.0]), "1 rewards for 2 decisions"),
        (lambda a, d: a.learn([d, d], 1.0), "rewards are 1.0; give one per decision, 2 in all"),
        (lambda a, d: a.learn([d, d], [1.0, [1.0, 2.0]]), "2 rewards for the 1 chosen rows of decision 1"),
        (lambda a, d: a.learn([d, X[0]], [1.0, 2.0]), "at place 1 of a list of decisions"),
        (lambda a, d: a.learn([d, LinUCB(seed=0).decide(X[:2])], [1.0, 2.0]), "decisions without arms"),
        (lambda a, d: a.learn(LinUCB(seed=0).decide(X[0, :2], arms=OFFERS), 1.0), "rows of 2 features"),
        (lambda a, d: a.learn(LinUCB(seed=0).decide({"x": 1}, arms=OFFERS), 1.0), "give an array"),
        (lambda a, d: a.learn([d, LinUCB(seed=0).decide({"x": 1}, arms=OFFERS)], [1, 1]), "learn them apart"),
    ],
)
def test_what_cannot_be_learned_changes_nothing(call, words):
    agent = LinUCB(seed=0)
    decision = agent.decide(X[0], arms=OFFERS)
    agent.learn(decision, 0.5)
    before = fingerprint(agent)
    with pytest.raises(InputError, match=words):
        call(agent, decision)
    assert fingerprint(agent) == before


# Many decisions in one call


@pytest.mark.parametrize("name", EVERY)
def test_many_decisions_are_those_one_after_the_other(name):
    agent = taught(name)
    twin = deepcopy(agent)
    many = agent.decide_many(X[:4], arms=[0, 1, 2], draws=10, ids=list("abcd"))
    apart = [twin.decide(row, arms=[0, 1, 2], draws=10) for row in X[:4]]
    assert [each.probabilities.tolist() for each in many] == [each.probabilities.tolist() for each in apart]
    assert [each.row for each in many] == [each.row for each in apart]
    assert [each.id for each in many] == list("abcd")
    assert fingerprint(agent) == fingerprint(twin)
    agent.learn(many, [0.0, 1.0, 2.0, 3.0])


@pytest.mark.parametrize("frame", [pl.DataFrame, pd.DataFrame, lambda rows: rows])
def test_many_rows_with_names(frame):
    rows = [{"x": 1.0, "kind": "a"}, {"x": 2.0, "kind": "b"}]
    agent = Bandit(seed=0)
    decisions = agent.decide_many(frame(rows), arms=OFFERS)
    agent.learn(decisions, [1.0, 0.0])
    agent.learn(decisions[1], 1.0)
    assert agent.model.history.contexts.tolist() == [[1.0, 0.0], [2.0, 1.0], [2.0, 1.0]]


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"contexts": X[0]}, ShapeError, "one row of features per decision"),
        ({"contexts": {"x": 1}}, ShapeError, "one row; give a list of rows"),
        ({"contexts": None}, InputError, "no contexts"),
        ({"arms": None}, InputError, "no arms"),
        ({"arms": []}, ShapeError, "no arms; give at least one"),
        ({"ids": ["a"]}, ShapeError, "1 ids for 2 decisions"),
        ({"ids": ["a", "a"]}, ParameterError, "a text twice"),
        ({"ids": ["a", None]}, ParameterError, "ids hold None"),
        ({"ids": "ab"}, ParameterError, "give a list of texts"),
        ({"ids": 7}, ParameterError, "give a list of texts"),
        ({"ids": ["a", 7]}, ParameterError, "id is 7"),
        ({"contexts": Candidates(X[:2], None, Columns.numeric(4))}, InputError, "use decide"),
    ],
)
def test_many_decisions_refuse_what_they_cannot_use(arguments, error, words):
    agent = LinUCB(seed=0)
    before = fingerprint(agent)
    with pytest.raises(error, match=words):
        agent.decide_many(**{"contexts": X[:2], "arms": OFFERS, **arguments})
    assert fingerprint(agent) == before
    assert agent.decide_many(np.empty((0, 4)), arms=OFFERS) == []


# What cannot be decided


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"draws": 0}, "draws is 0; give a whole number of at least 1"),
        ({"draws": 10.0}, "draws is 10.0"),
        ({"draws": True}, "draws is True"),
        ({"draws": 1 << 40}, "give at most"),
        ({"floor": -0.1}, "floor is -0.1"),
        ({"floor": 1.5}, "floor is 1.5; give a finite number of at least 0 and at most 1"),
        ({"floor": np.nan}, "floor is nan"),
        ({"floor": "small"}, "floor is 'small'"),
        ({"id": 7}, "id is 7; give text"),
        ({"id": ""}, "id is ''"),
        ({"oracle": TopK}, "the class TopK"),
        ({"oracle": lambda scores: [7]}, "rows go from 0 to 2"),
    ],
)
def test_bad_arguments_change_nothing(arguments, words):
    agent = taught("Bandit")
    before = fingerprint(agent)
    with pytest.raises(InputError, match=words):
        agent.decide(X[0], arms=[0, 1, 2], **arguments)
    if "id" not in arguments:
        with pytest.raises(InputError, match=words):
            agent.probabilities(X[0], arms=[0, 1, 2], **arguments)
    assert fingerprint(agent) == before


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("fails", [1, 7])
def test_a_decision_that_is_cut_short_is_undone(name, fails):
    agent, calls = taught(name), []

    def breaking(scores):
        calls.append(1)
        if len(calls) >= fails:
            raise Interrupted
        return [0]

    before = fingerprint(agent)
    for method in (agent.decide, agent.probabilities):
        calls.clear()
        with pytest.raises(Interrupted):
            method(X[:3], arms=[0, 1, 2], oracle=breaking, draws=10)
        assert fingerprint(agent) == before


def test_an_oracle_may_not_decide():
    agent = taught("Bandit")

    def deciding(scores):
        agent.decide(X[:3], arms=[0, 1, 2])
        return [0]

    with pytest.raises(TreebanditError, match="decide was called while this agent decides"):
        agent.decide(X[:3], arms=[0, 1, 2], oracle=deciding)


def test_threads_may_decide_and_learn():
    agent, errors, ids = EVERY["Bandit"](), [], []

    def work(number):
        mine = np.random.default_rng(number)
        try:
            for _ in range(40):
                decision = agent.decide(mine.normal(size=4), arms=OFFERS)
                agent.probabilities(mine.normal(size=4), arms=OFFERS, draws=5)
                agent.learn(decision, float(decision.arm == "tea"))
                ids.append(decision.id)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert agent.clock == len(agent.model.history) == len(set(ids)) == 240


# Saved to decide only


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
    if hasattr(agent, "model") and hasattr(agent.model, "history"):
        assert sizes[0] < 0.6 * sizes[1]


def test_an_agent_that_has_learned_nothing_is_saved_to_decide_only(tmp_path):
    for name, make in EVERY.items():
        if name != "TreeBootstrap":
            make().save(tmp_path / "small", history=False)
            treebandit.load(tmp_path / "small").decide(X[0], arms=OFFERS)


def test_exact_bootstraps_need_their_rows(tmp_path):
    agent = taught("TreeBootstrap")
    with pytest.raises(SavedFileError, match="draws from its rows at every decision"):
        agent.save(tmp_path / "small", history=False)
    with pytest.raises(ParameterError, match="history is 0"):
        agent.save(tmp_path / "small", history=0)
    assert not list(tmp_path.iterdir())


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
