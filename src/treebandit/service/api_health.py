"""Health, metrics, documentation."""

from __future__ import annotations

import asyncio

from prometheus_client import CONTENT_TYPE_LATEST
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from treebandit.errors import StoreError
from treebandit.service.bodies import HealthAnswer
from treebandit.service.exchange import Operation, json_answer, runtime

_DOCS = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>treebandit API</title>
<link rel="stylesheet" href="assets/swagger-ui.css"></head><body><div id="swagger-ui"></div>
<script src="assets/swagger-ui-bundle.js"></script>
<script>SwaggerUIBundle({url: "openapi.json", dom_id: "#swagger-ui", validatorUrl: null})</script></body></html>
"""


async def live(request: Request) -> Response:
    """The process answers."""
    return json_answer(HealthAnswer("ok"))


async def ready(request: Request) -> Response:
    """Kernels are compiled, the store is reached, the newest model is loaded."""
    service = runtime(request)
    missing = dict(service.missing)
    try:
        async with asyncio.timeout(2.0):
            await asyncio.to_thread(service.store.ping)
    except (StoreError, TimeoutError) as error:
        missing["store"] = str(error) or "no answer within 2 seconds"
    if missing:
        return json_answer(HealthAnswer("not ready", missing, service.warnings), 503)
    return json_answer(HealthAnswer("ok", warnings=service.warnings))


async def metrics(request: Request) -> Response:
    """Everything that is counted, for Prometheus."""
    service = runtime(request)
    counted = service.metrics
    counted.waiting.set(service.writer.waiting)
    counted.ready.set(0.0 if service.missing else 1.0)
    for name, row in service.rows().items():
        counted.version.labels(name).set(row.version)
        counted.logged.labels(name).set(row.place)
    for name, place in (service.learner.places if service.learner else {}).items():
        counted.learned.labels(name).set(place)
    return Response(counted.text(), media_type=CONTENT_TYPE_LATEST)


async def openapi(request: Request) -> Response:
    """What the API can do."""
    return Response(request.app.state.openapi, media_type="application/json")


async def docs(request: Request) -> Response:
    """The same to read and to try."""
    return HTMLResponse(_DOCS)


OPERATIONS = [
    Operation("GET", "/health/live", live, "live", "The process answers", gives={200: HealthAnswer}),
    Operation(
        "GET",
        "/health/ready",
        ready,
        "ready",
        "It can decide: kernels, store and model are there",
        gives={200: HealthAnswer, 503: HealthAnswer},
    ),
    Operation(
        "GET", "/metrics", metrics, "metrics", "Counters for Prometheus", "read", gives={200: "text/plain"}
    ),
    Operation("GET", "/openapi.json", openapi, "openapi", "This document", gives={200: dict}),
    Operation("GET", "/docs", docs, "docs", "This document to read", gives={200: "text/html"}, listed=False),
]
