"""Health, metrics, documentation."""

from __future__ import annotations

from contextlib import suppress

from prometheus_client import CONTENT_TYPE_LATEST
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from treebandit.errors import StoreError
from treebandit.service import models
from treebandit.service.access import reader_of
from treebandit.service.bodies import HealthAnswer
from treebandit.service.exchange import Operations, asker, from_store, json_answer, runtime
from treebandit.service.failures import Failure, shown_failures
from treebandit.service.threads import in_store

OPERATIONS = Operations()
#: What asks whether it is ready has little patience itself.
_PING_SECONDS = 2.0
#: The document is OpenAPI 3.1, and the bundled Swagger UI shows 3.0 only: told that it is one, it shows all of it.
_DOCS = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>treebandit API</title>
<link rel="icon" href="data:,"><link rel="stylesheet" href="assets/swagger-ui.css"></head>
<body><div id="swagger-ui"></div><script src="assets/swagger-ui-bundle.js"></script>
<script type="module">
const spec = {...await (await fetch("openapi.json")).json(), openapi: "3.0.3"};
SwaggerUIBundle({spec, dom_id: "#swagger-ui", validatorUrl: null});
</script></body></html>
"""


@OPERATIONS.add("GET", "/health/live", "live", gives={200: HealthAnswer})
async def live(request: Request) -> Response:
    """The process answers."""
    return json_answer(HealthAnswer("ok"))


@OPERATIONS.add("GET", "/health/ready", "ready", gives={200: HealthAnswer, 503: HealthAnswer})
async def ready(request: Request) -> Response:
    """It can decide: kernels are compiled, the store is reached, the newest model is loaded.

    What is missing, and what else is wrong, is told to a key with the role `read`, of the bandits that it sees.
    """
    service = runtime(request)
    missing = dict(service.missing)
    try:
        await in_store(_PING_SECONDS, service.store.ping)
    except StoreError as error:
        missing[Failure("store")] = str(error)
    reply = HealthAnswer("not ready" if missing else "ok")
    reader = reader_of(service, request)
    if reader is not None:
        reply.missing = shown_failures(missing, reader.sees)
        reply.warnings = shown_failures(service.warnings, reader.sees)
    return json_answer(reply, 503 if missing else 200)


@OPERATIONS.add("GET", "/metrics", "metrics", "read", gives={200: "text/plain"})
async def metrics(request: Request) -> Response:
    """Counters for Prometheus; with a key of one bandit, without those of others."""
    service = runtime(request)
    counted = service.metrics
    counted.waiting.set(service.writer.waiting)
    counted.ready.set(0.0 if service.missing else 1.0)
    counted.show(counted.version, {name: row.version for name, row in service.rows().items()})
    counted.show(counted.logged, {name: row.place for name, row in service.rows().items()})
    counted.show(counted.learned, service.learner.places if service.learner else {})
    with suppress(StoreError):  # the other numbers are here all the same
        rows = dict(service.rows())
        newest = await from_store(
            request,
            lambda: {name: models.newest_published(service.store, row) for name, row in rows.items()},
        )
        counted.show(counted.skipped, {name: each.skipped if each else 0 for name, each in newest.items()})
    return Response(counted.text(asker(request).sees), media_type=CONTENT_TYPE_LATEST)


@OPERATIONS.add("GET", "/openapi.json", "openapi", gives={200: dict})
async def openapi(request: Request) -> Response:
    """This document."""
    return Response(request.app.state.openapi, media_type="application/json")


@OPERATIONS.add("GET", "/docs", "docs", gives={200: "text/html"}, listed=False)
async def docs(request: Request) -> Response:
    """This document to read and to try."""
    return HTMLResponse(_DOCS)
