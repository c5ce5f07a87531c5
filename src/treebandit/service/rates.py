"""How many requests a key may send per second."""

from __future__ import annotations

import time

from treebandit.service.refusals import Refused


class Rates:
    """A bucket of tokens per key: one second's worth may come at once."""

    def __init__(self) -> None:
        self._buckets: dict[str, tuple[float, float]] = {}

    def take(self, who: str, rate: float | None) -> None:
        """Take a token, or refuse."""
        if rate is None:
            return
        now = time.monotonic()
        tokens, last = self._buckets.get(who, (max(rate, 1.0), now))
        tokens = min(max(rate, 1.0), tokens + (now - last) * rate)
        if tokens < 1.0:
            wait = (1.0 - tokens) / rate
            raise Refused(
                429,
                "TooManyRequests",
                f"more than {rate:g} requests per second",
                {"Retry-After": f"{max(wait, 1):.0f}"},
            )
        self._buckets[who] = (tokens - 1.0, now)
