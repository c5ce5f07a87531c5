"""Who asks, and whether they may."""

from __future__ import annotations

from starlette.requests import Request

from treebandit.service.keys import ANYONE, Key
from treebandit.service.refusals import Refused
from treebandit.service.runtime import Runtime


def authorised(runtime: Runtime, request: Request, role: str, bandit: str | None) -> Key:
    """Who asks, if they may; anyone may where there are no keys, as the service then listens to this machine only."""
    key = _known(runtime, request)
    if not key.may(role, bandit):
        raise Refused(403, "Forbidden", f"the key {key.name!r} may not do this; it needs the role {role!r}")
    request.scope["key"] = key
    runtime.rates.take(key.name, runtime.limits.rate)
    return key


def _known(runtime: Runtime, request: Request) -> Key:
    if not len(runtime.keys) and not runtime.keys_required:
        return ANYONE
    headers = request.headers
    secret = headers.get("x-api-key") or headers.get("ocp-apim-subscription-key") or ""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        secret = token.strip()
    key = runtime.keys.find(secret) if secret else None
    if key is None:
        raise Refused(
            401,
            "Unauthorized",
            "send a key: `Authorization: Bearer KEY`; `treebandit keys add` makes one",
            {"WWW-Authenticate": "Bearer"},
        )
    return key
