"""What a tree model is made of."""

from __future__ import annotations

from dataclasses import dataclass

from treebandit.drift import MemoryRule, check_memory
from treebandit.errors import ParameterError
from treebandit.features.encoding import ArmEncoding, CategoryEncoding
from treebandit.models.schedule import Schedule
from treebandit.parameters import check_number
from treebandit.trees.forest import TreeLearner
from treebandit.trees.leaf_statistics import LeafOutput, StatisticsFrom, VarianceKind
from treebandit.trees.limits import check_learner, check_out_of_bag


@dataclass(frozen=True, slots=True)
class TreeSettings:
    """What a tree model is made of; the arguments of the agents that have one, under the same names."""

    trees: TreeLearner
    rebuild: str = "8 ln t"
    arm_encoding: ArmEncoding = "auto"
    categories: CategoryEncoding = "codes"
    leaf_output: LeafOutput = "library"
    statistics: StatisticsFrom = "all"
    held_out_share: float = 0.5
    prior_rows: float = 0.0
    variance: VarianceKind = "leaf"
    standardise: bool = True
    memory: MemoryRule = "all"
    background: bool = False

    def __post_init__(self) -> None:
        check_number("held_out_share", self.held_out_share, above=0, below=1)
        check_number("prior_rows", self.prior_rows, least=0)
        check_learner(self.trees)
        if self.statistics == "out_of_bag":
            check_out_of_bag(self.trees)
        check_memory(self.memory)
        if self.memory != "all" and Schedule.parse(self.rebuild) == Schedule():
            raise ParameterError(
                f"memory={self.memory!r} with rebuild='never'; rows are forgotten at rebuilds: give rebuild='8 ln t'"
            )
