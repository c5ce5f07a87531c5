"""The picture of the README: the default agent and others on the four UCI sets, from the tables in docs/results.

python scripts/write_comparison.py (needs matplotlib, of the extra docs)
"""

from __future__ import annotations

import re
from pathlib import Path

import matplotlib.pyplot as plt

RESULTS = Path(__file__).parents[1] / "docs" / "results"
SETS = ("adult", "magic", "mushroom", "shuttle")
#: Agent -> the page that has its row.
SHOWN = {
    "treebandit": "default.md",
    "TEUCB-XGBoost": "paper-uci.md",
    "TETS-RF": "paper-uci.md",
    "TreeBootstrap-RF": "paper-uci.md",
    "NeuralUCB": "paper-uci.md",
    "LinUCB": "paper-uci.md",
}
FIRST, OTHERS = "#1b7837", "#8c96a3"


def row(page: str, agent: str) -> dict[str, tuple[float, float]]:
    """Data set -> mean and standard deviation of an agent's final regret, read from a page's first table."""
    lines = (RESULTS / page).read_text(encoding="utf-8").splitlines()
    header = next(line for line in lines if line.startswith("| agent |"))
    names = [cell.split(" (")[0].strip() for cell in header.strip("|").split("|")]
    cells = next(line for line in lines if line.startswith(f"| {agent} |")).strip("|").split("|")
    found = {}
    for name, cell in zip(names, cells, strict=True):
        if name in SETS:
            mean, deviation = re.findall(r"[\d.]+", cell.replace("*", ""))[:2]
            found[name] = float(mean), float(deviation)
    return found


def main() -> None:
    """Write docs/results/comparison.svg."""
    rows = {agent: row(page, agent) for agent, page in SHOWN.items()}
    plt.rcParams.update(
        {"font.size": 10, "svg.fonttype": "none", "font.family": "sans-serif", "svg.hashsalt": "0"}
    )
    figure, axes = plt.subplots(1, 4, figsize=(10, 2.5), sharey=True, layout="constrained")
    for axis, name in zip(axes, SETS, strict=True):
        for place, (agent, regrets) in enumerate(reversed(rows.items())):
            mean, deviation = regrets[name]
            colour = FIRST if agent == "treebandit" else OTHERS
            axis.barh(
                place,
                mean,
                height=0.62,
                color=colour,
                xerr=deviation,
                error_kw={"ecolor": "#3f4752", "lw": 1},
            )
            axis.text(mean + deviation, place, f" {mean:.0f}", va="center", fontsize=9)
        axis.set_title(name.capitalize(), loc="left", fontsize=11)
        axis.set_xlim(0, 1.22 * max(sum(regrets[name]) for regrets in rows.values()))
        axis.spines[["top", "right", "left"]].set_visible(False)
        axis.tick_params(left=False)
        axis.locator_params(axis="x", nbins=4)
    axes[0].set_yticks(range(len(rows)), list(reversed(rows)))
    figure.supxlabel("regret at the end, mean and standard deviation of 10 seeds; less is better", fontsize=9)
    figure.savefig(RESULTS / "comparison.svg", metadata={"Date": None}, facecolor="white")


if __name__ == "__main__":
    main()
