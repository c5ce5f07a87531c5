"""What each leaf knows: its output, the variance of the outputs its rows suggest, and how many they are."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from treebandit.core import Estimate, Features, Floats
from treebandit.errors import ParameterError, ShapeError
from treebandit.trees import kernels
from treebandit.trees.forest import Forest
from treebandit.trees.settled import FEWEST_ROWS, RowMemory

LeafOutput = Literal["library", "average"]

_NO_BAGS = np.zeros((0, 0), np.bool_)


class LeafStatistics:
    """Output o, sample variance s² and count c of every leaf of a forest (paper, section 3.1).

    table: (nodes, 4) with the columns o, s²/c, c and the plain mean of the suggested outputs.
    prior: (trees,) variance of all suggested outputs; it stands for s²/c in a leaf that fewer than two rows reach.
    prior_rows: how many rows' weight it has in every other leaf, so that no leaf is ever quite sure.
    """

    __slots__ = ("_memory", "forest", "prior", "prior_rows", "table")

    def __init__(self, forest: Forest, table: Floats, prior: Floats, prior_rows: float = 0.0) -> None:
        self.forest = forest
        self.table = table
        self.prior = prior
        self.prior_rows = float(prior_rows)
        self._memory = RowMemory(forest)

    @classmethod
    def measure(
        cls,
        forest: Forest,
        features: Features,
        targets: Floats,
        *,
        output: LeafOutput = "library",
        out_of_bag: bool = False,
        prior_rows: float = 0.0,
    ) -> LeafStatistics:
        """Pass (n, d) features with their (n,) targets through the forest and note what each leaf sees.

        A row suggests η (r - p) to a boosted tree, p being the prediction of the trees before it, and r / N to a
        tree that is averaged with N - 1 others (paper, appendix "Calculating Leaf Values").
        output: the leaf's o as the library set it, or the plain average of the suggested outputs.
        out_of_bag: count a row only in trees that were not grown on it.
        prior_rows: s² is (Σ squared deviations + prior_rows · variance of all rows) / (c - 1 + prior_rows).
        """
        if output not in ("library", "average"):
            raise ParameterError(f"leaf output {output!r}; choose 'library' or 'average'")
        bags = _NO_BAGS
        if out_of_bag:
            bags = _bags_of(forest, len(features))
        table = np.zeros((len(forest.nodes), 4))
        moments = np.zeros((forest.n_trees, 3))
        kernels.measure_leaves(
            *forest.layout,
            forest.n_trees,
            forest.values,
            forest.base,
            forest.learning_rate,
            features,
            targets,
            bags,
            table,
            moments,
        )
        n = max(len(features), 1)
        prior = np.maximum(moments[:, 2] / n - (moments[:, 1] / n) ** 2, 0.0) * (n / max(n - 1, 1))
        count = table[:, kernels.COUNT]
        with np.errstate(divide="ignore", invalid="ignore"):
            spread = table[:, kernels.SPREAD]
            if prior_rows:
                spread[:-1] += np.repeat(prior_rows * prior, forest.tree_sizes)
            spread = spread / (count * (count - 1.0 + prior_rows))
        few = count < 2
        few[-1] = False
        spread[-1] = 0.0
        if few[:-1].any():
            spread[:-1] = np.where(few[:-1], np.repeat(prior, forest.tree_sizes), spread[:-1])
        table[:, kernels.SPREAD] = spread
        unknown = count == 0
        table[:, kernels.OUTPUT] = forest.values
        if output == "average":
            table[:, kernels.OUTPUT] = np.where(unknown, forest.values, table[:, kernels.MEAN])
        return cls(replace(forest, in_bag=None), table, prior, prior_rows)

    def estimate(self, features: Features) -> Estimate:
        """Σ o, Σ s²/c and Σ c over the leaves that each row reaches: (n,) each (paper, Algorithm 1, lines 14-18)."""
        forest = self.forest
        settled = self._memory.recall(features) if len(features) >= FEWEST_ROWS else None
        if settled is None:
            sums = kernels.score_rows(*forest.layout, self.table, features)
        else:
            sums = settled.score(self.table, features)
        mean = sums[0]
        mean += forest.base
        return Estimate(mean, sums[1], sums[2])

    def prepared_update(self, features: Features, targets: Floats):  # type: ignore[no-untyped-def]
        """shim"""
        predicted = np.empty(len(targets))
        done = []

        def commit():  # type: ignore[no-untyped-def]
            if not done:
                predicted[:] = self.update(features, targets)
                done.append(1)

        commit.predicted = predicted
        return commit

    def state(self):  # type: ignore[no-untyped-def]
        """shim"""
        return {
            "forest": {**self.forest.arrays(), **self.forest.scalars()},
            "table": self.table,
            "prior": self.prior,
        }

    @classmethod
    def restored(cls, state, *, prior_rows):  # type: ignore[no-untyped-def]
        """shim"""
        return cls(Forest(**state["forest"]), state["table"], state["prior"], prior_rows)

    def sample(self, features: Features, *, draws: int = 1, exploration: float, key: int) -> Floats:
        """shim"""
        return np.stack([self._sample(features, exploration=exploration, key=key + i) for i in range(draws)])

    def _sample(self, features: Features, *, exploration: float, key: int) -> Floats:
        """A draw of each row's mean reward, (n,): N(μ, exploration² σ²), with one draw per leaf and key.

        Rows that reach the same leaf share its draw, so what the trees cannot tell apart does not differ by chance.
        """
        forest = self.forest
        settled = self._memory.recall(features) if len(features) >= FEWEST_ROWS else None
        samples: Floats
        if settled is None:
            samples = kernels.sample_rows(*forest.layout, self.table, features, np.uint64(key), exploration)
        else:
            samples = settled.sample(self.table, features, np.uint64(key), exploration)
        samples += forest.base
        return samples

    def update(self, features: Features, targets: Floats) -> Floats:
        """Let new rows change the leaves they reach, one after the other, by running mean and variance.

        A boosted tree is suggested η (r - p) with p of the trees before it as they are now, each after its own update.
        Returns the mean that was predicted of each row just before it came in, (n,).
        """
        forest = self.forest
        predicted: Floats = kernels.update_leaves(
            *forest.layout,
            forest.n_trees,
            forest.base,
            forest.learning_rate,
            features,
            targets,
            self.prior,
            self.prior_rows,
            self.table,
        )
        return predicted


def _bags_of(forest: Forest, n: int) -> NDArray[np.bool_]:
    if forest.in_bag is None:
        raise ParameterError(
            "these trees do not tell which rows they were grown on, so there are no out-of-bag rows; use a "
            "bootstrapped random forest, or statistics from 'all' or 'held_out' rows"
        )
    if len(forest.in_bag) != n:
        raise ShapeError(f"{n} rows to measure, but the trees were grown on {len(forest.in_bag)}; give those")
    return forest.in_bag
