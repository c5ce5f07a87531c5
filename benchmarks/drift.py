"""Regret after the first change, from the records of the study `drift` and of `drift-stationary`, which has none.

treebandit run drift --into results/drift && python benchmarks/drift.py results/drift
treebandit run drift-stationary --into results/stationary && python benchmarks/drift.py results/stationary
"""

import sys
from collections import defaultdict
from pathlib import Path

import numpy as np

from treebandit.experiments import read_record


def main(folder):
    found = defaultdict(dict)
    for path in sorted(Path(folder).glob("*.parquet")):
        record = read_record(path)
        spec, regret = record.spec, record.frame["regret"].to_numpy()
        after = spec["environment"].get("change_every") or 0
        found[spec["environment"]["name"]].setdefault(spec["agent"]["name"], {})[spec["seed"]] = (
            regret[:after].sum(),
            regret[after:].sum(),
        )
    print("| | seeds | before | after the first change | share of `memory='all'` |")
    print("| --- | --- | --- | --- | --- |")
    for environment, agents in sorted(found.items()):
        for name, runs in sorted(agents.items()):
            base = agents.get(name.split(",")[0], runs)
            seeds = sorted(set(runs) & set(base))
            before, after = np.array([runs[seed] for seed in seeds]).T
            whole = np.array([base[seed] for seed in seeds])[:, 1]
            spread = after.std(ddof=1) if len(seeds) > 1 else 0.0
            print(
                f"| {environment}, {name} | {len(seeds)} | {before.mean():.0f} | {after.mean():.0f} ± {spread:.0f} | "
                f"{after.mean() / whole.mean():.2f} |"
            )


if __name__ == "__main__":
    main(sys.argv[1])
