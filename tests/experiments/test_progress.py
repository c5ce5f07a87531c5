import pytest

from treebandit.experiments import progress
from treebandit.experiments.progress import ProgressEvent, TimeLeft
from treebandit.experiments.spec import RunSpec


def spec(agent, seed):
    return RunSpec({"name": agent}, {"name": "e"}, seed, 10)


@pytest.fixture
def clock(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def test_time_left_follows_the_times_of_like_runs(clock):
    specs = [spec(agent, seed) for agent in ("slow", "fast") for seed in range(2)]
    left = TimeLeft(specs)
    assert left.seconds() is None
    left.update(ProgressEvent("started", specs[0]))
    clock[0] = 30.0
    left.update(ProgressEvent("progress", specs[0], share=0.5))
    assert left.share() == 0.5
    assert left.seconds() == pytest.approx(30 + 3 * 60)
    clock[0] = 60.0
    left.update(ProgressEvent("finished", specs[0], seconds=60.0))
    left.update(ProgressEvent("skipped", specs[2], seconds=10.0))
    left.update(ProgressEvent("started", specs[1]))
    assert left.seconds() == pytest.approx(60 + 10)
    left.update(ProgressEvent("started", specs[3]))
    assert left.seconds() == pytest.approx(60)
    left.update(ProgressEvent("failed", specs[1]))
    left.update(ProgressEvent("finished", specs[3], seconds=10.0))
    assert left.seconds() == 0.0
