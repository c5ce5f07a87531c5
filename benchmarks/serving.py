"""The decision service under load, as ratios to a bare endpoint of the same framework that does one durable insert.

python benchmarks/serving.py [--seconds 20] [--rows 100000] [--memory 1000000] [--folder /dev/shm]

One worker, SQLite, 10 arms, 20 features. The bare endpoint reads a body of the same size, inserts one row and commits
it to disk; both sides have as many clients. Ratios are of CPU time per request and of wall time, measured in one run:
both sides have their turns one after the other, so that what else the machine does meets both. A decision with its
reward is two requests and two durable inserts: ratios are given to one request of the bare endpoint, and to two.
--folder: where the stores are; in memory nothing waits for a disk, and ratios are of what is computed alone.
"""

import argparse
import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from random import Random

import httpx
import uvloop

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests")]
os.environ["PYTHONPATH"] = os.pathsep.join(sys.path[:2])
from service.faults import Process, free_port, make_bandit

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


class Connection(asyncio.Protocol):
    """A connection to a server, one request at a time. A client of a library would take more CPU than the server."""

    def connection_made(self, transport):
        self.transport, self.received, self.answer = transport, b"", None

    def connection_lost(self, error):
        if self.answer is not None and not self.answer.done():
            self.answer.set_exception(ConnectionError("the connection was lost"))

    def data_received(self, data):
        self.received += data
        head, end, body = self.received.partition(b"\r\n\r\n")
        size = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]) if end else 0
        if end and len(body) >= size:
            self.received = b""
            self.answer.set_result((int(head[9:12]), body))

    async def post(self, path, body):
        """Status, body."""
        self.answer = asyncio.get_running_loop().create_future()
        head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        self.transport.write(f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode())
        return await self.answer


class Load:
    """Clients of a server, each with a connection of its own, and how long they waited for answers."""

    def __init__(self, url, clients=1, seed=0):
        self.port, self.clients = int(url.rpartition(":")[2]), clients
        self.random = Random(seed)
        self.prefix = f"{seed}-{self.random.getrandbits(40):x}"
        self.latencies, self.errors = [], {}

    async def connect(self):
        loop = asyncio.get_running_loop()
        return (await loop.create_connection(Connection, "127.0.0.1", self.port))[1]

    async def post(self, connection, path, body):
        started = time.perf_counter()
        try:
            status, _ = await connection.post(path, body)
        except (ConnectionError, RuntimeError) as error:
            status = type(error).__name__
        if status in (200, 202):
            self.latencies.append(time.perf_counter() - started)
        else:
            self.errors[status] = self.errors.get(status, 0) + 1

    def decision(self, name):
        context = {f"x{n}": self.random.gauss(0, 1) for n in range(FEATURES)}
        return json.dumps({"id": name, "context": context, "arms": [f"arm{n}" for n in range(ARMS)]})

    async def pair(self, connection, name):
        """A decision and its reward."""
        await self.post(connection, "/v1/bandits/shop/decisions", self.decision(name))
        reward = json.dumps({"value": self.random.gauss(0, 1)})
        await self.post(connection, f"/v1/bandits/shop/decisions/{name}/reward", reward)

    async def run(self, seconds):
        """Clients that wait for their answers."""
        until = time.monotonic() + seconds

        async def client(number):
            connection, count = await self.connect(), 0
            while time.monotonic() < until:
                count += 1
                await self.pair(connection, f"{self.prefix}-{number}-{count}")
            connection.transport.close()

        await asyncio.gather(*(client(number) for number in range(self.clients)))

    async def paced(self, rate, seconds):
        """So many decisions per second together, whether or not earlier ones are answered; how long it took."""
        free, started = [], time.monotonic()

        async def one(number):
            # The service closes connections that are idle for ten seconds.
            free[:] = [each for each in free if not each.transport.is_closing()]
            connection = free.pop() if free else await self.connect()
            await self.pair(connection, f"{self.prefix}-{number}")
            free.append(connection)

        tasks = []
        for number in range(int(rate * seconds)):
            await asyncio.sleep(max(0.0, started + number / rate - time.monotonic()))
            tasks.append(asyncio.create_task(one(number)))
        await asyncio.gather(*tasks)
        for connection in free:
            connection.transport.close()
        return time.monotonic() - started


class Inserts(Load):
    """Clients of the bare endpoint."""

    async def pair(self, connection, name):
        """One insert."""
        await self.post(connection, "/insert", self.decision(name))


def run(work):
    """What a coroutine gives, on the loop that the servers have, too."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)


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
        run(self.loads[number].run(seconds))
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
            Side(server.process, [kind(server.url, clients, seed=n) for n in range(TURNS)])
            for server, kind in ((bare, Inserts), (service, Load))
        ]
        for number in range(TURNS):
            for side in sides:
                side.turn(number, seconds / TURNS)
        plain, ours = (side.told(seconds) for side in sides)
    finally:
        bare.stop()
        service.stop()
    wall, used = plain["per second"] / ours["per second"], ours["cpu ms"] / plain["cpu ms"]
    return {
        "clients": clients,
        "bare": plain,
        "service": ours,
        "decide + reward / one insert": {"wall": 2 * wall, "cpu": 2 * used},
        "decide + reward / two inserts": {"wall": wall, "cpu": used},
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
            load = Load(service.url, seed=rate)
            took = run(load.paced(rate, seconds))
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
                load = Load(service.url, seed=2 * turn + learning)
                run(load.paced(20, seconds / TURNS))
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
                    read = re.search(
                        r"\ntreebandit_learner_place.* (\S+)\n", http.get(f"{service.url}/metrics").text
                    )
                    state = {
                        "decisions": start,
                        "service MB": memory(service.process.pid),
                        "learner MB": memory(learner) if learner else None,
                        "entries of the log that the learner has read": float(read[1]) if read else 0.0,
                    }
                    print(json.dumps(state), flush=True)
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
    parser.add_argument("--folder", default=None)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="treebandit-bench-", dir=given.folder) as name:
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
