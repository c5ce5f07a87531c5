"""What may be given to an agent, and what each mistake is answered with; a mistake leaves the agent as it was."""

import datetime as dt
import re
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse
from features.given import ONE, ROWS, ROWS32, fingerprint
from hypothesis import given, settings
from hypothesis import strategies as st
from playing import make_agent, play

from treebandit import (
    TEUCB,
    Bandit,
    LinUCB,
    ShortestPath,
    XGBoostTrees,
)
from treebandit.core import Candidates, Columns
from treebandit.errors import (
    ArmsError,
    InputError,
    NoFeasibleChoiceError,
    NotFittedError,
    SavedFileError,
    ShapeError,
    TreebanditError,
)
from treebandit.features.inputs import Inputs


@pytest.fixture
def agent():
    agent = make_agent()
    play(agent, 30)
    return agent


@pytest.mark.parametrize(
    ("contexts", "rewards", "arms", "error", "words"),
    [
        (ROWS[0], np.nan, [0], InputError, "reward of row 0 is nan; give a finite number"),
        (
            ROWS[0],
            -1e200,
            [0],
            InputError,
            "reward of row 0 is -1e.200; give a number from -3.4e.38 to 3.4e.38",
        ),
        (ROWS[0], None, [0], InputError, "no rewards for ndarray; give one per row"),
        (ROWS[:2], [1.0, np.inf], [0, 1], InputError, "reward of row 1 is inf"),
        (ROWS[:2], [1.0, 1e300], [0, 1], InputError, "reward of row 1 is 1e"),
        (ROWS[:2], [1.0, 10**400], [0, 1], InputError, "reward of row 1 is inf"),
        (ROWS[:2], [1, 2, 3], [0, 1], ShapeError, "3 rewards for 2 chosen rows; send one reward per row"),
        (ROWS[:2], [[1, 2]], [0, 1], ShapeError, "rewards of shape"),
        (ROWS[:2], [[1], [2, 3]], [0, 1], InputError, "rewards are .* which is no array"),
        (ROWS[:2], ["good", "bad"], [0, 1], InputError, "rewards .*text.* cannot be read as numbers"),
        (ROWS[:2], ["1.5", "2"], [0, 1], InputError, "cannot be read as numbers"),
        (ROWS[:2], [1.0, "2"], [0, 1], InputError, "cannot be read as numbers"),
        (ROWS[:2], [b"1", b"2"], [0, 1], InputError, r"\(bytes\)"),
        (ROWS[:2], [1j, 2], [0, 1], InputError, r"\(complex numbers\)"),
        (ROWS[:2], {1.0, 2.0}, [0, 1], InputError, r"\(set\), which cannot be read as numbers"),
        (ROWS[:2], {"a": 1}, [0, 1], InputError, r"\(dict\)"),
        (ROWS[:2], (r for r in (1, 2)), [0, 1], InputError, r"\(generator\)"),
        (ROWS[:2], np.ma.masked_array([1.0, 99], [0, 1]), [0, 1], InputError, "rewards have masked values"),
        (ROWS[:2], np.array(["NaT", "2020-01-01"], "M8[s]"), [0, 1], InputError, r"\(dates\)"),
        (ROWS[:2], np.array([1, "NaT"], "m8[s]"), [0, 1], InputError, r"\(time spans\)"),
        (ROWS[:2], [1.0, object()], [0, 1], InputError, r"object .* \(object\), which cannot be read as a"),
        (
            ROWS[:2, :3],
            [1, 2],
            [0, 1],
            ShapeError,
            "rows of 3 features, but this agent has learned rows of 4",
        ),
        ([["a", "b", "c", "d"]], [1], [0], InputError, "contexts .* cannot be read as numbers"),
        ([[1, 2, 3, "d"]], [1], [0], InputError, "contexts .* cannot be read as numbers"),
        ([[1, 2, 3, 4], [1]], [1], [0], InputError, "give rows of one length"),
        ([[1, 2, 3, 4j]], [1], [0], InputError, r"\(complex numbers\)"),
        (np.ma.masked_array([[1.0, 5, 0, 0]], [[0, 1, 0, 0]]), [1], [0], InputError, "contexts have masked"),
        ([np.ma.masked_array([1.0, 5, 0, 0], [0, 1, 0, 0])], [1], [0], InputError, "contexts have masked"),
        (np.array([["NaT", "2020-01-01", "NaT", "NaT"]], "M8[D]"), [1], [0], InputError, r"\(dates\)"),
        (scipy.sparse.csr_matrix(ROWS[:1]), [1], [0], InputError, "sparse csr_matrix.*toarray"),
        (scipy.sparse.coo_array(ROWS[:1]), [1], [0], InputError, "sparse coo_array.*toarray"),
        (np.full((1, 4), np.inf), [1], [0], InputError, "column 0 is infinite in row 0"),
        (np.full((1, 4), 1e300), [1], [0], InputError, "too large for 32 bits"),
        ([[10**400] * 4], [1], [0], InputError, "too large for 32 bits"),
        (ROWS[None], [1], [0], ShapeError, "contexts of shape"),
        (np.empty((1, 0)), [1], [0], ShapeError, "rows of 0 features"),
        ({1, 2, 3, 4}, [1], [0], InputError, r"\(set\)"),
        ((x for x in ROWS), [1], [0], InputError, r"\(generator\)"),
        (3.0, [1], [0], ShapeError, r"contexts of shape \(\)"),
        ({"a": 1}, [1], [0], InputError, "learned rows with arrays, whose columns have no names"),
        (pd.DataFrame(ROWS), [1] * 3, [0] * 3, InputError, "learned rows with arrays"),
        (None, [1], [0], InputError, "learned rows with arrays"),
        (ROWS[:2], [1, 2], None, ArmsError, "given rows with arms; give `arms`"),
        (ROWS[:2], [1, 2], [0], ShapeError, "1 arms for 2 rows"),
        (ROWS[:2], [1, 2], [0.5, 1.0], ArmsError, "whole numbers or strings"),
        (ROWS[:2], [1, 2], ["a", "b"], ArmsError, "is a name, but this agent has arms with numbers"),
        (ROWS[:1], [1], [1 << 30], ArmsError, "number arms from 0"),
        (ROWS[:1], [1], np.array([-(2**63)]), ArmsError, "is beyond 16777216"),
        (ROWS[:1], [1], np.array([2**63], np.uint64), ArmsError, "is beyond 16777216"),
        (ROWS[:2], [1, 2], [[0, 1]], ShapeError, "one label per row"),
        (ROWS[:1], [1], [20], ArmsError, "arm 20 was neither offered nor learned before.*new_arms=True"),
    ],
)
def test_bad_rows_are_refused_and_change_nothing(agent, tmp_path, contexts, rewards, arms, error, words):
    before = fingerprint(agent, tmp_path)
    with pytest.raises(error, match=words):
        agent.learn(contexts, rewards, arms=arms)
    assert fingerprint(agent, tmp_path) == before


@pytest.mark.parametrize(
    ("contexts", "arms", "error", "words"),
    [
        (np.empty((0, 4)), [], ShapeError, "no candidates; give at least one row"),
        ([], [], ShapeError, "no candidates; give at least one row"),
        (ROWS[0], [], ShapeError, "no candidates; give at least one row"),
        (None, None, ArmsError, "give `arms`"),
        (ROWS[:, :2], [0, 1, 2], ShapeError, "rows of 2 features"),
        (ROWS, None, ArmsError, "give `arms`"),
        (ROWS, ["x"] * 3, ArmsError, "is a name"),
        (ROWS, [0, 1], ShapeError, "2 arms for 3 rows"),
        ("text", [0], InputError, "cannot be read as numbers"),
        (np.full((2, 4), -np.inf), [0, 1], InputError, "infinite"),
        (
            Candidates(ROWS.astype("f4"), np.arange(3), Columns.numeric(4)),
            [0, 1, 2],
            ArmsError,
            "leave `arms`",
        ),
    ],
)
def test_bad_candidates_are_refused_and_change_nothing(agent, tmp_path, contexts, arms, error, words):
    before = fingerprint(agent, tmp_path)
    for method in (agent.choose, agent.estimate):
        with pytest.raises(error, match=words):
            method(contexts, arms=arms)
    assert fingerprint(agent, tmp_path) == before


@pytest.mark.parametrize(
    ("candidates", "words"),
    [
        (Candidates(ROWS, np.arange(3), Columns.numeric(4)), "expected float32"),
        (Candidates(ROWS.tolist(), np.arange(3), Columns.numeric(4)), "contexts are a list"),
        (
            Candidates(ROWS32, np.arange(3), Columns.numeric(1)),
            "contexts of 4 features, but columns are Columns",
        ),
        (Candidates(ROWS32, np.arange(3), None), "columns are None"),
        (
            Candidates(ROWS32, np.arange(3), Columns((0, 0, 5, 0))),
            "column 2 held numbers and now holds categories",
        ),
        (Candidates(ROWS32, np.arange(2), Columns.numeric(4)), "2 arms for 3 rows"),
        (Candidates(ROWS32, [0, 1, 2], Columns.numeric(4)), "give an array of whole numbers"),
        (Candidates(ROWS32, None, Columns.numeric(4)), "give `arms`"),
        (Candidates(ROWS32[:, :2], np.arange(3), Columns.numeric(2)), "rows of 2 features"),
    ],
)
def test_candidates_that_contradict_themselves_or_what_was_learned_are_refused(
    agent, tmp_path, candidates, words
):
    before = fingerprint(agent, tmp_path)
    for call in (agent.score, agent.choose, agent.estimate, lambda rows: agent.learn(rows, [1.0] * 3)):
        with pytest.raises(InputError, match=words):
            call(candidates)
    assert fingerprint(agent, tmp_path) == before


@pytest.mark.parametrize(
    ("contexts", "arm", "words"),
    [
        (np.full((1, 4), np.inf, np.float32), 0, "infinite"),
        (ROWS32[:1], -(2**63), "is beyond 16777216"),
        (ROWS32[:1], 2**24 + 1, "is beyond 16777216"),
    ],
)
def test_candidates_that_cannot_be_learned_are_refused(agent, contexts, arm, words):
    with pytest.raises(InputError, match=words):
        agent.learn(Candidates(contexts, np.array([arm]), Columns.numeric(4)), [1.0])


@pytest.mark.parametrize("code", [-1.0, 0.5, 2.0, 5.0, -0.5])
@pytest.mark.parametrize("make", [LinUCB, Bandit])
def test_codes_that_are_none_of_their_categories_are_not_learned(make, code):
    columns, agent = Columns((0, 2), ("x", "colour")), make(seed=0)
    rows = np.array([[7.5, 1.0], [-3.0, np.nan], [1.0, code]], np.float32)
    with pytest.raises(
        InputError, match=f"'colour' of 2 categories holds the code {code:g} in row 2; give whole"
    ):
        agent.learn(Candidates(rows, np.arange(3), columns), np.ones(3))
    agent.learn(Candidates(rows[:2], np.arange(2), columns), np.ones(2))


@pytest.mark.parametrize(
    "nothing",
    [
        [],
        np.empty((0, 3)),
        pd.DataFrame({"a": []}),
        pd.DataFrame({"a": np.empty(0), "b": pd.Series([], dtype="string")}),
        pl.DataFrame({"a": []}, schema={"a": pl.Float64}),
    ],
    ids=lambda given: f"{type(given).__module__} {type(given).__name__}",
)
@pytest.mark.parametrize("arms", [None, []])
def test_no_rows_are_learned_as_nothing(nothing, arms, tmp_path):
    agent, new = LinUCB(seed=0), LinUCB(seed=0)
    agent.learn(nothing, [], arms=arms)
    assert fingerprint(agent, tmp_path) == fingerprint(new, tmp_path)
    agent.learn({"other": 1.0}, 1.0, arms=["a"])
    assert agent.clock == 1


def test_score_takes_candidates_only(agent):
    with pytest.raises(InputError, match="score takes Candidates, not a ndarray; use choose"):
        agent.score(ROWS)


def test_an_oracle_without_a_feasible_choice_leaves_the_agent_as_it_was(agent, tmp_path):
    before = fingerprint(agent, tmp_path)
    no_way = ShortestPath(["a", "b", "x"], ["b", "c", "y"], "a", "y")
    with pytest.raises(NoFeasibleChoiceError):
        agent.choose(ROWS, arms=[0, 1, 2], oracle=no_way)
    assert fingerprint(agent, tmp_path) == before


def test_no_estimate_before_anything_was_learned():
    with pytest.raises(NotFittedError, match="learn rewards first"):
        TEUCB().estimate(ROWS)


def test_nothing_to_learn_changes_nothing(agent, tmp_path):
    before = fingerprint(agent, tmp_path)
    agent.learn(np.empty((0, 4)), [], arms=[])
    agent.learn([], [], arms=[])
    assert fingerprint(agent, tmp_path) == before


def test_saved_inputs_are_checked():
    inputs = Inputs().enter_to_learn([ONE, ONE], [1, 2], ["a", "b"])[2]
    state = inputs.state()
    again = Inputs.restored(state).enter([ONE], ["c"])[0]
    assert (again.contexts.tolist(), again.arms.tolist()) == ([[31.5, 0, 1]], [2])
    for wrong in (
        {"columns": [[0, -1, 2], ["age", "city", "member"]]},
        {"columns": [[0, 1, 2], ["age"]]},
        {"columns": [[0, 1], ["age", "city"]]},
        {"columns": [[0, 1, 2]]},
        {"columns": 3},
        {"labels": 3},
        {"decided": None},
        {"encoder": 3},
        {"form": "poems"},
        {"with_arms": 3},
        {"labels": ["a", "a"]},
        {"encoder": [{"name": "age", "categories": None}]},
        {"units": {**state["units"], "numbers": np.zeros(7)}},
    ):
        with pytest.raises(SavedFileError):
            Inputs.restored({**state, **wrong})


ATOMS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.complex_numbers()
    | st.text(max_size=3)
    | st.binary(max_size=3)
    | st.sampled_from(
        [
            object(),
            len,
            int,
            dt.date(2024, 1, 1),
            Fraction(1, 3),
            np.datetime64("NaT"),
            pd.NA,
            pd.NaT,
            10**400,
            -(2**63),
            np.ma.masked,
        ]
    )
)
HASHABLE = st.text(max_size=2) | st.integers(0, 3) | st.none()
THINGS = st.recursive(
    ATOMS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner, inner)
        | st.dictionaries(HASHABLE, inner, max_size=3)
        | st.sets(HASHABLE, max_size=3)
        | st.lists(inner, max_size=3).map(lambda values: np.array([*values, None], object)[:-1])
    ),
    max_leaves=8,
)


@settings(deadline=None, max_examples=150)
@given(THINGS, THINGS, THINGS, st.sets(st.sampled_from(["contexts", "arms", "rewards"]), min_size=1))
def test_nothing_but_own_errors_and_no_change_for_arbitrary_objects(contexts, arms, rewards, odd):
    agent = LinUCB(seed=0)
    agent.learn(ROWS, [1, 2, 3], arms=[0, 1, 2])
    query = agent.estimate(ROWS, arms=[0, 1, 2])
    contexts = contexts if "contexts" in odd else ROWS
    arms = arms if "arms" in odd else [0, 1, 2]
    rewards = rewards if "rewards" in odd else [1, 2, 3]
    for call in (
        lambda: agent.estimate(contexts, arms=arms),
        lambda: agent.choose(contexts, arms=arms),
        lambda: agent.learn(contexts, rewards, arms=arms),
    ):
        try:
            call()
        except TreebanditError:
            np.testing.assert_array_equal(agent.estimate(ROWS, arms=[0, 1, 2]).mean, query.mean)
        query = agent.estimate(ROWS, arms=[0, 1, 2])


@pytest.mark.parametrize("page", ["inputs", "agents/bandit-forest", "agents/tree-bootstrap", "agents/linear"])
def test_pages_that_teach_labels_run_as_printed(page):
    text = (Path(__file__).parents[2] / "docs" / f"{page}.md").read_text(encoding="utf-8")
    block = re.search(r"```python\n(.*?)```", text, re.DOTALL)[1]
    assert "agent.learn(decision, " in block or page == "inputs"  # and no row number is taught as a label
    exec(compile(block, page, "exec"), {})


def test_a_new_column_that_could_not_be_learned_is_refused_when_it_is_offered():
    inputs = Inputs(new_columns=True).enter_to_learn([{"x": 1.0}], [1.0], ["a"])[2]
    with pytest.raises(InputError, match="column 'y' is infinite in row 1, or too large for 32 bits"):
        inputs.enter([{"x": 1.0, "y": 2.0}, {"y": 1e39}], ["a", "b"])
    assert inputs.enter([{"x": 1.0, "y": 3e38}], ["a"])[0].contexts.tolist() == [[1.0]]


@pytest.mark.parametrize("span", [np.timedelta64(5, "ns"), np.timedelta64(5, "D")])
def test_spans_of_time_are_no_numbers(span):
    agent = LinUCB(seed=0)
    for contexts, reward, arm in (
        ({"wait": span}, 1.0, "a"),
        ([1.0], np.array([span], object), "a"),
        ([1.0], 1.0, span),
    ):
        with pytest.raises(InputError, match="timedelta64"):
            agent.learn(contexts, reward, arms=arm)


def test_what_an_agent_was_made_with_is_its_own(tmp_path):
    shop, options = {"age": "number"}, {"gamma": 0.0}
    agent, trees = LinUCB(columns=shop, seed=0), XGBoostTrees(options=options)
    shop["height"] = "number"
    options["objective"] = "binary:logistic"
    agent.learn({"age": 1.0}, 1.0, arms="a")
    agent.save(tmp_path / "agent.treebandit")
    assert dict(trees.options) == {"gamma": 0.0}
