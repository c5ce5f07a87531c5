"""Requests and answers: operations, reading bodies within limits, errors as bodies."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from treebandit.errors import InputError, MissingExtraError, StoreError, TreebanditError
from treebandit.service.bodies import ErrorAnswer, Problem
from treebandit.service.keys import Key
from treebandit.service.refusals import Refused
from treebandit.service.runtime import Runtime
from treebandit.service.store import BanditRow
from treebandit.service.threads import in_store

Handler = Callable[[Request], Awaitable[Response]]
_Body = TypeVar("_Body")
_Made = TypeVar("_Made")
_encode = msgspec.json.Encoder().encode
JSON = "application/json"
NDJSON = "application/x-ndjson"
BYTES = "application/octet-stream"


@dataclass(frozen=True)
class Operation:
    """One thing that the API does.

    role: that a key needs; None for everybody. takes: the type of its body, or media types of other bodies. gives:
    status -> type of the answer's body (None: no body; media types: not JSON). query: name -> (schema, what it is).
    errors: statuses besides those that every operation may have.
    """

    method: str
    path: str
    name: str
    handler: Handler
    role: str | None = None
    takes: Any = None
    takes_media: str = JSON
    gives: dict[int, Any] = field(default_factory=dict)
    query: dict[str, tuple[dict[str, Any], str]] = field(default_factory=dict)
    headers: dict[str, tuple[dict[str, Any], str]] = field(default_factory=dict)
    errors: tuple[int, ...] = ()
    listed: bool = True

    @property
    def summary(self) -> str:
        """The first sentence that its handler says of itself."""
        return re.split(r"\.(?:\s|$)", self.handler.__doc__ or "")[0]


class Operations(list[Operation]):
    """The operations of one module, in the order in which paths are tried."""

    def add(
        self, method: str, path: str, name: str, role: str | None = None, **more: Any
    ) -> Callable[[Handler], Handler]:
        """A decorator that makes a handler an operation; 404 is among the errors of a path that names a bandit."""
        errors = more.pop("errors", (404,) if "{name}" in path else ())

        def added(handler: Handler) -> Handler:
            self.append(Operation(method, path, name, handler, role, errors=errors, **more))
            return handler

        return added


def runtime(request: Request) -> Runtime:
    """The service that this request came to."""
    found: Runtime = request.scope["runtime"]
    return found


def asker(request: Request) -> Key:
    """Who asks; an operation with a role has asked for it."""
    found: Key = request.scope["key"]
    return found


def json_answer(content: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """An answer with a body of JSON."""
    return Response(_encode(content), status, headers, JSON)


def error_answer(refused: Refused, request_id: str) -> Response:
    """An answer that says what is wrong."""
    body = ErrorAnswer(Problem(refused.code, refused.message), request_id)
    return json_answer(body, refused.status, refused.headers)


def refusal(error: BaseException) -> Refused | None:
    """The answer to the caller for an error; None where it is a fault of ours."""
    if isinstance(error, Refused):
        return error
    if isinstance(error, StoreError):
        return Refused(503, "StoreUnavailable", str(error), {"Retry-After": "1"})
    if isinstance(error, MissingExtraError):
        return Refused(501, "NotInstalled", str(error))
    if isinstance(error, RecursionError):
        return Refused(400, "InvalidRequest", "values are nested too deeply; flatten them")
    if isinstance(error, InputError | TreebanditError):
        return Refused(400, "InvalidRequest", str(error))
    if isinstance(error, TimeoutError):
        return Refused(408, "Timeout", "the request did not arrive in time")
    return None


async def read(request: Request, limit: int) -> bytes:
    """The whole body, if it is no longer than `limit` and comes in time."""
    packed = request.headers.get("content-encoding", "identity")
    if packed != "identity":
        raise InputError(f"the body is packed, Content-Encoding: {packed[:40]}; send it as it is")
    declared = request.headers.get("content-length", "0")
    if declared.isdigit() and int(declared) > limit:
        raise _too_long(limit)
    parts, size, more = [], 0, True
    try:
        async with asyncio.timeout(runtime(request).limits.seconds + limit / 1_000_000):
            while more:
                message = await request.receive()
                if message["type"] == "http.disconnect":
                    raise Refused(400, "InvalidRequest", "the connection ended before the body did")
                part, more = message.get("body", b""), message.get("more_body", False)
                size += len(part)
                if size > limit:
                    raise _too_long(limit)
                parts.append(part)
    except TimeoutError:
        raise Refused(
            408, "Timeout", "the body did not arrive in time; send it faster", {"Connection": "close"}
        ) from None
    return parts[0] if len(parts) == 1 else b"".join(parts)


async def body(request: Request, kind: type[_Body], *, limit: int | None = None) -> _Body:
    """The body as a value of `kind`; a 400 that names the key where it is not one."""
    return decoded(await read(request, limit or runtime(request).limits.body), kind)


def decoded(data: bytes, kind: type[_Body]) -> _Body:
    """JSON as a value of `kind`."""
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, ValueError) as error:
        raise Refused(
            400, "InvalidRequest", f"{error}" if data else "the body is empty; send JSON"
        ) from error
    except RecursionError:
        raise Refused(400, "InvalidRequest", "values are nested too deeply; flatten them") from None


async def bandit(request: Request) -> BanditRow:
    """The bandit that the path names, as the store has it now."""
    name = str(request.path_params["name"])
    row = await from_store(request, runtime(request).store.bandit, name) if "\x00" not in name else None
    if row is None:
        raise no_bandit(name)
    return row


async def from_store(request: Request, work: Callable[..., _Made], *given: Any, **more: Any) -> _Made:
    """What the store has, or a StoreError where it takes longer than a request may."""
    return await in_store(runtime(request).limits.seconds, work, *given, **more)


def no_bandit(name: str) -> Refused:
    """There is no such bandit."""
    return Refused(
        404, "BanditNotFound", f"there is no bandit {name[:100]!r}; make it with PUT /v1/bandits/NAME"
    )


def whole(request: Request, name: str, default: int, least: int, most: int) -> int:
    """A whole number of the query."""
    text = request.query_params.get(name)
    if text is None:
        return default
    if text.isascii() and text.isdigit() and len(text) < 20 and least <= int(text) <= most:
        return int(text)
    raise Refused(400, "InvalidRequest", f"{name}={text[:40]!r}; give a whole number from {least} to {most}")


def flag(request: Request, name: str, *, default: bool = False) -> bool:
    """A yes or no of the query."""
    text = request.query_params.get(name, "true" if default else "false")
    if text not in ("true", "false"):
        raise InputError(f"{name}={text[:40]!r}; write true or false")
    return text == "true"


def _too_long(limit: int) -> Refused:
    return Refused(
        413,
        "TooLarge",
        f"the body is longer than {limit:,} bytes; send less at once",
        {"Connection": "close"},
    )
