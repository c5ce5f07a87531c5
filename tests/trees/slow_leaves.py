"""Leaf statistics the slow way: the appendix "Calculating Leaf Values", one row, one tree, one list at a time."""

from __future__ import annotations

import math
from collections import defaultdict


def sample_variance(numbers):
    mean = math.fsum(numbers) / len(numbers)
    return math.fsum((y - mean) ** 2 for y in numbers) / (len(numbers) - 1)


class SlowLeaves:
    """Every output that a row has suggested to a leaf, kept in lists."""

    def __init__(self, forest, features, targets, *, output="library", in_bag=None):
        self.forest, self.output = forest, output
        self.values = forest.values.tolist()
        self.suggested = defaultdict(list)
        everything = defaultdict(list)
        for i, (leaves, suggestions) in enumerate(self.suggestions(features, targets)):
            for n, (leaf, y) in enumerate(zip(leaves, suggestions, strict=True)):
                everything[n].append(y)
                if in_bag is None or not in_bag[i, n]:
                    self.suggested[n, leaf].append(y)
        self.measured = {key: len(ys) for key, ys in self.suggested.items()}
        self.prior = [
            sample_variance(everything[n]) if len(targets) > 1 else 0.0 for n in range(forest.n_trees)
        ]

    def suggestions(self, features, targets):
        """Per row the leaf it reaches in each tree, and the output it suggests there."""
        forest = self.forest
        for leaves, r in zip(forest.find_leaves(features).tolist(), targets.tolist(), strict=True):
            prefix, suggested = forest.base, []
            for leaf in leaves:
                boosted = forest.learning_rate > 0
                suggested.append(forest.learning_rate * (r - prefix) if boosted else r / forest.n_trees)
                prefix += self.values[leaf]
            yield leaves, suggested

    def update(self, features, targets):
        """One row and one tree after the other; a boosted tree sees the trees before it as they are by then."""
        forest = self.forest
        for leaves, r in zip(forest.find_leaves(features).tolist(), targets.tolist(), strict=True):
            prefix = forest.base
            for n, leaf in enumerate(leaves):
                boosted = forest.learning_rate > 0
                y = forest.learning_rate * (r - prefix) if boosted else r / forest.n_trees
                self.suggested[n, leaf].append(y)
                prefix += self.leaf(n, leaf)[0]

    def leaf(self, n, leaf):
        """o, s²/c and c."""
        suggested, value = self.suggested[n, leaf], self.values[leaf]
        count = len(suggested)
        spread = sample_variance(suggested) / count if count >= 2 else self.prior[n]
        if self.output == "average":
            return (math.fsum(suggested) / count if count else value), spread, count
        before = self.measured.get((n, leaf), 0)
        new = suggested[before:]
        return (before * value + math.fsum(new)) / count if count else value, spread, count

    def estimate(self, features):
        """Mean, variance and count of every row."""
        rows = []
        for leaves in self.forest.find_leaves(features).tolist():
            parts = [self.leaf(n, leaf) for n, leaf in enumerate(leaves)]
            mean, variance, count = (math.fsum(column) for column in zip(*parts, strict=True))
            rows.append((self.forest.base + mean, variance, count))
        return rows
