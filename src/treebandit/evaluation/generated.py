"""A log of a small shop whose truth is known, for tutorials, tests and coverage."""

from __future__ import annotations

import json
from typing import Any, Literal

import numpy as np
import polars as pl

from treebandit.core import Floats, Random
from treebandit.evaluation.log import DecisionLog
from treebandit.parameters import check_choice, check_number, check_seed

ARMS = ("coffee", "tea", "water")
_CITIES = ("Bonn", "Kiel", "Ulm")
_FLOOR = 0.05

ShopPolicy = Literal["uniform", "biased"]


def shop_log(
    decisions: int, *, policy: ShopPolicy = "biased", seed: int = 0, probabilities: bool = True
) -> DecisionLog:
    """Visitors of a shop, one drink shown to each, and whether it was bought (1) or not (0).

    policy: 'uniform', or 'biased': coffee before noon, else tea, and each drink with a probability of at least 0.05.
    probabilities: False leaves them out, as logs of many systems do.
    """
    check_number("decisions", decisions, least=1, whole=True)
    check_choice("policy", policy, ("uniform", "biased"))
    check_seed(seed)
    random = np.random.default_rng(seed)
    hour, age, city = _visitors(decisions, random)
    offered = _logged(policy, hour)
    chosen = (random.random(decisions)[:, None] > np.cumsum(offered, axis=1)).sum(axis=1).clip(0, 2)
    rewards = random.random(decisions) < shop_rewards(hour, age)[np.arange(decisions), chosen]
    frame = pl.DataFrame(
        {
            "id": [f"visit-{number}" for number in range(decisions)],
            "time": pl.Series(1_767_225_600_000_000 + 60_000_000 * np.arange(decisions)).cast(
                pl.Datetime("us", "UTC")
            ),
            "context": [
                json.dumps({"hour": int(h), "age": int(a), "city": _CITIES[c]})
                for h, a, c in zip(hour, age, city, strict=True)
            ],
            "chosen": pl.Series(chosen.astype(np.int32)),
            "probability": offered[np.arange(decisions), chosen] if probabilities else None,
            "probabilities": pl.Series(offered.tolist(), dtype=pl.List(pl.Float64))
            if probabilities
            else None,
            "reward": rewards.astype(np.float64),
            "policy": policy,
            "version": "1",
        }
    ).with_columns(pl.col("chosen").reshape((-1, 1)).arr.to_list(), arms=pl.lit(list(ARMS)))
    return DecisionLog.from_frame(frame, source=f"{decisions:,} visits of the shop")


def shop_rewards(hour: Any, age: Any) -> Floats:
    """(n, 3), how likely each drink is bought: coffee early, tea by the older, water now and then."""
    hour, age = np.asarray(hour, np.float64), np.asarray(age, np.float64)
    coffee = np.where(hour < 12, 0.30, 0.08)
    tea = np.where(age >= 50, 0.25, 0.10)
    return np.column_stack([coffee, tea, np.full(len(hour), 0.15)])


def shop_value(policy: Any) -> float:
    """The true mean reward of a policy: 'uniform', 'biased', 'best', 'arm:NAME', or a function as `evaluate` takes."""
    hour, age = (part.ravel() for part in np.meshgrid(np.arange(8, 20), np.arange(18, 80), indexing="ij"))
    rewards = shop_rewards(hour, age)
    if policy == "best":
        return float(rewards.max(axis=1).mean())
    if isinstance(policy, str) and policy.startswith("arm:"):
        return float(rewards[:, ARMS.index(policy.removeprefix("arm:"))].mean())
    if isinstance(policy, str):
        check_choice("policy", policy, ("uniform", "biased"))
        chances = _logged(policy, hour)
    else:
        contexts = [{"hour": int(h), "age": int(a), "city": "Bonn"} for h, a in zip(hour, age, strict=True)]
        chances = np.array([policy(context, list(ARMS), None) for context in contexts])
    return float((chances * rewards).sum(axis=1).mean())


def _visitors(n: int, random: Random) -> tuple[Any, Any, Any]:
    return random.integers(8, 20, n), random.integers(18, 80, n), random.integers(0, len(_CITIES), n)


def _logged(policy: str, hour: Any) -> Floats:
    if policy == "uniform":
        return np.full((len(hour), len(ARMS)), 1 / len(ARMS))
    chances = np.full((len(hour), len(ARMS)), _FLOOR)
    chances[np.arange(len(hour)), np.where(np.asarray(hour) < 12, 0, 1)] = 1 - (len(ARMS) - 1) * _FLOOR
    return chances
