"""Progress events of a study under way, and an estimate of the time left."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, Protocol

from treebandit.experiments.spec import RunSpec

Kind = Literal["skipped", "damaged", "started", "progress", "finished", "failed"]


@dataclass(frozen=True)
class ProgressEvent:
    """What happened to one run.

    kind: "skipped" was finished before, or by another command; "damaged" has a record that cannot be read and
        is played again.
    spec: the run.
    seconds: how long it took, where known.
    share: how much of it is played, 0 to 1.
    traceback: of a failed run.
    reason: why a skipped run is stale, or what is wrong with a damaged record.

    >>> from treebandit.experiments import ProgressEvent, RunSpec
    >>> agent = {"name": "LinUCB", "class": "LinUCB"}
    >>> environment = {"name": "mushroom", "class": "Classification", "data": "mushroom"}
    >>> spec = RunSpec(agent, environment, seed=0, rounds=20)
    >>> ProgressEvent("finished", spec, seconds=0.1).kind
    'finished'
    """

    kind: Kind
    spec: RunSpec
    seconds: float = 0.0
    share: float = 0.0
    traceback: str = ""
    reason: str = ""


class Backend(Protocol):
    """Where runs are played: processes of this machine, or a cluster."""

    def capacity(self) -> int:
        """How many more runs can be started now."""

    def start(self, spec: RunSpec) -> None:
        """Start a run."""

    def wait(self, timeout: float) -> list[ProgressEvent]:
        """Wait for events, at most `timeout` seconds."""

    def close(self) -> None:
        """Stop all runs under way."""


class TimeLeft:
    """An estimate of the time left, from the times of runs with the same agent and environment."""

    def __init__(self, specs: Iterable[RunSpec]) -> None:
        self._open = {spec.run_id: spec for spec in specs}
        self._times: dict[tuple[str, str], list[float]] = {}
        self._started: dict[str, float] = {}
        self._share: dict[str, float] = {}

    def update(self, event: ProgressEvent) -> None:
        """Take an event into account."""
        run_id = event.spec.run_id
        if event.kind == "started":
            self._started[run_id] = time.monotonic()
        elif event.kind == "progress":
            self._share[run_id] = event.share
        elif event.kind != "damaged":
            self._open.pop(run_id, None)
            self._started.pop(run_id, None)
            self._share.pop(run_id, None)
            if event.seconds > 0:
                self._times.setdefault(_pair(event.spec), []).append(event.seconds)

    def share(self) -> float:
        """How much of the runs under way is played, in runs."""
        return sum(self._share.values())

    def seconds(self) -> float | None:
        """Seconds left; None as long as nothing is known."""
        now = time.monotonic()
        elapsed = {run_id: now - started for run_id, started in self._started.items()}
        guesses = {pair: sum(times) / len(times) for pair, times in self._times.items()}
        for run_id, share in self._share.items():
            if share > 0 and run_id in self._open and run_id in elapsed:
                guesses.setdefault(_pair(self._open[run_id]), elapsed[run_id] / share)
        if not guesses:
            return None
        usual = sum(guesses.values()) / len(guesses)
        left = [
            max(0.0, guesses.get(_pair(spec), usual) - elapsed.get(run_id, 0.0))
            for run_id, spec in self._open.items()
        ]
        return max([sum(left) / max(1, len(self._started)), *left], default=0.0)


def _pair(spec: RunSpec) -> tuple[str, str]:
    return spec.agent["name"], spec.environment["name"]
