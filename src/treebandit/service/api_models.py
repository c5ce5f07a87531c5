"""Models: download, upload, list versions, roll back."""

from __future__ import annotations

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from treebandit.errors import SavedFileError
from treebandit.service import models, queries
from treebandit.service.bodies import PlaceAnswer, RollbackRequest, VersionAnswer, VersionsAnswer
from treebandit.service.exchange import (
    BYTES,
    Operations,
    bandit,
    body,
    flag,
    from_store,
    json_answer,
    read,
    runtime,
    whole,
)
from treebandit.service.refusals import Refused
from treebandit.service.store import BanditRow, Store
from treebandit.service.threads import in_store
from treebandit.service.times import iso

OPERATIONS = Operations()


@OPERATIONS.add(
    "GET",
    "/v1/bandits/{name}/model",
    "getModel",
    "read",
    gives={200: BYTES},
    query={
        "history": ({"type": "string", "enum": ["true", "false"]}, "false: to decide only"),
        "version": ({"type": "integer", "minimum": 1}, "this version, to decide only"),
    },
)
async def download(request: Request) -> Response:
    """Download a model, the newest or a version, as a file of `agent.save`. `history=false`: to decide only."""
    row = await bandit(request)
    wanted = flag(request, "history", default=True)
    store = runtime(request).store
    version = whole(request, "version", 0, 1, 1 << 62)
    if version:
        found = await from_store(request, models.model, store, row.id, "snapshot", version)
    else:
        kind: models.ModelKind = "checkpoint" if wanted else "snapshot"
        found = await from_store(request, models.newest, store, row.id, kind)
    if found is None:
        raise Refused(
            404,
            "ModelNotFound",
            "no such model is kept; versions are listed at /v1/bandits/NAME/model/versions",
        )
    headers = {
        "Content-Disposition": f'attachment; filename="{row.name}-{found.kind}-{found.version}.treebandit"'
    }
    return Response(found.data, 200, headers, BYTES)


@OPERATIONS.add(
    "PUT",
    "/v1/bandits/{name}/model",
    "putModel",
    "admin",
    takes=bytes,
    takes_media=BYTES,
    gives={202: PlaceAnswer},
)
async def upload(request: Request) -> Response:
    """Upload a file that `agent.save` wrote, to go on from it."""
    row = await bandit(request)
    data = await read(request, runtime(request).limits.bulk)
    try:
        # A large model takes its time.
        seconds = runtime(request).limits.seconds + len(data) / 1_000_000
        stored = await in_store(seconds, models.upload, runtime(request).store, row.id, data)
    except SavedFileError as error:
        raise Refused(400, "InvalidModel", str(error)) from error
    runtime(request).wake()
    return json_answer(PlaceAnswer(stored.place), 202)


@OPERATIONS.add(
    "GET", "/v1/bandits/{name}/model/versions", "listVersions", "read", gives={200: VersionsAnswer}
)
async def versions(request: Request) -> Response:
    """The newest versions of the model."""
    row = await bandit(request)
    return json_answer(await from_store(request, _versions, runtime(request).store, row))


@OPERATIONS.add(
    "POST",
    "/v1/bandits/{name}/model/rollback",
    "rollBack",
    "admin",
    takes=RollbackRequest,
    gives={202: PlaceAnswer},
)
async def roll_back(request: Request) -> Response:
    """Go back to what a version had learned."""
    row = await bandit(request)
    given = await body(request, RollbackRequest)
    stored = await from_store(request, models.roll_back, runtime(request).store, row.id, given.version)
    if stored is None:
        raise Refused(
            404, "ModelNotFound", f"there is no version {given.version}; the newest is {row.version}"
        )
    runtime(request).wake()
    return json_answer(PlaceAnswer(stored.place), 202)


def _versions(store: Store, row: BanditRow) -> VersionsAnswer:
    kept = models.kept(store, row.id)
    found = []
    for time, data in queries.versions(store, row, times=list(kept.values())):
        what = msgspec.json.decode(data, type=models.Published)
        told = msgspec.structs.asdict(what)
        found.append(VersionAnswer(**told, time=iso(time), kept=what.version in kept))
    return VersionsAnswer(row.version, sorted(found, key=lambda each: -each.version))
