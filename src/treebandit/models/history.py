"""What an agent has seen, in arrays that grow, and what models have in common that keep it."""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treebandit import schema
from treebandit.core import Candidates, Columns, Features, Floats, Indices
from treebandit.errors import NotFittedError, SavedFileError
from treebandit.features.reward_scale import RewardScale
from treebandit.models.model import CopiedModel
from treebandit.models.schedule import Schedule

_FIRST_CAPACITY = 64
_GROWTH = 1.125
_NO_REWARDS = np.empty(0)


class HistoryModel(CopiedModel):
    """What models have in common that keep the rows they have learned and are rebuilt from them.

    rebuild: when, as `Schedule.parse` reads it. standardise: whether they are fitted to standardised rewards.
    """

    def __init__(self, rebuild: str, *, standardise: bool = True) -> None:
        self._schedule, self._standardise = Schedule.parse(rebuild), standardise
        self.history = History()
        #: Rows and rounds at the last rebuild.
        self.fitted_at = 1, 1
        #: Of the rewards known at the last rebuild.
        self.scale = RewardScale()
        #: Wall seconds spent on rebuilds so far.
        self.rebuild_seconds = 0.0

    def _no_trees_yet(self) -> NotFittedError:
        return NotFittedError(
            f"no trees yet after {len(self.history)} rows; learn more before asking for an estimate"
        )

    def _scale_of(self, history: History) -> RewardScale:
        """The scale that a rebuild from these rows uses."""
        return RewardScale.of(history.rewards) if self._standardise else RewardScale()

    def state(self, *, history: bool = True) -> dict[str, Any]:
        """All that is needed to go on elsewhere; without history, to estimate and sample."""
        return {
            "history": self.history.state(history=history),
            "fitted_rows": self.fitted_at[0],
            "fitted_rounds": self.fitted_at[1],
            "rebuild_seconds": self.rebuild_seconds,
            "scale": self.scale.state(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Take up what `state` gave."""
        self.history = History.restored(schema.part(state, "history"))
        rows, rounds = (schema.whole(state, name, least=1) for name in ("fitted_rows", "fitted_rounds"))
        self.fitted_at = rows, rounds
        self.rebuild_seconds = schema.number(state, "rebuild_seconds", least=0.0)
        self.scale = RewardScale.restored(schema.value(state, "scale"), self.history.rewards)


class History:
    """Contexts and arms of all rows learned so far, as 32-bit numbers, and their rewards.

    The arrays grow by an eighth, so that beyond the first rows at most an eighth of them is spare.
    """

    __slots__ = ("_arms", "_contexts", "_gone", "_length", "_rewards", "_whole", "columns")

    def __init__(self) -> None:
        self._contexts: Features | None = None
        self._arms: NDArray[np.int32] | None = None
        self._rewards: Floats = _NO_REWARDS
        self._length = 0
        #: What the columns of the newest rows are.
        self.columns: Columns | None = None
        #: Of rows that are gone, their arms and how many of each there were (None: rows without arms).
        self._gone: tuple[NDArray[np.intp], Floats] | None = None
        self._whole = True

    def __len__(self) -> int:
        return self._length

    @property
    def contexts(self) -> Features:
        """(n, d): the rows, as they were given."""
        assert self._contexts is not None
        return self._contexts[: self._length]

    @property
    def arms(self) -> NDArray[np.int32] | None:
        """(n,): which arm each row was; None where rows have no arm."""
        return None if self._arms is None else self._arms[: self._length]

    @property
    def rewards(self) -> Floats:
        """(n,)."""
        return self._rewards[: self._length]

    @property
    def with_arms(self) -> bool:
        """Whether rows have arms."""
        return self._arms is not None or self._gone is not None

    @property
    def whole(self) -> bool:
        """Whether the rows are there; if not, only how many there were."""
        return self._whole

    def counts(self, labels: Indices) -> Floats:
        """How many rows each of these arms has, (n,)."""
        if self._gone is not None:
            arms, counts = self._gone
            place = np.searchsorted(arms, labels)
            found: Floats = np.where(
                arms.take(place, mode="clip") == labels, counts.take(place, mode="clip"), 0.0
            )
            return found if len(arms) else np.zeros(len(labels))
        known = self.arms
        if known is None:
            return np.full(len(labels), float(self._length))
        return np.array([float((known == label).sum()) for label in labels])

    @property
    def nbytes(self) -> int:
        """Bytes held, spare capacity included."""
        held = (self._contexts, self._arms, self._rewards)
        return sum(array.nbytes for array in held if array is not None)

    def appended(self, chosen: Candidates, rewards: Floats) -> History:
        """The history with these rows at its end; this one stays as it is.

        Both share their arrays, so only the newest history of all may be appended to. All rows have arms, or none has.
        Columns that these rows have more, at the end, are missing in earlier rows.
        """
        start, stop = self._length, self._length + len(rewards)
        contexts, arms, kept = self._contexts, self._arms, self._rewards
        if contexts is None:
            contexts = np.empty((0, chosen.contexts.shape[1]), np.float32)
            arms = None if chosen.arms is None else np.empty(0, np.int32)
        if (more := chosen.contexts.shape[1] - contexts.shape[1]) > 0:
            contexts = np.pad(contexts, ((0, 0), (0, more)), constant_values=np.nan)
        if stop > len(kept):
            capacity = max(_FIRST_CAPACITY, stop, int(_GROWTH * len(kept)))
            contexts, kept = _grown(contexts, capacity, start), _grown(kept, capacity, start)
            arms = None if arms is None else _grown(arms, capacity, start)
        contexts[start:stop] = chosen.contexts
        kept[start:stop] = rewards
        if arms is not None and chosen.arms is not None:
            arms[start:stop] = chosen.arms
        after = History()
        after._contexts, after._arms, after._rewards = contexts, arms, kept
        after._length, after.columns = stop, chosen.columns
        return after

    def first(self, n: int) -> History:
        """The history as it was after n rows. It shares its arrays with this one, and nothing can be appended to it."""
        before = copy(self)
        before._length = n
        return before

    def only(self, kept: NDArray[np.bool_]) -> History:
        """These rows of it in arrays of their own, so that the others leave memory; this one stays as it is."""
        after = copy(self)
        after._contexts, after._rewards = self.contexts[kept], self.rewards[kept]
        after._arms = None if self.arms is None else self.arms[kept]
        after._length = len(after._rewards)
        return after

    def rows(self, columns: Columns, start: int = 0) -> Candidates:
        """All of it from row `start` on, as candidates with these columns."""
        arms = None if self.arms is None else self.arms[start:].astype(np.intp)
        return Candidates(np.ascontiguousarray(self.contexts[start:, : len(columns)]), arms, columns)

    def check(self, columns: Columns | None, with_arms: bool | None, *, whole: bool = True) -> None:
        """Raise where the rows are not those of an agent that has learned such columns, with arms or without.

        whole: whether the rows themselves have to be there.
        """
        if self._whole != whole:
            raise SavedFileError(
                "rows are saved with an agent that only decides, or missing from one that learns"
            )
        if self._contexts is None:
            return
        if columns is None or self._contexts.shape[1] != len(columns) or (self._arms is None) == with_arms:
            raise SavedFileError("the saved rows do not have the columns and arms that the agent has learned")

    def state(self, *, history: bool = True) -> dict[str, Any]:
        """All that is needed to go on elsewhere; without history, how many rows there were."""
        if not history or not self._whole:
            return self._summary()
        if self._contexts is None:
            return {"contexts": None, "arms": None, "rewards": None}
        return {"contexts": self.contexts, "arms": self.arms, "rewards": self.rewards}

    def _summary(self) -> dict[str, Any]:
        arms, counts = self._gone or (None, None)
        if self._whole and self.arms is not None:
            arms, found = np.unique(self.arms.astype(np.intp), return_counts=True)
            counts = found.astype(np.float64)
        return {"rows": self._length, "arms": arms, "counts": counts}

    @classmethod
    def restored(cls, state: dict[str, Any]) -> History:
        """The history that `state` described."""
        history = cls()
        if "rows" in state:
            history._whole, history._length = False, schema.whole(state, "rows")
            if schema.value(state, "arms") is not None:
                arms = schema.labels(state, "arms")
                counts = schema.array(state, "counts", np.float64, (len(arms),), least=1.0)
                if (np.diff(arms) < 0).any() or counts.sum() != history._length:
                    raise SavedFileError("the saved counts of the arms do not fit each other")
                history._gone = arms, counts
            return history
        if schema.value(state, "contexts") is None:
            return history
        contexts = schema.array(state, "contexts", np.float32, (None, None), nan=True)
        n = len(contexts)
        if schema.value(state, "arms") is not None:
            most = schema.LARGEST_LABEL
            history._arms = schema.array(state, "arms", np.int32, (n,), least=-most, most=most)
        history._rewards = schema.array(state, "rewards", np.float64, (n,))
        history._contexts, history._length = contexts, n
        return history


def _grown(array: NDArray[Any], capacity: int, used: int) -> NDArray[Any]:
    grown = np.empty((capacity, *array.shape[1:]), array.dtype)
    grown[:used] = array[:used]
    return grown
