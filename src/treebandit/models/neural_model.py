"""A small network over all rows, trained as they come, the gradient of its output telling how sure it is."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treebandit import schema
from treebandit.core import Candidates, Columns, Estimate, Features, Floats, Indices, Random
from treebandit.errors import NotFittedError, SavedFileError
from treebandit.features.arm_index import ArmIndex
from treebandit.features.encoding import OneHot, RowForm, plain_rows
from treebandit.features.scaling import Standardiser
from treebandit.features.values import LARGEST
from treebandit.models.history import HistoryModel
from treebandit.models.network import (
    GradientNetwork,
    NetworkSettings,
    count_parameters,
    load_torch,
    one_thread,
    restore_generator,
)

#: Scaled numbers are cut off here: a gradient grows with its input, and its square would never be forgotten.
_FARTHEST = 5.0
_RESCALE_GROWTH = 1.125


class NeuralModel(HistoryModel):
    """A network f over scaled numbers and one-hot categories, and U = λI + Σ gg', g the gradient of f.

    The variance of a row's mean is λ g'U⁻¹g, in units of the variance of the rewards.
    """

    def __init__(self, settings: NetworkSettings, seed: int) -> None:
        super().__init__(settings.rebuild, standardise=settings.standardise)
        self.settings = settings
        self._generator = load_torch().Generator()
        self._generator.manual_seed(seed)
        self.row_scale: _RowScale | None = None
        self.network: GradientNetwork | None = None
        self._arms = ArmIndex()
        self._level = 0

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_generator": self._generator.get_state().numpy()}

    def __setstate__(self, members: dict[str, Any]) -> None:
        vars(self).update(members)
        self._generator = load_torch().Generator()
        self._generator.set_state(load_torch().from_numpy(members["_generator"]))
        if self.network is not None:
            self.network._generator = self._generator

    @property
    def fitted(self) -> bool:
        """Whether there is a network yet."""
        return self.network is not None

    def _learn(self, rows: Candidates, rewards: Floats, *, t: int, random: Random, started: bool) -> None:
        """The rows' gradients join U, and the network is trained where it is time."""
        self.history = history = self.history.appended(rows, rewards)
        disjoint = rows.arms is not None and self.settings.arm_encoding == "disjoint"
        self._arms, drawn = ArmIndex(self._arms.labels), self._generator.get_state()
        if disjoint and rows.arms is not None:
            self._arms.register(rows.arms)
        self._generator = load_torch().Generator()
        self._generator.set_state(drawn)
        level, columns, row_scale = self._schedule.level(t + 1), rows.columns, self.row_scale
        now = len(history), t + 1
        due = level > self._level or self._schedule.overdue(now, self.fitted_at)
        if row_scale is not None and not due and len(columns) > len(row_scale.columns):
            # New columns wait for the next training, in a new network.
            width = len(row_scale.columns)
            columns = Columns(columns.categories[:width], columns.names[:width])
        grown = row_scale is None or len(history) >= _RESCALE_GROWTH * row_scale.rows
        if row_scale is None or grown or row_scale.columns != columns or not self.scale.fits(rewards):
            row_scale = self._rescale(columns)
        with one_thread():
            if self.network is None or self.network.inputs != row_scale.width:
                self.network = self._new_network(row_scale.width, disjoint)
                self.network.add_gradients(row_scale(history.contexts), self._arm_rows(history.arms))
            else:
                self.network = self.network.copy(self._generator)
                self.network.grow(len(self._arms) if disjoint else 1)
                self.network.add_gradients(row_scale(rows.contexts), self._arm_rows(rows.arms))
            if due or not self.network.steps:
                began, self._level, self.fitted_at = time.perf_counter(), level, now
                row_scale = self._rescale(columns)
                targets = self.scale.standardised(history.rewards).astype(np.float32)
                self.network.train(row_scale(history.contexts), self._arm_rows(history.arms), targets)
                self.rebuild_seconds += time.perf_counter() - began

    def _rescale(self, columns: Columns) -> _RowScale:
        """Scale rows and rewards by those learned so far."""
        self.scale = self._scale_of(self.history)
        self.row_scale = _RowScale.of(columns, self.history.contexts, self.settings.features)
        return self.row_scale

    def _new_network(self, width: int, disjoint: bool) -> GradientNetwork:
        blocks = len(self._arms) if disjoint else None
        return GradientNetwork(width, self.settings, blocks=blocks, generator=self._generator)

    def _arm_rows(self, arms: NDArray[Any] | None) -> Indices | None:
        return None if arms is None or self.settings.arm_encoding == "none" else self._arms.find(arms)

    def estimate(self, rows: Candidates) -> Estimate:
        """Output of the network for each row, its variance, and the rows of its arm."""
        if self.network is None or self.row_scale is None:
            raise NotFittedError("no rows learned yet; learn some before asking for an estimate")
        with one_thread():
            mean, squares = self.network.predict(self.row_scale(rows.contexts), self._arm_rows(rows.arms))
        count = np.full(len(rows), float(len(self.history)))
        if self.history.with_arms and rows.arms is not None and self.settings.arm_encoding == "disjoint":
            labels, place = np.unique(rows.arms, return_inverse=True)
            count = self.history.counts(labels)[place]
        return self.scale.original(Estimate(mean, self.settings.regularisation * squares, count))

    def sample(self, rows: Candidates, draws: int, random: Random, *, scale: float = 1.0) -> Floats:
        """Draws from N(f, variance), (draws, n), each row by itself."""
        estimate = self.estimate(rows)
        noise = random.standard_normal((draws, len(rows)))
        return estimate.mean + scale * np.sqrt(estimate.variance) * noise

    def state(self, *, history: bool = True) -> dict[str, Any]:
        """All that is needed to go on elsewhere; without history, to estimate and sample."""
        return {
            **super().state(history=history),
            "level": self._level,
            "labels": self._arms.labels,
            "generator": self._generator.get_state().numpy(),
            "rows": None if self.row_scale is None else self.row_scale.state(),
            "network": None if self.network is None else self.network.state(history=history),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Take up what `state` gave."""
        super().restore(state)
        self._level = schema.whole(state, "level")
        self._arms = ArmIndex(schema.labels(state, "labels"))
        scale, network = schema.optional(state, "rows"), schema.optional(state, "network")
        if (scale is None) != (network is None) or (scale is None) != (len(self.history) == 0):
            raise SavedFileError("rows, their scale and a network are saved without each other")
        if scale is not None and network is not None:
            self.row_scale = _RowScale.restored(scale, self.settings.features)
            disjoint = self.settings.arm_encoding == "disjoint" and self.history.with_arms
            blocks = len(self._arms) if disjoint else None
            if schema.value(network, "blocks") != blocks:
                raise schema.refused("blocks", network["blocks"], str(blocks))
            width, settings = self.row_scale.width, self.settings
            length = count_parameters((width, *settings.hidden, 1), blocks or 1)
            schema.array(network, "vectors", np.float32, (4, length))
            self.network = self._new_network(width, disjoint)
            self.network.restore(network)
        length = len(self._generator.get_state())
        restore_generator(self._generator, schema.array(state, "generator", np.uint8, (length,)))


@dataclass(frozen=True, slots=True)
class _RowScale:
    """Contexts -> features: numbers scaled by the rows seen, categories one-hot, missing numbers 0; or plain rows."""

    columns: Columns
    rows: int
    shift: Features
    factor: Features
    form: RowForm = "scaled"

    @classmethod
    def of(cls, columns: Columns, contexts: Features, form: RowForm) -> _RowScale:
        """The scale of these (n, d) rows."""
        if form != "scaled":
            nothing = np.zeros(len(columns), np.float32)
            return cls(columns, len(contexts), nothing, nothing + 1.0, form)
        one_hot = OneHot(columns)
        scale = Standardiser.of(one_hot(contexts[:, : len(columns)]), one_hot.numbers)
        factor = np.minimum(1.0 / scale.deviation, LARGEST).astype(np.float32)
        return cls(columns, len(contexts), scale.mean.astype(np.float32), factor)

    @property
    def width(self) -> int:
        """How many features a row has."""
        return len(self.shift)

    def __call__(self, contexts: Features) -> Features:
        """(n, width) features of (n, d) contexts; columns added since are left out."""
        contexts = contexts[:, : len(self.columns)]
        if self.form != "scaled":
            return plain_rows(contexts, unit=True).astype(np.float32)
        with np.errstate(over="ignore"):  # what is too large for 32 bits is cut off
            features = (OneHot(self.columns)(contexts) - self.shift) * self.factor
        np.clip(features, -_FARTHEST, _FARTHEST, out=features)
        np.copyto(features, 0.0, where=np.isnan(features))
        return features

    def state(self) -> dict[str, Any]:
        """All of it as arrays and JSON values."""
        scale = {"rows": self.rows, "shift": self.shift, "factor": self.factor}
        return {**schema.columns_state(self.columns), **scale}

    @classmethod
    def restored(cls, state: dict[str, Any], form: RowForm) -> _RowScale:
        """The scale that `state` described."""
        columns = schema.columns_in(state)
        one_hot = form == "scaled"
        width = sum(max(count, 1) for count in columns.categories) if one_hot else len(columns)
        shift, factor = (schema.array(state, name, np.float32, (width,)) for name in ("shift", "factor"))
        return cls(columns, schema.whole(state, "rows"), shift, factor, form)
