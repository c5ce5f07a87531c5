"""Checks of arguments: a ParameterError names the argument, what was given and what is expected."""

from __future__ import annotations

import reprlib
from collections.abc import Collection
from typing import Any

import numpy as np

from treebandit.errors import ParameterError


def check_number(
    name: str,
    value: Any,
    *,
    least: float | None = None,
    above: float | None = None,
    most: float | None = None,
    below: float | None = None,
    whole: bool = False,
    optional: bool = False,
) -> None:
    """Raise unless `value` is a finite number, `least` <= value <= `most` and `above` < value < `below`.

    whole: only whole numbers will do. optional: None will do as well.
    """
    if value is None and optional:
        return
    kinds: Any = (int, np.integer) if whole else (int, float, np.integer, np.floating)
    fits = isinstance(value, kinds) and not isinstance(value, bool) and abs(value) < float("inf")
    if fits and not (
        (least is not None and value < least)
        or (above is not None and value <= above)
        or (most is not None and value > most)
        or (below is not None and value >= below)
    ):
        return
    limits = [
        f"{word} {limit:g}"
        for word, limit in (("at least", least), ("above", above), ("at most", most), ("below", below))
        if limit is not None
    ]
    expected = f"a {'whole' if whole else 'finite'} number"
    if limits:
        expected += f" {'' if limits[0].startswith('above') else 'of '}{' and '.join(limits)}"
    raise ParameterError(
        f"{name} is {reprlib.repr(value)}; give {expected}{', or leave it out' if optional else ''}"
    )


def check_choice(name: str, value: Any, choices: Collection[str]) -> None:
    """Raise unless `value` is one of these words."""
    if not (isinstance(value, str) and value in choices):
        raise ParameterError(f"{name} is {reprlib.repr(value)}; give one of {', '.join(choices)}")


def check_flag(name: str, value: Any) -> None:
    """Raise unless `value` is True or False."""
    if not isinstance(value, bool | np.bool_):
        raise ParameterError(f"{name} is {reprlib.repr(value)}; give True or False")


def check_seed(value: Any) -> None:
    """Raise unless `value` can seed a generator: None or a whole number of at least 0."""
    check_number("seed", value, least=0, whole=True, optional=True)


def check_text(name: str, value: Any, *, optional: bool = False) -> None:
    """Raise unless `value` is text that is not empty and could name a file."""
    if not ((isinstance(value, str) and value and "\0" not in value) or (value is None and optional)):
        raise ParameterError(f"{name} is {reprlib.repr(value)}; give text{' or None' if optional else ''}")
