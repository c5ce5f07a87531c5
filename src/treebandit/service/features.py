"""Features of a request as rows that an agent takes: the one place where the service meets the library's columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from treebandit.service.entries import DecisionBody


def candidate_rows(
    agent: Any, body: DecisionBody, chosen: Sequence[int] | None = None
) -> tuple[list[dict[str, Any]], list[str]]:
    """One row of features per candidate, or per chosen one, and their arms."""
    places = range(len(body.arms)) if chosen is None else chosen
    own = body.arm_contexts
    shared = flattened(body.context)
    rows = [shared if own is None else {**shared, **flattened(own[place])} for place in places]
    return [_open(agent, row) for row in rows], [body.arms[place] for place in places]


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


def _open(agent: Any, row: dict[str, Any]) -> dict[str, Any]:
    """The row with the columns that the agent has learned, until agents take new ones by themselves."""
    columns = agent._inputs.columns
    if columns is not None and columns.names:
        return {name: row.get(name) for name in columns.names}
    return row or {"(none)": 0.0}
