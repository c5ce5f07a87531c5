"""Checks of arguments: a ParameterError names the argument, what was given and what is expected."""

from __future__ import annotations

import dataclasses
import operator
import reprlib
import sys
import types
from collections.abc import Collection, Iterable, Mapping
from functools import cache
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

from treebandit.errors import ParameterError

_LARGEST = sys.float_info.max
_Made = TypeVar("_Made")


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
    number = plain_number(value)
    given = [("at least", operator.ge, least), ("above", operator.gt, above)]
    given += [("at most", operator.le, most), ("below", operator.lt, below)]
    bounds = [(word, holds, limit) for word, holds, limit in given if limit is not None]
    possible = isinstance(number, int if whole else (int, float)) and not isinstance(number, bool)
    if possible and abs(number) < float("inf") and all(holds(number, limit) for _, holds, limit in bounds):
        return
    limits = [f"{word} {limit:g}" for word, _, limit in bounds]
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


def plain_number(value: Any) -> Any:
    """A number, flag or text of numpy as one of Python; anything else as it is."""
    if isinstance(value, np.timedelta64):  # which numpy counts among the whole numbers
        return value
    for numpys, plain in ((np.bool_, bool), (np.integer, int), (np.floating, float), (np.str_, str)):
        if isinstance(value, numpys):
            return plain(value)
    return value


def check_fields(thing: Any) -> dict[str, Any]:
    """Raise unless every field of a dataclass of this package that declares plain values has such a value.

    What fits, but comes as a number of numpy, is given back as one of Python: {field: plain number}. Fields that a
    class of one's own declares are its own matter.
    """
    plain_numbers = {}
    for field, hint in _field_types(type(thing)).items():  # type: ignore[arg-type]
        given = getattr(thing, field)
        value = plain_number(given)
        if not fits(value, hint):
            raise ParameterError(
                f"{type(thing).__name__}.{field} is {reprlib.repr(given)}; give {in_words(hint)}"
            )
        if get_origin(hint) is Literal:
            check_choice(field, value, get_args(hint))
        if value is not given:
            plain_numbers[field] = value
    return plain_numbers


def shared_fields(kind: type[_Made], thing: Any, **others: Any) -> _Made:
    """A dataclass made of those fields of `thing` that have the same names as its own, and of the others given.

    They are checked by its types, as those of `thing` may be declared anew by a class of one's own.
    """
    names = [field.name for field in dataclasses.fields(kind) if hasattr(thing, field.name)]  # type: ignore[arg-type]
    made = kind(**{name: getattr(thing, name) for name in names} | others)
    check_fields(made)
    return made


def is_ours(definition: Any) -> bool:
    """Whether a class or a function is one of this package."""
    return bool(definition.__module__.partition(".")[0] == __package__)


@cache
def _field_types(kind: Any) -> dict[str, Any]:
    """The fields that classes of this package declare to be plain values, and their types."""
    found: dict[str, Any] = {}
    for base in reversed(kind.__mro__):
        if is_ours(base) and dataclasses.is_dataclass(base):
            hints = get_type_hints(base)
            names = [field.name for field in dataclasses.fields(base) if field.init]
            found |= {name: hints[name] for name in names if _is_plain(hints[name])}
        else:
            for name in vars(base).get("__annotations__", ()):
                found.pop(name, None)
    return found


_PLAIN = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "text",
    types.NoneType: "none",
}


def _is_plain(hint: Any) -> bool:
    """Whether a type hint allows numbers, flags, texts, None, tables and lists only."""
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        return all(map(_is_plain, get_args(hint)))
    kind = origin or hint
    return origin is Literal or hint in _PLAIN or (isinstance(kind, type) and issubclass(kind, Iterable))


def fits(value: Any, hint: Any) -> bool:
    """Whether a plain value, or an object, is what a type hint says; of a Literal only the type of its words."""
    origin, inner = get_origin(hint), get_args(hint)
    if hint is Any:
        return True
    if origin in (Union, types.UnionType):
        return any(fits(value, each) for each in inner)
    if origin is Literal:
        return any(type(value) is type(each) for each in inner)
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool) and not abs(value) > _LARGEST
    if hint in _PLAIN:
        return isinstance(value, hint) and (hint is bool or not isinstance(value, bool))
    if not isinstance(origin or hint, type):
        return True
    if issubclass(origin or hint, Mapping):
        return isinstance(value, Mapping) and all(fits(part, inner[-1]) for part in value.values() if inner)
    if issubclass(origin or hint, Iterable):
        return isinstance(value, list | tuple) and all(fits(part, inner[0]) for part in value if inner)
    return not isinstance(value, bool | int | float | str | list | dict | types.NoneType)


def in_words(hint: Any) -> str:
    """A type in words, for messages."""
    if get_origin(hint) in (Union, types.UnionType):
        return " or ".join(dict.fromkeys(in_words(each) for each in get_args(hint)))
    if get_origin(hint) is Literal:
        return f"one of {', '.join(map(repr, get_args(hint)))}"
    if isinstance(kind := get_origin(hint) or hint, type) and issubclass(kind, Iterable) and kind is not str:
        return "a table" if issubclass(kind, Mapping) else "a list"
    return _PLAIN.get(hint, "an object that names its class")
