"""docs/results/runs/navigation*.csv, default-navigation.csv -> docs/results/navigation/; maps from the records too.

    python scripts/write_navigation.py [results/navigation]

Maps need the records themselves and the road network (TREEBANDIT_ROADS); without a folder the maps stay as they are.
From records of one seed only the maps of a single run are drawn.
"""

from __future__ import annotations

import shutil
import sys
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl

from treebandit.environments.navigation import INSTANCES
from treebandit.reports import Results, read_results, read_run_table, write_figures
from treebandit.reports.palette import in_order
from treebandit.reports.routes import reference_routes
from treebandit.reports.tables import plus_minus

RESULTS = Path(__file__).parent.parent / "docs" / "results"
#: Rounds after which the tables show the regret; and those before the last stretch.
STAGES = {100: "after 100 rounds", 500: "500", 2000: "2,000"}
LATE = 1500
#: Environments of the study `navigation-noise` after the name of the instance, and what a driver sees there.
NOISES = {
    "noise-0": "expected times",
    "noise-0.3": "0.3 of the noise",
    "noise-1": "single drives",
    "means-15": "means of 15 minutes",
    "means-60": "means of 60 minutes",
}
#: Left out of the figure of noise.
NOT_DRAWN = ("Greedy-XGBoost", "NeuralUCB", "LinUCB", "LinUCB-raw", "LinTS-raw")

INTRODUCTION = """# Navigation, in numbers

```
export TREEBANDIT_ROADS=FOLDER
treebandit run paper-navigation --into results/navigation
treebandit run navigation-random --into results/navigation
treebandit run paper-navigation-slow --into results/navigation
treebandit run navigation-noise --into results/navigation-noise
treebandit run default-navigation --into results/default-navigation
python scripts/write_runs.py results/navigation results/navigation-noise results/default-navigation
python scripts/write_navigation.py results/navigation
```

What it says: [navigation](../../navigation.md). All runs: [instances and pairs](../runs/navigation.csv),
[noise](../runs/navigation-noise.csv), [fresh seeds](../runs/default-navigation.csv).

![Regret so far](regret-curves.svg)

![Roads driven on instance 1](map-navigation-1.svg)

![Roads driven on instance 2](map-navigation-2.svg)

![Roads driven on instance 1 in a single run](map-one-run-navigation-1.svg)

![Regret of each pair](regret-by-problem.svg)

![Where the time of a round goes](time-per-round.svg)
"""


def main(records: Path | None) -> None:
    """Write two sets of figures (the two instances, all problems), one page of tables, and the maps."""
    target = RESULTS / "navigation"
    target.mkdir(parents=True, exist_ok=True)
    results = read_run_table(RESULTS / "runs" / "navigation.csv")
    instances = pl.col("environment").str.starts_with("navigation-")
    pairs = ~instances | pl.col("agent").is_in(random_agents(results.runs))
    copy_figures(replace(results, runs=results.runs.filter(instances)), ("regret-curves", "time-per-round"))
    copy_figures(replace(results, runs=results.runs.filter(pairs)), ("regret-by-problem",))
    if records is not None:
        recorded = read_results(records)
        recorded = replace(recorded, runs=recorded.runs.filter(instances), plan=recorded.plan.clear())
        kinds = ("map", "map-one-run") if recorded.runs["seed"].n_unique() > 1 else ("map-one-run",)
        copy_figures(recorded, tuple(f"{kind}-navigation-{place}" for kind in kinds for place in (1, 2)))
    regret = regret_after(results)
    lines = [INTRODUCTION, *reference_lines(results), *instance_tables(regret), *pair_table(regret)]
    for name, section in (("default-navigation", fresh_table), ("navigation-noise", noise_tables)):
        if (runs := RESULTS / "runs" / f"{name}.csv").is_file():
            lines += section(read_run_table(runs))
    (target / "tables.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


def copy_figures(results: Results, names: tuple[str, ...]) -> None:
    """Draw all figures and keep those of these names that there are."""
    with TemporaryDirectory() as folder:
        write_figures(results, folder)
        for name in names:
            if (drawn := Path(folder) / f"{name}.svg").is_file():
                shutil.copyfile(drawn, RESULTS / "navigation" / f"{name}.svg")


def reference_lines(results: Results) -> list[str]:
    """What drivers lose who learn nothing."""
    found = {name: routes for name, routes in reference_routes(results).items() if name in INSTANCES}
    lines = [
        f"- {name}: " + ", ".join(f"{route.name} {route.regret:.1f} s a round" for route in routes)
        for name, routes in found.items()
    ]
    return ["## Drivers who always take one route", "", *lines, ""] if lines else []


def random_agents(runs: pl.DataFrame) -> list[str]:
    """The agents that drove between random pairs."""
    return runs.filter(pl.col("environment").str.starts_with("pair-"))["agent"].unique().to_list()


def regret_after(results: Results) -> pl.DataFrame:
    """Regret so far of every run: agent, environment, seed, stage, regret."""
    assert results.curve is not None
    so_far = results.curve.rename({"round": "stage", "cumulative": "regret"})
    runs = results.runs.select("run_id", "agent", "environment", "seed")
    return runs.join(so_far.filter(pl.col("stage").is_in([*STAGES, LATE])), on="run_id").drop("run_id")


def by_stage(regret: pl.DataFrame, of: str) -> pl.DataFrame:
    """A row per seed and agent or environment (`of`): regret after each stage, and a round's in the last stretch."""
    wide = regret.pivot(on="stage", index=[of, "seed"], values="regret")
    late = (pl.col("2000") - pl.col(str(LATE))) / (2000 - LATE)
    return wide.with_columns(late.alias("late"))


def instance_tables(regret: pl.DataFrame) -> list[str]:
    """A table per instance, the agent of least regret in the end first; those that stopped earlier come last."""
    lines = []
    for instance in ("navigation-1", "navigation-2"):
        wide = by_stage(regret.filter(pl.col("environment") == instance), "agent")
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


def fresh_table(results: Results) -> list[str]:
    """The default agent on seeds that decided nothing about it: a row per instance."""
    regret = by_stage(regret_after(results), "environment")
    seeds = regret["seed"]
    lines = [
        "",
        "## The default agent on fresh seeds",
        "",
        f"Seeds {seeds.min()} to {seeds.max()}, which decided nothing: thousand seconds of regret after 2,000 rounds,",
        "seconds a round in the last 500 rounds, and CPU seconds of a run.",
        "",
        "| instance | mean ± sd | least | greatest | late | CPU s |",
        "| --- " * 6 + "|",
    ]
    for instance in INSTANCES:
        part = regret.filter(pl.col("environment") == instance)
        ends = part["2000"] / 1000
        seconds = results.runs.filter(pl.col("environment") == instance)["cpu_seconds"]
        cells = (
            *(mean_and_sd(ends, 1), f"{ends.min():.1f}", f"{ends.max():.1f}"),
            *(mean_and_sd(part["late"], 0), f"{seconds.mean():.0f}"),
        )
        lines.append(f"| {instance} | {' | '.join(cells)} |")
    return lines


def mean_and_sd(values: pl.Series, decimals: int) -> str:
    """Of what is known of the values; a dash where nothing is."""
    mean, sd = values.mean(), values.std()
    return "–" if mean is None else plus_minus(mean, sd, decimals=decimals)


def pair_table(regret: pl.DataFrame) -> list[str]:
    """A row per random pair, and how often each agent had the least regret there."""
    part = regret.filter(pl.col("environment").str.starts_with("pair-") & (pl.col("stage") == 2000))
    agents = in_order(part["agent"].unique().to_list())
    wide = part.pivot(on="agent", index="environment", values="regret", aggregate_function="mean")
    wide = wide.sort("environment").drop_nulls()
    least = wide.select(pl.concat_list(agents).list.arg_min()).to_series()
    lines = [
        f"## {wide.height} random pairs",
        "",
        f"Thousand seconds of regret after 2,000 rounds, mean of {part['seed'].n_unique()} seeds.",
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


def by_noise(results: Results) -> Results:
    """Runs with a share of the noise as those of a study that varies it, without agents that are much like others."""
    shown = pl.col("environment").str.contains(" noise-") & ~pl.col("agent").is_in(NOT_DRAWN)
    name = pl.col("environment").str.split(" ").list
    share = name.get(1).str.strip_prefix("noise-").alias("value")
    varied = pl.lit("environment.noise").alias("varied")
    return replace(results, runs=results.runs.filter(shown).with_columns(share, varied, name.get(0)))


def noise_tables(results: Results) -> list[str]:
    """A table per instance: agents by what a driver sees of the noise, the least regret of each column in bold.

    Its figure is drawn too.
    """
    copy_figures(by_noise(results), ("sensitivity-environment-noise",))
    assert results.curve is not None
    ends = results.curve.filter(pl.col("round") == pl.col("round").max()).select("run_id", "cumulative")
    runs = results.runs.select("run_id", "agent", "environment", "seed").join(ends, on="run_id")
    agents = in_order(runs["agent"].unique().to_list())
    lines = [
        "",
        "## Noise",
        "",
        "![Regret over the share of the noise that drivers see](sensitivity-environment-noise.svg)",
        "",
        f"Thousand seconds of regret after {results.curve['round'].max():,} rounds, mean ± sd of "
        f"{runs['seed'].n_unique()} seeds, by what a driver sees.",
    ]
    for instance in ("navigation-1", "navigation-2"):
        columns = {
            text: runs.filter(pl.col("environment") == f"{instance} {name}") for name, text in NOISES.items()
        }
        cells = {
            (agent, text): part.filter(pl.col("agent") == agent)["cumulative"] / 1000
            for text, part in columns.items()
            for agent in agents
        }
        means = {key: values.mean() for key, values in cells.items()}
        least = {text: min(means[agent, text] for agent in agents) for text in columns}
        lines += [
            "",
            f"| {instance} | {' | '.join(columns)} |",
            "| --- " * (1 + len(columns)) + "|",
        ]
        for agent in agents:
            marks = ("**" if means[agent, text] == least[text] else "" for text in columns)
            texts = (mean_and_sd(cells[agent, text], 1) for text in columns)
            row = (f"{mark}{text}{mark}" for mark, text in zip(marks, texts, strict=True))
            lines.append(f"| {agent} | {' | '.join(row)} |")
    return lines


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
