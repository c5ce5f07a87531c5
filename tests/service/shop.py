"""A bandit whose log is written by hand."""

import msgspec
import numpy as np

from treebandit.service import models
from treebandit.service.config import BanditConfig, checked
from treebandit.service.entries import DecisionBody, NewActivation, NewDecision, NewReward, RewardBody
from treebandit.service.fold import Fold
from treebandit.service.log import Group

SECOND = 1_000_000


class Shop:
    """A bandit whose log is written by hand."""

    def __init__(self, store, **settings):
        settings = {"wait": 10.0, "agent": {"class": "Bandit", "seed": 3}, **settings}
        self.store = store
        self.random = np.random.default_rng(0)
        self.row = store.put_bandit("shop", lambda before: checked(BanditConfig(**settings)))[0]

    @property
    def now(self):
        return self.store.bandit("shop")

    def decide(self, id, arm=0, deferred=False, context=None, chosen=None, subject=None, **body):
        config = self.now.config
        given = {"probability": 0.5, "probabilities": [0.5, 0.25, 0.25], "aggregation": config.aggregation}
        made = DecisionBody(
            context or {"x": float(self.random.normal()), "city": "rome" if arm else "paris"},
            ["a", "b", "c"],
            chosen or [arm],
            **{**given, **body},
        )
        wait = None if deferred else config.wait_us
        arm = "abc"[made.chosen[0]]
        new = NewDecision(
            id, msgspec.json.encode(made), arm, made.probability, 0, False, wait, subject, len(made.chosen)
        )
        return self.store.append_now(Group(self.row.id, [new]))[0]

    def reward(self, id, value=1.0, key=None):
        first = self.now.config.aggregation == "first"
        made = str(self.random.integers(2**60)) if key is None else key
        body = msgspec.json.encode(RewardBody(value))
        new = NewReward(id, made, float(np.sum(value)), body, first, key is None)
        return self.store.append_now(Group(self.row.id, [new]))[0].status

    def activate(self, id):
        return self.store.append_now(Group(self.row.id, [NewActivation(id, self.now.config.wait_us)]))[0]

    def wait(self, seconds):
        """Let the store's clock go on, and close what has ended."""
        self.store.clock.now(0, max(self.now.time, self.store.clock.now(0)) + round(seconds * SECOND))
        connection = self.store.database.connect()
        closed = models.close_waits(self.store, connection, self.row.id)
        connection.close()
        return closed

    def fold(self, **options):
        return Fold.at(self.store, self.row.id, self.now.place, **options)

    def learned(self):
        """The rewards that the agent has learned, in their order."""
        return self.fold(from_checkpoint=False).agent.model.history.rewards.tolist()


def play(shop, rounds, start=0):
    for number in range(start, start + rounds):
        shop.decide(f"d{number}", arm=number % 3, subject=f"s{number % 4}")
        if number % 5:
            shop.reward(f"d{number}", float(number % 3 == 1))
        if number % 20 == 19:
            shop.wait(11)
