"""Figures, maps and tables of the navigation studies -> docs/results/navigation/; the page has the commands."""

from __future__ import annotations

import shutil
import sys
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl

from treebandit.experiments.records import load_records
from treebandit.reports import read_results, write_figures
from treebandit.reports.palette import in_order
from treebandit.reports.tables import plus_minus

#: Rounds after which the tables show the regret; and those before the last stretch.
STAGES = {100: "after 100 rounds", 500: "500", 2000: "2,000"}
LATE = 1500

INTRODUCTION = """# Navigation, in numbers

```
export TREEBANDIT_ROADS=FOLDER
treebandit run paper-navigation --into results/navigation --seeds 5
treebandit run navigation-random --into results/navigation
treebandit run paper-navigation-slow --into results/navigation-slow --seeds 1
python scripts/write_navigation.py results/navigation results/navigation-slow docs/results/navigation
```

TreeBootstrap-DT was played with fewer seeds (`--only-agent TreeBootstrap-DT --seeds 3`). What it says:
[navigation](../../navigation.md).

![Regret so far](regret-curves.svg)

![Roads driven on instance 1](map-navigation-1.svg)

![Roads driven on instance 2](map-navigation-2.svg)

![Regret of each pair](regret-by-problem.svg)

![Where the time of a round goes](time-per-round.svg)
"""


def main(source: Path, slow: Path, target: Path) -> None:
    """Write two sets of figures (the two instances, all problems) and one page of tables."""
    target.mkdir(parents=True, exist_ok=True)
    results = read_results(source)
    instances = pl.col("environment").str.starts_with("navigation-")
    parts = {
        ("regret-curves", "map-navigation-1", "map-navigation-2", "time-per-round"): results.runs.filter(
            instances
        ),
        ("regret-by-problem",): results.runs.filter(
            ~instances | pl.col("agent").is_in(random_agents(results.runs))
        ),
    }
    for names, runs in parts.items():
        with TemporaryDirectory() as folder:
            write_figures(replace(results, runs=runs, plan=results.plan.clear()), folder)
            for name in names:
                shutil.copyfile(Path(folder) / f"{name}.svg", target / f"{name}.svg")
    regret = pl.concat([regret_after(source), regret_after(slow)])
    lines = [INTRODUCTION, *instance_tables(regret), *pair_table(regret)]
    (target / "tables.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


def random_agents(runs: pl.DataFrame) -> list[str]:
    """The agents that drove between random pairs."""
    return runs.filter(pl.col("environment").str.starts_with("pair-"))["agent"].unique().to_list()


def regret_after(folder: Path) -> pl.DataFrame:
    """Regret so far of every run: agent, environment, seed, stage, regret."""
    runs, rounds = load_records(folder)
    wanted = runs.filter("planned").select("run_id", "agent", "environment", "seed")
    so_far = rounds.select(
        "run_id",
        (pl.col("round") - pl.col("round").min() + 1).over("run_id").alias("stage"),
        pl.col("regret").cum_sum().over("run_id"),
    )
    return wanted.join(so_far.filter(pl.col("stage").is_in([*STAGES, LATE])), on="run_id").drop("run_id")


def instance_tables(regret: pl.DataFrame) -> list[str]:
    """A table per instance, the agent of least regret in the end first; those that stopped earlier come last."""
    lines = []
    for instance in ("navigation-1", "navigation-2"):
        wide = regret.filter(pl.col("environment") == instance).pivot(
            on="stage", index=["agent", "seed"], values="regret"
        )
        late = (pl.col("2000") - pl.col(str(LATE))) / (2000 - LATE)
        wide = wide.with_columns(late.alias("late"))
        ends = wide.group_by("agent").agg(pl.col("2000", "100").mean()).sort("2000", "100", nulls_last=True)
        lines += [
            f"## {instance}",
            "",
            "Thousand seconds of regret, mean ± sd, and seconds a round in the last 500 rounds.",
            "",
            f"| agent | seeds | {' | '.join(STAGES.values())} | late |",
            "| --- " * (3 + len(STAGES)) + "|",
        ]
        for agent in ends["agent"]:
            part = wide.filter(pl.col("agent") == agent)
            cells = [mean_and_sd(part[str(stage)] / 1000, 1) for stage in STAGES]
            cells.append(mean_and_sd(part["late"], 0))
            lines.append(f"| {agent} | {part.height} | {' | '.join(cells)} |")
        lines.append("")
    return lines


def mean_and_sd(values: pl.Series, decimals: int) -> str:
    """Of what is known of the values; a dash where nothing is."""
    mean, sd = values.mean(), values.std()
    return "–" if mean is None else plus_minus(mean, sd, decimals=decimals)


def pair_table(regret: pl.DataFrame) -> list[str]:
    """A row per random pair, and how often each agent had the least regret there."""
    part = regret.filter(pl.col("environment").str.starts_with("pair-") & (pl.col("stage") == 2000))
    agents = in_order(part["agent"].unique().to_list())
    wide = part.pivot(on="agent", index="environment", values="regret").sort("environment").drop_nulls()
    least = wide.select(pl.concat_list(agents).list.arg_min()).to_series()
    lines = [
        f"## {wide.height} random pairs",
        "",
        "Thousand seconds of regret after 2,000 rounds, one seed each.",
        "",
        "| pair | " + " | ".join(agents) + " |",
        "| --- " * (1 + len(agents)) + "|",
    ]
    for place, row in enumerate(wide.iter_rows(named=True)):
        texts = (
            f"**{row[agent] / 1000:.1f}**" if least[place] == rank else f"{row[agent] / 1000:.1f}"
            for rank, agent in enumerate(agents)
        )
        lines.append(f"| {row['environment']} | " + " | ".join(texts) + " |")
    means = (mean_and_sd(wide[agent] / 1000, 1) for agent in agents)
    lines.append("| mean ± sd | " + " | ".join(means) + " |")
    lines.append(
        "| least regret | " + " | ".join(str((least == rank).sum()) for rank in range(len(agents))) + " |"
    )
    return lines


if __name__ == "__main__":
    main(*(Path(argument) for argument in sys.argv[1:4]))
