"""How far off predictions are for arms that they were not learned from: some arms are held out with all their rows."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from treebandit.core import Candidates, Floats, Indices, Random
from treebandit.features.encoding import ArmEncoding
from treebandit.models.linear_scores import LinearEncoder
from treebandit.models.tree_settings import TreeSettings
from treebandit.steps import scaled
from treebandit.trees.histogram_forest import HistogramForest

#: One of so many arms is held out, up to so many, and up to so many of their rows.
_ONE_OF, _MOST_HELD_OUT, _MOST_ROWS_HELD_OUT = 5, 128, 1024
#: Trees that predict them, and the most rows that these and the regression are fitted to.
_TREES, _MOST_ROWS = 6, 2048
#: Share of the work that is done when the rows are encoded.
_ENCODED = 0.2


class UnseenArms(NamedTuple):
    """Rows of arms held out: what trees and regression of the other arms say of them, and what they paid, (n,) each."""

    arms: Indices
    trees: Floats
    scores: Floats
    rewards: Floats

    def predicted(self, linear_weight: float) -> Floats:
        """What trees and regression say, averaged."""
        return self.trees + linear_weight * (self.scores - self.trees)


def unseen_arms(
    rows: Candidates, rewards: Floats, settings: TreeSettings, *, linear: bool, random: Random
) -> Generator[float, None, UnseenArms]:
    """Predict the rows of a fifth of the arms from those of the others, with one model of all.

    The trees are a few of those in the settings, if these are a `HistogramForest`, else of a plain one: others may take
    long, and a few trees of boosting are not what many are.
    """
    assert rows.arms is not None
    labels, places = np.unique(rows.arms, return_inverse=True)
    count = min(len(labels) // _ONE_OF, _MOST_HELD_OUT)
    held_out = np.isin(places, random.permutation(len(labels))[:count])
    out, others = _some(held_out, _MOST_ROWS_HELD_OUT, random), _some(~held_out, _MOST_ROWS, random)
    paid = rewards[others]
    # Arms held out have no column of their own, so that one-hot ones would tell no more, and take longer.
    coding: ArmEncoding = "label" if settings.arm_encoding == "one_hot" else settings.arm_encoding
    encoder, features = LinearEncoder.fit(
        rows[others], paid, arm_encoding=coding, random=random, linear=linear, many_arms=True
    )
    yield _ENCODED
    plain = settings.trees if isinstance(settings.trees, HistogramForest) else HistogramForest()
    steps = replace(plain, n_trees=_TREES).fit_steps(
        features, paid, seed=int(random.integers(2**31 - 1)), column_groups=encoder.column_groups
    )
    forest = yield from scaled(steps, _ENCODED, 1.0)
    features, scores, *_ = encoder.look_up(rows.contexts[out], rows.arms[out])
    return UnseenArms(rows.arms[out], forest.predict(features), scores, rewards[out])


def _some(mask: NDArray[np.bool_], most: int, random: Random) -> Indices:
    """At most so many of the places where the mask is true, drawn at random, in rising order."""
    places = np.flatnonzero(mask)
    return places if len(places) <= most else np.sort(random.choice(places, most, replace=False))
