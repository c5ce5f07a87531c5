"""Off-policy estimators: small pure functions of rewards, weights and predictions.

w is the weight of a decision, the probability of the logged choice under the target policy divided by the logged one;
r its reward; q(a) a model's prediction for an arm, of which a decision needs two numbers: `chosen`, for the logged
arm, and `value`, Σ π(a) q(a), for the target policy.

Every function gives one number per decision, (n,), whose mean is the estimate and whose deviations are those of the
estimate's influence function: standard deviation / √n is the standard error, also of self-normalised estimators.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from treebandit.core import Floats
from treebandit.errors import ParameterError
from treebandit.parameters import check_number

_NO_PREDICTIONS = "{name} needs predictions of a reward model; give reward_model, or choose ips or snips"


@dataclass(frozen=True, slots=True)
class Sample:
    """What the estimators see of n decisions.

    reward, weight: (n,) the rewards, and how much more often the target policy would have chosen so than the log did.
    chosen: (n,) predicted reward of what was chosen; None without a reward model.
    value: (n,) predicted reward of the target policy; None without a reward model.

    >>> import numpy as np
    >>> from treebandit.evaluation import Sample
    >>> len(Sample(reward=np.array([1.0, 0.0]), weight=np.array([2.0, 0.0])))
    2
    """

    reward: Floats
    weight: Floats
    chosen: Floats | None = None
    value: Floats | None = None

    def __len__(self) -> int:
        return len(self.reward)


def ips(reward: Floats, weight: Floats) -> Floats:
    """Inverse propensity scoring: mean of w r. Unbiased where every arm of the target could be logged."""
    return weight * reward


def clipped_ips(reward: Floats, weight: Floats, *, clip: float) -> Floats:
    """Mean of min(w, clip) r: less variance, and too low for positive rewards where weights are clipped."""
    return ips(reward, np.minimum(weight, clip))


def snips(reward: Floats, weight: Floats) -> Floats:
    """Self-normalised IPS: Σ w r / Σ w. Does not change when a constant is added to all rewards."""
    mean = weight.mean()
    if mean == 0:
        return np.full(len(reward), np.nan)
    estimate = (weight * reward).mean() / mean
    found: Floats = estimate + weight * (reward - estimate) / mean
    return found


def direct_method(value: Floats) -> Floats:
    """Mean of Σ π(a) q(a): as good as the reward model, and its errors are not in the interval."""
    return value


def doubly_robust(reward: Floats, weight: Floats, chosen: Floats, value: Floats) -> Floats:
    """Mean of Σ π(a) q(a) + w (r - q): unbiased where probabilities are true, whatever the model predicts."""
    return value + weight * (reward - chosen)


def self_normalised_dr(reward: Floats, weight: Floats, chosen: Floats, value: Floats) -> Floats:
    """Mean of Σ π(a) q(a), plus Σ w (r - q) / Σ w."""
    return value + snips(reward - chosen, weight)


def switch_dr(reward: Floats, weight: Floats, chosen: Floats, value: Floats, *, threshold: float) -> Floats:
    """Doubly robust where w <= threshold, and the reward model alone where it is larger."""
    return doubly_robust(reward, np.where(weight <= threshold, weight, 0.0), chosen, value)


def shrinkage_dr(
    reward: Floats, weight: Floats, chosen: Floats, value: Floats, *, shrinkage: float
) -> Floats:
    """Doubly robust with the weights λ w / (w² + λ): between direct method (λ = 0) and doubly robust (λ = ∞)."""
    if np.isinf(shrinkage):
        return doubly_robust(reward, weight, chosen, value)
    squared = weight**2 + shrinkage
    shrunk = np.divide(shrinkage * weight, squared, out=np.zeros_like(weight), where=squared > 0)
    return doubly_robust(reward, shrunk, chosen, value)


@dataclass(frozen=True, slots=True)
class Tuning:
    """Constants of the estimators that trade bias for variance; None lets the number of decisions set them.

    clip: greatest weight of clipped IPS; None: √n.
    threshold: greatest weight that Switch-DR uses; None: √n.
    shrinkage: λ of DR with shrinkage; None: n, so that a weight of √n is halved.

    >>> from treebandit.evaluation import Tuning, evaluate, shop_log
    >>> found = evaluate(shop_log(2_000), ["arm:tea"], estimators=("clipped-ips",), tuning=Tuning(clip=10.0))
    """

    clip: float | None = None
    threshold: float | None = None
    shrinkage: float | None = None

    def __post_init__(self) -> None:
        for name in ("clip", "threshold", "shrinkage"):
            check_number(name, getattr(self, name), least=0, optional=True)

    def resolved(self, n: int) -> Tuning:
        """The constants for n decisions."""
        root = float(np.sqrt(n))
        return Tuning(
            root if self.clip is None else self.clip,
            root if self.threshold is None else self.threshold,
            float(n) if self.shrinkage is None else self.shrinkage,
        )


_Estimator = Callable[[Sample, Tuning], Floats]


def _predictions(sample: Sample) -> tuple[Floats, Floats, Floats, Floats]:
    assert sample.chosen is not None
    assert sample.value is not None
    return sample.reward, sample.weight, sample.chosen, sample.value


#: Name -> estimator; those after the first three need a reward model.
ESTIMATORS: dict[str, _Estimator] = {
    "ips": lambda sample, _: ips(sample.reward, sample.weight),
    "clipped-ips": lambda sample, tuning: clipped_ips(sample.reward, sample.weight, clip=tuning.clip or 0.0),
    "snips": lambda sample, _: snips(sample.reward, sample.weight),
    "dm": lambda sample, _: direct_method(_predictions(sample)[3]),
    "dr": lambda sample, _: doubly_robust(*_predictions(sample)),
    "sndr": lambda sample, _: self_normalised_dr(*_predictions(sample)),
    "switch-dr": lambda sample, tuning: switch_dr(*_predictions(sample), threshold=tuning.threshold or 0.0),
    "shrinkage-dr": lambda sample, tuning: shrinkage_dr(
        *_predictions(sample), shrinkage=tuning.shrinkage or 0.0
    ),
}
WITHOUT_MODEL = ("ips", "clipped-ips", "snips")


def contributions(name: str, sample: Sample, tuning: Tuning | None = None) -> Floats:
    """What an estimator, by its name in `ESTIMATORS`, gives for each decision; their mean is its estimate."""
    check_estimators([name])
    if name not in WITHOUT_MODEL and sample.value is None:
        raise ParameterError(_NO_PREDICTIONS.format(name=name))
    return ESTIMATORS[name](sample, (tuning or Tuning()).resolved(len(sample)))


def check_estimators(names: object) -> None:
    """Raise unless these are names of estimators."""
    known = ", ".join(ESTIMATORS)
    if isinstance(names, str) or not isinstance(names, list | tuple):
        raise ParameterError(f"estimators is {names!r}; give a list of {known}")
    for name in names:
        if name not in ESTIMATORS:
            raise ParameterError(f"estimator {name!r} is not known; give some of {known}")
