"""An agent made of parts: a random start, a reward model, a policy."""

from __future__ import annotations

from typing import Any

import numpy as np

from treebandit import schema
from treebandit.agents.base import BaseAgent
from treebandit.agents.deciding import Offer
from treebandit.agents.explaining import Explanation, explained
from treebandit.agents.random_start import RandomStart, StartRule
from treebandit.core import Candidates, Estimate, Floats, Indices, optional
from treebandit.errors import NotFittedError
from treebandit.models.model import Commit, RewardModel
from treebandit.models.tree_model import TreeModel
from treebandit.parameters import check_number
from treebandit.policies import Policy
from treebandit.policies.floor import ScoreDraws

_NO_ARMS = np.zeros(0, np.intp)
#: The arms of rows without any.
ONE_ARM = np.zeros(1, np.intp)


class ModelAgent(BaseAgent):
    """Start rule + reward model + policy; a subclass names the last two in `_parts`.

    During the start, and as long as the model has learned too little, choices are random.

    >>> from treebandit import LinTS, ModelAgent
    >>> from treebandit.policies import Greedy
    >>> class GreedyLinear(LinTS):
    ...     def _parts(self):
    ...         model, _ = super()._parts()
    ...         return model, Greedy()
    >>> isinstance(GreedyLinear(seed=0).policy, Greedy)
    True
    """

    #: Fields of the subclasses that begin at random.
    random_rounds: int = 0
    random_start: StartRule = "rounds"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._start = RandomStart(self.random_rounds, self.random_start)
        self.model, self.policy = self._parts()
        #: The arms that the random start is for: those learned before the first decision, or offered in it.
        self._start_arms: Indices = _NO_ARMS

    def _parts(self) -> tuple[RewardModel, Policy]:
        """The model and the policy that the fields describe; a ParameterError where they cannot be made."""
        raise NotImplementedError

    @property
    def rebuild_seconds(self) -> float:
        """Wall seconds spent rebuilding the model so far."""
        return float(optional(self.model, "rebuild_seconds", 0.0))

    @property
    def start_rounds(self) -> int:
        """T_I: rounds before the model decides."""
        return self._start.length(len(self._start_arms))

    def wait(self, timeout: float | None = None) -> bool:
        """End the rebuild that is under way, if any: wait for its thread, or do what is left of it.

        timeout: seconds to wait for a thread; returns False where it still works then.
        """
        return self._waited(timeout, self)

    def _waited(self, timeout: float | None, owner: BaseAgent) -> bool:
        """`wait`, between two calls of the agent that others call: this one, or the one that it is part of."""
        owner._refuse_nested("wait")
        model = self.model
        if not isinstance(model, TreeModel):
            return True
        with owner._lock:
            owner._finish()
            job = model.rebuild
            if job is None:
                return True
            if not model.settings.background:
                self._unfinished = model.prepared_swap(at_once=True)
                self._finish()
                return True
            job.start(model)
        if not job.join(timeout):
            return False
        with owner._lock:
            owner._finish()
            model.drop_failed()
        return True

    def _finish(self) -> None:
        if self._unfinished is not None:
            super()._finish()
        model = self.model
        if isinstance(model, TreeModel) and model.rebuild is not None:
            self._unfinished = model.prepared_swap()
            super()._finish()

    def explain(self, contexts: Any, arms: Any = None, *, draws: int = 100) -> Explanation:
        """What each column, and the arm, adds to the mean of each candidate; how much is exploration; and which learned
        rows were most like it. Changes nothing.

        Trees are explained by Shapley values of paths (TreeSHAP), linear models by z_j·θ_j; both add up exactly. The
        one-hot columns of a category are summed up.

        contexts, arms: as in `choose`. draws: of the score, whose mean tells how much exploration adds.
        """
        check_number("draws", draws, least=1, whole=True)

        def explain(rows: Candidates) -> Explanation:
            self._estimate(rows)  # says what is missing
            labels = Offer.of(contexts, arms, rows, "explained").labels
            scores = self.policy.draws(self.model, rows, t=self.clock, random=self._random, size=int(draws))
            return explained(self.model, rows, scores, contexts, labels, self._inputs)

        return self._round("explain", contexts, arms, explain, undone=True)

    def _arms_of(self, candidates: Candidates) -> Indices:
        """The arms among these rows; one where the features alone tell candidates apart."""
        return ONE_ARM if candidates.arms is None else np.unique(candidates.arms)

    def _scores(self, candidates: Candidates) -> Floats:
        if self._starting(candidates):
            return self._start.scores(candidates, self.clock, self._random, arms=len(self._start_arms))
        return self.policy.scores(self.model, candidates, t=self.clock, random=self._random)

    def _draws(self, candidates: Candidates, size: int) -> ScoreDraws:
        if self._starting(candidates):
            return self._start.draws(candidates, self.clock, self._random, size, arms=len(self._start_arms))
        return ScoreDraws.of(
            self.policy.draws(self.model, candidates, t=self.clock, random=self._random, size=size)
        )

    def _starting(self, candidates: Candidates) -> bool:
        """Whether the start rule decides this round; the first candidates offered tell how long it lasts."""
        if not len(self._start_arms):
            self._start_arms = self._arms_of(candidates)
        return not self.model.fitted or self.clock <= self.start_rounds

    def _prepared(self, chosen: Candidates, rewards: Floats, *, t: int) -> Commit:
        arms = self._start_arms
        if not self._decided:
            arms = np.union1d(arms, self._arms_of(chosen))
        commit = self.model.prepared(
            chosen, rewards, t=t, random=self._random, started=t >= self._start.length(len(arms))
        )

        def commit_both() -> None:
            commit()
            self._start_arms = arms

        return commit_both

    def _estimate(self, candidates: Candidates) -> Estimate:
        if not self.model.fitted:
            start = f" after the random start of {self.start_rounds} rounds" if self.start_rounds else ""
            raise NotFittedError(
                f"nothing to estimate from in round {self.clock}; learn rewards{start} first"
            )
        return self.model.estimate(candidates)

    def _state(self) -> dict[str, Any]:
        return {"start_arms": self._start_arms, "model": self.model.state()}

    def _deciding_state(self) -> dict[str, Any]:
        return {"start_arms": self._start_arms, "model": self.model.state(history=False)}

    def _restore(self, state: dict[str, Any]) -> None:
        self._start_arms = schema.labels(state, "start_arms")
        self.model.restore(schema.part(state, "model"))
        history = optional(self.model, "history")
        if history is not None:
            history.check(self._inputs.columns, self._inputs.with_arms, whole=not self.decide_only)
