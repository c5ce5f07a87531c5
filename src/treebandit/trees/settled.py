"""Rows that come again and again: what a forest decides on their own columns, settled once.

Where many candidates are scored round after round, most columns describe the candidate (a road's ends, an article)
and do not change; the others describe the round (the time of day, a visitor) and are the same for all candidates.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from treebandit.core import Features, Floats
from treebandit.trees import kernels, settled_kernels
from treebandit.trees.forest import Forest

#: Fewer rows are walked faster than they are compared with those of the last time.
FEWEST_ROWS = 256
#: Rows are listed as 16-bit numbers.
MOST_ROWS = 1 << 16
#: Entries of the lists per row and tree, and in all (64 MB); a forest that needs more is walked as before.
MOST_ENTRIES_EACH = 40
MOST_ENTRIES = 1 << 25
#: Settling costs about as much as walking the rows eight times, so they are to come again this often before it,
#: and this often where other rows, settled but hardly used yet, make room for them.
REPEATS, PATIENCE = 3, 16


class SettledRows:
    """The rows that come to each node of a forest whenever the shared columns lead there.

    In each tree one row stands for all that its splits of own columns do not part. A row's leaf is then the one
    that lists it and to which the shared columns, the same for all rows, lead: no row is walked. What leaves know
    is read anew every time, so learning changes nothing here. Beside the forest this takes at most 64 MB of lists,
    2 bytes per row and tree, 16 per node, and a copy of the rows.
    """

    __slots__ = ("_bits", "_forest", "_rows", "_shared", "_spans", "_stands_for", "_varying")

    def __init__(
        self,
        forest: Forest,
        bits: NDArray[np.uint32],
        shared: NDArray[np.bool_],
        lists: tuple[NDArray[np.int64], NDArray[np.uint16], NDArray[np.uint16]],
    ) -> None:
        self._forest, self._bits = forest, bits
        self._spans, self._rows, self._stands_for = lists
        self._shared = np.concatenate([shared, shared])
        self._varying = np.where(shared, np.uint32(0xFFFFFFFF), np.uint32(0))

    @classmethod
    def settle(cls, forest: Forest, features: Features, shared: NDArray[np.bool_]) -> SettledRows | None:
        """The (n, d) rows with their shared columns left open; None where the lists would grow too long."""
        n = len(features)
        columns = np.ascontiguousarray(_laid_out(features).T)
        spans = np.zeros((len(forest.nodes), 2), np.int64)
        stands_for = np.zeros((len(forest.roots), n), np.uint16)
        # Memory that is never written to is never taken, so the longest lists may be allowed for.
        rows = np.empty(min(MOST_ENTRIES, MOST_ENTRIES_EACH * n * forest.n_trees), np.uint16)
        used = settled_kernels.settle_rows(
            forest.nodes,
            forest.roots,
            forest.bits,
            forest.n_trees,
            columns,
            np.concatenate([shared, shared]),
            MOST_ENTRIES_EACH,
            spans,
            rows,
            stands_for,
        )
        if used < 0:
            return None
        rows.resize(used, refcheck=False)
        return cls(forest, features.view(np.uint32).copy(), shared, (spans, rows, stands_for))

    @property
    def nbytes(self) -> int:
        """Bytes held beside the forest."""
        return self._rows.nbytes + self._stands_for.nbytes + self._spans.nbytes + self._bits.nbytes

    def holds(self, features: Features) -> bool:
        """Whether these are the settled rows, bit by bit, but for shared columns that are again shared."""
        bits = features.view(np.uint32)
        return bits.shape == self._bits.shape and bool(
            settled_kernels.are_settled(bits, self._bits, self._varying)
        )

    def score(self, table: Floats, features: Features) -> Floats:
        """`kernels.score_rows` of these rows, (3, n)."""
        sums: Floats = settled_kernels.score_settled(*self._walk(table, features))
        return sums

    def sample(self, table: Floats, features: Features, key: np.uint64, exploration: float) -> Floats:
        """`kernels.sample_rows` of these rows, (n,)."""
        samples: Floats = settled_kernels.sample_settled(*self._walk(table, features), key, exploration)
        return samples

    def _walk(self, table: Floats, features: Features) -> tuple[Any, ...]:
        """What the compiled loops ask for, of this round only what the rows share."""
        this_round = _laid_out(features[:1])[0]
        lists = self._shared, self._spans, self._rows, self._stands_for
        return *self._forest.layout, self._forest.n_trees, table, this_round, *lists


class RowMemory:
    """Watches the rows that a forest is asked about, and settles those that come again and again.

    It only ever holds copies of rows and what the forest, which does not change, says of them: whoever shares
    a memory, or has none, gets the same numbers.
    """

    __slots__ = ("_forest", "_last", "_refused", "_repeats", "_settled", "_uses")

    def __init__(self, forest: Forest) -> None:
        self._forest = forest
        self._last: NDArray[np.uint32] | None = None
        self._settled: SettledRows | None = None
        self._repeats, self._uses, self._refused = 0, 0, False

    @property
    def nbytes(self) -> int:
        """Bytes held beside the forest."""
        held = (self._last, self._settled)
        return sum(part.nbytes for part in held if part is not None)

    def recall(self, features: Features) -> SettledRows | None:
        """What is settled of (n, d) rows; None where they are new, few or too many, and must be walked."""
        if not FEWEST_ROWS <= len(features) <= MOST_ROWS or features.dtype != np.float32:
            return None
        if not features.flags.c_contiguous:
            return None
        if self._settled is not None and self._settled.holds(features):
            self._uses += 1
            return self._settled
        shared = self._shared_columns(features)
        if shared is None:
            return None
        self._repeats += 1
        needed = REPEATS if self._settled is None or self._uses >= PATIENCE else PATIENCE
        if self._refused or self._repeats < needed:
            return None
        settled = SettledRows.settle(self._forest, features, shared)
        self._refused = settled is None
        if settled is not None:
            self._settled, self._uses, self._last = settled, 0, None
        return settled

    def _shared_columns(self, features: Features) -> NDArray[np.bool_] | None:
        """Which columns are shared where all others are as they were the last time; else note the rows."""
        bits, last = features.view(np.uint32), self._last
        shared = np.empty(bits.shape[1], np.bool_)
        if last is not None and last.shape == bits.shape:
            if settled_kernels.find_shared(bits, last, shared):
                return shared
            last[...] = bits
        else:
            self._last = bits.copy()
        self._repeats, self._refused = 0, False
        return None


def _laid_out(features: Features) -> Features:
    rows = np.empty((len(features), 2 * features.shape[1]), np.float32)
    kernels.lay_out(features, 0, len(features), rows)
    return rows
