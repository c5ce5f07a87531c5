"""How an arm enters its features, and how categories do."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from treebandit.core import Columns, Features, Indices
from treebandit.errors import ParameterError
from treebandit.features.frames import OneHot

ArmEncoding = Literal["auto", "label", "one_hot", "none"]
CategoryEncoding = Literal["codes", "one_hot"]


def check_encoding(arm_encoding: str, categories: str) -> None:
    """Raise a ParameterError where a name is not known."""
    if arm_encoding not in ("auto", "label", "one_hot", "none"):
        raise ParameterError(f"arm_encoding={arm_encoding!r}; choose 'auto', 'label', 'one_hot' or 'none'")
    if categories not in ("codes", "one_hot"):
        raise ParameterError(f"categories={categories!r}; choose 'codes' or 'one_hot'")


class Encoder:
    """Contexts and arms -> what the trees see; fixed from one rebuild to the next.

    The arm comes first: its label as one column, or one 0/1 column per arm known when the encoder was made (an
    arm met later is all zeros); 'auto' is the label where there are arms, 'none' the features alone. Categories
    follow as integer codes or one-hot.
    """

    def __init__(
        self,
        columns: Columns,
        arms: Indices | None,
        *,
        arm_encoding: ArmEncoding = "auto",
        categories: CategoryEncoding = "codes",
    ) -> None:
        self.columns = columns
        self._label = arms is not None and arm_encoding in ("auto", "label")
        one_hot_arms = arms is not None and arm_encoding == "one_hot"
        self.known = np.unique(arms) if one_hot_arms and arms is not None else None
        one_hot = categories == "one_hot" and any(columns.categories)
        self._spread = OneHot(columns) if one_hot else None
        self._front = 1 if self._label else 0 if self.known is None else len(self.known)
        self.width = self._front + (self._spread.width if self._spread else len(columns))

    def __call__(self, contexts: Features, arms: Indices | None) -> Features:
        """(n, width) features of (n, d) contexts and their (n,) arms."""
        if not self._front:
            if self._spread is not None:
                return self._spread(contexts)
            return contexts if contexts.flags.c_contiguous else np.ascontiguousarray(contexts)
        features = np.empty((len(contexts), self.width), np.float32)
        self._fill_arms(features, arms)
        features[:, self._front :] = self._spread(contexts) if self._spread is not None else contexts
        return features

    def _fill_arms(self, features: Features, arms: Indices | None) -> None:
        """Write the arms into the first columns."""
        if self._label:
            features[:, 0] = arms
        else:
            assert arms is not None
            features[:, : self._front] = np.asarray(arms)[:, None] == self.known

    def state(self) -> dict[str, Any]:
        """What tells this encoder from another of the same agent."""
        return {
            "categories": list(self.columns.categories),
            "names": list(self.columns.names),
            "labels": self._label,
            "known": self.known,
        }

    @classmethod
    def restored(cls, state: dict[str, Any], *, categories: CategoryEncoding) -> Encoder:
        """The encoder that `state` described."""
        columns = Columns(tuple(state["categories"]), tuple(state["names"]))
        if state["known"] is not None:
            return cls(columns, state["known"], arm_encoding="one_hot", categories=categories)
        arms = np.zeros(1, np.intp) if state["labels"] else None
        return cls(columns, arms, arm_encoding="label", categories=categories)
