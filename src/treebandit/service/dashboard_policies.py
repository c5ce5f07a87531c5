"""What other policies would have earned, from the newest part of the log."""

from __future__ import annotations

from treebandit.errors import TreebanditError
from treebandit.service import export, queries
from treebandit.service.dashboard_bodies import OtherPolicies, OtherPolicy
from treebandit.service.store import BanditRow, Store

#: Decisions that estimates are made of, and arms that they are made for.
_DECISIONS, _ARMS = 4000, 8
#: Decisions that are read at once.
_PAGE = 1000


def other_policies(store: Store, row: BanditRow, arms: list[str]) -> OtherPolicies:
    """Estimates (self-normalised IPS, 95 %) for the uniform policy and for each of these arms, always."""
    config = row.config
    until = 1 << 62
    if config.reward_default is not None:  # else those who do not buy would be left out as long as they may
        until = max(0, row.closed_until - config.wait_us)
    used: list[dict[str, object]] = []
    after: int | None = queries.place_before(store, row, until, _DECISIONS)
    while after is not None:
        records, after = export.records(store, row, after=after, limit=_PAGE, until=until, closed=True)
        # No policy here looks at contexts, which may be large.
        used += [{**each, "context": {}, "arm_contexts": None} for each in records if "reward" in each]
    if not used:
        return OtherPolicies(problem="not enough evidence: no reward is final yet")
    try:
        return _estimated(used, arms[:_ARMS])
    except TreebanditError as error:
        return OtherPolicies(len(used), problem=str(error))


def _estimated(records: list[dict[str, object]], arms: list[str]) -> OtherPolicies:
    from treebandit.evaluation import DecisionLog, evaluate
    from treebandit.evaluation.policies import ArmPolicy, LoggingPolicy, UniformPolicy

    log = DecisionLog.from_records(records, source="the newest decisions")
    sets = any(len(each["chosen"]) > 1 for each in records)  # type: ignore[arg-type]
    estimator = "ips" if sets else "snips"
    named = {
        "what was done": LoggingPolicy(),
        "uniform": UniformPolicy(),
        **{f"always {arm}": ArmPolicy(arm) for arm in arms},
    }
    found = evaluate(log, named, estimators=(estimator,))
    lines = []
    for each in found.policies:
        line = OtherPolicy(each.name, warnings=each.diagnostics.warnings())
        if each.refusal is not None or estimator not in each.estimates:
            line.refusal = each.refusal or "not enough evidence"
        else:
            estimate = each.estimates[estimator].as_dict()
            line.value, line.low, line.high = estimate["value"], estimate["low"], estimate["high"]
        lines.append(line)
    return OtherPolicies(found.used, lines, warnings=found.warnings())
