"""Is a good arm that failed in its first trials tried again? Small shops with few offers and noisy clicks.

python benchmarks/lockout.py --into lockout.json                       all problems, 60 seeds each
python benchmarks/lockout.py --into lockout.json --only shop --seeds 20
python benchmarks/lockout.py --failed 8           the shop, once the right offer has failed four times
python benchmarks/lockout.py --compare before.json after.json          paired by seed

Results are written run by run, and a second call plays only what is missing. Only public names are used, so that the
script also runs with the PYTHONPATH of another version.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from pathlib import Path

import numpy as np

from treebandit import Bandit

#: Offers, groups of visitors, chance of the right offer and of all others, visits.
PROBLEMS = {
    "shop": (3, 2, 0.6, 0.2, 1200),
    "two offers": (2, 2, 0.3, 0.1, 1200),
    "five offers": (5, 3, 0.4, 0.1, 1500),
    "ten offers": (10, 4, 0.5, 0.2, 2000),
    "rare clicks": (4, 2, 0.15, 0.05, 3000),
}
LAST = 500


def played(agent, problem, seed):
    """Regret in all, and in the last visits as a share of what one group costs that is always shown a wrong offer."""
    offers, groups, high, low, visits = PROBLEMS[problem]
    random = np.random.default_rng((seed, list(PROBLEMS).index(problem)))
    right = random.permutation(max(offers, groups))[:groups] % offers
    ages, members = random.integers(18, 80, visits), random.random(visits) < 0.5
    wrong = np.zeros(visits)
    for visit in range(visits):
        best = right[(ages[visit] - 18) * groups // 62]
        context = {"age": int(ages[visit]), "member": bool(members[visit])}
        row = int(agent.choose(context, arms=list(range(offers)))[0])
        bought = float(random.random() < (high if row == best else low))
        agent.learn(context, bought, arms=[row])
        wrong[visit] = row != best
    return {"regret": (high - low) * wrong.sum(), "late": wrong[-LAST:].sum() / (LAST / groups)}


def failed_first(seed, visits=800):
    """How often the young are shown a wrong offer, in all and in the last 200 visits, once theirs has failed."""
    random, agent, rows = np.random.default_rng((seed, 77)), Bandit(seed=seed), []

    def person():
        return {"age": int(random.integers(18, 80)), "member": bool(random.random() < 0.5)}

    for visit in range(120):
        one = person()
        old = one["age"] >= 49
        offer = 1 if old or visit % 2 == 0 else 2
        rows.append((one, offer, float(random.random() < (0.6 if old else 0.2))))
    for visit in range(4):
        rows.insert(10 * visit, ({**person(), "age": int(random.integers(18, 49))}, 0, 0.0))
    people, offers, paid = map(list, zip(*rows, strict=True))
    agent.learn(people, paid, arms=offers)
    wrong = np.zeros(visits)
    for visit in range(visits):
        one = person()
        right = int(one["age"] >= 49)
        offer = int(agent.choose(one, arms=[0, 1, 2])[0])
        agent.learn(one, float(random.random() < (0.6 if offer == right else 0.2)), arms=[offer])
        wrong[visit] = right == 0 and offer != 0
    return int(wrong.sum()), int(wrong[-200:].sum())


def play_all(into, problems, seeds):
    done = json.loads(into.read_text()) if into.exists() else {}
    for problem in problems:
        for seed in seeds:
            if f"{problem}|{seed}" not in done:
                done[f"{problem}|{seed}"] = played(Bandit(seed=seed), problem, seed)
                into.write_text(json.dumps(done, indent=0))
    for problem in problems:
        runs = [result for key, result in done.items() if key.split("|")[0] == problem]
        regret, late = (np.array([run[name] for run in runs]) for name in ("regret", "late"))
        print(
            f"{problem:12s} {len(runs):3d} runs, regret {regret.mean():6.1f}, worst {regret.max():6.1f}, "
            f"late {late.mean():.3f}, locked out {int((late > 0.5).sum())}"
        )


def compare(before, after):
    """Paired differences of the runs that two files share."""
    pairs = defaultdict(list)
    for key, result in after.items():
        if key in before:
            pairs[key.split("|")[0]].append(result["regret"] - before[key]["regret"])
    for problem, steps in pairs.items():
        error = np.std(steps, ddof=1) / np.sqrt(len(steps))
        print(f"{problem:12s} {len(steps):3d} pairs, regret {np.mean(steps):+6.1f} ± {error:.1f} (se)")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--into", type=Path)
    parser.add_argument("--only", nargs="*", choices=PROBLEMS, default=list(PROBLEMS))
    parser.add_argument("--seeds", type=int, default=60)
    parser.add_argument("--failed", type=int)
    parser.add_argument("--compare", nargs=2, type=Path)
    given = parser.parse_args()
    if given.failed:
        for seed in range(given.failed):
            wrong, late = failed_first(seed)
            print(f"seed {seed}: wrong {wrong} in all, {late} in the last 200 visits", flush=True)
    elif given.compare:
        compare(*(json.loads(path.read_text()) for path in given.compare))
    else:
        play_all(given.into, given.only, range(given.seeds))


if __name__ == "__main__":
    main()
