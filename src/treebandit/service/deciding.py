"""Decisions from snapshots: what a request asks for becomes entries of the log, and those the answer."""

from __future__ import annotations

import hashlib
import math
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from treebandit.core import Random
from treebandit.errors import InputError
from treebandit.oracles import TopK, best_arm
from treebandit.service.bodies import Arm, DecisionAnswer, DecisionRequest, Slot, SlotAnswer
from treebandit.service.config import BanditConfig, build_agent
from treebandit.service.entries import DecisionBody, NewDecision, NewEvent, Stored, decision_body, slot_id
from treebandit.service.features import candidate_rows
from treebandit.service.ids import IDS
from treebandit.service.times import iso

_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True)
class Choice:
    """Rows of what was offered, the probability of this choice, and of each row being chosen."""

    rows: list[int]
    probability: float
    probabilities: list[float]
    policy: str = "agent"


@dataclass(frozen=True)
class _Asked:
    """A request, and what holds for all decisions that it leads to."""

    request: DecisionRequest
    subject: str | None
    holdout: bool
    random: Random


@dataclass(frozen=True)
class DeployedAgent:
    """What decides for one bandit at the moment: its settings, and a snapshot of its agent.

    A decision under way keeps its settings: others come with another object, which has the same agent and lock.
    """

    bandit: int
    name: str
    config: BanditConfig
    revision: int
    version: int
    agent: Any
    #: Held while the agent decides. The event loop takes it only where it is free.
    lock: threading.RLock = field(default_factory=threading.RLock)

    def decide(self, request: DecisionRequest, random: Random) -> Sequence[NewEvent | NewDecision]:
        """The entries of one decision: one, or an event and one per slot. An InputError where it cannot be made."""
        _check_names(request)
        event = request.id or IDS.new()
        subject = None if request.subject is None else hashed(request.subject)
        asked = _Asked(request, subject, self._is_holdout(subject or event), random)
        offer = _Offer(request)
        if request.slots is None:
            return [self._entry(event, self._body(offer, request.choose, request.baseline, asked), asked)]
        decisions = self._slots(event, offer, request.slots, asked)
        return [NewEvent(event, [slot.id for slot in request.slots], subject), *decisions]

    def _slots(self, event: str, offer: _Offer, slots: list[Slot], asked: _Asked) -> list[NewDecision]:
        """One slot after the other, each from the arms that are left: its probability is given the slots before."""
        taken, entries = set[str](), []
        for slot in slots:
            rest = offer.without(taken | set(slot.excluded)).with_features(slot)
            if not rest.arms:
                raise InputError(f"no arm is left for slot {slot.id!r}; offer more arms, or exclude fewer")
            baseline = slot.baseline if slot.baseline in rest.arms else None
            body = self._body(rest, 1, baseline, asked)
            body.slot = slot.id
            taken.add(body.arms[body.chosen[0]])
            entries.append(self._entry(slot_id(event, slot.id), body, asked))
        return entries

    def _body(self, offer: _Offer, count: int, baseline: str | None, asked: _Asked) -> DecisionBody:
        if count > len(offer.arms):
            raise InputError(
                f"choose is {count}, but {len(offer.arms)} arms are offered; choose no more than these"
            )
        if baseline is not None and baseline not in offer.arms:
            raise InputError(f"the baseline {baseline!r} is not among the arms that may be chosen; offer it")
        body = DecisionBody(
            context=offer.context,
            arms=offer.arms,
            chosen=[],
            probability=1.0,
            arm_contexts=offer.features,
            mode=self.config.mode,
            excluded=list(asked.request.excluded),
            baseline=baseline,
            several=count > 1,
            aggregation=self.config.aggregation,
        )
        needed = self.config.mode == "online" or asked.request.baseline_probability is None
        agents = self._agents_choice(body, count) if needed else None
        choice = self._choice(body, count, agents, asked)
        body.chosen, body.policy = choice.rows, choice.policy
        body.probability, body.probabilities = choice.probability, choice.probabilities
        if agents is not None and choice is not agents:
            body.shadow = [body.arms[row] for row in agents.rows]
        return body

    def _choice(self, body: DecisionBody, count: int, agents: Choice | None, asked: _Asked) -> Choice:
        given = asked.request.baseline_probability
        if self.config.mode != "online" or agents is None:
            return _baseline(body, count, given)
        if not asked.holdout:
            return agents
        policy = self.config.holdout_policy
        arm = policy.removeprefix("arm:")
        if policy == "baseline":
            return _baseline(body, count, given)
        if policy.startswith("arm:") and arm in body.arms and count == 1:
            return Choice([body.arms.index(arm)], 1.0, [float(each == arm) for each in body.arms], policy)
        with self.lock:
            return _uniform(len(body.arms), count, asked.random)

    def _agents_choice(self, body: DecisionBody, count: int) -> Choice:
        rows, arms = candidate_rows(body)
        # Large requests are decided on threads of their own, so that others need not wait for all of their slots.
        with self.lock:
            decision = self.agent.decide(
                rows,
                arms,
                oracle=best_arm if count == 1 else TopK(count),
                draws=self.config.draws,
                floor=self.config.floor,
                id="-",
            )
        return Choice(
            decision.rows.tolist(), float(decision.probability), decision.probabilities.tolist(), "agent"
        )

    def _entry(self, decision: str, body: DecisionBody, asked: _Asked) -> NewDecision:
        return NewDecision(
            id=decision,
            body=_encode(body),
            arm=body.arms[body.chosen[0]],
            probability=body.probability,
            version=self.version,
            holdout=asked.holdout and self.config.mode == "online",
            wait=None if asked.request.deferred else self.config.wait_us,
            subject=asked.subject,
            chosen=len(body.chosen),
        )

    def _is_holdout(self, by: str) -> bool:
        """By a hash, so that a subject is always on the same side."""
        if self.config.holdout <= 0.0 or self.config.mode != "online":
            return False
        digest = hashlib.blake2b(by.encode(), key=self.name.encode()[:64], digest_size=8).digest()
        return int.from_bytes(digest, "big") < self.config.holdout * 2.0**64


class _Offer:
    """The arms that may be chosen, and their features."""

    def __init__(self, request: DecisionRequest) -> None:
        excluded = set(request.excluded)
        arms = [(each.name, each.features) if isinstance(each, Arm) else (each, {}) for each in request.arms]
        kept = [(name, features) for name, features in arms if name not in excluded]
        if not kept:
            raise InputError("all arms are excluded; offer at least one that may be chosen")
        self.context = request.context
        self.arms = [name for name, _ in kept]
        own = [features for _, features in kept]
        self.features: list[dict[str, Any]] | None = own if any(own) else None

    def without(self, names: set[str]) -> _Offer:
        kept = [row for row, name in enumerate(self.arms) if name not in names]
        offer = object.__new__(_Offer)
        offer.context = self.context
        offer.arms = [self.arms[row] for row in kept]
        offer.features = None if self.features is None else [self.features[row] for row in kept]
        return offer

    def with_features(self, slot: Slot) -> _Offer:
        """The slot is a feature, and brings its own."""
        self.context = {**self.context, "_slot": {"id": slot.id, **slot.features}}
        return self


def answer(event: str, stored: Sequence[Stored]) -> DecisionAnswer:
    """What the caller gets: always what is stored, so that a repeated request has the same answer."""
    bodies = [decision_body(each.body) for each in stored]
    first = stored[0]
    reply = DecisionAnswer(
        id=event, version=first.version, holdout=first.holdout, repeated=first.repeated, time=iso(first.time)
    )
    if bodies[0].slot is not None:
        reply.slots = [
            SlotAnswer(body.slot or "", body.arms[body.chosen[0]], body.probability, _marginals(body))
            for body in bodies
        ]
        return reply
    body = bodies[0]
    arms = [body.arms[row] for row in body.chosen]
    reply.arm, reply.arms = arms[0], arms
    reply.probability, reply.probabilities = body.probability, _marginals(body)
    return reply


def fresh_deployed(
    bandit: int, name: str, config: BanditConfig, revision: int, version: int = 0
) -> DeployedAgent:
    """Before anything was learned: the agent as it begins."""
    return DeployedAgent(bandit, name, config, revision, version, own_stream(build_agent(config)))


def own_stream(agent: Any) -> Any:
    """The agent with a random stream of this process: replicas must not draw the same numbers."""
    agent.reseed()
    return agent


def hashed(subject: str) -> str:
    """A subject as the store knows it."""
    return hashlib.sha256(subject.encode()).hexdigest()


def _check_names(request: DecisionRequest) -> None:
    names = [each.name if isinstance(each, Arm) else each for each in request.arms]
    if len(set(names)) < len(names):
        twice = next(name for number, name in enumerate(names) if name in names[:number])
        raise InputError(f"the arm {twice!r} is offered twice; give each arm once")
    if request.slots is not None:
        slots = [slot.id for slot in request.slots]
        if len(set(slots)) < len(slots):
            raise InputError("two slots have the same id; give each its own")
        if request.choose != 1:
            raise InputError("choose and slots are both given; slots say how many arms are chosen")
        if request.baseline is not None or request.baseline_probability is not None:
            raise InputError(
                "baseline or baseline_probability is given beside slots; give each slot its own baseline, and no "
                "probability"
            )
    if request.baseline_probability is not None and request.baseline is None:
        raise InputError("baseline_probability is given without a baseline; name the arm that it is of")
    if request.baseline_probability is not None and request.choose != 1:
        raise InputError(
            f"baseline_probability is given and choose is {request.choose}; it is of one arm, so leave one of them out"
        )


def _marginals(body: DecisionBody) -> dict[str, float]:
    return dict(zip(body.arms, body.probabilities or [], strict=False))


def _baseline(body: DecisionBody, count: int, given: float | None) -> Choice:
    """The caller's choice. given: the probability that the caller drew it with; those of other arms are not known."""
    first = 0 if body.baseline is None else body.arms.index(body.baseline)
    rows = [first, *(row for row in range(len(body.arms)) if row != first)][:count]
    chosen = set(rows)
    if given is not None:
        return Choice(rows, given, [], "baseline")
    return Choice(rows, 1.0, [float(row in chosen) for row in range(len(body.arms))], "baseline")


def _uniform(candidates: int, count: int, random: Random) -> Choice:
    rows = random.choice(candidates, size=count, replace=False).tolist()
    return Choice(rows, 1.0 / math.comb(candidates, count), [count / candidates] * candidates, "uniform")
