"""Plays every shipped agent for 300 rounds; digests of its choices and rewards hold behaviour while code moves.

`python tests/golden/agents.py` writes `digests.json` anew and prints regret before and after, agent by agent.
"""

import hashlib
import json
import sys
from pathlib import Path

import numpy as np
from llvmlite.binding import get_host_cpu_name

from treebandit import (
    TETS,
    TEUCB,
    UCB1,
    Bandit,
    BanditForest,
    BartTS,
    DecisionTreeTrees,
    EnsembleSampling,
    EpsilonGreedy,
    ExtraTrees,
    HistogramForest,
    LightGBMTrees,
    LinTS,
    LinUCB,
    NeuralTS,
    NeuralUCB,
    RandomForestTrees,
    TreeBootstrap,
    UCB1Normal,
    UCB1Tuned,
    Uniform,
    XGBoostTrees,
    play_round,
)
from treebandit.environments import Classification, Navigation

DIGESTS = Path(__file__).with_name("digests.json")
ARITHMETIC = "arithmetic"
ROUNDS, SEEDS = 300, (0, 1)
SMALL = {"n_trees": 20, "max_depth": 6}

AGENTS = {
    "treebandit": lambda **more: Bandit(**more),
    "TEUCB-XGBoost": lambda **more: TEUCB(XGBoostTrees(**SMALL), **more),
    "TETS-XGBoost": lambda **more: TETS(XGBoostTrees(**SMALL), **more),
    "TEUCB-RF": lambda **more: TEUCB(RandomForestTrees(**SMALL), **more),
    "TETS-RF": lambda **more: TETS(RandomForestTrees(**SMALL), **more),
    "TETS-HistogramForest": lambda **more: TETS(HistogramForest(**SMALL), sampling="leaves", **more),
    "TEUCB-ExtraTrees": lambda **more: TEUCB(ExtraTrees(**SMALL), **more),
    "TETS-LightGBM": lambda **more: TETS(LightGBMTrees(**SMALL), **more),
    "LinUCB": lambda **more: LinUCB(**more),
    "LinUCB-shared": lambda **more: LinUCB(shared=True, **more),
    "LinTS": lambda **more: LinTS(**more),
    "LinTS-shared": lambda **more: LinTS(shared=True, **more),
    "NeuralUCB": lambda **more: NeuralUCB(hidden=(20,), epochs=2, **more),
    "NeuralTS": lambda **more: NeuralTS(hidden=(20,), epochs=2, **more),
    "TreeBootstrap-DT": lambda **more: TreeBootstrap(DecisionTreeTrees(), **more),
    "TreeBootstrap-RF": lambda **more: TreeBootstrap(
        HistogramForest(**SMALL), mode="replicates", replicates=3, **more
    ),
    "TreeBootstrap-RF-exact": lambda **more: TreeBootstrap(RandomForestTrees(**SMALL), **more),
    "UCB1": lambda **more: UCB1(**more),
    "UCB1-Tuned": lambda **more: UCB1Tuned(**more),
    "UCB1-Normal": lambda **more: UCB1Normal(**more),
    "EnsembleSampling": lambda **more: EnsembleSampling(members=5, **more),
    "BartTS": lambda **more: BartTS(n_trees=20, draws=5, **more),
    "EpsilonGreedy": lambda **more: EpsilonGreedy(**more),
    "BanditForest": lambda **more: BanditForest(n_trees=20, bin_rows=50, **more),
    "Uniform": lambda **more: Uniform(**more),
}
TREES = ("TEUCB", "TETS")
#: Agents that need an arm's own rows many times over play the table only.
NOT_ON_ROADS = {"BartTS", "TreeBootstrap-RF", "TreeBootstrap-RF-exact"}


def cases():
    """(agent, environment, seed) of every digest."""
    for name in AGENTS:
        for environment in ("shuttle", "small-town"):
            if environment == "shuttle" or name not in NOT_ON_ROADS:
                yield from ((name, environment, seed) for seed in SEEDS)


def play(name, environment, seed):
    """Digest of choices and rewards, and the regret they add up to."""
    if environment == "shuttle":
        world, more = Classification("shuttle", seed=seed), {}
    else:
        world = Navigation("B2", "K3", roads="small-town", seed=seed)
        tree = name.startswith(TREES) or name == "treebandit"
        more = {"random_rounds": 10, "random_start": "rounds"} if tree else {}
        more |= {"arm_encoding": "none"} if name.startswith(TREES) else {}
        more |= {"random_rounds": 1} if name.startswith("TreeBootstrap") else {}
    agent = AGENTS[name](seed=seed, **more)
    digest, regret = hashlib.sha256(), 0.0
    for _ in range(ROUNDS):
        choice, outcome = play_round(agent, world)
        digest.update(choice.tobytes())
        digest.update(outcome.rewards.tobytes())
        regret += outcome.regret
    return digest.hexdigest()[:16], round(regret, 3)


def arithmetic():
    """How this machine rounds: processors differ in the last digits of exponentials and matrix products.

    Rewards on roads are real numbers, so their digests hold only where these are the same.
    """
    x = np.random.default_rng(0).normal(size=(64, 64))
    parts = (np.exp(x), np.log(np.abs(x)), x @ x, np.linalg.solve(x, x[0]), np.sqrt(np.abs(x)).sum(axis=0))
    content = get_host_cpu_name().encode() + b"".join(part.tobytes() for part in parts)
    return hashlib.sha256(content).hexdigest()[:16]


def key(name, environment, seed):
    """How a case is called in the file."""
    return f"{name} / {environment} / {seed}"


def main():
    """Write the digests of the code as it is, and show what changed."""
    old = json.loads(DIGESTS.read_text()) if DIGESTS.exists() else {}
    new = {ARITHMETIC: arithmetic()}
    for case in cases():
        if len(sys.argv) > 1 and case[0] not in sys.argv[1:]:
            new[key(*case)] = old[key(*case)]
            continue
        new[key(*case)] = play(*case)
        before, after = old.get(key(*case)), new[key(*case)]
        if before is None or before[0] != after[0]:
            print(f"{key(*case):45s} {before and before[1]} -> {after[1]}", flush=True)
    lines = (f"  {json.dumps(name)}: {json.dumps(value)}" for name, value in new.items())
    DIGESTS.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
