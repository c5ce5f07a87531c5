"""Vowpal Wabbit's decision logs, one JSON object a line (`--dsjson`), both ways."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import polars as pl

from treebandit.errors import LogError
from treebandit.evaluation.columns import SCHEMA
from treebandit.evaluation.log import DecisionLog, Duplicates
from treebandit.evaluation.log_files import lines_of, reading, scan_text
from treebandit.files import replacing

_MULTI, _TAG = "_multi", "_tag"
#: A field of our own, which Vowpal Wabbit passes over.
_HOLDOUT = "Holdout"
#: Lines that become one frame at a time.
_LINES = 20_000


def read_dsjson(
    path: str | os.PathLike[str], *, personalizer: bool = False, duplicates: Duplicates = "refuse"
) -> DecisionLog:
    """The log in a dsjson file (also with .gz): contextual bandit events, and rewards that came later.

    The reward is minus the cost. An arm is the `_tag` of its action, or its number from 1 as Vowpal Wabbit counts
    them. As Vowpal Wabbit does, names that begin with an underscore are not read as features, and events marked with
    `_skipLearn` bring no reward. Events without an outcome have the cost that their writer gave, usually 0. Slates, CCB
    and continuous actions are refused, and so are events of different `pdrop`, the probability with which their writer
    dropped events like them: each would stand for 1 / (1 - pdrop) events, and a log has no such weights.

    personalizer: a log of Azure Personalizer, which puts features into lists of its own (`FromUrl` of the context, `j`
    of an action, beside its id in `i`); they are read as its clients send them, so that an agent that learns the log
    takes the same features from the decision service.
    duplicates: 'first' keeps the first of several events with one id; 'refuse' raises a LogError.
    """
    records = _records(path, _unwrapped if personalizer else _features)
    return log_of(records, str(path), duplicates=duplicates)


def log_of(
    records: Iterable[dict[str, Any]], source: str, *, duplicates: Duplicates = "refuse"
) -> DecisionLog:
    """The log of records in the columns of NDJSON, a part at a time."""
    frames, left = [], iter(records)
    with reading(source):
        while part := list(islice(left, _LINES)):
            lines = "\n".join(json.dumps(record, allow_nan=False, ensure_ascii=False) for record in part)
            frames.append(scan_text(lines).collect())
    frame = pl.concat(frames) if frames else pl.DataFrame(schema=SCHEMA)
    return DecisionLog.from_frame(frame, source=source, duplicates=duplicates)


def write_dsjson(log: DecisionLog, path: str | os.PathLike[str]) -> int:
    """Write the decisions that have a reward; gives how many were left out because they have none.

    Every decision must choose one arm and have a probability. An arm's name becomes its `_tag`, which is no feature.
    Where the probabilities of all arms are not known, `a` and `p` hold the chosen one alone. `holdout` becomes a field
    `Holdout`, which Vowpal Wabbit passes over.
    """
    return write_events(
        log, path, lambda record: json.dumps(_event(record), ensure_ascii=False) + "\n", form="dsjson"
    )


def write_events(
    log: DecisionLog, path: str | os.PathLike[str], text: Callable[[dict[str, Any]], str], *, form: str
) -> int:
    """Write the text of each decision that has a reward; gives how many were left out because they have none."""
    left_out = 0
    log.check()
    with reading(os.fspath(path), "written"), replacing(path) as file:
        for record in log.records():
            if "reward" not in record:
                left_out += 1
                continue
            if len(record["chosen"]) != 1 or "probability" not in record:
                raise LogError(
                    f"{log.source}: decision {record['id']!r} chooses several rows or has no probability; {form} "
                    "needs one action and its probability"
                )
            file.write(text(record).encode())
    return left_out


def _records(path: str | os.PathLike[str], features: Callable[[Any], Any]) -> Iterator[dict[str, Any]]:
    dropped: set[float] = set()
    skipped: set[str] = set()
    for number, line in lines_of(Path(path), "a dsjson file"):
        # Writers put checkpoint lines between the events; Vowpal Wabbit skips what does not begin an object.
        if not line.lstrip().startswith(b"{"):
            continue
        try:
            event = json.loads(line)
            found = _record(event, number, features)
            if "chosen" in found:
                dropped.add(float(event.get("pdrop") or 0.0))
            if event.get("_skipLearn"):
                skipped.add(found["id"])
        except (ValueError, KeyError, TypeError, IndexError, AttributeError, ArithmeticError) as error:
            raise LogError(
                f"{path}, line {number}, is no contextual bandit event of dsjson ({error!r})"
            ) from error
        if len(dropped) > 1 or not 0 <= min(dropped, default=0.0) < 1:
            raise LogError(
                f"{path}, line {number}, has events that were dropped with probability (pdrop) "
                f"{' and '.join(f'{each:g}' for each in sorted(dropped))}, so that they do not weigh alike; give "
                "events of one pdrop below 1"
            )
        if "chosen" in found or found["id"] not in skipped:
            yield found


def _record(event: dict[str, Any], number: int, features: Callable[[Any], Any]) -> dict[str, Any]:
    """One event in the columns of a decision log."""
    if "RewardValue" in event:
        late = {"id": event["EventId"], "reward": float(event["RewardValue"])}
        return late | ({"reward_time": event["EnqueuedTimeUtc"]} if "EnqueuedTimeUtc" in event else {})
    context = event["c"]
    actions = context[_MULTI]
    if "_outcomes" in event or "_slots" in context:
        raise LogError("an event of several slots (CCB or slates); only one action a decision can be read")
    tags = [action.get(_TAG) for action in actions]
    state = event.get("VWState") or {}
    known = event.get("_label_cost") is not None and not event.get("_skipLearn")
    return {
        "id": event.get("EventId") or f"line-{number}",
        "time": event.get("Timestamp"),
        "arms": [str(tag) for tag in tags]
        if all(tag is not None for tag in tags)
        else [str(place + 1) for place in range(len(actions))],
        "context": features(context),
        "arm_contexts": [features(action) for action in actions],
        "chosen": [int(event["_labelIndex"]) if "_labelIndex" in event else int(event["_label_Action"]) - 1],
        "probability": float(event["_label_probability"]),
        "probabilities": _by_action(event.get("a"), event.get("p"), len(actions)),
        "reward": 0.0 - float(event["_label_cost"]) if known else None,
        "version": state.get("m"),
        "policy": "Vowpal Wabbit",
        "holdout": held if isinstance(held := event.get(_HOLDOUT), bool) else None,
    }


def _features(context: Any) -> Any:
    """What Vowpal Wabbit reads of a context: names that begin with an underscore are no features."""
    if isinstance(context, dict):
        return {name: _features(value) for name, value in context.items() if not name.startswith("_")}
    return [_features(value) for value in context] if isinstance(context, list) else context


def _unwrapped(context: dict[str, Any]) -> dict[str, Any]:
    """Personalizer's features without its wrapping: objects of one list are one, as the service merges them."""
    whole: dict[str, Any] = {}
    for part in (*context.get("FromUrl", ()), *context.get("j", ())):
        for name, value in _features(part).items():
            before = whole.get(name)
            if isinstance(before, dict) and isinstance(value, dict):
                value = {**before, **value}
            whole[name] = value
    return whole


def _by_action(ranked: Any, chances: Any, size: int) -> list[float] | None:
    """Probabilities in the order of the actions; None where they are not there for all of them."""
    if not ranked or not chances or sorted(ranked) != list(range(1, size + 1)) or len(chances) != size:
        return None
    return [float(chance) for _, chance in sorted(zip(ranked, chances, strict=True))]


def _event(record: dict[str, Any]) -> dict[str, Any]:
    """One decision as an event."""
    size = len(record.get("arms") or record["arm_contexts"])
    own = record.get("arm_contexts") or [{}] * size
    names = record.get("arms")
    context = _named(record.get("context"))
    actions = [({_TAG: names[place]} if names else {}) | _named(each) for place, each in enumerate(own)]
    row = record["chosen"][0]
    probabilities = record.get("probabilities")
    # Where only the chosen action's probability is known, no other action is ranked; Vowpal Wabbit needs one.
    ranked = [row] if probabilities is None else [row, *(place for place in range(size) if place != row)]
    event = {
        "_label_cost": 0.0 - record["reward"],
        "_label_probability": record["probability"],
        "_label_Action": row + 1,
        "_labelIndex": row,
        "Timestamp": record.get("time"),
        "Version": "1",
        "EventId": record["id"],
        "a": [place + 1 for place in ranked],
        "c": {**context, _MULTI: actions},
        "p": [record["probability"]] if probabilities is None else [probabilities[place] for place in ranked],
        "VWState": {"m": record.get("version", "")},
    }
    return event | ({_HOLDOUT: record["holdout"]} if "holdout" in record else {})


def _named(context: Any) -> dict[str, Any]:
    if context is None:
        return {}
    return {name: _readable(value) for name, value in named(context).items()}


def named(context: Any) -> dict[str, Any]:
    """A context as an object: the features of a list, or of a single value, get the names x0, x1 and so on."""
    if isinstance(context, dict):
        return context
    listed = context if isinstance(context, list) else [context]
    return {f"x{place}": value for place, value in enumerate(listed)}


def _readable(value: Any) -> Any:
    """Vowpal Wabbit reads no texts in lists; as an object, each is a feature of its own."""
    if isinstance(value, dict):
        return {name: _readable(inner) for name, inner in value.items()}
    if isinstance(value, list) and any(isinstance(inner, str) for inner in value):
        return {str(inner): True for inner in value if inner is not None}
    return value
