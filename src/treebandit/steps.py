"""Work in steps: generators that yield the share that is done, and return what they made."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

_Made = TypeVar("_Made")


def exhausted(steps: Generator[float, None, _Made]) -> _Made:
    """What the steps make, all of them done."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            made: _Made = end.value
            return made


def scaled(steps: Generator[float, None, _Made], start: float, stop: float) -> Generator[float, None, _Made]:
    """The same steps as the part of a larger work from the share `start` to the share `stop`."""
    while True:
        try:
            share = next(steps)
        except StopIteration as end:
            made: _Made = end.value
            return made
        yield start + (stop - start) * share
