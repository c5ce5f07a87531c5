"""Numbers of other packages' estimators on inputs that tests can make again: tests/evaluation/foreign.json.

Run with the interpreter of an environment that has obp 0.4.1 or vw-estimators, not the project's own:

    python -m venv obp && obp/bin/pip install --no-deps obp==0.4.1
    obp/bin/pip install numpy pandas scikit-learn scipy tqdm pyyaml matplotlib seaborn torch
    obp/bin/python benchmarks/foreign_estimators.py obp
    python -m venv vw && vw/bin/pip install vw-estimators==0.2.2
    vw/bin/python benchmarks/foreign_estimators.py vw-estimators

Each run replaces its own package's part of the file.
"""

import json
import sys
from importlib.metadata import version
from pathlib import Path

import numpy as np

FILE = Path(__file__).parent.parent / "tests" / "evaluation" / "foreign.json"
CASES = {"even": (0, 1_000, 4, 0.2), "skewed": (1, 3_000, 10, 0.005), "negative": (2, 500, 3, 0.05)}
TUNING = {"threshold": 5.0, "shrinkage": 20.0}


def inputs(seed, n, arms, floor):
    """The same numbers as `tests/evaluation/test_foreign.py` makes."""
    random = np.random.default_rng(seed)
    logged = random.dirichlet(np.ones(arms), n) * (1 - floor) + floor / arms
    target = random.dirichlet(np.ones(arms) / 2, n)
    action = (random.random(n)[:, None] > logged.cumsum(axis=1)).sum(axis=1).clip(0, arms - 1)
    predicted = random.random((n, arms))
    reward = (random.random(n) < predicted[np.arange(n), action]) + (seed - 1) * random.random(n)
    return action, reward.astype(float), logged[np.arange(n), action], target, predicted


def by_obp():
    from obp import ope

    made = {
        "ips": ope.InverseProbabilityWeighting(),
        "snips": ope.SelfNormalizedInverseProbabilityWeighting(),
        "dm": ope.DirectMethod(),
        "dr": ope.DoublyRobust(),
        "sndr": ope.SelfNormalizedDoublyRobust(),
        "switch-dr": ope.SwitchDoublyRobust(tau=TUNING["threshold"]),
        "shrinkage-dr": ope.DoublyRobustWithShrinkage(lambda_=TUNING["shrinkage"]),
    }
    found = {}
    for name, case in CASES.items():
        action, reward, pscore, target, predicted = inputs(*case)
        arguments = {
            "reward": reward,
            "action": action,
            "pscore": pscore,
            "action_dist": target[:, :, None],
            "estimated_rewards_by_reg_model": predicted[:, :, None],
            "position": np.zeros(len(action), int),
        }
        found[name] = {key: float(each.estimate_policy_value(**arguments)) for key, each in made.items()}
    return found


def by_vw():
    from estimators.bandits import ips, snips

    found = {}
    for name, case in CASES.items():
        action, reward, pscore, target, _ = inputs(*case)
        made = {"ips": ips.Estimator(), "snips": snips.Estimator()}
        for p_log, r, p_pred in zip(pscore, reward, target[np.arange(len(action)), action], strict=True):
            for each in made.values():
                each.add_example(float(p_log), float(r), float(p_pred))
        found[name] = {key: float(each.get()) for key, each in made.items()}
    return found


PACKAGES = {"obp": ("obp", by_obp), "vw-estimators": ("vw-estimators", by_vw)}


def main():
    name = sys.argv[1]
    package, run = PACKAGES[name]
    stored = json.loads(FILE.read_text()) if FILE.exists() else {"cases": {}, "packages": {}}
    stored["cases"] = CASES
    stored["tuning"] = TUNING
    stored["packages"][name] = {"version": version(package), "numbers": run()}
    FILE.write_text(json.dumps(stored, indent=1) + "\n")
    print(json.dumps(stored["packages"][name], indent=1))


if __name__ == "__main__":
    main()
