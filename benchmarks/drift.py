"""Regret after the first change, from the records of the study `drift` and of `drift-stationary`, which has none.

treebandit run drift --into results/drift && python benchmarks/drift.py results/drift
treebandit run drift-stationary --into results/stationary && python benchmarks/drift.py results/stationary
python benchmarks/drift.py clicks       false alarms of the detectors on clicks whose rate never changes
"""

import sys
from collections import defaultdict
from pathlib import Path

import numpy as np

from treebandit.drift import LARGEST_ERROR, Adwin
from treebandit.experiments import read_record
from treebandit.models.error_slopes import MOST_ROWS, rows_since_change


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


class Bounded(Adwin):
    """The detector with the bound of its authors, whatever the size of errors."""

    def _add(self, number):
        super()._add(number)
        self.greatest = 2.0


#: Name, class and δ; 10⁻³ with our bound is the one in use.
DETECTORS = (
    ("authors' bound", Bounded, 1e-4),
    ("our bound", Adwin, 1e-3),
    ("our bound", Adwin, 2e-3),
    ("our bound", Adwin, 1e-2),
)


def false_alarms(rate, detector, delta, streams=60, views=20_000):
    """In how many streams of clicks, whose rate is known and never changes, there is an alarm."""
    alarms = 0
    for seed in range(streams):
        clicks = np.random.default_rng(seed).random(views) < rate
        errors = (clicks - rate) / np.sqrt(rate * (1.0 - rate))
        alarms += detector(delta, every=8, tolerance=0.1).update(errors.tolist())
    return alarms


def false_slopes(rate, streams=60, views=20_000, columns=6):
    """In how many such streams errors seem to go with features; rates differ with half of the columns."""
    alarms = 0
    for seed in range(streams):
        random = np.random.default_rng(seed)
        contexts = random.standard_normal((views, columns)).astype(np.float32)
        rates = rate * np.exp(0.5 * contexts[:, : columns // 2].sum(axis=1) - 0.125 * (columns // 2))
        errors = (random.random(views) < rates) - rates
        errors = np.clip(errors / errors.std(), -LARGEST_ERROR, LARGEST_ERROR)
        alarms += any(
            rows_since_change(contexts[start:end], errors[start:end], 1.0, 1e-3)
            for end in range(64, views + 1, 8)
            for start in [max(end - MOST_ROWS, 0)]
        )
    return alarms


def clicks():
    for rate in (0.005, 0.01, 0.03):
        print(f"{rate:.1%} slopes of errors: {false_slopes(rate)} of 60 streams")
        for name, detector, delta in DETECTORS:
            print(f"{rate:.1%} {name:15s} {delta:g}: {false_alarms(rate, detector, delta)} of 60 streams")


if __name__ == "__main__":
    clicks() if sys.argv[1] == "clicks" else main(sys.argv[1])
