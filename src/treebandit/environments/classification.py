"""A labelled table as a bandit: one arm per class, reward 1 for the right one."""

from __future__ import annotations

import reprlib
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path

import numpy as np

from treebandit.core import Candidates, Features, Indices, Outcome, Round
from treebandit.datasets import LabelledTable, load, read_labelled
from treebandit.environments.rounds import OneRoundAtATime
from treebandit.errors import ChoiceError, InputError, ParameterError
from treebandit.oracles import best_arm
from treebandit.parameters import check_flag, check_number, check_seed, check_text

BLOCK = 256


@dataclass(eq=False)
class Classification(OneRoundAtATime):
    """Rows of a table in random order, each once; the arms are the classes (the paper's "Setup").

    Every round all K arms are candidates with the same context row. The reward is 1 for the row's own class
    and 0 for another; `gaussian_noise` (standard deviation) or `flip_noise` (probability that 0 and 1 change
    places) is added to it, and the regret stays the expected one.

    data: a shipped data set's name, or a table.
    csv, parquet: a file, in place of `data`.
    label: its column of classes.
    sha256: what the file must hash to, where given.
    decimals: numbers are cut off (towards 0) after so many decimals; None, they stay as they are.
    gaussian_noise: standard deviation of what is added to rewards.
    flip_noise: probability that rewards 0 and 1 change places.
    shuffle: False, rows come in the order of the table, as where this is their order in time.
    change_every: after so many rounds each class pays for the next arm, the last for the first; None, never.
    seed: of the order of the rows, the noise and ties.

    >>> from treebandit import Uniform, play_round
    >>> from treebandit.environments import Classification
    >>> environment = Classification("mushroom", seed=0)
    >>> choice, outcome = play_round(Uniform(seed=0), environment)
    >>> outcome.regret >= 0
    True
    """

    data: str | LabelledTable | None = None
    csv: str | None = field(default=None, kw_only=True)
    parquet: str | None = field(default=None, kw_only=True)
    label: str | None = field(default=None, kw_only=True)
    sha256: str | None = field(default=None, kw_only=True, repr=False)
    gaussian_noise: float = field(default=0.0, kw_only=True)
    flip_noise: float = field(default=0.0, kw_only=True)
    decimals: int | None = field(default=None, kw_only=True)
    shuffle: bool = field(default=True, kw_only=True)
    change_every: int | None = field(default=None, kw_only=True)
    seed: int | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        check_number("gaussian_noise", self.gaussian_noise, least=0, most=1e12)
        check_number("flip_noise", self.flip_noise, least=0, most=0.5)
        check_number("decimals", self.decimals, least=0, most=6, whole=True, optional=True)
        check_flag("shuffle", self.shuffle)
        check_number("change_every", self.change_every, least=1, whole=True, optional=True)
        check_seed(self.seed)
        table = self._table()
        order, ties, noise = (np.random.default_rng(s) for s in np.random.SeedSequence(self.seed).spawn(3))
        rows = order.permutation(len(table)) if self.shuffle else np.arange(len(table))
        self.columns = table.columns
        self.classes = table.classes
        self._contexts = _cut_off(table.contexts[rows], self.decimals)
        labels = table.labels[rows]
        if self.change_every:
            labels = (labels + np.arange(len(labels)) // self.change_every) % len(table.classes)
        self._labels = labels.tolist()
        self._arms = np.arange(len(table.classes), dtype=np.intp)
        self._arms.setflags(write=False)
        self._oracle = partial(best_arm, random=ties)
        self._block = self._contexts[:0]
        self._noise = noise
        self._round = 0

    @property
    def horizon(self) -> int:
        """How many rounds there are in all: one per row."""
        return len(self._labels)

    def _next_round(self) -> Round:
        """The next row as K candidates: contexts (K, d), arms 0 to K-1."""
        if self._round == len(self._labels):
            raise InputError(f"all {self.horizon} rows have been shown; make a new environment to go on")
        arms, place = len(self._arms), self._round % BLOCK
        if place == 0:
            self._block = self._contexts[self._round :][:BLOCK].repeat(arms, axis=0)
        self._round += 1
        contexts = self._block[place * arms : (place + 1) * arms]
        return Round(Candidates(contexts, self._arms, self.columns), self._oracle)

    def _outcome(self, rows: Indices) -> Outcome:
        """The reward of the one arm chosen, (1,), and its expected regret."""
        if len(rows) != 1:
            raise ChoiceError(f"choice {rows.tolist()}; choose exactly one of the {len(self._arms)} rows")
        right = int(rows[0]) == self._labels[self._round - 1]
        regret = 0.0 if right else 1.0 - 2.0 * self.flip_noise
        return Outcome(np.array([self._reward(float(right))]), regret)

    def _reward(self, reward: float) -> float:
        if self.flip_noise and self._noise.random() < self.flip_noise:
            reward = 1.0 - reward
        if self.gaussian_noise:
            reward += self.gaussian_noise * self._noise.standard_normal()
        return reward

    def _table(self) -> LabelledTable:
        given = [name for name in ("data", "csv", "parquet") if getattr(self, name) is not None]
        if len(given) != 1:
            raise ParameterError(
                f"{' and '.join(given) or 'nothing'} given; give one of data, csv and parquet"
            )
        if self.data is not None:
            if not isinstance(self.data, str | LabelledTable):
                raise ParameterError(
                    f"data is {reprlib.repr(self.data)}; give the name of a data set or a LabelledTable"
                )
            if self.label is not None:
                raise ParameterError(
                    f"label={self.label!r} belongs to csv or parquet; leave it out with data"
                )
            return load(self.data) if isinstance(self.data, str) else self.data
        if self.label is None:
            raise ParameterError(f"{given[0]} is given without label; name the column that holds the class")
        for name in (given[0], "label"):
            check_text(name, getattr(self, name))
        check_text("sha256", self.sha256, optional=True)
        path = Path(self.csv or self.parquet or "")
        stamp = path.stat().st_mtime_ns if path.exists() else 0
        return _read_once(path, self.label, self.sha256, stamp)


def _cut_off(contexts: Features, decimals: int | None) -> Features:
    """Contexts without further decimals; codes of categories are whole numbers anyway."""
    if decimals is None:
        return contexts
    factor = 10.0**decimals
    return (np.trunc(contexts.astype(np.float64) * factor) / factor).astype(np.float32)


@lru_cache(maxsize=4)
def _read_once(path: Path, label: str, sha256: str | None, stamp: int) -> LabelledTable:
    """A user's table, read again only when the file's time `stamp` has changed."""
    return read_labelled(path, label, sha256=sha256)
