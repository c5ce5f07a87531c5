"""Arm labels -> rows of an array, for arms met so far only: thousands of arms, in any order, with gaps."""

from __future__ import annotations

import numpy as np

from treebandit.core import Indices


class ArmIndex:
    """Slots 1, 2, ... in the order in which arms were met; slot 0 stands for every arm not met yet."""

    def __init__(self, labels: Indices | None = None) -> None:
        self.labels = np.empty(0, np.intp) if labels is None else np.asarray(labels, np.intp)
        self._sort()

    def __len__(self) -> int:
        """How many slots there are, slot 0 included."""
        return len(self.labels) + 1

    def find(self, arms: Indices) -> Indices:
        """The slot of each arm, (n,); 0 where it was not met."""
        if not len(self.labels):
            return np.zeros(len(arms), np.intp)
        place = self._sorted.searchsorted(arms)
        known = self._sorted.take(place, mode="clip") == arms
        found: Indices = np.where(known, self._slots.take(place, mode="clip"), 0)
        return found

    def meet(self, arms: Indices) -> Indices:
        """The slot of each arm, (n,); arms not met before get new ones."""
        slots = self.find(arms)
        if slots.all():
            return slots
        new, first = np.unique(arms[slots == 0], return_index=True)
        self.labels = np.concatenate([self.labels, new[np.argsort(first)]])
        self._sort()
        return self.find(arms)

    def _sort(self) -> None:
        order = np.argsort(self.labels, kind="stable")
        self._sorted = self.labels[order]
        self._slots = order + 1
