"""Objects that one thread at a time may use, and that are copied whole."""

from __future__ import annotations

import threading
from collections.abc import Callable
from copy import deepcopy
from typing import Any, Self, SupportsIndex, cast

from treebandit.errors import TreebanditError


class Locked:
    """One caller at a time; copies, pickled ones too, are made between two calls and have a lock of their own."""

    _lock: threading.RLock
    #: What an earlier call has left to do.
    _unfinished: Callable[[], None] | None

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """A copy of its own, made while no other thread may change the agent."""
        self._refuse_nested("deepcopy")
        with self._lock:
            make, arguments, *rest = cast("tuple[Any, ...]", super().__reduce_ex__(4))
            twin: Self = make(*deepcopy(arguments, memo))
            memo[id(self)] = twin
            if rest:
                twin.__setstate__(deepcopy(rest[0], memo))
        return twin

    def __reduce_ex__(self, protocol: SupportsIndex) -> str | tuple[Any, ...]:
        """What pickle writes: copied, since it is written when the lock is free again."""
        self._refuse_nested("pickle")
        with self._lock:
            return deepcopy(super().__reduce_ex__(protocol), {id(self): self})

    def __getstate__(self) -> dict[str, Any]:
        """All members but the lock, for copies and for other processes."""
        with self._lock:
            self._finish()
            return {name: value for name, value in vars(self).items() if name != "_lock"}

    def __setstate__(self, members: dict[str, Any]) -> None:
        vars(self).update(members)
        self._lock = threading.RLock()

    def _is_nested(self) -> bool:
        """Whether this thread is inside another call already, as an oracle is."""
        return self._lock._is_owned()  # type: ignore[attr-defined, no-any-return]

    def _refuse_nested(self, method: str) -> None:
        if self._is_nested():
            raise TreebanditError(
                f"{method} was called while this agent decides, from inside its oracle; let the oracle only choose rows"
            )

    def _finish(self) -> None:
        """Bring to an end what an earlier call left unfinished."""
        if self._unfinished is not None:
            self._unfinished()
            self._unfinished = None
