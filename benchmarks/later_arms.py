"""An arm comes when the others are known: regret of the next 1,000 rounds, and how often it was played.

python benchmarks/later_arms.py
"""

from __future__ import annotations

import numpy as np

from treebandit import Bandit


class Problem:
    """Arms whose means are linear, not linear, or click rates; the last one comes later and is better by `worth`."""

    def __init__(self, kind: str, arms: int, columns: int, worth: float, seed: int) -> None:
        self.random = random = np.random.default_rng(seed)
        self.kind, self.arms, self.columns, self.worth = kind, arms, columns, worth
        self.slopes = random.normal(size=(arms + 1, columns)) / np.sqrt(columns)
        self.rates = random.uniform(0.01, 0.04, arms + 1)
        self.effects = 0.2 * random.normal(size=(arms + 1, columns, 4))

    def context(self) -> np.ndarray:
        if self.kind == "clicks":
            return self.random.integers(4, size=self.columns).astype(float)
        return self.random.normal(size=self.columns)

    def means(self, context: np.ndarray) -> np.ndarray:
        if self.kind == "clicks":
            effects = self.effects[:, np.arange(self.columns), context.astype(int)].sum(1)
            return self.rates * np.exp(effects) * np.append(np.ones(self.arms), self.worth)
        means = self.slopes @ context
        if self.kind == "not linear":
            means = np.tanh(3.0 * means) * np.sign(context[0])
        return means + np.append(np.zeros(self.arms), self.worth)

    def pay(self, mean: float) -> float:
        return (
            float(self.random.random() < mean) if self.kind == "clicks" else mean + 0.3 * self.random.normal()
        )


def play(problem: Problem, rows: int, rounds: int = 1000) -> tuple[float, int]:
    """Regret, and how often the new arm was played, after so many random rows of the others."""
    agent, regret, played = Bandit(seed=0), 0.0, 0
    contexts = np.array([problem.context() for _ in range(rows)])
    arms = problem.random.integers(problem.arms, size=rows)
    rewards = [problem.pay(problem.means(x)[arm]) for x, arm in zip(contexts, arms, strict=True)]
    agent.learn(contexts, rewards, arms=arms)
    for _ in range(rounds):
        context = problem.context()
        arm, means = int(agent.choose(context, arms=np.arange(problem.arms + 1))[0]), problem.means(context)
        regret, played = regret + means.max() - means[arm], played + (arm == problem.arms)
        agent.learn(context, problem.pay(means[arm]), arms=[arm])
    return regret, played


if __name__ == "__main__":
    for kind, worths in (("linear", (1.5, 0, -3)), ("not linear", (1.5, 0, -3)), ("clicks", (5, 1, 0.2))):
        for arms, columns in ((5, 4), (26, 10)):
            for worth in worths:
                problems = [Problem(kind, arms, columns, worth, seed) for seed in range(4)]
                found = [play(each, 10_000 if kind == "clicks" else 3000) for each in problems]
                regret = np.mean([each[0] for each in found])
                print(
                    f"{kind}, {arms} arms, {worth}: {regret:.1f}, played {[each[1] for each in found]}",
                    flush=True,
                )
