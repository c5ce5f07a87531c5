import hashlib
import random
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treebandit.datasets.roads import roads_folder
from treebandit.errors import StudyError
from treebandit.experiments.spec import RunSpec, load_study, read_study, shipped_studies

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
    assert RunSpec.from_dict(one.to_dict()) == one
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
    floats = study(agents=[agent], seeds=1, vary={"parameter": "agent.inner.size", "values": [2.0, 0.1]})
    assert [run.plan_row()["value"] for run in floats.runs()] == ["2", "0.1"]
    assert next(floats.runs()).agent["inner"]["size"] == 2.0


def test_agents_of_another_study_come_first_and_share_its_runs(tmp_path):
    (tmp_path / "own.toml").write_text('agents = ["toys:Means"]\nenvironments = ["magic"]\nseeds = 2')
    more = 'agents_of = "own.toml"\nagents = ["Uniform"]\nenvironments = ["magic"]\nseeds = 2'
    (tmp_path / "more.toml").write_text(more)
    own, both = load_study(tmp_path / "own.toml"), load_study(tmp_path / "more.toml")
    assert [agent["name"] for agent in both.agents] == ["toys:Means", "Uniform"]
    assert {run.run_id for run in own.runs()} < {run.run_id for run in both.runs()}
    (tmp_path / "more.toml").write_text(more.replace('"own.toml"', "3"))
    with pytest.raises(StudyError, match="agents_of is 3; give a study's name or file"):
        load_study(tmp_path / "more.toml")


def test_a_file_counts_by_name_and_content_not_by_folder(tmp_path):
    runs = []
    for folder, content in (("a", "x,y\n1,a\n"), ("b", "x,y\n1,a\n"), ("c", "x,y\n2,a\n")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "my.csv").write_text(content)
        (tmp_path / folder / "s.toml").write_text(
            'environment = {csv = "my.csv", label = "y"}\nagents = ["toys:Means"]\nseeds = 1'
        )
        runs += load_study(tmp_path / folder / "s.toml").runs()
    assert runs[0].environment["name"] == "my"
    assert runs[0].environment["csv"] == str(tmp_path / "a" / "my.csv")
    assert runs[0].run_id == runs[1].run_id != runs[2].run_id


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"sedes": 3}, "s.toml: unknown key 'sedes'; allowed are agent, agents, agents_of, environment"),
        ({"agents": []}, "no agent"),
        ({"agents": [{}]}, "give a table with name and class"),
        ({"agents": "A"}, "agents is 'A'; give a list"),
        ({"agents": [AGENT, AGENT]}, "'A' is used 2 times"),
        ({"agents": [{**AGENT, "seed": 1}]}, "seeds belong to the study"),
        ({"environments": [3]}, "environment 3"),
        ({"environments": [{"csv": "nowhere.csv", "label": "y"}]}, "'nowhere.csv' is no file"),
        ({"seeds": 0}, "seeds is 0"),
        ({"seeds": [1, "x"]}, "seeds is"),
        ({"rounds": -1}, "rounds is -1"),
        ({"environments": [{"name": "adult", "rounds": 0}]}, "rounds of adult is 0"),
        ({"vary": {"parameter": "agent.x"}}, "vary.values is None"),
        ({"vary": {"parameter": "trees.x", "values": [1]}}, "vary.parameter is 'trees.x'"),
        ({"vary": {"parameter": "agent.x", "values": [1], "step": 2}}, "unknown key 'step'"),
        ({"vary": {"parameter": "agent.trees.x", "values": [1]}}, "'A' has no table agent.trees"),
    ],
)
def test_wrong_studies_are_told_by_file_and_key(table, message):
    with pytest.raises(StudyError, match=message):
        study(**table)


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(StudyError, match=r"no study 'quik'; give one of .*quick"):
        load_study("quik")
    with pytest.raises(StudyError, match="cannot be opened"):
        load_study(tmp_path / "none.toml")
    (tmp_path / "bad.toml").write_text("rounds = = 3")
    with pytest.raises(StudyError, match=r"bad.toml is not TOML.*line 1"):
        load_study(tmp_path / "bad.toml")


def test_shipped_studies_can_be_read():
    assert {"quick", "paper-uci"} <= set(shipped_studies())
    for name in shipped_studies():
        runs = list(load_study(name).runs())
        assert len({run.run_id for run in runs}) == len(runs) > 0


def test_runs_on_another_road_network_are_other_runs(tmp_path, monkeypatch):
    town, copy = roads_folder("small-town"), tmp_path / "roads"
    shutil.copytree(town, copy)
    run_ids = []
    for folder in (None, town, copy, None):
        if folder is None:
            monkeypatch.delenv("TREEBANDIT_ROADS", raising=False)
        else:
            monkeypatch.setenv("TREEBANDIT_ROADS", str(folder))
        run_ids.append(next(load_study("paper-navigation").runs()).run_id)
    without, here, there, again = run_ids
    assert here == there, "the same roads, wherever they lie"
    assert without == again != here
    with (copy / "edges.csv.gz").open("ab") as file:
        file.write(b"more")
    monkeypatch.setenv("TREEBANDIT_ROADS", str(copy))
    assert next(load_study("paper-navigation").runs()).run_id not in run_ids
