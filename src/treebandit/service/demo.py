"""`treebandit serve --demo`: a shop whose visitors change their taste, against the running service; a day a minute."""

from __future__ import annotations

import asyncio
import logging
import math
import random
import threading
import time
from typing import Any

import httpx

_log = logging.getLogger("treebandit.demo")

BANDIT = "demo-shop"
ARMS = ("coffee", "tea", "juice", "cake")
DAY = 60.0
_ROOT = f"/v1/bandits/{BANDIT}"
SETTINGS: dict[str, Any] = {
    "wait": 15.0,
    "holdout": 0.2,
    "floor": 0.02,
    "description": "visitors of a shop whose taste changes with the hour, and from day to day",
}


class Shop:
    """Visitors, and what each would buy: by the hour, their age and the weather, and a taste that drifts."""

    def __init__(self, seed: int = 0) -> None:
        self.random = random.Random(seed)
        self.started = time.monotonic()

    @property
    def days(self) -> float:
        """Days since the beginning, of a minute each."""
        return (time.monotonic() - self.started) / DAY

    def visitor(self) -> dict[str, Any]:
        """One visitor."""
        return {
            "hour": round(24 * (self.days % 1.0), 1),
            "age": self.random.randint(16, 80),
            "weather": self.random.choice(["sun", "rain", "snow"]),
            "device": {
                "kind": self.random.choice(["phone", "desk"]),
                "tags": self.random.sample(["new", "sale"], 1),
            },
        }

    def chance(self, visitor: dict[str, Any], arm: str) -> float:
        """How probably the visitor buys what is shown."""
        morning = math.cos((visitor["hour"] - 8.0) / 24.0 * 2.0 * math.pi)
        drift = math.sin(2.0 * math.pi * self.days / 7.0)
        taste = {
            "coffee": 0.9 * morning - 0.2,
            "tea": 0.6 * (visitor["age"] - 48) / 32 + 0.5 * (visitor["weather"] == "rain"),
            "juice": 0.8 * (visitor["weather"] == "sun") - 0.3 + 0.4 * drift,
            "cake": -0.7 * morning + 0.3 * (visitor["weather"] == "snow") - 0.4 * drift,
        }
        return 1.0 / (1.0 + math.exp(1.6 - 2.2 * taste[arm]))


async def run(url: str, *, rate: float = 25.0, seconds: float = math.inf, seed: int = 0) -> int:
    """Visit the shop `rate` times a second; how many decisions were made."""
    shop, made = Shop(seed), 0
    waiting: set[asyncio.Task[None]] = set()
    async with httpx.AsyncClient(base_url=url, timeout=10.0) as http:
        (await http.put(_ROOT, json=SETTINGS)).raise_for_status()
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            task = asyncio.create_task(_visit(http, shop))
            waiting.add(task)
            task.add_done_callback(waiting.discard)
            made += 1
            await asyncio.sleep(shop.random.expovariate(rate))
        for task in list(waiting):
            task.cancel()
    return made


async def _visit(http: httpx.AsyncClient, shop: Shop) -> None:
    visitor = shop.visitor()
    try:
        answer = await http.post(f"{_ROOT}/decisions", json={"context": visitor, "arms": list(ARMS)})
        if answer.status_code != 200:
            return
        decision = answer.json()
        bought = shop.random.random() < shop.chance(visitor, decision["arm"])
        # Most buy soon, some late, and some too late; those who do not buy never answer.
        await asyncio.sleep(shop.random.expovariate(1.0 / 4.0))
        if bought:
            await http.post(f"{_ROOT}/decisions/{decision['id']}/reward", json={"value": 1.0})
    except httpx.TransportError as error:
        _log.debug("a visitor left: %s", error)


def in_background(url: str) -> threading.Thread:
    """Visitors for as long as the process lives, once the service answers."""

    def visit() -> None:
        while True:
            try:
                httpx.get(f"{url}/health/live", timeout=5.0)
                asyncio.run(run(url))
            except (httpx.HTTPError, OSError) as error:
                _log.info("the demo waits for the service: %s", type(error).__name__)
                time.sleep(0.5)

    thread = threading.Thread(target=visit, name="demo", daemon=True)
    thread.start()
    return thread
