"""Random good and bad arguments for oracles, environments and road networks: only errors of this package may come out.

`python tests/fuzz/fuzz_oracles.py CASES SEED` prints how many cases were tried and what went wrong.
"""

import sys
import traceback
import warnings
from collections import Counter
from dataclasses import fields, replace
from functools import partial

import numpy as np
from small_roads import network

from treebandit.core import choose_with
from treebandit.datasets import load
from treebandit.datasets.catalogue import find
from treebandit.datasets.labelled import LabelledTable
from treebandit.datasets.roads import random_pairs, roads_folder, write_roads
from treebandit.environments import Classification, Delayed, DescribedArms, Navigation, Synthetic
from treebandit.errors import TreebanditError
from treebandit.oracles import Assignment, ShortestPath, TopK, best_arm

TOWN = network()
TABLE = LabelledTable(np.eye(9, dtype=np.float32), np.arange(9) % 3, ("a", "b", "c"), load("magic").columns)

JUNK = [
    *(None, True, False, -1, 0, 1, 3, 10**30, -(10**30), 2.5, -0.0, 1e308, -1e-320, 1j),
    *(float("nan"), float("inf"), -float("inf"), np.nan, np.float32(2), np.int8(-3), np.bool_(True)),
    *("", "a", "abc", "1", "[x]", "\x00", "linear", "binary", "small-town", b"a", bytearray(b"ab")),
    *(
        [],
        [0],
        [1, 2],
        [0, 0],
        [-1],
        [9],
        ["a"],
        [None],
        [[0], [1, 2]],
        [[1.0]],
        [np.nan, 1.0],
        (),
        (1, (2,)),
    ),
    *(
        {},
        {"a": 1},
        {"ab0": [1, 2]},
        {"ab0": "12"},
        {1, 2},
        frozenset("a"),
        range(3),
        slice(2),
        object(),
        object,
    ),
    *(np.array(1.0), np.zeros(0), np.zeros(3), np.ones((2, 2)), np.array(["a", "b"]), np.array([None, 1])),
    *(
        np.array([1, 2], dtype="M8[s]"),
        np.ma.masked_array([1.0, 2.0], [0, 1]),
        np.array([1 + 2j]),
        np.arange(3) > 0,
    ),
    *(
        len,
        lambda *given: given,
        TopK,
        best_arm,
        np.random.default_rng(0),
        np.random,
        ValueError("x"),
        Ellipsis,
    ),
]


class Fuzz:
    """One random case after the other."""

    def __init__(self, seed):
        self.random = np.random.default_rng(seed)

    def pick(self, choices):
        return choices[int(self.random.integers(len(choices)))]

    def maybe(self, good, share=0.4):
        """The good value, or junk in its place."""
        return self.pick(JUNK) if self.random.random() < share else good

    def scores(self, n, share=0.3):
        values = self.random.integers(-3, 3, n).astype(float)
        special = self.random.random(n) < 0.15
        values[special] = self.random.choice([np.inf, -np.inf, np.nan, 1e308, -1e308, 1e-300], special.sum())
        with np.errstate(over="ignore"):
            single = values.astype(np.float32)
        return self.maybe(self.pick([values, values.tolist(), single, tuple(values)]), share)

    def generator(self):
        return self.maybe(self.pick([None, self.random]), 0.2)

    def best_arm(self):
        return best_arm(self.scores(int(self.random.integers(0, 5))), self.generator())

    def top_k(self):
        return TopK(self.maybe(int(self.random.integers(1, 5))))(self.scores(4), self.generator())

    def path(self):
        starts, ends = self.maybe(list("aabbcd"), 0.1), self.maybe(list("bccddb"), 0.1)
        floor = self.maybe(1e-6, 0.1)
        path = ShortestPath(starts, ends, self.maybe("a", 0.1), self.maybe("d", 0.1), floor=floor)
        how = self.pick(["call", "among", "costs"])
        if how == "costs":
            return path.costs(self.scores(6))
        if how == "call":
            return path(self.scores(6), self.generator())
        rows = self.pick([[0, 1, 3], [True] * 5 + [False], [2, 4], [0, 0], list(range(6))])
        path = path.among(self.maybe(rows))
        return path(self.scores(len(path.rows)), self.generator())

    def assignment(self):
        lefts, rights = self.maybe(list("aabbc"), 0.15), self.maybe(list("xyxyz"), 0.15)
        return Assignment(lefts, rights)(self.scores(5), self.generator())

    def own_oracle(self):
        answer = self.pick(JUNK)
        oracle = self.pick([answer, lambda scores: answer, lambda scores, random: answer, partial(best_arm)])
        if callable(answer) and oracle is answer and not isinstance(answer, type) and answer is not best_arm:
            return None  # a function of the caller's may raise what it likes
        return choose_with(oracle, np.zeros(3), self.pick([None, self.random]))

    def arguments(self, good, share=0.5):
        """Good arguments, of which one or two are replaced."""
        changed = dict(good)
        for _ in range(int(self.random.integers(0, 3))):
            changed[self.pick(list(good))] = self.pick(JUNK)
        return changed

    def environment(self):
        kind, good = self.pick(ENVIRONMENTS)
        environment = kind(**self.arguments(good))
        if self.random.random() < 0.2:
            environment = Delayed(self.maybe(environment, 0.2), batch=self.maybe(2, 0.2))
        for _ in range(6):
            how = self.pick(["observe", "observe", "pull", "choose", "means", "path"])
            if how == "observe":
                shown = environment.observe()
                assert environment.observe() is shown, "observed twice"
            elif how == "choose":
                shown = environment.observe()
                environment.pull(shown.oracle(self.random.random(len(shown.candidates))))
            else:
                self.refused_or_not(environment, how)

    def refused_or_not(self, environment, how):
        calls = {"pull": "pull", "means": "means", "path": "best_path"}
        method = getattr(environment, calls[how], None)
        if method is not None:
            try:
                method(self.pick(JUNK))
            except TreebanditError:
                return

    def roads(self):
        how = self.pick(["replace", "node", "edge", "take", "pairs", "folder", "write", "load", "find"])
        value = self.pick(JUNK)
        if how == "replace":
            name = self.pick([field.name for field in fields(TOWN)])
            changed = self.pick([value, getattr(TOWN, name)[:-1], np.asarray(getattr(TOWN, name))[::-1]])
            return Navigation("a", "d", roads=replace(TOWN, **{name: changed}))
        if how in ("node", "edge", "take"):
            return getattr(TOWN, how)(value)
        if how == "pairs":
            good = {"count": 2, "apart": 1.0, "seed": 0}
            arguments = self.arguments(good)
            if isinstance(arguments["count"], int) and arguments["count"] > 1000:
                return None  # that many pairs may be asked for, and take as long as they take
            return random_pairs(TOWN, **arguments)
        if how == "write":
            return write_roads("/nonexistent/folder", nodes=value, edges=value, traversals=value)
        return {"folder": roads_folder, "load": load, "find": find}[how](value)


ENVIRONMENTS = [
    (Classification, {"data": TABLE, "gaussian_noise": 0.1, "flip_noise": 0.1, "seed": 1}),
    (Classification, {"csv": "no.csv", "label": "y", "sha256": None, "seed": 1}),
    (
        Synthetic,
        {
            "problem": "interactions",
            "arms": 3,
            "features": 4,
            "informative": 2,
            "rewards": "continuous",
            "noise": 0.1,
            "drift": 0.5,
            "change_every": 2,
            "seed": 1,
        },
    ),
    (Synthetic, {"problem": "linear", "arms": 2, "features": 3, "rewards": "binary", "seed": 1}),
    (
        DescribedArms,
        {"arms": 9, "offered": 4, "slots": 2, "features": 2, "arm_features": 2, "noise": 0.1, "seed": 1},
    ),
    (
        Navigation,
        {"start": "a", "end": "d", "roads": TOWN, "closures": {"ab0": [1, 2]}, "sha256": None, "seed": 1},
    ),
    (Delayed, {"environment": Synthetic(seed=1), "batch": 2}),
]
CASES = ("best_arm", "top_k", "path", "assignment", "own_oracle", "environment", "environment", "roads")


def main(cases=300, seed=0):
    """Try so many cases; returns the raw errors found, and prints a summary."""
    fuzz, raw, outcomes = Fuzz(seed), Counter(), Counter()
    for _ in range(cases):
        name = fuzz.pick(CASES)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", RuntimeWarning)
                getattr(fuzz, name)()
            outcomes["accepted"] += 1
        except TreebanditError:
            outcomes["refused"] += 1
        except Exception as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            raw[f"{name}: {type(error).__name__}: {error} ({where.filename}:{where.lineno})"] += 1
    print(f"{cases} cases, seed {seed}: {dict(outcomes)}, {sum(raw.values())} raw errors")
    for what, times in raw.most_common():
        print(f"{times:5d} {what}")
    return raw


if __name__ == "__main__":
    sys.exit(bool(main(*(int(number) for number in sys.argv[1:]))))
