"""How good would other policies have been? Estimates from a decision log, with intervals and what they rest on."""

from __future__ import annotations

import os
import reprlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from treebandit.core import Floats, Indices
from treebandit.errors import LogError, ParameterError, nearest
from treebandit.evaluation import propensities
from treebandit.evaluation.batches import CONTEXTS, ArmCodes, Batch, flat_batches
from treebandit.evaluation.columns import WITHOUT_PROBABILITY
from treebandit.evaluation.diagnostics import LogDiagnostics, WeightDiagnostics
from treebandit.evaluation.estimators import WITHOUT_MODEL, Sample, contributions
from treebandit.evaluation.intervals import check_rewards
from treebandit.evaluation.log import DecisionLog
from treebandit.evaluation.policies import ArmPolicy, LoggingPolicy, TargetPolicy, as_policy
from treebandit.evaluation.propensities import EstimatedPropensities
from treebandit.evaluation.results import Evaluation, PolicyValue
from treebandit.evaluation.reward_models import CrossFitted
from treebandit.evaluation.settings import Settings
from treebandit.evaluation.validation import LogSummary

_SETS_NOTE = (
    "Several rows are chosen at a time: IPS on the marginal probabilities, which assumes that the reward of a row does "
    "not depend on which others are chosen with it, nor on its place among them."
)
_CONTROL_NOTE = (
    "{:,} decisions of a holdout that played one arm for certain are left out for all policies but logging: they tell "
    "nothing of others."
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
    if chosen.reward_range is not None:
        reward = pl.col("reward")
        found = known.frame.select(reward.min(), most=reward.max()).collect()
        check_rewards(chosen.reward_range, *found.row(0))
    control = summary.in_control
    others = pl.lit(True) if control is None else ~control
    told = summary.with_probability == summary.decisions and not summary.sets
    usable, missing = (total, 0) if told and control is None else _counts(known, others)
    wanted = _possible_estimators(chosen, usable, sets=summary.sets)
    notes += _assumptions(chosen, wanted, sets=summary.sets)
    codes, whole, rewards = ArmCodes(), LogDiagnostics(total), []
    model = guess = None
    if not set(wanted) <= set(WITHOUT_MODEL):
        model = CrossFitted.learned(
            known, codes, model=chosen.reward_model, folds=chosen.folds, seed=chosen.seed, where=others
        )
    if not all(isinstance(target, LoggingPolicy) for target in targets.values()):
        if control is not None:
            notes.insert(0, _CONTROL_NOTE.format(summary.control))
        few = missing < min(2 * chosen.folds, usable)
        if missing:
            notes.insert(0, propensities.too_few(missing) if few else propensities.warning(missing, usable))
        if missing and not few:
            unknown = others & WITHOUT_PROBABILITY
            guess = EstimatedPropensities.learned(
                known, codes, folds=chosen.folds, seed=chosen.seed, where=unknown
            )
    guessed = 10 * missing > usable  # fewer guesses than that move the mean weight by little
    collected = [_Collected(name, target) for name, target in targets.items()]
    held: list[Indices] = []
    contexts = model is not None or guess is not None
    for batch in _batches(known, codes, targets, contexts=contexts, control=control):
        whole.add_arms(batch)
        rewards.append(batch.reward)
        held.append(batch.numbers[batch.control])
        predicted = None if model is None else model.predict(batch)
        for part in collected:
            if isinstance(part.target, LoggingPolicy):
                part.add_logged(batch, predicted)
        if predicted is not None:
            predicted = predicted[np.repeat(~batch.control, batch.offered)]
        batch = batch.without_control(codes)
        if not len(batch):
            continue
        if guess is None:
            whole.add_calibration(batch)
        logged = batch.logged if guess is None else guess.filled(batch)
        for part in collected:
            if not isinstance(part.target, LoggingPolicy):
                part.add(batch, codes, logged, predicted)
    return Evaluation(
        source=log.source,
        decisions=summary.decisions,
        used=total,
        policies=[part.valued(wanted, chosen, guessed=guessed) for part in collected],
        notes=notes + _unknown_arms(targets, codes),
        log=whole,
        arms=codes.names,
        level=chosen.level,
        interval=chosen.interval,
        reward=np.concatenate(rewards),
        control=np.concatenate(held),
    )


def _targets(policies: Any, settings: Settings) -> dict[str, TargetPolicy]:
    def named(given: Any) -> tuple[str, TargetPolicy]:
        return as_policy(given, draws=settings.draws, floor=settings.floor)

    if isinstance(policies, Mapping):
        pairs = [(str(name), named(each)[1]) for name, each in policies.items()]
    else:
        given = [policies] if isinstance(policies, str) or not isinstance(policies, Sequence) else policies
        pairs = [named(each) for each in given]
        names = Counter(name for name, _ in pairs)
        pairs = [
            (os.fspath(each) if names[name] > 1 and isinstance(each, str | os.PathLike) else name, policy)
            for each, (name, policy) in zip(given, pairs, strict=True)
        ]
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
        rows, missing_reward = pl.col("chosen").list.len(), pl.lit(settings.missing_reward, pl.Float64)
        filled = log.frame.with_columns(
            reward=pl.col("reward").fill_null(missing_reward),
            rewards=pl.when(pl.col("reward").is_null())
            .then((missing_reward / rows).repeat_by(rows))
            .otherwise("rewards"),
        )
        return DecisionLog(filled, log.source), notes
    notes.append(
        f"{missing:,} of {summary.decisions:,} decisions have no reward and are left out; where no reward means 0, "
        "give missing_reward=0."
    )
    return log.rewarded(), notes


def _possible_estimators(settings: Settings, total: int, *, sets: bool) -> tuple[str, ...]:
    """Those of the estimators asked for that a log of so many decisions allows."""
    wanted = settings.estimators
    if sets:
        if "ips" not in wanted:
            raise ParameterError(
                f"{', '.join(wanted)} are for decisions of one row; this log chooses several: use ips"
            )
        return ("ips",)
    without = tuple(name for name in wanted if name in WITHOUT_MODEL)
    # Too few to learn a model from are too few for an answer, too, and the result says so.
    return without if without and total < 2 * settings.folds else wanted


def _assumptions(settings: Settings, wanted: tuple[str, ...], *, sets: bool) -> list[str]:
    notes = [_SETS_NOTE] if sets else []
    if "dm" in wanted:
        notes.append("The interval of dm does not count the error of its reward model: it is too short.")
    if settings.interval == "time-uniform" and settings.reward_range is None:
        notes.append(
            "Time-uniform intervals take the rewards of the log, 0 and 1 for the least and greatest possible ones; "
            "give reward_range where others are possible."
        )
    return notes


def _unknown_arms(targets: Mapping[str, TargetPolicy], codes: ArmCodes) -> list[str]:
    return [
        f"No decision offers the arm {target.arm!r}; {nearest(target.arm, codes.names)}there are "
        f"{reprlib.repr(codes.names)[1:-1]}."
        for target in targets.values()
        if isinstance(target, ArmPolicy) and target.arm not in codes.names
    ]


def _counts(log: DecisionLog, others: pl.Expr) -> tuple[int, int]:
    """How many decisions are of no control group, and how many of them do not tell how likely their rows were."""
    found = log.frame.select(others.alias("usable"), missing=others & WITHOUT_PROBABILITY).sum().collect()
    usable, missing = found.row(0)
    return int(usable), int(missing)


def _batches(
    log: DecisionLog,
    codes: ArmCodes,
    targets: Mapping[str, TargetPolicy],
    *,
    contexts: bool,
    control: pl.Expr | None,
) -> Iterator[Batch]:
    """The log with what the policies, and models where there are any, need of it."""
    needs = {column for target in targets.values() for column in target.needs}
    if contexts:
        needs |= {*CONTEXTS, "arms"}
    arms: Literal["all", "chosen"] = "all" if "arms" in needs else "chosen"
    return flat_batches(log, codes, columns=tuple(sorted(needs)), arms=arms, control=control)


@dataclass
class _Collected:
    """What one policy's pass over the log keeps: a few numbers per decision.

    shares: how many rows the policy plays for each that is chosen in the log; the least and the greatest.
    row_rewards, most_rows: the least and the greatest reward of a row, 0 and 1 among them, and how many rows the policy
        plays at most.
    squares: sum of the squared weights that logged probabilities lead to expect of `support_known` decisions.
    played, missed: the policy's probability of all arms, and of those with a logged one of 0.
    """

    name: str
    target: TargetPolicy
    numbers: list[Indices] = field(default_factory=list)
    weight: list[Floats] = field(default_factory=list)
    reward: list[Floats] = field(default_factory=list)
    chosen: list[Floats] = field(default_factory=list)
    value: list[Floats] = field(default_factory=list)
    shares: tuple[float, float] | None = None
    row_rewards: tuple[float, float] = (0.0, 1.0)
    most_rows: float = 0.0
    squares: float = 0.0
    played: float = 0.0
    missed: float = 0.0
    supported: int = 0
    support_known: int = 0
    left_out: int = 0

    def add(self, batch: Batch, codes: ArmCodes, logged: Floats, predicted: Floats | None) -> None:
        """Take the policy's weights, rewards and predictions of one batch."""
        probabilities = self.target.probabilities(batch, codes)
        weight = probabilities[batch.chosen] / logged
        played = batch.sums(probabilities)
        kept = played > 0
        self.left_out += len(batch) - int(kept.sum())
        kept &= ~np.isnan(batch.chosen_sums(logged))
        self.numbers.append(batch.numbers[kept])
        if len(batch.chosen) == len(batch):
            self.weight.append(weight[kept])
            self.reward.append(batch.reward[kept])
            if predicted is not None:
                self.chosen.append(predicted[batch.chosen][kept])
                self.value.append(batch.sums(probabilities * predicted)[kept])
        elif np.isnan(batch.rewards).any():
            raise LogError(
                "the log chooses several rows at a time and tells only the sum of their rewards; log `rewards`, one "
                "per chosen row"
            )
        else:
            self._add_sets(batch, weight, np.where(kept, played, 1.0), kept)
        self._add_range(batch.rewards[kept[batch.owner]], played[kept])
        if batch.marginals is not None:
            self._add_expected(batch, probabilities, batch.marginals, kept)

    def _add_sets(self, batch: Batch, weight: Floats, played: Floats, kept: NDArray[np.bool_]) -> None:
        """One weight, with the mean 1, and one reward per decision, whose product is Σ w r over its chosen rows.

        The reward is that of as many rows as the policy plays, if each paid the mean of the chosen rows by their
        weights: it lies between what so many rows can bring.
        """
        total = batch.chosen_sums(weight)
        by_weight = np.where(total[batch.owner] > 0, weight, 1.0)
        mean = batch.chosen_sums(by_weight * batch.rewards) / batch.chosen_sums(by_weight)
        self.weight.append((total / played)[kept])
        self.reward.append((mean * played)[kept])
        shares = [*(self.shares or ()), *(played / batch.chosen_per_decision)[kept]]
        self.shares = (min(shares), max(shares)) if shares else None

    def _add_range(self, rewards: Floats, played: Floats | Indices) -> None:
        """Take in the rewards of rows, and how many rows the policy plays in each decision."""
        least, most = self.row_rewards
        self.row_rewards = float(rewards.min(initial=least)), float(rewards.max(initial=most))
        self.most_rows = float(played.max(initial=self.most_rows))

    def add_logged(self, batch: Batch, predicted: Floats | None) -> None:
        """The logging policy's own value needs no model: w is 1 and the predictions cancel."""
        self.numbers.append(batch.numbers)
        self.weight.append(np.ones(len(batch)))
        self.reward.append(batch.reward)
        rows = batch.chosen_per_decision
        shared = (batch.reward / rows)[batch.owner]
        self._add_range(np.where(np.isnan(batch.rewards), shared, batch.rewards), rows)
        self.support_known += len(batch)
        self.supported += len(batch)
        if predicted is not None:
            self.chosen.append(predicted[batch.chosen])
            self.value.append(predicted[batch.chosen])

    def _add_expected(
        self, batch: Batch, probabilities: Floats, marginals: Floats, kept: NDArray[np.bool_]
    ) -> None:
        """Take in Σ π² / h, the mean of w² that logged probabilities h lead to expect, and where they are 0.

        Where several rows are chosen, w is the sum of up to m rows' weights over the number k of rows that the policy
        plays, and m / k² · Σ π² / h the most that the mean of w² can be.
        """
        known = kept & ~np.isnan(marginals[batch.starts])
        possible, played = marginals > 0, batch.sums(probabilities)[known]
        missed = batch.sums(np.where(possible, 0.0, probabilities))[known]
        most = np.minimum(batch.chosen_per_decision, batch.sums((probabilities > 0).astype(np.float64)))[
            known
        ]
        with np.errstate(all="ignore"):  # an h near the least number there is promises nothing
            squares = batch.sums(np.where(possible, probabilities**2 / marginals, 0.0))[known]
            self.squares += float((squares * most / played**2).sum())
        self.support_known += len(missed)
        self.supported += int((missed <= 1e-9).sum())
        self.missed += float(missed.sum())
        self.played += float(played.sum())

    def valued(self, wanted: tuple[str, ...], settings: Settings, *, guessed: bool) -> PolicyValue:
        """The policy's diagnostics, and its estimates where the diagnostics allow them."""
        sample = Sample(
            _joined(self.reward),
            _joined(self.weight),
            np.concatenate(self.chosen) if self.chosen else None,
            np.concatenate(self.value) if self.value else None,
        )
        support = self.supported / self.support_known if self.support_known and len(sample) else None
        # Of the decisions whose probabilities are all known; the others are taken to be like them.
        expected_effective = self.support_known / self.squares * len(sample) if self.squares > 0 else None
        covered = 1 - self.missed / self.played if self.played > 0 else None
        diagnostics = WeightDiagnostics.of(
            sample.weight,
            sample.reward,
            support=support,
            left_out=self.left_out,
            expected_effective=expected_effective,
            covered=covered,
        )
        refusal = diagnostics.refusal(settings.least_effective, guessed=guessed)
        kind, numbers = type(self.target).__name__, _joined(self.numbers).astype(np.intp)
        least, most = (self.most_rows * reward for reward in self.row_rewards)
        values = PolicyValue(
            name=self.name,
            kind=kind,
            diagnostics=diagnostics,
            sample=sample,
            numbers=numbers,
            settings=settings,
            shares=self.shares or (1.0, 1.0),
            rewards=(least, most),
            refusal=refusal,
        )
        if len(sample) and (refusal is None or settings.anyway):
            for estimator in wanted:
                values.add(estimator, contributions(estimator, sample, settings.tuning))
        return values


def _joined(parts: list[Any]) -> Any:
    return np.concatenate(parts) if parts else np.zeros(0)
