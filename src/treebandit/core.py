"""What may be chosen, the roles of agent and environment, and one round of the loop between them."""

from __future__ import annotations

import inspect
import reprlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from treebandit.errors import ArmsError, ChoiceError, ParameterError, ShapeError

Features = NDArray[np.float32]
Floats = NDArray[np.float64]
Indices = NDArray[np.intp]
#: The generator of all random numbers, handed down from one seed.
Random = np.random.Generator

#: Scores, one per candidate -> rows of the feasible choice of greatest total score. The scores are its own: it may
#: change them. An oracle with a parameter `random` is given a generator by that name, to break ties with.
Oracle = Callable[..., Indices]


@dataclass(frozen=True, slots=True)
class Columns:
    """What the columns of a table are.

    categories: for each column 0 for a number, else the number of categories.
    names: of the columns, where they have some.

    >>> from treebandit import Columns
    >>> len(Columns.numeric(3))
    3
    """

    categories: tuple[int, ...]
    names: tuple[str, ...] = ()

    @classmethod
    def numeric(cls, width: int) -> Columns:
        """`width` columns of plain numbers."""
        return cls((0,) * width)

    def __len__(self) -> int:
        return len(self.categories)


@dataclass(frozen=True, slots=True)
class Candidates:
    """What may be chosen this round.

    contexts: (n, d) float32, one row per candidate; categories as integer codes, missing values as NaN.
    arms: (n,), which arm each row is (class, edge, article); None where the contexts describe the arms already.
    columns: what the d columns are; the same in every round of one environment.

    >>> import numpy as np
    >>> from treebandit import Candidates, Columns
    >>> candidates = Candidates(np.zeros((3, 2), np.float32), np.arange(3), Columns.numeric(2))
    >>> len(candidates), len(candidates[[0, 2]])
    (3, 2)
    """

    contexts: Features
    arms: Indices | None
    columns: Columns

    def __getitem__(self, rows: Any) -> Candidates:
        """The candidates in `rows` (an index array, a slice or a mask)."""
        if (
            type(rows) is np.ndarray and rows.dtype == np.intp
        ):  # as an oracle gives them: in a third of the time
            contexts = self.contexts.take(rows, axis=0)
        else:
            contexts = self.contexts[rows]
        return Candidates(contexts, None if self.arms is None else self.arms[rows], self.columns)

    @classmethod
    def joined(cls, parts: Sequence[Candidates]) -> Candidates:
        """All candidates of parts with the same columns, one after the other; arms where all parts have some."""
        arms = [part.arms for part in parts if part.arms is not None]
        contexts = np.concatenate([part.contexts for part in parts])
        return cls(contexts, np.concatenate(arms) if len(arms) == len(parts) else None, parts[0].columns)

    def __len__(self) -> int:
        return len(self.contexts)


@dataclass(frozen=True, slots=True)
class Round:
    """One decision to make.

    candidates: what may be chosen.
    oracle: turns scores into a feasible choice.

    >>> from treebandit.environments import Synthetic
    >>> this_round = Synthetic(arms=3, seed=0).observe()
    >>> this_round.oracle([0.1, 0.5, 0.2]).tolist()
    [1]
    """

    candidates: Candidates
    oracle: Oracle


@dataclass(frozen=True, slots=True)
class Feedback:
    """What the agent gets to see now; it may stem from any earlier rounds.

    chosen: the rows.
    rewards: one each.

    >>> from treebandit import Bandit, Feedback
    >>> from treebandit.environments import Synthetic
    >>> candidates = Synthetic(arms=3, seed=0).observe().candidates
    >>> feedback = Feedback(candidates[[1]], [1.0])
    >>> Bandit(seed=0).learn(feedback.chosen, feedback.rewards)
    """

    chosen: Candidates
    rewards: Floats


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a choice brought: one reward per chosen row (semi-bandit feedback), and its regret in expectation.

    rewards: (k,), of the chosen rows.
    regret: what the best choice would have brought more, in expectation.
    feedback: what the agent learns now, where rewards come late; None for this choice's own rewards, at once.

    >>> from treebandit.environments import Synthetic
    >>> environment = Synthetic(arms=3, seed=0)
    >>> this_round = environment.observe()
    >>> outcome = environment.pull([0])
    >>> outcome.rewards.shape, outcome.regret >= 0
    ((1,), True)
    """

    rewards: Floats
    regret: float
    feedback: Feedback | None = None


@dataclass(frozen=True, slots=True)
class Estimate:
    """What an agent believes of each of n rows.

    mean: (n,) the reward to expect.
    variance: (n,) of that mean: how far off it may be.
    count: (n,) how many learned rows it rests on.

    >>> from treebandit import UCB1
    >>> agent = UCB1(seed=0)
    >>> agent.learn(None, [0.0, 1.0], arms=["a", "a"])
    >>> agent.estimate(None, arms=["a"]).count.tolist()
    [2.0]
    """

    mean: Floats
    variance: Floats
    count: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Decision:
    """What an agent chose, and with which probability; `agent.learn(decision, reward)` takes it back.

    id: as given, or a random one.
    candidates: what was offered, checked and encoded.
    labels: the arms as they were given, one per candidate; None where candidates have no arms.
    rows: (k,) the chosen rows, in the oracle's order.
    probability: of this very choice; of the set, where several rows are chosen.
    probabilities: (n,) of each candidate being among the chosen.
    scores: (n,) mean score of each candidate over the draws.
    given: the contexts as they were given, from which any agent can learn; None where these were Candidates.

    >>> from treebandit import Uniform
    >>> agent = Uniform(seed=0)
    >>> decision = agent.decide([1.0, 2.0], arms=["a", "b"], id="visit 17")
    >>> decision.id, decision.probabilities.tolist()
    ('visit 17', [0.5, 0.5])
    >>> decision.arm in ("a", "b")
    True
    >>> agent.learn(decision, 1.0)
    """

    id: str
    candidates: Candidates
    labels: tuple[int | str, ...] | None
    rows: Indices
    probability: float
    probabilities: Floats
    scores: Floats
    given: Any = field(default=None, repr=False)

    @property
    def row(self) -> int:
        """The chosen row, where it is the only one."""
        if len(self.rows) != 1:
            raise ChoiceError(f"{len(self.rows)} rows were chosen, not one; use `rows` and `arms`")
        return int(self.rows[0])

    @property
    def arm(self) -> int | str:
        """The label of the chosen row, where it is the only one."""
        return self.arms[0] if len(self.rows) == 1 else self.arms[self.row]

    @property
    def arms(self) -> tuple[int | str, ...]:
        """The labels of the chosen rows."""
        if self.labels is None:
            raise ArmsError("the candidates of this decision have no arms; use `row` or `rows`")
        return tuple(self.labels[row] for row in self.rows.tolist())


@runtime_checkable
class Agent(Protocol):
    """Scores candidates and learns from rewards: the two methods that the loop needs.

    >>> from treebandit import Agent, Bandit
    >>> isinstance(Bandit(), Agent)
    True
    """

    def score(self, candidates: Candidates) -> Floats:
        """One score per candidate; advances the clock and the random stream, and learns nothing."""

    def learn(self, chosen: Candidates, rewards: Floats, /) -> None:
        """Take in any number of rows with their rewards, at any time after they were chosen."""


@runtime_checkable
class Environment(Protocol):
    """Shows rounds and gives the rewards of what was chosen.

    >>> from treebandit import Environment
    >>> from treebandit.environments import Synthetic
    >>> isinstance(Synthetic(), Environment)
    True
    """

    def observe(self) -> Round:
        """The next round; the same one until `pull`."""

    def pull(self, choice: Indices) -> Outcome:
        """The outcome of choosing these rows of the round observed last, once a round."""


class AgentExtras(Protocol):
    """What an agent may have besides; runs and reports ask for it by `optional`.

    >>> agent = treebandit.TEUCB(seed=0)
    >>> agent.rebuild_seconds
    0.0
    """

    #: Wall seconds spent rebuilding models so far; timed apart from learning.
    rebuild_seconds: float
    #: How the agent was run, in a few words; printed below the table of a report.
    note: str
    #: Whether the arms that it has been offered or taught are whole numbers.
    numbered_arms: bool

    def estimate(self, candidates: Candidates) -> Estimate:
        """What the agent believes of each row."""

    def renew_draws(self) -> None:
        """Move the random stream on, so that the next draws have nothing to do with the last ones."""


class ModelExtras(Protocol):
    """What a reward model may have besides."""

    #: Wall seconds spent rebuilding it so far.
    rebuild_seconds: float
    #: The rows that it is rebuilt from.
    history: Any


class EnvironmentExtras(Protocol):
    """What an environment may have besides.

    >>> from treebandit.environments import Classification
    >>> Classification("mushroom", seed=0).horizon
    8124
    """

    #: How many rounds there are in all; None where there is no end.
    horizon: int | None
    #: What the columns of the contexts are.
    columns: Columns
    #: The unit of rewards and regret, such as "s".
    unit: str
    #: How the rounds were used, in a few words; printed with the agent's note.
    note: str

    def final_candidates(self) -> Candidates:
        """Rows whose rewards the agent is asked to estimate after the last round."""


_EXTRAS = {"estimate", "final_candidates", "renew_draws"}.union(
    *(each.__annotations__ for each in (AgentExtras, ModelExtras, EnvironmentExtras))
)


def optional(thing: object, name: str, default: Any = None) -> Any:
    """A member of AgentExtras, ModelExtras or EnvironmentExtras; `default` where `thing` does not have it."""
    assert name in _EXTRAS, f"{name} is not declared"
    return getattr(thing, name, default)


def play_round(
    agent: Agent, environment: Environment, *, random: Random | None = None
) -> tuple[Indices, Outcome]:
    """One round: observe, score, choose, pull, learn.

    random: breaks ties where the round's oracle has no generator of its own.
    """
    this_round = environment.observe()
    scores, size = agent.score(this_round.candidates), len(this_round.candidates)
    if len(scores) != size:
        raise ShapeError(f"the agent gave {len(scores)} scores for {size} candidates; give one per candidate")
    choice = choose_with(this_round.oracle, scores, random)
    outcome = environment.pull(choice)
    feedback = outcome.feedback or Feedback(this_round.candidates[choice], outcome.rewards)
    if len(feedback.rewards):
        agent.learn(feedback.chosen, feedback.rewards)
    return choice, outcome


def choose_with(oracle: Oracle, scores: Floats, random: Random | None = None) -> Indices:
    """The rows that the oracle chooses for these scores, checked: whole numbers in range, each once.

    The oracle gets a copy of the scores, and may change it.

    random: given to an oracle that has a parameter of this name and no generator bound to it.
    """
    if isinstance(oracle, type) or not callable(oracle):
        what = f"the class {oracle.__name__}" if isinstance(oracle, type) else repr(oracle)
        raise ParameterError(
            f"oracle is {what}; give an object such as TopK(2), or a function from scores to rows"
        )
    function = oracle if isinstance(oracle, _FUNCTIONS) else type(oracle).__call__
    own = scores.copy() if type(scores) is np.ndarray else np.array(scores)
    rows = oracle(own, random=random) if _takes_random(function) else oracle(own)
    return checked_rows(rows, len(scores), what="the oracle returned")


#: Callables that are looked at themselves; of all others, their class's `__call__` is.
_FUNCTIONS = (FunctionType, MethodType, BuiltinFunctionType, partial)


@lru_cache(maxsize=64)
def _takes_random(function: Callable[..., Any]) -> bool:
    """Whether an oracle has a parameter `random` that is not bound yet; its signature is read once."""
    try:
        parameter = inspect.signature(function).parameters.get("random")
    except (TypeError, ValueError):  # some builtin functions have no signature to read
        return False
    return parameter is not None and parameter.default in (None, inspect.Parameter.empty)


def checked_rows(given: Any, candidates: int, *, what: str = "choice") -> Indices:
    """Row numbers as (k,), each from 0 to `candidates` - 1 and once; else a ChoiceError that begins with `what`."""
    # One row of the right kind is what most decisions have, and costs a microsecond to check.
    if (
        type(given) is np.ndarray
        and given.shape == (1,)
        and given.dtype == np.intp
        and 0 <= given[0] < candidates
    ):
        return given

    def refused(why: str) -> ChoiceError:
        return ChoiceError(f"{what} {reprlib.repr(given)}{why}")

    try:
        rows = np.asarray(given)
    except ValueError as error:
        raise refused("; give a list of row numbers") from error
    if rows.ndim != 1:
        raise refused("; give a list of row numbers, such as [3]")
    if rows.dtype.kind not in "iu" and rows.size:
        raise refused(f", rows of type {rows.dtype}; give whole numbers")
    if rows.size and (rows.min() < 0 or rows.max() >= candidates):
        raise refused(f"; rows go from 0 to {candidates - 1}")
    if rows.size > 1 and np.bincount(rows).max() > 1:
        raise refused("; give each row once")
    return rows.astype(np.intp, copy=False)
