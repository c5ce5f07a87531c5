"""What this process has counted of a bandit in the last minutes: latency, and requests that it refused."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from treebandit.service.dashboard_bodies import Latency
from treebandit.service.metrics import Metrics

_SECONDS = 300.0
_SHOWN = ("decide", "reward")


class _Counts(NamedTuple):
    """buckets: by bandit and operation. refused: by bandit."""

    at: float
    buckets: dict[tuple[str, str], tuple[float, ...]]
    refused: dict[str, float]


class Counted(NamedTuple):
    """In so many seconds: latencies, and how many requests for decisions were refused as invalid."""

    seconds: float
    latency: list[Latency]
    refused: int


class Recent:
    """Remembers the counters now and then; tells what was added since a few minutes ago."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._kept: deque[_Counts] = deque([_Counts(time.monotonic() - self._age(), {}, {})])

    def look(self, bandit: str) -> Counted:
        """What was counted of a bandit since the last look that is long enough ago, or since the process began."""
        now = self._read()
        if now.at - self._kept[-1].at >= 5.0:
            self._kept.append(now)
        while len(self._kept) > 1 and now.at - self._kept[1].at > _SECONDS:
            self._kept.popleft()
        before = self._kept[0]
        found = []
        for name in _SHOWN:
            counts = now.buckets.get((bandit, name), ())
            old = before.buckets.get((bandit, name), (0.0,) * len(counts))
            added = [a - b for a, b in zip(counts, old, strict=True)]
            if sum(added) > 0:
                limits = quantiles(self._edges, added, (0.5, 0.95, 0.99))
                found.append(Latency(name, round(sum(added)), *limits))
        refused = now.refused.get(bandit, 0.0) - before.refused.get(bandit, 0.0)
        return Counted(now.at - before.at, found, round(refused))

    def _age(self) -> float:
        """Seconds since the first request was counted."""
        samples = (sample for metric in self._metrics.seconds.collect() for sample in metric.samples)
        now = time.time()
        return max(
            (now - sample.value for sample in samples if sample.name.endswith("_created")), default=0.0
        )

    def _read(self) -> _Counts:
        buckets: dict[tuple[str, str], list[tuple[float, float]]] = {}
        for metric in self._metrics.seconds.collect():
            for sample in metric.samples:
                name = sample.labels.get("operation", "")
                if sample.name.endswith("_bucket") and name in _SHOWN:
                    of = sample.labels["bandit"], name
                    buckets.setdefault(of, []).append((float(sample.labels["le"]), sample.value))
        refused = {
            sample.labels["bandit"]: sample.value
            for metric in self._metrics.requests.collect()
            for sample in metric.samples
            if sample.name.endswith("_total")
            and (sample.labels["operation"], sample.labels["status"]) == ("decide", "400")
        }
        counted = {}
        for of, found in buckets.items():
            edges, cumulative = zip(*sorted(found), strict=True)
            self._edges = edges
            counted[of] = tuple(b - a for a, b in zip((0.0, *cumulative), cumulative, strict=False))
        return _Counts(time.monotonic(), counted, refused)


def quantiles(edges: Sequence[float], counts: Sequence[float], shares: Sequence[float]) -> list[float]:
    """Quantiles of what was counted up to each edge, straight between edges; the last edge is infinite."""
    found = []
    total = sum(counts)
    for share in shares:
        left, low = share * total, 0.0
        for edge, count in zip(edges, counts, strict=True):
            if left <= count or edge == float("inf"):
                break
            left, low = left - count, edge
        high = low if edge == float("inf") else edge
        found.append(low + (high - low) * (left / count if count else 0.0))
    return found
