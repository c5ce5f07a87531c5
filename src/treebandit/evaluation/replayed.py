"""A learning agent on a log: it learns only what it would have chosen itself."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np

from treebandit.core import Floats
from treebandit.errors import LogError, ParameterError
from treebandit.evaluation.batches import LEAST_LOGGED
from treebandit.evaluation.diagnostics import rare_rewards
from treebandit.evaluation.intervals import Interval, normal, standard_error
from treebandit.evaluation.log import DecisionLog
from treebandit.evaluation.policies import labels_of, renew_draws, rows_of
from treebandit.parameters import check_number

#: Of these many decisions in a hundred the logged probability is below the default of `least_probability`.
_CLIPPED_PERCENT = 5.0


@dataclass(frozen=True)
class Replayed:
    """What a learning agent earned per decision on a log.

    value: mean reward of the events it accepted, which it learned.
    interval: of that mean; where rewards are rare, at least that of a share.
    estimate, error: progressive IPS over all events, each weighted by what the agent, as it was then, would have done.
    used, seen: events accepted, and all of them.
    clipped: events whose logged probability was below `least_probability`, which are accepted too rarely.
    rewards: of the events accepted, in their order.

    >>> from treebandit import LinUCB
    >>> from treebandit.evaluation import replay, shop_log
    >>> played = replay(shop_log(300, policy="uniform"), LinUCB(seed=0))
    >>> played.used < played.seen
    True
    """

    value: float
    interval: Interval
    estimate: float
    error: float
    used: int
    seen: int
    clipped: int
    rewards: Floats


def replay(
    log: DecisionLog,
    agent: Any,
    *,
    least_probability: float | None = None,
    draws: int = 100,
    floor: float = 0.01,
    seed: int = 0,
) -> Replayed:
    """Show the log to a copy of the agent, event by event; it learns those that it accepts.

    At each event the agent's own probabilities π are asked first. Its weight for the logged choice is π / h. Then the
    event is accepted with probability π · least / h, so that the accepted ones are those of the agent's own decisions
    (rejection sampling); only those are learned. For a uniform log this is: choose, and keep the event
    if the choice is the logged one. A holdout that always got the same arm is left out.

    least_probability: `least`; the smaller, the fewer events are accepted. None: the smallest logged probability of a
        uniform log, else the one that 5 % of the decisions lie below; these are accepted too rarely, and counted.
    """
    check_number("least_probability", least_probability, above=0, most=1, optional=True)
    check_number("seed", seed, least=0, whole=True)
    if isinstance(agent, type) or not callable(getattr(agent, "probabilities", None)):
        raise ParameterError(f"{agent!r} has no method probabilities; give an agent of treebandit")
    log, _, _ = log.without_control()
    known = _logged(log)
    if least_probability is None:
        least_probability = least_logged(known, uniform=not len(known) or bool(np.ptp(known) <= 1e-9))
    learner, random = copy.deepcopy(agent), np.random.default_rng(seed)
    weights: list[float] = []
    paid: list[float] = []
    rewards: list[float] = []
    clipped = 0
    for record in log.records():
        if "reward" not in record:
            continue
        names, own = record.get("arms"), record.get("arm_contexts")
        contexts = rows_of(record.get("context"), own)
        labels, row = labels_of(learner, names), record["chosen"][0]
        chances = learner.probabilities(contexts, arms=labels, draws=draws, floor=floor)
        chance, reward = float(chances[row]), record["reward"]
        logged = max(record["probability"], LEAST_LOGGED)
        renew_draws(learner)
        weights.append(chance / logged)
        paid.append(reward)
        clipped += logged < least_probability - 1e-12
        if random.random() >= chance * min(1.0, least_probability / logged):
            continue
        rewards.append(reward)
        chosen = contexts if own is None or contexts is None else contexts[row : row + 1]
        labelled = {} if labels is None else {"arms": [labels[row]], "new_arms": True}
        learner.learn(chosen, [reward], **labelled)
    if not weights:
        raise LogError(f"{log.source} has no decision with a reward; nothing to replay")
    got, (weight, reward_of_all) = np.array(rewards), (np.array(weights), np.array(paid))
    value, interval = float(got.mean()) if len(got) else np.nan, normal(got)
    if rare := rare_rewards(np.ones(len(got)), got):
        interval = interval.joined(rare.interval(value))
    weighted = weight * reward_of_all
    estimate, error = float(weighted.mean()), standard_error(weighted)
    if rare := rare_rewards(weight, reward_of_all):
        error = max(error, rare.error(estimate))
    return Replayed(value, interval, estimate, error, len(got), len(weighted), clipped, got)


def least_logged(logged: Floats, *, uniform: bool) -> float:
    """What `least_probability` is by default: the least of a uniform log, else what some of the decisions lie below."""
    return float(logged.min(initial=1.0) if uniform else np.percentile(logged, _CLIPPED_PERCENT))


def _logged(log: DecisionLog) -> Floats:
    frame = log.rewarded().frame.select("probability", "chosen").collect()
    if frame["probability"].null_count():
        raise LogError(f"{log.source} has decisions without a probability; a replay needs them all")
    if (frame["chosen"].list.len() > 1).any():
        raise LogError(f"{log.source} chooses several rows at a time; a replay needs one")
    return frame["probability"].to_numpy()
