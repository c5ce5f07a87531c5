"""Decisions that tell their probability: checks of the arguments, what was offered, and rows to learn from them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from treebandit.core import Candidates, Columns, Decision, Floats, Oracle, Random
from treebandit.errors import ArmsError, DecideOnlyError, InputError, ParameterError, ShapeError
from treebandit.features.arm_index import plain_labels
from treebandit.features.frames import is_frame
from treebandit.features.given import Given, joined
from treebandit.features.values import shown
from treebandit.parameters import check_number, is_ours
from treebandit.policies.floor import Choices, ScoreDraws, choices

#: Draws of so many scores in all would take more than 8 GB.
_MOST_SCORES = 1 << 30
#: As a list they would be in no order, or keys or bytes in place of values.
_UNORDERED = (set, frozenset, Mapping, bytes, bytearray)


@dataclass(frozen=True, slots=True)
class Settings:
    """How the distribution of a decision is made.

    oracle: scores -> feasible rows. draws: how often it is asked. floor: share of the decisions left to chance.
    """

    oracle: Oracle
    draws: int
    floor: float

    def __post_init__(self) -> None:
        # Checked at every decision: what most callers give takes the short way.
        if (
            type(self.draws) is int
            and self.draws > 0
            and type(self.floor) is float
            and 0.0 <= self.floor <= 1.0
        ):
            return
        check_number("draws", self.draws, least=1, whole=True)
        check_number("floor", self.floor, least=0.0, most=1.0)

    def choices(self, drawn: ScoreDraws, random: Random) -> Choices:
        """The distribution over the choices, by what may be scored."""
        return choices(drawn, self.oracle, floor=float(self.floor), size=int(self.draws), random=random)

    def check_size(self, candidates: int) -> None:
        """Raise where the draws of so many candidates would not fit into memory."""
        if self.draws * candidates > _MOST_SCORES:
            raise ParameterError(
                f"draws is {self.draws} for {candidates} candidates; give at most {_MOST_SCORES // candidates}"
            )


@dataclass(frozen=True, slots=True)
class Offer:
    """What is to be decided on: candidates, their labels, the contexts as given, and an id for the decision."""

    candidates: Candidates
    labels: tuple[int | str, ...] | None
    given: Given | None
    id: str

    @classmethod
    def of(cls, contexts: Any, arms: Any, candidates: Candidates, name: str | None) -> Offer:
        """The offer of what a caller gave, checked and encoded before."""
        decision_id = _new_id() if name is None else name
        if isinstance(contexts, Candidates):
            own = None if candidates.arms is None else candidates.arms.copy()
            copied = Candidates(candidates.contexts.copy(), own, candidates.columns)
            return cls(copied, None if own is None else tuple(own.tolist()), None, decision_id)
        labels = None if arms is None else tuple(plain_labels(arms))
        if getattr(contexts, "dtype", None) == np.float32 and np.may_share_memory(
            contexts, candidates.contexts
        ):
            candidates = Candidates(candidates.contexts.copy(), candidates.arms, candidates.columns)
        return cls(candidates, labels, Given.kept(contexts, len(candidates)), decision_id)

    @classmethod
    def many(cls, contexts: Any, arms: Any, offered: list[Candidates], ids: Any) -> list[Offer]:
        """One offer per row of the contexts, over the same arms."""
        names, labels = checked_ids(ids, len(offered)), tuple(plain_labels(arms))
        rows = zip(offered, Given.each(contexts) if offered else (), names, strict=True)
        return [cls(candidates, labels, given, name or _new_id()) for candidates, given, name in rows]

    def decided(self, distribution: Choices, drawn: ScoreDraws, random: Random) -> Decision:
        """A decision drawn from the distribution."""
        (rows, probability), marginals, scores = distribution.draw(random), distribution.marginals, drawn.mean
        for array in (rows, marginals, scores):
            array.setflags(write=False)
        offered = self.id, self.candidates, self.labels
        return Decision(*offered, rows, probability, marginals, scores, self.given)


def _new_id() -> str:
    """32 random hexadecimal digits, those of a UUID of version 4."""
    bits = int.from_bytes(os.urandom(16), "big")
    bits = bits & ~(0xF << 76) & ~(0x3 << 62) | (0x4 << 76) | (0x2 << 62)
    return f"{bits:032x}"


def check_id(given: Any) -> None:
    """Raise unless it can name a decision: text, or None for a random one."""
    if given is not None and not (isinstance(given, str) and given):
        raise ParameterError(f"id is {shown(given)}; give text that is not empty, or leave it out")


def checked_ids(ids: Any, decisions: int) -> list[str | None]:
    """One id per decision, none twice."""
    if ids is None:
        return [None] * decisions
    if isinstance(ids, (str, *_UNORDERED)) or not hasattr(ids, "__iter__"):
        raise ParameterError(f"ids is {shown(ids)}; give a list of texts, one per decision")
    found = [str(each) if isinstance(each, np.str_) else each for each in ids]
    if len(found) != decisions:
        raise ShapeError(f"{len(found)} ids for {decisions} decisions; give one per row of contexts")
    for each in found:
        if each is None:
            raise ParameterError("ids hold None; give a text for every decision, or leave ids out")
        check_id(each)
    if len(set(found)) < decisions:
        raise ParameterError("ids hold a text twice; give each decision an id of its own")
    return found


def is_nothing(contexts: Any, rewards: Any, arms: Any) -> bool:
    """Whether `learn` is given no rows at all: an empty list, or decisions that chose nothing."""
    if isinstance(contexts, Candidates):
        return False
    if isinstance(contexts, Decision):
        any_row = len(contexts.rows) > 0
    elif isinstance(contexts, list | tuple):
        any_row = any(not isinstance(each, Decision) or len(each.rows) for each in contexts)
    else:
        return False
    return not any_row and _is_empty(rewards) and (arms is None or _is_empty(arms))


def _is_empty(given: Any) -> bool:
    """Whether a list, of lists perhaps, or an array holds nothing."""
    if isinstance(given, np.ndarray):
        return given.size == 0
    return isinstance(given, list | tuple) and all(
        (isinstance(each, list | tuple) and not each) or (isinstance(each, np.ndarray) and not each.size)
        for each in given
    )


def decisions_in(contexts: Any) -> list[Decision] | None:
    """The decisions, where `learn` is given one or a list of them; None where it is given rows."""
    if isinstance(contexts, Candidates):
        return None
    if isinstance(contexts, Decision):
        return [contexts]
    if not isinstance(contexts, list | tuple) or not any(isinstance(each, Decision) for each in contexts):
        return None
    for place, each in enumerate(contexts):
        if not isinstance(each, Decision):
            raise InputError(
                f"{shown(each)} at place {place} of a list of decisions; learn rows apart from them"
            )
    return list(contexts)


def rows_to_learn(contexts: Any, rewards: Any, decisions: list[Decision], arms: Any) -> tuple[Any, Any, Any]:
    """Contexts, rewards and arms of what was chosen in the decisions, as `learn` takes them."""
    if arms is not None:
        raise ArmsError("a Decision knows its arms; leave `arms` out")
    sizes = [len(each.rows) for each in decisions]
    values = rewards if isinstance(contexts, Decision) else _flattened(rewards, sizes)
    if len({each.labels is None for each in decisions}) > 1:
        raise ArmsError("decisions with arms and decisions without arms in one list; learn them apart")
    if len({each.given is None for each in decisions}) > 1:
        raise InputError("decisions over Candidates and over other rows in one list; learn them apart")
    if decisions[0].given is None:
        return _joined_candidates([each.candidates[each.rows] for each in decisions]), values, None
    contexts = joined([each.given.rows(each.rows) for each in decisions], sizes)
    with_arms = decisions[0].labels is not None
    return contexts, values, [label for each in decisions for label in each.arms] if with_arms else None


def log_to_learn(contexts: Any, arms: Any) -> Any:
    """What was given without rewards: a decision log, which has them; whatever can teach an agent is one."""
    if arms is None and not isinstance(contexts, type) and callable(getattr(contexts, "teach", None)):
        return contexts
    raise InputError(
        f"no rewards for {type(contexts).__name__}; give one per row, or a DecisionLog, which knows its rewards"
    )


def _flattened(rewards: Any, sizes: list[int]) -> Any:
    """One reward per chosen row, from one per decision: a number, or a list for a decision of several rows."""
    try:
        each = None if isinstance(rewards, _UNORDERED) or is_frame(rewards) else list(rewards)
    except TypeError:
        each = None
    if each is None:
        raise ShapeError(
            f"rewards are {shown(rewards)}; give one per decision, {len(sizes)} in all, in a list"
        )
    if len(each) != len(sizes):
        raise ShapeError(f"{len(each)} rewards for {len(sizes)} decisions; send one per decision")
    found: list[Any] = []
    for place, (reward, size) in enumerate(zip(each, sizes, strict=True)):
        values = reward if isinstance(reward, Sequence | np.ndarray) and np.ndim(reward) else [reward]
        if len(values) != size:
            raise ShapeError(
                f"{len(values)} rewards for the {size} chosen rows of decision {place}; send one reward per row"
            )
        found.extend(values)
    return found


def _joined_candidates(parts: list[Candidates]) -> Candidates:
    """Rows of several candidates as one; their columns may differ in the number of categories seen."""
    if len(parts) == 1:
        return parts[0]
    kinds = {tuple(count > 0 for count in part.columns.categories) for part in parts}
    if len(kinds) > 1 or len({part.arms is None for part in parts}) > 1:
        raise InputError("decisions over different columns in one list; learn them apart")
    counts = zip(*(part.columns.categories for part in parts), strict=True)
    columns = Columns(tuple(max(each) for each in counts), parts[0].columns.names)
    return replace(Candidates.joined(parts), columns=columns)


def refuse_learning(decide_only: bool) -> None:
    """Raise where an agent was saved without its history."""
    if decide_only:
        raise DecideOnlyError(
            "this agent was saved without its history (history=False), to decide only; learn with the agent that "
            "saved it, and save that again"
        )


@lru_cache(maxsize=256)
def draws_know_scores(kind: type) -> bool:
    """Whether `_draws` of an agent's class is at least as near to it as `_scores`: a subclass may write only that."""
    homes = {name: place for place, each in list(enumerate(kind.__mro__))[::-1] for name in vars(each)}
    return homes["_draws"] <= homes["_scores"]


def repeated_scores(agent: Any, candidates: Candidates, size: int) -> Floats:
    """What an agent's `_scores` gives `size` times in the same round, (size, n); one row where it holds no chance.

    What it assigns to members of the agent is taken back each time but the last, as one decision would leave it.
    """
    random, members = agent._random, vars(agent).copy()
    before = random.bit_generator.state
    first = np.asarray(agent._checked_scores(candidates), np.float64)
    # The agents of the package draw from `_random` alone. Others may have a generator of their own, and use it rarely:
    # that scores are always the same is seen only by asking every time.
    if size == 1 or (is_ours(type(agent)._scores) and random.bit_generator.state == before):
        return first[None]
    scores = np.empty((size, len(first)))
    scores[0] = first
    for draw in range(1, size):
        take_back(agent, members)
        scores[draw] = agent._checked_scores(candidates)
    return first[None] if (scores == first).all() else scores


def check_scores(shape: tuple[int, ...], candidates: Candidates) -> None:
    """Raise unless scores of this shape are one per candidate."""
    if shape != (len(candidates),):
        raise ShapeError(
            f"scores of shape {shape} for {len(candidates)} candidates; give one number per candidate"
        )


def take_back(agent: Any, members: dict[str, Any]) -> None:
    """Give an agent back the members that it had; may be repeated."""
    for name in vars(agent).keys() - members.keys():
        delattr(agent, name)
    vars(agent).update(members)
