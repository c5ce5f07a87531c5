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

    def first(self, level: int) -> int:
        """The first time t >= 1 that has this level, or a higher one."""
        if self.factor is not None:
            return math.floor(math.exp((level - 1) / self.factor)) + 1 if level > 0 else 1
        return max(level * self.every, 1) if self.every else 1
