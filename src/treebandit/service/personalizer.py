"""Azure Personalizer's paths and bodies (v1.0, v1.1 previews, 2022-09-01-preview): its clients run unchanged."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta
from starlette.requests import Request
from starlette.responses import Response

from treebandit.errors import InputError
from treebandit.service.access import authorised
from treebandit.service.api_decisions import activated, decided, rewarded
from treebandit.service.bodies import Arm, ArmName, DecisionAnswer, DecisionRequest, RewardLine, Slot, SlotId
from treebandit.service.config import BanditConfig, changed, checked
from treebandit.service.deciding import DeployedAgent
from treebandit.service.exchange import (
    Operation,
    body,
    decoded,
    from_store,
    json_answer,
    no_bandit,
    read,
    refusal,
    runtime,
)
from treebandit.service.personalizer_settings import patched, shown
from treebandit.service.refusals import Refused
from treebandit.service.runtime import Runtime
from treebandit.service.store import BanditRow
from treebandit.service.threads import in_store
from treebandit.service.times import iso

#: The bandit behind the paths that name none.
DEFAULT = "personalizer"

_LONGEST_ID = 256
_VERSIONS = ("2022-09-01-preview",)
_VERSIONED = re.compile(r"v1\.[01](-preview(\.[0-9]+)?)?")


class Action(msgspec.Struct, kw_only=True):
    """An action; its features are a list of objects."""

    id: ArmName
    features: list[dict[str, Any]] | dict[str, Any] | None = None


class Ranked(msgspec.Struct, kw_only=True, rename="camel"):
    """What is ranked, with slots or without."""

    actions: Annotated[list[Action], Meta(min_length=1)]
    context_features: list[dict[str, Any]] | dict[str, Any] | None = None
    event_id: Annotated[str, Meta(max_length=256)] | None = None
    defer_activation: bool | None = False


class RankRequest(Ranked, kw_only=True, rename="camel"):
    """What to rank."""

    excluded_actions: list[str] | None = None


class SlotRequest(msgspec.Struct, kw_only=True, rename="camel"):
    """A slot."""

    id: SlotId
    baseline_action: str | None = None
    features: list[dict[str, Any]] | dict[str, Any] | None = None
    excluded_actions: list[str] | None = None


class MultiSlotRequest(Ranked, kw_only=True, rename="camel"):
    """What to rank for several slots."""

    slots: Annotated[list[SlotRequest], Meta(min_length=1)]


class RewardValue(msgspec.Struct):
    """A reward."""

    value: float


class SlotReward(msgspec.Struct, rename="camel"):
    """The reward of a slot."""

    slot_id: SlotId
    value: float


class SlotRewards(msgspec.Struct):
    """Rewards of slots."""

    reward: list[SlotReward]


async def rank(request: Request, deployed: DeployedAgent) -> Response:
    """One action."""
    asked = await body(request, RankRequest)
    reply = await decided(runtime(request), deployed, _decision(asked, excluded=asked.excluded_actions))
    if reply.arm is UNSET:
        raise InputError(f"the eventId {asked.event_id!r} was ranked with slots; rank with another one")
    ranking = _ranking([action.id for action in asked.actions], reply)
    return json_answer(
        {"eventId": asked.event_id or reply.id, "ranking": ranking, "rewardActionId": reply.arm}, 201
    )


async def multi_slot_rank(request: Request, deployed: DeployedAgent) -> Response:
    """One action per slot."""
    asked = await body(request, MultiSlotRequest)
    slots = [
        Slot(
            id=slot.id,
            features=merged(slot.features),
            excluded=list(slot.excluded_actions or ()),
            baseline=slot.baseline_action,
        )
        for slot in asked.slots
    ]
    reply = await decided(runtime(request), deployed, _decision(asked, slots=slots))
    if reply.slots is UNSET:
        raise InputError(f"the eventId {asked.event_id!r} was ranked without slots; rank with another one")
    chosen = [{"id": slot.slot, "rewardActionId": slot.arm} for slot in reply.slots]
    return json_answer({"eventId": asked.event_id or reply.id, "slots": chosen}, 201)


async def reward(request: Request, deployed: DeployedAgent) -> Response:
    """What an event earned."""
    given = await body(request, RewardValue)
    event = str(request.scope["event"])
    await rewarded(runtime(request), deployed, RewardLine(id=event, value=given.value))
    return Response(status_code=204)


async def multi_slot_reward(request: Request, deployed: DeployedAgent) -> Response:
    """What slots of an event earned."""
    given = await body(request, SlotRewards)
    event = str(request.scope["event"])
    lines = [RewardLine(id=event, value=each.value, slot=each.slot_id) for each in given.reward]
    if lines:
        await rewarded(runtime(request), deployed, *lines)
    return Response(status_code=204)


async def activate(request: Request, deployed: DeployedAgent) -> Response:
    """An event was used."""
    event = str(request.scope["event"])
    if not await activated(runtime(request), deployed, event):
        raise Refused(
            404, "InvalidEventIdToActivate", f"there is no event {event[:100]!r} to activate; rank first"
        )
    return Response(status_code=204)


async def get_configuration(request: Request, deployed: DeployedAgent) -> Response:
    """The settings in Personalizer's words."""
    return json_answer(await _shown(request, await _row(request, deployed)))


async def put_configuration(request: Request, deployed: DeployedAgent) -> Response:
    """Change them."""
    given = decoded(await read(request, runtime(request).limits.body), dict[str, Any])

    def change(before: BanditConfig | None) -> BanditConfig:
        if before is None:
            raise no_bandit(deployed.name)
        return changed(before, patched(given, before))

    row, _ = await from_store(request, runtime(request).store.put_bandit, deployed.name, change)
    await runtime(request).look_anew()
    return json_answer(await _shown(request, row))


async def _shown(request: Request, row: BanditRow) -> dict[str, Any]:
    edited = await from_store(request, runtime(request).store.last_entry, row.id, ["config"], row.place)
    return shown(row.config, row.created if edited is None else edited.time)


async def model_properties(request: Request, deployed: DeployedAgent) -> Response:
    """When the model was made, and changed last."""
    row = await _row(request, deployed)
    first, last = await _times(request, row, "publish")
    return json_answer(
        {"creationTime": iso(first or row.created), "lastModifiedTime": iso(last or row.created)}
    )


async def log_properties(request: Request, deployed: DeployedAgent) -> Response:
    """From when to when there are decisions."""
    first, last = await _times(request, await _row(request, deployed), "decision")
    return json_answer({"dateRange": None if first is None else {"from": iso(first), "to": iso(last)}})


async def _times(request: Request, row: BanditRow, kind: str) -> Any:
    """Of the first and of the last entry of a kind."""
    sql = "SELECT min(time), max(time) FROM entries WHERE bandit = ? AND kind = ?"
    return (await from_store(request, runtime(request).store.rows, sql, (row.id, kind)))[0]


_Call = Callable[[Request, DeployedAgent], Awaitable[Response]]
#: Method and path -> the role it needs, what does it, and the code of an error in what was sent.
_CALLS: dict[tuple[str, str], tuple[str, _Call, str]] = {
    ("POST", "rank"): ("decide", rank, "InvalidRankRequest"),
    ("POST", "multislot/rank"): ("decide", multi_slot_rank, "InvalidRankRequest"),
    ("POST", "events/*/reward"): ("reward", reward, "InvalidRewardRequest"),
    ("POST", "events/*/activate"): ("reward", activate, "InvalidEventIdToActivate"),
    ("POST", "multislot/events/*/reward"): ("reward", multi_slot_reward, "InvalidRewardRequest"),
    ("POST", "multislot/events/*/activate"): ("reward", activate, "InvalidEventIdToActivate"),
    ("GET", "configurations/service"): ("read", get_configuration, "BadRequest"),
    ("PUT", "configurations/service"): ("admin", put_configuration, "InvalidServiceConfiguration"),
    ("GET", "model/properties"): ("read", model_properties, "BadRequest"),
    ("GET", "logs/properties"): ("read", log_properties, "BadRequest"),
}
#: Our codes in Personalizer's words; others are the same or have no match.
_CODES = {"TooLarge": "PayloadSizeExceeded", "BanditNotFound": "ResourceNotFound"}
_INSTEAD = {
    "evaluations": "POST /v1/bandits/NAME/evaluations estimates what other policies would have earned",
    "configurations/policy": "the agent is set when the bandit is made: PUT /v1/bandits/NAME",
    "configurations/applyFromEvaluation": "make a bandit with the agent that did best: PUT /v1/bandits/NAME",
    "featureImportances": "the dashboard at / shows which features decide",
    "model": "GET and PUT /v1/bandits/NAME/model download and upload a model, POST .../model/rollback goes back",
    "logs": "GET /v1/bandits/NAME/log reads the log, POST .../erasures and DELETE /v1/bandits/NAME delete from it",
}


async def call(request: Request) -> Response:
    """One call of Personalizer's API, whichever version it is of; errors have its codes, also in a header."""
    code = "BadRequest"
    try:
        path = _without_version(request)
        found, event = _found(request.method, path)
        if found is None:
            instead = next((says for start, says in _INSTEAD.items() if path.startswith(start)), "see /docs")
            says = f"treebandit does not offer {request.method} {path[:100]!r}; instead: {instead}"
            raise Refused(501, "NotImplemented", says)
        role, handler, code = found
        key = authorised(runtime(request), request, role, request.path_params.get("name"))
        request.scope["event"] = escaped(event)
        request.scope["operation"] = f"personalizer {handler.__name__}"
        name = str(request.path_params.get("name") or key.bandit or DEFAULT)
        request.scope["bandit"] = name
        return await handler(request, await _deployed(runtime(request), name))
    except Exception as error:
        refused = refusal(error)
        if refused is None:
            raise
        known = code if refused.code == "InvalidRequest" else _CODES.get(refused.code, refused.code)
        headers = {**refused.headers, "x-ms-error-code": known}
        raise Refused(refused.status, known, refused.message, headers) from error


async def _deployed(service: Runtime, name: str) -> DeployedAgent:
    """A Personalizer resource was there before its first call: so is the default bandit."""
    deployed = await service.deployed(name)
    if deployed is None and name == DEFAULT:
        await in_store(
            service.limits.seconds,
            service.store.put_bandit,
            name,
            lambda before: before or checked(BanditConfig()),
        )
        await service.look_anew()
        deployed = await service.deployed(name)
    if deployed is None:
        raise no_bandit(name)
    return deployed


def _without_version(request: Request) -> str:
    path = str(request.path_params["rest"]).strip("/")
    head, _, tail = path.partition("/")
    if _VERSIONED.fullmatch(head):
        return tail
    version = request.query_params.get("api-version", _VERSIONS[0])
    if version not in _VERSIONS:
        raise Refused(
            400,
            "BadRequest",
            f"api-version={version[:40]!r}; use {_VERSIONS[0]}, or the path /personalizer/v1.0",
        )
    return path


def _found(method: str, path: str) -> tuple[tuple[str, _Call, str] | None, str]:
    for (known, pattern), what in _CALLS.items():
        match = re.fullmatch(re.escape(pattern).replace(r"\*", "(.+)"), path)
        if known == method and match:
            return what, match[1] if match.groups() else ""
    return None, ""


def _decision(
    asked: Ranked, *, excluded: list[str] | None = None, slots: list[Slot] | None = None
) -> DecisionRequest:
    return DecisionRequest(
        context=merged(asked.context_features),
        arms=[Arm(action.id, merged(action.features)) for action in asked.actions],
        excluded=list(excluded or ()),
        slots=slots,
        id=_event_id(asked.event_id),
        deferred=bool(asked.defer_activation),
    )


def escaped(event: str) -> str:
    """An event's id as the log has it: there, `#` stands between an event and its slot."""
    return event.replace("%", "%25").replace("#", "%23")


def _event_id(given: str | None) -> str | None:
    if given and any(ord(letter) < 32 or letter == "\x7f" for letter in given):
        raise InputError(f"the eventId {given[:60]!r} has control characters; leave them out")
    if given in (".", ".."):
        raise InputError(f"the eventId {given!r} cannot stand in a path; give another one")
    if given and len(escaped(given)) > _LONGEST_ID:
        raise InputError(f"the eventId {given[:60]!r} is too long; '#' and '%' take three places")
    return escaped(given) if given else None


def merged(features: list[dict[str, Any]] | dict[str, Any] | None) -> dict[str, Any]:
    """A list of objects as one; where two have the same key, the objects behind it are merged, else the last counts."""
    parts = [features] if isinstance(features, dict) else features or []
    whole: dict[str, Any] = {}
    for part in parts:
        for key, value in part.items():
            before = whole.get(key)
            if isinstance(before, dict) and isinstance(value, dict):
                value = merged([before, value])
            whole[key] = value
    return whole


def _ranking(actions: Sequence[str], reply: DecisionAnswer) -> list[dict[str, Any]]:
    """The chosen action first, the others by their probability; excluded ones keep their places, with 0."""
    probabilities: dict[str, float] = reply.probabilities or {}
    rest = iter(sorted(probabilities, key=lambda arm: (arm != reply.arm, -probabilities[arm])))
    ranked = [next(rest) if action in probabilities else action for action in actions]
    return [{"id": action, "probability": probabilities.get(action, 0.0)} for action in ranked]


async def _row(request: Request, deployed: DeployedAgent) -> BanditRow:
    row = await from_store(request, runtime(request).store.bandit, deployed.name)
    if row is None:
        raise no_bandit(deployed.name)
    return row


OPERATIONS = [
    Operation(method, path, "personalizer", call, listed=False)
    for path in ("/personalizer/{rest:path}", "/bandits/{name}/personalizer/{rest:path}")
    for method in ("GET", "POST", "PUT", "DELETE")
]
