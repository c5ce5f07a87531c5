"""What `/metrics` tells Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Metric, generate_latest

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_SIZES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)


class Metrics:
    """Counters of one process; a registry of its own, so that two services fit into one process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        of_bandit = ["bandit"]
        self.decisions = self._counter("decisions", "Decisions stored.", [*of_bandit, "policy"])
        self.repeated = self._counter("decisions_repeated", "Decisions asked for again.", of_bandit)
        self.rewards = self._counter("rewards", "Rewards, by what became of them.", [*of_bandit, "status"])
        of_request = ["operation", *of_bandit]
        self.requests = self._counter("http_requests", "Requests.", [*of_request, "status"])
        self.seconds = self._histogram("http_request_seconds", "Time to answer.", _SECONDS, of_request)
        self.commit_seconds = self._histogram("commit_seconds", "Time of one transaction.", _SECONDS)
        self.commit_size = self._histogram("commit_requests", "Requests in one transaction.", _SIZES)
        self.waiting = self._gauge("store_waiting", "Requests that wait for the store.", [])
        self.version = self._gauge("model_version", "Version that decides.", of_bandit)
        self.logged = self._gauge("log_place", "Entries of the log.", of_bandit)
        self.learned = self._gauge("learner_place", "Entries that the learner has read.", of_bandit)
        self.skipped = self._gauge("rewards_skipped", "Rewards that the model could not learn.", of_bandit)
        self.ready = self._gauge("ready", "1 where the service is ready.", [])

        # The library looks a label up under a lock, and makes text of it, each time.
        self._requests = cache(lambda *labels: self.requests.labels(*labels).inc)
        self._seconds = cache(lambda *labels: self.seconds.labels(*labels).observe)
        self._decisions = cache(lambda *labels: self.decisions.labels(*labels).inc)
        self._rewards = cache(lambda *labels: self.rewards.labels(*labels).inc)

    def _counter(self, name: str, says: str, labels: list[str]) -> Counter:
        return Counter(f"treebandit_{name}", says, labels, registry=self.registry)

    def _histogram(
        self, name: str, says: str, buckets: tuple[float, ...], labels: Sequence[str] = ()
    ) -> Histogram:
        return Histogram(f"treebandit_{name}", says, labels, registry=self.registry, buckets=buckets)

    def _gauge(self, name: str, says: str, labels: list[str]) -> Gauge:
        return Gauge(f"treebandit_{name}", says, labels, registry=self.registry)

    def answered(self, operation: str, status: int, seconds: float, bandit: str = "") -> None:
        """One request; of a bandit that there is, or of none."""
        self._requests(operation, bandit, str(status))()
        self._seconds(operation, bandit)(seconds)

    def decided(self, bandit: str, policy: str) -> None:
        """One decision that is new."""
        self._decisions(bandit, policy)()

    def rewarded(self, bandit: str, status: str, count: int = 1) -> None:
        """Rewards with one status."""
        self._rewards(bandit, status)(count)

    def committed(self, size: int, seconds: float) -> None:
        """One transaction of the log's writer."""
        self.commit_size.observe(size)
        self.commit_seconds.observe(seconds)

    def show(self, gauge: Gauge, values: Mapping[str, float]) -> None:
        """Set a gauge of bandits; those that are gone have none any more."""
        gauge.clear()
        for bandit, value in values.items():
            gauge.labels(bandit).set(value)

    def text(self, seen: Callable[[str], bool] = lambda bandit: True) -> bytes:
        """All of it in Prometheus' format, but for bandits that may not be seen."""
        return generate_latest(_Seen(self.registry, seen))


class _Seen(CollectorRegistry):
    """What a registry has, but for some bandits."""

    def __init__(self, whole: CollectorRegistry, seen: Callable[[str], bool]) -> None:
        super().__init__()
        self._whole, self._seen = whole, seen

    def collect(self) -> Iterator[Metric]:
        for metric in self._whole.collect():
            metric.samples = [
                each
                for each in metric.samples
                if not each.labels.get("bandit") or self._seen(each.labels["bandit"])
            ]
            yield metric
