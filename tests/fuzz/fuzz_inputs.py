"""Throws arbitrary objects at agents: they may only be answered with own errors, and then nothing has changed.

`python tests/fuzz/fuzz_inputs.py 20000 0` tries 20,000 cases of seed 0.
"""

import array
import collections
import datetime as dt
import decimal
import fractions
import random
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import scipy.sparse

from treebandit import TETS, UCB1, Bandit, HistogramForest, LinUCB, TreeBootstrap
from treebandit.core import Candidates, Columns
from treebandit.errors import TreebanditError

ROWS = np.random.default_rng(0).normal(size=(3, 2))
DICTS = [{"size": 0.5, "kind": "a"}, {"size": 1.5, "kind": "b"}, {"size": float("nan"), "kind": None}]


class Raising:
    """An object whose every conversion fails."""

    def __array__(self, *_, **__):
        raise RuntimeError("no array")

    def __len__(self):
        raise RuntimeError("no length")

    def __iter__(self):
        raise RuntimeError("no members")

    def __float__(self):
        raise RuntimeError("no number")

    def __repr__(self):
        raise RuntimeError("no name")


class Unhashable(str):
    """Text that cannot be a key."""

    def __hash__(self):
        raise RuntimeError("no key")


ATOMS = [
    *(None, True, False, 0, 1, 2, -1, 2**24 + 1, 2**31, 2**63, -(2**63), 10**400),
    *(0.5, -0.0, float("nan"), float("inf"), -float("inf"), 1e39, 1e300, 5e-324, 1.7e9 + 0.3),
    *(1j, "", "a", "b", "nan", "1.5", "$array", "\ud800", "x" * 1000, b"", b"1", bytearray(b"x")),
    *(decimal.Decimal("1.5"), decimal.Decimal("sNaN"), decimal.Decimal("Infinity"), fractions.Fraction(1, 3)),
    *(dt.date(2024, 1, 1), dt.datetime(2024, 1, 1), dt.timedelta(1), object(), len, int, ..., NotImplemented),
    *(np.float16(1), np.longdouble(1), np.int8(3), np.uint64(2**64 - 1), np.bool_(True), np.str_("a")),
    *(np.datetime64("NaT"), np.timedelta64("NaT"), np.complex64(1), np.void(b"x"), np.ma.masked, np.nan),
    *(pd.NA, pd.NaT, pd.Timestamp("2024-01-01"), pd.Interval(0, 1), range(3), slice(3), type, Raising()),
    *(Unhashable("a"), collections.Counter("ab"), "ａ", memoryview(b"ab"), array.array("d", [1.0, 2.0])),
]


def thing(choose, depth=3):
    """An arbitrary object."""
    kind = choose.randrange(26 if depth else 1)
    if kind < 6:
        return choose.choice(ATOMS)
    inner = [thing(choose, depth - 1) for _ in range(choose.randrange(5))]
    same = [choose.choice(ATOMS)] * choose.choice([1, 2, 3, 6])
    makers = [
        lambda: inner,
        lambda: tuple(inner),
        lambda: same,
        lambda: {choose.choice(["size", "kind", "x", 1, None, (1,)]): value for value in inner},
        lambda: [dict(row, **{choose.choice(["size", "kind", "new"]): thing(choose, 1)}) for row in DICTS],
        lambda: {"size": thing(choose, 1), "kind": thing(choose, 1)},
        lambda: {value for value in (0, "a", None) if choose.random() < 0.5},
        lambda: (value for value in inner),
        lambda: np.array([*inner, None], object)[:-1],
        lambda: np.array([[value, 1.0] for value in same] + [[None, None]], object)[:-1],
        lambda: choose.choice([np.zeros, np.ones])(
            choose.choice([(), 0, 2, (3, 2), (1, 2), (2, 3, 2), (0, 2), (2, 0)])
        ),
        lambda: np.zeros(
            (3, 2), choose.choice(["i1", "u8", "f2", "g", "c8", "S3", "U2", "M8[s]", "m8[D]", "?", "i4,f4"])
        ),
        lambda: np.ma.masked_array(ROWS, choose.random() < 0.5),
        lambda: np.asmatrix(ROWS),
        lambda: choose.choice([scipy.sparse.csr_matrix, scipy.sparse.coo_array])(ROWS),
        lambda: (
            pd.DataFrame(np.zeros((3, 2)))
            if choose.random() < 0.3
            else pd.DataFrame(DICTS).assign(size=same[0])
        ),
        lambda: pd.Series(inner, dtype=object),
        lambda: pd.Series({"size": thing(choose, 0), "kind": thing(choose, 0)}, dtype=object),
        lambda: pl.DataFrame(DICTS),
        lambda: collections.deque(inner),
        lambda: Candidates(
            choose.choice([ROWS, ROWS.astype("f4"), inner]), thing(choose, 1), Columns.numeric(2)
        ),
    ]
    try:
        return choose.choice(makers)()
    except Exception:
        return inner


def make_agents():
    """Small agents, fresh and trained, on arrays and on dicts, with numbers, names and no arms."""
    agents = []
    for rows, arms in ((ROWS, [0, 1, 2]), (DICTS, ["a", "b", "c"]), (None, ["a", "b", "c"]), (ROWS, None)):
        for kind in (UCB1, LinUCB, TreeBootstrap, Bandit, TETS):
            if kind is UCB1 and arms is None:
                continue
            more = {"trees": HistogramForest(n_trees=3)} if kind is TETS else {}
            more |= {"random_rounds": 1} if kind in (TETS, TreeBootstrap) else {}
            fresh, trained = kind(seed=0, **more), kind(seed=0, **more)
            for _ in range(5):
                trained.learn(rows, [1.0, 0.0, 0.5], arms=arms)
            trained.choose(rows, arms=arms)
            agents += [(fresh, rows, arms), (trained, rows, arms)]
    return agents


def saved(agent, folder):
    path = Path(folder) / "agent"
    agent.save(path)
    return path.read_bytes()


def restored(kind, content, folder):
    path = Path(folder) / "agent"
    path.write_bytes(content)
    return kind.load(path)


def fuzz(cases, seed):
    """Cases tried, raw errors and state changes after an error or an estimate, the latter two as lists of sentences."""
    choose = random.Random(seed)
    raw, changed = [], []
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        games = [(agent, saved(agent, folder), rows, arms) for agent, rows, arms in make_agents()]
        for case in range(cases):
            agent, before, rows, arms = games[place := choose.randrange(len(games))]
            given = {"contexts": rows, "arms": arms, "rewards": [1.0, 0.0, 0.5]}
            for name in choose.sample(list(given), choose.choice([1, 1, 1, 2, 3])):
                given[name] = thing(choose)
            method = choose.choice(["learn", "learn", "choose", "estimate"])
            if method != "learn":
                del given["rewards"]
            kinds = {name: type(value).__name__ for name, value in given.items()}
            case_name = f"case {case}: {type(agent).__name__}.{method} of {kinds}"
            failed = True
            try:
                getattr(agent, method)(**given)
                failed = False
            except TreebanditError as error:
                str(error)
            except Exception as error:
                raw.append(f"{case_name}: {error!r}"[:300])
            if (failed or method == "estimate") and saved(agent, folder) != before:
                changed.append(case_name[:300])
                failed = False
            if not failed:
                games[place] = restored(type(agent), before, folder), before, rows, arms
    return cases, raw, changed


def main(cases, seed):
    """Print what `cases` cases of a seed show; whether all went well."""
    tried, raw, changed = fuzz(cases, seed)
    print(f"{tried} cases tried, {len(raw)} raw errors, {len(changed)} state changes")
    for sentence in [*raw[:20], *changed[:20]]:
        print(" ", sentence)
    return not raw and not changed


if __name__ == "__main__":
    sys.exit(0 if main(*(int(argument) for argument in sys.argv[1:3] or (5000, 0))) else 1)
