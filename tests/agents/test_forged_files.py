"""One forged value at a time, in the file of each family of agents; `tests/fuzz/fuzz_files.py` tries thousands."""

import io
import json
import zipfile

import numpy as np
import pytest
from playing import play

import treebandit
from treebandit import (
    TETS,
    UCB1,
    Bandit,
    BanditForest,
    EpsilonGreedy,
    HistogramForest,
    LinTS,
    LinUCB,
    NeuralTS,
    RandomForestTrees,
    TreeBootstrap,
)
from treebandit.errors import SavedFileError

TREES = HistogramForest(n_trees=4, max_depth=3)
AGENTS = {
    "Bandit": Bandit(TREES, seed=0),
    "TETS": TETS(TREES, random_rounds=2, seed=0),
    "LinUCB": LinUCB(memory="auto", seed=0),
    "LinTS": LinTS(memory=20, seed=0),
    "TreeBootstrap": TreeBootstrap(
        RandomForestTrees(n_trees=2, max_depth=2), mode="replicates", replicates=2, random_rounds=2, seed=0
    ),
    "NeuralTS": NeuralTS(hidden=[4], epochs=1, seed=0),
    "BanditForest": BanditForest(n_trees=3, bin_rows=10, radius=0.01, seed=0),
    "UCB1": UCB1(seed=0),
    "EpsilonGreedy": EpsilonGreedy(TETS(TREES, random_rounds=1), seed=0),
}


class Forged:
    """The parts of a saved file, to be changed and written again."""

    def __init__(self, path):
        with zipfile.ZipFile(path) as archive:
            self.document = json.loads(archive.read("agent.json"))
            self.arrays = [
                np.load(io.BytesIO(archive.read(f"{i}.npy"))) for i in range(len(archive.namelist()) - 1)
            ]

    def place(self, path):
        holder = self.document["state"]
        *inner, last = path.split("/")
        for key in inner:
            holder = holder[int(key) if isinstance(holder, list) else key]
        return holder, int(last) if isinstance(holder, list) else last

    def change(self, path, change):
        """Replace the value, or the array, at a path of the state by what `change` makes of it."""
        holder, key = self.place(path)
        if isinstance(holder[key], dict) and "$array" in holder[key]:
            number = holder[key]["$array"]
            self.arrays[number] = change(self.arrays[number])
        else:
            holder[key] = change(holder[key])

    def write(self, path):
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("agent.json", json.dumps(self.document))
            for number, array in enumerate(self.arrays):
                content = io.BytesIO()
                np.save(content, array)
                archive.writestr(f"{number}.npy", content.getvalue())


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("agents")
    for name, agent in AGENTS.items():
        play(agent, 100)
        agent.save(folder / name)
    return folder


def all_equal(value):
    def change(array):
        array = array.copy()
        array[...] = value
        return array

    return change


def first(value):
    def change(array):
        array = array.copy()
        array.reshape(-1)[0] = value
        return array

    return change


def cut(array):
    return array[:-1]


def doubled(array):
    return np.concatenate([array, array])


CASES = [
    ("Bandit", "clock", lambda value: -1),
    ("Bandit", "clock", lambda value: 1e30),
    ("Bandit", "decided", lambda value: "yes"),
    ("Bandit", "random/state/inc", lambda value: 0),
    ("Bandit", "random/bit_generator", lambda value: "MT19937"),
    ("Bandit", "own/model/errors", first(np.nan)),
    ("Bandit", "own/model/errors", doubled),
    ("TETS", "own/start_arms", doubled),
    ("TETS", "own/start_arms", lambda array: array.astype(np.float64)),
    ("TETS", "own/model/level", lambda value: None),
    ("TETS", "own/model/rebuild_seconds", lambda value: float("nan")),
    ("TETS", "own/model/scale", lambda value: [0.0, 0.0, True]),
    ("TETS", "own/model/scale", lambda value: [0.0, 1e-300, True]),
    ("TETS", "own/model/scale", lambda value: [0.0, 1.0]),
    ("TETS", "own/model/history/rewards", cut),
    ("TETS", "own/model/history/rewards", first(np.nan)),
    ("TETS", "own/model/history/contexts", cut),
    ("TETS", "own/model/history/contexts", lambda array: array[:, :-1]),
    ("TETS", "own/model/history/contexts", first(np.inf)),
    ("TETS", "own/model/history/contexts", lambda array: array.astype(np.float64)),
    ("TETS", "own/model/history/arms", first(2**30)),
    ("TETS", "own/model/history/arms", lambda array: array.astype(np.int64)),
    ("TETS", "own/model/dropped", lambda value: 0),
    ("TETS", "own/model/dropped/rounds", lambda value: -1),
    ("TETS", "own/model/dropped/by_schedule", lambda value: 0.5),
    ("TETS", "own/model/memory", lambda value: {"arms": 3}),
    ("LinUCB", "own/model/memory", lambda value: 7),
    ("LinUCB", "own/model/memory/arms", doubled),
    ("LinUCB", "own/model/memory/seen", all_equal(-1)),
    ("LinUCB", "own/model/memory/seen", all_equal(3)),
    ("LinUCB", "own/model/memory/powers", all_equal(2**40)),
    ("LinUCB", "own/model/memory/counts", all_equal(6)),
    ("LinUCB", "own/model/memory/counts", cut),
    ("LinUCB", "own/model/memory/buckets", first(np.nan)),
    ("LinUCB", "own/model/memory/sums", all_equal(-1.0)),
    ("LinUCB", "own/model/memory/newest", first(np.inf)),
    ("LinUCB", "own/model/memory/newest", first(99.0)),
    ("LinUCB", "own/model/history", lambda value: {"contexts": None, "arms": None, "rewards": None}),
    ("LinUCB", "own/model/scale", lambda value: [0.0, -1.0, True]),
    ("LinTS", "own/model/memory", lambda value: {}),
    ("LinTS", "own/model/history/rewards", cut),
    ("LinTS", "own/model/model", lambda value: {"columns": None}),
    ("TreeBootstrap", "own/model/history/arms", first(-(2**31))),
    ("TreeBootstrap", "own/model/categories", lambda value: [*value, 0]),
    ("TreeBootstrap", "own/model/categories", lambda value: [2**40, *value[1:]]),
    ("TreeBootstrap", "own/model/categories", lambda value: None),
    ("TreeBootstrap", "own/model/scaled_rows", lambda value: 10**6),
    ("TreeBootstrap", "own/model/models", lambda value: [*value, *value]),
    ("TreeBootstrap", "own/model/models/0/arm", lambda value: 17),
    ("TreeBootstrap", "own/model/models/0/arm", lambda value: []),
    ("TreeBootstrap", "own/model/models/0/varied", lambda value: 3),
    ("TreeBootstrap", "own/model/models/0/forests", lambda value: [*value, *value]),
    ("TreeBootstrap", "own/model/models/0/forests/0/n_features", lambda value: value + 1),
    ("NeuralTS", "own/model/network/blocks", lambda value: value + 1),
    ("NeuralTS", "own/model/network/blocks", lambda value: 10**12),
    ("NeuralTS", "own/model/network/vectors", lambda array: array[:, :-1]),
    ("NeuralTS", "own/model/network/vectors", first(np.inf)),
    ("NeuralTS", "own/model/network/vectors", all_equal(0.0)),
    ("NeuralTS", "own/model/network/steps", lambda value: -3),
    ("NeuralTS", "own/model/rows/shift", cut),
    ("NeuralTS", "own/model/rows/factor", first(np.nan)),
    ("NeuralTS", "own/model/rows/categories", lambda value: value[:-1]),
    ("NeuralTS", "own/model/rows", lambda value: None),
    ("NeuralTS", "own/model/labels", doubled),
    ("NeuralTS", "own/model/generator", cut),
    ("NeuralTS", "own/model/generator", lambda array: np.r_[array[:8], all_equal(255)(array[8:24]), array[24:]]),
    ("BanditForest", "own/forest/children", all_equal(0)),
    ("BanditForest", "own/forest/children", all_equal(10**9)),
    ("BanditForest", "own/forest/parent", all_equal(1)),
    ("BanditForest", "own/forest/variable", all_equal(10**6)),
    ("BanditForest", "own/forest/variable", all_equal(0)),
    ("BanditForest", "own/forest/tree", all_equal(2)),
    ("BanditForest", "own/forest/stump", all_equal(0)),
    ("BanditForest", "own/forest/depth", all_equal(-5)),
    ("BanditForest", "own/forest/plays", first(-1.0)),
    ("BanditForest", "own/forest/totals", first(np.nan)),
    ("BanditForest", "own/forest/left", cut),
    ("BanditForest", "own/forest/sums", lambda array: array[:, :, :-1]),
    ("BanditForest", "own/forest/open", all_equal(False)),
    ("BanditForest", "own/forest/nodes", lambda value: 10**9),
    ("BanditForest", "own/forest/nodes", lambda value: 0),
    ("BanditForest", "own/forest/free", lambda value: [*value, 10**6]),
    ("BanditForest", "own/forest/depths", doubled),
    ("BanditForest", "own/forest/epsilons", first(np.nan)),
    ("BanditForest", "own/variables/columns", first(10**6)),
    ("BanditForest", "own/variables/values", cut),
    ("BanditForest", "own/labels", doubled),
    ("UCB1", "own/statistics", lambda array: array[:, :-1]),
    ("UCB1", "own/statistics", first(-1.0)),
    ("UCB1", "own/labels", first(2**40)),
    ("UCB1", "own/range", lambda value: [float("nan"), 1.0]),
    ("EpsilonGreedy", "own/adviser", lambda value: None),
    ("EpsilonGreedy", "own/adviser_seed", lambda value: "abc"),
    ("EpsilonGreedy", "own/adviser/own/model/history/arms", cut),
]  # fmt: skip


@pytest.mark.parametrize(("name", "path", "change"), CASES, ids=[f"{c[0]}-{c[1]}" for c in CASES])
def test_a_forged_value_is_refused(files, tmp_path, name, path, change):
    forged = Forged(files / name)
    forged.write(tmp_path / "same")
    assert type(treebandit.load(tmp_path / "same")).__name__ == name
    forged.change(path, change)
    forged.write(tmp_path / "forged")
    with pytest.raises(SavedFileError, match="does not hold a whole agent|cannot be loaded"):
        treebandit.load(tmp_path / "forged")
