"""Which of the rows learned still count: all, the newest ones, or those since predictions became worse."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from treebandit import schema
from treebandit.core import Floats, Indices
from treebandit.drift import (
    FIRST_ROWS,
    LARGEST_ERROR,
    Adwin,
    MemoryRule,
    check_memory,
    error_window,
    packed,
    unpacked,
)
from treebandit.errors import SavedFileError
from treebandit.models.history import History

#: So many of the newest errors are kept to tell which arms have changed: all but those with this many of them or more
#: whose mean is below this share of the greatest.
_NEWEST, _FEWEST_ERRORS, _UNCHANGED = 512, 8, 0.25
_NO_ERRORS = np.zeros((2, 0))


class Memory:
    """Which rows a model is fitted to when it is rebuilt; never changed, but replaced by what `after` gives.

    rule: "all" rows; as many of the newest; or "auto": the errors of predictions, each made before its row was learned,
        are watched by windows (ADWIN), one for all rows and one for each arm. When the mean error has moved away from
        0, the rows before that are dropped: of the arm, or of all arms whose newest errors show it.
    """

    __slots__ = ("_all", "_newest", "_stale", "_windows", "rule")

    def __init__(self, rule: MemoryRule = "all") -> None:
        check_memory(rule)
        self.rule: MemoryRule = rule if isinstance(rule, str) else int(rule)
        self._all = error_window()
        self._windows: dict[int, Adwin] = {}
        #: Arms and errors of the newest rows, (2, n).
        self._newest: Floats = _NO_ERRORS
        #: Arms whose older rows are dropped now, and how many of their newest rows are not.
        self._stale: dict[int, int] = {}

    def watches(self, history: History) -> bool:
        """Whether it wants to know errors: not of the first rows, when neither model nor unit tell much."""
        return self.rule == "auto" and len(history) >= FIRST_ROWS

    @property
    def alarm(self) -> bool:
        """Whether the errors taken in last show that predictions have become worse."""
        return bool(self._stale)

    def after(self, arms: Indices | None, errors: Floats) -> Memory:
        """What it is once it has seen these rows' errors, (n,), in standard deviations of the rewards."""
        after = self.answered()
        after._windows, after._all = self._windows.copy(), self._all.copy()
        errors = np.clip(errors, -LARGEST_ERROR, LARGEST_ERROR)
        labels = np.zeros(len(errors), np.intp) if arms is None else arms
        after._newest = np.concatenate([self._newest, [labels, errors]], axis=1)[:, -_NEWEST:]
        for label in dict.fromkeys(labels.tolist()):
            window = self._windows[label].copy() if label in self._windows else error_window()
            if window.update(errors[labels == label].tolist()):
                after._stale[label] = window.width
            after._windows[label] = window
        if after._all.update(errors.tolist()):
            after._stale |= after._changed_arms()
        for label in after._stale:
            after._windows[label] = error_window()
        return after

    def answered(self) -> Memory:
        """The same without alarm: the rows that gave it are dropped."""
        answered = Memory(self.rule)
        answered._windows, answered._all, answered._newest = self._windows, self._all, self._newest
        return answered

    def _changed_arms(self) -> dict[int, int]:
        """Arms that the newest errors, those in the window of all rows, show to have changed; how many each has there.

        Arms that were hardly played since are taken to have changed if most of the others have.
        """
        labels, errors = self._newest[:, -self._all.width :]
        mine = {label: errors[labels == label] for label in self._windows}
        means = {label: abs(each.mean()) for label, each in mine.items() if len(each) >= _FEWEST_ERRORS}
        greatest = max(means.values(), default=0.0)
        changed = {label for label, mean in means.items() if mean >= _UNCHANGED * greatest}
        rows = sum(len(mine[label]) for label in means)
        if 2 * sum(len(mine[label]) for label in changed) >= rows:
            changed |= mine.keys() - means.keys()
        return {label: len(mine[label]) for label in changed}

    def kept(self, history: History) -> NDArray[np.bool_] | None:
        """(n,), which rows of a history are kept; None for all of them."""
        n = len(history)
        if isinstance(self.rule, int) and n > self.rule:
            return np.arange(n) >= n - self.rule
        if not self._stale:
            return None
        kept = np.ones(n, np.bool_)
        for label, rows in self._stale.items():
            mine = np.arange(n) if history.arms is None else np.flatnonzero(history.arms == label)
            kept[mine[: max(len(mine) - rows, 0)]] = False
        return kept

    def state(self, *, history: bool = True) -> dict[str, Any] | None:
        """All that is needed to go on elsewhere; None without history, or where nothing is watched."""
        if not (history and self._windows):
            return None
        windows = packed([self._all, *self._windows.values()])
        return {"arms": np.array(list(self._windows), np.intp), "newest": self._newest, **windows}

    @classmethod
    def restored(cls, state: Any, rule: MemoryRule, history: History) -> Memory:
        """The memory that `state` described; a SavedFileError where it does not fit the rows of the history."""
        memory = cls(rule)
        if state is None:
            return memory
        labels = schema.labels({"arms": schema.value(state, "arms")}, "arms")
        memory._all, *windows = unpacked(state, error_window(), len(labels) + 1)
        widths, counts = np.array([window.width for window in windows]), history.counts(labels)
        newest = schema.array(state, "newest", np.float64, (2, None))
        if rule != "auto" or not history.whole or (widths > counts).any():
            raise SavedFileError("errors are saved of more rows than the agent has kept")
        if newest.shape[1] > _NEWEST or not np.isin(newest[0], labels).all():
            raise SavedFileError("the newest errors are saved of arms that were never learned")
        memory._newest = newest
        memory._windows = dict(zip(labels.tolist(), windows, strict=True))
        return memory
