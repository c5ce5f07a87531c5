import json
import multiprocessing
import os
import socket
import threading
import time

import pytest

from treebandit.experiments import leases
from treebandit.experiments.leases import Leases


@pytest.fixture
def clock(monkeypatch):
    """Seconds that `leases` believes to have passed, by its own clock."""
    passed, start = [0.0], time.monotonic()
    monkeypatch.setattr(leases.time, "monotonic", lambda: start + passed[0])
    return passed


def write(folder, content, *, age=0.0):
    path = folder / ".leases" / "a"
    path.parent.mkdir(exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    os.utime(path, (time.time() - age, time.time() - age))
    return path


def test_a_run_is_leased_once(tmp_path):
    one, other = Leases(tmp_path), Leases(tmp_path)
    assert one.acquire("a")
    assert not other.acquire("a")
    assert other.acquire("b")
    one.release("a")
    assert other.acquire("a")
    other.close()
    assert one.acquire("a")
    assert one.acquire("b")


def test_the_lease_of_a_dead_process_lapses_at_once(tmp_path):
    process = multiprocessing.get_context("spawn").Process(target=time.sleep, args=(0,))
    process.start()
    process.join()
    path = write(tmp_path, {"host": socket.gethostname(), "pid": process.pid})
    assert Leases(tmp_path).acquire("a")
    assert json.loads(path.read_text())["pid"] == os.getpid()
    assert [file.name for file in path.parent.iterdir()] == ["a"]


def test_the_lease_of_another_machine_lapses_when_it_is_not_refreshed(tmp_path):
    owner = Leases(tmp_path)
    write(tmp_path, {"host": "elsewhere", "pid": 1})
    assert not owner.acquire("a")
    write(tmp_path, {"host": "elsewhere", "pid": 1}, age=leases.STALE_SECONDS + 1)
    assert owner.acquire("a")


@pytest.mark.parametrize("content", ['{"host": "elsewhere", "pid": 1}', "", "{"])
def test_a_lease_dated_in_the_future_lapses_unless_it_changes(tmp_path, clock, content):
    owner = Leases(tmp_path)
    write(tmp_path, content, age=-1e6)
    assert not owner.acquire("a")
    clock[0] += leases.STALE_SECONDS - 1 if content.endswith("}") else leases.REFRESH_SECONDS - 1
    assert not owner.acquire("a")
    write(tmp_path, content, age=-2e6)
    clock[0] += 2
    assert not owner.acquire("a"), "refreshed meanwhile"
    clock[0] += leases.STALE_SECONDS + 1
    assert owner.acquire("a")


@pytest.mark.parametrize(
    "content",
    [
        *("", "{", "[]", "3", "null", "{}", '{"host": "h"}', '{"host": "h", "pid": "x"}'),
        *('{"host": 1, "pid": []}', '{"host": "h", "pid": Infinity}', "[" * 100_000, "\udcff"),
    ],
)
def test_a_malformed_lease_stands_for_a_while(tmp_path, content):
    owner, path = Leases(tmp_path), tmp_path / ".leases" / "a"
    path.write_bytes(content.encode("utf-8", "surrogateescape"))
    assert not owner.acquire("a")
    old = time.time() - leases.REFRESH_SECONDS - 1
    os.utime(path, (old, old))
    assert owner.acquire("a")


@pytest.mark.parametrize("pid", [0, -1, 10**30])
def test_a_process_id_that_cannot_be_has_no_lease(tmp_path, pid):
    write(tmp_path, {"host": socket.gethostname(), "pid": pid})
    assert Leases(tmp_path).acquire("a")


def test_refreshing_keeps_a_lease_young(tmp_path, monkeypatch):
    monkeypatch.setattr(leases, "REFRESH_SECONDS", 0.0)
    owner = Leases(tmp_path)
    owner.acquire("a")
    owner.acquire("gone")
    path = tmp_path / ".leases" / "a"
    (tmp_path / ".leases" / "gone").unlink()
    os.utime(path, (0, 0))
    owner.refresh()
    assert time.time() - path.stat().st_mtime < 60


def test_one_of_many_takes_over_a_lapsed_lease(tmp_path):
    for _ in range(20):
        write(tmp_path, {"host": "elsewhere", "pid": 1}, age=leases.STALE_SECONDS + 1)
        start, taken = threading.Barrier(4), []

        def take(start=start, taken=taken):
            owner = Leases(tmp_path)
            start.wait()
            taken.append(owner.acquire("a"))

        threads = [threading.Thread(target=take) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert taken.count(True) == 1
        (tmp_path / ".leases" / "a").unlink()
