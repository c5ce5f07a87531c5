"""Candidates that are given as they are: whole in themselves, and of the columns that an agent has seen."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from treebandit.core import Candidates, Columns, Features
from treebandit.errors import ArmsError, InputError, ShapeError
from treebandit.features.scaling import column_name
from treebandit.features.values import shown


def check_whole(candidates: Candidates) -> None:
    """Raise where contexts, arms and columns of Candidates do not fit each other."""
    contexts, codes, columns = candidates.contexts, candidates.arms, candidates.columns
    if not isinstance(contexts, np.ndarray) or contexts.ndim != 2 or contexts.dtype != np.float32:
        kind, shape = (getattr(contexts, name, "none") for name in ("dtype", "shape"))
        raise ShapeError(
            f"contexts are a {type(contexts).__name__} of type {kind}, shape {shape}; expected float32, (n, d)"
        )
    if not isinstance(columns, Columns) or len(columns.categories) != contexts.shape[1]:
        raise ShapeError(
            f"contexts of {contexts.shape[1]} features, but columns are {shown(columns)}; describe each feature"
        )
    if codes is None:
        return
    if not isinstance(codes, np.ndarray) or codes.dtype.kind not in "iu" or codes.ndim != 1:
        raise ArmsError(f"the arms of Candidates are {shown(codes)}; give an array of whole numbers, (n,)")
    if len(codes) != len(contexts):
        raise ShapeError(f"{len(codes)} arms for {len(contexts)} rows; give one arm per row")


@lru_cache(maxsize=256)
def _coded(categories: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    """The columns of categories, and how many each has."""
    return tuple((place, count) for place, count in enumerate(categories) if count)


def check_codes(contexts: Features, columns: Columns) -> None:
    """Raise where a column of categories holds anything but their codes, or NaN where one is missing."""
    coded = _coded(columns.categories)
    if len(contexts) == 1:
        # A round has one row, and NumPy needs longer to begin.
        values = contexts[0].tolist()
        for at, count in coded:
            code = values[at]
            if not (0.0 <= code < count and code.is_integer()) and code == code:
                break
        else:
            return
    elif not coded:
        return
    places, counts = (np.array(each) for each in zip(*coded, strict=True))
    codes = contexts[:, places]
    # Nothing is true of NaN.
    wrong = (codes < 0.0) | (codes >= counts) | (codes > np.trunc(codes))
    if wrong.any():
        row, place = (int(index) for index in np.argwhere(wrong)[0])
        column, count = int(places[place]), int(counts[place])
        raise InputError(
            f"column {column_name(columns, column)} of {count} categories holds the code {codes[row, place]:g} in row "
            f"{row}; give whole numbers from 0 to {count - 1}, NaN for missing ones"
        )


def fitted(candidates: Candidates, learned: Columns, *, narrower: bool, wider: bool) -> Candidates:
    """The Candidates as an agent that has learned these columns takes them.

    Numbers stay numbers, categories stay categories; their number may grow. narrower: columns may be lacking at the
    end, which are missing then: rows from before they were added. wider: columns may be added at the end.
    """
    contexts, columns = candidates.contexts, candidates.columns
    width = contexts.shape[1]
    if (width < len(learned) and not narrower) or (width > len(learned) and not wider):
        check_width(width, learned)
    if columns.categories == learned.categories:
        return candidates
    for place, counts in enumerate(zip(learned.categories, columns.categories, strict=False)):
        before, now = ("categories" if count else "numbers" for count in counts)
        if before != now:
            name = repr(learned.names[place]) if learned.names else place
            raise InputError(f"column {name} held {before} and now holds {now}; keep to {before}")
    longer, names = (learned, learned.names) if width < len(learned) else (columns, columns.names)
    both = (*map(max, learned.categories, columns.categories), *longer.categories[min(width, len(learned)) :])
    if width < len(learned):
        contexts = np.full((len(contexts), len(learned)), np.nan, np.float32)
        contexts[:, :width] = candidates.contexts
    return Candidates(
        contexts, candidates.arms, learned if both == learned.categories else Columns(both, names)
    )


def check_width(width: int, learned: Columns) -> None:
    """Raise where rows have another number of columns than those learned."""
    if width != len(learned):
        raise ShapeError(
            f"rows of {width} features, but this agent has learned rows of {len(learned)}; "
            "give the same columns every time"
        )
