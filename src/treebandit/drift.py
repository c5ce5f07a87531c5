"""Which rows still count, and whether predictions have become worse: ADWIN, a window over the newest numbers of a
stream that drops those before a change.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, Self

import numpy as np

from treebandit import schema
from treebandit.errors import ParameterError, SavedFileError
from treebandit.parameters import check_number

#: "all", "auto", or how many of the newest rows.
MemoryRule = Literal["all", "auto"] | int

#: Fewest rows to keep.
_FEWEST_ROWS = 10
#: The first rows are not watched: neither model nor unit tell much then.
FIRST_ROWS = 64
#: Of the windows: how likely a false alarm is at a cut, and by how many standard deviations of the rewards a mean error
#: has to move. Changes that matter exceed both within some dozens of rows.
_DELTA, _EVERY, _TOLERANCE = 1e-3, 8, 0.1
#: Errors beyond so many standard deviations count as if they were nearer: one outlier is no change.
LARGEST_ERROR = 10.0
#: Buckets of one size, at most; one more, and the two oldest become one of twice the size.
_BUCKETS = 5
#: Both sides of a cut hold at least so many numbers, and the window more than twice as many.
_SHORTEST = 5
#: Sizes of buckets are powers of two up to this one.
_POWERS = 48
#: What numbers are taken to deviate from their mean by, at least.
_REACH = 2.0


def check_memory(memory: Any) -> None:
    """Raise a ParameterError unless it is "all", "auto" or a number of rows."""
    if isinstance(memory, str):
        if memory not in ("all", "auto"):
            raise ParameterError(f"memory={memory!r}; give 'all', 'auto' or how many rows to keep")
    else:
        check_number("memory", memory, least=_FEWEST_ROWS, whole=True)


class Adwin:
    """ADWIN2 of Bifet and Gavaldà (2007): keeps the longest window in which no two parts differ in their mean.

    The window is a histogram of buckets with 1, 2, 4, ... numbers, so that n numbers take O(log n) of memory. Its
    oldest bucket is dropped as long as there is a cut into n₀ older and n₁ newer numbers whose means differ by more
    than

        ε = √(2 m s² d) + ⅔ m d   with m = 1 / (n₀ - 4) + 1 / (n₁ - 4), d = ln(2 ln n / δ), s² the window's variance.

    This is Bernstein's inequality, whose second term is b/3 · m d for numbers that deviate from their mean by at most
    b: the authors' ⅔ covers b = 2. With a tolerance, b is the greatest size of a number so far, where that is more
    than 2: a click in a hundred views is an error of ten standard deviations, and a few of them in a row no change.

    delta: δ, how likely a false alarm is at a cut.
    every: cuts are looked for whenever so many numbers have come.
    tolerance: None, any change of the mean counts. A number: only a mean that has moved away from 0 by more than this,
        as errors do when predictions become worse, and all numbers before the sharpest cut are dropped at once.
    """

    __slots__ = ("buckets", "delta", "every", "greatest", "seen", "squares", "tolerance", "total", "width")

    def __init__(self, delta: float = 0.002, *, every: int = 32, tolerance: float | None = None) -> None:
        self.delta, self.every, self.tolerance = delta, every, tolerance
        #: Numbers in the window.
        self.width = 0
        self.seen, self.total, self.squares = 0, 0.0, 0.0
        #: b, the greatest size of all numbers that came, dropped or not; at least 2.
        self.greatest = _REACH
        #: For each size, the oldest first: the sum of a bucket's numbers, and of their squared deviations.
        self.buckets: list[list[tuple[float, float]]] = [[]]

    @property
    def mean(self) -> float:
        """Mean of the window."""
        return self.total / self.width if self.width else 0.0

    @property
    def variance(self) -> float:
        """Variance of the window."""
        return self.squares / self.width if self.width else 0.0

    def copy(self) -> Self:
        """Another one that goes on by itself."""
        other = type(self)(self.delta, every=self.every, tolerance=self.tolerance)
        other.width, other.seen = self.width, self.seen
        other.total, other.squares, other.greatest = self.total, self.squares, self.greatest
        other.buckets = [size.copy() for size in self.buckets]
        return other

    def update(self, numbers: Iterable[float]) -> bool:
        """Take in numbers; whether any were dropped."""
        dropped = False
        for number in numbers:
            self._add(float(number))
            self.seen += 1
            if self.seen % self.every == 0 and self.width > 2 * _SHORTEST:
                while left := self._newer():
                    self._drop()
                    dropped = True
                    while self.tolerance is not None and self.width > left:
                        self._drop()
        return dropped

    def _add(self, number: float) -> None:
        if self.width:
            self.squares += self.width / (self.width + 1) * (number - self.mean) ** 2
        self.width += 1
        self.total += number
        if self.tolerance is not None and abs(number) > self.greatest:
            self.greatest = abs(number)
        self.buckets[0].append((number, 0.0))
        for power, size in enumerate(self.buckets):
            if len(size) <= _BUCKETS:
                return
            if power + 1 == len(self.buckets):
                self.buckets.append([])
            (one, around_one), (two, around_two) = size[0], size[1]
            # Two means of n numbers each, d apart, add n d² / 2 to the squares.
            between = (one - two) ** 2 / (2 << power)
            del size[:2]
            self.buckets[power + 1].append((one + two, around_one + around_two + between))

    def _drop(self) -> None:
        """Let the oldest bucket go."""
        power = len(self.buckets) - 1
        self._leave(*self.buckets[power].pop(0), 1 << power)
        self._trim()

    def _leave(self, total: float, around: float, count: int) -> None:
        """Take a bucket's numbers out of mean and variance."""
        self.width -= count
        self.total -= total
        between = count * self.width / (count + self.width) * (total / count - self.mean) ** 2
        self.squares = max(self.squares - around - between, 0.0)

    def _trim(self) -> None:
        """Forget the greatest sizes of which there is no bucket."""
        while len(self.buckets) > 1 and not self.buckets[-1]:
            self.buckets.pop()

    def drop_newest(self, count: int) -> None:
        """Let the buckets go that hold any of so many of the newest numbers."""
        left, power = max(self.width - count, 0), 0
        while self.width > left:
            if self.buckets[power]:
                self._leave(*self.buckets[power].pop(), 1 << power)
            else:
                power += 1
        self._trim()

    def _newer(self) -> int:
        """How many numbers follow the cut at which older and newer ones differ most; 0 where they do not differ."""
        depth = math.log(2.0 * math.log(self.width) / self.delta)
        noise, count, total, most, found = 2.0 * self.variance * depth, 0, 0.0, 1.0, 0
        reach = self.greatest / 3.0 * depth
        for power in range(len(self.buckets) - 1, -1, -1):
            for one, _ in self.buckets[power]:
                count, total = count + (1 << power), total + one
                left = self.width - count
                if count < _SHORTEST or left < _SHORTEST:
                    continue
                old, new = total / count, (self.total - total) / left
                m = 1.0 / (count - _SHORTEST + 1) + 1.0 / (left - _SHORTEST + 1)
                apart = abs(old - new) / (math.sqrt(noise * m) + reach * m)
                if apart > most and (self.tolerance is None or abs(new) > abs(old) + self.tolerance):
                    most, found = apart, left
        return found


def packed(windows: Sequence[Adwin]) -> dict[str, Any]:
    """Windows as few arrays, to save."""
    buckets = [bucket for window in windows for size in window.buckets for bucket in size]
    sums = [(window.total, window.squares, window.greatest) for window in windows]
    return {
        "seen": np.array([window.seen for window in windows], np.int64),
        "sums": np.array(sums).reshape(-1, 3),
        "powers": np.array([len(window.buckets) for window in windows], np.int64),
        "counts": np.array([len(size) for window in windows for size in window.buckets], np.int64),
        "buckets": np.array(buckets).reshape(-1, 2),
    }


def unpacked(state: Mapping[str, Any], like: Adwin, count: int) -> list[Adwin]:
    """So many windows that `packed` has described; a SavedFileError where no numbers could have led to them."""
    seen = schema.array(state, "seen", np.int64, (count,), least=0, most=schema.MOST)
    sums = schema.array(state, "sums", np.float64, (count, 3))
    powers = schema.array(state, "powers", np.int64, (count,), least=1, most=_POWERS)
    counts = schema.array(state, "counts", np.int64, (int(powers.sum()),), least=0, most=_BUCKETS)
    buckets = schema.array(state, "buckets", np.float64, (int(counts.sum()), 2))
    rest, sizes, windows = iter(map(tuple, buckets.tolist())), iter(counts.tolist()), []
    for place in range(count):
        window = like.copy()
        window.seen = int(seen[place])
        window.total, window.squares, window.greatest = sums[place].tolist()
        window.buckets = [[next(rest) for _ in range(next(sizes))] for _ in range(powers[place])]
        window.width = sum(len(size) << power for power, size in enumerate(window.buckets))
        if window.width > window.seen or (len(window.buckets) > 1 and not window.buckets[-1]):
            raise SavedFileError(
                "the saved windows of errors hold other buckets than numbers can leave in them"
            )
        windows.append(window)
    if (buckets[:, 1] < 0).any() or (sums[:, 1] < 0).any():
        raise SavedFileError("the saved windows of errors hold negative squares")
    if (sums[:, 2] < _REACH).any():
        raise SavedFileError("the saved windows of errors hold smaller errors than they allow for")
    return windows


def error_window() -> Adwin:
    """The window that errors of predictions are watched with, in standard deviations of the rewards."""
    return Adwin(_DELTA, every=_EVERY, tolerance=_TOLERANCE)
