"""What may be given to an agent, and what each mistake is answered with; a mistake leaves the agent as it was."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from playing import make_agent, play

from treebandit import TEUCB, ShortestPath
from treebandit.core import Candidates, Columns
from treebandit.errors import ArmsError, InputError, NoFeasibleChoiceError, NotFittedError, ShapeError

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
        (ROWS[:2], [1.0, np.inf], [0, 1], InputError, "reward of row 1 is inf"),
        (ROWS[:2], [1.0, 1e300], [0, 1], InputError, "reward of row 1 is 1e"),
        (ROWS[:2], [1, 2, 3], [0, 1], ShapeError, "3 rewards for 2 chosen rows; send one reward per row"),
        (ROWS[:2], [[1, 2]], [0, 1], ShapeError, "rewards of shape"),
        (ROWS[:2], ["good", "bad"], [0, 1], InputError, "rewards cannot be read as numbers"),
        (
            ROWS[:2, :3],
            [1, 2],
            [0, 1],
            ShapeError,
            "rows of 3 features, but this agent has learned rows of 4",
        ),
        ([["a", "b", "c", "d"]], [1], [0], InputError, "contexts cannot be read as numbers"),
        (np.full((1, 4), np.inf), [1], [0], InputError, "column 0 is infinite in row 0"),
        (np.full((1, 4), 1e300), [1], [0], InputError, "too large for 32 bits"),
        (ROWS[None], [1], [0], ShapeError, "contexts of shape"),
        (ROWS[:2], [1, 2], None, ArmsError, "learned rows with arms; give `arms`"),
        (ROWS[:2], [1, 2], [0], ShapeError, "1 arms for 2 rows"),
        (ROWS[:2], [1, 2], [0.5, 1.0], ArmsError, "whole numbers or strings"),
        (ROWS[:2], [1, 2], ["a", "b"], ArmsError, "is a name, but this agent has learned arms with numbers"),
        (ROWS[:1], [1], [1 << 30], ArmsError, "number arms from 0"),
        (ROWS[:2], [1, 2], [[0, 1]], ShapeError, "one label per row"),
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
        (ROWS[:, :2], [0, 1, 2], ShapeError, "rows of 2 features"),
        (ROWS, None, ArmsError, "give `arms`"),
        (ROWS[0], None, ShapeError, "one row of 4 features and no arms"),
        (ROWS, ["x"] * 3, ArmsError, "is a name"),
        ("text", [0], InputError, "cannot be read as numbers"),
        (np.full((2, 4), -np.inf), [0, 1], InputError, "infinite"),
    ],
)
def test_bad_candidates_are_refused_and_change_nothing(agent, tmp_path, contexts, arms, error, words):
    before = fingerprint(agent, tmp_path)
    for method in (agent.choose, agent.estimate):
        with pytest.raises(error, match=words):
            method(contexts, arms=arms)
    assert fingerprint(agent, tmp_path) == before


def test_candidates_of_another_kind_are_refused(agent):
    with pytest.raises(ShapeError, match="expected float32"):
        agent.score(Candidates(ROWS, np.arange(3), Columns.numeric(4)))
    with pytest.raises(InputError, match="infinite"):
        agent.learn(
            Candidates(np.full((1, 4), np.inf, np.float32), np.zeros(1, int), Columns.numeric(4)), [1.0]
        )


def test_arms_cannot_come_later():
    agent = make_agent(random_start="rounds")
    agent.learn(ROWS, [1, 2, 3])
    with pytest.raises(ArmsError, match="learned rows without arms; leave `arms` out"):
        agent.learn(ROWS, [1, 2, 3], arms=[0, 1, 2])


def test_an_oracle_without_a_feasible_choice_leaves_the_agent_as_it_was(agent, tmp_path):
    before = fingerprint(agent, tmp_path)
    no_way = ShortestPath(["a", "b", "x"], ["b", "c", "y"], "a", "y")
    with pytest.raises(NoFeasibleChoiceError):
        agent.choose(ROWS, arms=[0, 1, 2], oracle=no_way)
    assert fingerprint(agent, tmp_path) == before


def test_no_estimate_before_anything_was_learned():
    with pytest.raises(NotFittedError, match="learn more rows"):
        TEUCB().estimate(ROWS)


def test_nothing_to_learn_changes_nothing(agent, tmp_path):
    before = fingerprint(agent, tmp_path)
    agent.learn(np.empty((0, 4)), [], arms=[])
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
