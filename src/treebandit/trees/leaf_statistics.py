"""What each leaf knows: its output, the variance of the outputs its rows suggest, and how many they are."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from treebandit import schema
from treebandit.core import Estimate, Features, Floats, Indices
from treebandit.errors import ParameterError, SavedFileError, ShapeError
from treebandit.steps import exhausted
from treebandit.trees import kernels
from treebandit.trees.calibration import Calibration
from treebandit.trees.forest import Forest
from treebandit.trees.kernels import COUNT, MEAN, OUTPUT, VARIANCE, LeafArrays, RowArrays
from treebandit.trees.leaf_cache import LeafCache

LeafOutput = Literal["library", "average"]
StatisticsFrom = Literal["all", "held_out", "out_of_bag"]
VarianceKind = Literal["leaf", "calibrated"]

#: Rows measured in one step.
_ROWS = 8192
_NO_BAGS = np.zeros((0, 0), np.bool_)


class LeafStatistics:
    """Output o, sample variance s² and count c of every leaf of a forest (paper, section 3.1).

    forest: whose leaves they are.
    table: (nodes, 4) with the columns o, s²/c, c and the plain mean of the suggested outputs.
    prior: (trees,) variance of all suggested outputs; used for s²/c in a leaf that fewer than two rows reach.
    prior_rows: how many rows' weight it has in every other leaf, so that no leaf is ever quite sure.
    calibration: what makes Σ s²/c the variance of the predicted mean; None, it is told as it is, as in the paper.

    >>> import numpy as np
    >>> from treebandit import HistogramForest, LeafStatistics
    >>> rows = np.arange(20, dtype=np.float32).reshape(-1, 1)
    >>> rewards = np.where(rows[:, 0] < 10, 0.0, 1.0)
    >>> forest = HistogramForest(n_trees=5).fit(rows, rewards, seed=0)
    >>> leaves = LeafStatistics.measure(forest, rows, rewards)
    >>> leaves.estimate(rows[:2]).mean.round(2).tolist()
    [0.0, 0.0]
    """

    __slots__ = (
        "_arrays",
        "_scratch",
        "_version",
        "cache",
        "calibration",
        "forest",
        "prior",
        "prior_rows",
        "table",
    )

    def __init__(self, forest: Forest, table: Floats, prior: Floats, prior_rows: float = 0.0) -> None:
        self.forest = forest
        self.table = table
        self.prior = prior
        self.prior_rows = float(prior_rows)
        self._version = np.zeros(1, np.int64)
        self._arrays = tuple(LeafArrays(table, prior, self.prior_rows, self._version))
        self.cache = LeafCache(forest)
        #: Of updates by one row, as most are; one caller updates at a time.
        self._scratch = np.empty(1), *kernels.scratch(1, forest.n_features)
        self.calibration: Calibration | None = None

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
        steps = cls.measure_steps(
            forest, features, targets, output=output, out_of_bag=out_of_bag, prior_rows=prior_rows
        )
        return exhausted(steps)

    @classmethod
    def measure_steps(
        cls,
        forest: Forest,
        features: Features,
        targets: Floats,
        *,
        output: LeafOutput = "library",
        out_of_bag: bool = False,
        prior_rows: float = 0.0,
        predicted: Floats | None = None,
    ) -> Generator[float, None, LeafStatistics]:
        """`measure`, some rows at a time; yields the share of the rows that are measured.

        predicted: (n,), becomes what the outputs that the library set predict of each row.
        """
        if output not in ("library", "average"):
            raise ParameterError(f"leaf output {output!r}; choose 'library' or 'average'")
        # For other types, and for arrays that cannot be written to, the kernel would be compiled once more.
        features = np.require(features, np.float32, ["C", "W"])
        targets = np.require(targets, np.float64, ["C", "W"])
        table = np.zeros((len(forest.nodes), 4))
        table[:, OUTPUT] = forest.values
        empty = LeafArrays(table, np.zeros(forest.n_trees), 0.0, np.zeros(1, np.int64))
        bags, n = _bags_of(forest, len(features)) if out_of_bag else _NO_BAGS, len(features)
        for step, start in enumerate(range(0, n, _ROWS)):
            yield start / n
            part = slice(start, start + _ROWS)
            rows = RowArrays(features[part], targets[part], bags[part])
            made = _learning(rows.features)
            kernels.learn_rows(forest.arrays, tuple(empty), tuple(rows), step, True, made)
            if predicted is not None:
                predicted[part] = made[0]
        prior = _set_variances(forest, table, targets, prior_rows)
        if output == "average":
            table[:, OUTPUT] = np.where(table[:, COUNT] > 0, table[:, MEAN], forest.values)
        return cls(forest.without_bags(), table, prior, prior_rows)

    def state(self, *, history: bool = True) -> dict[str, Any]:
        """The statistics and their forest as arrays and numbers, for saving; without history, not to be updated.

        Then the outputs are not kept twice, and the means, which only updates read, are zeros, which pack well.
        """
        forest, table = self.forest.state(), self.table
        if not history:
            forest, table = {**forest, "values": None}, table.copy()
            table[:, MEAN] = 0.0
        calibration = None if self.calibration is None else self.calibration.state()
        return {"forest": forest, "table": table, "prior": self.prior, "calibration": calibration}

    @classmethod
    def restored(cls, state: Mapping[str, Any], *, prior_rows: float = 0.0) -> LeafStatistics:
        """The statistics that `state` described; a SavedFileError where they do not fit their forest."""
        saved = schema.part(state, "forest")
        if schema.value(saved, "values") is None:
            outputs = schema.array(state, "table", np.float64, (None, 4))[:, OUTPUT].copy()
            saved = {**saved, "values": outputs}
        forest = Forest.restored(saved)
        table = schema.array(state, "table", np.float64, (len(forest.nodes), 4)).copy()
        prior = schema.array(state, "prior", np.float64, (forest.n_trees,), least=0.0)
        if table[:, [VARIANCE, COUNT]].min() < 0.0 or table[-1].any():
            raise SavedFileError("table holds statistics that no rows can give")
        leaves, calibration = cls(forest, table, prior, prior_rows), schema.optional(state, "calibration")
        leaves.calibration = None if calibration is None else Calibration.restored(calibration)
        return leaves

    def estimate(self, features: Features) -> Estimate:
        """Σ o, Σ s²/c and Σ c over the leaves that each row reaches: (n,) each (paper, Algorithm 1, lines 14-18).

        The variance is the calibrated one where there is a calibration.
        """
        return self.calibrated(self.leaf_sums(features))

    def calibrated(self, sums: Estimate) -> Estimate:
        """What `leaf_sums` gave, with the calibrated variance where there is a calibration."""
        if self.calibration is None:
            return sums
        return Estimate(sums.mean, self.calibration.variance(sums.variance), sums.count)

    def leaf_sums(self, features: Features) -> Estimate:
        """`estimate` with Σ s²/c as it is, calibration or not."""
        features = self.forest.checked(features)
        sums = self.cache.score(self.table, features)
        if sums is None:
            sums = kernels.sum_rows(self.forest.arrays, self.table, features)
        mean = sums[0]
        mean += self.forest.base
        return Estimate(mean, sums[1], sums[2])

    def find_leaves_of(self, tree: int, features: Features) -> NDArray[np.int32]:
        """The node at which each row ends in one of the trees: (n,)."""
        features = self.forest.checked(features)
        found = self.cache.find_leaves_of(tree, features)
        return self.forest.find_leaves_of(tree, features) if found is None else found

    def deviations(self, sums: Estimate) -> Floats:
        """How far rewards deviate from their mean in the leaves that rows reach, (n,): √(Σ s²/c · Σ c), s² of a target.

        sums: as `leaf_sums` gives them. Where all leaves of a row have as many rows, that is the root mean s².
        """
        forest = self.forest
        # A row suggests η times what is left of its target to each of N boosted trees, and the N-th part to others.
        scale = forest.n_trees * forest.learning_rate if forest.learning_rate else 1.0
        found: Floats = np.sqrt(sums.variance * sums.count) / scale
        return found

    def sample(self, features: Features, *, exploration: float, key: int, draws: int = 1) -> Floats:
        """Joint draws of each row's mean reward, (draws, n): N(μ, exploration² σ²), one draw per leaf and key.

        Rows that reach the same leaf share its draw, so what the trees cannot tell apart does not differ by chance.
        Draw k of a key is the first draw of the key `kernels.NEXT_DRAW` · k further on (modulo 2⁶⁴). With a calibration
        σ² is the calibrated variance; a row whose leaves hold equal targets only then has draws of its own.
        """
        features, nu = self.forest.checked(features), float(exploration)
        samples = self.cache.sample(self.table, features, key, nu, draws)
        if samples is None:
            noise = np.uint64(key), nu
            samples = kernels.draw_rows(self.forest.arrays, self.table, features, noise, draws).T
        if self.forest.base:
            samples += self.forest.base
        if self.calibration is not None:
            sums = self.leaf_sums(features)
            wanted = self.calibration.variance(sums.variance)
            sure = sums.variance <= 0.0
            factor = np.sqrt(wanted / np.where(sure, 1.0, sums.variance))
            samples = sums.mean + factor * (samples - sums.mean)
            normal = np.random.default_rng(key).standard_normal((draws, int(sure.sum())))
            samples[:, sure] += nu * np.sqrt(wanted[sure]) * normal
        return samples

    def prepared_update(self, features: Features, targets: Floats) -> LeafUpdate:
        """The update of `update`, ready to be made: checks and allocates, and changes nothing."""
        features = self.forest.checked(features)
        targets = np.ascontiguousarray(targets, np.float64)
        if targets.shape != features.shape[:1]:
            raise ShapeError(f"{targets.shape} targets for {len(features)} rows; give one per row")
        rows = features, targets, _NO_BAGS
        made = (np.empty(1), *self._scratch) if len(features) == 1 else _learning(features)
        arguments = self.forest.arrays, self._arrays, rows, int(self._version[0]), False, made
        return LeafUpdate(made[0], arguments)

    def update(self, features: Features, targets: Floats) -> Floats:
        """Let new rows change the leaves they reach, one after the other, by running mean and variance.

        A boosted tree is suggested η (r - p) with p of the trees before it as they are now, each after its own update.
        Returns the mean that was predicted of each row just before it came in, (n,).
        """
        commit = self.prepared_update(features, targets)
        commit()
        return commit.predicted


@dataclass(slots=True, eq=False)
class LeafUpdate:
    """A prepared update of leaf statistics: the first call makes it, further calls change nothing.

    Made in one compiled call, which no exception can interrupt half-way, and only if no other update came between.
    predicted: (n,), the mean predicted of each row just before it was learned; filled by the call.
    """

    predicted: Floats
    arguments: tuple[Any, ...]

    def __call__(self) -> None:
        """Make the update."""
        kernels.learn_rows(*self.arguments)


def held_out(n: int, share: float, random: Any) -> tuple[Indices, Indices]:
    """Of n >= 4 rows those to measure leaves on, about this share of them, and those to grow trees on."""
    order = random.permutation(n)
    cut = min(max(round(n * share), 1), n - 2)
    return np.sort(order[:cut]), np.sort(order[cut:])


def _learning(features: Features) -> tuple[Any, ...]:
    """What `kernels.learn_rows` writes into: predictions, and scratch."""
    rows, found = kernels.scratch(*features.shape)
    return np.empty(len(features)), np.empty(len(rows)), rows, found


def _set_variances(forest: Forest, table: Floats, targets: Floats, prior_rows: float) -> Floats:
    """Turn s²/c of each leaf's own rows into the one that counts the prior too; returns the prior, (trees,)."""
    count = table[:-1, COUNT]
    deviations = table[:-1, VARIANCE] * count * (count - 1.0)
    if forest.learning_rate:
        prior = _tree_variances(forest, table, deviations)
    else:
        # All rows suggest the same to all bagged trees, also those that a tree's bag leaves out.
        variance = float(np.var(targets, ddof=1)) if len(targets) > 1 else 0.0
        prior = np.full(forest.n_trees, variance / forest.n_trees**2)
    each = np.repeat(prior, forest.sizes)
    weight = np.maximum(count * (count - 1.0 + prior_rows), 1.0)
    table[:-1, VARIANCE] = np.where(count < 2.0, each, (deviations + prior_rows * each) / weight)
    return prior


def _tree_variances(forest: Forest, table: Floats, deviations: Floats) -> Floats:
    """The variance of all outputs suggested to each tree, put together from its leaves: (trees,)."""
    mean, count = table[:-1, MEAN], table[:-1, COUNT]
    rows = np.add.reduceat(count, forest.starts)
    center = np.add.reduceat(count * mean, forest.starts) / np.maximum(rows, 1.0)
    around = deviations + count * (mean - np.repeat(center, forest.sizes)) ** 2
    variances: Floats = np.add.reduceat(around, forest.starts) / np.maximum(rows - 1.0, 1.0)
    return variances


def _bags_of(forest: Forest, n: int) -> NDArray[np.bool_]:
    if forest.in_bag is None:
        raise ParameterError(
            "these trees do not tell which rows they were grown on, so there are no out-of-bag rows; use a "
            "bootstrapped random forest, or statistics from 'all' or 'held_out' rows"
        )
    if len(forest.in_bag) != n:
        raise ShapeError(f"{n} rows to measure, but the trees were grown on {len(forest.in_bag)}; give those")
    return np.ascontiguousarray(forest.in_bag)
