"""How a leaf's variance becomes the variance of a predicted mean that is right on average."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Self

import numpy as np

from treebandit import schema
from treebandit.core import Floats
from treebandit.errors import SavedFileError

#: Share of the variance that is the same for all rows. The rest is in proportion to the leaf variance.
_COMMON = 0.5
#: Probabilities whose quantiles are kept, closer together towards both ends.
PROBABILITIES = 0.5 - 0.5 * np.cos(np.linspace(0.0, np.pi, 101))


def scale_of(leaf_variance: Floats, typical: float) -> Floats:
    """By how much the variances of rows with these (n,) leaf variances exceed that of a typical one: (n,)."""
    if typical == 0.0:
        return np.ones(len(leaf_variance))
    return _COMMON + (1.0 - _COMMON) * leaf_variance / typical


def deviations(noise: float, error: float, scale: Floats) -> Floats:
    """By how much errors of new observations exceed those of a typical row: only that of the mean follows `scale`."""
    whole = noise + error
    return np.sqrt((noise + error * scale) / whole) if whole > 0.0 else np.ones_like(scale)


class Calibration(NamedTuple):
    """What was learned of the errors of an ensemble, in the units of its targets.

    error: expected square of (predicted mean - true mean), over rows like those learned.
    leaf_variance: mean of the rows' leaf variances Σ s²/c when that was learned.
    noise: variance of observations around their true mean.
    quantiles: (101,), at PROBABILITIES, of the errors of predictions for new observations, each divided by its
        deviation: √((noise + error · scale) / (noise + error)).
    """

    error: float
    leaf_variance: float
    noise: float
    quantiles: Floats

    def scale(self, leaf_variance: Floats) -> Floats:
        """How much less sure each of (n,) rows is than the mean row, as a factor of variances: (n,)."""
        return scale_of(leaf_variance, self.leaf_variance)

    def variance(self, leaf_variance: Floats) -> Floats:
        """Variances (n,) of the predicted means of rows with these leaf variances (n,)."""
        return self.error * self.scale(leaf_variance)

    def interval(self, level: float, leaf_variance: Floats) -> tuple[Floats, Floats]:
        """Where a new observation lies with this probability, below and above the predicted mean: (n,) each."""
        low, high = np.interp([0.5 - level / 2, 0.5 + level / 2], PROBABILITIES, self.quantiles)
        deviation = deviations(self.noise, self.error, self.scale(leaf_variance))
        return low * deviation, high * deviation

    def state(self) -> dict[str, Any]:
        """All of it, for saving."""
        return self._asdict()

    @classmethod
    def restored(cls, state: Mapping[str, Any]) -> Self:
        """What `state` described; a SavedFileError where it cannot be right."""
        quantiles = schema.array(state, "quantiles", np.float64, PROBABILITIES.shape)
        if (np.diff(quantiles) < 0.0).any():
            raise SavedFileError("quantiles fall")
        names = ("error", "leaf_variance", "noise")
        error, leaf_variance, noise = (schema.number(state, name, least=0.0) for name in names)
        return cls(error, leaf_variance, noise, quantiles)
