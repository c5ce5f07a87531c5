import datetime
import gzip
import pickle
import shutil
import sys
from pathlib import Path

import pytest

from treebandit.datasets.roads import roads_folder
from treebandit.errors import StudyError
from treebandit.experiments.run import play
from treebandit.experiments.study_file import load_study, read_study, shipped_studies

AGENT = {"name": "A", "class": "toys:Means", "noise": 0.1}
TREES = {"name": "T", "class": "TEUCB", "trees": {"class": "XGBoostTrees", "n_trees": 5}}
SYNTHETIC = {"name": "S", "class": "Synthetic"}


def study(**table):
    table = {"agents": [AGENT], "environments": ["mushroom"], "rounds": 10, "seeds": 2} | table
    return read_study(table, name="s", source="s.toml", folder=Path())


def nested(depth):
    return {"x": nested(depth - 1)} if depth else 1


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
    for folder, content in (("a", "x,y\n1,a\n2,b\n"), ("b", "x,y\n1,a\n2,b\n"), ("c", "x,y\n1,a\n3,b\n")):
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
        (
            {"sedes": 3},
            "s.toml: unknown key 'sedes'; did you mean 'seeds'. allowed are agent, agents, agents_of",
        ),
        ({"agents": []}, "no agent"),
        ({"agents": [{}]}, "give a table with name and class"),
        ({"agents": "A"}, "agents is 'A'; give a list"),
        ({"agents": [AGENT, AGENT]}, "'A' is used 2 times"),
        ({"agents": [{**AGENT, "seed": 1}]}, "seeds belong to the study"),
        ({"agents": [{**AGENT, "name": "a\nb"}]}, r"name of agent is 'a\\nb'; give one line"),
        ({"agents": [{**AGENT, "name": "x" * 300}]}, "give one line of at most 200 characters"),
        ({"agents": [{**AGENT, "name": 3}]}, "has no name"),
        ({"environments": [3]}, "environment 3"),
        ({"environments": [{"csv": "nowhere.csv", "label": "y"}]}, "'nowhere.csv' is no file"),
        ({"environments": [{"name": "n", "csv": "a\0b", "label": "y"}]}, "csv (is )?'a.x00b'"),
        ({"environments": [{"name": "n", "csv": "x" * 5000, "label": "y"}]}, "csv (is )?'xxx"),
        ({"environments": [{"csv": 3, "label": "y"}]}, "csv is 3; give the path of a file"),
        ({"seeds": 0}, "seeds is 0"),
        ({"seeds": True}, "seeds is True"),
        ({"seeds": 10**9}, "seeds is 1000000000; give how many there are, up to 100,000"),
        ({"seeds": [1, "x"]}, "seeds is"),
        ({"rounds": -1}, "rounds is -1"),
        ({"rounds": 2**31}, "rounds is 2147483648; give a whole number from 1 to 2,147,483,647"),
        ({"environments": [{"name": "adult", "rounds": 0}]}, "rounds of environment 'adult' is 0"),
        ({"title": 3}, "title is 3; give text"),
        (
            {
                "seeds": 90_000,
                "environments": [
                    *["adult", "magic", "mushroom"],
                    *[SYNTHETIC | {"name": f"{i}"} for i in range(9)],
                ],
            },
            "asks for 1,080,000 runs",
        ),
        # what no setting can be
        ({"agents": [{**AGENT, "noise": float("nan")}]}, r"agents\[0\].noise is nan; give a number"),
        (
            {"agents": [{**AGENT, "noise": 2**63}]},
            r"agents\[0\].noise is 9\d+; give a whole number of at most 64 bits",
        ),
        ({"agents": [{**AGENT, "noise": 1 << 20_000}]}, "noise is a very large int"),
        (
            {"agents": [{**AGENT, "noise": datetime.date(2020, 1, 2)}]},
            "noise is datetime.*give text, '2020-01-02'",
        ),
        ({"agents": [{**AGENT, "inner": nested(40)}]}, "inner.* is nested too deeply; nest at most 16"),
        # varied parameters
        ({"vary": 3}, "vary is 3; give a table with parameter and values"),
        ({"vary": {"parameter": "agent.x"}}, "vary.values is None"),
        ({"vary": {"parameter": "trees.x", "values": [1]}}, "vary.parameter is 'trees.x'"),
        ({"vary": {"parameter": "agent", "values": [1]}}, "vary.parameter is 'agent'; give a path"),
        ({"vary": {"parameter": "agent..x", "values": [1]}}, "vary.parameter is 'agent..x'"),
        ({"vary": {"parameter": "agent.noise", "values": [1], "step": 2}}, "unknown key 'step'"),
        ({"vary": {"parameter": "agent.trees.x", "values": [1]}}, "'A' has no table agent.trees"),
        ({"vary": {"parameter": "agent.seed", "values": [1, 2]}}, "cannot be varied; set seeds of the study"),
        (
            {"vary": {"parameter": "environment.seed", "values": [1]}},
            "cannot be varied; set seeds of the study",
        ),
        (
            {"vary": {"parameter": "agent.name", "values": ["B"]}},
            "cannot be varied; give one agent for each value",
        ),
        ({"vary": {"parameter": "environment.csv", "values": ["a"]}}, "give one environment for each value"),
        ({"vary": {"parameter": "agent.noise", "values": [1, 2, 1.0]}}, "vary.values has 1 2 times"),
        (
            {"vary": {"parameter": "environment.rounds", "values": [0]}},
            "rounds of environment 'mushroom' is 0",
        ),
        (
            {"agents": [TREES], "vary": {"parameter": "agent.exploration", "values": [1, -1]}},
            "exploration.*-1",
        ),
        # classes and their arguments
        ({"agents": [{**AGENT, "nois": 1}]}, "agent 'A': unknown key 'nois'"),
        (
            {"agents": [{**TREES, "exploration": "much"}]},
            "s.toml: agent 'T': exploration is 'much'; .*a number$",
        ),
        (
            {"agents": [{**TREES, "random_rounds": 2.5}]},
            "agent 'T': random_rounds is 2.5; .*a whole number$",
        ),
        (
            {"agents": [{**TREES, "random_start": "now"}]},
            "random_start.*'now'; .*per_arm, rounds, in_turn",
        ),
        (
            {"agents": [{**TREES, "trees": "XGBoostTrees"}]},
            "trees is 'XGBoostTrees'; .*names its class",
        ),
        (
            {"agents": [{**TREES, "trees": {"class": "XGBoostTrees", "max_depth": "x"}}]},
            "trees.*max_depth is 'x'; .*a whole number",
        ),
        (
            {"agents": [{**TREES, "trees": {"class": "XGBoostTrees", "n_trees": 0}}]},
            "agent 'T': .*n_trees.*0",
        ),
        ({"agents": [{**TREES, "rebuild": "sometimes"}]}, "agent 'T': .*'sometimes'"),
        (
            {"agents": [{"name": "B", "class": "toys:Picky", "mood": "bad"}]},
            r"agent 'B': class 'toys:Picky' cannot be made \(KeyError: 'bad'; toys.py, line \d+\)",
        ),
        ({"agents": ["XGBoostTrees"]}, "class is 'XGBoostTrees', which is no agent: it lacks score or learn"),
        ({"agents": [{"name": "B", "class": "sys:exit"}]}, "agent 'B': .*cannot be made"),
        ({"agents": [{"name": "B", "class": ":"}]}, "agent 'B': "),
        (
            {"environments": ["adutl"]},
            "environment 'adutl': no data set 'adutl'; did you mean 'adult'. there are adult",
        ),
        (
            {"environments": [{"name": "u", "class": "Uniform"}]},
            "which is no environment: it lacks observe or pull",
        ),
        (
            {"environments": [{**SYNTHETIC, "arms": "many"}]},
            "environment 'S': arms is 'many'; .*a whole number$",
        ),
        (
            {"environments": [{**SYNTHETIC, "problem": "hard"}]},
            "environment 'S': problem is 'hard'; give one of",
        ),
        ({"environments": [{"name": "adult", "flip_noise": 2}]}, "environment 'adult': flip_noise is 2"),
        ({"environments": [{"name": "adult", "batch": 0}]}, "environment 'adult': batch is 0"),
        (
            {
                "environments": [
                    {"name": "n", "class": "Navigation", "roads": "nowhere", "start": "a", "end": "b"}
                ]
            },
            "environment 'n': the road network 'nowhere' is not a folder",
        ),
    ],
)
def test_wrong_studies_are_told_in_one_line_by_file_and_key(table, message):
    with pytest.raises(StudyError, match=message) as caught:
        study(**table)
    assert str(caught.value).startswith("s.toml")
    assert "\n" not in str(caught.value)


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(StudyError, match=r"no study 'quik'; did you mean 'quick'\? give one of .*quick"):
        load_study("quik")
    with pytest.raises(StudyError, match="cannot be opened"):
        load_study(tmp_path / "none.toml")
    with pytest.raises(StudyError, match="cannot be opened"):
        load_study(tmp_path / f"{'x' * 300}.toml")
    bad = tmp_path / "bad.toml"
    for content, message in [
        (b"rounds = = 3", r"bad.toml is not TOML.*line 1"),
        (b"\xff", "bad.toml is not TOML"),
        (b"rounds = 1" + b"0" * 5000, "bad.toml is not TOML"),
        (b"rounds = " + b"[" * 5000 + b"]" * 5000, "nested too deeply"),
    ]:
        bad.write_bytes(content)
        with pytest.raises(StudyError, match=message):
            load_study(bad)


def test_agents_that_are_taken_in_a_circle(tmp_path):
    for one, other in (("a", "b"), ("b", "a")):
        (tmp_path / f"{one}.toml").write_text(f'agents_of = "{other}.toml"\nenvironments = ["magic"]')
    with pytest.raises(StudyError, match="agents_of is 'b.toml', which takes its agents from here"):
        load_study(tmp_path / "a.toml")


def test_agents_that_are_taken_in_a_circle_by_another_path(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "a.toml").write_text('agents_of = "sub/../a.toml"\nenvironments = ["magic"]')
    with pytest.raises(StudyError, match="which takes its agents from here"):
        load_study(tmp_path / "a.toml")


def test_a_class_beside_the_study_is_found(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "beside_the_study.py").write_text("from toys import Means\n\nclass Own(Means):\n    pass\n")
    (tmp_path / "s.toml").write_text(
        'agents = ["beside_the_study:Own"]\nenvironments = ["magic"]\nrounds = 9'
    )
    assert play(next(load_study(tmp_path / "s.toml").runs())).frame.height == 9


def test_the_plan_names_the_study_so_that_it_is_found_from_anywhere(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(tmp_path)
    Path("s.toml").write_text('title = "T"\nagents = ["Uniform"]\nenvironments = ["magic"]\nrounds = 9')
    row = next(load_study("s.toml").runs()).plan_row()
    assert (row["title"], row["source"]) == ("T", str(tmp_path / "s.toml"))
    assert next(load_study("quick").runs()).plan_row()["source"] == "quick"


def test_a_missing_library_is_left_to_the_runs_that_need_it(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "needs_much.py").write_text("import a_library_that_nobody_has\n")
    (tmp_path / "s.toml").write_text('agents = ["needs_much:Own", "Uniform"]\nenvironments = ["magic"]')
    assert len(load_study(tmp_path / "s.toml").agents) == 2


def test_shipped_studies_can_be_read():
    assert {"quick", "paper-uci"} <= set(shipped_studies())
    for name in shipped_studies():
        runs = list(load_study(name).runs())
        assert len({run.run_id for run in runs}) == len(runs) > 0


TOWN = """
rounds = 3
seeds = 1
agents = ["Uniform"]
environments = [{name = "town", class = "Navigation", start = "B2", end = "K3"ROADS}]
"""


def test_runs_on_another_road_network_are_other_runs(tmp_path, monkeypatch):
    town, copy, path = roads_folder("small-town"), tmp_path / "roads", tmp_path / "town.toml"
    shutil.copytree(town, copy)
    path.write_text(TOWN.replace("ROADS", ""))
    run_ids = []
    for folder in (None, town, copy, None):
        if folder is None:
            monkeypatch.delenv("TREEBANDIT_ROADS", raising=False)
        else:
            monkeypatch.setenv("TREEBANDIT_ROADS", str(folder))
        run_ids.append(next(load_study(path).runs()).run_id)
    without, here, there, again = run_ids
    assert here == there, "the same roads, wherever they lie"
    assert without == again != here
    with (copy / "edges.csv.gz").open("ab") as file:
        file.write(gzip.compress(b""))
    monkeypatch.setenv("TREEBANDIT_ROADS", str(copy))
    assert next(load_study(path).runs()).run_id not in run_ids


def test_the_road_network_travels_with_the_run(tmp_path, monkeypatch):
    monkeypatch.delenv("TREEBANDIT_ROADS", raising=False)
    (tmp_path / "town.toml").write_text(TOWN.replace("ROADS", ""))
    run = next(load_study(tmp_path / "town.toml", roads=roads_folder("small-town")).runs())
    sent = pickle.loads(pickle.dumps(run))
    assert play(sent).frame.height == 3
    assert "roads" not in play(sent).spec["environment"], "the record is the same wherever the folder lies"
    with pytest.raises(StudyError, match="environment 'town': the road network '.*' is not a folder"):
        load_study(tmp_path / "town.toml", roads=tmp_path / "nowhere")


def test_a_road_network_beside_the_study(tmp_path):
    shutil.copytree(roads_folder("small-town"), tmp_path / "own" / "roads")
    path = tmp_path / "own" / "town.toml"
    path.write_text(TOWN.replace("ROADS", ', roads = "roads"'))
    run = next(load_study(path).runs())
    assert run.environment["roads"] == str(tmp_path / "own" / "roads")
    shutil.move(tmp_path / "own", tmp_path / "moved")
    assert next(load_study(tmp_path / "moved" / "town.toml").runs()).run_id == run.run_id
