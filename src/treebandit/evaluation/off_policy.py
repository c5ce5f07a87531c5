"""How good would other policies have been? Estimates from a decision log, with intervals and what they rest on."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import polars as pl

from treebandit.core import Floats
from treebandit.errors import LogError, ParameterError, nearest
from treebandit.evaluation import propensities
from treebandit.evaluation.batches import CONTEXTS, ArmCodes, Batch, flat_batches
from treebandit.evaluation.diagnostics import LogDiagnostics, WeightDiagnostics
from treebandit.evaluation.estimators import WITHOUT_MODEL, Sample, contributions
from treebandit.evaluation.log import DecisionLog
from treebandit.evaluation.policies import ArmPolicy, LoggingPolicy, TargetPolicy, UniformPolicy, as_policy
from treebandit.evaluation.results import Evaluation, PolicyValue
from treebandit.evaluation.reward_models import CrossFitted
from treebandit.evaluation.settings import Settings
from treebandit.evaluation.validation import LogSummary

_SETS_NOTE = (
    "Several rows are chosen at a time: IPS on the marginal probabilities, which assumes that the reward of a row does "
    "not depend on which others are chosen with it, nor on its place among them."
)


def evaluate(log: DecisionLog, policies: Mapping[str, Any] | Sequence[Any], **settings: Any) -> Evaluation:
    """What each policy would have earned per decision, had it decided instead.

    policies: 'uniform', 'logging', 'arm:NAME', the file of a saved agent, an agent, or a function (context, arms,
        arm_contexts) -> probabilities; in a list, or in a dict by the names that results shall have.
    settings: those of `Settings`.

    The log is read a batch at a time; a few numbers per decision and policy stay in memory.
    """
    chosen = Settings(**settings)
    targets = _targets(policies, chosen)
    summary = log.check()
    known, notes = _with_rewards(log, summary, chosen)
    total = len(known)
    if not total:
        raise LogError(
            f"{log.source} has no decision with a reward; join the rewards, or give missing_reward"
        )
    return _Pass(known, targets, chosen, summary, total, notes).run()


def _targets(policies: Any, settings: Settings) -> dict[str, TargetPolicy]:
    if isinstance(policies, Mapping):
        found = {
            str(name): as_policy(each, draws=settings.draws, floor=settings.floor)[1]
            for name, each in policies.items()
        }
    else:
        given = [policies] if isinstance(policies, str) or not isinstance(policies, Sequence) else policies
        pairs = [as_policy(each, draws=settings.draws, floor=settings.floor) for each in given]
        found = dict(pairs)
        if len(found) < len(pairs):
            raise ParameterError("two policies have the same name; give a dict with a name for each")
    if not found:
        raise ParameterError("no policy; give at least one, such as 'uniform'")
    return found


def _with_rewards(log: DecisionLog, summary: LogSummary, settings: Settings) -> tuple[DecisionLog, list[str]]:
    missing = summary.decisions - summary.rewarded
    notes = []
    if log.lost:
        notes.append(f"{log.lost:,} late rewards belong to no decision of this log.")
    if log.repeated:
        notes.append(f"{log.repeated:,} rewards were replaced by a later one of the same decision.")
    if not missing:
        return log, notes
    if settings.missing_reward is not None:
        notes.append(f"{missing:,} decisions without a reward count as {settings.missing_reward:g}.")
        filled = log.frame.with_columns(pl.col("reward").fill_null(settings.missing_reward))
        return DecisionLog(filled, log.source), notes
    notes.append(
        f"{missing:,} of {summary.decisions:,} decisions have no reward and are left out; where no reward means 0, "
        "give missing_reward=0."
    )
    return log.rewarded(), notes


@dataclass
class _Collected:
    """What one policy's pass over the log keeps: a few numbers per decision."""

    weight: list[Floats] = field(default_factory=list)
    reward: list[Floats] = field(default_factory=list)
    chosen: list[Floats] = field(default_factory=list)
    value: list[Floats] = field(default_factory=list)
    pair_weight: list[Floats] = field(default_factory=list)
    squares: float = 0.0
    promised_for: int = 0
    supported: int = 0
    support_known: int = 0
    left_out: int = 0


@dataclass
class _Pass:
    """One evaluation: models first, then one pass over the log for all policies."""

    log: DecisionLog
    targets: dict[str, TargetPolicy]
    settings: Settings
    summary: LogSummary
    total: int
    notes: list[str]

    def run(self) -> Evaluation:
        """All policies, evaluated."""
        settings = self.settings
        codes = ArmCodes()
        wanted = settings.estimators
        if self.summary.sets:
            wanted = self._for_sets(wanted)
        if self.total < 2 * settings.folds and any(name in WITHOUT_MODEL for name in wanted):
            # Too few to learn a model from; they are too few for an answer, too, and the result says so.
            wanted = tuple(name for name in wanted if name in WITHOUT_MODEL)
        modelled = any(name not in WITHOUT_MODEL for name in wanted)
        model = self._model(codes) if modelled else None
        missing = self._missing()
        guess = self._guess(codes, missing) if missing else None
        self._tell_assumptions(wanted)
        whole = LogDiagnostics(self.total)
        collected = {name: _Collected() for name in self.targets}
        needs = {column for target in self.targets.values() for column in target.needs}
        if modelled or guess is not None:
            needs |= {*CONTEXTS, "arms"}
        times: list[Floats] = []
        whose: Literal["all", "chosen"] = "all" if "arms" in needs else "chosen"
        for batch in flat_batches(self.log, codes, columns=tuple(sorted(needs)), arms=whose):
            logged = batch.logged
            if guess is not None:
                guessed = guess.probabilities(batch)
                logged = np.where(np.isnan(logged), guessed[batch.chosen], logged)
            else:
                whole.add_calibration(batch)
            if batch.chosen_arms is not None:
                whole.add_arms(batch.numbers[batch.owner], batch.chosen_arms, batch.rewards)
            predicted = None if model is None else model.predict(batch)
            for name, target in self.targets.items():
                _collect(collected[name], target, batch, codes, logged, predicted)
            times.append(batch.reward)
        values = [
            _valued(name, self.targets[name], part, wanted, settings) for name, part in collected.items()
        ]
        self._tell_unknown_arms(codes)
        return Evaluation(
            source=self.log.source,
            decisions=self.summary.decisions,
            used=self.total,
            policies=values,
            notes=self.notes,
            log=whole,
            arms=codes.names,
            level=settings.level,
            interval=settings.interval,
            reward=np.concatenate(times),
        )

    def _for_sets(self, wanted: tuple[str, ...]) -> tuple[str, ...]:
        self.notes.append(_SETS_NOTE)
        if "ips" not in wanted:
            raise ParameterError(
                f"{', '.join(wanted)} are for decisions of one row; this log chooses several: use ips"
            )
        return ("ips",)

    def _tell_assumptions(self, wanted: tuple[str, ...]) -> None:
        if "dm" in wanted:
            self.notes.append(
                "The interval of dm does not count the error of its reward model: it is too short."
            )
        if self.settings.interval == "time-uniform" and self.settings.reward_range is None:
            self.notes.append(
                "Time-uniform intervals take the rewards of the log, 0 and 1 for the least and greatest possible "
                "ones; give reward_range where others are possible."
            )

    def _tell_unknown_arms(self, codes: ArmCodes) -> None:
        for target in self.targets.values():
            if isinstance(target, ArmPolicy) and target.arm not in codes.names:
                self.notes.append(
                    f"No decision offers the arm {target.arm!r}; {nearest(target.arm, codes.names)}there are "
                    f"{reprlib.repr(codes.names)[1:-1]}."
                )

    def _missing(self) -> int:
        unknown = pl.col("probability").is_null() & pl.col("probabilities").is_null()
        if self.summary.sets:
            unknown = pl.col("probabilities").is_null() & (
                (pl.col("chosen").list.len() > 1) | pl.col("probability").is_null()
            )
        if self.summary.with_probability == self.summary.decisions and not self.summary.sets:
            return 0
        return int(self.log.frame.select(unknown.sum()).collect().item())

    def _model(self, codes: ArmCodes) -> CrossFitted:
        settings = self.settings
        return CrossFitted.learned(
            self.log, codes, model=settings.reward_model, folds=settings.folds, seed=settings.seed
        )

    def _guess(self, codes: ArmCodes, missing: int) -> propensities.EstimatedPropensities | None:
        if all(isinstance(target, LoggingPolicy) for target in self.targets.values()):
            return None
        self.notes.insert(0, propensities.warning(missing, self.total))
        return propensities.EstimatedPropensities.learned(
            self.log, codes, folds=self.settings.folds, seed=self.settings.seed
        )


def _collect(
    part: _Collected,
    target: TargetPolicy,
    batch: Batch,
    codes: ArmCodes,
    logged: Floats,
    predicted: Floats | None,
) -> None:
    """Take a policy's weights, rewards and predictions of one batch."""
    probabilities = None
    covered = batch.marginals is not None and batch.marginals.min(initial=1.0) > 0
    if isinstance(target, LoggingPolicy):
        weight = np.ones(len(batch.chosen))
        part.support_known += len(batch)
        part.supported += len(batch)
    elif isinstance(target, UniformPolicy) and predicted is None and (covered or batch.marginals is None):
        # Nothing but the chosen candidates is needed: a tenth of the work where ten arms are offered.
        weight = (batch.chosen_per_decision / batch.offered)[batch.owner] / logged
        part.support_known += len(batch) * covered
        part.supported += len(batch) * covered
        if covered and batch.marginals is not None:
            share = batch.chosen_per_decision / batch.offered
            with np.errstate(
                over="ignore"
            ):  # probabilities near the least number there is: nothing is promised
                _promise(part, batch, share**2 * batch.sums(1 / batch.marginals))
    else:
        probabilities = target.probabilities(batch, codes)
        weight = probabilities[batch.chosen] / logged
    if len(batch.chosen) == len(batch):
        kept: Any = slice(None)
        if probabilities is not None:
            possible = batch.sums(probabilities) > 0
            kept = possible if not possible.all() else slice(None)
            part.left_out += int(len(batch) - possible.sum())
        part.weight.append(weight[kept])
        part.reward.append(batch.reward[kept])
        if predicted is not None:
            part.chosen.append(predicted[batch.chosen][kept])
            # The logging policy's own value needs no model: w is 1 and the predictions cancel.
            value = (
                predicted[batch.chosen] if probabilities is None else batch.sums(probabilities * predicted)
            )
            part.value.append(value[kept])
    else:
        logging = isinstance(target, LoggingPolicy)
        if np.isnan(batch.rewards).any() and not logging:
            raise LogError(
                "the log chooses several rows at a time and tells only the sum of their rewards; log `rewards`, one "
                "per chosen row"
            )
        earned = batch.reward if logging else batch.chosen_sums(weight * batch.rewards)
        part.reward.append(earned)
        part.weight.append(np.ones(len(batch)))
    part.pair_weight.append(weight)
    if probabilities is not None and batch.marginals is not None:
        known = ~np.isnan(batch.marginals)
        uncovered = batch.sums(((probabilities > 1e-12) & known & (batch.marginals <= 0)).astype(np.float64))
        part.support_known += len(batch)
        part.supported += int((uncovered == 0).sum())
        squares = np.zeros(batch.size)
        with np.errstate(over="ignore"):
            np.divide(probabilities**2, batch.marginals, out=squares, where=known & (batch.marginals > 0))
            _promise(part, batch, batch.sums(squares))


def _promise(part: _Collected, batch: Batch, squares: Floats) -> None:
    """Take in Σ π² / h, the mean of w² that the logged probabilities lead to expect in each decision."""
    part.squares += float(squares.sum())
    part.promised_for += int(batch.chosen_per_decision.sum())


def _valued(
    name: str, target: TargetPolicy, part: _Collected, wanted: tuple[str, ...], settings: Settings
) -> PolicyValue:
    """One policy's diagnostics, and its estimates where the diagnostics allow them."""
    sample = Sample(
        np.concatenate(part.reward),
        np.concatenate(part.weight),
        np.concatenate(part.chosen) if part.chosen else None,
        np.concatenate(part.value) if part.value else None,
    )
    weights = np.concatenate(part.pair_weight)
    if part.left_out:
        weights = sample.weight
    support = part.supported / part.support_known if part.support_known and len(sample) else None
    # Of the decisions whose probabilities are all known; the others are taken to be like them.
    known = part.promised_for
    promised = None
    if known and part.squares > 0:
        promised = known**2 / part.squares * len(weights) / known
    diagnostics = WeightDiagnostics.of(weights, support=support, left_out=part.left_out, promised=promised)
    refusal = diagnostics.refusal(settings.least_effective)
    values = PolicyValue(name, type(target).__name__, diagnostics, sample, refusal=refusal)
    if refusal is None or settings.anyway:
        for estimator in wanted:
            if len(sample):
                values.add(estimator, contributions(estimator, sample, settings.tuning), settings)
    return values
