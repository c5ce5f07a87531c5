"""Many rows learned at once: the newest are predicted by a model of those before them, as if they had come later."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from treebandit.core import Candidates, Floats
from treebandit.models.history import History
from treebandit.models.memory import Memory

if TYPE_CHECKING:
    from treebandit.models.tree_model import TreeModel

#: So many rows at once are a bulk; a round has fewer, paths through a city included.
BULK = 256
#: Of a bulk at most half of the rows, and so many, are predicted, by a model of so many rows before them.
_MOST_PREDICTED, _MOST_FITTED = 4096, 16_384


class Prequential(NamedTuple):
    """What errors of rows predicted before they were learned change: the memory, and a model's weights."""

    memory: Memory
    weights: Mapping[str, Any] = MappingProxyType({})


def split_bulk(n: int) -> tuple[slice, slice]:
    """Of n rows at once those that a model is fitted to first, and those that it predicts then."""
    cut = n - min(n // 2, _MOST_PREDICTED)
    return slice(max(cut - _MOST_FITTED, 0), cut), slice(cut, n)


def predicted_first(
    model: TreeModel, history: History, rows: Candidates, rewards: Floats, t: int
) -> Prequential:
    """Predict rows before they are learned, the last of a history: by the model, or by one of a bulk's first rows."""
    if model.fitted:
        return Prequential(
            _memory_after(model, history, rows, rewards),
            model.prequential_weights(rows, rewards) if len(rewards) >= BULK else {},
        )
    if len(rewards) < BULK or not (model.has_weights or model.memory.rule == "auto"):
        return Prequential(model.memory)
    first, newest = split_bulk(len(rewards))
    draft, random = copy(model), np.random.default_rng(len(rewards))
    draft.history = History().appended(rows[first], rewards[first])
    draft.rebuilt(draft.history, Prequential(model.memory), rows, t - len(rewards) + newest.start, random)()
    return predicted_first(draft, history, rows[newest], rewards[newest], t)


def _memory_after(model: TreeModel, history: History, rows: Candidates, rewards: Floats) -> Memory:
    """The memory once it knows how far off these rows are predicted, with which the history ends."""
    if not model.memory.watches(model.history):
        return model.memory
    errors = (rewards - model.estimate(rows).mean) / model.scale.deviation
    return model.memory.after(rows.arms, errors, history.contexts)
