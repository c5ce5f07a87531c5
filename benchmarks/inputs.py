"""What it costs to give contexts as dicts, frames and nested objects instead of arrays: one row, two arms.

python benchmarks/inputs.py [--columns 10] [--turns 40]

CPU microseconds of the input checks, which are all that differs, beyond those of an array. Each form takes turns with
the array, and the least of all turns counts, because machines are noisy. Beside it, `choose` of LinUCB with an array.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl

from treebandit import LinUCB
from treebandit.features.inputs import Inputs

ARMS = ["a", "b"]
CALLS = 50


def microseconds(calls: list[Callable[[], Any]], turns: int) -> list[float]:
    """The least CPU time of each call over several turns of all of them."""
    found = [[] for _ in calls]
    for turn in range(turns + 1):
        for call, times in zip(calls, found, strict=True):
            began = time.process_time_ns()
            for _ in range(CALLS):
                call()
            if turn:
                times.append((time.process_time_ns() - began) / CALLS / 1e3)
    return [min(times) for times in found]


def learned(rows: Any, *, new_columns: bool = False) -> Inputs:
    """Inputs that have learned these rows and offered both arms."""
    inputs = Inputs(new_columns=new_columns)
    inputs = inputs.enter_to_learn(rows, np.zeros(len(rows)), ARMS * (len(rows) // 2))[2]
    return inputs.enter(rows, ARMS * (len(rows) // 2))[1]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--columns", type=int, default=10)
    parser.add_argument("--turns", type=int, default=40)
    given = parser.parse_args()
    random, names = np.random.default_rng(0), [f"x{place}" for place in range(given.columns - 2)]

    def row() -> dict[str, Any]:
        numbers = dict(zip(names, random.normal(size=len(names)).tolist(), strict=True))
        return {
            **numbers,
            "city": str(random.choice(["rome", "paris"])),
            "member": bool(random.random() < 0.5),
        }

    def nested(flat: dict[str, Any]) -> dict[str, Any]:
        user = {"city": flat["city"], "member": flat["member"], "tags": ["new"]}
        return {**{name: flat[name] for name in names}, "user": user}

    rows, one, array = [row() for _ in range(200)], row(), random.normal(size=given.columns)
    arrays, named = learned(random.normal(size=(200, given.columns))), learned(rows)
    opened = learned([nested(each) for each in rows], new_columns=True)
    frame = pd.DataFrame([one])
    forms: dict[str, tuple[Inputs, Any]] = {
        "dict": (named, one),
        "dict, two values missing": (named, {**one, "city": None, names[0]: None}),
        "dict, a category never seen": (named, {**one, "city": "oslo"}),
        "two dicts, one per arm": (named, [one, one]),
        "polars frame of one row": (named, pl.DataFrame([one])),
        "pandas series": (named, frame.iloc[0]),
        "pandas frame of one row": (named, frame),
        "nested dict": (opened, nested(one)),
        "nested dict, half of the keys": (opened, dict(list(nested(one).items())[: given.columns // 2])),
        "nested dict, a key never seen": (opened, {**nested(one), "new": 3.0}),
    }
    agent = LinUCB(seed=0)
    agent.learn(random.normal(size=(200, given.columns)), np.zeros(200), ARMS * 100)
    plain, choosing = microseconds(
        [lambda: arrays.enter(array, ARMS), lambda: agent.choose(array, ARMS)], given.turns
    )
    print(
        f"{given.columns} columns; with an array, the checks take {plain:.0f} of LinUCB's {choosing:.0f} µs\n"
    )
    print("| contexts | µs more than an array |\n| --- | --- |")
    for name, (inputs, contexts) in forms.items():
        calls = [lambda: arrays.enter(array, ARMS), lambda i=inputs, c=contexts: i.enter(c, ARMS)]
        plain, cost = microseconds(calls, given.turns)
        print(f"| {name} | {cost - plain:.0f} |")


if __name__ == "__main__":
    main()
