"""What can be earned on click problems? Agents that are told what no agent knows.

python benchmarks/click_limits.py linear    ridge regressions per arm, prior and exploration chosen in hindsight
python benchmarks/click_limits.py cells     the three-way kind, with the segments and the prior of their rates known
python benchmarks/click_limits.py informed  all kinds of the study `default`; form, link and prior of the truth known
python benchmarks/click_limits.py prior     regressions alone, λ learned or told; logistic ones told a prior

The first two play the problems of `benchmarks/leakage.py`, the others those of `treebandit.environments.Clicks`.
Seeds 200 to 205 (`prior`: 0 to 29), 20,000 rounds, ten offers unless the name says otherwise; mean regret ± standard
error in clicks.
"""

from __future__ import annotations

import math
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
#: λ of regressions alone, 0 to learn it: 240 is the variance of a click's noise by that of a coefficient, at rates of
#: 1 to 8 %. Likewise the prior deviation of a coefficient on the logistic scale.
TOLD_RIDGES, TOLD_DEVIATIONS = (0.0, 120.0, 240.0), (0.35, 0.5)
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
def play_logistic(rows, rates, variances, form, exploration, sampled, points, random):
    """Regret of logistic regressions that are told these prior variances of all coefficients.

    form: the lowest and the highest rate, and what is added to each effect, as the agent holds them true.

    The posterior of an arm's coefficients is a normal one with the moments that it has after each row (assumed density
    filtering). points: nodes and weights of a Gauss-Hermite quadrature, for expectations over one row's effect.
    """
    n, width = rows.shape
    arms, (low, high, offset), (nodes, weights) = rates.shape[1], form, points
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
                score = low + (high - low) / (1.0 + np.exp(-offset - drawn))
            else:
                possible = low + (high - low) / (1.0 + np.exp(-offset - effect - deviation * nodes))
                mean = weights @ possible
                score = mean + exploration * np.sqrt(max(weights @ possible**2 - mean**2, 0.0))
            score += 1e-9 * random.random()
            if score > best:
                best, chosen = score, arm
        clicked = random.random() < rates[t, chosen]
        regret += rates[t].max() - rates[t, chosen]
        image = covariances[chosen] @ z
        effect, variance = means[chosen] @ z, z @ image
        possible = low + (high - low) / (1.0 + np.exp(-offset - effect - np.sqrt(variance) * nodes))
        belief = weights * (possible if clicked else 1.0 - possible)
        belief /= belief.sum()
        shift = belief @ nodes
        means[chosen] += image * (shift / np.sqrt(variance))
        covariances[chosen] += np.outer(image, image) * ((belief @ nodes**2 - shift**2 - 1.0) / variance)
    return regret


@numba.njit(cache=True)
def log_evidence(sums, moments, n, total, ridge):
    """Log of the marginal likelihood of all rewards, as in `treebandit.models.ridge_prior`."""
    arms, width = moments.shape
    explained, determinant = 0.0, 0.0
    for arm in range(arms):
        if sums[arm, 0, 0] > 0.0:
            root = np.linalg.cholesky(sums[arm] + ridge * np.eye(width))
            solved = np.linalg.solve(root, moments[arm])
            explained += solved @ solved
            determinant += 2.0 * np.log(np.diag(root)).sum() - width * np.log(ridge)
    return -0.5 * (n * np.log(max(1.0 - explained / total, 1e-12)) + determinant)


@numba.njit(cache=True)
def play_prior(rows, rates, told, columns, random):
    """Regret of ridge regressions per arm with the bonuses of the default agent (`models/blend_kernels.py`), w = 1.

    told: λ from the first visit on; 0, and it is learned when the agent would: 1, 4, 16, ... while the evidence grows,
        at most a twentieth of the rows. columns: how many a row has before categories are one-hot.
    """
    n, width = rows.shape
    arms = rates.shape[1]
    sums, products, counts = np.zeros((arms, width, width)), np.zeros((arms, width)), np.zeros(arms)
    inverse = np.zeros((arms, width, width))
    ridge, clicked, regret, level = max(told, 1.0), 0.0, 0.0, -1
    for arm in range(arms):
        inverse[arm] = np.eye(width) / ridge
    share, half = math.log2(arms) / width, 4.0 * np.log(2000.0)
    for t in range(n):
        z, mean, chosen = rows[t], clicked / max(t, 1), t % arms
        if t >= 2 * arms:
            deviation, best = np.sqrt(max(mean - mean * mean, 1e-9)), -1e9
            unit = 0.5 * deviation * np.sqrt(max(share, min(ridge * share, 1.0)))
            prior, few = width * (ridge - 1.0) / (1.0 + columns), 0.25 * t / arms
            left_out = min(2.0 / arms, 1.0) * prior
            expected, leverage = np.zeros(arms), np.zeros(arms)
            for arm in range(arms):
                image = inverse[arm] @ z
                expected[arm] = max(mean + (products[arm] - mean * sums[arm, 0]) @ image, 0.0)
                leverage[arm] = z @ image
            scale = 0.5 * min(deviation, 1.0 - expected.max())
            for arm in range(arms):
                h = leverage[arm]
                score = expected[arm] + unit * np.sqrt(h / (1.0 + h)) + 1e-9 * random.random()
                alike = width * (1.0 + h) / h
                if left_out > 0.0:
                    alike = max(min(alike - left_out, width + counts[arm] + prior - left_out), width)
                if alike < few:
                    score += scale * np.sqrt(np.log(few / alike) / alike)
                if score > best:
                    best, chosen = score, arm
        click = 1.0 if random.random() < rates[t, chosen] else 0.0
        regret += rates[t].max() - rates[t, chosen]
        sums[chosen] += np.outer(z, z)
        products[chosen] += click * z
        clicked += click
        counts[chosen] += 1.0
        image = inverse[chosen] @ z
        inverse[chosen] -= np.outer(image, image) / (1.0 + z @ image)
        due = 8.0 * np.log(t + 1.0) if t < 2000 else half + 4.0 * np.log(t + 1.0)
        if t >= 2 * arms and clicked > 0.0 and np.ceil(due) > level:
            level, mean = np.ceil(due), clicked / (t + 1.0)
            if told == 0.0:
                total, moments = (t + 1.0) * (mean - mean * mean), products - mean * sums[:, 0]
                ridge = strength = 1.0
                greatest = log_evidence(sums, moments, t + 1.0, total, ridge)
                while strength < (t + 1.0) / 20.0:
                    strength = min(4.0 * strength, (t + 1.0) / 20.0)
                    evidence = log_evidence(sums, moments, t + 1.0, total, strength)
                    if not evidence > greatest:
                        break
                    greatest, ridge = evidence, strength
            for arm in range(arms):
                inverse[arm] = np.linalg.inv(sums[arm] + ridge * np.eye(width))
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
    form = environment.lowest, environment.highest, -1.0
    return play_logistic(rows, rates, variances, form, exploration, sampled, quadrature(), random)


def quadrature():
    """Nodes and weights of expectations over a standard normal number."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(12)
    return nodes, weights / weights.sum()


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


def prior():
    for kind in ("discrete", "numbers", "rare", "2 arms", "50 arms"):
        found = {}
        for seed in range(30):  # those of `docs/results/runs/default-clicks.csv`
            problem = _, visitors, rates = study_problem(kind, seed)
            columns = [np.ones((ROUNDS, 1))]
            columns += [visitors[:, [place]] == np.arange(count) for place, count in enumerate(CATEGORIES)]
            rows = np.column_stack([*columns, visitors[:, len(CATEGORIES) :]]).astype(float)
            mean, width, points = rates.mean(), visitors.shape[1], quadrature()
            for repeat in range(REPEATS):
                for told in TOLD_RIDGES:
                    random = np.random.default_rng((seed, repeat))
                    regret = play_prior(rows, rates, told, width, random)
                    found.setdefault(f"ridge, λ = {told:.0f}" if told else "ridge, λ learned", []).append(
                        regret
                    )
                form = 0.0, 1.0, math.log(mean / (1.0 - mean))
                for deviation in TOLD_DEVIATIONS:
                    random, variances = (
                        np.random.default_rng((seed, repeat)),
                        np.full(rows.shape[1], deviation**2),
                    )
                    regret = play_logistic(rows, rates, variances, form, 0.5, False, points, random)
                    found.setdefault(f"logistic, sd {deviation}", []).append(regret)
                random = np.random.default_rng((seed, repeat))
                found.setdefault("informed, UCB 0.5", []).append(play_informed(problem, 0.5, False, random))
        for name, regrets in found.items():
            show(f"{kind}, {name}", np.reshape(regrets, (-1, REPEATS)).mean(axis=1))


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
    {"linear": linear, "cells": cells, "informed": informed, "prior": prior}[sys.argv[1]]()
