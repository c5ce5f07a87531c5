"""Reward models for the direct method and doubly robust estimators: predictions for decisions they did not learn."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from treebandit.core import Candidates, Features, Floats, Indices
from treebandit.errors import LogError, NotFittedError, ParameterError
from treebandit.evaluation.batches import CONTEXTS, ArmCodes, Batch, flat_batches
from treebandit.evaluation.columns import OFFERED
from treebandit.evaluation.contexts import ContextLayout
from treebandit.evaluation.log import DecisionLog
from treebandit.parameters import check_number
from treebandit.trees.forest import Forest, TreeLearner
from treebandit.trees.histogram_forest import HistogramForest

#: Rows that a model learns at most; of longer logs every second, third, ... decision is learned.
MOST_ROWS = 100_000
#: A new arm's mean counts as much as so many rows with the mean of all.
_PRIOR_ROWS = 10.0


def default_learner() -> HistogramForest:
    """The reward model of the estimators where none is given."""
    return HistogramForest(n_trees=50, max_depth=8, min_samples_leaf=10)


class TreePredictor:
    """Trees of any library; the arm is one column, its rank by mean reward among the rows learned.

    A tree that splits ranked arms can part them as well as one that tries all subsets, in one column for any number.
    """

    def __init__(self, learner: TreeLearner, *, seed: int) -> None:
        self._learner, self._seed = learner, seed
        self._forest: Forest | None = None
        self._ranks: Features = np.zeros(0, np.float32)
        self._mean = 0.0

    def learn(self, rows: Candidates, rewards: Floats) -> None:
        """Grow the trees."""
        self._mean = float(rewards.mean())
        if rows.arms is not None:
            self._ranks = _ranks(rows.arms, rewards, self._mean)
        if np.ptp(rewards) > 0 and len(rewards) >= 2:
            self._forest = self._learner.fit(self._features(rows), rewards, seed=self._seed)

    def predict(self, rows: Candidates) -> Floats:
        """What the trees predict; the mean where all rewards were equal."""
        if self._forest is None:
            return np.full(len(rows), self._mean)
        return self._forest.predict(self._features(rows))

    def _features(self, rows: Candidates) -> Features:
        if rows.arms is None:
            return np.ascontiguousarray(rows.contexts)
        middle = np.float32(len(self._ranks) / 2)
        known = rows.arms < len(self._ranks)
        rank = np.where(known, self._ranks[np.minimum(rows.arms, len(self._ranks) - 1)], middle)
        return np.column_stack([rank.astype(np.float32), rows.contexts])


def _ranks(arms: Indices, rewards: Floats, mean: float) -> Features:
    counts = np.bincount(arms)
    sums = np.bincount(arms, rewards)
    order = np.argsort((sums + _PRIOR_ROWS * mean) / (counts + _PRIOR_ROWS), kind="stable")
    ranks = np.empty(len(order), np.float32)
    ranks[order] = np.arange(len(order), dtype=np.float32)
    return ranks


class AgentPredictor:
    """Any agent that has estimates, as a reward model: a copy learns the rows and tells its mean rewards."""

    def __init__(self, agent: Any) -> None:
        self._agent = copy.deepcopy(agent)
        self._mean = 0.0

    def learn(self, rows: Candidates, rewards: Floats) -> None:
        """Let the agent learn the rows."""
        self._mean = float(rewards.mean())
        self._agent.learn(rows, rewards)

    def predict(self, rows: Candidates) -> Floats:
        """The agent's mean rewards; the mean of all where it has learned too little."""
        try:
            mean: Floats = self._agent.estimate(rows).mean
        except NotFittedError:
            return np.full(len(rows), self._mean)
        return mean


#: Both learn all rows at once, and predict the (n,) rewards of others.
RewardPredictor = TreePredictor | AgentPredictor


def predictors(given: Any, *, seed: int) -> Callable[[], RewardPredictor]:
    """What makes a new predictor: of a tree learner, an agent that has learned nothing, or None for the default."""
    learner = default_learner() if given is None else given
    if callable(getattr(learner, "fit", None)) and not hasattr(learner, "estimate"):
        return lambda: TreePredictor(learner, seed=seed)
    if callable(getattr(learner, "learn", None)) and callable(getattr(learner, "estimate", None)):
        if getattr(learner, "clock", 0):
            raise ParameterError(
                f"reward_model is a {type(learner).__name__} that has learned or decided already; give a new one, "
                "because a model must not have seen the decisions that it predicts"
            )
        return lambda: AgentPredictor(learner)
    raise ParameterError(
        f"reward_model is {given!r}; give a tree learner such as HistogramForest, or a new agent"
    )


@dataclass
class CrossFitted:
    """One model a fold, each learned on the decisions of all other folds."""

    models: list[RewardPredictor]
    layout: ContextLayout
    with_arms: bool

    @classmethod
    def learned(
        cls,
        log: DecisionLog,
        codes: ArmCodes,
        *,
        model: Any = None,
        folds: int = 5,
        seed: int = 0,
        choices: bool = False,
        where: pl.Expr | None = None,
    ) -> CrossFitted:
        """Learn the chosen rows of a log and their rewards, a batch at a time, and at most MOST_ROWS of them.

        choices: learn instead of all candidates whether they were chosen: the target is 1 or 0. where: learn only the
        decisions for which this holds; any can be predicted.
        """
        check_number("folds", folds, least=2, whole=True)
        new = predictors(model, seed=seed)
        rows, values, numbers = _training_rows(
            log, codes, layout := ContextLayout(), choices=choices, where=where
        )
        if len(values) < 2 * folds:
            raise LogError(
                f"{log.source} has {len(values)} decisions with rewards; a reward model needs {2 * folds} at least: "
                "choose ips or snips"
            )
        models = []
        for fold in range(folds):
            others = np.flatnonzero(folds_of(numbers, folds) != fold)
            if not len(others):
                raise LogError(
                    f"all decisions of {log.source} are in one of {folds} folds; give a longer log"
                )
            made = new()
            made.learn(rows[others], values[others])
            models.append(made)
        return cls(models, layout, rows.arms is not None)

    def predict(self, batch: Batch) -> Floats:
        """(m,) predictions for all candidates, each by the model that has not learned their decision."""
        contexts, columns = self.layout.encode(batch), self.layout.columns
        rows = Candidates(contexts, batch.arms if self.with_arms else None, columns)
        folds = np.repeat(folds_of(batch.numbers, len(self.models)), batch.offered)
        found = np.empty(batch.size)
        for fold, model in enumerate(self.models):
            mine = np.flatnonzero(folds == fold)
            if len(mine):
                found[mine] = model.predict(rows[mine])
        return found


def _training_rows(
    log: DecisionLog, codes: ArmCodes, layout: ContextLayout, *, choices: bool, where: pl.Expr | None
) -> tuple[Candidates, Floats, Indices]:
    """Rows, their targets, and the numbers of their decisions."""
    contexts: list[Features] = []
    arms: list[Indices | None] = []
    values: list[Floats] = []
    numbers: list[Indices] = []
    counted = OFFERED if choices else pl.col("chosen").list.len()
    learned = log.frame if where is None else log.frame.filter(where)
    total = int(learned.select(counted.cast(pl.Int64).sum()).collect().item())
    every = max(1, -(-total // MOST_ROWS))
    for batch in flat_batches(log, codes, columns=CONTEXTS, marginals=False, where=where, every=every):
        contexts.append(layout.encode(batch, chosen=not choices))
        if choices:
            arms.append(batch.arms)
            values.append(np.bincount(batch.chosen, minlength=batch.size).astype(np.float64))
            numbers.append(np.repeat(batch.numbers, batch.offered))
        else:
            arms.append(None if batch.arms is None else batch.arms[batch.chosen])
            values.append(batch.rewards)
            numbers.append(batch.numbers[batch.owner])
    layout.closed = True
    width = len(layout.codes)
    # Columns that later batches brought are missing in the earlier ones.
    full = [np.pad(part, ((0, 0), (0, width - part.shape[1])), constant_values=np.nan) for part in contexts]
    known = [each for each in arms if each is not None]
    rows = Candidates(
        np.concatenate(full) if full else np.zeros((0, width), np.float32),
        np.concatenate(known) if known and len(known) == len(arms) else None,
        layout.columns,
    )
    return rows, np.concatenate(values or [np.zeros(0)]), np.concatenate(numbers or [np.zeros(0, np.intp)])


def folds_of(numbers: Indices, folds: int) -> Indices:
    """The fold of each decision: scattered by its number, so that neither order nor stride is seen in it."""
    mixed = numbers.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return ((mixed >> np.uint64(33)) % np.uint64(folds)).astype(np.intp)
