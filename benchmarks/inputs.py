"""What it costs to give contexts as dicts, frames and nested objects instead of arrays: two arms, one row.

python benchmarks/inputs.py [--columns 10] [--agent LinUCB]

CPU microseconds of `choose`, the least of several runs, and what each form costs more than an array in the same run.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl

import treebandit

ARMS = ["a", "b"]


def microseconds(call: Callable[[], Any], *, calls: int = 200, runs: int = 15) -> float:
    """The least CPU time of a call over several runs."""
    call()
    found = []
    for _ in range(runs):
        began = time.process_time_ns()
        for _ in range(calls):
            call()
        found.append((time.process_time_ns() - began) / calls / 1e3)
    return min(found)


def taught(kind: type, rows: Any, **arguments: Any) -> Any:
    """An agent that has learned these rows."""
    agent = kind(seed=0, **arguments)
    agent.learn(rows, np.arange(len(rows)) % 3, ARMS * (len(rows) // 2))
    agent.choose(rows[0], ARMS)
    return agent


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--columns", type=int, default=10)
    parser.add_argument("--agent", default="Bandit")
    given = parser.parse_args()
    kind, random = getattr(treebandit, given.agent), np.random.default_rng(0)
    names = [f"x{place}" for place in range(given.columns - 2)]

    def row() -> dict[str, Any]:
        numbers = {
            name: float(value) for name, value in zip(names, random.normal(size=len(names)), strict=True)
        }
        return {
            **numbers,
            "city": str(random.choice(["rome", "paris"])),
            "member": bool(random.random() < 0.5),
        }

    def nested(flat: dict[str, Any]) -> dict[str, Any]:
        user = {key: flat[key] for key in ("city", "member")}
        return {**{name: flat[name] for name in names}, "user": {**user, "tags": ["new"]}}

    rows, one = [row() for _ in range(200)], row()
    arrays = random.normal(size=(200, given.columns))
    base = taught(kind, arrays)
    named, opened = taught(kind, rows), taught(kind, [nested(each) for each in rows], new_columns=True)
    frame = pd.DataFrame([one])
    forms: dict[str, tuple[Any, Any]] = {
        "array": (base, arrays[0]),
        "dict": (named, one),
        "dict, two missing values": (named, {**one, "city": None, names[0]: None}),
        "dict, a category never seen": (named, {**one, "city": "oslo"}),
        "two dicts, one per arm": (named, [one, one]),
        "pandas series": (named, frame.iloc[0]),
        "pandas frame, one row": (named, frame),
        "polars frame, one row": (named, pl.DataFrame([one])),
        "nested dict": (opened, nested(one)),
        "nested dict, half the keys": (opened, dict(list(nested(one).items())[: given.columns // 2])),
        "nested dict, a key never seen": (opened, {**nested(one), "new": 3.0}),
    }
    array = microseconds(lambda: base.choose(arrays[0], ARMS))
    print(f"{given.agent}.choose, 2 arms, {given.columns} columns: an array takes {array:.0f} µs\n")
    print(f"{'contexts':32}{'more than an array':>20}{'times':>8}")
    for name, (agent, contexts) in forms.items():
        # The array again beside each form: other work on the machine comes and goes.
        array = microseconds(lambda: base.choose(arrays[0], ARMS), runs=7)
        cost = microseconds(lambda agent=agent, contexts=contexts: agent.choose(contexts, ARMS), runs=7)  # type: ignore[misc]
        print(f"{name:32}{cost - array:17.0f} µs{cost / array:8.2f}")


if __name__ == "__main__":
    main()
