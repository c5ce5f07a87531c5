"""Speed, most of it as ratios measured in one run: `make bench`, or `python benchmarks/speed.py --only PART`.

Each line times the two things it compares in turns and takes the best of several turns, because machines are noisy; all
times but those of new processes are CPU seconds of the one thread, so that other work on the machine counts little.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from unittest import mock

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import numpy as np

from treebandit import TEUCB, LeafStatistics, TreeEnsembleRegressor, XGBoostTrees
from treebandit.core import Candidates, Columns
from treebandit.models.history import History
from treebandit.trees import leaf_cache


def best(call, repeats, turns=7):
    """CPU seconds of one call."""
    call()
    times = []
    for _ in range(turns):
        started = time.process_time()
        for _ in range(repeats):
            call()
        times.append((time.process_time() - started) / repeats)
    return min(times)


def in_turns(ours, theirs, repeats, turns=9):
    """Best CPU seconds of both, measured turn by turn."""
    ours(), theirs()
    pairs = [(best(ours, repeats, 1), best(theirs, max(repeats // 20, 1), 1)) for _ in range(turns)]
    return min(a for a, _ in pairs), min(b for _, b in pairs)


def cpu_seconds(agent, environment, rounds):
    """CPU time of playing that many rounds."""
    from treebandit import play_round

    started = time.process_time()
    for _ in range(rounds):
        play_round(agent, environment)
    return time.process_time() - started


def problem(n, width=15, seed=0):
    random = np.random.default_rng(seed)
    features = random.normal(size=(n, width)).astype(np.float32)
    targets = features[:, 0] * features[:, 1] + features[:, 2] + random.normal(size=n)
    return features, targets


def scoring():
    """Estimates through the public API against XGBoost's own prediction, one thread, 100 trees of depth 10."""
    import xgboost

    features, targets = problem(10_000)
    model = TreeEnsembleRegressor(XGBoostTrees()).fit(features, targets)
    agent = TEUCB(XGBoostTrees(), random_start="rounds", rebuild="never", seed=0)
    agent.learn(features, targets)
    parameters = {"max_depth": 10, "min_child_weight": 2, "nthread": 1}
    booster = xgboost.train(parameters, xgboost.DMatrix(features, targets), 100)
    booster.set_param({"nthread": 1})
    assert np.abs(model.predict(features) - booster.predict(xgboost.DMatrix(features))).max() < 0.5
    for rows, repeats, least in ((5651, 5, 2), (100, 100, None), (7, 400, None), (2, 800, 20)):
        part = np.ascontiguousarray(features[:rows])
        # Rows asked about again and again would be cached, and no longer walked as the library walks them.
        with mock.patch.object(leaf_cache, "FEWEST_ROWS", 10**9):
            ours, theirs = in_turns(
                lambda part=part: agent.estimate(part),
                lambda part=part: booster.inplace_predict(part),
                repeats,
            )
        goal = f"at least {least}" if least else ""
        yield (
            f"`estimate` of {rows:,} rows (mean, variance, count), XGBoost `inplace_predict` / ours",
            f"{theirs / ours:.1f} ({theirs * 1e6:,.0f} / {ours * 1e6:,.0f} µs)",
            goal,
        )


def decisions():
    """A whole decision and a whole update of TEUCB with two arms, 100 trees of depth 10 grown on 10,000 rows."""
    features, _ = problem(10_000, width=14)
    arms = np.random.default_rng(1).integers(0, 2, 10_000)
    agent = TEUCB(XGBoostTrees(), rebuild="never", seed=0)
    agent.learn(features, (features[:, 0] > 0) == arms, arms=arms)
    pair, both, row, one = features[:2].copy(), np.array([0, 1]), features[0], np.array([1])
    chosen = best(lambda: agent.choose(pair, both), 2000)
    yield "`choose` for two arms", f"{chosen * 1e6:.1f} µs", "under 40 µs"
    learned = best(lambda: agent.learn(row, 1.0, arms=one), 2000)
    yield "`learn` of one row between rebuilds", f"{learned * 1e6:.1f} µs", "under 40 µs"


def default_agent():
    """Decisions and updates of `Bandit` on Adult, and 10,000 rounds of it, environment included."""
    from treebandit import Bandit
    from treebandit.environments import Classification

    for rounds in (1_000, 10_000):  # the first time compiled code is loaded
        environment, agent = Classification("adult", seed=0), Bandit(seed=0)
        total = cpu_seconds(agent, environment, rounds)
    rows = environment.observe().candidates
    yield "10,000 rounds of Adult, treebandit, CPU s", f"{total:.1f}", "at most 5"
    scored = best(lambda: agent.score(rows), 2000)
    learned = best(lambda: agent.learn(rows[:1], [1.0]), 2000)
    yield (
        "treebandit on Adult: `score` of two arms, `learn` of one row",
        f"{scored * 1e6:.0f}, {learned * 1e6:.0f} µs",
        "decisions under 50 µs",
    )


def default_agent_long():
    """100,000 rounds of `Bandit` against 10,000, on Adult three times over."""
    from treebandit import Bandit
    from treebandit.datasets import load
    from treebandit.environments import Classification

    table = load("adult")
    table = replace(table, contexts=np.tile(table.contexts, (3, 1)), labels=np.tile(table.labels, 3))
    _, short, long = (
        cpu_seconds(Bandit(seed=0), Classification(table, seed=0), rounds)
        for rounds in (1_000, 10_000, 100_000)  # the first time compiled code is loaded
    )
    yield (
        "treebandit on Adult three times over, CPU s of 100,000 rounds / of 10,000",
        f"{long / short:.1f} ({long:.1f} / {short:.1f})",
        "at most 12",
    )


def rebuilding():
    """What a rebuild on 10,000 rows costs beside the library's own fit."""
    import xgboost

    from treebandit.trees.xgboost_trees import read_booster

    features, targets = problem(10_000)
    parameters = {"max_depth": 10, "min_child_weight": 2, "nthread": 1}
    started = time.process_time()
    booster = xgboost.train(parameters, xgboost.DMatrix(features, targets), 100)
    fit = time.process_time() - started
    forest = read_booster(booster, 0.3)
    flatten = best(lambda: read_booster(booster, 0.3), 3)
    measure = best(lambda: LeafStatistics.measure(forest, features, targets), 3)
    yield (
        "flatten + measure / XGBoost's fit, 10,000 rows",
        f"{(flatten + measure) / fit:.3f} ({flatten * 1e3:.1f} + {measure * 1e3:.1f} / {fit * 1e3:,.0f} ms)",
        "at most 0.25",
    )


def whole_run():
    """10,000 rounds with two arms: everything but the library's fits."""
    from treebandit.environments import Classification

    class Timed(XGBoostTrees):
        seconds = 0.0

        def fit(self, features, targets, *, seed):
            import xgboost

            def timed(call):
                def inner(*arguments, **options):
                    started = time.process_time()
                    try:
                        return call(*arguments, **options)
                    finally:
                        Timed.seconds += time.process_time() - started

                return inner

            with (
                mock.patch.object(xgboost, "DMatrix", timed(xgboost.DMatrix)),
                mock.patch.object(xgboost, "train", timed(xgboost.train)),
            ):
                return super().fit(features, targets, seed=seed)

    for name, categories in (("magic", "codes"), ("adult", "one_hot")):
        Timed.seconds = 0.0
        environment = Classification(name, seed=0)
        agent = TEUCB(Timed(), categories=categories, seed=0)
        total = cpu_seconds(agent, environment, 10_000)
        yield (
            f"10,000 rounds of {name.title()}, TEUCB-XGBoost, CPU s: all / but for the library's fits",
            f"{total:.1f} / {total - Timed.seconds:.2f} (fits {Timed.seconds / total:.0%})",
            "under 2 s; fits at least 85 %",
        )


def linear():
    """LinUCB on 20 columns of 40 categories each, which are 800 one-hot columns, as categories and as 0 and 1."""
    from treebandit import LinUCB

    random, arms, rounds = np.random.default_rng(0), np.arange(8), 10_000
    codes = random.integers(0, 40, (rounds, 20))
    ones = np.zeros((rounds, 800), np.float32)
    ones[np.arange(rounds)[:, None], 40 * np.arange(20) + codes] = 1.0
    means = ones @ random.normal(size=(800, 8)) / np.sqrt(20)
    tables = {
        "categories": (codes.astype(np.float32), Columns((40,) * 20)),
        "0/1": (ones, Columns.numeric(800)),
    }
    for name, (rows, columns) in tables.items():
        agent, started = LinUCB(seed=0), time.process_time()
        for row, mean in zip(rows, means, strict=True):
            offered = Candidates(np.repeat(row[None], 8, axis=0), arms, columns)
            chosen = agent.choose(offered)
            agent.learn(offered[chosen], mean[chosen] + 0.3 * random.standard_normal(1))
        yield (
            f"10,000 rounds of LinUCB, 8 arms, 800 one-hot columns given as {name}, CPU s",
            f"{time.process_time() - started:.1f}",
            "at most 15",
        )


def memory():
    """Bytes of the history over bytes of the rows and rewards in it."""
    history, row = (
        History(),
        Candidates(np.ones((1, 14), np.float32), np.zeros(1, np.intp), Columns.numeric(14)),
    )
    worst = 0.0
    for n in range(1, 20_001):
        history = history.appended(row, np.ones(1))
        if n >= 200:
            worst = max(worst, history.nbytes / (n * 15 * 4))
    yield (
        "history bytes / bytes of rows and rewards, worst of 200 to 20,000 rows",
        f"{worst:.2f}",
        "at most 1.3",
    )


def starting():
    """Imports and the first decision of a new process, compiled code cached before."""
    probe = (
        "import sys, time; t = time.perf_counter(); import treebandit; a = time.perf_counter() - t\n"
        "loaded = [m for m in ('numba', 'sklearn', 'xgboost', 'lightgbm', 'torch', 'polars') if m in sys.modules]\n"
        "agent = treebandit.TEUCB.load(sys.argv[1]); agent.choose([0.0] * 14, arms=[0, 1])\n"
        "print(a, time.perf_counter() - t, ' '.join(loaded) or 'none')"
    )
    agent = TEUCB(XGBoostTrees(), rebuild="never", seed=0)
    features, _ = problem(1000, width=14)
    agent.learn(features, features[:, 0], arms=np.arange(1000) % 2)
    path = Path("speed-agent.tmp")
    agent.save(path)
    try:
        runs = [
            subprocess.run(
                [sys.executable, "-c", probe, path], capture_output=True, text=True, check=True
            ).stdout.split(maxsplit=2)
            for _ in range(4)
        ]
    finally:
        path.unlink()
    quickest = min(runs, key=lambda run: float(run[1]))
    yield (
        f"`import treebandit` (libraries loaded: {quickest[2].strip()})",
        f"{float(quickest[0]) * 1e3:.0f} ms",
        "",
    )
    yield "import, load a saved agent, first decision", f"{float(quickest[1]):.2f} s", "under 1 s"


def driver(trees, rebuild="8 ln t"):
    """TEUCB as the navigation studies have it."""
    return TEUCB(trees, arm_encoding="none", random_start="rounds", random_rounds=10, rebuild=rebuild, seed=0)


def cpu_ms(agent, environment, rounds=60):
    """CPU ms of a round between rebuilds, medians: estimate, path, update, and all that the environment does."""
    clock, spans = time.process_time, []
    while len(spans) < rounds:
        marks, rebuilt = [clock()], agent.rebuild_seconds
        this_round = environment.observe()
        marks.append(clock())
        scores = agent.score(this_round.candidates)
        marks.append(clock())
        choice = this_round.oracle(scores)
        marks.append(clock())
        outcome = environment.pull(choice)
        marks.append(clock())
        agent.learn(this_round.candidates[choice], outcome.rewards)
        marks.append(clock())
        if agent.rebuild_seconds == rebuilt:
            spans.append(np.diff(marks))
    observe, estimate, path, pull, learn = 1e3 * np.median(spans, axis=0)
    return np.array([estimate, path, learn, observe + pull])


def navigation_rounds():
    """A round on the Luxembourg roads, rows cached between rebuilds or walked, trees grown on 150 paths."""
    from treebandit import RandomForestTrees, play_round
    from treebandit.environments import Navigation

    around = []
    for name, trees in (("XGBoost", XGBoostTrees()), ("random forest", RandomForestTrees())):
        environment = Navigation.instance("navigation-1", seed=0)
        agent = driver(trees, rebuild="every 150")
        for _ in range(160):
            play_round(agent, environment)
        walked, cached = [], []
        for _ in range(3):
            with mock.patch.object(leaf_cache, "FEWEST_ROWS", 10**9):
                walked.append(cpu_ms(agent, environment, 20))
            cached.append(cpu_ms(agent, environment, 20))
        walked, cached = np.min(walked, axis=0), np.min(cached, axis=0)
        around.append(cached[1] + cached[3])
        yield (
            f"navigation round, {name}, {len(environment.network):,} edges, CPU ms: walked / cached",
            f"{walked[:3].sum():.1f} / {cached[:3].sum():.1f} (estimate {walked[0]:.2f} / {cached[0]:.2f}, "
            f"path {cached[1]:.2f}, learn {cached[2]:.2f})",
            "at most 10, aim 3",
        )
    yield "environment and path alone, CPU ms a round", f"{min(around):.1f}", ""


def navigation_runs():
    """2,000 rounds on the Luxembourg roads: CPU time of TEUCB-XGBoost, memory of LinUCB with a model per edge."""
    from treebandit.environments import Navigation

    environment, agent = Navigation.instance("navigation-1", seed=0), driver(XGBoostTrees())
    seconds = cpu_seconds(agent, environment, 2000)
    yield (
        f"2,000 rounds of TEUCB-XGBoost, {len(agent.model.history):,} observed edges, CPU s",
        f"{seconds:.0f}",
        "under 300",
    )
    probe = (
        "import os; from treebandit import LinUCB, play_round; from treebandit.environments import Navigation\n"
        "def held(): return int(open('/proc/self/statm').read().split()[1]) * os.sysconf('SC_PAGE_SIZE')\n"
        "environment = Navigation.instance('navigation-1', seed=0)\n"
        "agent = LinUCB(exploration=1.0, seed=0); before = held()\n"
        "for _ in range(2000): play_round(agent, environment)\n"
        "driven = held() - before; everywhere = environment.observe().candidates\n"
        "agent.learn(everywhere, [-1.0] * len(everywhere)); agent.score(everywhere)\n"
        "print(driven / 1e6, (held() - before) / 1e6)"
    )
    run = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    driven, everywhere = map(float, run.stdout.split())
    yield (
        "memory that LinUCB takes in 2,000 rounds, a model per driven edge / once each of "
        f"{len(environment.network):,} edges has one",
        f"{driven:.0f} / {everywhere:.0f} MB",
        "under 200 MB",
    )


PARTS = (scoring, decisions, default_agent, rebuilding, whole_run, linear, memory, starting)
#: Asked for by name only.
LONG = (default_agent_long,)
#: These need the folder that TREEBANDIT_ROADS names.
ON_ROADS = (navigation_rounds, navigation_runs)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--only", help="one part, by the name of its function: scoring, navigation_rounds ..."
    )
    arguments = parser.parse_args()
    parts = [*PARTS, *(ON_ROADS if os.environ.get("TREEBANDIT_ROADS") else ())]
    if arguments.only:
        parts = [part for part in (*PARTS, *LONG, *ON_ROADS) if part.__name__ == arguments.only]
    print("| what | measured | limit |", "| --- | --- | --- |", sep="\n")
    for part in parts:
        for what, measured, limit in part():
            print(f"| {what} | {measured} | {limit} |", flush=True)


if __name__ == "__main__":
    main()
