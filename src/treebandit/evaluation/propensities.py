"""Probabilities that were not logged, estimated from the choices: better than nothing, and never silent."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from treebandit.core import Floats
from treebandit.evaluation.batches import ArmCodes, Batch
from treebandit.evaluation.columns import WITHOUT_PROBABILITY
from treebandit.evaluation.log import DecisionLog
from treebandit.evaluation.reward_models import CrossFitted
from treebandit.trees.histogram_forest import HistogramForest

#: No candidate is believed to have had less; a smaller one would be a guess with a large weight.
LEAST = 0.005


@dataclass
class EstimatedPropensities:
    """A classifier of the choices: given context and arm, how likely was this candidate to be chosen?

    Cross-fitted like reward models. It is right only where the logged contexts hold all that the logging policy looked
    at, and one policy made all decisions without a probability; a policy that saw more, or that changed while it was
    logged, makes every estimate from it wrong.
    """

    fitted: CrossFitted

    @classmethod
    def learned(
        cls,
        log: DecisionLog,
        codes: ArmCodes,
        *,
        folds: int = 5,
        seed: int = 0,
        where: pl.Expr = WITHOUT_PROBABILITY,
    ) -> EstimatedPropensities:
        """Learn the choices of those decisions of a log that were logged without a probability, or of others."""
        model = HistogramForest(n_trees=50, max_depth=6, min_samples_leaf=25)
        fitted = CrossFitted.learned(
            log, codes, model=model, folds=folds, seed=seed, choices=True, where=where
        )
        return cls(fitted)

    def filled(self, batch: Batch) -> Floats:
        """(c,), the logged probabilities of the chosen candidates, and estimates where there are none."""
        unknown = np.isnan(batch.logged)
        if not unknown.any():
            return batch.logged
        return np.where(unknown, self.probabilities(batch)[batch.chosen], batch.logged)

    def probabilities(self, batch: Batch) -> Floats:
        """(m,), of every candidate being chosen; each decision's sum to the number that it chose."""
        found = np.clip(self.fitted.predict(batch), LEAST, 1.0)
        scale = batch.chosen_per_decision / batch.sums(found)
        return np.minimum(found * np.repeat(scale, batch.offered), 1.0)


def warning(missing: int, total: int) -> str:
    """What is said wherever estimated probabilities are used."""
    return (
        f"PROBABILITIES ARE ESTIMATED: {missing:,} of {total:,} decisions were logged without one. A forest guesses "
        "them from contexts and arms of these decisions; estimates are right only if the logged contexts hold all that "
        "the logging policy looked at, and intervals do not count the error of the guess. Log probabilities."
    )


def too_few(missing: int) -> str:
    """What is said where so few decisions have none that nothing can be learned from them."""
    return (
        f"{missing:,} decisions were logged without a probability, too few to estimate it, and are left out for all "
        "policies but logging."
    )
