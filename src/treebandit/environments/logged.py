"""A real decision log as an environment: what agents would have earned, as far as the log can tell."""

from __future__ import annotations

import os
import reprlib
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from treebandit.core import Candidates, Feedback, Floats, Indices, Outcome, Round
from treebandit.environments.rounds import OneRoundAtATime
from treebandit.errors import ChoiceError, InputError, LogError, ParameterError
from treebandit.evaluation.batches import CONTEXTS, ArmCodes, flat_batches
from treebandit.evaluation.diagnostics import rare_rewards
from treebandit.evaluation.intervals import standard_error
from treebandit.evaluation.log import DecisionLog
from treebandit.evaluation.opening import FOLDER, open_log
from treebandit.evaluation.replayed import least_logged
from treebandit.evaluation.reward_models import CrossFitted
from treebandit.oracles import best_arm
from treebandit.parameters import check_choice, check_number, check_seed
from treebandit.trees.forest import TreeLearner

Mode = Literal["auto", "replay", "doubly_robust"]


class _Events(NamedTuple):
    """A log in memory: candidates one after the other, and per decision where they begin and what was logged."""

    candidates: Candidates
    starts: Indices
    ends: Indices
    chosen: Indices
    logged: Floats
    rewards: Floats
    predicted: Floats


@dataclass(eq=False)
class Logged(OneRoundAtATime):
    """Events of a log in random order; the agent learns those in which it chooses what was logged.

    log: a path or a name as in `open_log`, or a DecisionLog; one row is chosen in each decision, with a known
        probability.
    mode: 'replay', the value of an agent is the mean reward of the events it used, which is right for uniform logs;
        'doubly_robust', that of all events, the reward of each choice being q + 1{as logged} (r - q) / h; 'auto',
        replay for uniform logs.
    least_probability: an event in which the choice is the logged one is used with probability least / h, so that the
        used ones are as if the agent had decided itself (rejection sampling). None: as h for a uniform log, else what
        5 % of the decisions lie below; these are used too rarely.
    reward_model: a tree learner for q.
    folds: q is cross-fitted in so many.
    seed: of the order of the events, of those used, and of ties.

    A holdout that always got the same arm is left out: it tells nothing of other choices.

    The regret of a choice is how much less it would pay than the best one by the model q: the log knows no more of
    choices that were not made. `value` is the estimate that does not rest on q.

    >>> from treebandit import LinUCB, play_round
    >>> from treebandit.environments import Logged
    >>> from treebandit.evaluation import shop_log
    >>> environment = Logged(shop_log(300, policy="uniform"), seed=0)
    >>> choice, outcome = play_round(LinUCB(seed=0), environment)
    """

    log: str | DecisionLog
    mode: Mode = field(default="auto", kw_only=True)
    least_probability: float | None = field(default=None, kw_only=True)
    reward_model: TreeLearner | None = field(default=None, kw_only=True)
    folds: int = field(default=5, kw_only=True)
    seed: int | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        check_choice("mode", self.mode, ("auto", "replay", "doubly_robust"))
        check_number("least_probability", self.least_probability, above=0, most=1, optional=True)
        check_seed(self.seed)
        events = self._events = self._read()
        uniform = bool(np.allclose(events.logged * (events.ends - events.starts), 1.0, atol=1e-6))
        self.replays = self.mode == "replay" or (self.mode == "auto" and uniform)
        least = self.least_probability or least_logged(events.logged, uniform=uniform)
        order, ties, luck = (np.random.default_rng(s) for s in np.random.SeedSequence(self.seed).spawn(3))
        self._order = order.permutation(len(events.logged))
        self._accepted = luck.random(len(events.logged)) < least / events.logged
        self._oracle = partial(best_arm, random=ties)
        self.columns = events.candidates.columns
        self.shown = self.used = 0
        self._earned: list[float] = []
        # Of the events in which the choice was the logged one, as far as they count.
        self._weights: list[float] = []
        self._paid: list[float] = []
        self._nothing = Feedback(self._candidates(0)[:0], np.zeros(0))

    @property
    def horizon(self) -> int:
        """How many events there are."""
        return len(self._order)

    @property
    def note(self) -> str:
        """How many events were used."""
        return f"{self.used:,} of {self.shown:,} events of the log were used"

    @property
    def value(self) -> tuple[float, float]:
        """Mean reward per decision of the agent that chose, and its standard error; NaN before the second event.

        Where rewards are rare, the error is at least that of a share.
        """
        earned = np.array(self._earned)
        if len(earned) < 2:
            return np.nan, np.nan
        mean, error = float(earned.mean()), standard_error(earned)
        rare = rare_rewards(np.array(self._weights), np.array(self._paid))
        return mean, error if rare is None else max(error, rare.error(mean))

    def _next_round(self) -> Round:
        if self.shown == self.horizon:
            raise InputError(f"all {self.horizon} events have been shown; make a new environment to go on")
        self.shown += 1
        return Round(self._candidates(self._order[self.shown - 1]), self._oracle)

    def _candidates(self, event: int) -> Candidates:
        events = self._events
        return events.candidates[events.starts[event] : events.ends[event]]

    def _outcome(self, rows: Indices) -> Outcome:
        """The logged reward where the choice is the logged one, else the model's; the agent learns the former alone."""
        event, events = self._order[self.shown - 1], self._events
        candidates = self._candidates(event)
        if len(rows) != 1:
            raise ChoiceError(f"choice {rows.tolist()}; choose exactly one of the {len(candidates)} rows")
        predicted = events.predicted[events.starts[event] : events.ends[event]]
        row = int(rows[0])
        regret = max(0.0, float(predicted.max() - predicted[row]))
        if row != events.chosen[event]:
            if not self.replays:
                self._earned.append(float(predicted[row]))
            return Outcome(predicted[rows], regret, self._nothing)
        reward = float(events.rewards[event])
        used = bool(self._accepted[event])
        if not self.replays:
            self._earned.append(float(predicted[row] + (reward - predicted[row]) / events.logged[event]))
        elif used:
            self._earned.append(reward)
        if used or not self.replays:
            self._weights.append(1.0 if self.replays else 1 / float(events.logged[event]))
            self._paid.append(reward)
        self.used += used
        rewards = np.array([reward])
        feedback = Feedback(candidates[rows], rewards) if used else self._nothing
        return Outcome(rewards, regret, feedback)

    def _read(self) -> _Events:
        if isinstance(self.log, DecisionLog):
            return _events(self.log, self.reward_model, self.folds)
        if not isinstance(self.log, str):
            raise ParameterError(f"log is {reprlib.repr(self.log)}; give a path, a name or a DecisionLog")
        # Options of learners are dicts, of which no cache can be made.
        model = _Described(repr(self.reward_model), self.reward_model)
        return _read_once(self.log, model, self.folds, _stamp(self.log))


def _stamp(log: str) -> tuple[Any, ...]:
    """Where the files of a log are, and when they were written."""
    path = Path(log).absolute()
    # Unlike pathlib, os.path says no of a name that no file can have.
    files = sorted(path.rglob("*")) if os.path.isdir(path) else [path] if os.path.isfile(path) else []
    return os.environ.get(FOLDER), *((file, file.stat().st_mtime_ns) for file in files)


@dataclass(frozen=True)
class _Described:
    """A reward model that is the same as others of the same description."""

    description: str
    model: TreeLearner | None = field(compare=False)


@lru_cache(maxsize=2)
def _read_once(log: str, reward_model: _Described, folds: int, stamp: tuple[Any, ...]) -> _Events:
    """A log and its reward model, made again only when its files have changed."""
    return _events(open_log(log), reward_model.model, folds)


def _events(log: DecisionLog, reward_model: Any, folds: int) -> _Events:
    log, summary, _ = log.without_control()
    log = log.rewarded()
    if summary.sets or summary.with_probability < summary.decisions:
        raise LogError(
            f"{log.source} chooses several rows at a time, or lacks probabilities; an environment needs decisions of "
            "one row with a known probability"
        )
    if not summary.rewarded:
        raise LogError(f"{log.source} has no decision with a reward")
    codes = ArmCodes()
    model = CrossFitted.learned(log, codes, model=reward_model, folds=folds)
    columns = model.layout.columns
    candidates, facts, offset = [], [], 0
    for batch in flat_batches(log, codes, columns=CONTEXTS, marginals=False):
        candidates.append(Candidates(model.layout.encode(batch), batch.arms, columns))
        starts, chosen = batch.starts + offset, batch.chosen - batch.starts
        facts.append(
            (starts, starts + batch.offered, chosen, batch.logged, batch.reward, model.predict(batch))
        )
        offset += batch.size
    return _Events(Candidates.joined(candidates), *map(np.concatenate, zip(*facts, strict=True)))
