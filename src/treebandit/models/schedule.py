"""When to rebuild a model."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

from treebandit import schema
from treebandit.errors import ParameterError

#: Rows are fitted anew when they have grown so many times as much as rounds.
_GROWTH = 1.5
_LOGARITHM = r"(\d+(?:\.\d+)?|\.\d+)\s*\*?\s*ln\s*\(?t\)?"


@dataclass(frozen=True, slots=True)
class Schedule:
    """When to rebuild: whenever `level(t)` has grown since the last rebuild.

    factor: level is ⌈factor · ln t⌉ (paper, section 4.2: 8); every: it is ⌊t / every⌋; neither: it never grows.
    later, since: from round `since` on level grows by `later` · ln t instead.
    """

    factor: float | None = None
    every: int | None = None
    later: float | None = None
    since: int = 1

    @classmethod
    def parse(cls, text: str) -> Schedule:
        """Read '8 ln t', '8 ln t, 4 ln t from 2000', 'every 100' or 'never'."""
        words = str(text).strip().lower()
        if words == "never":
            return cls()
        if match := re.fullmatch(rf"{_LOGARITHM}(?:\s*,\s*{_LOGARITHM}\s+from\s+(\d+))?", words):
            factor, later, since = float(match[1]), float(match[2] or match[1]), int(match[3] or 1)
            if factor > 0 and later > 0 and since > 0:
                return cls(factor=factor, later=later, since=since)
        if match := re.fullmatch(r"every\s+(\d+)", words):
            every = int(match[1])
            if every > 0:
                return cls(every=every)
        raise ParameterError(
            f"rebuild schedule {text!r}; write '8 ln t', 'every 100' or 'never', or '8 ln t, 4 ln t from 2000'"
        )

    def level(self, t: int) -> int:
        """The step count at time t >= 1."""
        if self.factor is not None and self.later is not None:
            early, late = min(max(t, 1), self.since), max(t / self.since, 1.0)
            return math.ceil(self.factor * math.log(early) + self.later * math.log(late))
        return t // self.every if self.every else 0

    def overdue(self, now: tuple[int, int], fitted: tuple[int, int]) -> bool:
        """Whether rows have grown by half more than rounds since a fit; both are rows and rounds, at least 1.

        It is where rewards come late, or without decisions: then rounds do not tell how much there is to fit.
        """
        if self.factor is None and self.every is None:
            return False
        (rows, rounds), (fitted_rows, fitted_rounds) = now, fitted
        return rows * fitted_rounds >= _GROWTH * fitted_rows * max(rounds, fitted_rounds)

    def rounds(self, level: int) -> tuple[int, int]:
        """The first round of a level, and how many rounds it lasts; (0, 0) where levels never grow."""
        if self.factor is not None:
            first, end = self._reaches(level - 1), self._reaches(level)
            return math.floor(first) + 1, math.floor(end - first)
        return (self.every * level, self.every) if self.every else (0, 0)

    def _reaches(self, level: int) -> float:
        """When the level before rounding up reaches a whole number."""
        assert self.factor is not None
        assert self.later is not None
        turn = self.factor * math.log(self.since)
        return math.exp(min(level, turn) / self.factor + max(level - turn, 0.0) / self.later)


def rows_until_overdue(fitted: int) -> int:
    """How many more rows than were fitted are overdue to be fitted, where there are no more rounds."""
    return int((_GROWTH - 1.0) * fitted)


class Dropped(NamedTuple):
    """How many rounds the rows that a model has dropped stand for; and how many the schedule leaves out for them.

    The schedule goes on from the beginning of a level, which may be far before as many rounds as the rows kept stand
    for: with 'every 480', a hundred rows begin at 0.
    """

    rounds: int = 0
    by_schedule: int = 0

    def left(self, rounds: int) -> int:
        """The rounds that the rows kept stand for, of so many in all; at least 1."""
        return max(rounds - self.rounds, 1)

    @classmethod
    def restored(cls, state: Mapping[str, Any]) -> Self:
        """What `_asdict` gave."""
        return cls(*(schema.whole(state, name) for name in cls._fields))
