import contextlib
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
import toys

from treebandit.datasets.roads import roads_folder
from treebandit.errors import StudyError
from treebandit.experiments import cluster, execute, execution, leases
from treebandit.experiments.pool import LocalPool
from treebandit.experiments.records import load_plan, load_runs, read_record, write_record
from treebandit.experiments.run import play
from treebandit.experiments.study_file import load_study, read_study

TIMES = ["choosing", "learning", "rebuilding"]
MEANS = {"name": "Means", "class": "toys:Means"}


def specs(agents=(MEANS,), environments=("mushroom",), seeds=2, rounds=60):
    table = {"agents": list(agents), "environments": list(environments), "seeds": seeds, "rounds": rounds}
    return list(read_study(table, name="s", source="s.toml", folder=Path()).runs())


def kinds(events):
    return sorted(event.kind for event in events if event.kind not in ("started", "progress"))


def frames(folder):
    return {path.stem: read_record(path).frame.drop(TIMES) for path in Path(folder).glob("*.parquet")}


def assert_equal_records(one, other):
    one, other = frames(one), frames(other)
    assert one.keys() == other.keys()
    assert len(one) > 0
    assert all(one[run_id].equals(other[run_id]) for run_id in one)


def test_one_and_two_workers_give_the_same_records_and_resume_skips_them(tmp_path):
    runs = specs(environments=["mushroom", "shuttle"])
    for workers in (1, 2):
        assert kinds(execute(runs, tmp_path / str(workers), workers=workers)) == ["finished"] * 4
    assert_equal_records(tmp_path / "1", tmp_path / "2")
    assert pl.read_parquet(tmp_path / "1" / "*.parquet").height == 4 * 60
    written = {path: path.stat().st_mtime_ns for path in (tmp_path / "2").glob("*.parquet")}
    assert kinds(execute(runs, tmp_path / "2")) == ["skipped"] * 4
    assert {path: path.stat().st_mtime_ns for path in written} == written
    assert not list((tmp_path / "2" / ".leases").iterdir())


def test_the_shipped_agents_play_alike_in_this_process_and_in_workers(tmp_path):
    study = load_study("quick").select(seeds=1, rounds=40, environments=("mushroom",))
    runs = list(study.select(agents=("TEUCB-XGBoost", "TETS-RF")).runs())
    assert kinds(execute(runs, tmp_path / "pool", workers=2)) == ["finished"] * len(runs)
    for run in runs:
        write_record(play(run), tmp_path / "here")
    assert_equal_records(tmp_path / "pool", tmp_path / "here")


def test_a_changed_spec_makes_new_runs(tmp_path):
    list(execute(specs(seeds=1), tmp_path))
    news = list(execute(specs(agents=[{**MEANS, "noise": 0.5}], seeds=1), tmp_path))
    assert kinds(news) == ["finished"]
    assert load_runs(tmp_path)["planned"].to_list().count(True) == 1
    assert load_plan(tmp_path).height == 1


def test_a_failing_run_and_a_dying_worker_stop_nobody_else(tmp_path):
    agents = [
        {"name": "Broken", "class": "toys:Broken"},
        {"name": "Deadly", "class": "toys:Deadly"},
        MEANS,
    ]
    news = list(execute(specs(agents=agents), tmp_path, workers=1))
    assert kinds(news) == ["failed"] * 4 + ["finished"] * 2
    failures = {event.spec.agent["name"]: event.traceback for event in news if event.kind == "failed"}
    assert "RuntimeError: broken in round 5" in failures["Broken"]
    assert "Traceback" in failures["Broken"]
    assert "died with exit code 3" in failures["Deadly"]
    assert load_runs(tmp_path)["agent"].unique().to_list() == ["Means"]
    assert load_plan(tmp_path).height == 6


def test_a_library_that_is_not_installed_is_told_in_one_sentence(tmp_path):
    agent = {"name": "Lacking", "class": "toys:Lacking"}
    told = [event.traceback for event in execute(specs([agent], seeds=1), tmp_path) if event.kind == "failed"]
    assert told == ["no-such-library is not installed; run: pip install 'treebandit[such]'\n"]
    assert cluster.play_remotely(specs([agent], seeds=1)[0], [], {}) == told[0]


def test_a_worker_that_dies_between_two_runs_is_replaced(tmp_path):
    agent = {"name": "Doomed", "class": "toys:Doomed", "mark": str(tmp_path / "mark")}
    waiting = {**MEANS, "pause": 0.01}
    events = execute(specs(agents=[agent, waiting], seeds=1), tmp_path / "into")
    seen = []
    for event in events:
        seen.append(event)
        if event.kind == "finished" and event.spec.agent["name"] == "Doomed":
            _wait_for(lambda: not multiprocessing.active_children())
    assert (tmp_path / "mark").exists()
    assert kinds(seen) == ["finished"] * 2


def test_a_run_whose_worker_never_takes_it_fails_after_a_few_attempts(tmp_path):
    pool, (spec, *_) = LocalPool(1, tmp_path), specs()
    with contextlib.closing(pool):
        pool.start(spec)
        events, killed = [], set()
        while not events:
            for process in multiprocessing.active_children():
                process.kill()
                killed.add(process.pid)
            events = pool.wait(0.1)
    assert [event.kind for event in events] == ["failed"]
    assert "died with exit code -9" in events[0].traceback
    assert len(killed) == 3


def test_a_damaged_record_is_told_and_played_again(tmp_path):
    runs = specs()
    list(execute(runs, tmp_path, workers=2))
    before = frames(tmp_path)
    path = tmp_path / f"{runs[0].run_id}.parquet"
    content = bytearray(path.read_bytes())
    content[100] ^= 4
    path.write_bytes(content)
    events = list(execute(runs, tmp_path))
    assert kinds(events) == ["damaged", "finished", "skipped"]
    assert path.name in next(event.reason for event in events if event.kind == "damaged")
    assert all(frame.equals(before[run_id]) for run_id, frame in frames(tmp_path).items())


def test_stale_runs_are_told_and_played_again_on_demand(tmp_path):
    runs = specs(seeds=3)
    list(execute(runs, tmp_path, workers=2))
    for run, change in zip(runs, ({}, {"treebandit": "0.0.1"}, {"code": {"toys": "other"}}), strict=True):
        record = read_record(tmp_path / f"{run.run_id}.parquet")
        assert set(record.provenance["code"]) >= {"toys", "treebandit.environments.classification"}
        write_record(replace(record, provenance=record.provenance | change), tmp_path)
    skipped = list(execute(runs, tmp_path))
    assert [event.kind for event in skipped] == ["skipped"] * 3
    assert [event.reason for event in skipped] == ["", "treebandit 0.0.1", "toys has changed"]
    assert kinds(execute(runs, tmp_path, again=True)) == ["finished", "finished", "skipped"]
    assert [event.reason for event in execute(runs, tmp_path, again=True)] == ["", "", ""]


@pytest.mark.parametrize("content", ["", "nonsense", '{"host": "elsewhere", "pid": 1}'])
def test_leases_that_nobody_holds_stop_nothing(tmp_path, monkeypatch, content):
    monkeypatch.setattr(execution, "WAIT_SECONDS", 0.05)
    monkeypatch.setattr(leases, "STALE_SECONDS", 0.5)
    monkeypatch.setattr(leases, "REFRESH_SECONDS", 0.3)
    (tmp_path / ".leases").mkdir()
    for run in specs():
        path = tmp_path / ".leases" / run.run_id
        path.write_text(content)
        os.utime(path, (time.time() + 1e6,) * 2)
    (tmp_path / ".old-1.tmp").touch()
    os.utime(tmp_path / ".old-1.tmp", (0, 0))
    assert kinds(execute(specs(), tmp_path)) == ["finished"] * 2
    assert not list((tmp_path / ".leases").iterdir())
    assert not list(tmp_path.glob(".*.tmp"))


def test_wrong_studies_leave_no_trace(tmp_path, monkeypatch):
    monkeypatch.delenv("TREEBANDIT_ROADS", raising=False)
    for agent in ({**MEANS, "nois": 1}, {"name": "A", "class": "Nobody"}):
        with pytest.raises(StudyError):
            list(execute([replace(run, agent=agent) for run in specs()], tmp_path / "new"))
    town = {"name": "n", "class": "Navigation", "start": "a", "end": "b"}
    with pytest.raises(StudyError, match="environment 'n': no road network is given"):
        list(execute([replace(run, environment=town) for run in specs()], tmp_path / "new"))
    endless = {"name": "e", "class": "Synthetic"}
    with pytest.raises(StudyError, match="environment 'e': it has no end; set rounds .* or give --rounds"):
        list(execute([replace(run, environment=endless, rounds=None) for run in specs()], tmp_path / "new"))
    with pytest.raises(StudyError, match="0 workers"):
        list(execute(specs(), tmp_path / "new", workers=0))
    assert not (tmp_path / "new").exists()


def test_a_folder_that_cannot_hold_records_is_one_sentence(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(StudyError, match="cannot hold records .*give another folder"):
        list(execute(specs(), tmp_path / "file" / "into"))


def test_leaving_early_ends_the_runs_under_way(tmp_path):
    agent = {**MEANS, "pause": 0.05, "diary": str(tmp_path / "diary")}
    news = execute(specs(agents=[agent], rounds=5000), tmp_path / "into")
    for event in news:
        if event.kind == "progress":
            break
    news.close()
    workers = set(_starts(tmp_path))
    assert workers
    assert not any(_is_running(pid) for pid in workers)
    assert not list((tmp_path / "into" / ".leases").iterdir())


def test_two_commands_share_a_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(execution, "WAIT_SECONDS", 0.05)
    agent = {**MEANS, "pause": 0.002, "diary": str(tmp_path / "diary")}
    runs, news = specs(agents=[agent], seeds=6), {}

    def command(name):
        news[name] = kinds(execute(runs, tmp_path / "into", workers=1))

    threads = [threading.Thread(target=command, args=(name,)) for name in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(news[0] + news[1]) == ["finished"] * 6 + ["skipped"] * 6
    assert load_runs(tmp_path / "into").height == 6


STUDY = """
rounds = 100
seeds = {seeds}
environments = ["mushroom"]
agents = [{{name = "Means", class = "toys:Means", pause = {pause}, diary = "{diary}"}}]
"""


@pytest.fixture
def slow_study(tmp_path):
    def write(seeds, pause):
        (tmp_path / "toys.py").write_text(Path(toys.__file__).read_text())
        path = tmp_path / "slow.toml"
        path.write_text(STUDY.format(seeds=seeds, pause=pause, diary=(tmp_path / "diary").as_posix()))
        return path

    return write


def test_kill_9_loses_at_most_the_runs_under_way(tmp_path, slow_study):
    path, into = slow_study(8, 0.004), tmp_path / "into"
    command = [sys.executable, "-m", "treebandit", "run", str(path), "--into", str(into), "--workers", "2"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        _wait_for(lambda: len(list(into.glob("*.parquet"))) >= 2 or process.poll() is not None)
        process.send_signal(signal.SIGKILL)
    workers = set(_starts(tmp_path))
    _wait_for(lambda: not any(_is_running(pid) for pid in workers))
    kept = {file: file.stat().st_mtime_ns for file in into.glob("*.parquet")}
    assert 2 <= len(kept) < 8
    assert all(read_record(file).frame.height == 100 for file in kept)
    assert load_plan(into).height == 8
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert load_runs(into).height == 8
    assert {file: file.stat().st_mtime_ns for file in kept} == kept
    list(execute(_specs_beside(path), tmp_path / "again", workers=2))
    assert_equal_records(into, tmp_path / "again")


@pytest.mark.slow
def test_a_cluster_whose_worker_is_killed(tmp_path, slow_study):
    pytest.importorskip("distributed")
    path = slow_study(6, 0.01)
    runs, file = _specs_beside(path), tmp_path / "scheduler.json"
    scheduler = _dask(
        "scheduler", "--scheduler-file", str(file), "--port", "0", "--no-dashboard", "--no-show"
    )
    processes = [scheduler]
    try:
        _wait_for(lambda: file.exists() and "address" in file.read_text())
        address = json.loads(file.read_text())["address"]
        options = ["--nthreads", "1", "--no-nanny", "--no-dashboard", "--local-directory", str(tmp_path)]
        processes += [_dask("worker", address, *options) for _ in range(2)]
        _wait_for(lambda: _count_workers(address) == 2)
        victim, news = processes[1], []
        for event in execute(runs, tmp_path / "cluster", cluster=address):
            news.append(event)
            if len(news) == 4:
                _wait_for(lambda: _starts(tmp_path).count(victim.pid) == 2)  # warm-up, then its first run
                victim.kill()
                victim.wait()
    finally:
        for process in processes:
            process.kill()
            process.wait()
    assert victim.returncode == -signal.SIGKILL
    finished = [event.spec.run_id for event in news if event.kind == "finished"]
    assert sorted(finished) == sorted(run.run_id for run in runs)
    assert len(list((tmp_path / "cluster").glob("*.parquet"))) == 6
    assert len(_starts(tmp_path)) == 2 + 6 + 1
    list(execute(runs, tmp_path / "local", workers=2))
    assert_equal_records(tmp_path / "cluster", tmp_path / "local")


def test_the_road_network_travels_to_the_workers_of_a_cluster(tmp_path, monkeypatch):
    distributed = pytest.importorskip("distributed")
    monkeypatch.delenv("TREEBANDIT_ROADS", raising=False)
    town = {"name": "town", "class": "Navigation", "start": "B2", "end": "K3"}
    table = {"agents": ["Uniform"], "environments": [town], "seeds": 1, "rounds": 3}
    roads = roads_folder("small-town")
    runs = list(read_study(table, name="s", source="s.toml", folder=Path(), roads=roads).runs())
    options = {"n_workers": 1, "threads_per_worker": 1, "processes": False, "dashboard_address": None}
    with distributed.LocalCluster(**options) as local:
        assert kinds(execute(runs, tmp_path / "cluster", cluster=local.scheduler_address)) == ["finished"]


def test_cluster_workers_with_several_threads_are_refused(tmp_path):
    distributed = pytest.importorskip("distributed")
    options = {"n_workers": 1, "threads_per_worker": 2, "processes": False, "dashboard_address": None}
    with (
        distributed.LocalCluster(**options) as cluster,
        pytest.raises(StudyError, match="--nthreads 1"),
    ):
        list(execute(specs(), tmp_path / "new", cluster=cluster.scheduler_address))
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    "address",
    [
        *("tcp://127.0.0.1:9", "", "nonsense", "tcp://", "tcp://127.0.0.1", "tcp://127.0.0.1:x", "\0"),
        *("what://127.0.0.1:9", "tcp://127.0.0.1:99999999", "http://[", "tls://127.0.0.1:9", "a\0b:1"),
    ],
)
def test_no_scheduler_is_one_sentence(tmp_path, monkeypatch, address):
    pytest.importorskip("distributed")
    monkeypatch.setattr(cluster, "CONNECT_SECONDS", 0.2)
    with pytest.raises(StudyError, match="no Dask scheduler answers at") as caught:
        list(execute(specs(), tmp_path / "new", cluster=address))
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "new").exists()


def _specs_beside(path):
    return list(load_study(path).runs())


def _dask(kind, *arguments):
    module = f"distributed.cli.dask_{kind}"
    return subprocess.Popen(
        [sys.executable, "-m", module, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


def _count_workers(address):
    from distributed import Client

    with Client(address, set_as_default=False) as client:
        return len(client.nthreads())


def _starts(folder):
    diary = folder / "diary"
    return [int(line) for line in diary.read_text().split()] if diary.exists() else []


def _is_running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def _wait_for(condition, seconds=60.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)
