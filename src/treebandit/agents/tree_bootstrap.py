"""TreeBootstrap: Thompson sampling by the bootstrap, one tree model per arm (Elmachtoub et al., 2017)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from treebandit.agents.model_agent import ModelAgent
from treebandit.agents.random_start import StartRule
from treebandit.features.encoding import CategoryEncoding
from treebandit.models.bootstrap import BootstrapModel, BootstrapSettings
from treebandit.parameters import shared_fields
from treebandit.policies import Policy, Thompson
from treebandit.trees.forest import TreeLearner
from treebandit.trees.sklearn_trees import DecisionTreeTrees


@dataclass(eq=False)
class TreeBootstrap(ModelAgent):
    """Per arm one tree model on a bootstrap sample of the arm's own rows; the arm predicted best is played.

    trees: the model of an arm; one CART decision tree by default.
    mode, replicates: 'exact' takes a new bootstrap sample and a new model per arm at every decision; 'replicates' keeps
        `replicates` such models per arm, rebuilt by the schedule, and draws one of them per arm and decision.
    rebuild: when the replicates of an arm are rebuilt: '8 ln t', 'every 100' or 'never' (after the first time),
        t being the number of the arm's own rows; and at once when an arm pays something new after always the same.
    random_rounds, random_start: T_I, that many random rounds times the number of arms ('per_arm', the paper's),
        that many in all ('rounds'), or each arm in turn ('in_turn').
    optimistic_reward: what an arm without rows predicts; None for the greatest reward seen so far.
    constant_rewards: all bootstrap samples of an arm that has always paid the same agree, so that one that failed
        in its first few rounds would never be tried again. 'drawn': as long as an arm's n rows have the same
        reward r, it predicts r + (optimistic - r) · B with B from Beta(1, n), what a uniform prior leaves to
        the chance of a better reward; 'trusted': it predicts r.
    categories: columns of categories as integer 'codes' or 'one_hot'.
    standardise: fit to rewards of mean 0 and standard deviation 1, so that choices do not depend on the unit of the
        rewards; False, to the rewards as they are.

    Without arm labels all rows share one model. A single tree and a random forest grow only the path that the
    context takes, so that their exact mode is cheap (a forest from columns cut into 255 bins); any other learner
    fits a whole ensemble per arm and decision.

    >>> from treebandit import TreeBootstrap
    >>> agent = TreeBootstrap(random_rounds=1, seed=0)
    >>> decision = agent.decide([1.0, 2.0], arms=["a", "b"])
    >>> agent.learn(decision, 1.0)
    """

    trees: TreeLearner = field(default_factory=DecisionTreeTrees)
    mode: Literal["exact", "replicates"] = "exact"
    replicates: int = 10
    rebuild: str = "8 ln t"
    random_rounds: int = 10
    random_start: StartRule = "per_arm"
    optimistic_reward: float | None = None
    constant_rewards: Literal["drawn", "trusted"] = "drawn"
    categories: CategoryEncoding = "codes"
    standardise: bool = True
    seed: int | None = None

    def _parts(self) -> tuple[BootstrapModel, Policy]:
        return BootstrapModel(shared_fields(BootstrapSettings, self)), Thompson(1.0)

    @property
    def note(self) -> str:
        """How faithful the run is, for its record: 'exact', or how many replicates are drawn from instead."""
        return "exact" if self.mode == "exact" else f"{self.replicates} replicates, {self.rebuild}"
