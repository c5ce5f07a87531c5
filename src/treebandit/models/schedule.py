"""When to rebuild a model."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from treebandit.errors import ParameterError


@dataclass(frozen=True, slots=True)
class Schedule:
    """When to rebuild: whenever `level(t)` has grown since the last rebuild.

    factor: level is ⌈factor · ln t⌉ (paper, section 4.2: 8); every: it is ⌊t / every⌋; neither: it never grows.
    """

    factor: float | None = None
    every: int | None = None

    @classmethod
    def parse(cls, text: str) -> Schedule:
        """Read '8 ln t', 'every 100' or 'never'."""
        words = str(text).strip().lower()
        if words == "never":
            return cls()
        if match := re.fullmatch(r"(\d+(?:\.\d+)?|\.\d+)\s*\*?\s*ln\s*\(?t\)?", words):
            factor = float(match[1])
            if factor > 0:
                return cls(factor=factor)
        if match := re.fullmatch(r"every\s+(\d+)", words):
            every = int(match[1])
            if every > 0:
                return cls(every=every)
        raise ParameterError(f"rebuild schedule {text!r}; write '8 ln t', 'every 100' or 'never'")

    def level(self, t: int) -> int:
        """The step count at time t >= 1."""
        if self.factor is not None:
            return math.ceil(self.factor * math.log(max(t, 1)))
        return t // self.every if self.every else 0

    def rounds(self, level: int) -> tuple[int, int]:
        """The first round of a level, and how many rounds it lasts; (0, 0) where levels never grow."""
        if self.factor is not None:
            first = math.exp((level - 1) / self.factor)
            return math.floor(first) + 1, math.floor(first * math.expm1(1 / self.factor))
        return (self.every * level, self.every) if self.every else (0, 0)
