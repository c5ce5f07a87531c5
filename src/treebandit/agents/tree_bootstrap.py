"""TreeBootstrap: Thompson sampling by the bootstrap, one tree model per arm (Elmachtoub et al., 2017)."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from treebandit.agents.base import BaseAgent
from treebandit.core import Candidates, Columns, Estimate, Features, Floats
from treebandit.errors import NotFittedError, ParameterError
from treebandit.features.encoding import CategoryEncoding, Encoder, check_encoding
from treebandit.models.history import History
from treebandit.models.schedule import Schedule
from treebandit.trees.binned_paths import BinnedRows
from treebandit.trees.bootstrap_paths import PathLearner, SortedRows
from treebandit.trees.forest import Forest, TreeLearner
from treebandit.trees.sklearn_trees import DecisionTreeTrees

#: Up to as many rows of one arm, growing a path for each is cheaper than growing whole trees.
_FEW_ROWS = 4
#: The label under which rows without arms share one model.
_NO_ARM = 0


class _Arm:
    """Rows of one arm, and the models that stand for it until the next rebuild."""

    __slots__ = ("forests", "level", "lone", "rows")

    def __init__(self, width: int, *, single_tree: bool) -> None:
        self.rows = SortedRows(width) if single_tree else BinnedRows(width)
        self.forests: list[Forest] = []
        self.level = 0
        #: Whether the models know one reward only.
        self.lone = True

    @property
    def is_lone(self) -> bool:
        """Whether all rows have the same reward."""
        return bool(self.rows.targets.min() == self.rows.targets.max())


@dataclass(eq=False)
class TreeBootstrap(BaseAgent):
    """Per arm one tree model on a bootstrap sample of the arm's own rows; the arm predicted best is played.

    trees: the model of an arm; one CART decision tree unless told otherwise.
    mode: 'exact' takes a new bootstrap sample and a new model per arm at every decision; 'replicates' keeps
        `replicates` such models per arm, rebuilt by the schedule, and draws one of them per arm and decision.
    rebuild: when the replicates of an arm are rebuilt: '8 ln t', 'every 100' or 'never' (after the first time),
        t being the number of the arm's own rows, so that a wrong model of a rare arm does not stay for long; and at
        once when an arm pays something new after always the same.
    random_rounds, random_start: T_I, that many random rounds times the number of arms ('per_arm', the paper's)
        or that many in all ('rounds').
    optimistic_reward: what an arm without rows predicts; None for the greatest reward seen so far.
    lone_reward: all bootstrap samples of an arm that has always paid the same agree, so that one that failed
        in its first few rounds would never be tried again. 'drawn': as long as an arm's n rows have the same
        reward r, it predicts r + (optimistic - r) · B with B from Beta(1, n), what a uniform prior leaves to
        the chance of a better reward; 'trusted': it predicts r.
    categories: columns of categories as integer 'codes' or 'one_hot'.

    Without arm labels all rows share one model. A single tree and a random forest grow only the path that the
    context takes, so that their exact mode is cheap (a forest from columns cut into 255 bins); any other learner
    fits a whole ensemble per arm and decision.
    """

    trees: TreeLearner = field(default_factory=DecisionTreeTrees)
    mode: Literal["exact", "replicates"] = "exact"
    replicates: int = 10
    rebuild: str = "8 ln t"
    random_rounds: int = 10
    random_start: Literal["per_arm", "rounds"] = "per_arm"
    optimistic_reward: float | None = None
    lone_reward: Literal["drawn", "trusted"] = "drawn"
    categories: CategoryEncoding = "codes"
    seed: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_arguments()
        self._schedule = Schedule.parse(self.rebuild)
        self._history = History()
        self._encoder: Encoder | None = None
        self._arms: dict[int, _Arm] = {}
        self._arms_met = 0

    def _check_arguments(self) -> None:
        check_encoding("auto", self.categories)
        if self.mode not in ("exact", "replicates"):
            raise ParameterError(f"mode={self.mode!r}; choose 'exact' or 'replicates'")
        if self.lone_reward not in ("drawn", "trusted"):
            raise ParameterError(f"lone_reward={self.lone_reward!r}; choose 'drawn' or 'trusted'")
        if self.random_start not in ("per_arm", "rounds"):
            raise ParameterError(f"random_start={self.random_start!r}; choose 'per_arm' or 'rounds'")
        if self.replicates < 1:
            raise ParameterError(f"replicates={self.replicates!r}; expected 1 or more")
        if self.random_rounds < 0:
            raise ParameterError(f"random_rounds={self.random_rounds!r}; expected 0 or more")
        if self.optimistic_reward is not None and not math.isfinite(self.optimistic_reward):
            raise ParameterError(f"optimistic_reward={self.optimistic_reward!r}; expected a finite number")
        if not isinstance(self.trees, TreeLearner):
            raise ParameterError(f"trees={self.trees!r} has no method fit(features, targets, *, seed)")

    @property
    def note(self) -> str:
        """How faithful the run is, for its record: 'exact', or how many replicates stand in for it."""
        return "exact" if self.mode == "exact" else f"{self.replicates} replicates, {self.rebuild}"

    @property
    def start_rounds(self) -> int:
        """T_I: rounds before the models decide."""
        return self.random_rounds * (1 if self.random_start == "rounds" else self._arms_met)

    def _scores(self, candidates: Candidates) -> Floats:
        if not self._arms_met:
            self._arms_met = len(candidates) if candidates.arms is None else len(np.unique(candidates.arms))
        if not self._arms or self.clock <= self.start_rounds:
            return self._random.random(len(candidates))
        features = self._encode(candidates)
        scores = np.full(len(candidates), self._optimism())
        for label, rows in _rows_by_arm(candidates).items():
            arm = self._arms.get(label)
            if arm is not None:
                scores[rows] = self._draw(arm, features[rows], self._random)
        return scores

    def _optimism(self) -> float:
        if self.optimistic_reward is not None:
            return self.optimistic_reward
        return float(self._history.rewards.max())

    def _draw(self, arm: _Arm, features: Features, random: np.random.Generator) -> Floats:
        """What one bootstrap model of the arm predicts for each row: (n,)."""
        if self.lone_reward == "drawn" and arm.is_lone:
            reward = float(arm.rows.targets[0])
            better = max(self._optimism() - reward, 0.0)
            return np.full(len(features), reward + better * random.beta(1.0, len(arm.rows)))
        if arm.forests:
            return arm.forests[random.integers(len(arm.forests))].predict(features)
        if isinstance(self.trees, PathLearner) and len(features) <= _FEW_ROWS:
            limits = self.trees.path_limits(features.shape[1])
            seed = int(random.integers(2**63))
            return np.array([arm.rows.predict_bootstrap(row, limits, seed=seed) for row in features])
        return self._fit(arm, random).predict(features)

    def _fit(self, arm: _Arm, random: np.random.Generator) -> Forest:
        """A model on a bootstrap sample of the arm's rows."""
        sample = random.integers(len(arm.rows), size=len(arm.rows))
        features = np.ascontiguousarray(arm.rows.features[sample])
        return self.trees.fit(features, arm.rows.targets[sample], seed=int(random.integers(2**31 - 1)))

    def _estimate(self, candidates: Candidates) -> Estimate:
        """Mean and variance over `replicates` bootstrap models, without touching the agent's random stream."""
        if not self._arms:
            raise NotFittedError("no rows learned yet; learn some before asking for an estimate")
        random = np.random.default_rng([self.clock, len(self._history)])
        features = self._encode(candidates)
        mean = np.full(len(candidates), self._optimism())
        variance = np.full(len(candidates), float(self._history.rewards.var()))
        count = np.zeros(len(candidates))
        for label, rows in _rows_by_arm(candidates).items():
            arm = self._arms.get(label)
            if arm is not None:
                predictions = np.array(
                    [self._draw(arm, features[rows], random) for _ in range(self.replicates)]
                )
                mean[rows], variance[rows], count[rows] = (
                    predictions.mean(0),
                    predictions.var(0),
                    len(arm.rows),
                )
        return Estimate(mean, variance, count)

    def _encode(self, candidates: Candidates) -> Features:
        assert self._encoder is not None
        return self._encoder(candidates.contexts, None)

    def _learn(self, chosen: Candidates, rewards: Floats) -> None:
        before = len(self._history), self._arms_met, self._encoder, dict(self._arms)
        lengths = {label: len(arm.rows) for label, arm in self._arms.items()}
        self._history.append(chosen, rewards)
        try:
            self._take_in(chosen, rewards)
            self._renew_models()
        except BaseException:
            length, self._arms_met, self._encoder, self._arms = before
            self._history.truncate(length)
            for label, arm in self._arms.items():
                arm.rows.truncate(lengths[label])
            raise

    def _take_in(self, chosen: Candidates, rewards: Floats) -> None:
        """Hand each row to its arm; all rows anew where the columns have gained categories."""
        if self._encoder is None or self._encoder.columns.categories != chosen.columns.categories:
            self._spread(chosen.columns)
        else:
            self._hand_out(chosen, rewards)
        if not self._decided:
            self._arms_met = max(self._arms_met, len(self._arms))

    def _spread(self, columns: Columns) -> None:
        """Encode the whole history for `columns` and hand it to new arms."""
        history = self._history
        self._encoder = Encoder(columns, None, arm_encoding="none", categories=self.categories)
        self._arms = {}
        arms = None if history.arms is None else history.arms.astype(np.intp)
        self._hand_out(Candidates(history.contexts, arms, columns), history.rewards.astype(np.float64))

    def _hand_out(self, chosen: Candidates, rewards: Floats) -> None:
        features = self._encode(chosen)
        width = features.shape[1]
        single = isinstance(self.trees, PathLearner) and self.trees.path_limits(width).n_trees == 1
        for label, rows in _rows_by_arm(chosen).items():
            if label not in self._arms:
                self._arms[label] = _Arm(width, single_tree=single)
            self._arms[label].rows.append(features[rows], rewards[rows])

    def _renew_models(self) -> None:
        """Rebuild the replicates of the arms whose rows have grown enough, and of new arms at once."""
        if self.mode == "exact" or self.clock < self.start_rounds:
            return
        levels = {label: self._schedule.level(len(arm.rows)) for label, arm in self._arms.items()}
        due = [
            label
            for label, arm in self._arms.items()
            if not arm.forests or levels[label] > arm.level or arm.lone != arm.is_lone
        ]
        if not due:
            return
        started = time.perf_counter()
        models = [
            [self._fit(self._arms[label], self._random) for _ in range(self.replicates)] for label in due
        ]
        for label, forests in zip(due, models, strict=True):
            arm = self._arms[label]
            arm.forests, arm.level, arm.lone = forests, levels[label], arm.is_lone
        self.rebuild_seconds += time.perf_counter() - started

    def _state(self) -> dict[str, Any]:
        return {
            "history": self._history.state(),
            "arms_met": self._arms_met,
            "categories": None if self._encoder is None else list(self._encoder.columns.categories),
            "models": [
                {
                    "arm": label,
                    "level": arm.level,
                    "lone": arm.lone,
                    "forests": [_saved(f) for f in arm.forests],
                }
                for label, arm in self._arms.items()
            ],
        }

    def _restore(self, state: dict[str, Any]) -> None:
        self._history = History.restored(state["history"])
        self._arms_met = int(state["arms_met"])
        if state["categories"] is not None:
            self._spread(Columns(tuple(state["categories"])))
        for saved in state["models"]:
            arm = self._arms[saved["arm"]]
            arm.level, arm.lone = int(saved["level"]), bool(saved["lone"])
            arm.forests = [Forest(**members) for members in saved["forests"]]


def _rows_by_arm(candidates: Candidates) -> dict[int, list[int]]:
    """The candidates' rows under their arm's label, in the order in which labels appear."""
    if candidates.arms is None:
        return {_NO_ARM: list(range(len(candidates)))}
    groups: dict[int, list[int]] = {}
    for row, label in enumerate(candidates.arms.tolist()):
        groups.setdefault(label, []).append(row)
    return groups


def _saved(forest: Forest) -> dict[str, Any]:
    return {**forest.arrays(), **forest.scalars()}
