"""Who asks, and whether they may."""

from __future__ import annotations

import ipaddress
from functools import lru_cache
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.requests import Request

from treebandit.service.keys import ANYONE, Key
from treebandit.service.refusals import Refused
from treebandit.service.runtime import Runtime


def authorised(runtime: Runtime, request: Request, role: str, bandit: str | None) -> Key:
    """Who asks, if they may; anyone of this machine may where there were never any keys."""
    key = _known(runtime, request)
    if not key.may(role, bandit):
        raise Refused(403, "Forbidden", f"the key {key.name!r} may not do this; it needs the role {role!r}")
    request.scope["key"] = key
    runtime.rates.take(key.name, runtime.limits.rate)
    return key


def reader_of(runtime: Runtime, request: Request) -> Key | None:
    """Who asks, if they may read; None for others, who are not refused."""
    try:
        key = _known(runtime, request)
    except Refused:
        return None
    return key if key.may("read", None) else None


def _check_direct(headers: Headers) -> None:
    """Without keys, a proxy must not let others reach what is for this machine only."""
    for name in headers:
        if name == "forwarded" or name.startswith("x-forwarded-"):
            raise Refused(
                403,
                "Forbidden",
                "a proxy has forwarded this, and there are no keys; make one: treebandit keys add",
            )


def _check_browser(host: str, origin: str | None) -> None:
    """Without keys, a page of another site must not use the visitor's browser to reach this machine's service."""
    if not _is_this_machine(host):
        raise Refused(
            403, "Forbidden", f"the host {host[:100]!r} is not this machine; make a key: treebandit keys add"
        )
    if origin is not None and origin.partition("://")[2] != host:
        raise Refused(403, "Forbidden", "a page of another site asks; make a key for it: treebandit keys add")


@lru_cache(maxsize=100)
def _is_this_machine(host: str) -> bool:
    try:
        return is_loopback(urlsplit(f"//{host}").hostname or "")
    except ValueError:
        return False


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _known(runtime: Runtime, request: Request) -> Key:
    headers = request.headers
    if not runtime.keys.required and not runtime.keys_required:
        _check_direct(headers)
        _check_browser(headers.get("host", ""), headers.get("origin"))
        return ANYONE
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
