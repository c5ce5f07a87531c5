"""TEUCB and TETS: one tree ensemble for all arms, its leaves telling how sure it is (paper, Algorithm 1)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from treebandit.agents.model_agent import ONE_ARM, ModelAgent
from treebandit.agents.random_start import StartRule
from treebandit.core import Candidates, Indices
from treebandit.drift import MemoryRule
from treebandit.features.encoding import ArmEncoding, CategoryEncoding
from treebandit.models.tree_model import TreeModel
from treebandit.models.tree_settings import TreeSettings
from treebandit.parameters import shared_fields
from treebandit.policies import UCB, Policy, Thompson
from treebandit.trees.forest import TreeLearner
from treebandit.trees.leaf_statistics import LeafOutput, StatisticsFrom, VarianceKind
from treebandit.trees.xgboost_trees import XGBoostTrees


@dataclass(eq=False)
class _TreeEnsembleAgent(ModelAgent):
    """Algorithm 1 but for its last line, which the policies of TEUCB and TETS write.

    trees: the tree library and its settings.
    exploration: ν in the paper; 0 is greedy.
    random_rounds, random_start: T_I. 'per_arm': that many random rounds times the number of arms (paper; times
        one where the features alone tell candidates apart); 'rounds': that many in all; 'in_turn': each arm in
        turn, that many times.
    rebuild: '8 ln t' (paper: whenever ⌈8 ln t⌉ grows), 'every 100' or 'never' (after the first time).
    arm_encoding: the arm's 'label' in front of the features, 'one_hot' of it, or 'none'; 'auto' is the label
        where arms are given.
    categories: columns of categories as integer 'codes' or 'one_hot'.
    leaf_output: o as the 'library' set it, or the plain 'average' of what the rows suggest.
    statistics: from 'all' rows, from a 'held_out' share of them that no tree is grown on, or 'out_of_bag'.
    held_out_share: how large that share is.
    prior_rows: rows' weight of the variance of all rewards in the variance of each leaf; 0 in the paper, where a
        leaf of equal rewards is sure of itself.
    variance: σ² as Σ s²/c of the 'leaf', as in the paper; or 'calibrated', learned at each rebuild from trees grown on
        parts of the rows, so that μ ± 1.96 σ holds the true mean about 95 times in 100; a rebuild then takes four
        to eleven times as long.
    standardise: give the trees rewards of mean 0 and standard deviation 1, so that choices do not depend on the unit
        of the rewards; False, the rewards as they are, as in the paper.
    memory: 'all' rows count for ever; a number, only as many of the newest, from rebuild to rebuild; 'auto', rows
        learned before a change are dropped when predictions have become worse, and the model is rebuilt at once.
    background: rebuild on a thread while decisions go on with the trees of before; choices then depend on time, too.
    """

    trees: TreeLearner = field(default_factory=XGBoostTrees)
    exploration: float = 1.0
    random_rounds: int = 10
    random_start: StartRule = "per_arm"
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
    seed: int | None = None

    def _parts(self) -> tuple[TreeModel, Policy]:
        return TreeModel(shared_fields(TreeSettings, self)), self._exploring()

    def _exploring(self) -> Policy:
        raise NotImplementedError

    def _arms_of(self, candidates: Candidates) -> Indices:
        return ONE_ARM if self.arm_encoding == "none" else super()._arms_of(candidates)


@dataclass(eq=False)
class TEUCB(_TreeEnsembleAgent):
    """Tree Ensemble Upper Confidence Bound: U = μ + √(ν² σ² ln(t-1) / c), as Algorithm 1 prints it.

    bonus: 'printed'; or 'undivided': σ² already is Σ s²/c, so that the printed rule divides by counts twice, and this
        one leaves out the second division: U = μ + √(ν² σ² ln(t-1)).

    >>> from treebandit import TEUCB, HistogramForest
    >>> agent = TEUCB(HistogramForest(n_trees=10), random_rounds=2, seed=0)
    >>> for reward in (0.0, 1.0, 1.0, 0.0, 1.0):
    ...     decision = agent.decide([0.5], arms=["a", "b"])
    ...     agent.learn(decision, reward)
    >>> agent.estimate([0.5], arms=["a", "b"]).mean.shape
    (2,)
    """

    bonus: Literal["printed", "undivided"] = "printed"

    def _exploring(self) -> Policy:
        return UCB(self.exploration, growing=True, divided=self.bonus == "printed")


@dataclass(eq=False)
class TETS(_TreeEnsembleAgent):
    """Tree Ensemble Thompson Sampling: a draw from N(μ, ν² σ²) per candidate.

    sampling: 'candidates' draws each candidate for itself, as Algorithm 1 prints it; 'leaves' draws each leaf's
        output, so that every candidate has the same N(μ, ν² σ²) but candidates in the same leaf share its draw.
        The trees cannot tell such candidates apart there, so independent draws only add noise to the choice.

    >>> from treebandit import TETS, HistogramForest, TopK
    >>> agent = TETS(HistogramForest(n_trees=10), random_start="rounds", seed=0)
    >>> articles = [{"topic": "sport", "hours": 3.0}, {"topic": "news", "hours": 1.0}, {"topic": "art", "hours": 9.0}]
    >>> decision = agent.decide(articles, oracle=TopK(2))
    >>> agent.learn(decision, [1.0, 0.0])
    """

    sampling: Literal["candidates", "leaves"] = "candidates"

    def _exploring(self) -> Policy:
        return Thompson(self.exploration, joint=self.sampling == "leaves")
