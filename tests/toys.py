"""Agents for tests of the experiments, found in studies as "toys:Name"."""

import os
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from treebandit.errors import MissingExtraError


@dataclass
class Means:
    """The arm of greatest mean so far, with a little noise; `pause` seconds a round."""

    noise: float = 0.1
    pause: float = 0.0
    diary: str | None = None
    inner: object = None
    seed: int | None = None

    def __post_init__(self):
        self.random = np.random.default_rng(self.seed)
        self.sums, self.counts = np.zeros(100), np.ones(100)
        self.rebuild_seconds = 0.0
        self.note = f"noise {self.noise}"

    def score(self, candidates):
        if self.pause:
            time.sleep(self.pause)
        if self.diary and self.counts.sum() == 100:
            with open(self.diary, "a") as file:
                file.write(f"{os.getpid()}\n")
        means = (self.sums / self.counts)[candidates.arms]
        return means + self.noise * self.random.random(len(candidates))

    def learn(self, chosen, rewards):
        np.add.at(self.sums, chosen.arms, rewards)
        np.add.at(self.counts, chosen.arms, 1)
        if self.counts.sum() % 50 == 0:
            time.sleep(0.01)
            self.rebuild_seconds += 0.01


@dataclass
class Broken(Means):
    """Fails in round `when`, unless the file `cure` exists."""

    when: int = 5
    cure: str = ""

    def learn(self, chosen, rewards):
        super().learn(chosen, rewards)
        if self.counts.sum() - 100 == self.when and not (self.cure and Path(self.cure).exists()):
            raise RuntimeError(f"broken in round {self.when}")


@dataclass
class Lacking(Means):
    """Needs a library that is not installed."""

    def __post_init__(self):
        raise MissingExtraError("no-such-library", "such")


@dataclass
class Deadly(Means):
    """Takes its process down with it."""

    def learn(self, chosen, rewards):
        os._exit(3)


@dataclass(frozen=True)
class Part:
    """Something to nest in an agent."""

    size: int = 1
    part: object = None


class Picky(Means):
    """Cannot be made in a bad mood."""

    def __init__(self, mood="good", seed=None):
        super().__init__(seed=seed)
        self.mood = {"good": 1}[mood]


@dataclass
class Doomed(Means):
    """Ends its process a while after round 60, between two runs; once per file `mark`."""

    mark: str = ""

    def learn(self, chosen, rewards):
        super().learn(chosen, rewards)
        if self.counts.sum() - 100 == 60 and not Path(self.mark).exists():
            Path(self.mark).touch()
            threading.Timer(0.3, os._exit, (9,)).start()
