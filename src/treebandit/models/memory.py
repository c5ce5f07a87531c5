"""Which of the rows learned still count: all, the newest ones, or those since predictions became worse."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from treebandit import schema
from treebandit.core import Features, Floats, Indices
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
from treebandit.models.error_slopes import MOST_COLUMNS, MOST_ROWS, rows_since_change
from treebandit.models.history import History

#: So many of the newest errors are kept, to tell whether they go with features, and which arms have changed: all but
#: those with this many of them or more whose mean is below this share of the greatest.
_NEWEST, _FEWEST_ERRORS, _UNCHANGED = 2048, 8, 0.25
#: Where the mean error of all rows shows a change, at most so many of the newest rows are taken to be since then: where
#: means go on moving, older ones are of a truth that has gone.
_MOST_SINCE = 512
#: A model that was fitted to fewer rows of an arm does not know it: its errors there are no change. Or to fewer than an
#: arm usually has, where that is less: then it knows arms by what they have in common.
_FEWEST_ROWS = 8
_NO_ERRORS = np.zeros((2, 0))
_NO_ROWS = np.zeros(0, np.intp)


class Memory:
    """Which rows a model is fitted to when it is rebuilt; never changed, but replaced by what `after` gives.

    rule: "all" rows; as many of the newest; or "auto": the errors of predictions, each made before its row was learned,
        are watched by windows (ADWIN), one for all rows and one for each arm. When the mean error has moved away from
        0, the rows before that are dropped: of the arm, or of all arms whose newest errors show it. So are those of an
        arm whose errors have begun to go with features (`models/error_slopes.py`). The windows then
        keep the errors from before the change, when the model was right: a model that stays wrong, because the truth
        goes on changing, is compared with these and raises the next alarm. Only errors on arms that the model knows
        are watched: `fitted` tells.
    per_arm: whether arms are told apart; False where the model does not see them.
    """

    __slots__ = ("_all", "_before", "_fewest", "_known", "_newest", "_per_arm", "_stale", "_windows", "rule")

    def __init__(self, rule: MemoryRule = "all", *, per_arm: bool = True) -> None:
        check_memory(rule)
        self._per_arm = per_arm
        self.rule: MemoryRule = rule if isinstance(rule, str) else int(rule)
        self._all = error_window()
        self._windows: dict[int, Adwin] = {}
        #: Of arms that were forgotten: how many of the errors in their windows are from before that.
        self._before: dict[int, int] = {}
        #: Arms that the model was fitted to enough rows of.
        self._known: frozenset[int] = frozenset()
        #: How many rows are enough.
        self._fewest = _FEWEST_ROWS
        #: Arms and errors of the newest rows that are kept, (2, n); NaN where the error was not watched.
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

    def after(self, arms: Indices | None, errors: Floats, contexts: Features | None = None) -> Memory:
        """What it is once it has seen these rows' errors, (n,), in standard deviations of the rewards.

        contexts: of all rows kept so far, these ones at the end; None, only means of errors are watched.
        """
        after = self.answered()
        after._windows, after._all = self._windows.copy(), self._all.copy()
        errors = np.clip(errors, -LARGEST_ERROR, LARGEST_ERROR)
        labels = self._labels(arms, len(errors))
        known = np.array([label in self._known for label in labels.tolist()], np.bool_)
        newest = labels, np.where(known, errors, np.nan)
        after._newest = np.concatenate([self._newest, newest], axis=1)[:, -_NEWEST:]
        for label in dict.fromkeys(labels.tolist()):
            window = self._windows[label].copy() if label in self._windows else error_window()
            mine = errors[known & (labels == label)].tolist()
            if window.update(mine):
                after._stale[label] = window.width
            elif contexts is not None and (rows := after._rows_since(label, window, len(mine), contexts)):
                after._stale[label] = rows
            after._windows[label] = window
        if after._all.update(errors[known].tolist()):
            after._stale |= after._changed_arms(after._all.width)
        if after._stale:
            after._leave_out(self, labels, known)
        return after

    def _rows_since(self, label: int, window: Adwin, new: int, contexts: Features) -> int:
        """How many of an arm's newest rows have errors that go with features, as they did not before; 0 for none.

        window: its errors. new: how many of them are new.
        """
        ends = range(window.seen % window.every, new, window.every)
        if not ends or contexts.shape[1] > MOST_COLUMNS:
            return 0
        mine = np.flatnonzero(self._newest[0] == label)
        watched = mine[np.isfinite(self._newest[1, mine])]
        variance, behind = window.variance + window.mean**2, len(contexts) - self._newest.shape[1]
        for end in reversed(ends):
            places = watched[: max(len(watched) - end, 0)][-MOST_ROWS:]
            errors = self._newest[1, places]
            if count := rows_since_change(contexts[behind + places], errors, variance, window.delta):
                return int((mine >= places[-count]).sum())
        return 0

    def _leave_out(self, last: Memory, labels: Indices, known: NDArray[np.bool_]) -> None:
        """Take the errors since the change out of all windows: the model that made them is about to be replaced.

        last: the memory before the newest rows. labels, known: their arms, and whether they were watched, (n,).
        """
        start, watched = max(self._newest.shape[1] - len(labels), 0), np.isfinite(self._newest[1])
        self._before = last._before.copy()
        for label, rows in self._stale.items():
            mine = np.flatnonzero(self._newest[0] == label)[-rows:] if rows else _NO_ROWS
            start = min([start, *mine[:1].tolist()])
            window = last._windows[label].copy() if label in last._windows else error_window()
            window.drop_newest(rows - int((~watched[mine]).sum()) - int((labels[known] == label).sum()))
            self._windows[label], self._before[label] = window, window.width
        self._all = last._all.copy()
        self._all.drop_newest(int(watched[start:].sum()) - int(known.sum()))
        self._newest = self._newest.copy()
        self._newest[1, start:] = np.nan
        # Rows that are dropped leave, too: each error stays that of its row.
        for label, rows in self._stale.items():
            mine = np.flatnonzero(self._newest[0] == label)
            self._newest = np.delete(self._newest, mine[: max(len(mine) - rows, 0)], axis=1)

    def answered(self) -> Memory:
        """The same without alarm: the rows that gave it are dropped."""
        answered = Memory(self.rule, per_arm=self._per_arm)
        answered._windows, answered._all, answered._newest = self._windows, self._all, self._newest
        answered._before, answered._known, answered._fewest = self._before, self._known, self._fewest
        return answered

    def fitted(self, history: History, *, new: int | None = None) -> Memory:
        """The same without alarm, for a model that has been fitted to this history.

        new: how many rows at its end have been added to an earlier fit; None if it was fitted anew, and where all arms
            shall be looked at.
        """
        if self.rule != "auto":
            return self
        after, labels = self.answered(), self._labels(history.arms, len(history))
        if new is None:
            found, counts = np.unique(labels, return_counts=True)
            # Of one row in two, the arm has at least as many rows as the median.
            after._fewest = min(_FEWEST_ROWS, int(np.median(np.repeat(counts, counts))))
            after._known = frozenset(found[counts >= after._fewest].tolist())
        else:
            asked = set(labels[len(labels) - new :].tolist()) - self._known
            after._known |= {label for label in asked if (labels == label).sum() >= self._fewest}
        return after

    def _labels(self, arms: NDArray[Any] | None, n: int) -> NDArray[Any]:
        """(n,): the arm of each row; 0 where arms are not told apart."""
        return arms if arms is not None and self._per_arm else np.zeros(n, np.intp)

    def _changed_arms(self, since: int) -> dict[int, int]:
        """Arms that the newest errors watched, `since` of them, show to have changed; how many rows each has since.

        Arms that were hardly played or known since are taken to have changed if most of the others have become worse.
        """
        newest = self._newest[:, -_MOST_SINCE:]
        places = np.flatnonzero(np.isfinite(newest[1]))[-since:]
        labels, errors = newest[:, places[0] if len(places) else 0 :]
        rows = {label: int((labels == label).sum()) for label in self._windows}
        mine = {label: errors[(labels == label) & np.isfinite(errors)] for label in self._windows}
        means = {label: abs(each.mean()) for label, each in mine.items() if len(each) >= _FEWEST_ERRORS}
        greatest = max(means.values(), default=0.0)
        changed = {label for label, mean in means.items() if mean >= _UNCHANGED * greatest}
        worse = sum(len(mine[label]) for label in changed if self._worse(label, mine[label]))
        if 2 * worse >= sum(len(mine[label]) for label in means):
            changed |= mine.keys() - means.keys()
        return {label: rows[label] for label in changed}

    def _worse(self, label: int, newest: Floats) -> bool:
        """Whether an arm's newest errors are further from 0 than those before; not so if it is new."""
        if label in self._stale:
            return True
        window = self._windows[label]
        older = window.width - len(newest)
        return older >= _FEWEST_ERRORS and abs(newest.mean()) > abs(window.total - newest.sum()) / older

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
        if not (history and (self._windows or self._known)):
            return None
        before = [self._before.get(label, 0) for label in self._windows]
        return {
            "arms": np.array(list(self._windows), np.intp),
            "before": np.array(before, np.int64),
            "known": np.array(sorted(self._known), np.intp),
            "fewest": self._fewest,
            "newest": self._newest,
            **packed([self._all, *self._windows.values()]),
        }

    @classmethod
    def restored(cls, state: Any, rule: MemoryRule, history: History, *, per_arm: bool = True) -> Memory:
        """The memory that `state` described; a SavedFileError where it does not fit the rows of the history."""
        memory = cls(rule, per_arm=per_arm)
        if state is None:
            return memory
        labels, known = schema.labels(state, "arms"), schema.labels(state, "known")
        memory._all, *windows = unpacked(state, error_window(), len(labels) + 1)
        widths = np.array([window.width for window in windows])
        counts, fitted = (
            history.counts(each) if per_arm else np.full(len(each), len(history)) for each in (labels, known)
        )
        before = schema.array(state, "before", np.int64, (len(labels),), least=0)
        newest = schema.array(state, "newest", np.float64, (2, None), nan=True)
        if (before > widths).any():
            raise SavedFileError("more errors are saved from before a change than there are errors")
        if rule != "auto" or not history.whole or (widths - before > counts).any():
            raise SavedFileError("errors are saved of more rows than the agent has kept")
        if newest.shape[1] > _NEWEST or not np.isin(newest[0], labels).all():
            raise SavedFileError("the newest errors are saved of arms that were never learned")
        memory._fewest = schema.whole(state, "fewest", least=1, most=_FEWEST_ROWS)
        if (fitted < memory._fewest).any():
            raise SavedFileError("arms are saved as known of which the agent has kept too few rows")
        # Errors that are not those of the rows kept tell nothing of them.
        newest_arms = memory._labels(history.arms, len(history))[-newest.shape[1] :]
        own = newest.shape[1] == 0 or np.array_equal(newest[0], newest_arms)
        memory._newest, memory._known = newest if own else _NO_ERRORS, frozenset(known.tolist())
        memory._before = dict(zip(labels.tolist(), before.tolist(), strict=True))
        memory._windows = dict(zip(labels.tolist(), windows, strict=True))
        return memory
