"""What somebody has to know now: one plain sentence each, and what to do."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import NamedTuple

from treebandit.service.config import BanditConfig
from treebandit.service.dashboard_bodies import Alert
from treebandit.service.dashboard_sample import Change, Seen
from treebandit.service.dashboard_sums import number, summed
from treebandit.service.queries import Cell

#: An alert by chance alone comes less often than this.
_SURPRISE = 1e-6
#: Decisions that the beginning and the end of a comparison need.
_LEAST = 100
#: Alerts of one kind, at most; what follows is counted.
_MOST = 3


class Silence(NamedTuple):
    """Since the last reward: how many seconds, and decisions whose reward should have come; share: that had one."""

    seconds: float
    decisions: int
    share: float


def alerts(
    *,
    config: BanditConfig,
    cells: Sequence[Cell],
    buckets: int,
    seen: Sequence[Seen],
    changes: Sequence[Change],
    silence: Silence | None,
    refused: int,
    skipped: int = 0,
    missing: dict[str, str],
) -> list[Alert]:
    """All that hold; the most urgent first."""
    found = [Alert("service", f"The service is not whole: {what}: {why}.", "Look into its log.")
             for what, why in missing.items()]  # fmt: skip
    if silence is not None and silent(silence):
        says = f"No reward has come for {duration(silence.seconds)}, though {silence.decisions:,} decisions could have"
        usual = f" one; usually {silence.share:.0%} do."
        found.append(
            Alert("rewards", says + usual, "Check what sends rewards: its queue, its key, the ids it sends.")
        )
    found += _first_ones(_collapsed(cells, buckets))
    found += _first_ones(_changed(changes))
    if refused:
        says = f"{refused:,} requests for decisions were refused as invalid in the last minutes."
        found.append(Alert("refused", says, "Read the 400 answers: they name the feature of a wrong type."))
    if skipped:
        says = f"{skipped:,} {'reward' if skipped == 1 else 'rewards'} could not be learned by the newest versions."
        do = "Send each feature with one type from its first decision on; see `skipped` of the versions."
        found.append(Alert("skipped", says, do))
    floor = _floor(seen, config)
    return [*found, floor] if floor else found


def silent(silence: Silence) -> bool:
    """Whether so many decisions without a reward are no chance."""
    share = min(silence.share, 0.99)
    return share > 0 and silence.decisions * math.log1p(-share) < math.log(_SURPRISE)


def _collapsed(cells: Sequence[Cell], buckets: int) -> Iterable[Alert]:
    """Arms that earned in the older half and hardly do in the newest quarter, or are hardly shown any more."""
    by: dict[str, list[Cell]] = {}
    for each in cells:
        by.setdefault(each.arm, []).append(each)
    starts = _parts(cells, buckets)
    totals = [_shown(cells, 0, starts[0]), _shown(cells, starts[1], buckets)]
    for arm, own in sorted(by.items()):
        before = summed(c for c in own if c.bucket < starts[0])
        after = summed(c for c in own if c.bucket >= starts[1])
        if min(before.size, after.size) >= _LEAST and before.mean > 0:
            error = math.hypot(before.error, after.error)
            if after.mean < before.mean / 2 and before.mean - after.mean > 5 * error:
                says = f"The arm {arm} earns {number(after.mean)} per decision; before it was {number(before.mean)}."
                yield Alert(
                    "arm", says, "See whether it still works: sold out, a broken link, a wrong reward."
                )
                continue
        if min(totals) >= _LEAST:
            shares = _shown(own, 0, starts[0]) / totals[0], _shown(own, starts[1], buckets) / totals[1]
            if shares[0] >= 0.25 and shares[1] <= 0.03:
                says = f"The arm {arm} was shown in {shares[0]:.0%} of decisions, and now in {shares[1]:.0%}."
                yield Alert("arm", says, "Nothing, if others have become better; else look at its rewards.")


def _parts(cells: Sequence[Cell], buckets: int) -> tuple[int, int]:
    """The buckets that end the older half of all final decisions, and begin their newest quarter."""
    counts = [0] * buckets
    for each in cells:
        counts[each.bucket] += each.final
    upto = list(accumulate(counts))
    half = next((i for i, n in enumerate(upto) if 2 * n >= upto[-1]), 0) + 1
    quarter = next((i for i, n in enumerate(upto) if 4 * n >= 3 * upto[-1]), 0)
    return half, max(half, quarter)


def _shown(cells: Iterable[Cell], start: int, end: int) -> int:
    return sum(c.decisions for c in cells if not c.holdout and start <= c.bucket < end)


def _changed(changes: Iterable[Change]) -> Iterable[Alert]:
    for each in changes:
        if each.how == "missing":
            says = f"The feature {each.feature} was there in {each.before} of decisions, and now in {each.after}."
            yield Alert(
                "feature", says, "Send it again, or stop to rely on it: the model takes it as missing."
            )
        elif each.how == "type":
            says = f"The feature {each.feature} was a {each.before} and is now a {each.after}."
            yield Alert("feature", says, "Send it as before, or under another name.")
        else:
            says = f"The feature {each.feature} has changed: {each.before} before, {each.after} now."
            yield Alert(
                "feature", says, "Check its source; if visitors have changed, the bandit will follow."
            )


def _first_ones(found: Iterable[Alert]) -> list[Alert]:
    alerts = list(found)
    if len(alerts) > _MOST:
        kind, more = alerts[0].kind, len(alerts) - _MOST
        return [
            *alerts[:_MOST],
            Alert(kind, f"The same holds for {more:,} more.", "See the API for all of them."),
        ]
    return alerts


def _floor(seen: Sequence[Seen], config: BanditConfig) -> Alert | None:
    """The policy is sure of itself nearly always: nothing but the floor tries other arms."""
    newest = [each for each in seen if each.best is not None][-500:]
    if len(newest) < _LEAST or config.mode != "online":
        return None
    share = sum(each.floored for each in newest) / len(newest)
    if share < 0.95:
        return None
    says = f"The floor binds: in {share:.0%} of the newest decisions only the floor of {config.floor:.1%}"
    return Alert(
        "floor", f"{says} tries other arms.", "Nothing, if tastes are stable; raise `floor` if they change."
    )


def duration(seconds: float) -> str:
    """A time in words."""
    for size, unit in ((86_400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} seconds"
