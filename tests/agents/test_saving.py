import json
import zipfile
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest
from playing import SMALL, make_agent, play

from treebandit import TETS, TEUCB, BaseAgent, LightGBMTrees, Uniform, XGBoostTrees
from treebandit.agents import saving
from treebandit.errors import SavedFileError


@pytest.mark.parametrize("rounds", [0, 4, 60])
def test_a_loaded_agent_goes_on_as_the_saved_one(kind, small_trees, tmp_path, rounds):
    agent = make_agent(kind, small_trees)
    play(agent, rounds)
    agent.save(tmp_path / "agent.treebandit")
    again = kind.load(tmp_path / "agent.treebandit")
    assert repr(again) == repr(agent)
    assert play(again, 60, seed=7) == play(agent, 60, seed=7)
    again.save(tmp_path / "again")
    agent.save(tmp_path / "agent")
    left, right = (dict(zip(*parts(tmp_path / name), strict=True)) for name in ("agent", "again"))
    left.pop("agent.json"), right.pop("agent.json")
    assert left == right


def parts(path):
    with zipfile.ZipFile(path) as archive:
        return archive.namelist(), [archive.read(name) for name in archive.namelist()]


@pytest.mark.parametrize(
    "arguments",
    [
        {"categories": "one_hot"},
        {"arm_encoding": "one_hot"},
        {"statistics": "held_out", "leaf_output": "average"},
        {"sampling": "leaves"},
        {"random_start": "in_turn", "rebuild": "every 10"},
    ],
)
def test_every_option_survives_a_save(tmp_path, arguments):
    agent = make_agent(TETS, LightGBMTrees(**SMALL, options={"num_leaves": 7}), **arguments)
    play(agent, 50)
    agent.save(tmp_path / "a")
    assert play(TETS.load(tmp_path / "a"), 50, seed=3) == play(agent, 50, seed=3)


def test_names_of_arms_and_categories_survive(tmp_path):
    agent = make_agent(random_start="rounds")
    frame = pd.DataFrame({"x": [1.0, 2.0, 3.0, 4.0], "kind": ["a", "b", "a", None]})
    agent.learn(frame, [1, 2, 3, 4], arms=["left", "right", "left", "right"])
    agent.save(tmp_path / "a")
    again = TEUCB.load(tmp_path / "a")
    ours, theirs = (one.estimate(frame, arms=["left"] * 4).mean for one in (agent, again))
    assert ours.tolist() == theirs.tolist()


def test_the_file_holds_json_and_arrays_and_no_pickle(tmp_path):
    agent = make_agent()
    play(agent, 40)
    agent.save(tmp_path / "a")
    names, contents = parts(tmp_path / "a")
    assert names[0] == "agent.json"
    document = json.loads(contents[0])
    assert document["version"] == saving.VERSION
    assert document["agent"]["class"] == "TEUCB"
    assert document["agent"]["trees"]["class"] == "XGBoostTrees"
    assert all(content.startswith(b"\x93NUMPY") for content in contents[1:])


def test_saving_replaces_a_file_whole_and_leaves_no_other(tmp_path):
    (tmp_path / "a").write_text("old")
    make_agent().save(tmp_path / "a")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    with pytest.raises(FileNotFoundError):
        make_agent().save(tmp_path / "nowhere" / "a")


def test_damaged_and_foreign_files_are_refused(tmp_path):
    agent = make_agent()
    play(agent, 40)
    whole = tmp_path / "whole"
    agent.save(whole)
    content = whole.read_bytes()
    for cut in (0, 10, len(content) // 2, len(content) - 5):
        (tmp_path / "cut").write_bytes(content[:cut])
        with pytest.raises(SavedFileError, match="damaged or was not written by treebandit"):
            TEUCB.load(tmp_path / "cut")
    flipped = bytearray(content)
    flipped[len(content) // 2] ^= 0xFF
    (tmp_path / "flipped").write_bytes(flipped)
    with pytest.raises(SavedFileError):
        TEUCB.load(tmp_path / "flipped")
    with zipfile.ZipFile(tmp_path / "zip", "w") as archive:
        archive.writestr("agent.json", "{}")
    with pytest.raises(SavedFileError, match="not written by treebandit"):
        TEUCB.load(tmp_path / "zip")
    with pytest.raises(FileNotFoundError):
        TEUCB.load(tmp_path / "missing")


def edited(path, change):
    names, contents = parts(path)
    document = json.loads(contents[0])
    change(document)
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in zip(names, [json.dumps(document).encode(), *contents[1:]], strict=True):
            archive.writestr(name, content)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda d: d.update(version=99), "format version 99"),
        (lambda d: d["agent"].update({"class": "Oracle9"}), "does not have"),
        (
            lambda d: d["agent"].update({"class": "somewhere.else:Agent"}),
            "import somewhere.else before loading",
        ),
        (lambda d: d["state"].pop("clock"), "does not hold a whole agent"),
        (lambda d: d["agent"].update(colour="red"), "does not hold a whole agent"),
    ],
)
def test_files_of_another_version_or_content_are_refused(tmp_path, change, words):
    make_agent().save(tmp_path / "a")
    edited(tmp_path / "a", change)
    with pytest.raises(SavedFileError, match=words):
        TEUCB.load(tmp_path / "a")


def test_the_wrong_class_is_named(tmp_path):
    make_agent().save(tmp_path / "a")
    with pytest.raises(SavedFileError, match=r"holds a TEUCB, not a TETS; use TEUCB\.load"):
        TETS.load(tmp_path / "a")
    assert isinstance(BaseAgent.load(tmp_path / "a"), TEUCB)


@dataclass(eq=False)
class Own(Uniform):
    """Somebody else's agent."""


def test_an_agent_from_another_module_is_found_again(tmp_path):
    Own(seed=3).save(tmp_path / "own")
    assert Own.load(tmp_path / "own").choose(np.ones((4, 2))).shape == (1,)


def test_descriptions_rebuild_the_object():
    agent = TETS(XGBoostTrees(n_trees=3, options={"max_bin": 64}), exploration=0.25, seed=5)
    description = json.loads(json.dumps(saving.describe(agent)))
    assert repr(saving.build(description)) == repr(agent)
