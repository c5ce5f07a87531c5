"""docs/results/runs/default*.csv -> the tables of docs/results/default.md, each between its two marks.

treebandit run default --into results/default
treebandit run default-seeds --into results/default-seeds
python scripts/write_runs.py results/default results/default-seeds
python scripts/write_default.py

default-seeds-0.1.0.csv has the last ten seeds played by version 0.1.0; its study is the same.
"""

from __future__ import annotations

from pathlib import Path

import polars as pl

from treebandit.reports import read_run_table
from treebandit.reports.tables import plus_minus

RESULTS = Path(__file__).parent.parent / "docs" / "results"
END = "<!-- end -->"
#: First of the seeds that decided nothing.
FRESH = 3000
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
    """Write the regret of the whole agent on many seeds, and what is added to it by taking a part away."""
    tables = RESULTS / "runs"
    parts = read_run_table(tables / "default.csv").runs
    seeds, before = (read_run_table(tables / f"default-seeds{name}.csv").runs for name in ("", "-0.1.0"))
    lines = [line for problems in TABLES for line in (*table(parts, problems), "")]
    for mark, text in (("<!-- seeds -->", [*seed_table(seeds, before), ""]), ("<!-- parts -->", lines)):
        replace_between(RESULTS / "default.md", mark, text)


def replace_between(page: Path, mark: str, lines: list[str]) -> None:
    """Write lines into a page between a mark and the next end."""
    before, rest = page.read_text(encoding="utf-8").split(mark)
    _, after = rest.split(END, maxsplit=1)
    page.write_text(before + "\n".join([mark, "", *lines, END]) + after, encoding="utf-8")


def seed_table(runs: pl.DataFrame, before: pl.DataFrame) -> list[str]:
    """The whole agent on seeds 0 to 49 and on fresh ones, these beside another version, paired by seed."""
    problems = ("adult", "magic", "mushroom", "shuttle", "letters")
    fresh = pl.col("seed") >= FRESH
    known, new = (
        {problem: regret(part, WHOLE, problem)["final_regret"] for problem in problems}
        for part in (runs.filter(~fresh), runs.filter(fresh))
    )
    old = {problem: regret(before, WHOLE, problem)["final_regret"] for problem in problems}
    both = pl.concat(
        [runs.filter(fresh), before.with_columns(pl.lit("0.1.0").alias("agent"))], how="diagonal"
    )
    rows = [
        ("", *problems),
        ("---",) * (1 + len(problems)),
        ("seeds 0 to 49", *map(mean_and_sd, known.values())),
        ("worst / median of these", *(f"{each.max() / each.median():.2f}" for each in known.values())),
        ("seeds 3000 to 3009", *map(mean_and_sd, new.values())),
        ("version 0.1.0, seeds 3000 to 3009", *map(mean_and_sd, old.values())),
        ("less version 0.1.0, paired", *(difference(both, WHOLE, each, than="0.1.0") for each in problems)),
    ]
    return [f"| {' | '.join(row)} |" for row in rows]


def mean_and_sd(values: pl.Series) -> str:
    """Of final regrets, in whole numbers."""
    return plus_minus(values.mean(), values.std(), decimals=0)


def table(runs: pl.DataFrame, problems: tuple[str, ...]) -> list[str]:
    """One row per agent, one column per problem."""
    lengths = {problem: regret(runs, WHOLE, problem)["rounds"][0] for problem in problems}
    whole = (mean_and_sd(regret(runs, WHOLE, problem)["final_regret"]) for problem in problems)
    rows = [
        ("", *(f"{problem} ({length:,})" for problem, length in lengths.items())),
        ("---",) * (1 + len(problems)),
        (WHOLE, *whole),
        *((agent, *(difference(runs, agent, problem) for problem in problems)) for agent in OTHERS),
    ]
    return [f"| {' | '.join(row)} |" for row in rows]


def difference(runs: pl.DataFrame, agent: str, problem: str, *, than: str = WHOLE) -> str:
    """An agent's regret less that of another, paired by seed, ± standard error; bold beyond two of these."""
    pairs = regret(runs, agent, problem).join(regret(runs, than, problem), on="seed")
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
