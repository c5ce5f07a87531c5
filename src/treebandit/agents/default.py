"""The agent to take when nothing is known of the problem."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from treebandit.agents.encoding import CategoryEncoding, Encoder
from treebandit.agents.linear_scores import LinearEncoder
from treebandit.agents.tree_ensemble import TETS, RandomStart
from treebandit.bandit import Candidates, Features, Floats
from treebandit.errors import ParameterError
from treebandit.trees.forest import TreeLearner
from treebandit.trees.histogram_forest import HistogramForest


def _default_forest() -> HistogramForest:
    return HistogramForest(bootstrap=False, subsample=0.8, blind_share=0.5)


@dataclass(eq=False)
class Bandit(TETS):
    """The default agent: Thompson sampling over the leaves of a forest, half of whose trees see a linear model too.

    It is TETS with other defaults, chosen once on many problems (docs/default-agent.md), and with `linear`: whether
    the last column of the features is the score of a ridge regression per arm. The forest's `blind_share` of trees
    does without it. Categories are one-hot up to 64 of them in a column, and numbers beyond.
    """

    trees: TreeLearner = field(default_factory=_default_forest)
    random_rounds: int = 2
    random_start: RandomStart = "in_turn"
    categories: CategoryEncoding = "one_hot"
    sampling: Literal["candidates", "leaves"] = "leaves"
    linear: bool = True

    def _check_arguments(self) -> None:
        super()._check_arguments()
        if self.categories != "one_hot":
            raise ParameterError(
                f"categories={self.categories!r}; linear models need 'one_hot', take TETS for integer codes"
            )

    def _fit_encoder(self, rows: Candidates, targets: Floats) -> tuple[Encoder, Features]:
        return LinearEncoder.fit(rows, targets, arm_encoding=self.arm_encoding, linear=self.linear)

    def _restored_encoder(self, state: dict[str, Any]) -> Encoder:
        return LinearEncoder.from_state(state)
