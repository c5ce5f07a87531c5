"""The OpenAPI document, made from the operations and the types of their bodies."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from treebandit import __version__
from treebandit.service.bodies import END, ID_PATTERN, ErrorAnswer
from treebandit.service.exchange import JSON, Operation

_SAYS = {
    200: "Done",
    201: "Made",
    202: "Accepted",
    204: "Done",
    400: "The request cannot be used",
    401: "No key, or an unknown one",
    403: "The key may not do this",
    404: "There is no such thing",
    408: "The request came too slowly",
    410: "Erased",
    413: "Too long",
    429: "Too many requests",
    500: "A fault of the service",
    503: "The store cannot be reached or written",
}
_ALWAYS = (400, 401, 403, 408, 413, 429, 500, 503)
_PARAMETERS: dict[str, dict[str, Any]] = {
    "job": {"type": "string", "minLength": 1, "maxLength": 64, "pattern": f"^[0-9a-f]+{END}"},
    "name": {"type": "string", "pattern": f"^[A-Za-z0-9][A-Za-z0-9._-]{{0,99}}{END}"},
    "id": {"type": "string", "minLength": 1, "maxLength": 256, "pattern": ID_PATTERN},
}


def document(operations: Sequence[Operation]) -> dict[str, Any]:
    """The whole document."""
    listed = [each for each in operations if each.listed]
    types = {kind for each in listed for kind in (each.takes, *each.gives.values()) if _is_type(kind)}
    ordered = sorted({*types, ErrorAnswer}, key=lambda kind: str(kind))
    schemas, components = msgspec.json.schema_components(ordered, ref_template="#/components/schemas/{name}")
    known = dict(zip(ordered, schemas, strict=True))
    paths: dict[str, Any] = {}
    for each in listed:
        paths.setdefault(each.path, {})[each.method.lower()] = _operation(each, known)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "treebandit",
            "version": __version__,
            "description": "Decide, tell the reward later by id, look at what was earned.",
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "key": {"type": "apiKey", "in": "header", "name": "X-Api-Key"},
            },
        },
    }


def _operation(each: Operation, known: dict[Any, Any]) -> dict[str, Any]:
    described: dict[str, Any] = {
        "operationId": each.name,
        "summary": each.summary,
        "parameters": [
            {"name": name, "in": "path", "required": True, "schema": _PARAMETERS[name]}
            for name in re.findall(r"{(\w+)}", each.path)
        ],
        "responses": {},
    }
    for where, named in (("query", each.query), ("header", each.headers)):
        described["parameters"] += [
            {"name": name, "in": where, "required": False, "schema": schema, "description": says}
            for name, (schema, says) in named.items()
        ]
    if each.role is not None:
        described["description"] = f"Needs the role `{each.role}`."
        described["security"] = [{"bearer": []}, {"key": []}]
    if each.takes is not None:
        content = {"schema": known[each.takes]} if each.takes_media == JSON else {}
        described["requestBody"] = {
            "required": each.takes_media == JSON,
            "content": {each.takes_media: content},
        }
    for status, kind in each.gives.items():
        described["responses"][str(status)] = _response(status, kind, known)
    for status in (*_ALWAYS, *each.errors):
        described["responses"].setdefault(str(status), _response(status, ErrorAnswer, known))
    return described


def _response(status: int, kind: Any, known: dict[Any, Any]) -> dict[str, Any]:
    said: dict[str, Any] = {"description": _SAYS.get(status, "Done")}
    if isinstance(kind, str | tuple):
        said["content"] = {media: {} for media in ((kind,) if isinstance(kind, str) else kind)}
    elif kind is not None:
        said["content"] = {JSON: {"schema": known[kind]}}
    return said


def _is_type(kind: Any) -> bool:
    return kind is not None and kind is not bytes and not isinstance(kind, str | tuple)
