"""The agent to take when nothing is known of the problem."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

from treebandit.agents.model_agent import ModelAgent
from treebandit.agents.random_start import StartRule
from treebandit.core import Candidates, Floats, Random
from treebandit.drift import MemoryRule
from treebandit.features.encoding import ArmEncoding
from treebandit.models.blend import Blend
from treebandit.models.model import RewardModel
from treebandit.models.tree_settings import TreeSettings
from treebandit.parameters import check_number, shared_fields
from treebandit.policies import Policy, Thompson
from treebandit.trees.forest import TreeLearner
from treebandit.trees.histogram_forest import HistogramForest

_default_forest = partial(HistogramForest, n_trees=80, max_depth=14, bootstrap=False, subsample=0.8)


@dataclass(eq=False)
class Bandit(ModelAgent):
    """Makes decisions and learns from their rewards, with one configuration for all problems: the agent to take first.

    A forest scores all arms; a ridge regression per arm is one of its features and is blended with it by how well each
    predicted; with many numbers, so is a kernel ridge regression. It explores by Thompson sampling from the forest's
    leaves, and by a bonus for candidates unlike what an arm was tried on. Without the kernel, a candidate's score is

        (1 - w) · draw of the forest + w · z·θ + linear_exploration · boost · s · √(λ log₂ K / width) · √(h / (1 + h)),

    where h = z'A⁻¹z is the leverage of the row for its arm, λ the strength of the regressions' prior, which is 1 where
    there is little noise, s the standard deviation of all rewards and K the number of arms; and a further bonus for
    arms that were hardly tried on such rows (docs/results/default-details.md). Where rewards are nearly all noise, z·θ
    is averaged with means of arms in combinations of categories. No argument needs to be given; `seed` makes choices
    repeatable.

    trees: the forest.
    exploration: ν, how much the draws of the forest deviate from its mean; 0 is a greedy forest.
    random_rounds: how long choices are random at the start, in the unit of `random_start`.
    random_start: 'in_turn', each arm in turn, `random_rounds` times, and at random where no reward has come by then;
        'per_arm', as many random rounds times the number of arms; 'rounds', as many in all, for candidates that
        describe themselves and for sets.
    rebuild: when trees and regressions are fitted anew: '8 ln t', whenever ⌈8 ln t⌉ grows, as in the paper; the
        default, the same for 2,000 rounds, and then half as often; 'every 100'; 'never' again after the first time.
    arm_encoding: how the arm enters the trees: its 'label' in front of the features, 'one_hot', or 'none'; 'auto' is
        the label where arms are given.
    prior_rows: how many rows' weight the variance of all rewards has in the variance of each leaf; 0, a leaf of equal
        rewards is sure of itself.
    linear: False, no linear model at all.
    blend: w is what would have been best so far; False, w = 0.
    without_linear: share of the trees that do not see the linear score, which would crowd out other features.
    linear_exploration: how much the bonus weighs.
    effects: where arms are too many for a regression each, each has a random effect, which is what it pays beyond what
        its features tell; False, none.
    kernel: with 8 or more columns of numbers, a third model, a kernel ridge regression per arm on all of them, is
        blended in by how well it predicted; False, never.
    boost: the bonus grows with the square of the shortfall where even the best candidate seems to pay less than a
        standard deviation below the mean reward: such a round costs little and may teach much. False, it is the same in
        all rounds.
    standardise: choices do not depend on the unit of the rewards; False, rewards as they are.
    memory: 'all' rows count for ever; a number, only as many of the newest, from rebuild to rebuild; 'auto', rows
        learned before a change are dropped when predictions have become worse, and the model is rebuilt at once.
    background: rebuild on a thread while decisions go on with the trees of before; choices then depend on time, too.
        False, a long rebuild is spread over some rounds, and choices are repeatable. `wait` ends either.

    >>> agent = treebandit.Bandit(seed=0)
    >>> decision = agent.decide({"age": 31, "city": "Rome"}, arms=["coffee", "tea", "water"])
    >>> agent.learn(decision, 1.0)
    >>> 0 < decision.probability <= 1
    True
    >>> agent.save("agent.treebandit")
    >>> agent = treebandit.load("agent.treebandit")
    """

    trees: TreeLearner = field(default_factory=_default_forest)
    exploration: float = 1.0
    random_rounds: int = 2
    random_start: StartRule = "in_turn"
    rebuild: str = "8 ln t, 4 ln t from 2000"
    arm_encoding: ArmEncoding = "auto"
    prior_rows: float = 0.0
    linear: bool = True
    blend: bool = True
    without_linear: float = 0.5
    linear_exploration: float = 0.5
    effects: bool = True
    kernel: bool = True
    boost: bool = True
    standardise: bool = True
    memory: MemoryRule = "all"
    background: bool = False
    seed: int | None = None

    def _parts(self) -> tuple[Blend, Policy]:
        check_number("without_linear", self.without_linear, least=0, most=1)
        check_number("linear_exploration", self.linear_exploration, least=0)
        model = Blend(
            shared_fields(TreeSettings, self, categories="one_hot"),
            linear=self.linear,
            weighted=self.blend,
            without_linear=self.without_linear,
            effects=self.effects,
            kernel=self.kernel,
        )
        return model, _BonusThompson(self.exploration, bonus=self.linear_exploration, boost=self.boost)

    @property
    def linear_weight(self) -> float:
        """w, the share of the linear model in the scores."""
        assert isinstance(self.model, Blend)
        return self.model.linear_weight


@dataclass(frozen=True, slots=True)
class _BonusThompson(Thompson):
    """Thompson sampling from a blend, with a bonus by leverage."""

    bonus: float = 0.0
    boost: bool = False

    def draws(self, model: RewardModel, rows: Candidates, *, t: int, random: Random, size: int) -> Floats:
        """`size` draws per candidate, (size, n)."""
        assert isinstance(model, Blend)
        return model.explore(rows, size, random, scale=self.exploration, bonus=self.bonus, boost=self.boost)
