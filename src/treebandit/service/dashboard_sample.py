"""What a sample of decisions with their bodies shows: exploration, features that decide, features that changed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from treebandit.core import Floats
from treebandit.errors import TreebanditError
from treebandit.features.flatten import flattened
from treebandit.service.dashboard_bodies import Exploration, Feature
from treebandit.service.entries import DecisionBody, decision_body
from treebandit.service.queries import SampledDecision
from treebandit.service.times import iso

#: Features that are looked at; rows may have thousands.
_FEATURES = 200
#: Groups that numbers are put into.
_GROUPS = 8
#: A feature has changed where its distributions differ by this much, and by chance once in ten million times.
_CHANGE, _SURPRISE = 0.25, 1e-7
_LEAST = 100


class Seen(NamedTuple):
    """A sampled decision, read. best: what the policy held for best; floored: only the floor tries other arms."""

    time: int
    body: DecisionBody
    features: dict[str, Any]
    best: str | None
    floored: bool
    not_best: bool
    by_floor: float


class Change(NamedTuple):
    """A feature that is not what it was. how: 'distribution', 'type', or 'missing'."""

    feature: str
    how: str
    before: str
    after: str


def read(sampled: Iterable[SampledDecision], floor: float) -> list[Seen]:
    """The decisions of the policy among them; those of the holdout and erased ones are left out."""
    found = []
    for each in sampled:
        if each.holdout or not each.body:
            continue
        body = decision_body(each.body)
        try:
            features = dict(list(flattened(body.context).values.items())[:_FEATURES])
        except TreebanditError:  # the agent refused it too
            features = {}
        body.context, body.arm_contexts = {}, None  # what is kept must not be large
        found.append(_seen(each.time, body, features, floor))
    return found


def _seen(time: int, body: DecisionBody, features: dict[str, Any], floor: float) -> Seen:
    marginal = np.array(body.probabilities or [], np.float64)
    if len(marginal) < 2 or len(body.chosen) != 1 or body.policy != "agent" or marginal.max() >= 1.0:
        return Seen(time, body, features, None, False, False, 0.0)
    floor_share = floor / np.count_nonzero(marginal)  # excluded arms have none
    best = int(marginal.argmax())
    chosen = body.chosen[0]
    others = np.delete(marginal, best)
    return Seen(
        time,
        body,
        features,
        body.arms[best],
        bool((others <= floor_share * (1 + 1e-6)).all()),
        bool(marginal[chosen] < marginal[best]),
        # How probably it was the floor that chose this arm, given that it was chosen.
        float(min(1.0, floor_share / max(marginal[chosen], 1e-12))),
    )


def exploration(seen: Sequence[Seen], since: int, step: int) -> list[Exploration]:
    """How much was tried, in spans of time."""
    by: dict[int, list[Seen]] = {}
    for each in seen:
        if each.best is not None:
            by.setdefault((each.time - since) // step, []).append(each)
    return [
        Exploration(
            iso(since + bucket * step),
            float(np.mean([each.body.probability for each in part])),
            float(np.mean([each.not_best for each in part])),
            float(np.mean([each.by_floor for each in part])),
        )
        for bucket, part in sorted(by.items())
    ]


def deciding_features(seen: Sequence[Seen], most: int = 8) -> list[Feature]:
    """Which features go with which arm is best: mutual information as a share of the arms' entropy.

    Corrected by what as many random groups would have (Miller and Madow), and of each feature alone: two that say the
    same both have a share.
    """
    used = [each for each in seen if each.best is not None]
    arms = np.unique([str(each.best) for each in used], return_inverse=True)[1] if used else np.zeros(0, int)
    if len(used) < _LEAST or not len(arms) or arms.max() == 0:
        return []
    entropy = _entropy(arms)
    found = []
    for name in dict.fromkeys(name for each in used for name in each.features):
        groups = _groups([each.features.get(name) for each in used])
        kinds, count = int(groups.max()) + 1, int(arms.max()) + 1
        if kinds < 2 or kinds > len(used) / 10:
            continue
        shared = entropy + _entropy(groups) - _entropy(groups * count + arms)
        shared -= (kinds - 1) * (count - 1) / (2 * len(used))
        if shared > 0.01 * entropy:
            found.append(Feature(name, float(min(1.0, shared / entropy))))
    return sorted(found, key=lambda each: (-each.share, each.feature))[:most]


def changes(seen: Sequence[Seen]) -> list[Change]:
    """Features that are different in the newest quarter of the sample than in its older half."""
    before, after = seen[: len(seen) // 2], seen[len(seen) - len(seen) // 4 :]
    if len(after) < _LEAST:
        return []
    found = []
    for name in dict.fromkeys(name for each in (*before, *after) for name in each.features):
        absent = 0 if "=" in name else None  # an item that is not in its list
        old = [each.features.get(name, absent) for each in before]
        new = [each.features.get(name, absent) for each in after]
        change = _change(name, old, new)
        if change is not None:
            found.append(change)
    return found


def _change(name: str, old: list[Any], new: list[Any]) -> Change | None:
    had, has = ([one for one in part if one is not None] for part in (old, new))
    shares = len(had) / len(old), len(has) / len(new)
    if shares[0] - shares[1] > 0.5 and shares[1] < 0.1:
        return Change(name, "missing", f"{shares[0]:.0%}", f"{shares[1]:.0%}")
    if len(had) < _LEAST or len(has) < _LEAST:
        return None
    kinds = _kind(had), _kind(has)
    if kinds[0] != kinds[1]:
        return Change(name, "type", *kinds)
    if kinds[0] == "number":
        a, b = np.array(had, np.float64), np.array(has, np.float64)
        if _differ(_distance(a, b), len(a), len(b)):
            return Change(name, "distribution", f"about {np.median(a):.3g}", f"about {np.median(b):.3g}")
        return None
    values = sorted({str(one) for one in (*had, *has)})
    if len(values) > len(has) / 5:  # ids and the like
        return None
    texts = [str(one) for one in had], [str(one) for one in has]
    shares_of = [np.array([part.count(v) / len(part) for v in values]) for part in texts]
    if not _differ(float(np.abs(shares_of[0] - shares_of[1]).sum() / 2), len(had), len(has)):
        return None
    most = int(np.abs(shares_of[0] - shares_of[1]).argmax())
    shown = [f"{values[most]} in {part[most]:.0%}" for part in shares_of]
    return Change(name, "distribution", *shown)


def _differ(distance: float, n: int, m: int) -> bool:
    """Large, and larger than chance makes it (Kolmogorov's bound)."""
    return distance > _CHANGE and 2 * np.exp(-2 * distance**2 * n * m / (n + m)) < _SURPRISE


def _distance(a: Floats, b: Floats) -> float:
    """The greatest difference between two distribution functions."""
    at = np.concatenate([a, b])
    below = [np.searchsorted(np.sort(part), at, side="right") / len(part) for part in (a, b)]
    return float(np.abs(below[0] - below[1]).max())


def _kind(values: list[Any]) -> str:
    """What most of them are."""
    kinds = [
        "flag" if isinstance(one, bool) else "number" if isinstance(one, int | float) else "text"
        for one in values
    ]
    return max(("number", "text", "flag"), key=kinds.count)


def _groups(values: list[Any]) -> Any:
    """Values as groups from 0 on: numbers by their rank, others by themselves; missing ones are a group."""
    there = [one for one in values if one is not None]
    if there and _kind(there) == "number" and len(set(map(str, there))) > _GROUPS:
        numbers = np.array([one if isinstance(one, int | float) else np.nan for one in values], np.float64)
        edges = np.unique(np.nanquantile(numbers, np.linspace(0, 1, _GROUPS + 1)[1:-1]))
        group = np.searchsorted(edges, numbers, side="right")
        group[np.isnan(numbers)] = len(edges) + 1
        return np.unique(group, return_inverse=True)[1]
    return np.unique([str(one) for one in values], return_inverse=True)[1]


def _entropy(groups: Any) -> float:
    shares = np.bincount(groups) / len(groups)
    shares = shares[shares > 0]
    return float(-(shares * np.log(shares)).sum())
