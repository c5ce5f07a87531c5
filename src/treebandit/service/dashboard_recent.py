"""What this process has counted in the last minutes: latency, and requests that it refused."""

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
    at: float
    buckets: dict[str, tuple[float, ...]]
    refused: float


class Recent:
    """Remembers the counters now and then; tells what was added since a few minutes ago."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._kept: deque[_Counts] = deque([_Counts(time.monotonic(), {}, 0.0)])

    def look(self) -> tuple[list[Latency], int]:
        """Latencies, and how many decisions were refused as invalid."""
        now = self._read()
        if now.at - self._kept[-1].at >= 5.0:
            self._kept.append(now)
        while len(self._kept) > 1 and now.at - self._kept[1].at > _SECONDS:
            self._kept.popleft()
        before = self._kept[0]
        found = []
        for name, counts in now.buckets.items():
            old = before.buckets.get(name, (0.0,) * len(counts))
            added = [a - b for a, b in zip(counts, old, strict=True)]
            if sum(added) > 0:
                limits = quantiles(self._edges, added, (0.5, 0.95, 0.99))
                found.append(Latency(name, round(sum(added)), *limits))
        return found, round(now.refused - before.refused)

    def _read(self) -> _Counts:
        buckets: dict[str, list[tuple[float, float]]] = {}
        for metric in self._metrics.seconds.collect():
            for sample in metric.samples:
                name = sample.labels.get("operation", "")
                if sample.name.endswith("_bucket") and name in _SHOWN:
                    buckets.setdefault(name, []).append((float(sample.labels["le"]), sample.value))
        refused = sum(
            sample.value
            for metric in self._metrics.requests.collect()
            for sample in metric.samples
            if sample.name.endswith("_total")
            and (sample.labels["operation"], sample.labels["status"]) == ("decide", "400")
        )
        counted = {}
        for name in sorted(buckets):
            edges, cumulative = zip(*sorted(buckets[name]), strict=True)
            self._edges = edges
            counted[name] = tuple(b - a for a, b in zip((0.0, *cumulative), cumulative, strict=False))
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
