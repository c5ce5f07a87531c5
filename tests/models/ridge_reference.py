"""Rows for ridge models, and what one direct solve makes of them."""

import numpy as np

from treebandit import Candidates, Columns
from treebandit.models.ridge import Ridge, SharedRidge

MIXED = Columns((0, 3, 0, 2))
KINDS = [Ridge, SharedRidge]


def mixed_rows(n, random, columns=MIXED):
    numbers = random.normal([5.0, 0.0, -300.0, 0.0], [2.0, 1.0, 80.0, 1.0], (n, 4))
    for place, count in enumerate(columns.categories):
        if count:
            numbers[:, place] = random.integers(count, size=n)
    return numbers.astype(np.float32)


def design(model, contexts, columns=MIXED):
    """(1, numbers by the scale in use, one-hot categories), written out."""
    state = model.state()
    shift, factor = state.get("ridge", state)["scales"][:2]
    parts = [np.ones((len(contexts), 1))]
    for place, count in enumerate(columns.categories):
        column = contexts[:, place].astype(np.float64)
        parts.append(
            np.eye(count)[column.astype(int)] if count else ((column - shift[place]) * factor[place])[:, None]
        )
    return np.hstack(parts)


def solved(rows, rewards, asked, ridge):
    gram = ridge * np.eye(rows.shape[1]) + rows.T @ rows
    return asked @ np.linalg.solve(gram, rows.T @ rewards), asked @ np.linalg.solve(gram, asked.T)


def by_hand(model, rows, arms, rewards, asked, asked_arms, ridge):
    """Means and covariance of `asked`, one plain regression per arm, or one with the arms as columns."""
    z, q = design(model, rows), design(model, asked)
    if isinstance(model, SharedRidge):
        labels = np.unique(np.concatenate([arms, asked_arms]))
        z, q = (np.hstack([m, a[:, None] == labels]) for m, a in ((z, arms), (q, asked_arms)))
        return solved(z, rewards, q, ridge)
    mean, covariance = np.empty(len(q)), np.zeros((len(q), len(q)))
    for arm in np.unique(asked_arms):
        mine = np.flatnonzero(asked_arms == arm)
        mean[mine], covariance[np.ix_(mine, mine)] = solved(
            z[arms == arm], rewards[arms == arm], q[mine], ridge
        )
    return mean, covariance


def taught(kind, n=300, batch=1, ridge=1.0, standardise=True, seed=0):
    random = np.random.default_rng(seed)
    contexts, arms = mixed_rows(n, random), random.integers(3, size=n) * 7
    rewards = 0.1 * contexts[:, 0] + (contexts[:, 1] == arms // 7) + random.normal(size=n)
    model = kind(ridge, standardise=standardise)
    for start in range(0, n, batch):
        part = slice(start, start + batch)
        model.learn(Candidates(contexts[part], arms[part], MIXED), rewards[part])
    return model, contexts, arms, rewards, random
