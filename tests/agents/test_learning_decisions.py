"""Learning from decisions: whoever made them, over any contexts, one or several at a time."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from taught import OFFERS, X, fingerprint, inputs_of

import treebandit
from treebandit import Bandit, Candidates, Columns, LinUCB, TopK
from treebandit.errors import InputError, TreebanditError

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
        (lambda a, d: a.learn([d, d], {0: 5.0, 1: 7.0}), "one per decision, 2 in all, in a list"),
        (lambda a, d: a.learn([d, d], {5.0, 7.0}), "one per decision, 2 in all, in a list"),
        (lambda a, d: a.learn([d, d], b"57"), "one per decision, 2 in all, in a list"),
        (lambda a, d: a.learn([d, d], pd.DataFrame([[5.0, 7.0]])), "one per decision, 2 in all, in a list"),
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


def typed_frames():
    zips = [10, 20, 30]
    given = [zips[number % 3] for number in range(12)]
    categories = pd.DataFrame({"zip": pd.Categorical(given, categories=zips)})
    nothing = pl.DataFrame({"x": range(12), "c": [None] * 12}, schema={"x": pl.Float64, "c": pl.String})
    return {
        "categories": categories,
        "nothing yet": nothing,
        "pyarrow": pa.table({"zip": list(map(str, given))}),
    }


@pytest.mark.parametrize("name", typed_frames())
def test_a_list_of_decisions_keeps_the_types_of_columns(name):
    frame, agents = typed_frames()[name], []
    for listed in (False, True):
        agent = LinUCB(seed=0)
        decisions = agent.decide_many(frame, arms=["a"])
        rewards = [float(number % 3 == 0) for number in range(12)]
        if listed:
            agent.learn(decisions, rewards)
        else:
            for decision, reward in zip(decisions, rewards, strict=True):
                agent.learn(decision, reward)
        agents.append(agent)
    assert agents[0]._inputs.columns == agents[1]._inputs.columns
    each = (agent.estimate(frame, arms=["a"] * 12).mean for agent in agents)
    np.testing.assert_allclose(*each, rtol=0.02)


def category(value, categories=None, *, ordered=False):
    return pd.DataFrame({"zip": pd.Categorical([value], categories, ordered=ordered), "x": [1.0]})


@pytest.mark.parametrize(
    "frames",
    [
        [category(10115), category(20095), category(10115)],
        [category(10115), category(None), category(20095, [30, 20095])],
        [category(None, [2, 1]), category(1, [3, 1]), category(3, [1, 2, 3])],
        [category(False, [False]), category(None, np.array([], bool)), category(True, [True])],
        [category(2, [2, 1], ordered=True), category(3, [3], ordered=True), category(2.5)],
        [category(10), pd.DataFrame({"zip": [10], "x": [2.0]}), category(20)],
        [category("b"), category("a"), category(None)],
    ],
)
def test_categoricals_that_list_other_categories_are_learned_as_one_by_one(frames):
    decisions = [LinUCB(seed=0).decide(frame, arms=["p"]) for frame in frames]
    listed, apart = Bandit(seed=0), Bandit(seed=0)
    listed.learn(decisions, [1.0, 0.0, 0.5])
    for decision, reward in zip(decisions, [1.0, 0.0, 0.5], strict=True):
        apart.learn(decision, reward)
    assert inputs_of(listed)["encoder"] == inputs_of(apart)["encoder"]
    assert listed.model.history.contexts.tobytes() == apart.model.history.contexts.tobytes()


def test_categoricals_of_booleans_and_of_numbers_are_refused_in_one_list():
    decisions = [LinUCB(seed=0).decide(category(value), arms=["p"]) for value in (True, 1)]
    with pytest.raises(InputError, match="holds numbers .* where booleans belong"):
        LinUCB(seed=0).learn(decisions, [1.0, 0.0])


def test_sets_over_frames_are_learned_as_frames():
    frame = pd.DataFrame({"zip": pd.Categorical([10, 20, 30])})
    agent = LinUCB(seed=0)
    decisions = [agent.decide(frame, oracle=TopK(2)) for _ in range(3)]
    agent.learn(decisions, [[1.0, 0.0]] * 3)
    assert agent._inputs.columns.categories == (3,)


def test_nothing_is_learned_of_nothing():
    agent = LinUCB(seed=0)
    agent.learn([], [])
    agent.learn({"x": 1.0}, 1.0, arms="a")
    agent.learn([], [])
    agent.learn([], np.zeros(0), arms=[])
    assert agent.decide_many([], arms=["a"]) == []
    with pytest.raises(TreebanditError):
        agent.learn([], [1.0])
    rows = LinUCB(seed=0)
    rows.learn([{"x": 1.0}, {"x": 2.0}], [1.0, 0.0])
    none = rows.decide([{"x": 1.0}, {"x": 2.0}], oracle=lambda scores: np.flatnonzero(scores > 1e9))
    rows.learn(none, [])
    rows.learn([none, none], [[], []])
    assert len(none.rows) == 0
