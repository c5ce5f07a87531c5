import json
import zipfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest
from playing import SMALL, make_agent, play

import treebandit
from treebandit import TETS, TEUCB, BaseAgent, LightGBMTrees, LinUCB, RandomForestTrees, Uniform, saving
from treebandit.errors import SavedFileError, TreebanditError


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
        {"variance": "calibrated"},
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
    with pytest.raises(SavedFileError, match=r"cannot be written \(No such file or directory\)"):
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
    flipped[100] ^= 0xFF  # in the packed JSON
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
        (lambda d: d.update(version=1), "format version 1"),
        (lambda d: d.update(version=2), "format version 2"),
        (lambda d: d.update(version="3"), "format version '3'"),
        (lambda d: d["agent"].update({"class": "Oracle9"}), "no class 'Oracle9'"),
        (lambda d: d["agent"].update({"class": "Synthetic"}), "no class 'Synthetic'"),
        (lambda d: d.update(agent={"class": "XGBoostTrees"}), "XGBoostTrees, which is no agent"),
        (lambda d: d.update(agent="TETS"), "str, which is no agent"),
        (lambda d: d["agent"].update({"class": "somewhere.else:Agent"}), r"hand it over: classes=\[Agent\]"),
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


def test_two_threads_that_save_to_one_path_leave_a_good_file(tmp_path):
    agents = [make_agent(seed=seed) for seed in (1, 2)]
    for agent in agents:
        play(agent, 30)
    for _ in range(20):
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda agent: agent.save(tmp_path / "a"), agents))
        assert treebandit.load(tmp_path / "a").seed in (1, 2)
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


@dataclass(eq=False)
class Own(Uniform):
    """Somebody else's agent."""


@dataclass(frozen=True)
class OwnTrees:
    """Somebody else's tree learner."""

    n_trees: int = 3

    def fit(self, features, targets, *, seed):
        return RandomForestTrees(n_trees=self.n_trees).fit(features, targets, seed=seed)


class Outer:
    @dataclass(frozen=True)
    class Inner(OwnTrees):
        """A class in a class."""


def local_trees():
    @dataclass(frozen=True)
    class Local(OwnTrees):
        """A class in a function."""

    return Local()


def test_an_agent_of_ones_own_is_named_by_the_caller(tmp_path):
    Own(seed=3).save(tmp_path / "own")
    assert Own.load(tmp_path / "own").choose(np.ones((4, 2))).shape == (1,)
    assert isinstance(treebandit.load(tmp_path / "own", classes=[Own]), Own)
    with pytest.raises(SavedFileError, match=r"classes=\[Own\]"):
        treebandit.load(tmp_path / "own")


@pytest.mark.parametrize("trees", [OwnTrees(), Outer.Inner(), local_trees()], ids=lambda t: type(t).__name__)
def test_a_learner_of_ones_own_is_handed_over(tmp_path, trees):
    agent = make_agent(TEUCB, trees)
    play(agent, 30)
    agent.save(tmp_path / "a")
    with pytest.raises(SavedFileError, match=r"hand it over: classes=\["):
        TEUCB.load(tmp_path / "a")
    again = TEUCB.load(tmp_path / "a", classes=[type(trees)])
    assert play(again, 30, seed=7) == play(agent, 30, seed=7)


class NoDataclass:
    def fit(self, features, targets, *, seed):
        return OwnTrees().fit(features, targets, seed=seed)


@dataclass(frozen=True)
class Holding(OwnTrees):
    """A learner with something inside that cannot be written down."""

    what: object = None


@pytest.mark.parametrize("trees", [NoDataclass(), Holding(what=print), Holding(what=lambda x: x)])
def test_what_cannot_be_described_is_refused_before_a_file_is_touched(tmp_path, trees):
    (tmp_path / "a").write_text("old")
    with pytest.raises(SavedFileError, match="TEUCB cannot be saved .* make it a dataclass"):
        TEUCB(trees, seed=0).save(tmp_path / "a")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["old"]


def test_what_could_not_be_loaded_is_refused_before_a_file_is_touched(tmp_path):
    agent = make_agent()
    agent.exploration = -1.0
    with pytest.raises(SavedFileError, match=r"cannot be saved .* exploration is -1.0"):
        agent.save(tmp_path / "a")
    agent = Own(seed=0)
    agent._state = lambda: {3: "no text"}
    with pytest.raises(SavedFileError, match="the key 3"):
        agent.save(tmp_path / "a")
    assert list(tmp_path.iterdir()) == []


def test_load_gives_whatever_agent_a_file_holds(kind, small_trees, tmp_path):
    make_agent(kind, small_trees).save(tmp_path / "a")
    assert type(treebandit.load(tmp_path / "a")) is kind


@pytest.mark.parametrize("name", ["$array", "$$array", "$", "class", "", "$class", "a.b:c"])
def test_arms_and_columns_may_have_any_name(tmp_path, name):
    agent = LinUCB(seed=0)
    frame = pd.DataFrame({name: [1.0, 2.0, 3.0], "kind": [name, "x", name]})
    agent.learn(frame, [1.0, 0.0, 1.0], arms=[name, "b", name])
    agent.save(tmp_path / "a")
    again = LinUCB.load(tmp_path / "a")
    ours, theirs = (one.estimate(frame, arms=[name, "b", "new"]).mean for one in (agent, again))
    assert ours.tolist() == theirs.tolist()


@pytest.mark.parametrize("load", [treebandit.load, LinUCB.load])
@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"classes": 5}, "classes is 5"),
        ({"classes": ["LinUCB"]}, "classes hold 'LinUCB'"),
        ({"max_bytes": "much"}, "max_bytes is 'much'"),
        ({"path": 3}, "3 is no path"),
        ({"path": b"agent"}, "is no path"),
    ],
)
def test_bad_arguments_of_load_are_named(load, given, message, tmp_path):
    LinUCB(seed=0).save(tmp_path / "agent")
    with pytest.raises(TreebanditError, match=message):
        load(**{"path": tmp_path / "agent"} | given)
