import json
import multiprocessing
import os
import socket
import time

from treebandit.experiments import claims
from treebandit.experiments.claims import Claims


def test_a_run_is_claimed_once(tmp_path):
    one, other = Claims(tmp_path), Claims(tmp_path)
    assert one.take("a")
    assert not other.take("a")
    assert other.take("b")
    one.release("a")
    assert other.take("a")
    other.close()
    assert one.take("a")
    assert one.take("b")


def test_a_claim_of_a_dead_process_lapses(tmp_path):
    process = multiprocessing.get_context("spawn").Process(target=time.sleep, args=(0,))
    process.start()
    process.join()
    owner = Claims(tmp_path)
    path = tmp_path / ".claims" / "a"
    path.write_text(json.dumps({"host": socket.gethostname(), "pid": process.pid}))
    assert owner.take("a")
    assert json.loads(path.read_text())["pid"] == os.getpid()


def test_a_claim_of_another_machine_lapses_when_it_is_not_refreshed(tmp_path):
    owner, path = Claims(tmp_path), tmp_path / ".claims" / "a"
    path.write_text(json.dumps({"host": "elsewhere", "pid": 1}))
    assert not owner.take("a")
    old = time.time() - claims.STALE_SECONDS - 1
    os.utime(path, (old, old))
    assert owner.take("a")


def test_a_half_written_claim_stands_for_a_while(tmp_path):
    owner, path = Claims(tmp_path), tmp_path / ".claims" / "a"
    path.write_text("")
    assert not owner.take("a")
    old = time.time() - claims.REFRESH_SECONDS - 1
    os.utime(path, (old, old))
    assert owner.take("a")


def test_refreshing_keeps_a_claim_young(tmp_path, monkeypatch):
    monkeypatch.setattr(claims, "REFRESH_SECONDS", 0.0)
    owner = Claims(tmp_path)
    owner.take("a")
    owner.take("gone")
    path = tmp_path / ".claims" / "a"
    (tmp_path / ".claims" / "gone").unlink()
    os.utime(path, (0, 0))
    owner.refresh()
    assert time.time() - path.stat().st_mtime < 60
