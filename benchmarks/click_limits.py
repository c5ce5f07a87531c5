"""What can be earned on click problems? Agents that are told what no agent knows.

python benchmarks/click_limits.py linear    ridge regressions per arm, prior and exploration chosen in hindsight
python benchmarks/click_limits.py cells     the three-way kind, with the segments and the prior of their rates known
python benchmarks/click_limits.py informed  all kinds of the study `default`; form, link and prior of the truth known

The first two play the problems of `benchmarks/leakage.py`, the last one those of `treebandit.environments.Clicks`.
Seeds 200 to 205, 20,000 rounds, ten offers unless the name says otherwise; mean regret ± standard error in clicks.
"""

from __future__ import annotations

import sys

import numba
import numpy as np
from leakage import CATEGORIES, CLICKS, clicks

from treebandit import LinTS, LinUCB, play_round
from treebandit.environments import Clicks

SEEDS = range(200, 206)
ROUNDS = 20_000
#: The click problems of the study `default`.
STUDY = {
    "discrete": {},
    "numbers": {"kind": "numbers"},
    "three-way": {"kind": "three-way"},
    "rare": {"kind": "numbers", "lowest": 0.005, "highest": 0.03},
    "spend": {"kind": "numbers", "spend": True},
    "2 arms": {"kind": "numbers", "arms": 2},
    "50 arms": {"kind": "numbers", "arms": 50},
}
#: How an informed agent explores: how many deviations, and whether they are drawn (Thompson sampling) or added (UCB).
EXPLORATION = (
    (0.0, False),
    (0.25, False),
    (0.5, False),
    (1.0, False),
    (0.25, True),
    (0.5, True),
    (1.0, True),
)
#: Runs of an informed agent on each seed's visitors, with other luck.
REPEATS = 2


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


@numba.njit(cache=True)
def play_logistic(rows, rates, variances, bounds, exploration, sampled, points, random):
    """Regret of an agent that knows the logistic form of the rates, their bounds, and all prior variances.

    The posterior of an arm's coefficients is a normal one with the moments that it has after each row (assumed density
    filtering). points: nodes and weights of a Gauss-Hermite quadrature, for expectations over one row's effect.
    """
    n, width = rows.shape
    arms, (low, high), (nodes, weights) = rates.shape[1], bounds, points
    means, covariances = np.zeros((arms, width)), np.zeros((arms, width, width))
    for arm in range(arms):
        covariances[arm] = np.diag(variances)
    regret = 0.0
    for t in range(n):
        z, best, chosen = rows[t], -1e9, 0
        for arm in range(arms):
            effect, deviation = means[arm] @ z, np.sqrt(z @ (covariances[arm] @ z))
            if sampled:
                drawn = effect + exploration * deviation * random.standard_normal()
                score = low + (high - low) / (1.0 + np.exp(1.0 - drawn))
            else:
                possible = low + (high - low) / (1.0 + np.exp(1.0 - effect - deviation * nodes))
                mean = weights @ possible
                score = mean + exploration * np.sqrt(max(weights @ possible**2 - mean**2, 0.0))
            score += 1e-9 * random.random()
            if score > best:
                best, chosen = score, arm
        clicked = random.random() < rates[t, chosen]
        regret += rates[t].max() - rates[t, chosen]
        image = covariances[chosen] @ z
        effect, variance = means[chosen] @ z, z @ image
        possible = low + (high - low) / (1.0 + np.exp(1.0 - effect - np.sqrt(variance) * nodes))
        belief = weights * (possible if clicked else 1.0 - possible)
        belief /= belief.sum()
        shift = belief @ nodes
        means[chosen] += image * (shift / np.sqrt(variance))
        covariances[chosen] += np.outer(image, image) * ((belief @ nodes**2 - shift**2 - 1.0) / variance)
    return regret


def show(name, regrets):
    error = np.std(regrets, ddof=1) / np.sqrt(len(regrets))
    print(f"{name:50s} {np.mean(regrets):5.0f} ± {error:.0f}", flush=True)


def study_problem(kind, seed):
    """The environment, its visitors, (rounds, 6), and what every offer would pay, (rounds, arms)."""
    environment, visitors = Clicks(**STUDY[kind], seed=seed), []
    for _ in range(ROUNDS):
        visitors.append(environment.observe().candidates.contexts[0])
        environment.pull([0])
    return environment, np.array(visitors), np.array([environment.means(each) for each in visitors])


def shipped(make, kind, seed):
    """Regret of an agent of the package."""
    agent, environment = make(seed=seed), Clicks(**STUDY[kind], seed=seed)
    return sum(play_round(agent, environment)[1].regret for _ in range(ROUNDS))


def play_informed(problem, exploration, sampled, random):
    """Regret of an agent that is told the form of the truth; amounts tell it nothing that clicks do not."""
    environment, visitors, rates = problem
    if environment.kind == "three-way":
        effects = 2.0 * np.random.default_rng(0).normal(size=200_000)
        possible = np.quantile(0.01 + 0.07 / (1.0 + np.exp(1.0 - effects)), (np.arange(40) + 0.5) / 40)
        return play_cells(segments(visitors), rates, possible, exploration, sampled, random)
    columns = [visitors[:, [place]] == np.arange(count) for place, count in enumerate(CATEGORIES)]
    slopes = 2 if environment.kind == "numbers" else 0
    rows = np.column_stack([*columns, visitors[:, len(CATEGORIES) : len(CATEGORIES) + slopes]]).astype(float)
    variances = np.r_[np.ones(sum(CATEGORIES)), np.full(slopes, 1.5**2)]
    nodes, weights = np.polynomial.hermite_e.hermegauss(12)
    bounds, points = (environment.lowest, environment.highest), (nodes, weights / weights.sum())
    return play_logistic(rows, rates, variances, bounds, exploration, sampled, points, random)


def segments(visitors):
    """The number of the combination of the first three categories, (n,)."""
    return visitors[:, :3].astype(int) @ np.array([CATEGORIES[1] * CATEGORIES[2], CATEGORIES[2], 1])


def informed():
    for kind in STUDY:
        linear_regrets = {}
        for make in (LinUCB, LinTS):
            linear_regrets[make] = np.array([shipped(make, kind, seed) for seed in SEEDS])
            show(f"{kind}, {make.__name__} as shipped", linear_regrets[make])
        best = min(linear_regrets.values(), key=np.mean)
        problems = [(seed, study_problem(kind, seed)) for seed in SEEDS]
        for exploration, sampled in EXPLORATION:
            if kind == "three-way" and sampled and exploration != 1.0:
                continue  # the agent of segments draws from its whole posterior
            regrets = np.array(
                [
                    np.mean(
                        [
                            play_informed(each, exploration, sampled, np.random.default_rng((seed, repeat)))
                            for repeat in range(REPEATS)
                        ]
                    )
                    for seed, each in problems
                ]
            )
            name = "Thompson sampling" if sampled else "UCB"
            show(f"{kind}, informed, {name} {exploration}", regrets)
            less = regrets - best
            error = np.std(less, ddof=1) / np.sqrt(len(less))
            print(f"{'':10s}less the better linear one: {less.mean():+.0f} ± {error:.0f}", flush=True)


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
            segment, random = segments(environment.contexts), np.random.default_rng(seed)
            regrets.append(play_cells(segment, environment.rates, possible, exploration, sampled, random))
        name = "Thompson sampling" if sampled else f"mean + {exploration} deviations"
        show(f"three-way, segments and prior known, {name}", regrets)


if __name__ == "__main__":
    {"linear": linear, "cells": cells, "informed": informed}[sys.argv[1]]()
