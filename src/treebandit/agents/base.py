"""What all agents share: input checks, the clock, safety against interruptions and threads, saving."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Self, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike

from treebandit import saving, schema
from treebandit.agents import deciding
from treebandit.agents.deciding import Offer, Settings
from treebandit.agents.locking import Locked
from treebandit.core import Candidates, Decision, Estimate, Floats, Indices, Oracle, choose_with
from treebandit.docstrings import inherit_arguments
from treebandit.errors import (
    InputError,
    NoEstimateError,
    NotFittedError,
    ParameterError,
    SavedFileError,
)
from treebandit.features.columns import plain_declaration
from treebandit.features.inputs import Inputs
from treebandit.oracles import best_arm
from treebandit.parameters import check_fields, check_flag, check_seed
from treebandit.policies.floor import Choices, ScoreDraws

_Decided = TypeVar("_Decided")


@dataclass(eq=False)
class BaseAgent(Locked):
    """An agent for tables: subclasses are dataclasses whose fields describe them completely.

    A subclass writes `_scores(candidates)` and `_prepared(chosen, rewards, t=...)`, and, for what it keeps, `_state`
    and `_restore`. The base checks every input before anything changes, counts the rounds (`clock`, t in the paper:
    one per decision, and one per row learned before the first decision), and saves and loads.

    Every method may be called from any thread: one caller at a time. An exception, Ctrl-C included, at any moment
    leaves an agent as it was before the call or as it is after it: a decision that was cut short is undone, and
    learning prepares all changes before it makes any, so that making them can be repeated.

    seed: of all random draws; the same seed, the same choices. None draws a new one.
    columns: what named columns are, so that the first rows need not tell: {name: 'number', 'flag' (true or false),
        'category', or the list of all its categories}.
    new_columns: rows may bring columns never seen, which are missing in older rows, and may lack some; False: refused.

    >>> agent = treebandit.LinUCB(seed=0)
    >>> agent.learn(agent.decide([1.0, 2.0], arms=["a", "b"]), 1.0)
    """

    columns: Mapping[str, Any] | None = field(default=None, kw_only=True)
    new_columns: bool = field(default=False, kw_only=True)
    #: A field of every subclass; without a type here, since the fields of this class would come before all others.
    seed = cast("int | None", None)

    def __init_subclass__(cls) -> None:
        inherit_arguments(cls)

    def __post_init__(self) -> None:
        vars(self).update(check_fields(self))
        check_seed(self.seed)
        self.clock = 0
        self._decided = False
        #: Whether it was loaded from a file without history, and so refuses to learn.
        self.decide_only = False
        self.columns = plain_declaration(self.columns)  # their owner may change them
        self._inputs = Inputs(self.columns, new_columns=self.new_columns)
        self._random = np.random.default_rng(self.seed)
        self._lock = threading.RLock()
        #: What brings a call that was cut short to an end: undoes a decision, completes learning.
        self._unfinished = None

    @property
    def rebuild_seconds(self) -> float:
        """Wall seconds spent rebuilding models so far."""
        return 0.0

    @property
    def numbered_arms(self) -> bool:
        """Whether the arms that it has been offered or taught are whole numbers; False before the first."""
        return bool(self._inputs.with_arms) and not self._inputs.labels.named

    def choose(self, contexts: Any, arms: Any = None, *, oracle: Oracle = best_arm) -> Indices:
        """The rows to play.

        contexts: Candidates, or one row per candidate as an array, a frame or a list of dicts or series; or one row
            that all `arms` share (an array (d,), a dict, a series, a frame of one row); or None without contexts.
        arms: (n,) integers or strings; None where the contexts describe the arms already.
        oracle: scores -> feasible rows; `best_arm` picks one. Ties are broken at random where the oracle can.
        """
        return self._round("choose", contexts, arms, partial(self._choice, oracle))

    def decide(
        self,
        contexts: Any,
        arms: Any = None,
        *,
        oracle: Oracle = best_arm,
        draws: int = 100,
        floor: float = 0.01,
        id: str | None = None,  # noqa: A002
    ) -> Decision:
        """A choice together with its probability, which is true by construction.

        `draws` joint draws of the scores are made, the oracle chooses in each, and the decision is drawn from
        (1 - floor) · share of the draws in which a choice was made + floor · its share by chance alone.

        contexts, arms, oracle: as in `choose`. id: names the decision; a random one unless given.
        floor: share of the decisions left to chance: any candidate (`best_arm`), any set of k (`TopK`), or what another
            oracle chooses for `draws` random scores. With 0, what no draw chose has probability 0.
        """
        settings = Settings(oracle, draws, floor)
        deciding.check_id(id)

        def decide(candidates: Candidates) -> Decision:
            return self._decision(settings, Offer.of(contexts, arms, candidates, id))

        return self._round("decide", contexts, arms, decide)

    def decide_many(
        self, contexts: Any, arms: Any = None, *, draws: int = 100, floor: float = 0.01, ids: Any = None
    ) -> list[Decision]:
        """As many decisions as contexts have rows, each over all `arms`; all of them are made, or none.

        contexts: (m, d) array, a frame or a list of dicts. ids: m texts, one per decision.
        """
        self._refuse_nested("decide_many")
        settings = Settings(best_arm, draws, floor)
        if isinstance(contexts, list | tuple) and not contexts:
            return []
        with self._lock:
            self._finish()
            offered, inputs = self._inputs.enter_many(contexts, arms)
            offers = Offer.many(contexts, arms, offered, ids)
            return self._decide(inputs, partial(self._in_turn, settings, offers)) if offers else []

    def probabilities(
        self,
        contexts: Any,
        arms: Any = None,
        *,
        oracle: Oracle = best_arm,
        draws: int = 100,
        floor: float = 0.01,
    ) -> Floats:
        """The probability of each candidate being chosen, (n,): what `decide` would tell now. Changes nothing."""
        settings = Settings(oracle, draws, floor)

        def marginals(candidates: Candidates) -> Floats:
            return self._distribution(settings, candidates)[0].marginals

        return self._round("probabilities", contexts, arms, marginals, undone=True)

    def renew_draws(self) -> None:
        """Move the random stream on: `probabilities`, which puts it back, then tells by draws of its own."""
        with self._lock:
            self._finish()
            seed = int(self._random.integers(2**63))
            self._random.bit_generator.state = np.random.PCG64(seed).state

    def reseed(self, seed: int | None = None) -> None:
        """Draw from another random stream from now on; None: from one that nobody else has."""
        check_seed(seed)
        with self._lock:
            self._finish()
            self._random = np.random.default_rng(seed)

    def score(self, candidates: Candidates) -> Floats:
        """One score per candidate, (n,): advances the clock and the random stream, and learns nothing."""
        if not isinstance(candidates, Candidates):
            raise InputError(f"score takes Candidates, not a {type(candidates).__name__}; use choose")
        return self._round("score", candidates, None, self._checked_scores)

    def learn(
        self, contexts: Any, rewards: ArrayLike | None = None, arms: Any = None, *, new_arms: bool = False
    ) -> None:
        """Take in rows and their rewards, any number of them, at any time after they were chosen.

        contexts, arms: as in `choose`, the chosen rows only; or a Decision, whoever made it, or a list of them; or a
            DecisionLog, which knows its rewards and is learned 10,000 rows at a time.
        rewards: one finite number per row; of a list of decisions, one per decision, a list where several rows were
            chosen.
        new_arms: once the agent has decided, arms that it was neither offered nor taught before are refused, as they
            often are row numbers by mistake; True takes them.
        """
        self._refuse_nested("learn")
        if rewards is None:
            deciding.log_to_learn(contexts, arms).teach(self)
            return
        if deciding.is_nothing(contexts, rewards, arms):
            return
        with self._lock:
            self._finish()
            deciding.refuse_learning(self.decide_only)
            if (decisions := deciding.decisions_in(contexts)) is not None:
                contexts, rewards, arms = deciding.rows_to_learn(contexts, rewards, decisions, arms)
                new_arms = True  # they were offered, if perhaps by another agent
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

    def save(self, path: saving.File, *, history: bool = True) -> None:
        """Write the agent to one file: a zip of arrays and JSON.

        path: of the file, or a file that is open for bytes.
        history: False leaves out the rows that were learned and all else that only learning needs. What is loaded from
            such a file decides and estimates as the agent does, and refuses to learn.
        """
        check_flag("history", history)
        self._refuse_nested("save")
        with self._lock:
            self._finish()
            captured = saving.capture(self, history=bool(history))
        saving.write(captured, path)

    @classmethod
    def load(
        cls, path: saving.File, *, classes: Iterable[type] = (), max_bytes: int = saving.MAX_BYTES
    ) -> Self:
        """The agent that `save` wrote; it goes on exactly as the saved one would have.

        classes: classes of your own that the file names. max_bytes: what the file may take in memory.
        """
        agent = saving.load(path, classes=[*saving.check_classes(classes), cls], max_bytes=max_bytes)
        if not isinstance(agent, cls):
            raise SavedFileError(
                f"{saving.shown(path)} holds a {type(agent).__name__}, not a {cls.__name__}; use "
                f"{type(agent).__name__}.load"
            )
        return agent

    def _round(
        self,
        method: str,
        contexts: Any,
        arms: Any,
        decide: Callable[[Candidates], _Decided],
        *,
        undone: bool = False,
    ) -> _Decided:
        """What a public method decides on what it is given."""
        self._refuse_nested(method)
        with self._lock:
            self._finish()
            candidates, inputs = self._inputs.enter(contexts, arms)
            return self._decide(inputs, partial(decide, candidates), undone=undone)

    def _decide(self, inputs: Inputs, decide: Callable[[], _Decided], *, undone: bool = False) -> _Decided:
        """One decision: the clock goes on by one, and the arms were offered; nothing has changed where it fails.

        Scoring may assign members of the agent, and advance its random stream, but change none of them in place.
        undone: nothing has changed where it succeeds, either.
        """
        before, random = vars(self).copy(), self._random.bit_generator.state
        self._unfinished = partial(self._undo, before, random)
        try:
            self.clock += 1
            self._decided = True
            self._inputs = inputs
            decision = decide()
        except BaseException:
            self._finish()
            raise
        if undone:
            self._finish()
        self._unfinished = None
        return decision

    def _choice(self, oracle: Oracle, candidates: Candidates) -> Indices:
        return choose_with(oracle, self._checked_scores(candidates), self._random)

    def _checked_scores(self, candidates: Candidates) -> Floats:
        """`_scores`, which a subclass may have written, if there is one per candidate."""
        scores = self._scores(candidates)
        deciding.check_scores(scores.shape if type(scores) is np.ndarray else np.shape(scores), candidates)
        return scores

    def _decision(self, settings: Settings, offer: Offer) -> Decision:
        choices, drawn = self._distribution(settings, offer.candidates)
        return offer.decided(choices, drawn, self._random)

    def _in_turn(self, settings: Settings, offers: list[Offer]) -> list[Decision]:
        """Decisions one after the other, each a round of its own; the round of the first has begun."""
        made = [self._decision(settings, offers[0])]
        for offer in offers[1:]:
            self.clock += 1
            made.append(self._decision(settings, offer))
        return made

    def _distribution(self, settings: Settings, candidates: Candidates) -> tuple[Choices, ScoreDraws]:
        """With which probability each choice is made now, and the draws that tell it."""
        settings.check_size(len(candidates))
        drawn = self._drawn(candidates, settings.draws)
        deciding.check_scores(drawn.scores.shape[1:], candidates)
        return settings.choices(drawn, self._random), drawn

    def _drawn(self, candidates: Candidates, size: int) -> ScoreDraws:
        """`_draws`, or `_scores` again and again where a subclass has written only that."""
        if deciding.draws_know_scores(type(self)):  # type: ignore[arg-type]
            return self._draws(candidates, size)
        return BaseAgent._draws(self, candidates, size)

    def _draws(self, candidates: Candidates, size: int) -> ScoreDraws:
        """`size` independent draws of what `_scores` may give in this round; leaves the agent as one call would."""
        return ScoreDraws(deciding.repeated_scores(self, candidates, size))

    def _undo(self, members: dict[str, Any], random: Any) -> None:
        self._random.bit_generator.state = random
        deciding.take_back(self, members)

    def _prepared_learning(
        self, contexts: Any, rewards: ArrayLike, arms: Any, *, new_arms: bool = False
    ) -> Callable[[], None] | None:
        """All that learning may fail in; what it returns makes the changes, and may be called again."""
        chosen, values, inputs = self._inputs.enter_to_learn(contexts, rewards, arms, new_arms=new_arms)
        if not len(values):
            return None
        clock = self.clock if self._decided else self.clock + len(values)
        commit = self._prepared(chosen, values, t=clock)
        if not callable(commit):
            raise ParameterError(
                f"{type(self).__name__}._prepared returned {commit!r:.40}; return a function that makes the change"
            )
        return partial(self._complete, commit, inputs, clock)

    def _complete(self, commit: Callable[[], None], inputs: Inputs, clock: int) -> None:
        commit()
        self._inputs, self.clock = inputs, clock

    def _whole_state(self, *, history: bool = True) -> dict[str, Any]:
        history = history and not self.decide_only
        return {
            "clock": self.clock,
            "decided": self._decided,
            "decide_only": not history,
            "random": schema.plain(self._random.bit_generator.state),
            "inputs": self._inputs.state(),
            "own": self._state() if history else self._deciding_state(),
        }

    def _resume(self, state: dict[str, Any]) -> None:
        """Take up the whole state of an agent that was made with the same arguments."""
        self.clock = schema.whole(state, "clock")
        self._decided = schema.flag(state, "decided")
        self.decide_only = schema.flag(state, "decide_only")
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

    def _deciding_state(self) -> dict[str, Any]:
        """As much of `_state` as decisions and estimates need; `_restore` takes it, too."""
        return self._state()

    def _restore(self, state: dict[str, Any]) -> None:
        return None
