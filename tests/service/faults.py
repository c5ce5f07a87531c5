"""Nothing lost: real processes are killed at random moments under load, and all that was acknowledged is counted.

python tests/service/faults.py [--kills 50] [--store sqlite|postgresql|both] [--seed 0]
"""

import argparse
import asyncio
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path

import httpx

sys.path.insert(0, str(Path(__file__).parents[1]))
from service.conftest import Cluster
from service.load import Load
from service.replay import state

from treebandit.service import models, saved_agents
from treebandit.service.fold import Fold
from treebandit.service.store import Store

_CODE = "import sys; sys.argv[0] = 'treebandit'; from treebandit.cli import main; main()"


def free_port():
    """A port that no outgoing connection is given: else a client could take it while the service is down."""
    while True:
        with socket.socket() as listener, suppress(OSError):
            listener.bind(("127.0.0.1", random.SystemRandom().randrange(20_000, 30_000)))
            return listener.getsockname()[1]


class Process:
    """One process of the service; killed and started again on the same port."""

    def __init__(self, store, learner="process", log=None, port=None, **options):
        self.port = port or free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.options = [
            "--store",
            store,
            "--port",
            str(self.port),
            "--learner",
            learner,
            "--log-level",
            "warning",
        ]
        for name, value in options.items():
            self.options += [f"--{name.replace('_', '-')}", str(value)]
        self.log = open(log or os.devnull, "ab")  # noqa: SIM115
        self.preexec = None
        self.start()

    def start(self):
        self.process = subprocess.Popen(
            [sys.executable, "-c", _CODE, "serve", *self.options],
            stdout=self.log,
            stderr=self.log,
            preexec_fn=self.preexec,
        )

    def wait_ready(self, path="/health/live", seconds=240):
        deadline = time.monotonic() + seconds
        while True:
            try:
                if httpx.get(self.url + path, timeout=5).status_code == 200:
                    return self
            except httpx.TransportError:
                pass
            assert self.process.poll() is None, f"the service has ended with {self.process.returncode}"
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self.url} is not ready")
            time.sleep(0.05)

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.kill()
        self.log.close()

    def learner_pid(self):
        found = subprocess.run(
            ["pgrep", "-P", str(self.process.pid)], capture_output=True, text=True, check=False
        ).stdout.split()
        return int(found[0]) if found else None


def check(store_url, load):
    """Every acknowledged decision and reward is there once, as it was answered; the learner equals a replay."""
    store = Store.open(store_url)
    row = store.bandit("shop")
    places, decisions, rewards, times, after = [], {}, {}, [], 0
    while entries := store.entries(row.id, after, 5000):
        after = entries[-1].place
        for entry in entries:
            places.append(entry.place)
            times.append(entry.time)
            if entry.kind == "decision":
                assert entry.decision not in decisions, f"{entry.decision} is there twice"
                decisions[entry.decision] = json.loads(entry.body)
            elif entry.kind == "reward":
                assert entry.decision not in rewards, f"the reward of {entry.decision} is there twice"
                rewards[entry.decision] = json.loads(entry.body)["value"]
    assert places == list(range(1, row.place + 1)), "the log has gaps"
    assert times == sorted(times), "time went back"
    lost = [id for id in load.decisions if id not in decisions]
    lost_rewards = [id for id in load.rewards if id not in rewards]
    assert not lost, f"{len(lost)} acknowledged decisions are lost: {lost[:3]}"
    assert not lost_rewards, f"{len(lost_rewards)} acknowledged rewards are lost: {lost_rewards[:3]}"
    for id, reply in load.decisions.items():
        body = decisions[id]
        assert reply["arm"] == body["arms"][body["chosen"][0]], f"{id} was answered otherwise than stored"
        assert reply["probability"] == body["probability"]
    for id, value in load.rewards.items():
        assert rewards[id] == value
    assert not load.wrong, load.wrong[:3]
    saved = models.newest(store, row.id, "checkpoint")
    with tempfile.TemporaryDirectory() as folder:
        # What a learner that starts now makes of the newest checkpoint, and what the whole log makes.
        goes_on, anew = (Fold.at(store, row.id, row.place, from_checkpoint=each) for each in (True, False))
        assert state(goes_on.agent, Path(folder)) == state(anew.agent, Path(folder)), "no replay"
        if saved is not None:
            then = Fold.at(store, row.id, saved.place, from_checkpoint=False)
            assert state(then.agent, Path(folder)) == state(saved_agents.loaded(saved.data), Path(folder)), (
                "no replay"
            )
    store.close()
    return {
        "decisions": len(load.decisions),
        "rewards": len(load.rewards),
        "log": row.place,
        "versions": row.version,
        "learned": anew.rows,
        "checkpoint at": 0 if saved is None else saved.place,
        "unanswered": load.errors,
    }


def under_load(urls, work, **options):
    """Run `work(load)` while clients decide and reward."""
    load = Load(urls, **options)
    thread = threading.Thread(target=lambda: asyncio.run(load.run()))
    thread.start()
    try:
        work(load)
    finally:
        load.stopped = True
        thread.join(120)
    assert not thread.is_alive(), "the clients hang"
    return load


def make_bandit(url, **settings):
    httpx.put(f"{url}/v1/bandits/shop", json={"wait": 3, **settings}, timeout=30).raise_for_status()


def kills(store_url, replicas, count, seed, folder, pause=(0.3, 1.5)):
    """Kill the service, the learner, or one of the replicas, `count` times."""
    chance = random.Random(seed)
    services = [Process(store_url, log=folder / f"service-{n}.log") for n in range(replicas)]
    killed = {"service": 0, "learner": 0}
    try:
        for each in services:
            each.wait_ready()
        make_bandit(services[0].url)

        def work(load):
            time.sleep(2.0)
            for _ in range(count):
                time.sleep(chance.uniform(*pause))
                victim = chance.choice(services)
                learner = victim.learner_pid()
                if chance.random() < 0.3 and learner is not None:
                    os.kill(learner, signal.SIGKILL)
                    killed["learner"] += 1
                else:
                    victim.kill()
                    killed["service"] += 1
                    victim.start()
                    if chance.random() < 0.7:
                        victim.wait_ready()
            for each in services:
                each.wait_ready()
            time.sleep(2.0)

        load = under_load([each.url for each in services], work, seed=seed, pause=0.005)
    finally:
        for each in services:
            each.stop()
    return {"killed": killed, **check(store_url, load)}


def postgres_restarts(cluster, count, seed, folder):
    """PostgreSQL is stopped without warning and started again in the middle."""
    store_url = cluster.new()
    service = Process(store_url, log=folder / "restart.log").wait_ready()
    try:
        make_bandit(service.url)

        def work(load):
            for _ in range(count):
                time.sleep(1.5)
                cluster.stop("immediate")
                time.sleep(0.5)
                cluster.start()
            time.sleep(3.0)

        load = under_load([service.url], work, seed=seed, pause=0.005)
    finally:
        service.stop()
    assert load.errors, "the restarts were not noticed"
    return {"restarts": count, **check(store_url, load)}


def full_disk(folder, seed):
    """The file of the store may grow no further: requests are refused, and go on once there is room again."""
    import resource

    store_url = f"sqlite:///{folder}/full.db"
    Store.open(store_url).close()
    service = Process(store_url, learner="none", log=folder / "full.log").wait_ready()
    try:
        make_bandit(service.url)

        def work(load):
            time.sleep(2.0)
            pid = service.process.pid
            size = max(path.stat().st_size for path in Path(folder).glob("full.db*"))
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (size + 4096, resource.RLIM_INFINITY))
            deadline = time.monotonic() + 120
            while not load.errors.get(503) and time.monotonic() < deadline:
                time.sleep(0.1)
            time.sleep(1.0)
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            before = len(load.decisions)
            while len(load.decisions) == before:
                assert time.monotonic() < deadline + 60, "it does not go on once there is room"
                time.sleep(0.1)
            assert service.process.poll() is None

        load = under_load([service.url], work, seed=seed)
    finally:
        service.stop()
    assert load.errors.get(503), f"the full disk was not noticed: {load.errors}"
    return check(store_url, load)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--store", choices=["sqlite", "postgresql", "both"], default="both")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="treebandit-faults-") as name:
        folder = Path(name)
        if given.store != "postgresql":
            url = f"sqlite:///{folder}/store.db"
            print("sqlite, kill -9:", json.dumps(kills(url, 1, given.kills, given.seed, folder)), flush=True)
            print("sqlite, disk full:", json.dumps(full_disk(folder, given.seed)), flush=True)
        if given.store != "sqlite":
            cluster = Cluster()
            try:
                found = kills(cluster.new(), 2, given.kills, given.seed, folder)
                print("postgresql, two replicas, kill -9:", json.dumps(found), flush=True)
                found = postgres_restarts(cluster, 3, given.seed, folder)
                print("postgresql, restarted:", json.dumps(found), flush=True)
            finally:
                cluster.remove()


if __name__ == "__main__":
    main()
