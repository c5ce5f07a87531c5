"""The dashboard of one bandit: what the store has, put together, and kept for a moment."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np

from treebandit.service import dashboard_sample, queries
from treebandit.service.dashboard_alerts import Silence, alerts
from treebandit.service.dashboard_bodies import DashboardAnswer, Lateness, OtherPolicies, Version
from treebandit.service.dashboard_policies import other_policies
from treebandit.service.dashboard_recent import Recent
from treebandit.service.dashboard_sums import arm_lines, headline, points
from treebandit.service.failures import shown_failures
from treebandit.service.models import Published
from treebandit.service.queries import Delay, Window
from treebandit.service.runtime import Runtime
from treebandit.service.store import BanditRow, Store
from treebandit.service.threads import DaemonThreads, in_store
from treebandit.service.times import iso

SPANS: dict[str, int] = {"15m": 900, "1h": 3600, "24h": 86_400, "7d": 604_800, "all": 0}
#: Decisions that one look is about, at most: what it costs has a bound.
_MOST = 100_000
_SAMPLE = 1500
_BUCKETS = 36
_VERSIONS = 30
#: Seconds that an answer is kept at most.
_STALE = 20.0
_LONG_AGO = 900.0


class Dashboards:
    """The dashboards of one process. A look costs the store something, so that it is kept for a moment.

    The more it cost to make, the longer it is kept: many open pages cost no more than one, which is about a tenth of a
    core where the log is long.
    """

    def __init__(self, runtime: Runtime, *, least: float = 1.0) -> None:
        self._runtime = runtime
        self._recent = Recent(runtime.metrics)
        self._least = least
        self._kept: dict[Any, tuple[float, Any]] = {}
        # One thread of its own: readers of pages never take the threads that decisions need.
        self._thread = DaemonThreads(1, "dashboard")

    async def look(self, row: BanditRow, span: str) -> DashboardAnswer:
        """The dashboard as it is now, or was a moment ago."""
        return await in_store(self._runtime.limits.seconds, self._look, row, span, threads=self._thread)

    def _look(self, row: BanditRow, span: str) -> DashboardAnswer:
        now = time.monotonic()
        for key in [key for key, (until, _) in self._kept.items() if until < now]:
            del self._kept[key]
        made: DashboardAnswer = self._for_a_while(
            (row.id, row.revision, span), self._least, lambda: self._made(row, span)
        )
        if not made.decisions:
            return made
        names = [each.arm for each in made.arms if not each.other]
        others: OtherPolicies = self._for_a_while(
            ("others", row.id, row.revision, bool(made.headline.policy.decisions)),
            15 * self._least,
            lambda: other_policies(self._runtime.store, row, names),
        )
        return msgspec.structs.replace(made, others=others)

    def _for_a_while(self, key: Any, least: float, make: Callable[[], Any]) -> Any:
        kept = self._kept.get(key)
        if kept is not None:
            return kept[1]
        started = time.thread_time()
        made = make()
        cost = time.thread_time() - started
        self._kept[key] = (time.monotonic() + max(least, min(10 * cost, _STALE)), made)
        return made

    def _made(self, row: BanditRow, span: str) -> DashboardAnswer:
        counted = self._recent.look(row.name)
        failures = {**self._runtime.missing, **self._runtime.warnings}
        missing = shown_failures(failures, lambda bandit: bandit == row.name)
        # Where nobody has looked for long, what was refused may be long ago.
        refused = counted.refused if counted.seconds < _LONG_AGO else 0
        made = dashboard(self._runtime.store, row, SPANS[span], refused=refused, missing=missing)
        made.latency, made.latency_seconds = counted.latency, counted.seconds
        return made


def dashboard(
    store: Store,
    row: BanditRow,
    seconds: int,
    *,
    now: int | None = None,
    refused: int = 0,
    missing: dict[str, str] | None = None,
) -> DashboardAnswer:
    """The decisions of the last `seconds`, or all for 0; without latency and what other policies would have earned."""
    if now is None:
        with store.session() as connection:
            now = max(connection.wall(), row.time)
    until = now + 1
    seen, capped = queries.window(
        store, row, max(0, until - seconds * 1_000_000) if seconds else 0, until, _MOST
    )
    step = max(1, -(-(seen.until - seen.since) // _BUCKETS))
    cells = queries.cells(store, row, seen, step)
    decisions, final = sum(c.decisions for c in cells), sum(c.final for c in cells)
    awaiting = queries.awaiting(store, row, seen) if decisions > final else 0
    delays = queries.delays(store, row, seen)
    every = -(-max(decisions, 1) // _SAMPLE)
    config = row.config
    sampled = dashboard_sample.read(queries.sample(store, row, seen, every, 2 * _SAMPLE), config.floor)
    answered = sum(c.answered for c in cells)
    published = [
        (time, msgspec.json.decode(body, type=Published))
        for time, body in queries.versions(store, row, _VERSIONS)
    ]
    return DashboardAnswer(
        name=row.name,
        description=config.description,
        mode=config.mode,
        time=iso(now),
        since=iso(seen.since),
        until=iso(seen.until),
        seconds=(seen.until - seen.since) / 1e6,
        capped=capped,
        decisions=decisions,
        awaiting=awaiting,
        headline=headline(cells, config, awaiting),
        rewards=points(cells, seen.since, step, _BUCKETS) if cells else [],
        arms=arm_lines(cells, _BUCKETS),
        lateness=lateness(delays),
        wait=config.wait,
        floor=config.floor,
        exploration=dashboard_sample.exploration(sampled, seen.since, step),
        features=dashboard_sample.deciding_features(sampled),
        versions=[
            Version(each.version, iso(time), each.rows, each.rebuilds, each.rebuild_seconds)
            for time, each in published
        ],
        version=max(row.version, published[0][1].version) if published else row.version,
        behind=queries.unlearned(store, row, published[0][1].learned if published else 0),
        latency=[],
        latency_seconds=0.0,
        alerts=alerts(
            config=config,
            cells=cells,
            buckets=_BUCKETS,
            seen=sampled,
            changes=dashboard_sample.changes(sampled),
            silence=_silence(store, row, now, delays, answered / decisions if decisions else 0.0),
            refused=refused,
            skipped=_skipped([each for _, each in published]),
            missing=missing or {},
        ),
        others=OtherPolicies(),
    )


def lateness(delays: list[Delay]) -> Lateness:
    """A histogram in steps of a factor of two, so that seconds and days fit."""
    late = sum(not each.counted for each in delays)
    if not delays:
        return Lateness(0, 0, None, None, [])
    seconds = np.array([each.microseconds for each in delays]) / 1e6
    top = max(2, int(np.ceil(np.log2(max(seconds.max(), 1e-3) / 1e-3))))
    edges = 1e-3 * 2.0 ** np.arange(top + 1)
    counts = np.bincount(np.searchsorted(edges, seconds).clip(0, top), minlength=top + 1)
    first = int(np.flatnonzero(counts)[0])
    bins = [(float(edges[i]), int(counts[i])) for i in range(first, top + 1)]
    return Lateness(len(delays), late, float(np.median(seconds)), float(np.quantile(seconds, 0.9)), bins)


def _skipped(newest_first: list[Published]) -> int:
    """Rewards that could not be learned since the oldest of these versions, or since the first."""
    before = newest_first[-1].skipped if len(newest_first) == _VERSIONS else 0
    return max(0, newest_first[0].skipped - before) if newest_first else 0


def _silence(store: Store, row: BanditRow, now: int, delays: list[Delay], share: float) -> Silence | None:
    """How long no reward has come, and for how many decisions nine in ten would have come by now."""
    last = queries.last_time(store, row, "reward")
    if last is None or len(delays) < 20:
        return None
    usual = round(float(np.quantile([each.microseconds for each in delays], 0.9)))
    without = queries.decided_between(store, row, Window(last, max(last, now - usual)))
    return Silence((now - last) / 1e6, without, 0.9 * share)
