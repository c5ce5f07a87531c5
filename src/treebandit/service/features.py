"""Features of a request as rows that an agent takes: the one place where the service uses the library's columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from treebandit.errors import InputError
from treebandit.service.bodies import Arm, DecisionRequest, Features
from treebandit.service.entries import DecisionBody

if TYPE_CHECKING:
    from treebandit.service.runtime import Limits


def candidate_rows(body: DecisionBody, chosen: Sequence[int] | None = None) -> tuple[Any, list[str]]:
    """Features as an agent takes them, of all candidates or of the chosen ones, and their arms.

    One row where all candidates share it and none is picked out. A feature of an arm hides one of the context that has
    the same name. Agents take nested rows and new columns by themselves (`new_columns=True`).
    """
    if body.arm_contexts is None and chosen is None:
        return body.context, body.arms
    places = range(len(body.arms)) if chosen is None else chosen
    own = body.arm_contexts
    rows = [body.context if own is None else {**body.context, **own[place]} for place in places]
    return rows, [body.arms[place] for place in places]


def check_size(asked: DecisionRequest, limits: Limits) -> int:
    """Refuse more arms or features than are allowed, before they cost anything; how many values an agent will read."""
    if len(asked.arms) > limits.candidates:
        raise InputError(f"{len(asked.arms)} arms; offer at most {limits.candidates}")
    if len(asked.slots or ()) > limits.slots:
        raise InputError(f"{len(asked.slots or ())} slots; ask for at most {limits.slots}")
    context = _checked_count(asked.context, limits)
    own = [_checked_count(each.features, limits) for each in asked.arms if isinstance(each, Arm)]
    slots = [_checked_count(each.features, limits) for each in asked.slots or ()] or [0]
    rows = len(asked.arms) if any(own) else 1
    values = sum(rows * (context + slot) for slot in slots) + len(slots) * sum(own)
    if values > (most := limits.candidates * limits.features):
        raise InputError(
            f"{values:,} features of all arms and slots; send fewer, at most {most:,} in one decision"
        )
    return values


def _checked_count(features: Features, limits: Limits) -> int:
    count = _count(features, limits) if features else 0
    if count > limits.features:
        raise InputError(
            f"a row has more than {limits.features} features, with the objects and lists around them; send fewer"
        )
    return count


def _count(value: Any, limits: Limits) -> int:
    """How many values there are in one another, as far as it matters; an empty object or list costs as a number does.

    JSON has no other containers. Texts and names of features are refused where they are too long: a model keeps them.
    """
    total = 0
    if type(value) is dict:
        for name in value:
            _check_text(name, limits)
    for part in value.values() if type(value) is dict else value:
        total += 1
        if type(part) is str:
            _check_text(part, limits)
        elif type(part) in (dict, list):
            total += _count(part, limits)
        if total > limits.features:
            break
    return total


def _check_text(text: str, limits: Limits) -> None:
    if len(text) > limits.text:
        raise InputError(
            f"a feature has a text or name of {len(text):,} characters, {text[:40]!r}…; send at most {limits.text:,}, "
            "such as a category"
        )
