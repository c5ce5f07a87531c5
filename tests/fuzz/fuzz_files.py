"""Forged agent files: each is loaded, and used where it loads, in a process that may crash or hang.

    python tests/fuzz/fuzz_files.py 20000 0        # cases, seed; then processes, and names of agents to try

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
import zipfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from copy import deepcopy
from pathlib import Path

import numpy as np

SECONDS = 60.0
MAX_BYTES = 1 << 28
#: What a worker may take beside what it has when it is ready.
MEMORY = 3 << 30
WIDTH = 4
NAMES = ["left", "right", "middle"]
NASTY = [
    None, True, False, 0, 1, -1, 2, 7, 255, 1 << 16, (1 << 31) - 1, 1 << 31, 1 << 40, (1 << 63) - 1, 1 << 63, 1 << 70,
    -(1 << 31), -(1 << 63), 10**30, 0.5, -0.0, 1e-300, 1e300, 1e308, float("nan"), float("inf"), -float("inf"), "", "x",
    "$array", "PCG64", "TETS", "os:system", [], {}, [0], [[]], {"$array": 0}, {"class": "Bandit"}, {"a": 1}, [None] * 5,
]  # fmt: skip


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


def forge(content, random):
    """A saved file with one to three changes, and what they are."""
    if random.random() < 0.03:
        return forge_bytes(content, random)
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        document = json.loads(archive.read("agent.json"))
        arrays = [np.load(io.BytesIO(archive.read(f"{i}.npy"))) for i in range(len(archive.namelist()) - 1)]
    forged = []
    for _ in range(random.integers(1, 4)):
        if arrays and random.random() < 0.6:
            forged.append(forge_array(arrays, random))
        else:
            forged.append(forge_json(document, random))
    return pack(document, arrays), forged


def pack(document, arrays):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("agent.json", json.dumps(document))
        for number, array in enumerate(arrays):
            member = io.BytesIO()
            np.save(member, array)
            archive.writestr(f"{number}.npy", member.getvalue())
    return buffer.getvalue()


def forge_bytes(content, random):
    forged = bytearray(content)
    if random.random() < 0.3:
        return bytes(forged[: random.integers(len(forged))]), ["cut"]
    for place in random.integers(len(forged), size=random.integers(1, 9)):
        forged[place] = random.integers(256)
    return bytes(forged), ["bytes"]


def containers(value, path=()):
    """All tables and lists of a document, and where they are."""
    if isinstance(value, dict | list):
        yield path, value
        parts = value.items() if isinstance(value, dict) else enumerate(value)
        for key, part in parts:
            yield from containers(part, (*path, key))


def forge_json(document, random):
    places = [place for place in containers(document) if len(place[1])]
    # Half of the time what the agent has learned, else its arguments too.
    inner = [place for place in places if place[0][:1] == ("state",)]
    path, holder = (inner or places)[random.integers(len(inner or places))]
    if random.random() < 0.3:
        path, holder = places[random.integers(len(places))]
    keys = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
    key = keys[random.integers(len(keys))]
    how = random.choice(["nasty", "nasty", "nasty", "near", "near", "delete", "swap", "add", "copy"])
    if how == "nasty":
        holder[key] = deepcopy(NASTY[random.integers(len(NASTY))])
    elif how == "near" and isinstance(holder[key], int | float) and not isinstance(holder[key], bool):
        holder[key] = holder[key] + int(random.choice([-2, -1, 1, 2, 10])) * random.choice([1, 1, 1.5])
    elif how == "delete":
        del holder[key]
    elif how == "swap":
        other = keys[random.integers(len(keys))]
        holder[key], holder[other] = holder[other], holder[key]
    elif how == "add" and isinstance(holder, dict):
        name = str(random.choice(["more", "class", "$array", "$$", "seed"]))
        holder[name] = deepcopy(NASTY[random.integers(len(NASTY))])
    else:
        _, other = places[random.integers(len(places))]
        holder[key] = json.loads(json.dumps(other))
    return f"{how} {'/'.join(map(str, (*path, key)))}"


def forge_array(arrays, random):
    number = int(random.integers(len(arrays)))
    array = arrays[number]
    how = random.choice(["values", "values", "values", "all", "shape", "dtype", "swap", "shuffle", "bits"])
    if how in ("values", "all", "bits") and array.size:
        array = np.array(array)
        flat = array.reshape(-1)
        places = slice(None) if how == "all" else random.integers(array.size, size=random.integers(1, 4))
        if how == "bits":
            raw = flat.view(np.uint8)
            raw[random.integers(raw.size, size=random.integers(1, 4))] = random.integers(256)
        elif array.dtype.names:
            name = str(random.choice(array.dtype.names))
            flat[name][places] = nasty_number(flat[name].dtype, random)
        else:
            flat[places] = nasty_number(array.dtype, random)
        arrays[number] = array
    elif how == "shape":
        arrays[number] = reshaped(array, random)
    elif how == "dtype" and not array.dtype.names:
        with np.errstate(all="ignore"):
            arrays[number] = array.astype(
                random.choice(["f4", "f8", "i4", "i8", "u1", "u8", "?", ">f4", ">i8", "f2"])
            )
    elif how == "shuffle" and array.size:
        arrays[number] = array[random.permutation(len(array))]
    else:
        other = int(random.integers(len(arrays)))
        arrays[number], arrays[other] = arrays[other], arrays[number]
    return f"{how} array {number}"


def nasty_number(dtype, random):
    if dtype.kind == "b":
        return bool(random.integers(2))
    if dtype.kind == "f":
        return float(random.choice([0.0, -1.0, 1e30, -1e30, np.nan, np.inf, -np.inf, 1e-30, 0.5, 2.0**24]))
    limits = np.iinfo(dtype)
    large = [limits.max, limits.min, limits.max // 2, limits.max - 15, 1 << 40]
    small = [-1, 0, 1, 2, 3, 5, 8, 13, 100, 1000]
    choices = large if random.random() < 0.5 else small
    return min(max(choices[random.integers(len(choices))], limits.min), limits.max)


def reshaped(array, random):
    how = random.integers(7)
    if how == 0:
        return array[: len(array) // 2]
    if how == 1:
        return array[:0]
    if how == 2:
        return np.concatenate([array, array]) if array.ndim else array
    if how == 3:
        return array[None]
    if how == 4:
        return array.reshape(-1)
    if how == 5:
        return np.asfortranarray(array.T)
    return array[..., :1] if array.ndim else array[None]


def main(cases=20_000, seed=0, processes=1, only=()):
    """Forge files, and count what comes of them; files that end in a defect are kept."""
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
