"""Target policies: what shall be evaluated gives a probability to every candidate of every logged decision."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from reprlib import repr as _short
from typing import Any, Protocol

import numpy as np

from treebandit.core import Floats, optional
from treebandit.errors import InputError, LogError, ParameterError, nearest
from treebandit.evaluation.batches import CONTEXTS, ArmCodes, Batch
from treebandit.evaluation.columns import from_json
from treebandit.oracles import TopK, best_arm
from treebandit.parameters import check_number, check_text


class TargetPolicy(Protocol):
    """Anything that can be evaluated from a log.

    >>> from treebandit.evaluation import UniformPolicy
    >>> UniformPolicy().needs
    ()
    """

    @property
    def needs(self) -> tuple[str, ...]:
        """Columns of the log that `probabilities` reads, besides how many candidates there are."""

    def probabilities(self, batch: Batch, codes: ArmCodes) -> Floats:
        """(m,), the probability that each candidate is chosen; they sum to the number chosen in each decision.

        Decisions that the policy cannot make sum to 0; they are left out, and counted.
        """


@dataclass(frozen=True)
class UniformPolicy:
    """Every candidate alike; where k are chosen, every set of k.

    >>> from treebandit.evaluation import UniformPolicy, evaluate, shop_log
    >>> found = evaluate(shop_log(2_000), {"uniform": UniformPolicy()}, estimators=("ips",))
    >>> found["uniform"].diagnostics.decisions
    2000
    """

    needs = ()

    def probabilities(self, batch: Batch, codes: ArmCodes) -> Floats:
        """k / n for each of n candidates."""
        return np.repeat(batch.chosen_per_decision / batch.offered, batch.offered)


@dataclass(frozen=True)
class ArmPolicy:
    """Always the same arm; decisions that do not offer it are left out.

    arm: its name.

    >>> from treebandit.evaluation import ArmPolicy, evaluate, shop_log
    >>> found = evaluate(shop_log(2_000), {"coffee": ArmPolicy("coffee")}, estimators=("ips",))
    >>> found["coffee"].diagnostics.decisions
    2000
    """

    arm: str
    needs = ("arms",)

    def __post_init__(self) -> None:
        check_text("arm", self.arm)

    def probabilities(self, batch: Batch, codes: ArmCodes) -> Floats:
        """1 for the arm, 0 for all others; an arm offered twice shares it."""
        if batch.arms is None:
            raise LogError(f"the log does not name its arms, so {self.arm!r} cannot be found; log `arms`")
        code = codes.names.index(self.arm) if self.arm in codes.names else -1
        is_arm = (batch.arms == code).astype(np.float64)
        times = batch.sums(is_arm)
        found: Floats = is_arm / np.repeat(np.maximum(times, 1), batch.offered)
        return found


@dataclass(frozen=True)
class LoggingPolicy:
    """What was logged, as it was: its value is the mean reward of the log.

    >>> from treebandit.evaluation import LoggingPolicy, evaluate, shop_log
    >>> found = evaluate(shop_log(2_000), {"as logged": LoggingPolicy()}, estimators=("ips",))
    >>> found["as logged"].diagnostics.decisions
    2000
    """

    needs = ()

    def probabilities(self, batch: Batch, codes: ArmCodes) -> Floats:
        """The logged probabilities; 0 for other candidates where only that of the choice is known."""
        found = np.zeros(batch.size) if batch.marginals is None else np.nan_to_num(batch.marginals)
        found[batch.chosen] = batch.logged
        return found


#: (context, arms, arm_contexts) of one decision -> one probability per candidate.
PolicyFunction = Callable[[Any, list[str] | None, list[Any] | None], Any]


@dataclass(frozen=True)
class FunctionPolicy:
    """A function of one decision's context, arms and arm_contexts, as they were logged, to its probabilities.

    function: that function.

    >>> from treebandit.evaluation import FunctionPolicy, evaluate, shop_log
    >>> first = FunctionPolicy(lambda context, arms, arm_contexts: [1, 0, 0])
    >>> found = evaluate(shop_log(2_000), {"coffee": first}, estimators=("ips",))
    >>> found["coffee"].diagnostics.decisions
    2000
    """

    function: PolicyFunction
    needs = ("arms", *CONTEXTS)

    def probabilities(self, batch: Batch, codes: ArmCodes) -> Floats:
        """What the function gives, checked: one number in [0, 1] per candidate, and the right sum."""
        return _gathered(batch, lambda context, arms, own, chosen: self.function(context, arms, own))


@dataclass(frozen=True)
class AgentPolicy:
    """A frozen agent: how it would decide now, without learning from the log; its clock and random stream stay.

    agent: it decides, and is not changed.
    draws, floor: as in `decide`.

    Decisions of several rows are made by `TopK`.

    >>> from treebandit import LinUCB
    >>> from treebandit.evaluation import AgentPolicy, evaluate, shop_log, warm_start
    >>> agent = LinUCB(seed=0)
    >>> warm_start(agent, shop_log(300, seed=1))
    300
    >>> found = evaluate(shop_log(200), {"new": AgentPolicy(agent)}, estimators=("ips",), anyway=True)
    """

    agent: Any
    draws: int = 100
    floor: float = 0.01
    needs = ("arms", *CONTEXTS)

    def __post_init__(self) -> None:
        if isinstance(self.agent, type) or not callable(getattr(self.agent, "probabilities", None)):
            raise ParameterError(
                f"{self.agent!r} has no method probabilities; give an agent of treebandit, or a function"
            )
        check_number("draws", self.draws, least=1, whole=True)
        check_number("floor", self.floor, least=0, most=1)

    def probabilities(self, batch: Batch, codes: ArmCodes) -> Floats:
        """What a copy of the agent gives for each decision."""
        agent = copy.deepcopy(self.agent)

        def decided(context: Any, arms: Any, own: Any, chosen: int) -> Any:
            oracle = best_arm if chosen == 1 else TopK(chosen)
            rows, labels = rows_of(context, own), labels_of(agent, arms)
            given = agent.probabilities(rows, arms=labels, oracle=oracle, draws=self.draws, floor=self.floor)
            renew_draws(agent)
            return given

        return _gathered(batch, decided)


def _gathered(batch: Batch, give: Callable[[Any, Any, Any, int], Any]) -> Floats:
    """(m,) probabilities of all candidates: what is given for each decision, checked."""
    found = [
        _checked(give(context, arms, own, chosen), size, chosen)
        for context, arms, own, size, chosen in _decisions(batch)
    ]
    return np.concatenate(found) if found else np.zeros(0)


def _checked(given: Any, size: int, chosen: int) -> Floats:
    """What a policy gave for one decision, as `size` numbers in [0, 1] whose sum is how many are chosen."""
    try:
        numbers = np.array(given, np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"the policy gave {given!r}; give one probability per candidate") from error
    if (
        numbers.shape != (size,)
        or not np.isfinite(numbers).all()
        or numbers.min() < 0
        or abs(numbers.sum() - chosen) > 1e-6 * size
    ):
        raise InputError(
            f"the policy gave {numbers.tolist()} for {size} candidates; give one probability per candidate, with "
            f"the sum {chosen}"
        )
    return numbers


def rows_of(context: Any, own: list[Any] | None) -> Any:
    """A decision's contexts as agents take them: one row that all arms share, one row per candidate, or None."""
    try:
        if not context and not any(own or ()):
            return None
        if own is None:
            named = isinstance(context, Mapping) or context is None
            return context if named else np.asarray(context, np.float64)
        if isinstance(context, list) or any(isinstance(each, list) for each in own):
            shared = context or []
            return np.array([[*shared, *(each or [])] for each in own], np.float64)
        return [{**(context or {}), **(each or {})} for each in own]
    except (TypeError, ValueError, OverflowError) as error:
        raise LogError(
            f"a decision has the context {_short(context)} and the arm_contexts {_short(own)}, of which no agent can "
            "make rows; log objects, or lists of as many numbers in every decision"
        ) from error


def labels_of(agent: Any, arms: list[str] | None, *, numbered: bool = False) -> Any:
    """Arms as the agent knows them: a log has whole numbers as text. numbered: they are, whatever it knows."""
    if arms is None or not (numbered or optional(agent, "numbered_arms", False)):
        return arms
    try:
        return [int(arm) for arm in arms]
    except ValueError as error:
        raise LogError(
            f"the log offers {_short(arms)}, and the {type(agent).__name__} has arms that are whole numbers; give an "
            "agent that has learned the arms of this log"
        ) from error


def renew_draws(agent: Any) -> None:
    """Let an agent draw anew: else one unlucky draw would count in the probabilities of all decisions."""
    optional(agent, "renew_draws", lambda: None)()


def _decisions(batch: Batch) -> Iterator[tuple[Any, Any, Any, int, int]]:
    """Context, arms and arm_contexts of each decision, as plain values; how many were offered, and how many chosen."""
    rows = batch.frame.select("context", "arms", "arm_contexts").iter_rows()
    counts = zip(batch.offered.tolist(), batch.chosen_per_decision.tolist(), strict=True)
    for (text, arms, own), (size, chosen) in zip(rows, counts, strict=True):
        context = None if text is None else from_json(text)
        contexts = None if own is None else [None if one is None else from_json(one) for one in own]
        yield context, arms, contexts, size, chosen


def as_policy(given: Any, *, floor: float = 0.01, draws: int = 100) -> tuple[str, TargetPolicy]:
    """A policy and its name: 'uniform', 'logging', 'arm:NAME', a file of an agent, an agent, a function, a policy."""
    if isinstance(given, str | os.PathLike):
        text = os.fspath(given)
        if text == "uniform":
            return text, UniformPolicy()
        if text == "logging":
            return text, LoggingPolicy()
        if text.startswith("arm:"):
            return text, ArmPolicy(text.removeprefix("arm:"))
        if os.path.exists(text):
            from treebandit.saving import load

            return os.path.basename(text), AgentPolicy(load(text), draws=draws, floor=floor)
        raise ParameterError(
            f"policy {text!r} is neither uniform, logging nor arm:NAME, and no such file exists; "
            f"{nearest(text, ('uniform', 'logging'))}give one of these or a saved agent"
        )
    if isinstance(given, type):
        raise ParameterError(f"policy {given.__name__} is a class; give an agent, such as {given.__name__}()")
    if hasattr(given, "needs") and callable(getattr(given, "probabilities", None)):
        return type(given).__name__, given
    if callable(getattr(given, "probabilities", None)):
        return type(given).__name__, AgentPolicy(given, draws=draws, floor=floor)
    if callable(given):
        return getattr(given, "__name__", "function"), FunctionPolicy(given)
    raise ParameterError(f"policy {given!r}; give 'uniform', 'logging', 'arm:NAME', an agent or a function")
