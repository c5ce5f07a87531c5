"""Does the default agent estimate rightly where contexts repeat, and what does that cost elsewhere?

python benchmarks/leakage.py constant                    estimates of a constant context
python benchmarks/leakage.py tables --into tables.json   discrete contexts x arms, with and without linear model
python benchmarks/leakage.py uci --into uci.json         the UCI sets, seeds 2000 to 2009
python benchmarks/leakage.py clicks --into clicks.json   ten offers with click rates of 1 to 8 %
python benchmarks/leakage.py compare before.json after.json

Results are written run by run, and a second call plays only what is missing. Only public names are used, so that the
script also runs with the PYTHONPATH of another version.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import defaultdict
from pathlib import Path

import numpy as np

from treebandit import Bandit, Candidates, Columns, HistogramForest, play_round
from treebandit.core import Outcome, Round
from treebandit.environments import Classification
from treebandit.oracles import best_arm

ROUNDS = {"tables": 3000, "clicks": 20_000, "uci": 10_000}
UCI = ("adult", "magic", "mushroom", "shuttle")
CLICKS = ("discrete", "numbers", "three-way")
CATEGORIES = (6, 5, 4, 3)
FOREST = HistogramForest(n_trees=80, max_depth=14, bootstrap=False, subsample=0.8)

AGENTS = {
    "default": lambda seed: Bandit(seed=seed),
    "no linear model": lambda seed: Bandit(FOREST, linear=False, seed=seed),
}


class Rates:
    """Rewards 0 or 1 with a probability for each arm that depends on the context; regret in expectation."""

    def __init__(self, contexts, columns, rates, seed):
        self.contexts, self.columns, self.rates = contexts, columns, rates
        self.random = np.random.default_rng(seed)
        self.arms = np.arange(rates.shape[1])
        self.t = -1

    def observe(self):
        self.t += 1
        rows = np.repeat(self.contexts[self.t : self.t + 1], len(self.arms), axis=0)
        return Round(Candidates(rows, self.arms, self.columns), self.oracle)

    def oracle(self, scores):
        return best_arm(scores, self.random)

    def pull(self, choice):
        rates = self.rates[self.t]
        reward = float(self.random.random() < rates[choice[0]])
        return Outcome(np.array([reward]), float(rates.max() - rates[choice[0]]))


def table(coding, contexts, arms, seed):
    """Every context pays by a table of its own; it comes as one category, or as the bits of its number."""
    random = np.random.default_rng((seed, contexts, arms))
    rates = random.uniform(0.1, 0.9, (contexts, arms))
    all_rows = np.arange(contexts)[:, None]
    if coding == "bits":
        all_rows = (all_rows >> np.arange(max((contexts - 1).bit_length(), 1))) & 1
    all_rows = all_rows.astype(np.float32)
    columns = Columns((contexts,)) if coding == "category" else Columns.numeric(all_rows.shape[1])
    drawn = random.integers(contexts, size=ROUNDS["tables"])
    return Rates(all_rows[drawn], columns, rates[drawn], (seed, 1)), all_rows, columns, rates


def clicks(kind, seed):
    """Ten offers, four categories and two numbers; click rates of 1 to 8 %."""
    random = np.random.default_rng((seed, CLICKS.index(kind)))
    n, arms = ROUNDS["clicks"], np.arange(10)
    codes = np.column_stack([random.integers(count, size=n) for count in CATEGORIES])
    numbers = random.normal(size=(n, 2))
    effect = np.zeros((n, 10))
    if kind != "three-way":
        for place, count in enumerate(CATEGORIES):
            effect += random.normal(size=(count, 10))[codes[:, place]]
    if kind == "numbers":
        effect += numbers @ random.normal(size=(2, 10)) * 1.5
    if kind == "three-way":
        effect += 2.0 * random.normal(size=(*CATEGORIES[:3], 10))[codes[:, 0], codes[:, 1], codes[:, 2]]
    rates = 0.01 + 0.07 / (1.0 + np.exp(1.0 - effect))
    contexts = np.column_stack([codes, numbers]).astype(np.float32)
    return Rates(contexts, Columns((*CATEGORIES, 0, 0)), rates[:, arms], (seed, 2))


def played(agent, environment, rounds):
    started = time.process_time()
    regret = sum(play_round(agent, environment)[1].regret for _ in range(rounds))
    return {"regret": regret, "seconds": time.process_time() - started, "weight": agent.linear_weight}


def play_table(make, problem, seed):
    coding, contexts, arms = problem.split()
    environment, rows, columns, rates = table(coding, int(contexts), int(arms), seed)
    agent = make(seed)
    result = played(agent, environment, ROUNDS["tables"])
    every = Candidates(
        np.repeat(rows, rates.shape[1], axis=0), np.tile(np.arange(rates.shape[1]), len(rows)), columns
    )
    mean = agent.estimate(every).mean.reshape(rates.shape)
    best = np.arange(len(rates)), rates.argmax(1)
    result["error"] = float(np.abs(mean - rates)[best].mean())
    result["bias"] = float((mean - rates)[best].mean())
    return result


def play_uci(make, problem, seed):
    environment = Classification(problem, seed=seed)
    return played(make(seed), environment, min(ROUNDS["uci"], environment.horizon))


def play_clicks(make, problem, seed):
    return played(make(seed), clicks(problem, seed), ROUNDS["clicks"])


PARTS = {
    "tables": (
        play_table,
        [
            f"{coding} {c} {k}"
            for c in (1, 2, 4, 16, 64)
            for k in (2, 5, 10)
            for coding in ("category", "bits")
        ],
        range(20),
    ),
    "uci": (play_uci, UCI, range(2000, 2010)),
    "clicks": (play_clicks, CLICKS, range(2000, 2010)),
}


def play_all(part, agents, into):
    play, problems, seeds = PARTS[part]
    done = json.loads(into.read_text()) if into.exists() else {}
    for problem in problems:
        for seed in seeds:
            for agent in agents:
                key = f"{problem}|{agent}|{seed}"
                if key not in done:
                    done[key] = play(AGENTS[agent], problem, seed)
                    into.write_text(json.dumps(done, indent=0))
    show(done)


def show(done):
    cells = defaultdict(list)
    for key, result in done.items():
        cells[tuple(key.split("|")[:2])].append(result)
    for (problem, agent), results in cells.items():
        parts = [
            f"{name} {np.mean([r[name] for r in results]):9.3f} ± {np.std([r[name] for r in results], ddof=1):7.3f}"
            for name in results[0]
        ]
        print(f"{problem:18s} {agent:16s} n={len(results):2d} ", "  ".join(parts))


def compare(before, after, agents):
    """Paired differences of the runs that two files share; or of two agents within them."""
    old, new = (json.loads(Path(path).read_text()) for path in (before, after))
    pairs = defaultdict(list)
    for key, result in new.items():
        problem, agent, seed = key.split("|")
        other = f"{problem}|{agents[0]}|{seed}"
        if agent == agents[1] and other in old:
            pairs[problem].append([(old[other][name], result[name]) for name in result])
    for problem, rows in pairs.items():
        values = np.array(rows)
        for place, name in enumerate(next(iter(new.values()))):
            a, b = values[:, place].T
            error = np.std(b - a, ddof=1) / np.sqrt(len(a)) if len(a) > 1 else np.nan
            change = 100 * (b.mean() / a.mean() - 1) if a.mean() else np.nan
            print(
                f"{problem:18s} {name:8s} n={len(a):2d} {a.mean():9.3f} -> {b.mean():9.3f}  "
                f"{(b - a).mean():+8.3f} ± {error:6.3f} (se)  {change:+6.2f} %"
            )


def constant():
    """One context, three arms that pay .2, .5 and .8, rows learned at once."""
    for n in (300, 3000, 30_000, 300_000):
        random = np.random.default_rng(0)
        arms = random.integers(0, 3, n)
        rewards = (random.random(n) < np.array([0.2, 0.5, 0.8])[arms]).astype(float)
        truth = [rewards[arms == arm].mean() for arm in range(3)]
        for name, make in AGENTS.items():
            agent = make(0)
            agent.learn(np.zeros((n, 1)), rewards, arms=arms)
            mean = agent.estimate(np.zeros((3, 1)), arms=[0, 1, 2]).mean
            print(f"{n:7d} rows  {name:16s} estimate {mean.round(3)}  mean of the rows {np.round(truth, 3)}")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("part", choices=["constant", "compare", "show", *PARTS])
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--into", type=Path)
    parser.add_argument("--agents", nargs="*", default=None)
    given = parser.parse_args()
    if given.part == "constant":
        constant()
    elif given.part == "compare":
        compare(*given.files, given.agents or ("default", "default"))
    elif given.part == "show":
        show(json.loads(given.files[0].read_text()))
    else:
        play_all(given.part, given.agents or ["default"], given.into)


if __name__ == "__main__":
    main()
