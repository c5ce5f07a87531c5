"""Gives arbitrary values to every argument of every agent, tree learner and oracle.

What cannot be used is answered with an own error when the object is made; what is taken can learn, decide, be saved and
loaded. `python tests/fuzz/fuzz_constructors.py 20000 0` tries 20,000 cases of seed 0.
"""

import inspect
import random
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
from fuzz.fuzz_inputs import ATOMS

import treebandit
from treebandit import registry
from treebandit.errors import TreebanditError

SMALL = {
    "n_trees": 3,
    "hidden": (4,),
    "epochs": 1,
    "members": 2,
    "replicates": 2,
    "random_rounds": 1,
    "bin_rows": 20,
}
VALUES = [
    *ATOMS,
    *(
        [],
        [1, 2],
        {},
        {"a": 1},
        {"a": "number"},
        {"a": ["x", "x"]},
        {1: "number"},
        (8,),
        (0,),
        (8, 0.5),
        ("a",),
    ),
    *(np.array([1, 2]), np.array(3), np.random.default_rng(0), np.random.SeedSequence(0), np.longdouble(0.5)),
    *(
        treebandit.LinUCB,
        treebandit.LinUCB(seed=0),
        treebandit.HistogramForest,
        treebandit.HistogramForest(n_trees=2),
    ),
    *(
        "every 1",
        "every 0",
        "never",
        "8 ln t",
        "codes",
        "leaves",
        "in_turn",
        1e-300,
        1e-12,
        np.int8(2),
        np.float32(0.5),
    ),
]
ROWS = np.random.default_rng(0).normal(size=(40, 3))
ARMS = np.arange(40) % 3


def classes():
    """All classes whose arguments are tried: kind, class."""
    for kind in ("agent", "tree learner", "oracle"):
        for name in registry.registered(kind):
            if isinstance(found := getattr(treebandit, name), type):
                yield kind, found


def used(agent, folder):
    """All that an agent which was made without an error has to do."""
    rows = ROWS
    if agent.columns is not None:
        names = list(agent.columns) or ["a"]
        rows = [dict.fromkeys(names) for _ in range(40)]
    agent.learn(rows, (ROWS[:, 0] > 0) * 1.0, arms=ARMS)
    agent.learn(agent.decide(rows[0], arms=[0, 1, 2], draws=5), 1.0)
    agent.save(Path(folder) / "agent")
    treebandit.load(Path(folder) / "agent")


def fuzz(cases, seed):
    """Cases tried, and what was answered with a raw error or too late, as sentences."""
    choose, wrong = random.Random(seed), []
    tried = [
        (kind, made, name, value)
        for kind, made in classes()
        for name in inspect.signature(made).parameters
        for value in VALUES
    ]
    picked = choose.sample(tried, min(cases, len(tried)))
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for kind, made, name, value in picked:
            parameters = inspect.signature(made).parameters
            given = {key: small for key, small in SMALL.items() if key in parameters}
            if kind == "agent" and "trees" in parameters:
                given["trees"] = treebandit.HistogramForest(n_trees=3, bootstrap=False)
            given |= {key: None for key, each in parameters.items() if each.default is each.empty}
            given[name] = value
            told = f"{made.__name__}({name}={type(value).__name__})"
            try:
                thing = made(**given)
            except TreebanditError as error:
                str(error)
                continue
            except Exception as error:
                wrong.append(f"{told}: {error!r}"[:300])
                continue
            large = isinstance(value, int | float | np.number) and abs(value) > 100
            if kind == "agent" and not large:
                try:
                    used(thing, folder)
                except Exception as error:
                    wrong.append(f"{told} was made, then: {error!r}"[:300])
    return len(picked), wrong


def main(cases, seed):
    """Print what `cases` cases of a seed show; whether all went well."""
    tried, wrong = fuzz(cases, seed)
    print(f"{tried} cases tried, {len(wrong)} raw or late errors")
    for sentence in wrong[:40]:
        print(" ", sentence)
    return not wrong


if __name__ == "__main__":
    sys.exit(0 if main(*(int(argument) for argument in sys.argv[1:3] or (5000, 0))) else 1)
