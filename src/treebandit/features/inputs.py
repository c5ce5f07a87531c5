"""Input checks: arrays, frames, rows, labels and rewards, checked and cast once, before anything changes."""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from treebandit.core import Candidates, Columns, Features, Floats, Indices
from treebandit.errors import ArmsError, InputError, ShapeError
from treebandit.features.frames import Table, is_frame

#: Whole numbers up to here have a 32-bit float of their own.
_LARGEST_LABEL = 1 << 24
_LARGEST_REWARD = float(np.finfo(np.float32).max)


class Inputs:
    """Turns what a person gives into Candidates, and remembers what was given first: width, columns, arms or none.

    Inputs are replaced, not changed: learning rows gives those to use from then on.
    """

    __slots__ = ("columns", "labels", "table", "with_arms")

    def __init__(self) -> None:
        self.columns: Columns | None = None
        self.with_arms: bool | None = None
        self.table: Table | None = None
        self.labels: dict[str, int] = {}

    def enter(self, contexts: Any, arms: Any = None) -> Candidates:
        """Candidates to choose from."""
        if isinstance(contexts, Candidates):
            return contexts
        codes = None if arms is None else self._codes(arms, self.labels)
        if is_frame(contexts):
            table = self.table or Table()
            features = table.encode(contexts, learn=False)
            columns = table.columns if self.table else self.columns or Columns.numeric(features.shape[1])
        else:
            features = _features(contexts, codes)
            columns = self.columns or Columns.numeric(features.shape[1])
        return Candidates(features, codes, columns)

    def enter_to_learn(
        self, contexts: Any, rewards: ArrayLike, arms: Any
    ) -> tuple[Candidates, Floats, Inputs]:
        """Chosen rows, their rewards, and the input checks to use from now on."""
        values = _rewards(rewards)
        chosen, after = (
            (contexts, self) if isinstance(contexts, Candidates) else self._entered(contexts, arms)
        )
        if len(chosen) != len(values):
            raise ShapeError(f"{len(values)} rewards for {len(chosen)} chosen rows; send one reward per row")
        if not len(values):
            return chosen, values, self
        self.check(chosen)
        if chosen is contexts:
            _refuse_infinite(chosen.contexts)
        if chosen.arms is not None and _largest(chosen.arms) > _LARGEST_LABEL:
            raise ArmsError(
                f"arm {chosen.arms[np.abs(chosen.arms).argmax()]} is beyond {_LARGEST_LABEL}; "
                "number arms from 0, or name them"
            )
        if after.columns is not chosen.columns or after.with_arms is None:
            after = copy(after)
            after.columns, after.with_arms = chosen.columns, chosen.arms is not None
        return chosen, values, after

    def _entered(self, contexts: Any, arms: Any) -> tuple[Candidates, Inputs]:
        """Rows to learn, and the input checks with what they bring that is new: categories, names of arms."""
        labels = dict(self.labels)
        codes = None if arms is None else self._codes(np.atleast_1d(np.asarray(arms)), labels)
        after = self
        if len(labels) > len(self.labels):
            after = copy(after)
            after.labels = labels
        if not is_frame(contexts):
            features = _features(contexts, codes, one_row=True)
            return Candidates(features, codes, self.columns or Columns.numeric(features.shape[1])), after
        after = copy(after)
        after.table = Table.from_json(self.table.to_json()) if self.table else Table()
        return Candidates(after.table.encode(contexts, learn=True), codes, after.table.columns), after

    def check(self, candidates: Candidates) -> None:
        """Raise where candidates do not fit what was learned before."""
        contexts = candidates.contexts
        if contexts.ndim != 2 or contexts.dtype != np.float32:
            raise ShapeError(
                f"contexts are {contexts.dtype} of shape {contexts.shape}; expected float32, (n, d)"
            )
        if not len(contexts):
            raise ShapeError("no candidates; give at least one row")
        if candidates.arms is not None and len(candidates.arms) != len(contexts):
            raise ShapeError(f"{len(candidates.arms)} arms for {len(contexts)} rows; give one arm per row")
        if self.columns is not None and contexts.shape[1] != len(self.columns):
            raise ShapeError(
                f"rows of {contexts.shape[1]} features, but this agent has learned rows of {len(self.columns)}; "
                "give the same columns every time"
            )
        if self.with_arms is not None and self.with_arms != (candidates.arms is not None):
            raise ArmsError(
                "this agent has learned rows with arms; give `arms`, one label per row"
                if self.with_arms
                else "this agent has learned rows without arms; leave `arms` out, or start a new agent with them"
            )

    def state(self) -> dict[str, Any]:
        """All of it as JSON values."""
        return {
            "columns": None if self.columns is None else [self.columns.categories, self.columns.names],
            "with_arms": self.with_arms,
            "table": None if self.table is None else self.table.to_json(),
            "labels": self.labels,
        }

    @classmethod
    def restored(cls, state: dict[str, Any]) -> Inputs:
        """The input checks that `state` described."""
        inputs = cls()
        if state["columns"] is not None:
            categories, names = state["columns"]
            inputs.columns = Columns(tuple(categories), tuple(names))
        inputs.with_arms = state["with_arms"]
        inputs.table = None if state["table"] is None else Table.from_json(state["table"])
        inputs.labels = dict(state["labels"])
        return inputs

    def _codes(self, arms: Any, labels: dict[str, int]) -> Indices:
        """Arm labels as integers: their own, or codes for strings; new strings enter `labels` unless it is ours."""
        given = np.asarray(arms)
        if given.ndim != 1:
            raise ShapeError(f"arms of shape {given.shape}; give one label per row")
        if not given.size:
            return np.empty(0, np.intp)
        if given.dtype.kind in "iu":
            if self.labels:
                raise ArmsError(
                    f"arm {given[0]!r} is a number, but this agent has learned arms with names; use those"
                )
            return given.astype(np.intp, copy=False)
        names = given.tolist()
        if not all(isinstance(name, str) for name in names):
            raise ArmsError(f"arms of type {given.dtype}; give whole numbers or strings")
        if self.with_arms and not self.labels:
            raise ArmsError(
                f"arm {names[0]!r} is a name, but this agent has learned arms with numbers; use those"
            )
        if labels is not self.labels:
            for name in names:
                labels.setdefault(name, len(labels))
        unseen = len(labels)
        return np.array([labels.get(name, unseen) for name in names], np.intp)


def _features(contexts: Any, codes: Indices | None, *, one_row: bool = False) -> Features:
    """Rows of numbers as (n, d) float32; a single row serves all arms."""
    if type(contexts) is np.ndarray and contexts.dtype == np.float32:
        features = contexts if contexts.flags.c_contiguous else np.ascontiguousarray(contexts)
    else:
        features = _cast(contexts)
    if features.ndim == 1:
        features = _one_row(features, None if one_row else codes, one_row)
    if features.ndim != 2:
        raise ShapeError(f"contexts of shape {features.shape}; expected one row of features per candidate")
    _refuse_infinite(features)
    return features


def _cast(contexts: Any) -> Features:
    try:
        with np.errstate(over="ignore"):
            return np.array(contexts, np.float32, order="C")
    except (ValueError, TypeError) as error:
        raise InputError(
            f"contexts cannot be read as numbers ({error}); give numbers, or a pandas or polars frame for categories"
        ) from error


def _one_row(features: Features, codes: Indices | None, learning: bool) -> Features:
    if learning:
        return features[None]
    if codes is None:
        raise ShapeError(
            f"one row of {len(features)} features and no arms; give `arms` to choose from, or one row per candidate"
        )
    return np.repeat(features[None], len(codes), axis=0)


def _refuse_infinite(features: Features) -> None:
    if _largest(features) < np.inf:
        return
    infinite = np.isinf(features)
    if infinite.any():
        row, column = np.argwhere(infinite)[0]
        raise InputError(
            f"column {column} is infinite in row {row}, or too large for 32 bits; give finite numbers, NaN for missing"
        )


def _largest(values: NDArray[Any]) -> float:
    """The largest absolute value, NaN if one is missing; a third of the time of `abs(values).max()`."""
    return float(np.maximum.reduce(np.abs(values.ravel()), initial=0.0))


def _rewards(rewards: ArrayLike) -> Floats:
    """Rewards as (n,) float64 that a 32-bit float holds exactly, so that history and leaves agree to the bit."""
    try:
        values = np.array(rewards, np.float64, ndmin=1)
    except (ValueError, TypeError) as error:
        raise InputError(
            f"rewards cannot be read as numbers ({error}); give one number per chosen row"
        ) from error
    if values.ndim != 1:
        raise ShapeError(f"rewards of shape {values.shape}; give one number per chosen row")
    if not _largest(values) <= _LARGEST_REWARD:
        row = int(np.flatnonzero(~(np.abs(values) <= _LARGEST_REWARD))[0])
        raise InputError(f"the reward of row {row} is {values[row]}; give a finite number")
    return values.astype(np.float32).astype(np.float64)
