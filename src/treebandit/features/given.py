"""What was given as contexts, kept until a reward comes: each agent encodes rows with codes and units of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np

from treebandit.core import Indices
from treebandit.errors import InputError
from treebandit.features.frames import as_dicts, is_frame, is_series, rows_of, stacked
from treebandit.features.named_rows import has_names, named_list, named_values

#: Types of values that hold no others.
_FLAT = frozenset({float, int, str, bool, type(None)})


@dataclass(frozen=True, slots=True, eq=False)
class Given:
    """Contexts as they were given, copied.

    contexts: an array, a dict, a list of dicts, a frame, a pandas series; or None without contexts.
    shared: the row of them that all arms share; None where row i is that of candidate i.
    """

    contexts: Any
    shared: int | None = None

    @classmethod
    def kept(cls, contexts: Any, candidates: int) -> Given:
        """A copy of what was given, which its owner may change."""
        if type(contexts) is np.ndarray and contexts.ndim == 1:
            return cls(contexts.copy(), 0)
        copied = copy_of(contexts)
        return cls(copied, None if _length(copied) == candidates else 0)

    @classmethod
    def each(cls, contexts: Any) -> list[Given]:
        """For every row of what was given its own copy; rows of a frame share one, because parts of it cost more."""
        copied = copy_of(contexts)
        if isinstance(copied, np.ndarray):
            return [cls(row.copy(), 0) for row in copied]
        if isinstance(copied, list):
            return [cls(row, 0) for row in copied]
        return [cls(copied, row) for row in range(len(copied))]

    def __reduce__(self) -> tuple[type[Given], tuple[Any, int | None]]:
        # Other rows of a frame are those of other decisions.
        if self.shared is None or _length(self.contexts) is None:
            return Given, (self.contexts, self.shared)
        return Given, (self.rows(np.zeros(1, np.intp)), 0)

    def rows(self, chosen: Indices) -> Any:
        """The contexts of the chosen rows: one each, or one row that they share."""
        contexts, rows = self.contexts, chosen.tolist() if self.shared is None else [self.shared]
        if _length(contexts) is None:
            return contexts
        if isinstance(contexts, list):
            return [contexts[row] for row in rows]
        return rows_of(contexts, rows) if is_frame(contexts) else contexts[rows]


def copy_of(contexts: Any) -> Any:
    """A copy of contexts that were checked already."""
    if type(contexts) is np.ndarray:
        return contexts.copy()
    if contexts is None:
        return None
    if isinstance(contexts, Mapping):
        return _dict_copy(contexts)
    if isinstance(contexts, list | tuple) and (named := named_list(contexts)) is not None:
        return [_dict_copy(row) for row in named]
    if is_frame(contexts):
        return rows_of(contexts)
    return contexts.copy() if is_series(contexts) else np.array(contexts)


def joined(parts: Sequence[Any], sizes: Sequence[int]) -> Any:
    """What `Given.rows` gave of several decisions with so many chosen rows each, as one."""
    if len(parts) == 1:
        return parts[0]
    if all(part is None for part in parts):
        return None
    if all(is_frame(part) for part in parts):
        # As a frame, whose columns have types: those of single values would be guessed.
        each = [
            part if len(part) == size else rows_of(part, [0] * size)
            for part, size in zip(parts, sizes, strict=True)
        ]
        if (frame := stacked(each)) is not None:
            return frame
    rows = [repeated(part, size) for part, size in zip(parts, sizes, strict=True)]
    if all(isinstance(part, np.ndarray) for part in rows):
        widths = {part.shape[1] for part in rows}
        if len(widths) > 1:
            raise InputError(
                f"decisions over rows of {sorted(widths)} features in one list; learn them apart"
            )
        return np.concatenate(rows)
    if any(part is None or isinstance(part, np.ndarray) for part in rows):
        raise InputError("decisions over arrays, named columns or no contexts in one list; learn them apart")
    return [row for part in rows for row in part]


def repeated(part: Any, size: int) -> Any:
    """`size` rows as a (size, d) array or as dicts; None without contexts."""
    if part is None:
        return None
    if is_series(part):
        part = named_values(part) if has_names(part) else np.array(part)
    if isinstance(part, np.ndarray):
        table = np.atleast_2d(part)
        return table if len(table) == size else np.repeat(table, size, axis=0)
    rows: list[Any] = [part] if isinstance(part, dict) else part if isinstance(part, list) else as_dicts(part)
    return rows if len(rows) == size else rows * size


def _dict_copy(row: Mapping[Any, Any]) -> dict[Any, Any]:
    copied = dict(row)
    if _FLAT.issuperset(map(type, copied.values())):
        return copied
    nested = any(isinstance(value, Mapping | list | tuple | np.ndarray) for value in copied.values())
    return deepcopy(copied) if nested else copied


def _length(contexts: Any) -> int | None:
    """How many rows; None for one row alone, or none."""
    if isinstance(contexts, np.ndarray):
        return len(contexts) if contexts.ndim > 1 else None
    return len(contexts) if isinstance(contexts, list) or is_frame(contexts) else None
