"""Vowpal Wabbit and MABWiser on the same rounds as `Bandit`: regret and CPU time.

    python -m venv peers
    peers/bin/pip install '.[evaluation]' vowpalwabbit==9.11.9 mabwiser==2.7.4
    peers/bin/python benchmarks/peers.py [--seeds 3] [--only NAME] [--rounds 5000]
    peers/bin/python benchmarks/peers.py --write      # the tables, into docs/results/peers.md

Every finished run is a line of results/peers.jsonl and is not played again. Regret and CPU time are noted after 2,000
and 5,000 rounds; with `--rounds 2000` a run ends there, which spares time with slow agents. CPU seconds are those of
deciding and learning, with what a peer needs of Python on the way (Vowpal Wabbit's lines of text). What a user of
MABWiser does beforehand, one-hot columns and numbers scaled by the whole table, is not counted.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import json
import time
import warnings
from importlib.metadata import version
from itertools import product
from pathlib import Path

import numpy as np

import treebandit
from treebandit.environments import Classification, Synthetic

ROOT = Path(__file__).parents[1]
RUNS, PAGE = ROOT / "results" / "peers.jsonl", ROOT / "docs" / "results" / "peers.md"

MARKS = (2_000, 5_000)

#: Made from a seed. All rewards are 0 or 1 but those of the last, which are numbers.
PROBLEMS = {
    "adult": lambda seed: Classification("adult", seed=seed),
    "magic": lambda seed: Classification("magic", seed=seed),
    "mushroom": lambda seed: Classification("mushroom", seed=seed),
    "shuttle": lambda seed: Classification("shuttle", seed=seed),
    "linear": lambda seed: Synthetic("linear", arms=5, features=10, seed=seed),
    "interactions": lambda seed: Synthetic("interactions", arms=5, features=10, seed=seed),
    "linear, 10 arms": lambda seed: Synthetic(
        "linear", arms=10, features=20, rewards="continuous", noise=0.5, seed=seed
    ),
}

#: Vowpal Wabbit: `c` is the context, `a` the arm. Every setting crosses them; the last crosses pairs of columns, too.
VOWPAL = {
    "VW epsilon 0.05": "--epsilon 0.05 -q ca",
    "VW softmax": "--softmax --lambda 10 -q ca",
    "VW bag 5": "--bag 5 -q ca",
    "VW cover 3": "--cover 3 -q ca",
    "VW regcb": "--regcbopt --mellowness 0.001 --cb_min_cost {least} --cb_max_cost {most} -q ca",
    "VW squarecb": "--squarecb --gamma_scale 100 -q ca",
    "VW squarecb, pairs": "--squarecb --gamma_scale 100 -q ca --interactions cca",
}


class Ours:
    """An agent of this package, by `choose` or by `decide`, whose probability can be logged."""

    def __init__(self, agent, *, decide=False):
        self.agent, self.decide = agent, decide

    def choose(self, t, candidates):
        if self.decide:
            self.decision = self.agent.decide(candidates)
            return int(self.decision.rows[0])
        self.candidates = candidates
        return int(self.agent.choose(candidates)[0])

    def learn(self, t, row, reward):
        if self.decide:
            self.agent.learn(self.decision, reward)
        else:
            self.agent.learn(self.candidates[[row]], [reward])


class VowpalWabbit:
    """Costs are negative rewards; numbers are `name:value`, categories `name=value`, missing values are left out."""

    def __init__(self, options, columns, arms, seed):
        from vowpalwabbit import Workspace

        self.vw = Workspace(f"--cb_explore_adf {options} --quiet --random_seed {seed}")
        self.random = np.random.default_rng(seed)
        self.signs = ["=" if count else ":" for count in columns.categories]
        self.arms = [f"|a arm={arm}" for arm in range(arms)]

    def choose(self, t, candidates):
        row = candidates.contexts[0].tolist()
        words = [
            f"x{i}{sign}{x:.7g}" for i, (sign, x) in enumerate(zip(self.signs, row, strict=True)) if x == x
        ]
        self.lines = ["shared |c " + " ".join(words), *self.arms]
        pmf = np.asarray(self.vw.predict(self.lines))
        chosen = int(self.random.choice(len(pmf), p=pmf / pmf.sum()))
        self.probability = pmf[chosen]
        return chosen

    def learn(self, t, row, reward):
        self.lines[1 + row] = f"0:{-reward}:{self.probability} {self.lines[1 + row]}"
        self.vw.learn(self.lines)


class MABWiser:
    """Learns after every round, as all do here; the first rounds try the arms in turn, because `fit` needs rows."""

    def __init__(self, policy, neighbours, rows, arms, seed, *, turns=2):
        from mabwiser.mab import MAB

        self.mab = MAB(list(range(arms)), policy, neighbours, seed=seed)
        self.rows, self.arms, self.begin, self.start = rows, arms, turns * arms, []

    def choose(self, t, candidates):
        return t % self.arms if t < self.begin else int(self.mab.predict(self.rows[t : t + 1]))

    def learn(self, t, row, reward):
        if t + 1 < self.begin:
            self.start.append((row, reward))
        elif t + 1 == self.begin:
            rows, rewards = zip(*self.start, (row, reward), strict=True)
            self.mab.fit(list(rows), list(rewards), self.rows[: t + 1])
        else:
            self.mab.partial_fit([row], [reward], self.rows[t : t + 1])


def mabwiser(name):
    """Learning policy, neighbourhood policy, and whether it gets one-hot columns."""
    from mabwiser.mab import LearningPolicy as Learning
    from mabwiser.mab import NeighborhoodPolicy as Neighbours

    return {
        "MABWiser LinUCB 1": (Learning.LinUCB(alpha=1.0), None, True),
        "MABWiser LinUCB 0.1": (Learning.LinUCB(alpha=0.1), None, True),
        "MABWiser LinGreedy": (Learning.LinGreedy(epsilon=0.05), None, True),
        "MABWiser LinTS 0.1": (Learning.LinTS(alpha=0.1), None, True),
        "MABWiser tree": (Learning.EpsilonGreedy(epsilon=0.05), Neighbours.TreeBandit(), False),
        "MABWiser 20 nearest": (Learning.EpsilonGreedy(epsilon=0.05), Neighbours.KNearest(20), True),
    }[name]


OURS = ["Bandit, choose", "Bandit, decide", "LinUCB"]
MABWISER = [
    "MABWiser LinUCB 1",
    "MABWiser LinUCB 0.1",
    "MABWiser LinGreedy",
    "MABWiser LinTS 0.1",
    "MABWiser tree",
    "MABWiser 20 nearest",
]
AGENTS = [*OURS, *VOWPAL, *MABWISER]


def coded(contexts, columns, *, one_hot):
    """What a user of MABWiser does beforehand, with the whole table at hand: scaled numbers, categories as columns."""
    blocks = []
    for place, count in enumerate(columns.categories):
        column = contexts[:, place].astype(np.float64)
        if count and one_hot:
            blocks.append((column[:, None] == np.arange(count)).astype(np.float64))
        else:
            column = np.where(np.isnan(column), -1.0 if count else np.nanmean(column), column)
            blocks.append(((column - column.mean()) / (column.std() or 1.0))[:, None])
    if one_hot:
        blocks.append(np.ones((len(contexts), 1)))
    return np.hstack(blocks)


def make(name, problem, seed, rounds):
    """The agent of this name for this problem."""
    environment = PROBLEMS[problem](seed)
    first = environment.observe().candidates
    if name == "LinUCB":
        return Ours(treebandit.LinUCB(seed=seed))
    if name in OURS:
        return Ours(treebandit.Bandit(seed=seed), decide=name.endswith("decide"))
    if name in VOWPAL:
        least, most = (-8, 8) if problem == "linear, 10 arms" else (-1, 0)
        return VowpalWabbit(VOWPAL[name].format(least=least, most=most), first.columns, len(first), seed)
    policy, neighbours, one_hot = mabwiser(name)
    contexts = [first.contexts[0].copy()]
    for _ in range(rounds - 1):
        environment.pull([0])
        contexts.append(environment.observe().candidates.contexts[0].copy())
    rows = coded(np.array(contexts), first.columns, one_hot=one_hot)
    turns = max(2, -(-20 // len(first))) if neighbours else 2  # 20 neighbours want 20 rows
    return MABWiser(policy, neighbours, rows, len(first), seed, turns=turns)


def play(name, problem, seed, rounds):
    """[regret, CPU seconds] of one run, after each number of rounds in MARKS."""
    environment, agent = PROBLEMS[problem](seed), make(name, problem, seed, rounds)
    regret, seconds, marks = 0.0, 0.0, {}
    for t in range(rounds):
        candidates = environment.observe().candidates
        begun = time.process_time()
        row = agent.choose(t, candidates)
        seconds += time.process_time() - begun
        outcome = environment.pull([row])
        regret += outcome.regret
        begun = time.process_time()
        agent.learn(t, row, float(outcome.rewards[0]))
        seconds += time.process_time() - begun
        if t + 1 in MARKS:
            marks[str(t + 1)] = [regret, seconds]
    return marks


def tables(runs, seeds):
    """Regret, mean ± sd over the seeds with the least of a column bold, and CPU seconds, after each of MARKS."""
    for rounds in MARKS:
        found = {}
        for run in runs:
            if str(rounds) in run["after"] and run["seed"] < seeds:
                found.setdefault((run["agent"], run["problem"]), []).append(run["after"][str(rounds)])
        found = {key: np.array(values) for key, values in found.items() if len(values) == seeds}
        agents = [agent for agent in AGENTS if all((agent, problem) in found for problem in PROBLEMS)]
        least = {problem: min(found[agent, problem][:, 0].mean() for agent in agents) for problem in PROBLEMS}
        for what in ("regret", "CPU seconds"):
            yield f"| {what} after {rounds:,} rounds | {' | '.join(PROBLEMS)} |\n| --- |{' --- |' * len(PROBLEMS)}"
            for agent in agents:
                cells = []
                for problem in PROBLEMS:
                    regret, seconds = found[agent, problem].T
                    text = f"{regret.mean():.0f} ± {regret.std(ddof=1):.0f}"
                    best = f"**{text}**" if regret.mean() == least[problem] else text
                    cells.append(best if what == "regret" else f"{seconds.mean():.2g}")
                yield f"| {agent} | {' | '.join(cells)} |"
            yield ""


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=max(MARKS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", default="", help="agents whose name begins so")
    parser.add_argument("--write", action="store_true", help="play nothing, write docs/results/peers.md")
    given = parser.parse_args()
    RUNS.parent.mkdir(exist_ok=True)
    runs = [json.loads(line) for line in RUNS.read_text().splitlines()] if RUNS.exists() else []
    if given.write:
        write(runs, given.seeds)
        return
    warnings.simplefilter("ignore")
    done = {(run["agent"], run["problem"], run["seed"]) for run in runs if str(given.rounds) in run["after"]}
    for seed, problem, agent in product(range(given.seeds), PROBLEMS, AGENTS):
        if agent.startswith(given.only) and (agent, problem, seed) not in done:
            if agent in OURS:
                play(agent, problem, 99, 300)  # compiles, or reads from the cache, before the clock runs
            run = {"agent": agent, "problem": problem, "seed": seed}
            run["after"] = play(agent, problem, seed, given.rounds)
            with RUNS.open("a") as file:
                file.write(json.dumps(run) + "\n")
            print(*run.values(), flush=True)


def write(runs, seeds):
    """Put the tables between the marks of the page."""
    begin, end = "<!-- tables -->\n", "<!-- end -->"
    page = PAGE.read_text()
    head, tail = page[: page.index(begin) + len(begin)], page[page.index(end) :]
    used = ", ".join(
        f"{name} {version(name)}" for name in ("numpy", "vowpalwabbit", "mabwiser", "scikit-learn")
    )
    text = "\n".join(tables(runs, seeds))
    PAGE.write_text(f"{head}\n{text}\nSeeds 0 to {seeds - 1}; mean ± sd. Versions: {used}.\n\n{tail}")


if __name__ == "__main__":
    main()
