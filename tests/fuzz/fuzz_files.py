"""Forged agent files: each is loaded, and used where it loads, in a process that may crash or hang.

    PYTHONPATH=tests python tests/fuzz/fuzz_files.py 20000 0   # cases, seed; then processes, and names of agents to try

A file may be refused with a SavedFileError, or load and then work. Anything else is a defect, and its file is kept.
"""

import collections
import faulthandler
import io
import json
import resource
import selectors
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import numpy as np

SECONDS = 60.0
MAX_BYTES = 1 << 28
#: What a worker may take beside what it has when it is ready.
MEMORY = 3 << 30
WIDTH = 4
NAMES = ["left", "right", "middle"]


def recipes():
    """Agents, and what they are asked about: name -> (agent, kind of rows)."""
    from treebandit import (
        TETS,
        TEUCB,
        UCB1,
        Bandit,
        BanditForest,
        EpsilonGreedy,
        HistogramForest,
        LightGBMTrees,
        LinTS,
        LinUCB,
        NeuralTS,
        RandomForestTrees,
        TreeBootstrap,
        UCB1Normal,
        Uniform,
        XGBoostTrees,
    )

    trees = HistogramForest(n_trees=11, max_depth=4)
    forest = RandomForestTrees(n_trees=3, max_depth=3)
    start = {"random_rounds": 2, "seed": 0}
    return {
        "bandit": (Bandit(HistogramForest(n_trees=6, max_depth=4), seed=0), "names"),
        "bandit-frame": (Bandit(HistogramForest(n_trees=6, max_depth=4), seed=0), "frame"),
        "bandit-wide": (Bandit(HistogramForest(n_trees=3, max_depth=3), seed=0), "wide"),
        "bandit-many": (
            Bandit(HistogramForest(n_trees=3, max_depth=3), random_rounds=1, random_start="rounds", seed=0),
            "many",
        ),
        "bandit-categories": (Bandit(HistogramForest(n_trees=3, max_depth=3), seed=0), "categories"),
        "bandit-memory": (Bandit(HistogramForest(n_trees=3, max_depth=3), memory="auto", seed=0), "numbers"),
        "linucb-memory": (LinUCB(memory=20, seed=0), "numbers"),
        "bandit-hot": (Bandit(trees, arm_encoding="one_hot", seed=0), "numbers"),
        "teucb": (TEUCB(trees, **start), "numbers"),
        "teucb-frame": (TEUCB(forest, categories="one_hot", **start), "frame"),
        "tets": (TETS(trees, arm_encoding="one_hot", sampling="leaves", **start), "names"),
        "tets-none": (TETS(trees, **start), "none"),
        "xgboost": (TETS(XGBoostTrees(n_trees=3, max_depth=3, options={"max_bin": 16}), **start), "numbers"),
        "lightgbm": (TEUCB(LightGBMTrees(n_trees=3, max_depth=3), **start), "frame"),
        "bootstrap": (TreeBootstrap(**start), "numbers"),
        "bootstrap-models": (TreeBootstrap(forest, mode="replicates", replicates=2, **start), "names"),
        "bootstrap-frame": (TreeBootstrap(categories="one_hot", **start), "frame"),
        "linucb": (LinUCB(seed=0), "names"),
        "linucb-frame": (LinUCB(seed=0), "frame"),
        "lints-shared": (LinTS(shared=True, seed=0), "numbers"),
        "neural": (NeuralTS(hidden=[4], epochs=1, seed=0), "names"),
        "neural-full": (NeuralTS(hidden=[3], epochs=1, matrix="full", arm_encoding="none", seed=0), "frame"),
        "forest": (BanditForest(n_trees=4, bin_rows=10, radius=0.01, seed=0), "names"),
        "forest-frame": (BanditForest(n_trees=4, bin_rows=10, radius=0.01, seed=0), "frame"),
        "greedy": (EpsilonGreedy(TEUCB(trees, random_rounds=1), seed=0), "names"),
        "ucb": (UCB1(seed=0), "names"),
        "ucb-normal": (UCB1Normal(seed=0), "numbers"),
        "uniform": (Uniform(seed=0), "names"),
    }


def rows_of(kind, n, random):
    """Contexts and arms of n rows."""
    X = random.normal(size=(n, 40 if kind == "wide" else WIDTH)).astype(np.float32)
    if kind == "none":
        return X, None
    arms = random.integers(100 if kind == "many" else 3, size=n)
    if kind == "categories":
        import pandas as pd

        codes = random.integers(90, size=n)
        return pd.DataFrame({"x": X[:, 0], "kind": [f"c{code}" for code in codes]}), arms.tolist()
    labels = arms.tolist() if kind in ("numbers", "wide", "many") else [NAMES[arm] for arm in arms]
    if kind == "frame":
        import pandas as pd

        return pd.DataFrame(
            {"x": X[:, 0], "y": X[:, 1], "kind": [["a", "b", "c"][i % 3] for i in range(n)]}
        ), labels
    return X, labels


def learn(agent, kind, n, random):
    n *= 20 if kind in ("many", "categories") else 1  # enough for what only many arms or categories have
    contexts, arms = rows_of(kind, n, random)
    agent.learn(contexts, random.integers(2, size=n).astype(float), arms=arms, new_arms=True)


def make_files(folder):
    """Every agent, fresh, with a few rows, and with many."""
    for name, (agent, kind) in recipes().items():
        random = np.random.default_rng(1)
        agent.save(folder / f"{name}.0")
        learn(agent, kind, 7, random)
        agent.save(folder / f"{name}.1")
        for _ in range(20):
            contexts, arms = rows_of(kind, 3, random)
            agent.choose(contexts, arms=arms)
            learn(agent, kind, 2, random)
        agent.save(folder / f"{name}.2")


def use(agent, kind):
    """All that a loaded agent can be asked for; errors of the package are answers too."""
    from treebandit.errors import TreebanditError

    random = np.random.default_rng(2)
    actions = [
        lambda: agent.estimate(*rows_of(kind, 5, random)),
        lambda: agent.choose(*rows_of(kind, 3, random)),
        lambda: learn(agent, kind, 1, random),
        lambda: agent.choose(*rows_of(kind, 300, random)),
        lambda: learn(agent, kind, 30, random),
        lambda: agent.choose(*rows_of(kind, 3, random)),
        lambda: agent.estimate(*rows_of(kind, 5, random)),
    ]
    for action in actions:
        with suppress(TreebanditError):
            action()
    with tempfile.TemporaryDirectory() as folder, suppress(TreebanditError):
        agent.save(Path(folder) / "again")


def attempt(path):
    """What comes of a file: refused, fine, or the raw error that it ended in."""
    import treebandit
    from treebandit.errors import SavedFileError

    kind = KINDS_OF_ROWS[Path(path).name.partition(".")[0]]
    try:
        agent = treebandit.load(path, max_bytes=MAX_BYTES)
    except SavedFileError:
        return "refused"
    except BaseException:
        return "raw error in load: " + traceback.format_exc(limit=-6)
    try:
        use(agent, kind)
    except BaseException:
        return "raw error in use: " + traceback.format_exc(limit=-6)
    return "fine"


KINDS_OF_ROWS = {}


def work():
    """A worker: reads a path a line, and answers with a line of JSON."""
    faulthandler.enable()
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    answers = io.TextIOWrapper(io.FileIO(1, "w", closefd=False), write_through=True)
    sys.stdout = sys.stderr
    KINDS_OF_ROWS.update({name: kind for name, (_, kind) in recipes().items()})
    with tempfile.TemporaryDirectory() as folder:
        make_files(Path(folder))  # compiles what it needs, before the clock runs
    taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + MEMORY,) * 2)
    answers.write('"ready"\n')
    for line in sys.stdin:
        answers.write(json.dumps(attempt(line.strip())) + "\n")


class Worker:
    """A process that loads files, and another one where it crashed or hung."""

    def __init__(self):
        self.process = None

    def ask(self, path):
        if self.process is None:
            self.process = subprocess.Popen(
                [sys.executable, __file__, "--worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
            self._answer(600.0)
        self.process.stdin.write(f"{path}\n".encode())
        self.process.stdin.flush()
        return self._answer(SECONDS)

    def _answer(self, seconds):
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            if not selector.select(seconds):
                self.end()
                return "hang"
        line = self.process.stdout.readline()
        if line:
            return json.loads(line)
        code = self.process.wait()
        self.process = None
        return f"crash {code}"

    def end(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


def main(cases=20_000, seed=0, processes=1, only=()):
    """Forge files, and count what comes of them; files that end in a defect are kept."""
    from fuzz.forging import (
        forge,  # not at the top: workers, which forge nothing, are started without this path
    )

    began = time.perf_counter()
    folder = Path(tempfile.mkdtemp(prefix="fuzz-files-"))
    make_files(folder)
    files = [path for path in sorted(folder.iterdir()) if not only or path.stem in only]
    originals = {path.name: path.read_bytes() for path in files}
    counts, defects = collections.Counter(), []
    lock = threading.Lock()

    def play(share):
        worker = Worker()
        for case in range(share, cases, processes):
            random = np.random.default_rng([seed, case])
            name = str(random.choice(sorted(originals)))
            content, forged = forge(originals[name], random)
            path = folder / f"{name}.case-{seed}-{case}"
            path.write_bytes(content)
            answer = worker.ask(path)
            with lock:
                counts[answer.partition(":")[0]] += 1
                if sum(counts.values()) % 1000 == 0:
                    print(dict(counts), flush=True)
            if answer in ("refused", "fine"):
                path.unlink()
            else:
                defects.append((path, forged, answer))
        worker.end()

    with ThreadPoolExecutor(processes) as pool:
        list(pool.map(play, range(processes)))
    for path in folder.iterdir():
        if ".case-" not in path.name:
            path.unlink()
    for path, forged, answer in defects[:40]:
        print(path, forged, answer, sep="\n", end="\n\n")
    if not defects:
        folder.rmdir()
    crashes = sum(number for answer, number in counts.items() if answer.startswith("crash"))
    raw = sum(number for answer, number in counts.items() if answer.startswith("raw"))
    result = {
        "cases": cases,
        "refused": counts["refused"],
        "loaded and fine": counts["fine"],
        "raw errors": raw,
        "crashes": crashes,
        "hangs": counts["hang"],
    }
    print("files:", ", ".join(f"{number} {what}" for what, number in result.items()), end=" ")
    print(f"(seed {seed}, {time.perf_counter() - began:.0f} s)")
    return result


if __name__ == "__main__":
    if sys.argv[1:] == ["--worker"]:
        work()
    else:
        found = main(*map(int, sys.argv[1:4]), only=sys.argv[4:])
        sys.exit(bool(found["raw errors"] or found["crashes"] or found["hangs"]))
