"""What the checks share: a subject to examine, and the order in which its contracts are run."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Generic, Self, TypeVar

import numpy as np

from treebandit import registry
from treebandit.errors import CheckError, MissingExtraError, ParameterError, TreebanditError
from treebandit.parameters import check_number

T = TypeVar("T")

#: Seed of objects that come without one.
SEED = 7


@dataclass(frozen=True)
class Subject(Generic[T]):
    """What is examined: its name, a way to make it anew, and how many rounds or rows to examine it on."""

    name: str
    make: Callable[[], T]
    size: int

    @classmethod
    def of(cls, given: Any, *, method: str, size: int) -> Self:
        """The subject made from an object, or from what returns one; only the object has the `method`."""
        check_number("rows" if method == "fit" else "rounds", size, least=1, whole=True)
        is_factory = isinstance(given, type) or not hasattr(given, method)
        if is_factory and not callable(given):
            raise ParameterError(
                f"{given!r} has no method {method} and cannot be called; give an object or its class"
            )
        first = given() if is_factory else given
        if not hasattr(first, method):
            raise ParameterError(f"{given!r} returns a {type(first).__name__} without a method {method}")
        fields = dataclasses.fields(first) if dataclasses.is_dataclass(first) else ()
        if any(field.name == "seed" and field.init for field in fields):
            changes = {"seed": SEED} if first.seed is None else {}
            make = lambda: dataclasses.replace(first, **changes)  # noqa: E731
        else:
            make = given if is_factory else lambda: deepcopy(given)
        return cls(type(first).__name__, make, size)

    def require(self, kept: Any, contract: str, seen: str) -> None:
        """Raise a CheckError with the contract and what was seen unless it is kept."""
        if not kept:
            raise CheckError(f"{self.name}: {contract}, but {seen}")

    def refuses(self, call: Callable[[], Any], what: str, seen: str) -> None:
        """Raise a CheckError unless the call, which does what is `seen`, ends in an error of the package."""
        contract = f"{what} is refused with an error of treebandit.errors"
        try:
            call()
        except TreebanditError:
            return
        except Exception as error:
            raise CheckError(f"{self.name}: {contract}, but {seen} ended in {error!r}") from error
        self.require(False, contract, f"{seen} was accepted")


S = TypeVar("S", bound=Subject[Any])


def run(contracts: Mapping[str, Callable[[S], None]], examined: S, skip: Collection[str]) -> None:
    """Run the contracts one after the other but for those in `skip`."""
    if isinstance(skip, str) or not isinstance(skip, Collection):
        raise ParameterError(f"skip is {skip!r}; give a list of names")
    if unknown := sorted(set(skip) - set(contracts)):
        raise ParameterError(f"no contract {unknown[0]!r} to skip; there are {', '.join(contracts)}")
    for name, contract in contracts.items():
        if name in skip:
            continue
        try:
            contract(examined)
        except (CheckError, MissingExtraError):
            raise
        except Exception as error:
            raise CheckError(
                f"{examined.name}: the contract {name!r} ended in {type(error).__name__}: {error}"
            ) from error


def check_description(examined: Subject[Any]) -> None:
    """Constructor arguments survive JSON and rebuild the object."""
    made = examined.make()
    contract = "constructor arguments describe an object completely"
    examined.require(dataclasses.is_dataclass(made), contract, "it is not a dataclass, so they are not known")
    try:
        description = json.loads(json.dumps(registry.describe(made)))
        rebuilt = registry.build(description, classes=registry.classes_in(made))
    except Exception as error:
        raise CheckError(
            f"{examined.name}: {contract}, but rebuilding from them ended in {error!r}"
        ) from error
    examined.require(type(rebuilt) is type(made), contract, f"a {type(rebuilt).__name__} came out of them")
    before, after = registry.describe(made), registry.describe(rebuilt)
    examined.require(before == after, contract, f"{before} became {after}")
    again = examined.make()
    examined.require(
        repr(made) == repr(again), contract, f"the same arguments print as {made!r} and {again!r}"
    )


def same(first: Any, second: Any) -> bool:
    """Whether two arrays, or two sequences of arrays, are equal to the last bit."""
    if isinstance(first, list | tuple):
        return len(first) == len(second) and all(same(a, b) for a, b in zip(first, second, strict=True))
    if first is None or second is None:
        return first is second
    one, other = np.asarray(first), np.asarray(second)
    return one.shape == other.shape and np.array_equal(one, other, equal_nan=one.dtype.kind == "f")


def differing(first: Sequence[Any], second: Sequence[Any]) -> list[int]:
    """The first round, counted from 1, in which two plays are not the same; nothing where they all are."""
    return [t for t, (a, b) in enumerate(zip(first, second, strict=True), 1) if not same(a, b)][:1]
