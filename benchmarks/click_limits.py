"""What can be earned on the click problems of `benchmarks/leakage.py`? Agents that are told what no agent knows.

python benchmarks/click_limits.py linear    ridge regressions per arm, prior and exploration chosen in hindsight
python benchmarks/click_limits.py cells     the three-way kind, with the segments and the prior of their rates known

Seeds 200 to 205, 20,000 rounds, ten offers; mean regret ± standard error in expected clicks.
"""

from __future__ import annotations

import sys

import numba
import numpy as np
from leakage import CATEGORIES, CLICKS, clicks

SEEDS = range(200, 206)


def linear_rows(environment):
    """(1, one-hot categories, numbers) of each round."""
    columns = [np.ones((len(environment.contexts), 1))]
    for place, count in enumerate(CATEGORIES):
        columns.append(environment.contexts[:, [place]] == np.arange(count))
    return np.column_stack([*columns, environment.contexts[:, len(CATEGORIES) :]]).astype(float)


@numba.njit(cache=True)
def play_linear(rows, rates, ridge, exploration, sampled, random):
    """Regret of LinUCB or, sampled, LinTS; ridge: λ of the intercept and of all other coefficients."""
    n, width = rows.shape
    arms = rates.shape[1]
    inverse, moments, sums = np.zeros((arms, width, width)), np.zeros((arms, width)), np.zeros((arms, width))
    for arm in range(arms):
        for i in range(width):
            inverse[arm, i, i] = 1.0 / ridge[0 if i == 0 else 1]
    clicked, regret = 0.0, 0.0
    for t in range(n):
        z, mean = rows[t], clicked / max(t, 1)
        deviation = np.sqrt(max(mean - mean * mean, 1e-4))
        best, chosen = -1e9, 0
        for arm in range(arms):
            image = inverse[arm] @ z
            bonus = exploration * deviation * np.sqrt(z @ image)
            if sampled:
                bonus *= random.standard_normal()
            score = mean + (moments[arm] - mean * sums[arm]) @ image + bonus + 1e-9 * random.random()
            if score > best:
                best, chosen = score, arm
        click = 1.0 if random.random() < rates[t, chosen] else 0.0
        regret += rates[t].max() - rates[t, chosen]
        clicked += click
        image = inverse[chosen] @ z
        inverse[chosen] -= np.outer(image, image) / (1.0 + z @ image)
        moments[chosen] += click * z
        sums[chosen] += z
    return regret


@numba.njit(cache=True)
def play_cells(cells, rates, possible, exploration, sampled, random):
    """Regret of an agent that knows the segments and holds these rates equally possible in each, for each arm."""
    n, arms = rates.shape
    beliefs = np.full((cells.max() + 1, arms, len(possible)), 1.0 / len(possible))
    regret = 0.0
    for t in range(n):
        best, chosen = -1.0, 0
        for arm in range(arms):
            belief = beliefs[cells[t], arm]
            if sampled:
                place = min(np.searchsorted(np.cumsum(belief), random.random()), len(possible) - 1)
                score = possible[place]
            else:
                mean = belief @ possible
                score = mean + exploration * np.sqrt(max(belief @ possible**2 - mean**2, 0.0))
            score += 1e-9 * random.random()
            if score > best:
                best, chosen = score, arm
        clicked = random.random() < rates[t, chosen]
        regret += rates[t].max() - rates[t, chosen]
        belief = beliefs[cells[t], chosen]
        belief *= possible if clicked else 1.0 - possible
        belief /= belief.sum()
    return regret


def show(name, regrets):
    error = np.std(regrets, ddof=1) / np.sqrt(len(regrets))
    print(f"{name:50s} {np.mean(regrets):5.0f} ± {error:.0f}", flush=True)


def linear():
    settings = [((1.0, 1.0), 0.5, False), ((1.0, 1.0), 0.25, True)]
    for ridge in (30.0, 100.0):
        settings.append(((ridge, ridge), 0.5, False))
        settings += [((1.0, ridge), nu, sampled) for nu in (0.25, 0.5, 1.0) for sampled in (False, True)]
    for kind in CLICKS:
        problems = [(seed, clicks(kind, seed)) for seed in SEEDS]
        for ridge, exploration, sampled in settings:
            regrets = [
                play_linear(
                    linear_rows(each), each.rates, ridge, exploration, sampled, np.random.default_rng(seed)
                )
                for seed, each in problems
            ]
            name = "LinTS" if sampled else "LinUCB"
            show(f"{kind}, {name} {exploration}, ridge {ridge[0]:.0f} and {ridge[1]:.0f}", regrets)


def cells():
    effects = 2.0 * np.random.default_rng(0).normal(size=200_000)
    possible = np.quantile(0.01 + 0.07 / (1.0 + np.exp(1.0 - effects)), (np.arange(40) + 0.5) / 40)
    for exploration, sampled in ((0.0, True), (0.0, False), (0.25, False), (0.5, False), (1.0, False)):
        regrets = []
        for seed in SEEDS:
            environment = clicks("three-way", seed)
            codes = environment.contexts[:, :3].astype(int)
            segment = codes @ np.array([CATEGORIES[1] * CATEGORIES[2], CATEGORIES[2], 1])
            random = np.random.default_rng(seed)
            regrets.append(play_cells(segment, environment.rates, possible, exploration, sampled, random))
        name = "Thompson sampling" if sampled else f"mean + {exploration} deviations"
        show(f"three-way, segments and prior known, {name}", regrets)


if __name__ == "__main__":
    {"linear": linear, "cells": cells}[sys.argv[1]]()
