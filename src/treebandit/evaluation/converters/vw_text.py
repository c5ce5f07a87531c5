"""Vowpal Wabbit's text format of contextual bandits with action features (`--cb_adf`), both ways.

An event is a line per action, a `shared` line before them where actions share features, and an empty line after them:

    shared |User city=Kiel hour:9
    0:-1:0.5 |Drink coffee price:2.5
    |Drink tea

The label is action:cost:probability, on the line of the chosen action.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from treebandit.errors import LogError
from treebandit.evaluation.converters.vw_json import log_of, named, write_events
from treebandit.evaluation.log import DecisionLog
from treebandit.evaluation.log_files import lines_of

#: Characters that separate things in Vowpal Wabbit's text; in names they become underscores.
_SPECIAL = re.compile(r"[\s|:]")


def read_vw_text(path: str | os.PathLike[str]) -> DecisionLog:
    """The log in a text file of `--cb_adf` (also with .gz). The reward is minus the cost.

    Namespaces become nested objects of features: {"User": {"city=Kiel": 1, "hour": 9}}; features outside of any
    namespace stand at the top. Arms are the tags of the lines where every line has one, else the numbers of the actions
    from 0. Events without a label are no decisions, and are left out.
    """
    return log_of(_records(path), str(path))


def write_vw_text(log: DecisionLog, path: str | os.PathLike[str]) -> int:
    """Write the decisions that have a reward; gives how many were left out because they have none.

    Numbers become `name:value`, texts `name=text`, true `name`; false and null are left out, as Vowpal Wabbit's own
    JSON reader does. Blanks, colons and bars in names become underscores.
    """
    return write_events(log, path, lambda record: "\n".join(_lines(record)) + "\n\n", form="--cb_adf")


def _records(path: str | os.PathLike[str]) -> Iterator[dict[str, Any]]:
    place = Path(path)
    event: list[str] = []
    started = 0
    for number, line in lines_of(place, "a text file of Vowpal Wabbit"):
        if line.strip():
            started = started if event else number
            event.append(line.decode().rstrip("\r\n"))
        elif event:
            yield from _decision(event, place, started)
            event = []
    if event:
        yield from _decision(event, place, started)


def _decision(lines: list[str], place: Path, number: int) -> Iterator[dict[str, Any]]:
    """The decision that the lines of one event tell; nothing where no action has a label."""
    try:
        parsed = [_parsed(line) for line in lines]
        shared = parsed.pop(0) if parsed[0][0] == "shared" else None
        labelled = [row for row, (label, _, _) in enumerate(parsed) if label]
        if any(label == "shared" for label, _, _ in parsed):
            raise ValueError("a second shared line")
        if not labelled:
            return
        if len(labelled) > 1:
            raise ValueError(f"{len(labelled)} actions have a label")
        row = labelled[0]
        parts = parsed[row][0].split(":")
        if len(parts) != 3:
            raise ValueError(f"the label {parsed[row][0]!r} is not action:cost:probability")
        cost, probability = _number(parts[1]), _number(parts[2])
    except ValueError as error:
        raise LogError(f"{place}, the event from line {number} on: {error}") from error
    tags = [tag for _, tag, _ in parsed]
    yield {
        "id": f"line-{number}",
        "arms": tags if all(tags) else [str(place) for place in range(len(parsed))],
        "context": shared[2] if shared else None,
        "arm_contexts": [features for _, _, features in parsed],
        "chosen": [row],
        "probability": probability,
        "reward": 0.0 - cost,
        "policy": "Vowpal Wabbit",
    }


def _parsed(line: str) -> tuple[str, str, dict[str, Any]]:
    """Label, tag and features of a line."""
    before, *spaces = line.split("|")
    words = before.split()
    # A tag touches the bar, or begins with an apostrophe; "shared" and a label are the first word.
    tag = ""
    if words and (words[-1].startswith("'") or (not before[-1:].isspace() and words[-1] != "shared")):
        tag = words.pop().lstrip("'")
    label = words[0] if words else ""
    if ":" in tag and not label:
        label, tag = tag, ""
    features: dict[str, Any] = {}
    for space in spaces:
        _add_namespace(space, features)
    return label, tag, features


def _add_namespace(space: str, features: dict[str, Any]) -> None:
    """Add the features between two bars, under the namespace's name; its own value multiplies them."""
    words = space.split()
    scale, name = 1.0, ""
    if words and not space[0].isspace():
        name, _, factor = words.pop(0).partition(":")
        scale = _number(factor) if factor else 1.0
    found = features.setdefault(name, {}) if name else features
    for word in words:
        feature, colon, value = word.partition(":")
        number = _number(value) if colon else 1.0
        if not isinstance(found, dict) or isinstance(found.get(feature), dict):
            raise ValueError("a feature and a namespace have the same name; rename one of them")
        found[feature] = found.get(feature, 0.0) + scale * number


def _number(text: str) -> float:
    """A finite number."""
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text!r} is not a finite number")
    return number


def _lines(record: dict[str, Any]) -> Iterator[str]:
    size = len(record.get("arms") or record["arm_contexts"])
    own = record.get("arm_contexts") or [None] * size
    names = record.get("arms") or [""] * size
    if record.get("context"):
        yield f"shared {_text(record['context'])}"
    row = record["chosen"][0]
    for place in range(size):
        label = f"0:{0.0 - record['reward']!r}:{record['probability']!r} " if place == row else ""
        tag = f"'{_SPECIAL.sub('_', names[place])}" if names[place] else ""
        yield f"{label}{tag}{_text(own[place])}"


def _text(context: Any) -> str:
    """Features as namespaces; those outside of any come first."""
    if context is None:
        return "|"
    context = named(context)
    spaces = {"": [word for name, value in context.items() for word in _words(name, value)]}
    for name, value in context.items():
        if isinstance(value, dict):
            spaces[_SPECIAL.sub("_", name)] = [
                word for part, inner in _flat(value) for word in _words(part, inner)
            ]
    texts = [f"|{name} {' '.join(words)}".rstrip() for name, words in spaces.items() if words or name]
    return " ".join(texts) or "|"


def _flat(value: dict[str, Any], front: str = "") -> Iterator[tuple[str, Any]]:
    for name, inner in value.items():
        if isinstance(inner, dict):
            yield from _flat(inner, f"{front}{name}.")
        else:
            yield f"{front}{name}", inner


def _words(name: str, value: Any) -> Iterator[str]:
    name = _SPECIAL.sub("_", name)
    if value is True:
        yield name
    elif isinstance(value, str):
        yield f"{name}={_SPECIAL.sub('_', value)}"
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield name if value == 1 else f"{name}:{float(value)!r}"
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            yield from _words(f"{name}.{place}" if not isinstance(inner, str) else name, inner)
