"""NeuralUCB and NeuralTS: a small network, its output's gradient telling how sure it is (Zhou 2020, Zhang 2021)."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from treebandit.agents.base import BaseAgent
from treebandit.core import Candidates, Columns, Estimate, Features, Floats, Indices
from treebandit.errors import NotFittedError, ParameterError
from treebandit.features.arm_index import ArmIndex
from treebandit.features.frames import OneHot
from treebandit.models.history import History
from treebandit.models.network import GradientNetwork, load_torch, one_thread
from treebandit.models.schedule import Schedule

#: Scaled numbers are cut off here: a gradient grows with its input, and its square would never be forgotten.
_FARTHEST = 5.0
_RESCALE_GROWTH = 1.125


@dataclass(eq=False)
class _NeuralAgent(BaseAgent):
    """A network f over scaled numbers and one-hot categories, but for the last line, NeuralUCB's or NeuralTS's.

    exploration: ν; regularisation: λ. A row's variance is s² = λ ν g'U⁻¹g with g the gradient of f by all its
        parameters, and U = λI + Σ gg' over the rows learned; g is not divided by the width of the network, as in
        the authors' code, so that λ here is λ times the width in their papers. Rewards are standardised for the
        network and scores turned back, so s is in standard deviations of the rewards seen.
    hidden: units of each hidden layer (ReLU). dropout: their share left out at random while training.
    arm_encoding: 'disjoint', the features in a block of inputs per arm (the first layer then has one weight
        matrix per arm); 'none', one network over the features alone, as where there are no arms.
    rebuild: when to train: 'every 100', '8 ln t' or 'never' (after the first time); weights are kept and go on.
    epochs, batch_size, learning_rate, optimiser: passes over all rows a training, and its steps; weight decay is λ/n.
    early_stopping: end a training when an epoch's squared error has not fallen.
    matrix: 'diagonal' keeps the diagonal of U only, 'full' all of it (small networks).
    """

    exploration: float = 1e-3
    regularisation: float = 1e-3
    hidden: Sequence[int] = (100,)
    dropout: float = 0.2
    arm_encoding: Literal["disjoint", "none"] = "disjoint"
    rebuild: str = "8 ln t"
    epochs: int = 10
    batch_size: int = 64
    learning_rate: float = 1e-3
    optimiser: Literal["adam", "sgd"] = "adam"
    early_stopping: bool = False
    matrix: Literal["diagonal", "full"] = "diagonal"
    seed: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.hidden = tuple(self.hidden)
        self._check_arguments()
        torch = load_torch()
        self._generator = torch.Generator()
        self._generator.manual_seed(int(self._random.integers(2**62)))
        self._schedule = Schedule.parse(self.rebuild)
        self._history = History()
        self._scale: _Scale | None = None
        self._network: GradientNetwork | None = None
        self._slots = ArmIndex()
        self._level = 0

    def _check_arguments(self) -> None:
        choices = {
            "arm_encoding": ("disjoint", "none"),
            "optimiser": ("adam", "sgd"),
            "matrix": ("diagonal", "full"),
        }
        for name, allowed in choices.items():
            if getattr(self, name) not in allowed:
                raise ParameterError(f"{name}={getattr(self, name)!r}; choose one of {', '.join(allowed)}")
        if not self.hidden or min(self.hidden) < 1:
            raise ParameterError(
                f"hidden={self.hidden!r}; give the units of each hidden layer, such as (100,)"
            )
        if not (self.exploration >= 0 and math.isfinite(self.exploration)):
            raise ParameterError(f"exploration={self.exploration!r}; expected a number of at least 0")
        for name in ("regularisation", "learning_rate"):
            if not (getattr(self, name) > 0 and math.isfinite(getattr(self, name))):
                raise ParameterError(f"{name}={getattr(self, name)!r}; expected a number above 0")
        if not 0 <= self.dropout < 1:
            raise ParameterError(f"dropout={self.dropout!r}; expected a share from 0 to below 1")
        for name in ("epochs", "batch_size"):
            if getattr(self, name) < 1:
                raise ParameterError(f"{name}={getattr(self, name)!r}; expected 1 or more")

    @property
    def note(self) -> str:
        """How the network was trained, for a run's record."""
        return f"trained {self.rebuild}"

    def _explore(self, mean: Floats, deviation: Floats) -> Floats:
        raise NotImplementedError

    def _scores(self, candidates: Candidates) -> Floats:
        if self._network is None or self._scale is None:
            return self._random.random(len(candidates))
        mean, variance = self._predict(candidates)
        return self._explore(mean, np.sqrt(variance))

    def _estimate(self, candidates: Candidates) -> Estimate:
        if self._network is None or self._scale is None:
            raise NotFittedError("no rows learned yet; learn some before asking for an estimate")
        mean, variance = self._predict(candidates)
        count = np.full(len(candidates), float(len(self._history)))
        arms = self._history.arms
        if arms is not None and candidates.arms is not None and self.arm_encoding == "disjoint":
            count = (np.asarray(candidates.arms)[:, None] == arms).sum(1).astype(np.float64)
        return Estimate(mean, variance, count)

    def _predict(self, candidates: Candidates) -> tuple[Floats, Floats]:
        """Mean and variance of each candidate's reward, in the units of the rewards."""
        assert self._network is not None
        assert self._scale is not None
        with one_thread():
            rows = self._scale(candidates.contexts)
            output, spread = self._network.predict(rows, self._find(candidates.arms))
        scale = self._scale
        variance = self.regularisation * self.exploration * spread * scale.deviation**2
        return scale.mean + scale.deviation * output, variance

    def _find(self, arms: Indices | None) -> Indices | None:
        return None if arms is None or self.arm_encoding == "none" else self._slots.find(arms)

    def _learn(self, chosen: Candidates, rewards: Floats) -> None:
        before, labels = len(self._history), self._slots.labels
        kept = self._scale, self._network, self._generator.get_state()
        self._history.append(chosen, rewards)
        try:
            with one_thread():
                self._take_in(chosen)
        except BaseException:
            self._history.truncate(before)
            self._slots = ArmIndex(labels)
            self._scale, self._network = kept[:2]
            self._generator.set_state(kept[2])
            raise

    def _take_in(self, chosen: Candidates) -> None:
        """Add the rows' gradients to U and train where it is time; only a copy of the network is changed."""
        history, old = self._history, self._network
        disjoint = chosen.arms is not None and self.arm_encoding == "disjoint"
        slots = self._slots.meet(chosen.arms) if disjoint and chosen.arms is not None else None
        scale = self._scale
        if scale is None or len(history) >= _RESCALE_GROWTH * scale.rows or scale.columns != chosen.columns:
            scale = _Scale(chosen.columns, history.contexts, history.rewards)
        level = self._schedule.level(self.clock + 1)
        if old is None or old.inputs != scale.width:
            network = self._new_network(scale.width, len(self._slots) if disjoint else None)
            network.see(*self._all_rows(scale)[:2])
        else:
            network = old.copy()
            network.grow(len(self._slots) if disjoint else 1)
            network.see(scale(chosen.contexts), slots)
        if level > self._level or not network.steps:
            scale = _Scale(chosen.columns, history.contexts, history.rewards)
            self._train(network, scale)
            self._level = level
        self._scale, self._network = scale, network

    def _new_network(self, width: int, blocks: int | None) -> GradientNetwork:
        return GradientNetwork(
            (width, *self.hidden, 1),
            blocks=blocks,
            prior=self.regularisation,
            full=self.matrix == "full",
            generator=self._generator,
        )

    def _all_rows(self, scale: _Scale) -> tuple[Features, Indices | None, Features]:
        """Features, slots and standardised rewards of the whole history."""
        history = self._history
        arms = None if history.arms is None else history.arms.astype(np.intp)
        targets = (history.rewards - np.float32(scale.mean)) / np.float32(scale.deviation)
        return scale(history.contexts), self._find(arms), targets

    def _train(self, network: GradientNetwork, scale: _Scale) -> None:
        started = time.perf_counter()
        network.train(
            *self._all_rows(scale),
            epochs=self.epochs,
            batch_size=self.batch_size,
            dropout=self.dropout,
            rate=self.learning_rate,
            adam=self.optimiser == "adam",
            early_stopping=self.early_stopping,
        )
        self.rebuild_seconds += time.perf_counter() - started

    def _state(self) -> dict[str, Any]:
        return {
            "history": self._history.state(),
            "level": self._level,
            "labels": self._slots.labels,
            "generator": self._generator.get_state().numpy(),
            "scale": None if self._scale is None else self._scale.state(),
            "network": None if self._network is None else self._network.state(),
        }

    def _restore(self, state: dict[str, Any]) -> None:
        torch = load_torch()
        self._history = History.restored(state["history"])
        self._level = int(state["level"])
        self._slots = ArmIndex(state["labels"])
        if state["scale"] is not None:
            self._scale = _Scale.restored(state["scale"])
            self._network = self._new_network(self._scale.width, state["network"]["blocks"])
            self._network.restore(state["network"])
        self._generator.set_state(torch.from_numpy(state["generator"].copy()))


@dataclass(eq=False)
class NeuralUCB(_NeuralAgent):
    """Neural upper confidence bound (Zhou et al. 2020): U = f + s."""

    def _explore(self, mean: Floats, deviation: Floats) -> Floats:
        return mean + deviation


@dataclass(eq=False)
class NeuralTS(_NeuralAgent):
    """Neural Thompson sampling (Zhang et al. 2021): a draw from N(f, s²) per candidate."""

    def _explore(self, mean: Floats, deviation: Floats) -> Floats:
        return mean + deviation * self._random.standard_normal(len(mean))


class _Scale:
    """Contexts -> features: numbers scaled by the rows seen, categories one-hot, missing numbers 0."""

    def __init__(self, columns: Columns, contexts: Features, rewards: Features) -> None:
        self.columns = columns
        self.rows = len(contexts)
        self.mean = float(rewards.mean(dtype=np.float64))
        self.deviation = float(rewards.std(dtype=np.float64)) or 1.0
        self._spread = OneHot(columns)
        self.width = self._spread.width
        self._shift = np.zeros(self.width, np.float32)
        self._factor = np.ones(self.width, np.float32)
        numbers = np.flatnonzero(np.asarray(columns.categories) == 0)
        widths = np.maximum(columns.categories, 1)
        places = (np.cumsum(widths) - widths)[numbers]
        self._shift[places], self._factor[places] = _moments(contexts[:, numbers])

    def __call__(self, contexts: Features) -> Features:
        """(n, width) features of (n, d) contexts."""
        features = self._spread(contexts)
        features = (features - self._shift) * self._factor
        np.clip(features, -_FARTHEST, _FARTHEST, out=features)
        np.copyto(features, 0.0, where=np.isnan(features))
        return features

    def state(self) -> dict[str, Any]:
        """All of it as arrays and JSON values."""
        return {
            "categories": list(self.columns.categories),
            "names": list(self.columns.names),
            "rows": self.rows,
            "mean": self.mean,
            "deviation": self.deviation,
            "shift": self._shift,
            "factor": self._factor,
        }

    @classmethod
    def restored(cls, state: dict[str, Any]) -> _Scale:
        """The scale that `state` described."""
        columns = Columns(tuple(state["categories"]), tuple(state["names"]))
        scale = cls(columns, np.zeros((1, len(columns)), np.float32), np.zeros(1, np.float32))
        scale.rows, scale.mean, scale.deviation = state["rows"], state["mean"], state["deviation"]
        scale._shift, scale._factor = state["shift"], state["factor"]
        return scale


def _moments(numbers: Features) -> tuple[Floats, Floats]:
    """Mean and 1 / standard deviation of each column's present values; (0, 1) and 1 where there are none."""
    present = ~np.isnan(numbers)
    count = np.maximum(present.sum(0), 1)
    mean = np.where(present, numbers, 0.0).sum(0, dtype=np.float64) / count
    variance = (np.where(present, numbers - mean, 0.0) ** 2).sum(0) / count
    deviation = np.sqrt(variance)
    varies = deviation > 1e-6 * np.abs(mean)
    return mean, 1.0 / np.where(varies, deviation, 1.0)
