"""How often do nominal 95 % intervals hold the truth? Simulated logs of the shop; writes docs/results/coverage.md.

    nice -n 10 python benchmarks/interval_coverage.py [--repetitions 2000]
    nice -n 10 python benchmarks/interval_coverage.py --rule    # when to refuse, on logs of other seeds

Every repetition draws a log, evaluates one target policy on it, and asks whether the interval holds its true value.
Nothing depends on the machine but the time: seeds are the number of the repetition.
"""

import argparse
import multiprocessing
import pickle
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from treebandit.core import Candidates, Columns
from treebandit.evaluation import (
    Sample,
    WeightDiagnostics,
    bootstrap,
    contributions,
    normal,
    sequence,
    time_uniform,
)
from treebandit.evaluation.generated import shop_rewards
from treebandit.evaluation.reward_models import TreePredictor, default_learner, folds_of

FILE = Path(__file__).parent.parent / "docs" / "results" / "coverage.md"
SIZES = (100, 300, 1_000, 3_000, 10_000)
#: Least probability of each of the three drinks in the log; the target gives its drink 1.
FLOORS = {"even log": 0.2, "skewed log": 0.02}
#: Less than the defaults of `evaluate` (5 folds, 50 trees, 1,000 resamples), so that 20,000 logs take minutes.
FOLDS, TREES, RESAMPLES = 2, 10, 300


def draw(n, floor, seed):
    """Contexts (n, 2), chosen arms, weights and rewards of one log; the target plays tea from 50 on, else water."""
    random = np.random.default_rng([seed, n])
    hour, age = random.integers(8, 20, n), random.integers(18, 80, n)
    logged = np.full((n, 3), floor)
    logged[np.arange(n), np.where(hour < 12, 0, 1)] = 1 - 2 * floor
    chosen = (random.random(n)[:, None] > logged.cumsum(axis=1)).sum(axis=1).clip(0, 2)
    reward = (random.random(n) < shop_rewards(hour, age)[np.arange(n), chosen]).astype(float)
    target = np.where(age >= 50, 1, 2)
    weight = (chosen == target) / logged[np.arange(n), chosen]
    contexts = np.column_stack([hour, age]).astype(np.float32)
    return contexts, chosen, target, weight, reward, logged[np.arange(n), target]


def is_answered(weight, logged):
    """Whether `evaluate` would give a number: logged is the probability of the target's own arm."""
    expected_effective = len(weight) ** 2 / (1 / logged).sum()
    return WeightDiagnostics.of(weight, expected_effective=expected_effective).refusal() is None


def truth():
    hour, age = (part.ravel() for part in np.meshgrid(np.arange(8, 20), np.arange(18, 80)))
    rows = np.arange(len(hour))
    return float(shop_rewards(hour, age)[rows, np.where(age >= 50, 1, 2)].mean())


def predictions(contexts, chosen, target, reward, seed):
    """What models that did not learn a decision predict for its arm and for the target's."""
    columns = Columns.numeric(2)
    fold = folds_of(np.arange(len(reward)), FOLDS)
    found = np.empty((2, len(reward)))
    for each in range(FOLDS):
        others, mine = np.flatnonzero(fold != each), np.flatnonzero(fold == each)
        model = TreePredictor(replace(default_learner(), n_trees=TREES), seed=seed)
        model.learn(Candidates(contexts[others], chosen[others], columns), reward[others])
        for place, arms in enumerate((chosen, target)):
            found[place, mine] = model.predict(Candidates(contexts[mine], arms[mine], columns))
    return found


def simulate(name, n, seeds):
    """Name of estimator and interval -> what held the truth, and lengths; and what was answered."""
    value, floor = truth(), FLOORS[name]
    held, length, answered = {}, {}, []
    for seed in seeds:
        contexts, chosen, target, weight, reward, logged = draw(n, floor, seed)
        answered.append(is_answered(weight, logged))
        sample = Sample(reward, weight, *predictions(contexts, chosen, target, reward, seed))
        found = {}
        for estimator in ("ips", "snips", "dr"):
            values = contributions(estimator, sample)
            found[f"{estimator}, normal"] = normal(values)
            found[f"{estimator}, bootstrap"] = bootstrap(values, resamples=RESAMPLES, seed=seed)
        found["ips, time-uniform at the end"] = time_uniform(reward, weight, reward_range=(0, 1))
        for key, each in found.items():
            held.setdefault(key, []).append(each.holds(value))
            length.setdefault(key, []).append(each.high - each.low)
        if seed % 8 == 0:  # a whole sequence costs more than all the rest
            key = "ips, time-uniform at all times"
            steps = sequence(reward, weight, reward_range=(0, 1), points=12)
            held.setdefault(key, []).append(all(each.holds(value) for _, each in steps))
            length.setdefault(key, []).append(steps[-1][1].high - steps[-1][1].low)
    return held, length, answered


def parallel(pool, name, n, repetitions):
    """`simulate` in parts; only the order of the repetitions differs."""
    parts = pool.starmap(simulate, [(name, n, range(start, repetitions, 16)) for start in range(16)])
    held, length = ({key: [] for key in parts[0][0]} for _ in range(2))
    answered = {key: [] for key in parts[0][0]}
    for one, two, three in parts:
        for key in one:
            held[key] += one[key]
            length[key] += two[key]
            # Sequences are drawn for every eighth seed, which are whole parts.
            answered[key] += three[: len(one[key])]
    return held, length, {key: np.array(each) for key, each in answered.items()}


def table(results):
    """Rows: estimator and interval; columns: number of decisions. Coverage in %, and mean length below."""
    names = list(next(iter(results.values()))[0])
    lines = ["| estimator, interval | " + " | ".join(f"n = {n:,}" for n in results) + " |"]
    lines.append("| --- |" + " --- |" * len(results))
    for name in names:
        cells = []
        for held, length, answered in results.values():
            got, wide = np.array(held[name]), np.mean(length[name])
            kept = got[answered[name]]
            among = f" [{100 * kept.mean():.1f}]" if 0.02 < answered[name].mean() < 1 else ""
            cells.append(f"{100 * got.mean():.1f}{among} ({wide:.3f})")
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    refused = [f"{100 * (1 - each['ips, normal'].mean()):.0f} %" for _, _, each in results.values()]
    lines.append("| refused: not enough evidence | " + " | ".join(refused) + " |")
    return lines


#: Logs on which the rule of when to refuse is tried: it was made after looking at seeds below 2,000.
RULE_FLOORS, RULE_SEEDS = (0.1, 0.05, 0.02, 0.01, 0.005), range(10_000, 12_000)


def judged(n, floor, seeds):
    """By rule: (n,) whether a log is answered; by estimator: (n,) whether the normal interval holds the truth."""
    value = truth()
    answered, held = {"all": [], "chosen": [], "size": []}, {"ips": [], "snips": []}
    for seed in seeds:
        _, _, _, weight, reward, logged = draw(n, floor, seed)
        found = WeightDiagnostics.of(weight)
        answered["all"].append(is_answered(weight, logged))
        answered["chosen"].append(found.refusal() is None)
        answered["size"].append(found.effective >= 30)
        for name, each in held.items():
            each.append(weight.any() and normal(contributions(name, Sample(reward, weight))).holds(value))
    return ({name: np.array(each) for name, each in part.items()} for part in (answered, held))


def rule_table():
    """How many logs each rule answers, and how often their intervals hold the truth."""
    lines = [
        "## When there is no answer: the rule on other logs",
        "",
        f"`python benchmarks/interval_coverage.py --rule`: the same shop and target, {len(RULE_SEEDS):,} logs a row of "
        f"seeds {RULE_SEEDS[0]:,} to {RULE_SEEDS[-1]:,}, not used when the rule was made, and other weights. "
        "Answered: % of the logs for which `evaluate` gives a number. Hold the truth: % of the normal intervals "
        "of IPS and of SNIPS among these (– for fewer than 40 logs).",
        "",
        "| weights up to | n | answered | IPS, SNIPS hold the truth | answered, only the choice's probability known | "
        "IPS, SNIPS | an effective size of 30 alone | IPS, SNIPS |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for floor in RULE_FLOORS:
        for n in SIZES:
            answered, held = judged(n, floor, RULE_SEEDS)
            cells = [f"{1 / floor:.0f}", f"{n:,}"]
            for rule in answered.values():
                cells.append(f"{100 * rule.mean():.1f} %")
                # Fewer than 40 logs tell nothing of a share near 95 %.
                few = rule.sum() < 40
                cells.append(
                    "–" if few else ", ".join(f"{100 * each[rule].mean():.1f}" for each in held.values())
                )
            lines.append(f"| {' | '.join(cells)} |")
            print(lines[-1], flush=True)
    return lines


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument(
        "--rule", action="store_true", help="print how often the rule refuses; nothing is written"
    )
    parser.add_argument("--repetitions", type=int, default=2_000)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--only", choices=FLOORS, help="one kind of log; nothing is written")
    parser.add_argument(
        "--cells", type=Path, help="a folder that keeps finished cells, to go on after a stop"
    )
    given = parser.parse_args()
    if given.rule:
        rule_table()
        return
    repetitions, pool = given.repetitions, multiprocessing.Pool(given.workers)
    lines = [
        "# Coverage of the intervals",
        "",
        f"`python benchmarks/interval_coverage.py`: {repetitions:,} simulated logs a cell (sequences: "
        f"{repetitions // 8:,}), seeds 0 to {repetitions - 1:,}; nominal 95 %. Logs of the generated shop, three arms; "
        f"the target plays tea for visitors from 50 on and water for others, and is worth {truth():.4f}. DR is "
        f"cross-fitted in {FOLDS} folds with a forest of {TREES} trees, and the bootstrap resamples {RESAMPLES} times. "
        "Cells: % of intervals that hold the truth (mean length); in brackets [ ] the % among logs that `evaluate` "
        "answers, where it refuses some. The standard error of 95 % is "
        f"{100 * np.sqrt(0.95 * 0.05 / repetitions):.1f} points.",
        "",
    ]
    for name, floor in FLOORS.items():
        if given.only not in (None, name):
            continue
        results = {}
        for n in SIZES:
            started = time.perf_counter()
            kept = given.cells and given.cells / f"{name}-{n}-{repetitions}.pickle"
            if kept and kept.exists():
                results[n] = pickle.loads(kept.read_bytes())
            else:
                results[n] = parallel(pool, name, n, repetitions)
            if kept:
                kept.write_bytes(pickle.dumps(results[n]))
            print(name, n, f"{time.perf_counter() - started:.0f} s", flush=True)
        lines += [f"## {name.capitalize()}: weights up to {1 / floor:.0f}", "", *table(results), ""]
        print("\n".join(lines), flush=True)
    if not given.only:
        FILE.write_text("\n".join([*lines, *rule_table(), "", *NOTES]))


NOTES = [
    "## What to take",
    "",
    "- Just above the limit of 30 intervals are still too short: the few logs of 1,000 decisions with weights up to 50 "
    "that are answered hold the truth in 86 to 92 %. At an effective sample size of some 80 to 300 it is 92 to 97 %.",
    "- The studentised bootstrap is better than the normal interval on small logs with even weights, and not on skewed "
    "ones, where it is longer and for SNIPS and DR holds the truth less often up to 300 decisions.",
    "- Time-uniform intervals hold at all times at once, so each single look holds far more often than 95 %; they are "
    "two to three times as long.",
    "- An effective sample size of 30 alone would have answered 14 to 50 % of the logs of 100 and 300 decisions "
    "with weights of 100 and more; their IPS intervals hold the truth in 0 to 7 %, because the decisions of great "
    "weight had not come yet. The whole rule answers none of these. It also asks what the logged probabilities "
    "promise, and whether the mean weight lies between 0.5 and 2; where only the probability of the choice is "
    "logged, the second question alone does nearly as well.",
    "- What is answered holds the truth in 86 to 95 %: least where the effective sample size is just above 30 "
    "(weights up to 100, 3,000 decisions).",
    "",
]

if __name__ == "__main__":
    main()
