"""What a named column holds: numbers or categories, as declared or as its first rows tell."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from treebandit.core import Floats
from treebandit.errors import InputError, ParameterError
from treebandit.features.values import Category, is_plain, plain_number, plain_value, shown

_FAMILIES: dict[type, str] = {str: "text", bool: "booleans", int: "numbers", float: "numbers"}
_KINDS = "'number', 'flag', 'category', or a list of all its categories"

_Raw = tuple[type, Any]  # a value with its type, because True == 1 to a dictionary


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its name, and the code of each category seen so far (None: a column of numbers).

    closed: the categories were declared, and there are no others (of numbers: there is nothing in this column).
    """

    name: str
    codes: dict[Category, int] | None = None
    closed: bool = False

    @property
    def family(self) -> type | None:
        """The type of the categories; None where there are none yet."""
        return type(next(iter(self.codes))) if self.codes else None

    def registered(self, categories: Iterable[Category]) -> Column:
        """This column with `categories` appended where they are new."""
        assert self.codes is not None
        codes = dict(self.codes)
        for category in categories:
            codes.setdefault(category, len(codes))
        return self if len(codes) == len(self.codes) else replace(self, codes=codes)

    def state(self) -> dict[str, Any]:
        """The column as JSON values."""
        categories = None if self.codes is None else list(self.codes)
        return {"name": self.name, "categories": categories, "closed": self.closed}

    @classmethod
    def restored(cls, entry: Mapping[str, Any]) -> Column:
        """The column that `state` gave; a TypeError or KeyError where it cannot be read."""
        name, categories, closed = entry["name"], entry["categories"], entry["closed"]
        if not isinstance(name, str) or not isinstance(closed, bool):
            raise TypeError(f"a column is named {name!r}, closed is {closed!r}")
        if categories is None:
            return cls(name, closed=closed)
        families = {_FAMILIES.get(type(category), "") for category in categories}
        if "" in families or len(families) > 1:
            raise TypeError(f"the categories of {name!r} are not all text, all booleans or all numbers")
        codes = {category: code for code, category in enumerate(categories)}
        if len(codes) < len(categories):
            raise TypeError(f"a category of {name!r} comes twice")
        return cls(name, codes, closed)


def declared(columns: Any) -> tuple[Column, ...]:
    """The columns that an agent's argument `columns` declares: {name: kind}; a ParameterError names a wrong one."""
    if columns is None:
        return ()
    if not isinstance(columns, Mapping) or not columns:
        raise ParameterError(
            f"columns={shown(columns)}; give the kind of each column by name, such as {{'age': 'number'}}"
        )
    return tuple(_declared(name, kind) for name, kind in columns.items())


def plain_declaration(columns: Any) -> dict[str, Any] | None:
    """What an agent's argument `columns` declares, in strings and lists of plain values: a copy that can be saved."""
    if not declared(columns):
        return None
    return {
        name: kind if isinstance(kind, str) else [plain_value(category) for category in kind]
        for name, kind in columns.items()
    }


def _declared(name: Any, kind: Any) -> Column:
    if not isinstance(name, str):
        raise ParameterError(f"columns names a column {shown(name)}; name columns with strings")
    if isinstance(kind, str):
        kinds = {"number": Column(name), "category": Column(name, {})}
        kinds["flag"] = Column(name, {False: 0, True: 1}, closed=True)
        if kind not in kinds:
            raise ParameterError(f"columns declares {name!r} as {kind!r}; give {_KINDS}")
        return kinds[kind]
    if not isinstance(kind, Sequence) or not kind:
        raise ParameterError(f"columns declares {name!r} as {shown(kind)}; give {_KINDS}")
    for category in kind:
        if not is_plain(type(category)) or plain_value(category) is None:
            raise ParameterError(
                f"columns declares {name!r} with the category {shown(category)}; give text, numbers or booleans"
            )
    categories = [cast("Category", plain_value(category)) for category in kind]
    codes = {category: code for code, category in enumerate(categories)}
    try:
        check_family(Column(name), categories)
    except InputError as error:
        raise ParameterError(f"columns: {error}") from error
    if len(codes) < len(categories):
        raise ParameterError(f"columns declares a category of {name!r} twice: {shown(kind)}; give each once")
    return Column(name, codes, closed=True)


class GivenColumn(NamedTuple):
    """One column as it was given: an array of numbers, or a list of plain values.

    listed: the categories that its type lists. numeric: what its type says it is; None where only the values tell.
    """

    name: str
    values: NDArray[Any] | list[Any]
    listed: tuple[Category, ...] = ()
    numeric: bool | None = None


def typed(given: GivenColumn, *, nan_is_number: bool = True) -> Column | None:
    """The column that a first one is, of numbers or of categories; None where it has no type and no value."""
    if given.numeric is not None:
        return Column(given.name, None if given.numeric else {})
    values = given.values
    families = {_FAMILIES[type(one)] for one in plain(given.name, values)[1].values() if one is not None}
    if not families and not (nan_is_number and any(isinstance(one, float) for one in values)):
        return None
    return Column(given.name, None if not families or "numbers" in families else {})


def numbers(given: GivenColumn) -> Floats:
    """A column of numbers, (n,), from any type whose values are numbers or missing."""
    name, values = given.name, given.values
    if isinstance(values, np.ndarray):
        return values.astype(np.float64)
    raws, plains = plain(name, values)
    texts = (value for value in plains.values() if isinstance(value, str))
    if (text := next(texts, None)) is not None:
        row = next(row for row, raw in enumerate(raws) if plains[raw] == text)
        raise InputError(
            f"column {name!r} holds text where numbers belong ({shown(text)} in row {row}); "
            "convert it to numbers, or leave missing values empty"
        )
    found = {raw: cast("float", plain_number(value)) for raw, value in plains.items()}
    return np.array([found[raw] for raw in raws], np.float64)


def codes_of(given: GivenColumn, column: Column) -> tuple[Floats, Column]:
    """A column of categories as codes, (n,), and the column with those that are new."""
    values = given.values.tolist() if isinstance(given.values, np.ndarray) else given.values
    raws, plains = plain(given.name, values)
    found = [value for value in plains.values() if value is not None]
    if column.closed:
        check_family(column, found)
        _check_declared(column, found)
    else:
        check_family(column, [*given.listed, *found])
        flags = (False, True) if found and isinstance(found[0], bool) else ()
        column = column.registered([*given.listed, *flags, *sorted(found)])
    codes = cast("dict[Category, int]", column.codes)
    lookup = {raw: math.nan if value is None else codes[value] for raw, value in plains.items()}
    return np.array([lookup[raw] for raw in raws], np.float64), column


def _check_declared(column: Column, values: list[Category]) -> None:
    codes = cast("dict[Category, int]", column.codes)
    for value in values:
        if value not in codes:
            raise InputError(
                f"column {column.name!r} holds {shown(value)}, which is none of its declared categories "
                f"({', '.join(map(shown, list(codes)[:8]))}{', ...' if len(codes) > 8 else ''}); "
                "give one of these, None for a missing one, or declare the column as 'category'"
            )


def check_family(column: Column, values: list[Category]) -> None:
    """One column holds text, or booleans, or numbers: a mix is a mistake somewhere upstream."""
    first: Category | None = next(iter(column.codes or values), None)
    if first is None:
        return
    family = _FAMILIES[type(first)]
    for value in values:
        if _FAMILIES[type(value)] != family:
            raise InputError(
                f"column {column.name!r} holds {_FAMILIES[type(value)]} ({shown(value)}) where {family} belong "
                f"(such as {shown(first)}); convert its values to one type"
            )
        if isinstance(value, float) and math.isinf(value):
            raise InputError(f"column {column.name!r} has an infinite category; remove it or name it in text")


def plain(name: str, values: NDArray[Any] | list[Any]) -> tuple[list[_Raw], dict[_Raw, Category | None]]:
    """The values with their types, and for each different one, by appearance, its plain value."""
    kinds = list(map(type, values))
    for kind in dict.fromkeys(kinds):
        if not is_plain(kind):
            raise unusable(name, kind.__name__, [values[kinds.index(kind)]])
    raws = list(zip(kinds, values, strict=True))
    return raws, {raw: plain_value(raw[1]) for raw in dict.fromkeys(raws)}


def unusable(name: str, kind: str, examples: list[Any]) -> InputError:
    """The error for values that are neither numbers nor categories."""
    example = f" ({shown(examples[0])})" if examples else ""
    return InputError(
        f"column {name!r} holds values of type {kind}{example}, which are neither numbers nor categories; "
        "convert them first: a date to numbers (year, weekday, days since some day), anything else to text"
    )
