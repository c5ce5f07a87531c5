"""Shipped studies, changed at random: each gives a Study that can be built, or one sentence of our errors.

python tests/fuzz/fuzz_studies.py [CASES] [SEED]

It limits the memory of its process and takes its alarm signal, so it has a process of its own.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import random
import resource
import signal
import sys
import tempfile
import tomllib
import traceback
from collections import Counter
from copy import deepcopy
from itertools import islice
from pathlib import Path
from typing import Any

from treebandit.errors import MissingLogError, RoadsError, StudyError, TreebanditError
from treebandit.experiments import load_study, shipped_studies
from treebandit.experiments.build import build_agent, build_environment
from treebandit.experiments.study_file import STUDIES

MEMORY = 4 << 30
SECONDS = 60

words = str.split
NUMBERS = [0, 1, -1, 2, 7, 0.5, -0.5, 1e-300, 1e300, 2**31, 2**63, -(2**63), 10**18, 10**40, 1 << 20000]
NUMBERS += [float("nan"), float("inf"), float("-inf"), -0.0, 1e9, 12345678, True, False]
TEXTS = words(
    "x unlimited adult mushroom TEUCB LinUCB XGBoostTrees [bold] x[/y] a/b ../.. / . é 树 🌲 nan None {} %s"
)
TEXTS += [
    "",
    " ",
    "TETS [v2]",
    "a\nb",
    "a\tb",
    "a\0b",
    "\x1b[31m",
    "\u202e",
    "\u2028",
    "x" * 5000,
    "every 0",
    "0 ln t",
]
TEXTS += words("quick quik nowhere nowhere.toml self.toml small-town /etc/passwd my.csv")
CLASSES = words(
    "math:sqrt nowhere:X : nowhere: :x json: ..:x os.path:join collections:OrderedDict TopK best_arm"
)
CLASSES += words(
    "Classification Synthetic Navigation Delayed DescribedArms Bandit Uniform TreeBootstrap NeuralTS"
)
CLASSES += words("EpsilonGreedy DecisionTreeTrees LightGBMTrees HistogramForest")
KEYS = words(
    "name class seed data csv parquet roads label batch rounds sha256 trees agents agent environments"
)
KEYS += words(
    "environment vary values parameter seeds title agents_of exploration rebuild n_trees max_depth noise"
)
KEYS += ["arms", "features", "x", "", "é", "a.b", "self"]
PATHS = words("agent environment agent.seed environment.seed agent.name agent.class environment.csv agent. .")
PATHS += words("agent..x agent.trees agent.trees.n_trees.x environment.rounds environment.name")
DATES = [datetime.date(2020, 1, 2), datetime.time(3, 4), datetime.datetime(2020, 1, 2, 3, 4)]


def value(random: random.Random, depth: int = 0) -> Any:
    """Anything that TOML can say."""
    kind = random.randrange(7 if depth < 3 else 4)
    if kind < 4:
        return random.choice([NUMBERS, TEXTS, CLASSES + PATHS, DATES][kind])
    if kind == 4:
        return [value(random, depth + 1) for _ in range(random.randrange(4))]
    return {random.choice(KEYS): value(random, depth + 1) for _ in range(random.randrange(4))}


def places(table: Any) -> list[tuple[Any, Any]]:
    """Every (container, key) of a tree of tables and lists."""
    items = table.items() if isinstance(table, dict) else enumerate(table) if isinstance(table, list) else ()
    return [place for key, item in items for place in ((table, key), *places(item))]


def near(random: random.Random, old: Any) -> Any:
    """A value like the old one."""
    if isinstance(old, bool):
        return not old
    if isinstance(old, int | float):
        old = old if abs(old) < 1e30 else 7
        return random.choice(
            [-old, old * 1000, old + 0.5, float(old), str(old), [old], old**9, 0, {"class": old}]
        )
    if isinstance(old, str):
        cut = random.randrange(len(old) + 1)
        changed = [
            old[:cut] + old[cut + 1 :],
            old[:cut] + "[/]" + old[cut:],
            old.upper(),
            [old],
            {"name": old},
            old * 9,
        ]
        return random.choice(changed)
    return random.choice([[old], {"class": old}, {"name": "x", "x": old}, "x", [old, old], [], {}])


def mutate(random: random.Random, table: dict[str, Any]) -> None:
    """Change one place of a study, in place."""
    holder, key = random.choice(places(table) or [(table, "x")])
    action = random.randrange(7)
    if key not in holder if isinstance(holder, dict) else False:
        holder[key] = value(random)
    elif action == 0:
        del holder[key]
    elif action == 1:
        holder[key] = value(random)
    elif action == 2:
        holder[key] = near(random, holder[key])
    elif action == 3 and isinstance(holder, dict):
        holder[random.choice(KEYS)] = holder.pop(key)
    elif action == 4 and isinstance(holder, list):
        holder.append(random.choice([holder[key], value(random)]))
    elif action == 5:
        other, its_key = random.choice(places(table))
        with contextlib.suppress(KeyError, IndexError):
            holder[key] = deepcopy(other[its_key])
    elif isinstance(holder, dict):
        holder[random.choice(KEYS)] = value(random)
    if random.random() < 0.1:
        table["vary"] = {"parameter": random.choice(PATHS), "values": [value(random), value(random)]}


def as_toml(item: Any) -> str:
    """A value as inline TOML."""
    if isinstance(item, bool):
        return str(item).lower()
    if isinstance(item, str):
        return json.dumps(item, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(item, int):
        return hex(item) if item >= 0 else str(item)
    if isinstance(item, list):
        return f"[{', '.join(map(as_toml, item))}]"
    if isinstance(item, dict):
        return f"{{{', '.join(f'{as_toml(key)} = {as_toml(one)}' for key, one in item.items())}}}"
    return item.isoformat() if isinstance(item, datetime.date | datetime.time) else repr(item)


def variant(random: random.Random, texts: list[str]) -> str:
    """One study, changed in its text or in its values."""
    text = random.choice(texts)
    if random.random() < 0.15:
        for _ in range(random.randint(1, 3)):
            start = random.randrange(len(text))
            text = (
                text[:start]
                + random.choice(["", "[", "]", '"', "=", "\n", "0", "x"])
                + text[start + random.randrange(9) :]
            )
        return text
    table = tomllib.loads(text)
    for _ in range(random.randint(1, 3)):
        mutate(random, table)
    return "\n".join(f"{as_toml(key)} = {as_toml(item)}" for key, item in table.items())


def try_study(path: Path) -> bool:
    """Load a study and build its first runs; false where it is refused with one sentence."""
    try:
        study = load_study(path)
    except StudyError as error:
        message = str(error)
    else:
        message = ""
    if message:
        assert "\n" not in message, f"several lines: {message!r}"
        assert len(message) < 2000, f"{len(message)} characters: {message[:100]!r}"
        return False
    for run in islice(study.runs(), 12):
        run.plan_row(), json.dumps(run.to_dict())
        with contextlib.suppress(RoadsError, MissingLogError):
            build_environment(run.environment, seed=1)
        build_agent(run.agent, seed=1)
    return True


def main(cases: int = 7000, seed: int = 0, *, show: int = 20) -> Counter[str]:
    """Try so many variants; prints and gives how many were accepted, refused, or ended in a raw error."""
    generator, counts, shown = random.Random(seed), Counter(cases=cases), Counter()
    texts = [(STUDIES / f"{name}.toml").read_text(encoding="utf-8") for name in shipped_studies()]
    for run in load_study("all-uci").select(seeds=1, environments=("magic",)).runs():
        build_agent(run.agent, seed=0)  # a library that the alarm stops while it is imported stays broken
    taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + MEMORY,) * 2)
    signal.signal(signal.SIGALRM, _too_slow)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "self.toml"
        (Path(folder) / "my.csv").write_text("x,y\n1,a\n2,b\n")
        for case in range(cases):
            path.write_text(variant(generator, texts), encoding="utf-8")
            signal.alarm(SECONDS)
            try:
                counts["accepted" if try_study(path) else "refused"] += 1
            except (Exception, TooSlow) as error:
                kind = "other" if isinstance(error, TreebanditError) else "raw"
                counts[f"{kind} errors"] += 1
                last = traceback.extract_tb(error.__traceback__)[-1]
                where = f"{type(error).__name__} at {Path(last.filename).name}:{last.lineno}"
                shown[where] += 1
                if shown[where] == 1 and len(shown) <= show:
                    print(f"case {case}: {where}: {str(error)[:200]}")
            finally:
                signal.alarm(0)
    names = ("cases", "accepted", "refused", "raw errors", "other errors")
    print(", ".join(f"{counts[name]} {name}" for name in names))
    for where, count in shown.most_common(show):
        print(f"{count:6} {where}")
    return counts


class TooSlow(BaseException):
    """A case takes longer than SECONDS; no `except Exception` may swallow it."""


def _too_slow(*_: Any) -> None:
    raise TooSlow


if __name__ == "__main__":
    counted = main(*map(int, sys.argv[1:]))
    sys.exit(bool(counted["raw errors"] + counted["other errors"]))
