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
_NO_ROWS = np.zeros(0, np.intp)


class Memory:
    """Which rows a model is fitted to when it is rebuilt; never changed, but replaced by what `after` gives.

    rule: "all" rows; as many of the newest; or "auto": the errors of predictions, each made before its row was learned,
        are watched by windows (ADWIN), one for all rows and one for each arm. When the mean error has moved away from
        0, the rows before that are dropped: of the arm, or of all arms whose newest errors show it. The windows then
        keep the errors from before the change, when the model was right: a model that stays wrong, because the truth
        goes on changing, is compared with these and raises the next alarm.
    per_arm: whether arms are told apart; False where the model does not see them.
    """

    __slots__ = ("_all", "_before", "_newest", "_per_arm", "_stale", "_windows", "rule")

    def __init__(self, rule: MemoryRule = "all", *, per_arm: bool = True) -> None:
        check_memory(rule)
        self._per_arm = per_arm
        self.rule: MemoryRule = rule if isinstance(rule, str) else int(rule)
        self._all = error_window()
        self._windows: dict[int, Adwin] = {}
        #: Of arms that were forgotten: how many of the errors in their windows are from before that.
        self._before: dict[int, int] = {}
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
        labels = arms if arms is not None and self._per_arm else np.zeros(len(errors), np.intp)
        after._newest = np.concatenate([self._newest, [labels, errors]], axis=1)[:, -_NEWEST:]
        for label in dict.fromkeys(labels.tolist()):
            window = self._windows[label].copy() if label in self._windows else error_window()
            if window.update(errors[labels == label].tolist()):
                after._stale[label] = window.width
            after._windows[label] = window
        if after._all.update(errors.tolist()):
            after._stale |= after._changed_arms(after._all.width)
        if after._stale:
            after._leave_out(self, labels)
        return after

    def _leave_out(self, last: Memory, labels: Indices) -> None:
        """Take the errors since the change out of all windows: the model that made them is about to be replaced.

        last: the memory before the newest rows. labels: their arms, (n,).
        """
        since = len(labels)
        self._before = last._before.copy()
        for label, rows in self._stale.items():
            mine = np.flatnonzero(self._newest[0] == label)[-rows:] if rows else _NO_ROWS
            if len(mine):
                since = max(since, self._newest.shape[1] - int(mine[0]))
            window = last._windows[label].copy() if label in last._windows else error_window()
            window.drop_newest(rows - int((labels == label).sum()))
            self._windows[label], self._before[label] = window, window.width
        self._all = last._all.copy()
        self._all.drop_newest(since - len(labels))
        self._newest = self._newest[:, : max(self._newest.shape[1] - since, 0)]

    def answered(self) -> Memory:
        """The same without alarm: the rows that gave it are dropped."""
        answered = Memory(self.rule, per_arm=self._per_arm)
        answered._windows, answered._all, answered._newest = self._windows, self._all, self._newest
        answered._before = self._before
        return answered

    def _changed_arms(self, since: int) -> dict[int, int]:
        """Arms that the newest errors, `since` of them, show to have changed; how many of these each has.

        Arms that were hardly played since are taken to have changed if most of the others have.
        """
        labels, errors = self._newest[:, -since:]
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
            told_apart = history.arms is not None and self._per_arm
            mine = np.flatnonzero(history.arms == label) if told_apart else np.arange(n)
            kept[mine[: max(len(mine) - rows, 0)]] = False
        return kept

    def state(self, *, history: bool = True) -> dict[str, Any] | None:
        """All that is needed to go on elsewhere; None without history, or where nothing is watched."""
        if not (history and self._windows):
            return None
        before = [self._before.get(label, 0) for label in self._windows]
        return {
            "arms": np.array(list(self._windows), np.intp),
            "before": np.array(before, np.int64),
            "newest": self._newest,
            **packed([self._all, *self._windows.values()]),
        }

    @classmethod
    def restored(cls, state: Any, rule: MemoryRule, history: History, *, per_arm: bool = True) -> Memory:
        """The memory that `state` described; a SavedFileError where it does not fit the rows of the history."""
        memory = cls(rule, per_arm=per_arm)
        if state is None:
            return memory
        labels = schema.labels({"arms": schema.value(state, "arms")}, "arms")
        memory._all, *windows = unpacked(state, error_window(), len(labels) + 1)
        widths = np.array([window.width for window in windows])
        counts = history.counts(labels) if per_arm else len(history)
        before = schema.array(state, "before", np.int64, (len(labels),), least=0)
        newest = schema.array(state, "newest", np.float64, (2, None))
        if (before > widths).any():
            raise SavedFileError("more errors are saved from before a change than there are errors")
        if rule != "auto" or not history.whole or (widths - before > counts).any():
            raise SavedFileError("errors are saved of more rows than the agent has kept")
        if newest.shape[1] > _NEWEST or not np.isin(newest[0], labels).all():
            raise SavedFileError("the newest errors are saved of arms that were never learned")
        memory._newest = newest
        memory._before = dict(zip(labels.tolist(), before.tolist(), strict=True))
        memory._windows = dict(zip(labels.tolist(), windows, strict=True))
        return memory
