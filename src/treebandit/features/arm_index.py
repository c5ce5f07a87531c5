"""Arms: the labels a person gives as integer codes, and codes as rows of an array."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from treebandit.core import Indices
from treebandit.errors import ArmsError, SavedFileError, ShapeError
from treebandit.features.values import array_of, shown
from treebandit.schema import LARGEST_LABEL

Label = int | str
_NUMBERS, _NAMES = {int}, {str}
#: So few arms are found faster one by one.
_FEW = 8


class ArmLabels:
    """The labels of arms offered or learned so far, each with its code; replaced, never changed.

    A whole number is its own code; names get 0, 1, ... in the order in which they were first given.
    """

    __slots__ = ("_codes",)

    def __init__(self, labels: list[Label] | tuple[Label, ...] = ()) -> None:
        self._codes: dict[Label, int] = _registered({}, labels)

    def __len__(self) -> int:
        return len(self._codes)

    def __contains__(self, label: Label) -> bool:
        return label in self._codes

    @property
    def named(self) -> bool | None:
        """Whether arms have names, not numbers; None where there are none yet."""
        return isinstance(next(iter(self._codes)), str) if self._codes else None

    def encode(self, arms: Any, *, scalar: bool = False) -> tuple[Indices, ArmLabels]:
        """The (n,) codes of n labels, and all labels with new ones registered: `self` where none is new.

        scalar: one label alone will do for a list of one.
        """
        labels = plain_labels(arms, scalar=scalar)
        try:
            return np.array([self._codes[label] for label in labels], np.intp), self
        except KeyError:
            after = ArmLabels()
            after._codes = _registered(self._codes, labels)
            return np.array([after._codes[label] for label in labels], np.intp), after

    def state(self) -> list[Label]:
        """All labels, in the order of their codes."""
        return list(self._codes)

    @classmethod
    def restored(cls, state: Any) -> ArmLabels:
        """The labels that `state` gave."""
        try:
            labels = cls(plain_labels(state))
        except (ArmsError, ShapeError) as error:
            raise SavedFileError(f"the saved arms cannot be read ({error}); save the agent again") from error
        if len(labels) < len(state):
            raise SavedFileError("a saved arm comes twice; save the agent again")
        return labels


def _registered(known: dict[Label, int], labels: list[Label] | tuple[Label, ...]) -> dict[Label, int]:
    """The known codes, and those of new labels after them."""
    codes = dict(known)
    first = next(iter(codes), labels[0] if labels else 0)
    for label in labels:
        if isinstance(label, str) != isinstance(first, str):
            kinds = ("a name", "numbers") if isinstance(label, str) else ("a number", "names")
            raise ArmsError(
                f"arm {shown(label)} is {kinds[0]}, but this agent has arms with {kinds[1]}; use those"
            )
        if isinstance(label, str):
            codes.setdefault(label, len(codes))
        else:
            _check_label(label)
            codes[label] = label
    return codes


def check_range(codes: Indices) -> None:
    """Raise where a code is none of the numbers that arms may have."""
    for code in codes.tolist() if len(codes) < 10 else (int(codes.min()), int(codes.max())):
        _check_label(code)


def _check_label(label: int) -> None:
    if not -LARGEST_LABEL <= label <= LARGEST_LABEL:
        raise ArmsError(f"arm {shown(label)} is beyond {LARGEST_LABEL}; number arms from 0, or name them")


def plain_labels(arms: Any, *, scalar: bool = False) -> list[Label] | tuple[Label, ...]:
    """The labels as plain integers or plain strings."""
    if type(arms) is list or type(arms) is tuple:
        kinds = set(map(type, arms))
        if not kinds or kinds in (_NUMBERS, _NAMES):
            return arms
        return [_plain_label(label, row) for row, label in enumerate(arms)]
    if scalar and isinstance(arms, str | int | np.integer):
        return [_plain_label(arms, 0)]
    given = array_of(arms, "arms", ArmsError)
    if given.ndim == 0:
        raise ShapeError(f"arms are {shown(arms)}, a {type(arms).__name__}; give a list, one label per row")
    if given.ndim != 1:
        raise ShapeError(f"arms of shape {given.shape}; give one label per row")
    labels: list[Label] = given.tolist()
    if given.dtype.kind in "iuU" or not labels:
        return labels
    return [_plain_label(label, row) for row, label in enumerate(labels)]


def _plain_label(label: Any, row: int) -> Label:
    if isinstance(label, str):
        return str.__str__(label)
    if isinstance(label, int | np.integer) and not isinstance(label, bool | np.timedelta64):
        return int(label)
    if isinstance(label, list | tuple | np.ndarray):
        raise ShapeError(f"arms hold {shown(label)} in row {row}; give one label per row")
    raise ArmsError(
        f"arms hold {shown(label)} of type {type(label).__name__} in row {row}; give whole numbers or strings"
    )


class ArmIndex:
    """Codes of arms -> rows of an array, for arms seen so far only: thousands of arms, in any order, with gaps.

    Arms get rows 1, 2, ... in the order in which they are registered; row 0 is for every arm not seen yet.
    `copy.copy` of an index is cheap, and registering arms with the copy leaves the original as it is.
    """

    def __init__(self, labels: Indices | None = None) -> None:
        self.labels = np.empty(0, np.intp) if labels is None else np.asarray(labels, np.intp)
        #: The rows once more, made where they are asked for one by one.
        self._known: dict[int, int] | None = None
        self._sort()

    def __len__(self) -> int:
        """How many rows there are, row 0 included."""
        return len(self.labels) + 1

    def find(self, arms: Indices) -> Indices:
        """The row of each arm, (n,); 0 where it was not seen."""
        if len(arms) <= _FEW:
            return np.array([self.row(arm) for arm in arms.tolist()], np.intp)
        if not len(self.labels):
            return np.zeros(len(arms), np.intp)
        place = self._sorted.searchsorted(arms)
        seen = self._sorted.take(place, mode="clip") == arms
        found: Indices = np.where(seen, self._rows.take(place, mode="clip"), 0)
        return found

    def row(self, arm: int) -> int:
        """The row of one arm; 0 where it was not seen."""
        if self._known is None:
            self._known = dict(zip(self.labels.tolist(), range(1, len(self)), strict=True))
        return self._known.get(arm, 0)

    def register(self, arms: Indices) -> Indices:
        """The row of each arm, (n,); arms not seen before get new ones."""
        rows = self.find(arms)
        if rows.all():
            return rows
        new, first = np.unique(arms[rows == 0], return_index=True)
        self.labels = np.concatenate([self.labels, new[np.argsort(first)]])
        self._sort()
        return self.find(arms)

    def _sort(self) -> None:
        self._known = None
        order = np.argsort(self.labels, kind="stable")
        self._sorted = self.labels[order]
        self._rows = order + 1


def others(known: frozenset[int], arms: Indices) -> NDArray[np.bool_] | None:
    """Which of (n,) arms are none of those known; None where there are none. Of few labels, faster than by arrays."""
    labels = arms.tolist()
    return None if known.issuperset(labels) else np.array([arm not in known for arm in labels], np.bool_)
