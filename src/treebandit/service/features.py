"""Features of a request as rows that an agent takes: the one place where the service meets the library's columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from treebandit.errors import InputError
from treebandit.service.bodies import Arm, DecisionRequest
from treebandit.service.entries import DecisionBody

if TYPE_CHECKING:
    from treebandit.service.runtime import Limits


def candidate_rows(
    agent: Any, body: DecisionBody, chosen: Sequence[int] | None = None
) -> tuple[list[dict[str, Any]], list[str]]:
    """One row of features per candidate, or per chosen one, and their arms."""
    places = range(len(body.arms)) if chosen is None else chosen
    own = body.arm_contexts
    shared = flattened(body.context)
    rows = [shared if own is None else {**shared, **flattened(own[place])} for place in places]
    names = dict.fromkeys(name for row in rows for name in row)
    return [_open(agent, row, names) for row in rows], [body.arms[place] for place in places]


def flattened(features: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested objects as `a.b`; a list of texts as one indicator per text, of numbers as `a.0`, `a.1`."""
    flat: dict[str, Any] = {}
    for key, value in features.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            flat.update(flattened(value, f"{name}."))
        elif isinstance(value, list):
            for number, item in enumerate(value):
                if isinstance(item, Mapping):
                    flat.update(flattened(item, f"{name}.{number}."))
                elif isinstance(item, str):
                    flat[f"{name}.{item}"] = 1.0
                else:
                    flat[f"{name}.{number}"] = item
        else:
            flat[name] = value
    return flat


def _open(agent: Any, row: dict[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """The row with the columns that the agent has learned, until agents take new ones by themselves."""
    columns = agent._inputs.columns
    if columns is not None and columns.names:
        return {name: row.get(name) for name in columns.names}
    return {name: row.get(name) for name in names} or {"(none)": 0.0}


def check_size(asked: DecisionRequest, limits: Limits) -> None:
    """Refuse more arms or features than are allowed, before they cost anything."""
    if len(asked.arms) > limits.candidates:
        raise InputError(f"{len(asked.arms)} arms; offer at most {limits.candidates}")
    own = [each.features for each in asked.arms if isinstance(each, Arm)]
    slots = [each.features for each in asked.slots or ()]
    for features in (asked.context, *own, *slots):
        if features and _count(features, limits.features) > limits.features:
            raise InputError(f"a row has more than {limits.features} features; send fewer")


def _count(value: Any, most: int) -> int:
    """How many values there are in one another, as far as it matters."""
    if not isinstance(value, Mapping | list):
        return 1
    total = 0
    for part in value.values() if isinstance(value, Mapping) else value:
        total += _count(part, most)
        if total > most:
            break
    return total
