"""The picture of the README: the default agent and others on the four UCI sets, from docs/results/runs.

python scripts/write_comparison.py (needs matplotlib, of the extra docs)
"""

from __future__ import annotations

from pathlib import Path

import polars as pl

from treebandit.reports import read_run_table

RESULTS = Path(__file__).parents[1] / "docs" / "results"
SETS = ("adult", "magic", "mushroom", "shuttle")
#: Agent -> the table that has its runs.
SHOWN = {
    "treebandit": "default-seeds",
    "TEUCB-XGBoost": "paper-uci",
    "TETS-RF": "paper-uci",
    "TreeBootstrap-RF": "paper-uci",
    "NeuralUCB": "paper-uci",
    "LinUCB": "paper-uci",
}
SEEDS = 10
FIRST, OTHERS = "#1b7837", "#8c96a3"


def regrets(agent: str) -> dict[str, tuple[float, float]]:
    """Data set -> mean and standard deviation of an agent's final regret over the seeds that all agents have."""
    runs = read_run_table(RESULTS / "runs" / f"{SHOWN[agent]}.csv").runs
    own = runs.filter(pl.col("agent") == agent, pl.col("seed") < SEEDS, pl.col("environment").is_in(SETS))
    final = pl.col("final_regret")
    rows = own.group_by("environment").agg(final.mean().alias("mean"), final.std().alias("sd")).rows()
    return {name: (mean, deviation) for name, mean, deviation in rows}


def main() -> None:
    """Write docs/results/comparison.svg."""
    import matplotlib.pyplot as plt

    rows = {agent: regrets(agent) for agent in SHOWN}
    plt.rcParams.update(
        {"font.size": 10, "svg.fonttype": "none", "font.family": "sans-serif", "svg.hashsalt": "0"}
    )
    figure, axes = plt.subplots(1, 4, figsize=(10, 2.5), sharey=True, layout="constrained")
    for axis, name in zip(axes, SETS, strict=True):
        for place, (agent, found) in enumerate(reversed(rows.items())):
            mean, deviation = found[name]
            colour = FIRST if agent == "treebandit" else OTHERS
            axis.barh(
                place,
                mean,
                height=0.62,
                color=colour,
                xerr=deviation,
                error_kw={"ecolor": "#3f4752", "lw": 1},
            )
            axis.annotate(
                f" {mean:.0f}",
                (mean + deviation, place),
                xytext=(2, 0),
                textcoords="offset points",
                va="center",
                fontsize=9,
            )
        axis.set_title(name.capitalize(), loc="left", fontsize=11)
        axis.set_xlim(0, 1.22 * max(sum(found[name]) for found in rows.values()))
        axis.spines[["top", "right", "left"]].set_visible(False)
        axis.tick_params(left=False)
        axis.locator_params(axis="x", nbins=4)
    axes[0].set_yticks(range(len(rows)), list(reversed(rows)))
    figure.supxlabel(
        f"regret at the end, mean and standard deviation of {SEEDS} seeds; less is better", fontsize=9
    )
    figure.savefig(RESULTS / "comparison.svg", metadata={"Date": None}, facecolor="white")


if __name__ == "__main__":
    main()
