"""What to look at before an estimate: whether the log can tell anything of the target policy."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from treebandit.core import Floats
from treebandit.evaluation.batches import Batch
from treebandit.evaluation.intervals import RareRewards

#: Below this effective sample size there is no estimate: the interval itself cannot be believed.
LEAST_EFFECTIVE = 30.0
#: The mean weight is 1 but for chance; outside of these limits the log misses most of what the policy plays, or one
#: decision is most of it. With an effective sample size of 30 chance alone goes there once in some hundred logs.
MEAN_WEIGHT_LIMITS = (0.5, 2.0)
#: Inside of them a mean weight is refused that differs from 1 by more than chance explains, so many standard errors,
#: and by more than this share. Both: in a long log a harmless difference is many standard errors.
_MOST_ERRORS, _MOST_OFF = 4.0, 0.1
#: Where fewer decisions, by their effective sample size, have another reward than the most common one, deviations of
#: rewards are not known well enough for an interval.
LEAST_DIFFERING = 10.0
#: At least this share of what the policy plays must have had a probability above 0 in the log.
LEAST_COVERED = 0.9
#: Bins of equal probability for calibration.
_EDGES = np.array([0.0, 0.001, 0.003, 0.01, 0.03, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.97, 1.0])
#: Parts of the log, in its order, that drift compares.
_PARTS = 10
#: The policy has changed where a part differs by so much, and by what chance brings in at most so many stationary logs.
_LEAST_DRIFT, _FALSE_DRIFT = 0.1, 0.01
#: Calibration looks at no more decisions than about twice this number, taken evenly from the log.
_MOST_CALIBRATED = 100_000


def effective_sample_size(weight: Floats) -> float:
    """(Σ w)² / Σ w²: how many decisions of the target policy itself the weighted ones are worth."""
    largest = float(weight.max(initial=0.0))
    if largest == 0:
        return 0.0
    scaled = weight / largest  # squares of weights near the limits of floats would be infinite
    return float(scaled.sum()) ** 2 / float((scaled**2).sum())


def _differing(weight: Floats, reward: Floats) -> float:
    """How many decisions of the target policy have another reward than most of them (effective sample size)."""
    counted = weight > 0
    values, counts = np.unique(reward[counted], return_counts=True)
    if not len(values):
        return 0.0
    return effective_sample_size(weight[counted & (reward != values[counts.argmax()])])


def rare_rewards(weight: Floats, reward: Floats) -> RareRewards | None:
    """The decisions as those of rare rewards, which are taken to be possible from 0 to 1; None where enough differ."""
    found = WeightDiagnostics.of(weight, reward)
    possible = float(reward.min(initial=0.0)), float(reward.max(initial=1.0))
    return RareRewards(max(found.effective, 1.0), possible) if found.rare else None


@dataclass(frozen=True, slots=True)
class WeightDiagnostics:
    """Of the weights of one target policy.

    decisions: how many weights.
    effective: how many decisions of the target policy itself they are worth (effective sample size).
    largest_weight: of one decision.
    mean_weight: near 1 where logged probabilities are true and the log supports the policy.
    mean_weight_error: its standard error.
    matched: share with a weight above 0.
    support: share of the decisions in which every arm that the target could play could also have been logged; None
        where the log does not tell the probabilities of arms that were not chosen.
    expected_effective: the effective sample size that the logged probabilities of all arms lead to expect; None where
        they are not known. The one found is too large while decisions of great weight are still to come.
    left_out: decisions that the policy cannot make.
    covered: share of the policy's own probability that lies on arms with a logged probability above 0; None where
        these are not known. What the policy would earn with the rest is not in the log.
    differing: effective sample size of the decisions that have another reward than the most common one; None where
        rewards are not given.

    >>> import numpy as np
    >>> from treebandit.evaluation import WeightDiagnostics
    >>> WeightDiagnostics.of(np.array([0.0, 2.0, 2.0, 0.0])).effective
    2.0
    """

    decisions: int
    effective: float
    largest_weight: float
    mean_weight: float
    mean_weight_error: float
    matched: float
    support: float | None
    left_out: int = 0
    expected_effective: float | None = None
    covered: float | None = None
    differing: float | None = None

    @classmethod
    def of(
        cls,
        weight: Floats,
        reward: Floats | None = None,
        *,
        support: float | None = None,
        left_out: int = 0,
        expected_effective: float | None = None,
        covered: float | None = None,
    ) -> WeightDiagnostics:
        """The diagnostics of (n,) weights, and of the rewards that they belong to."""
        n = len(weight)
        if n == 0:
            return cls(0, 0.0, 0.0, 0.0, np.nan, 0.0, support, left_out, expected_effective, covered)
        scale = float(weight.max()) or 1.0
        error = float((weight / scale).std(ddof=1) / np.sqrt(n) * scale) if n > 1 else np.nan
        sizes = effective_sample_size(weight), float(weight.max()), float(weight.mean())
        differing = None if reward is None else _differing(weight, reward)
        return cls(
            n,
            *sizes,
            error,
            float((weight > 0).mean()),
            support,
            left_out,
            expected_effective,
            covered,
            differing,
        )

    @property
    def rare(self) -> bool:
        """Whether too few decisions have another reward than the most common one for the usual intervals."""
        return self.differing is not None and self.differing < LEAST_DIFFERING

    def refusal(self, least: float = LEAST_EFFECTIVE, *, guessed: bool = False) -> str | None:
        """Why there is not enough evidence, and what log would give it; None where there is enough.

        guessed: probabilities were estimated, so that a mean weight inside of MEAN_WEIGHT_LIMITS is good enough.
        """
        if least == 0:
            return None
        if self.decisions == 0:
            return "not enough evidence: no decision of the log can be used for this policy"
        if self.matched == 0:
            return (
                "not enough evidence: the log never chose what this policy would; log decisions that give every arm a "
                "probability (a floor)"
            )
        if self.covered is not None and self.covered < LEAST_COVERED:
            return (
                f"not enough evidence: {100 * (1 - self.covered):.0f} % of what this policy plays had probability 0 in "
                f"the log ({100 * (1 - LEAST_COVERED):.0f} % are allowed), and what it would earn there is not known, "
                "however long the log. Needed: a log that gives each arm of this policy a probability (a floor)"
            )
        if self.effective >= least:
            return self._unseen(least, guessed=guessed)
        factor = least / max(self.effective, 1e-9)
        bound = self.decisions / least
        return (
            f"not enough evidence: {self.decisions:,} decisions are worth {self.effective:.3g} of this policy's own "
            f"(effective sample size; {least:g} are needed), and one decision has the weight "
            f"{self.largest_weight:,.0f} of {self.mean_weight * self.decisions:,.0f} in all. Needed: about "
            f"{_rounded(self.decisions * factor)} decisions logged like these, or as many as here with weights of at "
            f"most {bound:,.0f}: what this policy plays with probability p must have been logged with at least "
            f"p / {bound:,.0f}"
        )

    def _unseen(self, least: float, *, guessed: bool) -> str | None:
        """Why the decisions found, though enough of them, are not those that count; None where they are."""
        if (expected := self.expected_effective) is not None and expected < least:
            return (
                f"not enough evidence: what this policy plays was logged so rarely that {self.decisions:,} decisions "
                f"are worth about {expected:.3g} of its own by the logged probabilities ({least:g} are needed); "
                "the decisions of great weight are still to come. Needed: about "
                f"{_rounded(self.decisions * least / max(expected, 1e-9))} decisions logged like these, or larger "
                "probabilities of what this policy plays"
            )
        low, high = MEAN_WEIGHT_LIMITS
        if low < self.mean_weight < high and (guessed or not self._off_by_more_than(_MOST_OFF)):
            return None
        return (
            f"not enough evidence: the mean weight is {self.mean_weight:.2f} ± {self.mean_weight_error:.2f} and should "
            "be 1, so the log holds too little of what this policy plays, or its probabilities are not true. Needed: a "
            "log that gives each arm of this policy a probability (a floor), with true probabilities"
        )

    def _off_by_more_than(self, share: float) -> bool:
        """Whether the mean weight differs from 1 by more than this and more than chance explains."""
        return self.decisions > 1 and abs(self.mean_weight - 1) > max(
            share, _MOST_ERRORS * self.mean_weight_error
        )

    def warnings(self) -> list[str]:
        """What makes an estimate doubtful although there is one."""
        found = []
        if self.support is not None and self.support < 1 - 1e-9:
            found.append(
                f"in {100 * (1 - self.support):.1f} % of the decisions the policy may play an arm that had probability "
                "0 in the log: what it would earn there is not in the estimate"
            )
        if self._off_by_more_than(1e-9):
            found.append(
                f"the mean weight is {self.mean_weight:.3f} ± {self.mean_weight_error:.3f}, and should be 1: logged "
                "probabilities are not true, or arms of the policy were logged never, or too rarely for a log this long"
            )
        if self.rare:
            found.append(
                f"only about {self.differing:.2g} decisions of this policy have another reward than the most common "
                f"one ({LEAST_DIFFERING:g} are needed for the usual interval): the interval is at least that of a "
                "share between the least and the greatest reward of the log, 0 and 1, or reward_range"
            )
        if self.left_out:
            found.append(f"{self.left_out:,} decisions are left out: the policy cannot make them")
        return found

    def as_dict(self) -> dict[str, Any]:
        """The diagnostics as plain numbers."""
        return asdict(self)


def _rounded(count: float) -> str:
    """Two digits are all that such a number is worth."""
    digits = max(0, int(np.floor(np.log10(max(count, 1)))) - 1)
    return f"{int(round(count, -digits)):,}"


@dataclass
class LogDiagnostics:
    """Of the log itself, gathered a batch at a time: calibration of its probabilities, and drift of its policy.

    total: decisions of the log.
    logged, seen, variance, count: of candidates by their logged probability: the sum of probabilities, how many were
        chosen, the variance of that number, and how many candidates.
    shares: of the arms, in ten parts of the log.
    rewards: of the arms: number, sum and sum of squares.

    Calibration needs the probabilities of all candidates: of those said to be chosen with probability about p, a share
    p was chosen. Drift compares the shares of the arms in ten parts of the log, in its order.

    >>> from treebandit.evaluation import evaluate, shop_log
    >>> found = evaluate(shop_log(2_000), ["arm:coffee"], estimators=("ips",))
    >>> found.log.total
    2000
    """

    total: int
    logged: Floats = field(default_factory=lambda: np.zeros(len(_EDGES) - 1))
    seen: Floats = field(default_factory=lambda: np.zeros(len(_EDGES) - 1))
    variance: Floats = field(default_factory=lambda: np.zeros(len(_EDGES) - 1))
    count: Floats = field(default_factory=lambda: np.zeros(len(_EDGES) - 1))
    shares: Floats = field(default_factory=lambda: np.zeros((_PARTS, 0)))
    rewards: Floats = field(default_factory=lambda: np.zeros((3, 0)))

    def add_calibration(self, batch: Batch) -> None:
        """Take in the probabilities of all candidates of every so many decisions; nothing where they are not known."""
        if batch.marginals is None or np.isnan(batch.marginals).any():
            return
        marginals, chosen = batch.marginals, np.zeros(batch.size, np.bool_)
        chosen[batch.chosen] = True
        every = max(1, self.total // _MOST_CALIBRATED)
        if every > 1 and np.ptp(batch.offered) == 0:
            kept, width = batch.numbers % every == 0, int(batch.offered[0])
            marginals, chosen = (each.reshape(-1, width)[kept].ravel() for each in (marginals, chosen))
        size = len(_EDGES) - 1
        bins = np.clip(np.searchsorted(_EDGES, marginals, side="left") - 1, 0, size - 1)
        self.logged += np.bincount(bins, marginals, size)
        self.variance += np.bincount(bins, marginals * (1 - marginals), size)
        self.count += np.bincount(bins, minlength=size)
        self.seen += np.bincount(bins[chosen], minlength=size)

    def add_arms(self, batch: Batch) -> None:
        """Take in the chosen arms and their rewards; nothing where arms have no names."""
        if batch.chosen_arms is None:
            return
        arms, numbers = batch.chosen_arms, batch.numbers[batch.owner]
        more = max(int(arms.max(initial=-1)) + 1 - self.shares.shape[1], 0)
        self.shares, self.rewards = (
            np.pad(each, ((0, 0), (0, more))) for each in (self.shares, self.rewards)
        )
        width = self.shares.shape[1]
        part = np.minimum(numbers * _PARTS // max(self.total, 1), _PARTS - 1)
        self.shares += np.bincount(part * width + arms, minlength=_PARTS * width).reshape(_PARTS, width)
        paid = np.nan_to_num(batch.rewards)
        sums = [np.bincount(arms, each, minlength=width) for each in (np.ones(len(arms)), paid, paid**2)]
        self.rewards += np.vstack(sums)

    def arm_rewards(self, names: list[str]) -> list[dict[str, Any]]:
        """How often each arm was chosen, the mean reward it brought, and the standard error of that mean."""
        rows = []
        for code in np.flatnonzero(self.rewards[0]):
            n, total, squares = self.rewards[:, code]
            variance = max(0.0, squares - total**2 / n) / max(n - 1, 1)
            error = float(np.sqrt(variance / n))
            rows.append({"arm": names[code], "chosen": int(n), "mean": float(total / n), "error": error})
        return rows

    @property
    def calibration(self) -> list[dict[str, float]]:
        """One row per bin that holds candidates: mean logged probability, share chosen, how far apart in errors."""
        rows = []
        for place in np.flatnonzero(self.count):
            n = self.count[place]
            standard_error = np.sqrt(self.variance[place]) / n
            logged, seen = self.logged[place] / n, self.seen[place] / n
            close = abs(seen - logged) < 1e-9
            z = (seen - logged) / standard_error if standard_error > 0 else 0.0 if close else np.inf
            rows.append(
                {"candidates": float(n), "logged": float(logged), "chosen": float(seen), "z": float(z)}
            )
        return rows

    @property
    def drift(self) -> float | None:
        """Greatest total variation distance between the arm shares of a part and of the whole log, noise taken off.

        0: the shares never change; 1: a part plays quite other arms. None without arm names.
        """
        if not self.shares.shape[1] or self.total < 10 * _PARTS:
            return None
        return float(self._distances()[0].max(initial=0.0))

    def _distances(self) -> tuple[Floats, Floats]:
        """Of the parts that chose anything: that distance, and how many choices they made."""
        shares = self.shares[self.shares.sum(axis=1) > 0]
        sizes = shares.sum(axis=1)
        whole = shares.sum(axis=0) / max(shares.sum(), 1)
        distance = 0.5 * np.abs(shares / sizes[:, None] - whole).sum(axis=1)
        # What chance alone brings: the mean of |share - truth| for as many draws.
        noise = 0.5 * np.sqrt(2 * whole * (1 - whole) / np.pi).sum() / np.sqrt(sizes)
        return np.clip(distance - noise, 0, 1), sizes

    def _has_drifted(self) -> bool:
        """Whether a part differs by more than a tenth, and by more than chance explains in one of a hundred logs.

        One of n choices moves the distance by 1 / n at most, so that it exceeds its mean by t with probability at most
        exp(-2 n t²) (McDiarmid); as many parts are looked at as there are.
        """
        distance, sizes = self._distances()
        chance = np.sqrt(np.log(_PARTS / _FALSE_DRIFT) / (2 * sizes))
        return bool((distance > np.maximum(_LEAST_DRIFT, chance)).any())

    def facts(self) -> list[str]:
        """What was looked at in the log itself, in words."""
        found = []
        if self.calibration:
            worst = max((row["z"] for row in self.calibration), key=abs)
            found.append(
                f"logged probabilities and choices differ by {abs(worst):.1f} standard errors at most"
            )
        else:
            found.append(
                "calibration unknown: the probabilities of arms that were not chosen were not logged"
            )
        if self.drift is not None:
            found.append(f"drift of the logging policy {100 * self.drift:.0f} %")
        return found

    def warnings(self) -> list[str]:
        """What is doubtful in the log itself."""
        found = []
        bad = [row for row in self.calibration if abs(row["z"]) > 4.5 and row["candidates"] >= 30]
        if bad:
            worst = max(bad, key=lambda row: abs(row["z"]))
            found.append(
                f"logged probabilities are not calibrated: candidates said to be chosen with probability "
                f"{worst['logged']:.3f} were chosen in {worst['chosen']:.3f} of the cases ({worst['z']:+.1f} "
                "standard errors); estimates from them are biased"
            )
        if self.drift is not None and self._has_drifted():
            found.append(
                f"the logging policy changed: in a tenth of the log {100 * self.drift:.0f} % of its choices go to "
                "other arms than in the whole; estimates stay right where each probability was true when it was logged"
            )
        return found
