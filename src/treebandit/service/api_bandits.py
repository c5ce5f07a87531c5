"""Bandits: make, show, change, delete, erase from."""

from __future__ import annotations

import re
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from treebandit.errors import InputError
from treebandit.service import erasure, models
from treebandit.service.bodies import (
    BanditAnswer,
    BanditsAnswer,
    ErasureAnswer,
    ErasureRequest,
)
from treebandit.service.config import BanditConfig, changed, checked
from treebandit.service.deciding import hashed
from treebandit.service.exchange import (
    Operations,
    asker,
    bandit,
    body,
    decoded,
    from_store,
    json_answer,
    no_bandit,
    read,
    runtime,
)
from treebandit.service.store import BanditRow
from treebandit.service.times import iso

OPERATIONS = Operations()
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


@OPERATIONS.add(
    "PUT",
    "/v1/bandits/{name}",
    "putBandit",
    "admin",
    takes=BanditConfig,
    gives={200: BanditAnswer, 201: BanditAnswer},
    errors=(),
)
async def put(request: Request) -> Response:
    """Make a bandit, or replace its settings."""
    name = str(request.path_params["name"])
    if not _NAME.fullmatch(name):
        raise InputError(f"the name {name[:100]!r}; use letters, digits, '.', '_' and '-', at most 100")
    data = await read(request, runtime(request).limits.body)
    given = decoded(data or b"{}", BanditConfig)

    def change(before: BanditConfig | None) -> BanditConfig:
        return checked(given) if before is None else changed(before, _patch(given))

    row, new = await from_store(request, runtime(request).store.put_bandit, name, change)
    await runtime(request).look_anew()
    return json_answer(_shown(row), 201 if new else 200)


@OPERATIONS.add(
    "PATCH", "/v1/bandits/{name}", "patchBandit", "admin", takes=dict[str, Any], gives={200: BanditAnswer}
)
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
    row, _ = await from_store(request, runtime(request).store.put_bandit, name, change)
    await runtime(request).look_anew()
    return json_answer(_shown(row))


@OPERATIONS.add("GET", "/v1/bandits/{name}", "getBandit", "read", gives={200: BanditAnswer})
async def show(request: Request) -> Response:
    """One bandit."""
    return json_answer(_shown(await bandit(request)))


@OPERATIONS.add("GET", "/v1/bandits", "listBandits", "read", gives={200: BanditsAnswer})
async def show_all(request: Request) -> Response:
    """All bandits; with a key of one bandit, that one."""
    rows = await from_store(request, runtime(request).store.bandits)
    return json_answer(BanditsAnswer([_shown(row) for row in rows if asker(request).sees(row.name)]))


@OPERATIONS.add("DELETE", "/v1/bandits/{name}", "deleteBandit", "admin", gives={204: None})
async def delete(request: Request) -> Response:
    """Delete a bandit, its log and its models.

    They are gone at once; the learner then deletes them from the store, in small parts.
    """
    row = await bandit(request)
    await from_store(request, runtime(request).store.delete_bandit, row.name)
    await runtime(request).look_anew()
    runtime(request).wake()
    return Response(status_code=204)


@OPERATIONS.add(
    "POST", "/v1/bandits/{name}/erasures", "erase", "admin", takes=ErasureRequest, gives={200: ErasureAnswer}
)
async def erase(request: Request) -> Response:
    """Erase decisions by id or subject, with their rewards, from the log and from the models made of it."""
    row = await bandit(request)
    given = await body(request, ErasureRequest)
    if not given.ids and given.subject is None and not given.uploads:
        raise InputError("neither ids nor subject; say which decisions to erase")
    subject = None if given.subject is None else hashed(given.subject)
    store = runtime(request).store
    count = await from_store(
        request, erasure.erase, store, row.id, ids=given.ids, subject=subject, uploads=given.uploads
    )
    runtime(request).wake()
    return json_answer(ErasureAnswer(count, await from_store(request, models.uploads, store, row.id)))


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
