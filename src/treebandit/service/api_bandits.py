"""Bandits: make, show, change, delete, erase from."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from treebandit.service import erasure
from treebandit.service.bodies import (
    BanditAnswer,
    BanditsAnswer,
    ErasureAnswer,
    ErasureRequest,
)
from treebandit.service.config import BanditConfig, changed, checked
from treebandit.service.deciding import hashed
from treebandit.service.exchange import (
    Operation,
    bandit,
    body,
    decoded,
    json_answer,
    no_bandit,
    read,
    runtime,
)
from treebandit.service.refusals import Refused
from treebandit.service.store import BanditRow
from treebandit.service.times import iso

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


async def put(request: Request) -> Response:
    """Make a bandit, or replace its settings."""
    name = str(request.path_params["name"])
    if not _NAME.fullmatch(name):
        raise Refused(
            400,
            "InvalidRequest",
            f"the name {name[:100]!r}; use letters, digits, '.', '_' and '-', at most 100",
        )
    data = await read(request, runtime(request).limits.body)
    given = decoded(data or b"{}", BanditConfig)

    def change(before: BanditConfig | None) -> BanditConfig:
        return checked(given) if before is None else changed(before, _patch(given))

    row, new = await asyncio.to_thread(runtime(request).store.put_bandit, name, change)
    await runtime(request).refresh()
    return json_answer(_shown(row), 201 if new else 200)


async def patch(request: Request) -> Response:
    """Change some settings."""
    name = str(request.path_params["name"])
    given = decoded(await read(request, runtime(request).limits.body), dict[str, Any])

    def change(before: BanditConfig | None) -> BanditConfig:
        if before is None:
            raise no_bandit(name)
        return changed(before, given)

    if not _NAME.fullmatch(name):
        raise no_bandit(name)
    row, _ = await asyncio.to_thread(runtime(request).store.put_bandit, name, change)
    await runtime(request).refresh()
    return json_answer(_shown(row))


async def show(request: Request) -> Response:
    """One bandit."""
    return json_answer(_shown(await bandit(request)))


async def show_all(request: Request) -> Response:
    """All bandits."""
    rows = await asyncio.to_thread(runtime(request).store.bandits)
    return json_answer(BanditsAnswer([_shown(row) for row in rows]))


async def delete(request: Request) -> Response:
    """Delete a bandit, its log and its models."""
    row = await bandit(request)
    await asyncio.to_thread(runtime(request).store.delete_bandit, row.name)
    await runtime(request).refresh()
    return Response(status_code=204)


async def erase(request: Request) -> Response:
    """Erase decisions, with their rewards, from the log and from models made from now on."""
    row = await bandit(request)
    given = await body(request, ErasureRequest)
    if not given.ids and given.subject is None:
        raise Refused(400, "InvalidRequest", "neither ids nor subject; say which decisions to erase")
    subject = None if given.subject is None else hashed(given.subject)
    store = runtime(request).store
    count = await asyncio.to_thread(erasure.erase, store, row.id, ids=given.ids, subject=subject)
    _wake(request)
    return json_answer(ErasureAnswer(count))


def _wake(request: Request) -> None:
    learner = runtime(request).learner
    if learner is not None:
        learner.wake()


def _patch(given: BanditConfig) -> dict[str, Any]:
    """All settings, but the agent only where one was given."""
    settings: dict[str, Any] = msgspec.to_builtins(given)
    if not given.agent:
        del settings["agent"]
    return settings


def _shown(row: BanditRow) -> BanditAnswer:
    return BanditAnswer(
        row.name, msgspec.to_builtins(row.config), iso(row.created), row.decisions, row.place, row.version
    )


OPERATIONS = [
    Operation(
        "GET", "/v1/bandits", show_all, "listBandits", "All bandits", "read", gives={200: BanditsAnswer}
    ),
    Operation(
        "PUT",
        "/v1/bandits/{name}",
        put,
        "putBandit",
        "Make a bandit, or replace its settings",
        "admin",
        takes=BanditConfig,
        gives={200: BanditAnswer, 201: BanditAnswer},
    ),
    Operation(
        "GET",
        "/v1/bandits/{name}",
        show,
        "getBandit",
        "A bandit",
        "read",
        gives={200: BanditAnswer},
        errors=(404,),
    ),
    Operation(
        "PATCH",
        "/v1/bandits/{name}",
        patch,
        "patchBandit",
        "Change some settings",
        "admin",
        takes=dict[str, Any],
        gives={200: BanditAnswer},
        errors=(404,),
    ),
    Operation(
        "DELETE",
        "/v1/bandits/{name}",
        delete,
        "deleteBandit",
        "Delete a bandit, its log and its models",
        "admin",
        gives={204: None},
        errors=(404,),
    ),
    Operation(
        "POST",
        "/v1/bandits/{name}/erasures",
        erase,
        "erase",
        "Erase decisions by id or subject",
        "admin",
        takes=ErasureRequest,
        gives={200: ErasureAnswer},
        errors=(404,),
    ),
]
