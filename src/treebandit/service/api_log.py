"""The log to read: NDJSON or Parquet, by time and cursor."""

from __future__ import annotations

import asyncio

from starlette.requests import Request
from starlette.responses import Response

from treebandit.errors import InputError
from treebandit.service import export
from treebandit.service.exchange import NDJSON, Operations, bandit, flag, from_store, runtime, whole
from treebandit.service.times import microseconds

_PARQUET = "application/vnd.apache.parquet"
_MOST = 10_000
_MOMENT = {"type": "string", "format": "date-time"}
OPERATIONS = Operations()


@OPERATIONS.add(
    "GET",
    "/v1/bandits/{name}/log",
    "log",
    "read",
    gives={200: (NDJSON, _PARQUET)},
    query={
        "format": ({"type": "string", "enum": ["ndjson", "parquet"]}, "ndjson where left out"),
        "cursor": ({"type": "integer", "minimum": 0}, "the X-Next-Cursor of the page before"),
        "limit": (
            {"type": "integer", "minimum": 1, "maximum": _MOST},
            "records in a page; fewer where they are large",
        ),
        "since": (_MOMENT, "decisions from this time on"),
        "until": (_MOMENT, "decisions before this time"),
        "closed": ({"type": "string", "enum": ["true", "false"]}, "true: only where the reward is final"),
    },
)
async def log(request: Request) -> Response:
    """The log: one record per decision, with its reward.

    It comes in pages. The header `X-Next-Cursor` is where the next one begins; it is not there at the end.
    """
    row = await bandit(request)
    form = request.query_params.get("format", "ndjson")
    if form not in ("ndjson", "parquet"):
        raise InputError(f"format={form[:40]!r}; choose ndjson or parquet")
    closed = flag(request, "closed")
    after = whole(request, "cursor", 0, 0, 1 << 62)
    limit = whole(request, "limit", 1000, 1, _MOST)
    since = microseconds(request.query_params.get("since", "1970-01-01"))
    until = microseconds(request.query_params.get("until", "9000-01-01"))
    found, cursor = await from_store(
        request,
        export.records,
        runtime(request).store,
        row,
        after=after,
        limit=limit,
        since=max(since, 0),
        until=max(until, 0),
        closed=closed,
    )
    headers = {} if cursor is None else {"X-Next-Cursor": str(cursor)}
    if form == "parquet":
        return Response(await asyncio.to_thread(export.parquet, found), 200, headers, _PARQUET)
    return Response(await asyncio.to_thread(export.ndjson, found), 200, headers, NDJSON)
