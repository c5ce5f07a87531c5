"""Load on a running service from asyncio clients; used by the fault tests and the benchmark."""

import asyncio
import random
import time

import httpx


class Load:
    """Clients that decide and reward for ever, and remember what was acknowledged."""

    def __init__(self, urls, clients=8, arms=4, features=3, seed=0, pause=0.0, bandit="shop"):
        self.urls, self.clients, self.arms, self.features = urls, clients, arms, features
        self.pause, self.bandit = pause, bandit
        self.random = random.Random(seed)
        self.prefix = f"{seed}-{self.random.getrandbits(40):x}"
        #: id -> the answer that was acknowledged; id -> the reward that was acknowledged.
        self.decisions, self.rewards = {}, {}
        self.errors = {}
        self.wrong = []
        self.latencies = []
        self.stopped = False

    async def run(self, seconds=None):
        limits = httpx.Limits(max_connections=self.clients, max_keepalive_connections=self.clients)
        async with httpx.AsyncClient(timeout=5, limits=limits) as http:
            await asyncio.gather(*(self._client(http, number, seconds) for number in range(self.clients)))

    async def _client(self, http, number, seconds):
        until = None if seconds is None else time.monotonic() + seconds
        count = 0
        while not self.stopped and (until is None or time.monotonic() < until):
            count += 1
            id = f"{self.prefix}-{number}-{count}"
            url = self.random.choice(self.urls)
            context = {f"x{n}": self.random.gauss(0, 1) for n in range(self.features)}
            body = {"id": id, "context": context, "arms": [f"arm{n}" for n in range(self.arms)]}
            # An unanswered request is sent again with the same id, to any replica, until it is answered.
            reply = await self._sent(http, url, f"/v1/bandits/{self.bandit}/decisions", body)
            if reply is None:
                continue
            self.decisions[id] = reply
            value = float(reply["arm"] == "arm1") + context["x0"]
            path = f"/v1/bandits/{self.bandit}/decisions/{id}/reward"
            if await self._sent(http, self.random.choice(self.urls), path, {"value": value}) is not None:
                self.rewards[id] = value
            if self.random.random() < 0.05 and not self.stopped:
                again = await self._sent(http, url, f"/v1/bandits/{self.bandit}/decisions", body)
                if again is not None and {**again, "repeated": False} != {**reply, "repeated": False}:
                    self.wrong.append((reply, again))
            if self.pause:
                await asyncio.sleep(self.pause)

    async def _sent(self, http, url, path, body):
        for _ in range(200):
            started = time.perf_counter()
            try:
                answer = await http.post(url + path, json=body)
            except httpx.TransportError as error:
                self._count(type(error).__name__)
                if self.stopped:
                    return None
                await asyncio.sleep(0.05)
                url = self.random.choice(self.urls)
                continue
            if answer.status_code < 300:
                self.latencies.append(time.perf_counter() - started)
                return answer.json()
            self._count(answer.status_code)
            if answer.status_code not in (429, 503, 408):
                self.wrong.append((path, answer.status_code, answer.text))
                return None
            if self.stopped:
                return None
            await asyncio.sleep(0.05)
            url = self.random.choice(self.urls)
        return None

    def _count(self, what):
        self.errors[what] = self.errors.get(what, 0) + 1
