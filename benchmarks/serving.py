"""The decision service under load, as ratios to a bare endpoint of the same framework that does one durable insert.

python benchmarks/serving.py [--seconds 20] [--rows 100000] [--memory 1000000]

One worker, SQLite, 10 arms, 20 features. The bare endpoint reads a body of the same size, inserts one row and commits
it to disk; both sides have as many clients. Ratios are of CPU time per request and of wall time, measured in one run:
both sides have their turns one after the other, so that what else the machine does meets both.
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from random import Random

import httpx

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests")]
os.environ["PYTHONPATH"] = os.pathsep.join(sys.path[:2])
from service.faults import Process, free_port, make_bandit
from service.load import Load

ARMS, FEATURES = 10, 20
#: How often both sides of a ratio have their turn.
TURNS = 5
BARE = """
import sqlite3, sys, uvicorn
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route
import msgspec
store = sqlite3.connect(sys.argv[1], isolation_level=None, check_same_thread=False)
store.execute("PRAGMA journal_mode=WAL")
store.execute("PRAGMA synchronous=FULL")
store.execute("CREATE TABLE log (place INTEGER PRIMARY KEY, id TEXT UNIQUE, body BLOB)")
async def insert(request):
    body = await request.body()
    given = msgspec.json.decode(body)
    store.execute("INSERT INTO log (id, body) VALUES (?, ?)", (given["id"], body))
    return Response(msgspec.json.encode({"id": given["id"], "arm": "arm1"}), media_type="application/json")
app = Starlette(routes=[Route("/insert", insert, methods=["POST"]), Route("/health/live", lambda r: Response("ok"))])
uvicorn.run(app, port=int(sys.argv[2]), log_level="warning", http="httptools", loop="uvloop", access_log=False)
"""


class Bare:
    def __init__(self, folder):
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        self.process = subprocess.Popen([sys.executable, "-c", BARE, f"{folder}/bare.db", str(port)])

    wait_ready = Process.wait_ready

    def stop(self):
        self.process.terminate()
        self.process.wait()


class Inserts(Load):
    """Clients of the bare endpoint."""

    async def _client(self, http, number, seconds):
        until, count = time.monotonic() + seconds, 0
        while time.monotonic() < until:
            count += 1
            id = f"{self.prefix}-{number}-{count}"
            context = {f"x{n}": self.random.gauss(0, 1) for n in range(self.features)}
            body = {"id": id, "context": context, "arms": [f"arm{n}" for n in range(self.arms)]}
            await self._sent(http, self.urls[0], "/insert", body)


class Paced(Load):
    """Clients that send so many decisions per second together, whether or not earlier ones are answered."""

    async def paced(self, rate, seconds):
        limits = httpx.Limits(max_connections=500, max_keepalive_connections=500)
        async with httpx.AsyncClient(timeout=10, limits=limits) as http:
            started, tasks = time.monotonic(), []
            for number in range(int(rate * seconds)):
                await asyncio.sleep(max(0.0, started + number / rate - time.monotonic()))
                tasks.append(asyncio.create_task(self._pair(http, number)))
            await asyncio.gather(*tasks)
            return time.monotonic() - started

    async def _pair(self, http, number):
        id = f"{self.prefix}-{number}"
        context = {f"x{n}": self.random.gauss(0, 1) for n in range(self.features)}
        body = {"id": id, "context": context, "arms": [f"arm{n}" for n in range(self.arms)]}
        reply = await self._sent(http, self.urls[0], f"/v1/bandits/{self.bandit}/decisions", body)
        if reply is not None:
            path = f"/v1/bandits/{self.bandit}/decisions/{id}/reward"
            await self._sent(http, self.urls[0], path, {"value": context["x0"]})


def cpu(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory(pid):
    text = Path(f"/proc/{pid}/status").read_text()
    return int(next(line for line in text.splitlines() if line.startswith("VmRSS")).split()[1]) / 1024


def quantile(values, share):
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)] * 1000 if ordered else float("nan")


class Side:
    """One of two servers that are compared. CPU is what requests take beyond what it takes to be idle."""

    def __init__(self, process, loads):
        self.pid, self.loads, self.used, self.latencies = process.pid, loads, 0.0, []
        before = cpu(self.pid)
        time.sleep(5.0)
        self.idle = (cpu(self.pid) - before) / 5.0

    def turn(self, number, seconds):
        before, started = cpu(self.pid), time.monotonic()
        asyncio.run(self.loads[number].run(seconds))
        self.used += cpu(self.pid) - before - self.idle * (time.monotonic() - started)
        self.latencies += self.loads[number].latencies

    def told(self, seconds):
        return {
            "requests": len(self.latencies),
            "per second": len(self.latencies) / seconds,
            "cpu ms": 1000 * self.used / max(len(self.latencies), 1),
            "idle cpu ms per second": 1000 * self.idle,
            "p50 ms": quantile(self.latencies, 0.5),
            "p99 ms": quantile(self.latencies, 0.99),
        }


def ratios(folder, seconds, clients):
    """Clients that wait for their answers. The model has learned 2,000 rows, and learning is paused."""
    bare = Bare(folder)
    service = Process(f"sqlite:///{folder}/store.db", log=folder / "log")
    try:
        bare.wait_ready()
        service.wait_ready("/health/ready")
        make_bandit(service.url, wait=600)
        taught(service.url, 2000)
        sides = [
            Side(server.process, [kind([server.url], clients, ARMS, FEATURES, seed=n) for n in range(TURNS)])
            for server, kind in ((bare, Inserts), (service, Load))
        ]
        for number in range(TURNS):
            for side in sides:
                side.turn(number, seconds / TURNS)
        plain, ours = (side.told(seconds) for side in sides)
    finally:
        bare.stop()
        service.stop()
    return {
        "clients": clients,
        "bare": plain,
        "service": ours,
        "decide + reward / insert, wall": 2 * plain["per second"] / ours["per second"],
        "decide + reward / insert, cpu": 2 * ours["cpu ms"] / plain["cpu ms"],
    }


def taught(url, rows):
    """Let the bandit learn so many rows, then nothing more."""
    random = Random(0)
    names = [f"arm{n}" for n in range(ARMS)]
    path = f"{url}/v1/bandits/shop"
    with httpx.Client(timeout=120) as http:
        for start in range(0, rows, 500):
            contexts = [{f"x{n}": random.gauss(0, 1) for n in range(FEATURES)} for _ in range(500)]
            asked = [
                {"id": f"t{start + n}", "context": each, "arms": names} for n, each in enumerate(contexts)
            ]
            http.post(f"{path}/decisions:batch", json={"decisions": asked}).raise_for_status()
            rewards = [{"id": f"t{start + n}", "value": each["x0"]} for n, each in enumerate(contexts)]
            lines = "".join(json.dumps(each) + "\n" for each in rewards)
            http.post(f"{path}/rewards", content=lines).raise_for_status()
        while (
            max((v["rows"] for v in http.get(f"{path}/model/versions").json()["versions"]), default=0) < rows
        ):
            time.sleep(0.5)
        http.patch(path, json={"learning": False}).raise_for_status()
        time.sleep(3.0)


def loads(folder, seconds, rates):
    service = Process(f"sqlite:///{folder}/loads.db", log=folder / "log")
    found = []
    try:
        service.wait_ready("/health/ready")
        make_bandit(service.url, wait=600)
        for rate in rates:
            load = Paced([service.url], 1, ARMS, FEATURES, seed=rate)
            took = asyncio.run(load.paced(rate, seconds))
            found.append(
                {
                    "asked per second": rate,
                    "decided per second": len(load.latencies) / 2 / took,
                    "p50 ms": quantile(load.latencies, 0.5),
                    "p99 ms": quantile(load.latencies, 0.99),
                    "errors": load.errors,
                }
            )
            print(json.dumps(found[-1]), flush=True)
    finally:
        service.stop()
    return found


def rebuild(folder, rows, seconds):
    """p99 while trees are rebuilt at `rows` rows, and p99 while nothing is learned."""
    import numpy as np

    import treebandit
    from treebandit.service import models
    from treebandit.service.store import Store

    url = f"sqlite:///{folder}/rebuild.db"
    service = Process(url, log=folder / "log")
    try:
        service.wait_ready("/health/ready")
        make_bandit(service.url, wait=600, agent={"class": "Bandit", "seed": 0, "rebuild": "every 50"})
        random = np.random.default_rng(0)
        contexts = random.normal(size=(rows, FEATURES))
        agent = treebandit.Bandit(seed=0, rebuild="every 50", new_columns=True)
        names = [f"x{n}" for n in range(FEATURES)]
        arms = [f"arm{n % ARMS}" for n in range(rows)]
        agent.learn(
            [dict(zip(names, row, strict=True)) for row in contexts.tolist()], contexts[:, 0], arms=arms
        )
        store = Store.open(url)
        bandit = store.bandit("shop")
        models.upload(store, bandit.id, models.saved_bytes(agent))
        while store.bandit("shop").version == 0:
            time.sleep(0.1)
        still, during = [], []
        for turn in range(TURNS):
            for learning, latencies in ((False, still), (True, during)):
                path = f"{service.url}/v1/bandits/shop"
                httpx.patch(path, json={"learning": learning}, timeout=60).raise_for_status()
                # What was decided before is learned: after that, nothing, or a rebuild every 50 rewards.
                time.sleep(3.0)
                load = Paced([service.url], 1, ARMS, FEATURES, seed=2 * turn + learning)
                asyncio.run(load.paced(20, seconds / TURNS))
                latencies += load.latencies
        versions = httpx.get(f"{service.url}/v1/bandits/shop/model/versions", timeout=60).json()["versions"]
        store.close()
    finally:
        service.stop()
    return {
        "rows": rows,
        "rebuilds": sum(each.get("rebuilds", 0) for each in versions),
        "seconds of a rebuild": max(each.get("rebuild_seconds", 0.0) for each in versions),
        "p50 ms": [quantile(still, 0.5), quantile(during, 0.5)],
        "p99 ms": [quantile(still, 0.99), quantile(during, 0.99)],
        "ratio of p99": quantile(during, 0.99) / quantile(still, 0.99),
    }


def grown(folder, decisions):
    """Memory of the service and of its learner, at every tenth of so many decisions with their rewards."""
    service = Process(f"sqlite:///{folder}/memory.db", log=folder / "log")
    arms = [f"arm{n}" for n in range(ARMS)]
    try:
        service.wait_ready("/health/ready")
        make_bandit(service.url, wait=600)
        path = f"{service.url}/v1/bandits/shop"
        with httpx.Client(timeout=120) as http:
            for start in range(0, decisions + 500, 500):
                if start % (decisions // 10) == 0:
                    learner = service.learner_pid()
                    state = {"decisions": start, "service MB": memory(service.process.pid)}
                    print(
                        json.dumps({**state, "learner MB": memory(learner) if learner else None}), flush=True
                    )
                asked = [{"id": f"m{start + n}", "context": {"x": n / 500}, "arms": arms} for n in range(500)]
                http.post(f"{path}/decisions:batch", json={"decisions": asked}).raise_for_status()
                lines = "".join(f'{{"id": "m{start + n}", "value": {n / 500}}}\n' for n in range(500))
                http.post(f"{path}/rewards", content=lines).raise_for_status()
    finally:
        service.stop()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--memory", type=int, default=0)
    parser.add_argument("--clients", type=int, nargs="*", default=[1, 16])
    parser.add_argument("--rates", type=int, nargs="*", default=[100, 300, 600, 1000])
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="treebandit-bench-") as name:
        folder = Path(name)
        for clients in given.clients:
            (folder / str(clients)).mkdir()
            print(json.dumps(ratios(folder / str(clients), given.seconds, clients), indent=1), flush=True)
        loads(folder, given.seconds, given.rates)
        if given.rows:
            print(json.dumps(rebuild(folder, given.rows, given.seconds), indent=1), flush=True)
        if given.memory:
            grown(folder, given.memory)


if __name__ == "__main__":
    main()
