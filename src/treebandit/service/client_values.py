"""What callers of a client give, as JSON: numbers of numpy, series and arrays too; or a clear error."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from treebandit.errors import InputError, ParameterError
from treebandit.features.frames import is_series
from treebandit.features.values import is_plain, numbers_of, plain_value, shown
from treebandit.parameters import check_number, check_text

_LONGEST_TIMEOUT, _MOST_RETRIES = 1e6, 1000


def check_settings(url: Any, bandit: Any, *, key: Any, timeout: Any, retries: Any) -> None:
    """Raise where a client could never have an answer: each decision would be the fallback, and nobody would notice."""
    check_text("bandit", bandit)
    check_number("timeout", timeout, above=0, most=_LONGEST_TIMEOUT)
    check_number("retries", retries, least=0, most=_MOST_RETRIES, whole=True)
    if not (isinstance(url, str) and _is_address(url)):
        raise ParameterError(
            f"url is {shown(url)}; give that of the service, such as http://127.0.0.1:8787 or https://bandits.example"
        )
    if key is not None and not (isinstance(key, str) and re.fullmatch(r"[!-~]+", key)):
        raise ParameterError(
            "the key is empty, no text, or has spaces, line ends or letters that a header cannot hold; give it as "
            "`treebandit keys add` has printed it, or None"
        )


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return (
            parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0 and " " not in url
        )
    except ValueError:
        return False


def arm_list(arms: Any) -> list[Any]:
    """Arms as a list; a text is none, though it has letters."""
    if isinstance(arms, str | bytes | Mapping) or not isinstance(arms, Iterable):
        raise InputError(
            f"arms are {shown(arms)}, a {type(arms).__name__}; give a list with a name, or a dict, for each"
        )
    return list(arms)


def json_value(value: Any, what: str) -> Any:
    """Plain values, dicts, lists, arrays and series as JSON has them; NaN is missing. what: its name in messages."""
    if is_plain(type(value)):
        plain = value if type(value) in (str, bool, int, float) else plain_value(value)
        if isinstance(plain, float) and not math.isfinite(plain):
            if math.isnan(plain):
                return None
            raise InputError(f"{what} is {plain}; give finite numbers, None for missing ones")
        return plain
    if is_series(value):
        value = dict(value.items())
    if isinstance(value, Mapping):
        return {_key(key, what): json_value(part, f"{what}[{key!r}]") for key, part in value.items()}
    if isinstance(value, np.ndarray) and value.ndim == 0:
        return json_value(value[()], what)
    if isinstance(value, list | tuple | np.ndarray):
        return [json_value(part, f"{what}[{place}]") for place, part in enumerate(value)]
    raise InputError(
        f"{what} is {shown(value)} ({type(value).__name__}), which JSON does not have; give numbers, text, flags or "
        "None, or dicts and lists of them"
    )


def json_bytes(body: Mapping[str, Any]) -> bytes:
    """A body as it is sent."""
    try:
        values = {key: json_value(value, key) for key, value in body.items()}
        return json.dumps(values, allow_nan=False).encode()
    except RecursionError:
        raise InputError("values are nested too deeply; flatten them") from None


def reward_value(value: Any) -> float | list[float]:
    """A reward: one finite number, or one per chosen arm."""
    numbers = numbers_of(value, "rewards", "give one number, or one per chosen arm")
    if numbers.ndim > 1 or not np.isfinite(numbers).all():
        raise InputError(f"the reward is {shown(value)}; give one finite number, or one per chosen arm")
    given: float | list[float] = numbers.astype(np.float64).tolist()
    return given


def checked_id(given: Any) -> str:
    """An id that a path can hold."""
    if not isinstance(given, str) or given in ("", ".", ".."):
        raise InputError(f"the id {shown(given)}; give text, not empty, and not '.' or '..'")
    return given


def _key(key: Any, what: str) -> str:
    if not isinstance(key, str | int):
        raise InputError(f"{what} has the key {shown(key)}; name features with text")
    return str(key)
