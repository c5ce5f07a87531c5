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
from hypothesis import given, settings
from hypothesis import strategies as st
from playing import make_agent, play

from treebandit import (
    TETS,
    TEUCB,
    UCB1,
    Bandit,
    BanditForest,
    EpsilonGreedy,
    HistogramForest,
    LinTS,
    LinUCB,
    NeuralUCB,
    RandomForestTrees,
    ShortestPath,
    TreeBootstrap,
    Uniform,
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

ROWS = np.random.default_rng(0).normal(size=(3, 4))


def fingerprint(agent, tmp_path):
    agent.save(tmp_path / "agent")
    return (tmp_path / "agent").read_bytes()


@pytest.fixture
def agent():
    agent = make_agent()
    play(agent, 30)
    return agent


@pytest.mark.parametrize(
    ("contexts", "rewards", "arms", "error", "words"),
    [
        (ROWS[0], np.nan, [0], InputError, "reward of row 0 is nan; give a finite number"),
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


ROWS32 = ROWS.astype(np.float32)


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


def test_score_takes_candidates_only(agent):
    with pytest.raises(InputError, match="score takes Candidates, not a ndarray; use choose"):
        agent.score(ROWS)


def test_arms_come_always_or_never():
    agent = make_agent(random_start="rounds")
    agent.learn(ROWS, [1, 2, 3])
    with pytest.raises(ArmsError, match="given rows without arms; leave `arms` out"):
        agent.learn(ROWS, [1, 2, 3], arms=[0, 1, 2])


@pytest.mark.parametrize("kind", [LinUCB, TreeBootstrap, UCB1])
def test_learning_without_arms_after_choosing_with_them_is_refused_at_once(kind):
    agent = kind(seed=0)
    row = agent.choose(ROWS[0], arms=["a", "b"])
    with pytest.raises(ArmsError, match="given rows with arms; give `arms`"):
        agent.learn(ROWS[0], 1.0)
    agent.learn(ROWS[0], 1.0, arms=[["a", "b"][row[0]]])
    other = LinUCB(seed=0)
    other.choose(ROWS)
    with pytest.raises(ArmsError, match="without arms; leave `arms` out"):
        other.learn(ROWS[0], 1.0, arms=[0])


def test_labels_that_were_never_offered_are_refused_once_the_agent_has_decided(tmp_path):
    for labels in ([10, 20, 30], ["a", "b", "c"]):
        agent = LinUCB(seed=0)
        agent.learn(ROWS[0], 1.0, arms=labels[0])  # a warm start
        agent.choose(ROWS[0], arms=labels[1:])
        before = fingerprint(agent, tmp_path)
        wrong = 1 if labels[0] == 10 else "d"
        with pytest.raises(
            ArmsError, match=f"arm {wrong!r} was neither offered nor learned before; give the label"
        ):
            agent.learn(ROWS[0], 1.0, arms=wrong)
        assert fingerprint(agent, tmp_path) == before
        agent.learn(ROWS, [1.0, 2.0, 3.0], arms=labels)
        agent.learn(ROWS[0], 1.0, arms=wrong, new_arms=True)
        agent.learn(ROWS[0], 1.0, arms=wrong)


def test_arms_of_candidates_are_taken_as_they_are():
    agent = LinUCB(seed=0)
    rows = Candidates(ROWS32, np.array([7, 8, 9]), Columns.numeric(4))
    agent.score(rows)
    agent.learn(rows[[1]], [1.0])
    agent.learn(ROWS[0], 1.0, arms=[9])
    other = LinUCB(seed=0)
    other.score(rows)
    with pytest.raises(ArmsError, match="arms have names, but this agent was given Candidates"):
        other.learn(ROWS[0], 1.0, arms=["nine"])


def test_an_oracle_without_a_feasible_choice_leaves_the_agent_as_it_was(agent, tmp_path):
    before = fingerprint(agent, tmp_path)
    no_way = ShortestPath(["a", "b", "x"], ["b", "c", "y"], "a", "y")
    with pytest.raises(NoFeasibleChoiceError):
        agent.choose(ROWS, arms=[0, 1, 2], oracle=no_way)
    assert fingerprint(agent, tmp_path) == before


def test_no_estimate_before_anything_was_learned():
    with pytest.raises(NotFittedError, match="learn more"):
        TEUCB().estimate(ROWS)


def test_nothing_to_learn_changes_nothing(agent, tmp_path):
    before = fingerprint(agent, tmp_path)
    agent.learn(np.empty((0, 4)), [], arms=[])
    agent.learn([], [], arms=[])
    assert fingerprint(agent, tmp_path) == before


def test_missing_numbers_are_welcome():
    agent = make_agent()
    random = np.random.default_rng(0)
    for _ in range(60):
        x = np.where(random.random(4) < 0.3, np.nan, random.normal(size=4))
        agent.learn(x, random.normal(), arms=agent.choose(x, arms=[0, 1]))
    assert np.isfinite(agent.estimate(np.full((1, 4), np.nan), arms=[0]).mean).all()


@pytest.mark.parametrize("library", [pd, pl])
@pytest.mark.parametrize("categories", ["codes", "one_hot"])
def test_frames_with_categories_missing_values_and_news(library, categories):
    random = np.random.default_rng(0)
    colours = ["red", "green", None, "blue"]

    def frame(n, palette):
        return library.DataFrame(
            {
                "size": random.normal(size=n),
                "colour": [palette[i] for i in random.integers(0, len(palette), n)],
                "new": random.random(n) < 0.5,
            }
        )

    agent = make_agent(categories=categories, random_start="rounds")
    for t in range(80):
        offers = frame(5, colours if t < 60 else [*colours, f"colour {t}"])
        rows = agent.choose(offers)
        chosen = offers.iloc[rows] if library is pd else offers[rows]
        reward = [float(colour == "red") for colour in chosen["colour"]]
        agent.learn(chosen, reward)
    test = library.DataFrame({"size": [0.0, 0.0], "colour": ["red", "green"], "new": [True, True]})
    red, green = agent.estimate(test).mean
    assert red > green + 0.3
    with pytest.raises(InputError, match="size"):
        agent.choose(library.DataFrame({"size": ["big"], "colour": ["red"], "new": [True]}))


def test_the_same_frame_in_pandas_and_polars_gives_the_same_choices():
    choices = []
    for library in (pd, pl):
        random = np.random.default_rng(0)
        agent = make_agent(random_start="rounds")
        for _ in range(40):
            size, kind = random.normal(size=3), [("a", "b")[i] for i in random.integers(0, 2, 3)]
            offers = library.DataFrame({"size": size, "kind": kind})
            rows = agent.choose(offers)
            agent.learn(offers.iloc[rows] if library is pd else offers[rows], size[rows])
            choices.append(rows[0])
    assert choices[:40] == choices[40:]


NAMES = list("abcdefghij")


@pytest.mark.parametrize("names", [NAMES, list(range(10)), np.array(NAMES), pd.Series(NAMES)])
def test_arms_offered_before_the_first_reward_have_codes_of_their_own(names):
    inputs = Inputs()
    candidates, after = inputs.enter(ROWS[0], names)
    assert candidates.arms.tolist() == list(range(10))
    again, same = after.enter(ROWS[0], names[::-1])
    assert again.arms.tolist() == list(range(10))[::-1]
    assert same is after


def test_unseen_names_have_codes_of_their_own_and_are_forgotten():
    _, after = Inputs().enter(ROWS[0], ["a", "b"])
    assert after.enter(ROWS[0], ["b", "new", "newer", "new"])[0].arms.tolist() == [1, 2, 3, 2]
    assert after.enter(ROWS[0], ["newer", "a"])[0].arms.tolist() == [2, 0]


@pytest.mark.parametrize(
    "make",
    [
        lambda: TEUCB(RandomForestTrees(n_trees=5), random_rounds=2, seed=0),
        lambda: TETS(RandomForestTrees(n_trees=5), random_rounds=2, random_start="in_turn", seed=0),
        lambda: TreeBootstrap(random_rounds=2, seed=0),
        lambda: Bandit(seed=0),
    ],
)
def test_names_and_numbers_are_played_alike(make):
    played = []
    for names in (list(range(5)), list("abcde")):
        agent, random = make(), np.random.default_rng(1)
        rows = []
        for _ in range(12):
            x = random.normal(size=3)
            rows.append(int(agent.choose(x, arms=names)[0]))
            agent.learn(x, float(rows[-1] == 2), arms=[names[rows[-1]]])
        played.append((rows, agent.start_rounds))
    assert played[0] == played[1]
    assert played[0][1] == 10


def test_estimates_and_failed_choices_register_no_names(tmp_path):
    agent = LinUCB(seed=0)
    agent.learn(ROWS[0], 1.0, arms="a")
    before = fingerprint(agent, tmp_path)
    agent.estimate(ROWS, arms=["a", "b", "c"])
    with pytest.raises(NoFeasibleChoiceError):
        agent.choose(
            ROWS, arms=["a", "b", "c"], oracle=ShortestPath(["a", "b", "x"], ["b", "c", "y"], "a", "y")
        )
    assert fingerprint(agent, tmp_path) == before


def test_an_agent_of_arrays_refuses_text_frames_and_one_of_frames_refuses_arrays():
    colours = pd.DataFrame({"a": ["red", "blue"], "b": [0.0, 0.0]})
    agent = LinUCB(seed=0)
    agent.learn(ROWS[:2, :2], [1.0, 0.0])
    for frame in (colours, pl.DataFrame({"a": [1.0], "b": [2.0]}), {"a": 1.0, "b": 2.0}):
        with pytest.raises(
            InputError, match="learned rows with arrays, whose columns have no names; give an array"
        ):
            agent.estimate(frame)
    agent = LinUCB(seed=0)
    agent.learn(colours, [1.0, 0.0])
    for rows in (np.zeros((2, 2)), [[0.0, 0.0]], np.zeros(2)):
        with pytest.raises(InputError, match="learned rows with named columns; give a frame or dicts"):
            agent.estimate(rows)
    agent = LinUCB(seed=0)
    agent.learn(Candidates(ROWS32[:, :2], None, Columns((3, 0))), [1.0, 0.0, 0.0])
    with pytest.raises(InputError, match="learned Candidates"):
        agent.estimate(colours)


ONE = {"age": 31.5, "city": "Rome", "member": True}
SHARED = [
    ONE,
    dict(reversed(ONE.items())),
    [ONE],
    [ONE] * 3,
    pd.Series(ONE),
    pd.DataFrame([ONE]),
    pl.DataFrame([ONE]),
    pl.DataFrame([ONE] * 3),
]


@pytest.mark.parametrize("row", SHARED, ids=lambda row: type(row).__name__)
def test_one_row_of_any_kind_serves_all_arms(row):
    expected = [[31.5, 0, 1]] * 3
    if not isinstance(row, dict) or list(row) == list(ONE):
        assert Inputs().enter(row, ["a", "b", "c"])[0].contexts.tolist() == expected
    _, _, inputs = Inputs().enter_to_learn(ONE, 1.0, "a")
    assert inputs.enter(row, ["a", "b", "c"])[0].contexts.tolist() == expected
    learned, _, _ = inputs.enter_to_learn(row, [1.0, 2.0, 3.0], ["a", "b", "c"])
    assert learned.contexts.tolist() == expected
    assert learned.columns == Columns((0, 1, 2), ("age", "city", "member"))


def test_one_row_of_an_array_serves_all_arms():
    for row in (ROWS[0], ROWS[:1], ROWS[0].tolist(), pd.Series(ROWS[0]), pl.Series(ROWS[0])):
        candidates = Inputs().enter(row, [5, 6])[0]
        np.testing.assert_array_equal(candidates.contexts, ROWS[[0, 0]].astype(np.float32))
        assert Inputs().enter_to_learn(row, 1.0, 5)[0].contexts.shape == (1, 4)
    for row in (ROWS[0], ONE, pd.Series(ONE)):
        with pytest.raises(ShapeError, match="and no arms; give `arms` to choose from"):
            Inputs().enter(row)


def test_a_series_of_a_frame_without_names_is_a_row_of_it():
    frame = pd.DataFrame(ROWS)
    inputs = Inputs().enter_to_learn(frame, [1, 2, 3], [0, 1, 2])[2]
    np.testing.assert_array_equal(inputs.enter(frame.iloc[1], [0])[0].contexts, ROWS32[[1]])


AGENTS = [
    lambda: Bandit(seed=0),
    lambda: TEUCB(XGBoostTrees(n_trees=5), random_rounds=2, seed=0),
    lambda: TETS(RandomForestTrees(n_trees=5), random_rounds=2, seed=0),
    lambda: TETS(HistogramForest(n_trees=5), arm_encoding="one_hot", random_rounds=2, seed=0),
    lambda: TreeBootstrap(random_rounds=2, seed=0),
    lambda: TreeBootstrap(HistogramForest(n_trees=5), mode="replicates", random_rounds=2, seed=0),
    lambda: LinUCB(seed=0),
    lambda: LinTS(shared=True, seed=0),
    lambda: NeuralUCB(hidden=(5,), epochs=1, seed=0),
    lambda: BanditForest(n_trees=5, bin_rows=20, seed=0),
    lambda: UCB1(seed=0),
    lambda: EpsilonGreedy(seed=0),
    lambda: Uniform(seed=0),
]


@pytest.mark.parametrize("make", AGENTS)
def test_a_bandit_without_contexts(make, tmp_path):
    agent, random, arms = make(), np.random.default_rng(0), ["a", "b", "c"]
    for _ in range(40):
        arm = arms[agent.choose(None, arms=arms)[0]]
        agent.learn(None, random.normal() + (arm == "b"), arms=arm)
    agent.learn(None, [0.0, 1.0, 0.0], arms=arms)
    agent.save(tmp_path / "agent")
    agent = type(agent).load(tmp_path / "agent")
    if not isinstance(agent, Uniform):
        assert agent.estimate(None, arms=arms).mean.shape == (3,)
    with pytest.raises(InputError, match="learned rows with no contexts; give None"):
        agent.choose(ROWS, arms=arms)
    with pytest.raises(InputError, match="neither contexts nor arms"):
        make().choose(None)


@pytest.mark.parametrize(("scale", "shift"), [(1, 1e6), (1, 1.7e9), (3600, 1.7e9), (1e30, 0), (1e-12, 0)])
@pytest.mark.parametrize("named", [False, True])
def test_agents_see_the_digits_of_large_numbers(scale, shift, named):
    agent, random = LinUCB(seed=0), np.random.default_rng(0)
    plain, right = LinUCB(seed=0), []
    for _ in range(150):
        x = random.uniform(-1, 1, size=2)
        row = scale * x + shift
        row = {"a": row[0], "b": row[1]} if named else row
        choice, expected = agent.choose(row, arms=[0, 1])[0], plain.choose(x, arms=[0, 1])[0]
        right.append((x[0] > 0) == choice)
        agent.learn(row, float(right[-1]), arms=choice)
        plain.learn(x, float((x[0] > 0) == expected), arms=expected)
    assert np.mean(right[75:]) > 0.9
    frame = pd.DataFrame({"a": [shift + scale * 0.5, shift - scale * 0.5], "b": shift})
    test = frame if named else frame.to_numpy()
    np.testing.assert_allclose(
        agent.estimate(test, arms=[1, 1]).mean,
        plain.estimate([[0.5, 0], [-0.5, 0]], arms=[1, 1]).mean,
        atol=0.1,
    )


def test_frames_dicts_and_arrays_of_large_numbers_agree():
    values = 1.7e9 + np.random.default_rng(0).uniform(-1, 1, (20, 3))
    frame = pd.DataFrame(values, columns=["a", "b", "c"])
    forms = [values, frame, pl.from_pandas(frame), frame.to_dict("records")]
    features = []
    for rows in forms:
        inputs = Inputs().enter_to_learn(rows[:1], [1.0])[2]
        features.append(inputs.enter(rows)[0].contexts)
        features.append(Inputs().enter(rows)[0].contexts)
    for other in features[1:]:
        np.testing.assert_array_equal(features[0], other)


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
