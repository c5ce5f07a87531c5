"""One round at a time: what all environments here do alike."""

from __future__ import annotations

from typing import Any

from treebandit.core import Indices, Outcome, Round, checked_rows
from treebandit.errors import RoundError


class OneRoundAtATime:
    """An environment that shows the same round until a choice is made, and takes one choice a round.

    A subclass writes `_next_round()` and `_outcome(rows)`, which gets rows of the round, each once; a choice that
    it refuses leaves the round open.
    """

    _shown: Round | None = None

    def observe(self) -> Round:
        """The round to choose in: a new one after every `pull`, else the one shown last."""
        if self._shown is None:
            self._shown = self._next_round()
        return self._shown

    def pull(self, choice: Any) -> Outcome:
        """The outcome of choosing these rows of the round observed last."""
        if self._shown is None:
            raise RoundError("a choice without a round; call observe before every pull")
        outcome = self._outcome(checked_rows(choice, len(self._shown.candidates)))
        self._shown = None
        return outcome

    def _next_round(self) -> Round:
        raise NotImplementedError

    def _outcome(self, rows: Indices) -> Outcome:
        raise NotImplementedError
