import hashlib
import pickle
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treebandit.errors import StudyError
from treebandit.experiments.spec import RunSpec
from treebandit.experiments.study_file import read_study

AGENT = {"name": "A", "class": "toys:Means", "noise": 0.1}


def study(**table):
    table = {"agents": [AGENT], "environments": ["mushroom"], "rounds": 10, "seeds": 2} | table
    return read_study(table, name="s", source="s.toml", folder=Path())


def shuffled(table):
    items = list(table.items())
    random.shuffle(items)
    return {key: shuffled(value) if isinstance(value, dict) else value for key, value in items}


values = st.one_of(st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text(), st.booleans())
tables = st.recursive(
    st.dictionaries(st.text(max_size=5), values, max_size=4),
    lambda inner: st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)


@given(tables, st.integers(0, 99))
def test_run_id_does_not_depend_on_the_order_of_keys_or_on_the_study(table, seed):
    environment = {"name": "e", "x": 1}
    one = RunSpec(table, environment, seed, 10, study="one")
    other = RunSpec(shuffled(table), shuffled(environment), seed, 10, study="two")
    assert one.run_id == other.run_id
    assert pickle.loads(pickle.dumps(one)) == one
    assert RunSpec(table, environment, seed + 1, 10).run_id != one.run_id
    assert RunSpec(table, environment, seed, 11).run_id != one.run_id
    assert RunSpec({**table, "extra": 0}, environment, seed, 10).run_id != one.run_id


def test_run_id_is_the_same_for_1_and_1_0_and_known_for_ever():
    one, other = (RunSpec({"name": "A", "nu": nu}, {"name": "e"}, 0, 10) for nu in (1, 1.0))
    text = '{"agent":{"name":"A","nu":1},"environment":{"name":"e"},"rounds":10,"seed":0}'
    assert one.run_id == other.run_id == hashlib.sha256(text.encode()).hexdigest()[:12]


def test_the_grid():
    runs = list(study(environments=["mushroom", "adult"], seeds=[3, 5]).runs())
    assert [(run.seed, run.environment["name"]) for run in runs] == [
        (3, "mushroom"),
        (3, "adult"),
        (5, "mushroom"),
        (5, "adult"),
    ]
    assert runs[0].environment == {"name": "mushroom", "class": "Classification", "data": "mushroom"}
    assert len({run.run_id for run in runs}) == 4
    assert {run.rounds for run in runs} == {10}


def test_an_environment_may_have_its_own_rounds():
    runs = list(study(environments=["adult", {"name": "magic", "rounds": 7}]).runs())
    assert {(run.environment["name"], run.rounds) for run in runs} == {("adult", 10), ("magic", 7)}
    assert all("rounds" not in run.environment for run in runs)
    assert {
        run.rounds for run in study(environments=[{"name": "magic", "rounds": 7}]).select(rounds=3).runs()
    } == {3}


def test_select():
    whole = study(agents=[AGENT, {"name": "B", "class": "toys:Means"}], environments=["adult", "magic"])
    part = whole.select(seeds=1, agents=("B",), environments=("magic",))
    assert [(run.agent["name"], run.environment["name"], run.seed) for run in part.runs()] == [
        ("B", "magic", 0)
    ]
    with pytest.raises(StudyError, match="no agent 'C'; it has A, B"):
        whole.select(agents=("C",))
    with pytest.raises(StudyError, match="no environment 'adutl'; did you mean 'adult'. it has adult, magic"):
        whole.select(environments=("adutl",))
    varied = study(vary={"parameter": "environment.rounds", "values": [3, 5]})
    with pytest.raises(StudyError, match="--rounds is 7, but s.toml varies environment.rounds; leave"):
        varied.select(rounds=7)


def test_a_varied_parameter_is_set_and_told():
    agent = {**AGENT, "inner": {"class": "toys:Part", "size": 1}}
    varied = study(agents=[agent], seeds=1, vary={"parameter": "agent.inner.size", "values": [2, 4]})
    runs = list(varied.runs())
    assert [run.agent["inner"]["size"] for run in runs] == [2, 4]
    assert [(run.varied, run.value) for run in runs] == [("agent.inner.size", 2), ("agent.inner.size", 4)]
    assert runs[0].plan_row()["value"] == "2"
    assert agent["inner"]["size"] == 1
    batches = study(seeds=1, vary={"parameter": "environment.batch", "values": [1, 100]})
    assert [run.environment["batch"] for run in batches.runs()] == [1, 100]
    floats = study(agents=[agent], seeds=1, vary={"parameter": "agent.noise", "values": [2.0, 0.1]})
    assert [run.plan_row()["value"] for run in floats.runs()] == ["2", "0.1"]
    assert next(floats.runs()).agent["noise"] == 2.0
