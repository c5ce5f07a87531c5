"""Rows of any form: frames, dicts, series, arrays, no contexts, and numbers of any size."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from features.given import ONE, ROWS, ROWS32
from playing import make_agent

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
    TreeBootstrap,
    Uniform,
    XGBoostTrees,
)
from treebandit.core import Candidates, Columns
from treebandit.errors import (
    InputError,
    ShapeError,
)
from treebandit.features.inputs import Inputs


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
    coded = np.column_stack((np.arange(3, dtype=np.float32), ROWS32[:, 0]))
    agent.learn(Candidates(coded, None, Columns((3, 0))), [1.0, 0.0, 0.0])
    with pytest.raises(InputError, match="learned Candidates"):
        agent.estimate(colours)


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


def _series(*rows):
    return [pd.Series(row) for row in rows]


def _taught_by_name():
    """An agent that was taught series: the reward is 'good', and 'bad' is noise."""
    values = np.random.default_rng(0).normal(size=(60, 2))
    rows = [{"good": good, "bad": bad} for good, bad in values.tolist()]
    agent = LinUCB(seed=0)
    agent.learn(_series(*rows), values[:, 0])
    return agent


def test_lists_of_series_are_read_by_name():
    agent = _taught_by_name()
    swapped = [{"bad": 5.0, "good": -1.0}, {"bad": -5.0, "good": 1.0}]
    for rows in (_series(*swapped), tuple(_series(*swapped)), swapped, [swapped[0], pd.Series(swapped[1])]):
        assert agent.estimate(rows).mean == pytest.approx([-1.0, 1.0], abs=0.1)
        assert agent.choose(rows).tolist() == [1]


def test_decisions_over_lists_of_series_are_learned_by_name():
    agent, twin = _taught_by_name(), _taught_by_name()
    swapped = [{"bad": 5.0, "good": -1.0}, {"bad": -5.0, "good": 1.0}]
    decisions = [agent.decide(rows, floor=0.0) for rows in (_series(*swapped), swapped)]
    agent.learn(decisions, [1.0, 1.0])
    twin.choose(swapped)
    twin.choose(swapped)
    twin.learn([swapped[one.row] for one in decisions], [1.0, 1.0])
    assert agent.estimate(swapped).mean.tolist() == twin.estimate(swapped).mean.tolist()


def test_many_decisions_over_series_are_made_by_name():
    agent = LinUCB(seed=0)
    rows = [{"x": 1.0, "y": 0.0}, {"x": 0.0, "y": 1.0}]
    agent.learn(rows, [1.0, 0.0], arms=["a", "b"])
    made = agent.decide_many(_series(rows[0], {"y": 1.0, "x": 0.0}), arms=["a", "b"])
    assert [one.candidates.contexts[0].tolist() for one in made] == [[1.0, 0.0], [0.0, 1.0]]


def test_series_without_names_are_read_by_position():
    agent = LinUCB(seed=0)
    agent.learn([pd.Series([1.0, 2.0]), pd.Series([3.0, 4.0])], [0.0, 1.0])
    assert agent.estimate([[1.0, 2.0]]).mean == agent.estimate([pd.Series([1.0, 2.0])]).mean


@pytest.mark.parametrize(
    "rows",
    [
        [np.ones(2), pd.Series({"b": 1.0, "a": 2.0})],
        [pd.Series({"b": 1.0, "a": 2.0}), [1.0, 2.0]],
        [{"a": 1.0, "b": 2.0}, [1.0, 2.0]],
        [pd.Series([1.0, 2.0]), pd.Series({"a": 1.0, "b": 2.0})],
    ],
)
def test_lists_in_which_only_some_rows_have_names_are_refused(rows):
    agent = LinUCB(seed=0)
    with pytest.raises(InputError, match=r"row \d of a list has named columns, and row \d, .* has none"):
        agent.learn(rows, [0.0, 1.0])
    agent.learn(ROWS, np.zeros(len(ROWS)))


def test_series_that_have_a_name_twice_are_refused():
    twice = pd.Series([1.0, 2.0], index=["a", "a"])
    for rows in (twice, [twice, twice]):
        with pytest.raises(ShapeError, match="each value its own name"):
            LinUCB(seed=0).learn(rows, [1.0] * (1 if rows is twice else 2))
