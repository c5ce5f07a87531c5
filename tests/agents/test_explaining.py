"""Explanations add up to estimates, name what was given, and change nothing."""

import tracemalloc

import numpy as np
import pandas
import polars
import pytest
from taught import fingerprint

import treebandit
from treebandit import (
    TETS,
    TEUCB,
    UCB1,
    Bandit,
    Candidates,
    Columns,
    HistogramForest,
    LinTS,
    LinUCB,
    NeuralTS,
    TreeBootstrap,
)
from treebandit.errors import NoEstimateError, NotFittedError

TREES = HistogramForest(n_trees=10, max_depth=6, bootstrap=False, subsample=0.8)
AGENTS = {
    "Bandit": lambda: Bandit(TREES, seed=0),
    "Bandit without linear model": lambda: Bandit(TREES, linear=False, seed=0),
    "Bandit, arms one-hot": lambda: Bandit(TREES, arm_encoding="one_hot", seed=0),
    "TEUCB": lambda: TEUCB(TREES, seed=0),
    "TETS, one-hot": lambda: TETS(TREES, categories="one_hot", seed=0),
    "LinUCB": lambda: LinUCB(seed=0),
    "LinTS, shared": lambda: LinTS(shared=True, seed=0),
    "LinUCB, auto": lambda: LinUCB(memory="auto", seed=0),
    "LinUCB, unit 1": lambda: LinUCB(standardise=False, seed=0),
}
random = np.random.default_rng(0)
ROWS = [
    {"age": float(random.integers(18, 80)), "city": str(random.choice(["Rome", "Oslo", "Bern"]))}
    for _ in range(150)
]
ARMS = [str(arm) for arm in random.choice(["a", "b", "c"], 150)]
REWARDS = [
    1000 + 50 * (arm == "a") * row["age"] / 50 + 20 * (row["city"] == "Oslo")
    for row, arm in zip(ROWS, ARMS, strict=True)
]


def taught(name):
    agent = AGENTS[name]()
    agent.learn(ROWS[:120], REWARDS[:120], arms=ARMS[:120])
    for row, reward, arm in zip(ROWS[120:], REWARDS[120:], ARMS[120:], strict=True):
        agent.learn(row, reward, arms=[arm])
    return agent


@pytest.mark.parametrize("name", AGENTS)
def test_contributions_add_up_to_the_mean_and_nothing_changes(name):
    agent = taught(name)
    asked = [*ROWS[:9], {"age": None, "city": "Oslo"}, {"age": 200.0, "city": None}]
    arms = [*ARMS[:9], "a", "b"]
    before = fingerprint(agent)
    explanation = agent.explain(asked, arms)
    assert fingerprint(agent) == before
    estimate = agent.estimate(asked, arms=arms)
    np.testing.assert_allclose(explanation.contributions.sum(1), estimate.mean, rtol=1e-9)
    np.testing.assert_allclose(explanation.mean, estimate.mean, rtol=1e-9)
    assert explanation.parts[:4] == ("(baseline)", "age", "city", "(arm)")
    assert explanation.values[0][1:4] == [ROWS[0]["age"], ROWS[0]["city"], ARMS[0]]
    assert explanation.values[9][1] is None
    assert explanation.values[10][2] is None


@pytest.mark.parametrize("name", AGENTS)
def test_what_matters_is_told(name):
    explanation = taught(name).explain({"age": 70.0, "city": "Oslo"}, ["a", "b"])
    table = explanation.table
    assert set(map(len, table.values())) == {2 * (len(explanation.parts) + 1)}
    for row, arm in enumerate("ab"):
        mine = [k for k, candidate in enumerate(table["candidate"]) if candidate == row]
        assert {table["arm"][k] for k in mine} == {arm}
        total = sum(table["contribution"][k] for k in mine)
        assert total == pytest.approx(explanation.mean[row] + explanation.exploration[row])
        found = {table["part"][k]: table["contribution"][k] for k in mine}
        assert found["city"] > 5
    assert explanation.contributions[0, 3] > explanation.contributions[1, 3] + 10


def test_exploration_is_what_the_score_has_above_the_mean():
    agent = taught("LinUCB")
    explanation = agent.explain(ROWS[0], ["a", "b", "new"])
    estimate = agent.estimate(ROWS[0], ["a", "b", "new"])
    np.testing.assert_allclose(explanation.exploration, 0.5 * np.sqrt(estimate.variance))
    np.testing.assert_allclose(explanation.deviation, 0.0, atol=1e-9)
    thompson = taught("TETS, one-hot").explain(ROWS[0], ["a", "b"], draws=2000)
    assert (np.abs(thompson.exploration) < 4 * thompson.deviation / np.sqrt(2000)).all()


T = 1.7e9
SIZED = np.column_stack([T + np.arange(80.0) * 500, np.linspace(1e-9, 2e-9, 80), np.linspace(0.1, 0.9, 80)])
ASKED = [T + 40000.25, 1.2345678901e-9, 0.1]


def sized(form):
    """An agent that has learned columns with an offset, with a unit and plain, and one row to ask for."""
    names = ["time", "size", "share"]
    forms = {
        "array": lambda rows: np.array(rows),
        "list": lambda rows: np.array(rows).tolist(),
        "dict": lambda rows: [dict(zip(names, row, strict=True)) for row in np.array(rows).tolist()],
        "pandas": lambda rows: pandas.DataFrame(np.array(rows), columns=names)[names[::-1]],
        "polars": lambda rows: polars.DataFrame(np.array(rows), schema=names),
        "series": lambda rows: pandas.Series(rows[0], names) if len(rows) == 1 else forms["pandas"](rows),
    }
    agent = TEUCB(TREES, seed=0)
    agent.learn(forms[form](SIZED), SIZED[:, 2], arms=["a", "b"] * 40)
    return agent, forms[form]([ASKED])


@pytest.mark.parametrize("form", ["array", "list", "dict", "pandas", "polars", "series"])
def test_values_are_shown_as_they_were_given(form):
    agent, asked = sized(form)
    explanation = agent.explain(asked, ["a", "b"])
    order = [2, 1, 0] if explanation.parts[1] == "share" else [0, 1, 2]
    for row, arm in enumerate("ab"):
        assert explanation.values[row][1:5] == [*(ASKED[k] for k in order), arm]
    similar = explanation.similar[0]
    for row, context in zip(similar["row"], similar["context"], strict=True):
        learned = [SIZED[row, k] for k in order]
        np.testing.assert_allclose(list(context.values()), learned, rtol=2e-7)
        assert tuple(context) == explanation.parts[1:4]
    polars.DataFrame(similar)


def test_whole_numbers_flags_and_lists_are_shown_as_they_were_given():
    agent = LinUCB(seed=0)
    agent.learn([[1, 0.5], [2, 0.25]], [0.0, 1.0], arms=[0, 1])
    values = agent.explain([10**15 + 1, None], [0, 1]).values[0]
    assert values[1:3] == [10**15 + 1, None]
    assert type(values[1]) is int
    agent = LinUCB(seed=0, new_columns=True)
    agent.learn([{"paid": True, "tags": ["x", "y"]}, {"paid": False, "tags": []}], [0.0, 1.0], arms=[0, 1])
    explanation = agent.explain({"paid": False, "tags": ["y"]}, [0, 1])
    assert dict(zip(explanation.parts, explanation.values[0], strict=True)) == {
        "(baseline)": None,
        "paid": False,
        "tags=x": 0.0,
        "tags=y": 1.0,
        "(arm)": 0,
    }
    assert agent.explain({"tags": ["y"]}, [0, 1]).values[0][1] is None


def test_values_of_candidates_are_shown_in_the_units_that_were_given():
    agent, asked = sized("array")
    decision = agent.decide(asked, ["a", "b"])
    shown = agent.explain(decision.candidates).values[0][1:4]
    np.testing.assert_allclose(shown, ASKED, rtol=2e-7)
    agent, x = LinUCB(seed=0), np.random.default_rng(0).normal(size=(9, 2)).astype(np.float32)
    rows = Candidates(x, np.arange(9) % 2, Columns.numeric(2))
    agent.learn(rows, np.arange(9.0))
    assert [values[1:3] for values in agent.explain(rows).values] == x.tolist()


@pytest.mark.parametrize("name", ["TEUCB", "LinUCB"])
def test_candidates_are_shown_by_the_names_that_were_given(name):
    agent = taught(name)
    asked = {"age": 30.0, "city": "Oslo"}
    decision = agent.decide(asked, ["b", "new"])
    explanation = agent.explain(decision.candidates)
    assert explanation.labels == ("b", "new")
    assert [values[1:4] for values in explanation.values] == [[30.0, "Oslo", "b"], [30.0, "Oslo", "new"]]
    np.testing.assert_array_equal(explanation.contributions, agent.explain(asked, ["b", "new"]).contributions)
    unseen = agent.decide({"age": 30.0, "city": "Paris"}, ["b", "new"]).candidates
    # The code of a category not learned yet is that of the next one that is.
    assert agent.explain(unseen).values[0][1:4] == [30.0, None, "b"]
    unknown = Candidates(unseen.contexts, np.array([1, 7]), unseen.columns)
    explanation = agent.explain(unknown)
    assert explanation.labels == (1, 7)
    polars.DataFrame(explanation.table)


@pytest.mark.parametrize("name", ["TEUCB", "LinUCB"])
def test_a_category_never_seen_is_shown_by_its_name(name):
    explanation = taught(name).explain({"age": 30, "city": "Paris"}, ["a", "new"])
    assert explanation.values[0][1:4] == [30, "Paris", "a"]
    assert explanation.values[1][3] == "new"


def test_no_contexts_have_no_value():
    agent = LinUCB(seed=0)
    agent.learn(None, [0.0, 1.0], arms=["a", "b"])
    explanation = agent.explain(None, ["a", "b"])
    assert explanation.values == [[None, None, "a"], [None, None, "b"]]


@pytest.mark.parametrize("library", [pandas, polars])
def test_the_table_is_a_frame(library):
    agent = taught("TEUCB")
    table = agent.explain(
        [{"age": 0.1 + 0.2, "city": "Rome"}, {"age": None, "city": "Oslo"}], ["a", "b"]
    ).table
    assert table["value"] == [None, repr(0.1 + 0.2), "Rome", "a", None, None, None, "Oslo", "b", None]
    frame = library.DataFrame(table)
    assert [value for value in frame["value"] if isinstance(value, str)] == [
        *("0.30000000000000004", "Rome", "a", "Oslo", "b")
    ]
    assert frame["contribution"].to_list() == table["contribution"]


def test_columns_with_the_name_of_another_part_are_told_apart():
    agent = LinUCB(seed=0)
    rows = [{"(arm)": 1.0, "column (arm)": 2.0, "(baseline)": "x", "(log) pay": 3.0}] * 4
    agent.learn(rows, [1.0, 0.0, 1.0, 0.0], arms=["a", "b"] * 2)
    parts = agent.explain(rows[0], ["a", "b"]).parts
    names = "column column (arm)", "column (arm)", "column (baseline)", "(log) pay"
    assert parts == ("(baseline)", *names, "(arm)")


def test_columns_of_candidates_with_one_name_are_told_apart():
    columns = Columns((0, 0, 0), ("a", "a", "column a"))
    rows = Candidates(np.random.default_rng(0).normal(size=(9, 3)).astype(np.float32), None, columns)
    agent = TEUCB(TREES, random_rounds=5, seed=0)
    agent.learn(rows, np.arange(9.0))
    explanation = agent.explain(rows)
    assert explanation.parts[1:4] == ("a", "column column a", "column a")
    assert list(explanation.similar[0]["context"][0]) == list(explanation.parts[1:4])


def test_many_candidates_are_explained_in_little_memory():
    random, agent = np.random.default_rng(0), Bandit(TREES, kernel=False, seed=0)
    agent.learn(random.normal(size=(5000, 2)), random.random(5000), arms=np.arange(5000) % 3)
    contexts = random.normal(size=(600, 2))
    tracemalloc.start()
    agent.explain(contexts, arms=np.arange(600) % 3, draws=2)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5000 * 600


def test_similar_rows_share_the_most_leaves():
    agent = taught("TEUCB")
    explanation = agent.explain(ROWS[7], [ARMS[7]])
    similar = explanation.similar[0]
    assert 7 in similar["row"]
    assert similar["share"][0] == 1.0
    assert similar["share"] == sorted(similar["share"], reverse=True)
    for row, arm, reward in zip(similar["row"], similar["arm"], similar["reward"], strict=True):
        assert (arm, reward) == (ARMS[row], REWARDS[row])
    assert similar["context"] == [ROWS[row] for row in similar["row"]]


def test_an_agent_without_history_explains_but_for_similar_rows(tmp_path):
    agent = taught("Bandit")
    agent.save(tmp_path / "agent", history=False)
    decider = treebandit.load(tmp_path / "agent")
    one, other = (each.explain(ROWS[0], ["a", "b"]) for each in (agent, decider))
    np.testing.assert_allclose(one.contributions, other.contributions)
    assert other.similar == [{}, {}]


@pytest.mark.parametrize("name", AGENTS)
def test_candidates_without_arms_have_no_arm_part(name):
    agent = AGENTS[name]()
    x = np.random.default_rng(0).normal(size=(80, 3))
    for rows in (x[:77], x[77:78], x[78:79], x[79:]):
        agent.learn(rows, 5 + rows[:, 0] + rows[:, 1] ** 2)
    explanation = agent.explain(x[:4])
    assert "(arm)" not in explanation.parts
    assert "arm" not in explanation.table
    np.testing.assert_allclose(explanation.contributions.sum(1), agent.estimate(x[:4]).mean)


def test_who_cannot_explain_says_so():
    with pytest.raises(NotFittedError):
        Bandit(seed=0).explain([1.0], arms=["a"])
    agent = TreeBootstrap(seed=0)
    agent.learn(np.zeros((9, 1)), np.arange(9.0), arms=[0] * 9)
    with pytest.raises(NoEstimateError, match="cannot tell"):
        agent.explain([1.0], arms=[0])
    assert not hasattr(UCB1(seed=0), "explain")
    assert hasattr(NeuralTS, "explain")
