"""The ASGI application: routes, keys, rates, request ids, logs; errors become bodies, never tracebacks."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from treebandit.service import (
    api_bandits,
    api_dashboard,
    api_decisions,
    api_evaluations,
    api_health,
    api_log,
    api_models,
    openapi,
    personalizer,
)
from treebandit.service.access import authorised
from treebandit.service.exchange import Operation, error_answer, refusal
from treebandit.service.ids import IDS
from treebandit.service.logs import request_id
from treebandit.service.refusals import Refused
from treebandit.service.runtime import Runtime

_log = logging.getLogger("treebandit.http")
_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,100}")
#: Bytes of a body that nobody wants, read so that the caller sees the answer.
_MOST_DISCARDED = 1 << 26
#: Seconds for that where the caller has shown no key.
_DISCARD_SECONDS = 1.0

OPERATIONS: Sequence[Operation] = (
    *api_decisions.OPERATIONS,  # first, as routes are tried in this order
    *api_bandits.OPERATIONS,
    *api_log.OPERATIONS,
    *api_evaluations.OPERATIONS,
    *api_dashboard.OPERATIONS,
    *api_models.OPERATIONS,
    *api_health.OPERATIONS,
    *personalizer.OPERATIONS,
)


def make_app(runtime: Runtime, *, operations: Sequence[Operation] = OPERATIONS) -> ASGIApp:
    """The application of one process; starting and stopping it starts and stops the runtime."""

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        await runtime.start()
        try:
            yield
        finally:
            await runtime.stop()

    import swagger_ui_bundle

    inner = Starlette(
        routes=[
            *_routes(operations),
            Mount("/assets", StaticFiles(directory=str(swagger_ui_bundle.swagger_ui_path))),
        ],
        lifespan=lifespan,
    )
    inner.router.redirect_slashes = False
    inner.state.openapi = msgspec.json.encode(openapi.document(operations))
    return _Edge(inner, runtime)


def _routes(operations: Sequence[Operation]) -> list[Route]:
    """One route per path, so that a wrong method gets its own status."""
    paths: dict[str, dict[str, Operation]] = {}
    for each in operations:
        paths.setdefault(each.path, {})[each.method] = each
    return [
        # An id may hold slashes.
        Route(path.replace("{id}", "{id:path}"), _Endpoint(by_method), methods=list(by_method))
        for path, by_method in paths.items()
    ]


class _Endpoint:
    """One path, as an ASGI application: the framework's own layers for functions would do what `_Edge` does."""

    def __init__(self, by_method: dict[str, Operation]) -> None:
        self._by_method = by_method

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        method = scope["method"]
        operation = self._by_method["GET" if method == "HEAD" else method]
        scope["operation"], scope["bandit"] = operation.name, scope["path_params"].get("name")
        request = Request(scope, receive, send)
        if operation.role is not None:
            authorised(scope["runtime"], request, operation.role, scope["path_params"].get("name"))
        response = await operation.handler(request)
        await response(scope, receive, send)


def _told(error: Exception, scope: Scope) -> Refused:
    """The answer to the caller for any error; faults of ours only go to the log."""
    refused = _no_route(error) if isinstance(error, HTTPException) else refusal(error)
    if refused is None:
        _log.error("a request failed", exc_info=error, extra={"path": scope.get("path", "")[:200]})
        refused = Refused(
            500, "InternalError", "a fault of the service; its log has more, by this request id"
        )
    return refused


def _no_route(error: HTTPException) -> Refused:
    said = {404: "there is nothing at this path", 405: "this path does not take this method"}
    message = f"{said.get(error.status_code, error.detail)}; /docs shows what there is"
    code = {404: "NotFound", 405: "MethodNotAllowed"}.get(error.status_code, "InvalidRequest")
    return Refused(error.status_code, code, message, dict(error.headers or {}))


class _Edge:
    """Around everything: request ids, limits, logs, and errors as bodies."""

    def __init__(self, inner: Starlette, runtime: Runtime) -> None:
        self._inner, self.runtime = inner, runtime

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._inner(scope, receive, send)
            return
        started = time.perf_counter()
        headers = dict(scope["headers"])
        given = headers.get(b"x-request-id", b"").decode("latin-1")
        number = given if given and _REQUEST_ID.fullmatch(given) else IDS.new()
        token = request_id.set(number)
        scope["app"], scope["runtime"] = self._inner, self.runtime
        seen: dict[str, Any] = {"status": 0, "whole": b"expect" in headers, "counted": True}

        async def receiving() -> Message:
            message = await receive()
            seen["whole"] = seen["whole"] or not message.get("more_body", False)
            return message

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                given_up = False
                if message["status"] != 408 and not seen["whole"]:
                    self._leave(seen)  # it asks for nothing any more
                    await self._discard_body(receiving, seen, scope)
                    given_up = not seen["whole"]
                seen["status"] = message["status"]
                message["headers"] = [
                    *message.get("headers", ()),
                    (b"x-request-id", number.encode()),
                    (b"x-content-type-options", b"nosniff"),
                    *([(b"connection", b"close")] if given_up else ()),
                ]
            await send(message)

        self.runtime.under_way += 1
        try:
            full = self.runtime.under_way > self.runtime.limits.concurrency
            if full and not scope["path"].startswith("/health/"):
                raise Refused(503, "Overloaded", "too many requests at the same time", {"Retry-After": "1"})
            await self._inner.router(scope, receiving, sending)
        except Exception as error:
            refused = _told(error, scope)
            if not seen["status"]:  # else the answer is on its way already
                await error_answer(refused, number)(scope, receiving, sending)
        finally:
            self._leave(seen)
            self._count(scope, seen["status"], time.perf_counter() - started)
            request_id.reset(token)

    def _leave(self, seen: dict[str, Any]) -> None:
        """Give up the request's place among those under way, once."""
        self.runtime.under_way -= seen["counted"]
        seen["counted"] = False

    async def _discard_body(self, receive: Receive, seen: dict[str, Any], scope: Scope) -> None:
        """Read what is left of the body: a connection closed on unread bytes loses the answer on its way back."""
        size = 0
        with suppress(TimeoutError):
            seconds = self.runtime.limits.seconds
            async with asyncio.timeout(seconds if "key" in scope else min(seconds, _DISCARD_SECONDS)):
                while not seen["whole"] and size < _MOST_DISCARDED:
                    size += len((await receive()).get("body", b""))

    def _count(self, scope: Scope, status: int, seconds: float) -> None:
        operation = scope.get("operation", "other")
        # Names that are none of a bandit would be counters without end.
        bandit = scope.get("bandit")
        self.runtime.metrics.answered(
            operation, status, seconds, bandit if bandit in self.runtime.rows() else ""
        )
        if _log.isEnabledFor(logging.INFO):
            _log.info(
                "request",
                extra={
                    "method": scope["method"],
                    "path": scope["path"][:200],
                    "status": status,
                    "ms": round(seconds * 1000, 2),
                    "key": getattr(scope.get("key"), "name", None),
                },
            )
