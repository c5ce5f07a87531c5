"""docs/results/runs/default.csv -> the tables of docs/results/default.md, between its two marks.

treebandit run default --into results/default
python scripts/write_runs.py results/default
python scripts/write_default.py
"""

from __future__ import annotations

from pathlib import Path

import polars as pl

from treebandit.reports import read_run_table
from treebandit.reports.tables import plus_minus

RESULTS = Path(__file__).parent.parent / "docs" / "results"
MARKS = "<!-- parts -->", "<!-- end -->"
#: Problems of each table.
TABLES = (
    ("adult", "magic", "mushroom", "shuttle", "letters", "sparse"),
    ("mixed", "interactions", "many-arms", "linear", "change", "described-arms"),
)
WHOLE = "treebandit"
#: What is compared with the whole agent. Without effects its choices are the same on all of these problems.
OTHERS = (
    *("no linear model", "no blend", "no kernel", "no linear bonus", "no boost", "linear score in all trees"),
    *("bootstrap", "depth 10", "greedy forest", "LinUCB", "LinTS"),
)


def main() -> None:
    """Write the regret of the whole agent, and what is added to it by taking a part away."""
    runs = read_run_table(RESULTS / "runs" / "default.csv").runs
    lines = [line for problems in TABLES for line in (*table(runs, problems), "")]
    page = RESULTS / "default.md"
    before, rest = page.read_text(encoding="utf-8").split(MARKS[0])
    text = "\n".join([MARKS[0], "", *lines, MARKS[1]])
    page.write_text(before + text + rest.split(MARKS[1])[1], encoding="utf-8")


def table(runs: pl.DataFrame, problems: tuple[str, ...]) -> list[str]:
    """One row per agent, one column per problem."""
    lengths = {problem: regret(runs, WHOLE, problem)["rounds"][0] for problem in problems}
    whole = (regret(runs, WHOLE, problem)["final_regret"] for problem in problems)
    rows = [
        ("", *(f"{problem} ({length:,})" for problem, length in lengths.items())),
        ("---",) * (1 + len(problems)),
        (WHOLE, *(plus_minus(each.mean(), each.std(), decimals=0) for each in whole)),
        *((agent, *(difference(runs, agent, problem) for problem in problems)) for agent in OTHERS),
    ]
    return [f"| {' | '.join(row)} |" for row in rows]


def difference(runs: pl.DataFrame, agent: str, problem: str) -> str:
    """An agent's regret less that of the whole one, paired by seed, ± standard error; bold beyond two of these."""
    pairs = regret(runs, agent, problem).join(regret(runs, WHOLE, problem), on="seed")
    added = pairs["final_regret"] - pairs["final_regret_right"]
    mean, error = float(added.mean()), float(added.std()) / len(added) ** 0.5
    if (added == 0.0).all():
        return "="
    # A sign stays on the line of its number.
    text = f"{'−' if mean < 0 else '+'}\u00a0{plus_minus(abs(mean), error, decimals=0)}"
    return f"**{text}**" if abs(mean) > 2 * error else text


def regret(runs: pl.DataFrame, agent: str, problem: str) -> pl.DataFrame:
    """The runs of an agent on a problem: seed, rounds and final regret."""
    own = runs.filter(pl.col("agent") == agent, pl.col("environment") == problem)
    return own.select("seed", "rounds", "final_regret")


if __name__ == "__main__":
    main()
