"""What callers of a client give, as JSON: numbers of numpy, series and arrays too; or a clear error."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from treebandit.errors import InputError
from treebandit.features.frames import is_series
from treebandit.features.values import is_plain, numbers_of, plain_value, shown


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
