"""What a decision has earned, by the entries of the log that are about it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from treebandit.service.entries import Entry, decision_terms, reward_body

#: The entries about each decision, in their order.
About = dict[str, list[Entry]]
_LAST = 1 << 62


def outcome(entries: Sequence[Entry]) -> tuple[float | list[float] | None, int | None]:
    """The reward of a decision as far as it is known, and when it came; for the log and its readers."""
    decision = next((each for each in entries if each.kind == "decision"), None)
    if decision is None or not decision.body:
        return None, None
    about = {str(decision.decision): list(entries)}
    due = due_of(decision, about, before=_LAST)
    rewards = list(rewards_of(decision, about, before=_LAST, due=due))
    if not rewards or due is None:
        return None, None
    how = decision_terms(decision.body).aggregation
    used = rewards[:1] if how == "first" else rewards
    return aggregated([reward_body(each.body).value for each in used], how), used[-1].time


def aggregated(values: Sequence[float | list[float]], how: str) -> float | list[float]:
    """Several rewards of one decision as one; where some are lists, one per chosen row, all of one length."""
    if how in ("first", "last"):
        return values[0 if how == "first" else -1]
    longest = max((len(value) for value in values if isinstance(value, list)), default=0)
    if longest:
        lists = [value if isinstance(value, list) else [value] * longest for value in values]
        return [float(aggregated(list(row), how)) for row in zip(*lists, strict=True)]  # type: ignore[arg-type]
    total = sum(value for value in values if not isinstance(value, list))
    return total if how == "sum" else total / len(values)


def decision_in(about: About, entry: Entry) -> Entry | None:
    """The decision that an entry is about, if it was there before."""
    for each in about.get(str(entry.decision), ()):
        if each.kind == "decision" and each.place <= entry.place:
            return each
    return None


def is_first(decision: Entry) -> bool:
    """Whether the first reward is learned at once; what counts was set when the decision was made."""
    return bool(decision.body) and decision_terms(decision.body).aggregation == "first"


def fits(reward: Entry, decision: Entry) -> bool:
    """Whether a reward is one number, or one per chosen row. Both must not be erased."""
    return decision_terms(decision.body).takes(reward_body(reward.body).value)


def due_of(decision: Entry, about: About, *, before: int) -> int | None:
    """When a decision's wait ends; None while it awaits its activation."""
    if decision.due is not None:
        return decision.due
    for each in about.get(str(decision.decision), ()):
        if each.kind == "activation" and each.place < before:
            return each.due
    return None


def rewards_of(decision: Entry, about: About, *, before: int, due: int | None) -> Iterator[Entry]:
    """The rewards of a decision that fit it and came before a place, and before the end of its wait."""
    if not decision.body:
        return
    terms = decision_terms(decision.body)
    for each in about.get(str(decision.decision), ()):
        there = each.kind == "reward" and each.place < before and (due is None or each.time < due)
        if there and each.body and terms.takes(reward_body(each.body).value):
            yield each
