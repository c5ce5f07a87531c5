"""How an arm enters its features, and how categories do: as labels and codes, or one-hot; and rows as they are."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from treebandit import schema
from treebandit.core import Columns, Features, Floats, Indices
from treebandit.errors import ShapeError

ArmEncoding = Literal["auto", "label", "one_hot", "none"]
CategoryEncoding = Literal["codes", "one_hot"]
#: Features [start, stop) that are the one-hot columns of one category, for each such category.
ColumnGroups = tuple[tuple[int, int], ...]
#: 'scaled': numbers standardised, categories one-hot; 'raw': as they are, categories as codes; 'unit': 'raw', each row
#: divided by its Euclidean length.
RowForm = Literal["scaled", "raw", "unit"]
#: Of each one-hot column: its source column, its code, and whether it has a code at all.
OneHotLayout = tuple[Indices, Features, NDArray[np.bool_]]


class OneHot:
    """Codes -> blocks of zeros and ones, column by column in the order of `columns`.

    A number stays one column; a category becomes `categories[j]` columns, of which the one of its code is 1.
    A missing value or a code without a column leaves its block all zeros; a missing number stays NaN.
    """

    def __init__(self, columns: Columns) -> None:
        categories = np.asarray(columns.categories, np.intp)
        widths = np.maximum(categories, 1)
        starts = np.cumsum(widths) - widths
        self.width = int(widths.sum())
        self._given = len(columns)
        source = np.repeat(np.arange(len(columns)), widths)
        codes = (np.arange(self.width) - starts[source]).astype(np.float32)
        self.layout: OneHotLayout = source, codes, categories[source] > 0
        self._any_coded = any(columns.categories)
        ends = zip(starts.tolist(), (starts + widths).tolist(), strict=True)
        self.column_groups: ColumnGroups = tuple(
            group for group, count in zip(ends, columns.categories, strict=True) if count
        )

    @property
    def numbers(self) -> NDArray[np.bool_]:
        """(width,), which columns are numbers."""
        return ~self.layout[2]

    def __call__(self, contexts: Features) -> Features:
        """The (n, width) features of (n, d) contexts."""
        if contexts.ndim != 2 or contexts.shape[1] != self._given:
            raise ShapeError(f"contexts of shape {contexts.shape}; expected (n, {self._given})")
        # mode="raise" would go through a buffer; the indices are known to fit.
        source, codes, coded = self.layout
        features: Features = contexts.take(source, axis=1, mode="clip")
        if self._any_coded:
            np.copyto(features, features == codes, where=coded)
        return features


class Encoder:
    """Contexts and arms -> what the trees see; fixed from one rebuild to the next.

    The arm comes first: its label as one column, or one 0/1 column per arm known when the encoder was made (an
    arm seen later is all zeros); 'auto' is the label where there are arms, 'none' the features alone. Categories
    follow as integer codes or one-hot. `column_groups` tells which features are one category's (or the arm's) one-hot.
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
        self.known = np.unique(arms) if arms is not None and arm_encoding == "one_hot" else None
        one_hot = categories == "one_hot" and any(columns.categories)
        self._one_hot = OneHot(columns) if one_hot else None
        self._front = 1 if self._label else 0 if self.known is None else len(self.known)
        self.width = self._front + (self._one_hot.width if self._one_hot else len(columns))
        arm_group = () if self.known is None else ((0, self._front),)
        groups = self._one_hot.column_groups if self._one_hot else ()
        behind = tuple((self._front + start, self._front + stop) for start, stop in groups)
        self.column_groups: ColumnGroups = (*arm_group, *behind)

    @property
    def sources(self) -> Indices:
        """(width,), the column that each feature stems from; -1 for the arm."""
        columns = self._one_hot.layout[0] if self._one_hot else np.arange(len(self.columns))
        return np.concatenate([np.full(self._front, -1), columns])

    def __call__(self, contexts: Features, arms: Indices | None) -> Features:
        """(n, width) features of (n, d) contexts and their (n,) arms; columns added since are left out."""
        if contexts.shape[1] > len(self.columns):
            contexts = contexts[:, : len(self.columns)]
        if not self._front:
            if self._one_hot is not None:
                return self._one_hot(contexts)
            return contexts if contexts.flags.c_contiguous else np.ascontiguousarray(contexts)
        features = np.empty((len(contexts), self.width), np.float32)
        self._fill_arms(features, arms)
        features[:, self._front :] = self._one_hot(contexts) if self._one_hot is not None else contexts
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
        return {**schema.columns_state(self.columns), "labels": self._label, "known": self.known}

    @classmethod
    def restored(cls, state: dict[str, Any], *, categories: CategoryEncoding) -> Encoder:
        """The encoder that `state` described."""
        arms, arm_encoding = saved_arms(state)
        return cls(schema.columns_in(state), arms, arm_encoding=arm_encoding, categories=categories)


def saved_arms(state: dict[str, Any]) -> tuple[Indices | None, ArmEncoding]:
    """Arms to make an encoder with like the one that `state` described, and how it shows them."""
    if schema.value(state, "known") is not None:
        return schema.labels(state, "known"), "one_hot"
    return (np.zeros(1, np.intp) if schema.flag(state, "labels") else None), "label"


def plain_rows(contexts: Features, *, unit: bool) -> Floats:
    """(n, d) contexts as they are, as 64-bit numbers, each row divided by its length where `unit`.

    So did the first neural bandits take them; a missing value is -1, as in the code of Zhang et al. (2021). A row of
    length 0 stays as it is.
    """
    rows = np.where(np.isnan(contexts), -1.0, contexts).astype(np.float64)
    if unit:
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        rows /= np.where(lengths > 0.0, lengths, 1.0)
    return rows
