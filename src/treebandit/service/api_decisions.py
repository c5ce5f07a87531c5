"""Decide, reward, activate."""

from __future__ import annotations

import asyncio
import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from treebandit.errors import InputError
from treebandit.service.bodies import (
    ID_PATTERN,
    TEXT_PATTERN,
    ActivationAnswer,
    BatchAnswer,
    BatchItem,
    BatchRequest,
    DecisionAnswer,
    DecisionRequest,
    Problem,
    RewardAnswer,
    RewardLine,
    RewardRequest,
    RewardsAnswer,
    check_bytes,
)
from treebandit.service.bulk import decisions_of, lines_of
from treebandit.service.config import LARGEST_REWARD
from treebandit.service.deciding import DeployedAgent, answer
from treebandit.service.entries import (
    New,
    NewActivation,
    NewDecision,
    NewEvent,
    NewReward,
    RewardBody,
    Stored,
    slot_id,
    slot_names,
)
from treebandit.service.exchange import (
    NDJSON,
    Operations,
    body,
    decoded,
    json_answer,
    no_bandit,
    read,
    refusal,
    runtime,
)
from treebandit.service.features import check_size
from treebandit.service.ids import IDS
from treebandit.service.refusals import Refused
from treebandit.service.runtime import Runtime
from treebandit.service.threads import in_store

OPERATIONS = Operations()
_encode = msgspec.json.Encoder().encode
_ID = re.compile(ID_PATTERN)
_KEY = re.compile(TEXT_PATTERN)
#: Lines whose errors are told.
_MOST_ERRORS = 100
#: Decisions of a batch that are made before others have their turn.
_DECISIONS_AT_ONCE = 20
#: Arms and features, of all slots together, from which on a decision is made on a thread of its own. A feature takes an
#: agent about 5 microseconds.
_MANY_ARMS, _MANY_FEATURES = 300, 1000
#: For decisions alone: those that wait for a large one of their bandit leave other threads to other requests.
_THREADS = ThreadPoolExecutor(4, "deciding")
_Made = TypeVar("_Made")


@OPERATIONS.add(
    "POST",
    "/v1/bandits/{name}/decisions",
    "decide",
    "decide",
    takes=DecisionRequest,
    gives={200: DecisionAnswer},
    errors=(404, 410),
)
async def decide(request: Request) -> Response:
    """Make one decision; it is stored before it is answered."""
    service = runtime(request)
    deployed = await _deployed(service, request)
    asked = await body(request, DecisionRequest)
    return json_answer(await decided(service, deployed, asked))


async def decided(service: Runtime, deployed: DeployedAgent, asked: DecisionRequest) -> DecisionAnswer:
    """Decide, store, answer; where deciding takes long, or would have to wait, not in the event loop."""
    features = check_size(asked, service.limits)
    small = features < _MANY_FEATURES and len(asked.arms) * len(asked.slots or (None,)) < _MANY_ARMS
    if small and deployed.lock.acquire(blocking=False):
        try:
            entries = deployed.decide(asked, service.random)
        finally:
            deployed.lock.release()
    else:
        entries = await _on_thread(deployed.decide, asked, service.random)
    return await _answered(service, deployed, entries)


async def _on_thread(work: Callable[..., _Made], *given: Any) -> _Made:
    return await asyncio.get_running_loop().run_in_executor(_THREADS, work, *given)


async def _answered(
    service: Runtime,
    deployed: DeployedAgent,
    entries: Sequence[NewEvent | NewDecision],
    *,
    alone: bool = True,
) -> DecisionAnswer:
    """Store and answer. alone: not one of many of the same request."""
    event = entries[0].id
    stored = await _stored(service, deployed, list(entries), alone=alone)
    if not stored[0].repeated:
        unfit = sum(each.unfit for each in stored)
        stored = stored[1:] if stored[0].status == "event" else stored
        service.metrics.decided(deployed.name, "holdout" if stored[0].holdout else "agent")
        reply = answer(event, stored)
        if unfit:
            service.metrics.rewarded(deployed.name, "refused", unfit)
            reply.rewards_refused = unfit
        return reply
    service.metrics.repeated.labels(deployed.name).inc()
    if stored[0].status == "event":
        stored = await _slots_of(service, deployed.bandit, event, stored[0].body)
    if not stored or not stored[0].body:
        raise Refused(410, "Erased", f"the decision {event!r} was erased; decide with another id")
    return answer(event, stored)


async def _slots_of(service: Runtime, bandit: int, event: str, body: bytes) -> list[Stored]:
    """The decisions of an event that was stored before, in the order of its slots."""
    ids = [slot_id(event, slot) for slot in slot_names(body)] if body else []
    about = await in_store(service.limits.seconds, service.store.about, bandit, ids)
    found = [next(each for each in about[one] if each.kind == "decision") for one in ids if one in about]
    return [
        Stored(each.place, each.time, True, each.body, each.version or 0, each.holdout)
        for each in found
        if each.body
    ]


@OPERATIONS.add(
    "POST",
    "/v1/bandits/{name}/decisions/{id}/reward",
    "reward",
    "reward",
    takes=RewardRequest,
    gives={200: RewardAnswer, 202: RewardAnswer},
    headers={"Idempotency-Key": ({"type": "string", "maxLength": 256}, "the same key again counts once")},
)
async def reward(request: Request) -> Response:
    """Tell what a decision earned."""
    service = runtime(request)
    deployed = await _deployed(service, request)
    given = await body(request, RewardRequest)
    key = given.key or request.headers.get("idempotency-key")
    event = str(request.path_params["id"])
    line = RewardLine(id=event, value=given.value, slot=given.slot, key=key)
    status = (await rewarded(service, deployed, line))[0].status
    return json_answer(RewardAnswer(event, status), 202 if status == "early" else 200)  # type: ignore[arg-type]


async def rewarded(service: Runtime, deployed: DeployedAgent, *given: RewardLine) -> list[Stored]:
    """Store rewards, all of them or none."""
    stored = await _stored(service, deployed, [_new_reward(deployed, each) for each in given])
    for each in stored:
        if each.status == "refused":
            raise InputError(each.says)
    for each in stored:
        service.metrics.rewarded(deployed.name, each.status)
    service.wake()
    return stored


@OPERATIONS.add(
    "POST",
    "/v1/bandits/{name}/decisions:batch",
    "decideMany",
    "decide",
    takes=BatchRequest,
    gives={200: BatchAnswer},
)
async def decide_many(request: Request) -> Response:
    """Make many decisions; those that cannot be made do not hinder the others.

    Where one does not have the form of a decision, such as one without arms, none is made: the answer is a 400 that
    says which.
    """
    service = runtime(request)
    deployed = await _deployed(service, request)
    limits = service.limits
    data = await read(request, limits.bulk)
    asked = await _on_thread(partial(decisions_of, data, most=limits.batch, longest=limits.body))

    def entries_of(each: bytes) -> Sequence[NewEvent | NewDecision] | BatchItem:
        try:
            decision = decoded(each, DecisionRequest)
            check_size(decision, limits)
            return deployed.decide(decision, service.random)
        except Exception as error:
            return _refused_item(error)

    async def item(made: Sequence[NewEvent | NewDecision] | BatchItem) -> BatchItem:
        if isinstance(made, BatchItem):
            return made
        try:
            return BatchItem(await _answered(service, deployed, made, alone=False))
        except Exception as error:
            return _refused_item(error)

    items: list[BatchItem] = []
    for start in range(0, len(asked), _DECISIONS_AT_ONCE):
        part = asked[start : start + _DECISIONS_AT_ONCE]
        made: list[Sequence[NewEvent | NewDecision] | BatchItem]
        made = await _on_thread(list, map(entries_of, part))
        items += await asyncio.gather(*map(item, made))
    return json_answer(BatchAnswer(items))


def _refused_item(error: Exception) -> BatchItem:
    """Why a decision of a batch could not be made; a fault of ours fails the whole batch."""
    refused = refusal(error)
    if refused is None or refused.status >= 500:
        raise error
    return BatchItem(error=Problem(refused.code, refused.message))


@OPERATIONS.add(
    "POST",
    "/v1/bandits/{name}/rewards",
    "rewardMany",
    "reward",
    takes=RewardLine,
    takes_media=NDJSON,
    gives={200: RewardsAnswer, 400: RewardsAnswer},
)
async def reward_many(request: Request) -> Response:
    """Many rewards, one JSON object per line; good lines are stored, bad ones named by their number."""
    service = runtime(request)
    deployed = await _deployed(service, request)
    data = await read(request, service.limits.bulk)
    statuses: Counter[str] = Counter()
    errors: dict[str, str] = {}
    received = 0
    for part in lines_of(data):
        received += len(part)
        wrong: dict[int, str] = {}
        entries: dict[int, New] = {}
        for number, line in part:
            try:
                if len(line) > service.limits.body:
                    raise InputError(f"the line is longer than {service.limits.body:,} bytes")
                entries[number] = _new_reward(deployed, decoded(line, RewardLine))
            except (InputError, Refused) as refused:
                wrong[number] = str(refused)
        statuses.update(await _statuses(service, deployed, entries, wrong))
        for number in sorted(wrong)[: _MOST_ERRORS - len(errors)]:
            errors[str(number)] = wrong[number]
        await asyncio.sleep(0)  # others have their turn, also where nothing is stored
    for status, count in statuses.items():
        service.metrics.rewarded(deployed.name, status, count)
    service.wake()
    reply = RewardsAnswer(received, dict(statuses), errors)
    return json_answer(reply, 400 if errors and not statuses else 200)


async def _statuses(
    service: Runtime, deployed: DeployedAgent, entries: dict[int, New], wrong: dict[int, str]
) -> list[str]:
    """What became of the rewards of some lines; those that are refused become wrong ones."""
    while entries:  # again without those that are refused
        stored = await _stored(service, deployed, list(entries.values()), alone=False)
        refused = {n: each.says for n, each in zip(entries, stored, strict=True) if each.status == "refused"}
        if not refused:
            return [each.status for each in stored]
        wrong |= refused
        entries = {number: entry for number, entry in entries.items() if number not in refused}
    return []


@OPERATIONS.add(
    "POST", "/v1/bandits/{name}/decisions/{id}/activate", "activate", "reward", gives={200: ActivationAnswer}
)
async def activate(request: Request) -> Response:
    """Tell that a deferred decision was used: its wait begins."""
    service = runtime(request)
    deployed = await _deployed(service, request)
    event = str(request.path_params["id"])
    stored = await activated(service, deployed, event)
    if not stored:
        raise Refused(
            404, "DecisionNotFound", f"there is no decision {event[:100]!r} to activate; decide first"
        )
    return json_answer(ActivationAnswer(event, "active", all(each.repeated for each in stored)))


async def activated(service: Runtime, deployed: DeployedAgent, event: str) -> list[Stored]:
    """Activate a decision, or all slots of an event; nothing where there is none."""
    _check_id(event)
    about = await in_store(service.limits.seconds, service.store.about, deployed.bandit, [event])
    events = [each for each in about.get(event, ()) if each.kind == "event" and each.body]
    slots = [slot for each in events for slot in slot_names(each.body)]
    ids = [slot_id(event, slot) for slot in slots] or [event]
    new = [NewActivation(each, deployed.config.wait_us) for each in ids]
    stored = await _stored(service, deployed, list(new))
    service.wake()
    return [each for each in stored if each.status != "unknown"]


def _new_reward(deployed: DeployedAgent, given: RewardLine) -> NewReward:
    decision = given.id if given.slot is None else slot_id(given.id, given.slot)
    _check_id(given.id)
    values = given.value if isinstance(given.value, list) else [given.value]
    if not values or not all(math.isfinite(value) and abs(value) <= LARGEST_REWARD for value in values):
        raise InputError(
            f"the reward {str(given.value)[:60]}; give finite numbers within ±{LARGEST_REWARD:g}"
        )
    key = given.key or IDS.new()
    if len(key) > 256 or not _KEY.search(key):
        raise InputError("the key has control characters, or more than 256 characters")
    first = deployed.config.aggregation == "first"
    body = _encode(RewardBody(given.value))
    return NewReward(decision, key, float(sum(values)), body, first, made=not given.key)


def _check_id(given: str) -> None:
    if not _ID.search(given) or len(given) > 256:
        raise InputError(
            f"the id {given[:60]!r}; give 1 to 256 characters, none of them '#', and not '.' or '..'"
        )
    check_bytes("id", given)


async def _deployed(service: Runtime, request: Request) -> DeployedAgent:
    name = str(request.path_params["name"])
    deployed = await service.deployed(name)
    if deployed is None:
        raise no_bandit(name)
    return deployed


async def _stored(
    service: Runtime, deployed: DeployedAgent, entries: list[New], *, alone: bool = True
) -> list[Stored]:
    """What became of the entries once they are durable: together with others, or at once where nobody else waits."""
    stored = None
    if alone and service.under_way == 1 and service.writer.ready_here:
        await asyncio.sleep(0)  # others may have come at the same time, and begin now
        if service.under_way == 1:
            stored = service.writer.append_here(deployed.bandit, entries)
    if stored is None:
        stored = await service.writer.append(deployed.bandit, entries, timeout=service.limits.seconds)
    if stored and stored[0].status == "deleted":
        raise no_bandit(deployed.name)
    return stored
