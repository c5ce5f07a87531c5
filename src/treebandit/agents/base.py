"""What all agents share: input checks, the clock, safety against interruptions and threads, saving."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Self, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike

from treebandit import saving, schema
from treebandit.core import Candidates, Estimate, Floats, Indices, Oracle, choose_with
from treebandit.errors import InputError, NoEstimateError, NotFittedError, SavedFileError, TreebanditError
from treebandit.features.inputs import Inputs
from treebandit.oracles import best_arm
from treebandit.parameters import check_flag

_Decided = TypeVar("_Decided")


@dataclass(eq=False)
class BaseAgent:
    """An agent for tables: subclasses are dataclasses whose fields describe them completely.

    A subclass writes `_scores(candidates)` and `_prepared(chosen, rewards, t=...)`, and, for what it keeps, `_state`
    and `_restore`. The base checks every input before anything changes, counts the rounds (`clock`, t in the paper:
    one per decision, and one per row learned before the first decision), and saves and loads.

    Every method may be called from any thread: one caller at a time. An exception, Ctrl-C included, at any moment
    leaves an agent as it was before the call or as it is after it: a decision that was cut short is undone, and
    learning prepares all changes before it makes any, so that making them can be repeated.

    columns: what named columns are, so that the first rows need not tell: {name: 'number', 'flag' (true or false),
        'category', or the list of all its categories}.
    new_columns: rows may bring columns that were never seen, which are missing in older rows, and may lack some, which
        are missing in them; False: such a row is refused, as a misspelt name would be one.
    """

    columns: Mapping[str, Any] | None = field(default=None, kw_only=True)
    new_columns: bool = field(default=False, kw_only=True)
    #: A field of every subclass; without a type here, since the fields of this class would come before all others.
    seed = cast("int | None", None)

    def __post_init__(self) -> None:
        self.clock = 0
        self._decided = False
        check_flag("new_columns", self.new_columns)
        self._inputs = Inputs(self.columns, new_columns=self.new_columns)
        self._random = np.random.default_rng(self.seed)
        self._lock = threading.RLock()
        #: What brings a call that was cut short to an end: undoes a decision, completes learning.
        self._unfinished: Callable[[], None] | None = None

    @property
    def rebuild_seconds(self) -> float:
        """Wall seconds spent rebuilding models so far."""
        return 0.0

    def choose(self, contexts: Any, arms: Any = None, *, oracle: Oracle = best_arm) -> Indices:
        """The rows to play.

        contexts: Candidates, or one row per candidate as an array, a frame or a list of dicts; or one row that all
            `arms` share (an array (d,), a dict, a pandas series, a frame of one row); or None without contexts.
        arms: (n,) integers or strings; None where the contexts describe the arms already.
        oracle: scores -> feasible rows; `best_arm` picks one. Ties are broken at random where the oracle can.
        """
        self._refuse_nested("choose")
        with self._lock:
            self._finish()
            candidates, inputs = self._inputs.enter(contexts, arms)
            return self._decide(candidates, inputs, partial(self._choice, oracle))

    def score(self, candidates: Candidates) -> Floats:
        """One score per candidate, (n,): advances the clock and the random stream, and learns nothing."""
        self._refuse_nested("score")
        with self._lock:
            self._finish()
            if not isinstance(candidates, Candidates):
                raise InputError(f"score takes Candidates, not a {type(candidates).__name__}; use choose")
            candidates, inputs = self._inputs.enter(candidates)
            return self._decide(candidates, inputs, self._scores)

    def learn(self, contexts: Any, rewards: ArrayLike, arms: Any = None, *, new_arms: bool = False) -> None:
        """Take in rows and their rewards, any number of them, at any time after they were chosen.

        contexts, arms: as in `choose`, the chosen rows only. rewards: one finite number per row.
        new_arms: once the agent has decided, arms that it was neither offered nor taught before are refused, as they
            often are row numbers by mistake; True takes them.
        """
        self._refuse_nested("learn")
        with self._lock:
            self._finish()
            self._unfinished = self._prepared_learning(contexts, rewards, arms, new_arms=new_arms)
            self._finish()

    def estimate(self, contexts: Any, arms: Any = None) -> Estimate:
        """What the agent believes of each row: mean reward, variance of that mean, and the rows it rests on."""
        nested = self._is_nested()
        with self._lock:
            if not nested:
                self._finish()
            candidates, _ = self._inputs.enter(contexts, arms)
            return self._estimate(candidates)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the agent to one file: a zip of arrays and JSON."""
        self._refuse_nested("save")
        with self._lock:
            self._finish()
            captured = saving.capture(self)
        saving.write(captured, path)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        *,
        classes: Iterable[type] = (),
        max_bytes: int = saving.MAX_BYTES,
    ) -> Self:
        """The agent that `save` wrote; it goes on exactly as the saved one would have.

        classes: classes of your own that the file names. max_bytes: what the file may take in memory.
        """
        agent = saving.load(path, classes=(*classes, cls), max_bytes=max_bytes)
        if not isinstance(agent, cls):
            raise SavedFileError(
                f"{path} holds a {type(agent).__name__}, not a {cls.__name__}; use {type(agent).__name__}.load"
            )
        return agent

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

    def _decide(
        self, candidates: Candidates, inputs: Inputs, decide: Callable[[Candidates], _Decided]
    ) -> _Decided:
        """One decision: the clock goes on by one, and the arms were offered; nothing has changed where it fails.

        Scoring may assign members of the agent, and advance its random stream, but change none of them in place.
        """
        before, random = vars(self).copy(), self._random.bit_generator.state
        self._unfinished = partial(self._undo, before, random)
        try:
            self.clock += 1
            self._decided = True
            self._inputs = inputs
            decision = decide(candidates)
        except BaseException:
            self._finish()
            raise
        self._unfinished = None
        return decision

    def _choice(self, oracle: Oracle, candidates: Candidates) -> Indices:
        scores = self._scores(candidates)
        return choose_with(oracle, scores, self._random)

    def _undo(self, members: dict[str, Any], random: Any) -> None:
        self._random.bit_generator.state = random
        vars(self).update(members)

    def _prepared_learning(
        self, contexts: Any, rewards: ArrayLike, arms: Any, *, new_arms: bool = False
    ) -> Callable[[], None] | None:
        """All that learning may fail in; what it returns makes the changes, and may be called again."""
        chosen, values, inputs = self._inputs.enter_to_learn(contexts, rewards, arms, new_arms=new_arms)
        if not len(values):
            return None
        clock = self.clock if self._decided else self.clock + len(values)
        return partial(self._complete, self._prepared(chosen, values, t=clock), inputs, clock)

    def _complete(self, commit: Callable[[], None], inputs: Inputs, clock: int) -> None:
        commit()
        self._inputs, self.clock = inputs, clock

    def _whole_state(self) -> dict[str, Any]:
        return {
            "clock": self.clock,
            "decided": self._decided,
            "random": _plain(self._random.bit_generator.state),
            "inputs": self._inputs.state(),
            "own": self._state(),
        }

    def _resume(self, state: dict[str, Any]) -> None:
        """Take up the whole state of an agent that was made with the same arguments."""
        self.clock = schema.whole(state, "clock")
        self._decided = schema.flag(state, "decided")
        self._random.bit_generator.state = schema.random_state(state, "random")
        inputs = schema.part(state, "inputs")
        self._inputs = Inputs.restored(inputs, self.columns, new_columns=self.new_columns)
        self._restore(schema.part(state, "own"))
        self._try_out()

    def _try_out(self) -> None:
        """Estimate two rows, so that parts of a file which do not fit each other are found when it is loaded."""
        columns = self._inputs.columns
        if columns is not None:
            arms = np.zeros(2, np.intp) if self._inputs.with_arms else None
            with suppress(NoEstimateError, NotFittedError):
                self._estimate(Candidates(np.zeros((2, len(columns)), np.float32), arms, columns))

    def _scores(self, candidates: Candidates) -> Floats:
        raise NotImplementedError

    def _prepared(self, chosen: Candidates, rewards: Floats, *, t: int) -> Callable[[], None]:
        """All that learning these rows may fail in, at time t; what it returns makes the changes.

        Nothing of the agent may change here. The function returned cannot fail, and may be called again where it was
        cut short.
        """
        raise NotImplementedError

    def _estimate(self, candidates: Candidates) -> Estimate:
        raise NoEstimateError(f"{type(self).__name__} keeps no estimate of rewards; use score or choose")

    def _state(self) -> dict[str, Any]:
        return {}

    def _restore(self, state: dict[str, Any]) -> None:
        return None


def _plain(value: Any) -> Any:
    """Random states of some generators hold arrays and numpy numbers; JSON does not."""
    if isinstance(value, dict):
        return {key: _plain(member) for key, member in value.items()}
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value
