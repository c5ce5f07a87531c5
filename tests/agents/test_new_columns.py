"""Declared columns, and columns that come while an agent learns: the same promises for every agent."""

from collections import deque
from dataclasses import replace
from decimal import Decimal
from types import MappingProxyType

import numpy as np
import pandas as pd
import polars as pl
import pytest
from every import EVERY
from taught import inputs_of

import treebandit
from treebandit import BanditForest, EpsilonGreedy, LinUCB, Uniform, registry
from treebandit.core import Candidates, Columns
from treebandit.errors import (
    InputError,
    NoEstimateError,
    NotFittedError,
    ParameterError,
    SavedFileError,
    ShapeError,
)

ARMS = ["x", "y"]
ALL = {**EVERY, "Uniform": lambda seed=0: Uniform(seed=seed)}
#: Agents whose estimates do not look at contexts; BanditForest fixes its variables with its first rows for good.
BLIND = {"UCB1", "UCB1-Tuned", "UCB1-Normal", "BanditForest", "Uniform"}
every = pytest.mark.parametrize("name", ALL)


def rows(n, random, *, late=True):
    """Rows with columns a and b, and most of them with c, which decides the reward, d and a list; and rewards."""
    made = []
    for place in range(n):
        row = {"a": float(random.normal()), "b": str(random.choice(["p", "q"]))}
        if late and place % 5 != 3:
            row["c"] = float(random.normal(50, 10))
            row["more"] = {"d": str(random.choice(["u", "v"])), "tags": [str(random.choice(["k", "l"]))]}
        made.append(row)
    rewards = [float(row.get("c", 50.0) > 50.0) + 0.1 * float(random.normal()) for row in made]
    return made, rewards


def state(agent, tmp_path):
    agent.save(tmp_path / "agent")
    return (tmp_path / "agent").read_bytes()


def believed(agent, contexts):
    """Means and variances of both arms; None where there is no estimate."""
    try:
        estimate = agent.estimate(contexts, ARMS)
    except (NotFittedError, NoEstimateError):
        return None
    return np.stack([estimate.mean, estimate.variance, estimate.count])


@every
def test_columns_may_be_added_at_any_time(name, tmp_path):
    random = np.random.default_rng(0)
    agent = replace(ALL[name](), new_columns=True)
    early, rewards = rows(60, random, late=False)
    labels = [ARMS[place % 2] for place in range(60)]
    agent.learn(early, rewards, arms=labels)
    old = {"a": 0.5, "b": "p"}
    # What no row learned has had, no model knows.
    np.testing.assert_array_equal(believed(agent, old), believed(agent, {**old, "c": 70.0}))
    late, rewards = rows(150, random)
    for row, reward in zip(late[:3], rewards[:3], strict=True):
        agent.choose(row, ARMS)
        agent.learn(row, reward, arms="x")
        believed(agent, row)
    agent.save(tmp_path / "twin")
    twin = treebandit.load(tmp_path / "twin")
    for each in (agent, twin):
        for row, reward in zip(late[3:9], rewards[3:9], strict=True):
            each.learn(row, reward, arms=ARMS[int(each.choose(row, ARMS)[0])])
        for start in range(9, 150, 47):
            stop = min(start + 47, 150)
            each.learn(late[start:stop], rewards[start:stop], arms=labels[: stop - start])
    np.testing.assert_array_equal(believed(agent, late[0]), believed(twin, late[0]))
    assert agent.choose(late[0], ARMS).tolist() == twin.choose(late[0], ARMS).tolist()
    np.testing.assert_array_equal(
        believed(agent, old), believed(agent, {**old, "c": None, "more": {"d": None}})
    )
    assert inputs_of(agent)["columns"][1][:4] == ["a", "b", "c", "more.d"]
    if hasattr(agent, "model") and hasattr(agent.model, "history"):
        kept = agent.model.history.contexts
        assert kept.shape[1] == len(inputs_of(agent)["columns"][1])
        if getattr(agent, "memory", "all") == "all":
            assert len(kept) == 210
            assert np.isnan(kept[:60, 2:]).all()


@pytest.mark.parametrize("name", [name for name in ALL if name not in BLIND])
def test_rewards_that_depend_on_a_new_column_are_learned(name):
    random = np.random.default_rng(0)
    agent = replace(ALL[name](), new_columns=True)
    if name.startswith("Neural"):
        agent = replace(agent, epochs=40)
    agent.learn(*rows(60, random, late=False), arms=ARMS * 30)
    for _ in range(3):
        agent.learn(*rows(50, random), arms=ARMS * 25)
    row = rows(1, random)[0][0]
    low, high = (believed(agent, {**row, "c": value})[0] for value in (35.0, 65.0))
    assert (high - low > 0.25).all()


@every
def test_decisions_bring_their_columns_when_they_are_learned(name, tmp_path):
    random = np.random.default_rng(0)
    agent = replace(ALL[name](), new_columns=True)
    agent.learn(*rows(60, random, late=False), arms=ARMS * 30)
    late = [{"a": 0.5, "late": 7.0}, {"b": "p", "tags": ["k"]}, {"a": 1.0, "later": {"c": "x"}}, {}]
    decisions = [agent.decide(row, ARMS, draws=5) for row in late]
    decisions += agent.decide_many(late, ARMS, draws=5)
    assert inputs_of(agent)["columns"][1] == ["a", "b"]
    agent.learn(decisions[1], 1.0)
    agent.learn(decisions[0], 1.0)
    agent.learn(decisions[2:], [0.0, 1.0, 0.5, 0.5, 1.0, 0.0])
    assert inputs_of(agent)["columns"][1] == ["a", "b", "tags=k", "late", "later.c"]
    whole = name != "TreeBootstrap"
    agent.save(tmp_path / "agent", history=not whole)
    again = treebandit.load(tmp_path / "agent")
    for row in [*late, {"new": 3}]:
        np.testing.assert_array_equal(believed(agent, row), believed(again, row))
        chances = [each.probabilities(row, ARMS, draws=5).tolist() for each in (agent, again)]
        assert chances[0] == chances[1]


@every
def test_one_row_of_any_kind_serves_all_arms_of_every_agent(name):
    agent = ALL[name]()
    row = {"a": 0.5, "b": 1.0}
    frame = pd.DataFrame([row])
    for contexts in (row, frame, pl.from_pandas(frame), frame.iloc[0], [row], [row, row]):
        agent.choose(contexts, ARMS)
        agent.learn([row, row], [0.0, 1.0], ARMS)
        believed(agent, contexts)
    agent = ALL[name]()
    for contexts in (np.array([0.5, 1.0]), [0.5, 1.0], np.array([[0.5, 1.0]])):
        agent.choose(contexts, ARMS)
        agent.learn(contexts, 1.0, ["x"])


@every
def test_declared_columns_let_the_first_row_be_missing(name, tmp_path):
    declared = {"a": "number", "b": ["p", "q"], "member": "flag"}
    nothing = dict.fromkeys(declared)
    agent = replace(ALL[name](), columns=declared)
    with pytest.raises(InputError, match="declared rows with named columns"):
        agent.choose([0.5, 1.0, 0.0], ARMS)
    with pytest.raises(InputError, match="'b' holds 'r', which is none of its declared categories"):
        agent.choose({**nothing, "b": "r"}, ARMS)
    for _ in range(3):
        for arm in ARMS:
            agent.choose(nothing, ARMS)
            agent.learn(nothing, 1.0, arms=arm)
    made, rewards = rows(60, np.random.default_rng(0), late=False)
    agent.learn([{**row, "member": None} for row in made], rewards, arms=ARMS * 30)
    before = state(agent, tmp_path)
    with pytest.raises(ShapeError, match="'c' is unexpected"):
        agent.learn({**nothing, "c": 3.0}, 1.0, arms="x")
    assert state(agent, tmp_path) == before
    twin = treebandit.load(tmp_path / "agent")
    assert twin.columns == declared
    assert (
        twin.choose({**nothing, "a": 1.0}, ARMS).tolist()
        == agent.choose({**nothing, "a": 1.0}, ARMS).tolist()
    )


@every
def test_keys_may_come_and_go(name):
    agent = replace(ALL[name](), new_columns=True)
    first = [{}, {"k1": 1}, {"b": "q", "c": [1, 2]}, {}]
    for row in first:
        agent.choose(row, ARMS)
    agent.learn([{}, {}], [1.0, 0.0], ARMS)
    random = np.random.default_rng(0)
    keys = random.integers(20, size=(16, 2)).tolist()
    for row in first + [{f"k{one}": float(one), f"t{two}": "uvw"[one % 3]} for one, two in keys]:
        arm = ARMS[int(agent.choose(row, ARMS)[0])]
        agent.learn(row, float(random.normal()), arms=arm)
    believed(agent, {"never": 1})


def test_keys_without_end_are_refused():
    agent = LinUCB(new_columns=True, seed=0)
    agent.learn({"a": 1.0, "b": "p"}, 1.0, arms="x")
    before = inputs_of(agent)
    for method in (
        lambda row: agent.choose(row, ARMS),
        lambda row: agent.learn(row, 1.0, arms="x"),
        lambda row: agent.decide(row, ARMS),
    ):
        with pytest.raises(InputError, match=r"4,097 columns.*at most 4,096"):
            method({f"visitor {n}": 1.0 for n in range(4095)})
    assert inputs_of(agent) == before
    agent.learn({f"visitor {n}": 1.0 for n in range(4)}, 1.0, arms="x")


def test_agents_that_take_new_columns_keep_all_contracts():
    treebandit.check_agent(LinUCB(new_columns=True))


def test_the_order_of_keys_does_not_count(tmp_path):
    made, rewards = rows(40, np.random.default_rng(0))
    files = []
    for order in (list, lambda row: list(row)[::-1]):
        agent = LinUCB(seed=0, new_columns=True)
        for row, reward in zip(made, rewards, strict=True):
            agent.learn({key: row[key] for key in order(row)}, reward, arms="x")
        files.append(state(agent, tmp_path))
    assert files[0] == files[1]


def test_a_wrong_type_changes_nothing(tmp_path):
    agent = LinUCB(seed=0, new_columns=True)
    agent.learn({"a": 1.0, "more": {"d": "u"}}, 1.0, arms="x")
    before = state(agent, tmp_path)
    for row, words in (
        ({"a": "x", "new": 3}, "'a' holds text where numbers belong"),
        ({"more": {"d": 3}}, "'more.d' holds numbers"),
        ({"more": 3}, "'more' held an object and now holds 3"),
        ({"a": {"b": 1}}, "'a' held single values and now holds an object"),
    ):
        with pytest.raises(InputError, match=words):
            agent.learn(row, 1.0, arms="x")
        with pytest.raises(InputError, match=words):
            agent.choose(row, ARMS)
    assert state(agent, tmp_path) == before


def test_arguments_are_plain_values_and_are_checked(tmp_path):
    declared = {"class": "number", "$b": ["x", "y"]}
    agent = LinUCB(seed=0, columns=declared, new_columns=True)
    assert registry.build(registry.describe(agent)).columns == declared
    agent.save(tmp_path / "agent")
    assert treebandit.load(tmp_path / "agent").columns == declared
    with pytest.raises(ParameterError, match="declares 'a' as 'nummer'"):
        LinUCB(columns={"a": "nummer"})
    with pytest.raises(ParameterError, match="new_columns"):
        LinUCB(new_columns="yes")
    with pytest.raises(ParameterError, match="declare them on EpsilonGreedy"):
        EpsilonGreedy(LinUCB(columns=declared))
    with pytest.raises(treebandit.errors.DescriptionError, match="columns is 3"):
        registry.build({"class": "LinUCB", "columns": 3})


@pytest.mark.parametrize(
    ("kind", "plain"),
    [
        (range(3), [0, 1, 2]),
        (deque(["x", "y"]), ["x", "y"]),
        ((Decimal("1"), Decimal("2.5")), [1, 2.5]),
        (list(np.arange(2)), [0, 1]),
    ],
)
def test_an_agent_whose_categories_were_declared_by_any_sequence_can_be_saved(tmp_path, kind, plain):
    declared = MappingProxyType({"a": kind, "b": "number"})
    agent = LinUCB(seed=0, columns=declared)
    agent.learn({"a": plain[1], "b": 3}, 1.0, arms="x")
    agent.save(tmp_path / "agent")
    again = treebandit.load(tmp_path / "agent")
    assert agent.columns == again.columns == {"a": plain, "b": "number"}
    assert repr(again) == repr(agent)


def test_a_file_whose_columns_are_not_those_declared_is_refused():
    agent = LinUCB(seed=0, columns={"a": "number"})
    with pytest.raises(SavedFileError, match="the columns that the agent declares"):
        LinUCB(seed=0, columns={"b": "number"})._resume(agent._whole_state())


def test_candidates_may_grow_only_where_columns_may_be_added():
    narrow, wide = (
        Candidates(np.zeros((1, d), np.float32), np.zeros(1, np.intp), Columns.numeric(d)) for d in (2, 3)
    )
    agent, closed = LinUCB(seed=0, new_columns=True), LinUCB(seed=0)
    for each in (agent, closed):
        each.learn(narrow, [1.0])
    agent.learn(wide, [1.0])
    agent.learn(narrow, [1.0])
    agent.score(narrow)
    with pytest.raises(ShapeError, match="rows of 3 features"):
        closed.learn(wide, [1.0])
    named = LinUCB(seed=0, new_columns=True)
    named.learn({"a": 1.0, "b": 2.0}, 1.0, arms=0)
    with pytest.raises(ShapeError, match="rows of 3 features"):
        named.learn(wide, [1.0])


def test_late_columns_of_large_numbers_keep_their_digits():
    agent = LinUCB(seed=0, new_columns=True)
    random = np.random.default_rng(0)
    agent.learn(
        [{"a": float(value)} for value in random.normal(size=80)], random.normal(size=80), arms=["x"] * 80
    )
    seconds = random.uniform(0, 60, 300)
    for second in seconds:
        agent.learn({"a": 0.0, "time": 1.7e9 + float(second)}, float(second > 30), arms="x")
    low, high = agent.estimate([{"time": 1.7e9 + 5}, {"time": 1.7e9 + 55}], ["x", "x"]).mean
    assert high - low > 0.4


def test_columns_that_come_before_the_variables_are_fixed_reach_bandit_forest():
    agent = BanditForest(n_trees=5, bin_rows=100, seed=0, new_columns=True)
    random = np.random.default_rng(0)
    agent.learn(*rows(60, random, late=False), arms=ARMS * 30)
    agent.learn(*rows(60, random), arms=ARMS * 30)
    assert 2 in agent._variables.state()["columns"]
