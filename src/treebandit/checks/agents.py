"""Contracts of agents."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Collection, Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np

from treebandit.checks.contracts import Subject, check_description, run, same, subject
from treebandit.core import Agent, Candidates, Columns, Floats
from treebandit.errors import ArmsError, CheckError, NotFittedError, TreebanditError

_ARMS, _FEATURES = 3, 4


def check_agent(
    agent: Agent | Callable[[], Agent],
    *,
    rounds: int = 45,
    skip: Collection[str] = (),
) -> None:
    """Raise a CheckError where an agent breaks a contract; the agent given is left as it is.

    agent: one that has learned nothing yet, or a class or function that returns one. A dataclass with
        `seed=None` is examined with a seed.
    rounds: how many rounds of three arms to play before looking; enough for the agent to have a model.
    skip: names of contracts that shall not hold: 'scores', 'score_learns_nothing', 'seed', 'description',
        'saving', 'bad_input', 'late_rewards', 'changing_candidates', 'real_rewards', 'missing_values',
        'own_memory'.
    """
    run(_CONTRACTS, subject(agent, method="score", size=rounds), skip)


class _Problem:
    """Rounds to decide: one context for labelled arms, or arms told apart by their features alone."""

    def __init__(self, seed: int, *, with_arms: bool) -> None:
        self._random = np.random.default_rng(seed)
        self._with_arms = with_arms
        self._columns = Columns.numeric(_FEATURES)

    def candidates(self, n: int = _ARMS, *, first_arm: int = 0) -> Candidates:
        """`n` candidates with a context of their own each, or one that all share."""
        if not self._with_arms:
            contexts = self._random.uniform(-1.0, 1.0, (n, _FEATURES)).astype(np.float32)
            return Candidates(contexts, None, self._columns)
        row = self._random.uniform(-1.0, 1.0, _FEATURES).astype(np.float32)
        arms = np.arange(first_arm, first_arm + n, dtype=np.intp)
        return Candidates(np.repeat(row[None], n, axis=0), arms, self._columns)

    def rewards(self, chosen: Candidates) -> Floats:
        """A noisy number for each chosen row."""
        arms = np.zeros(len(chosen)) if chosen.arms is None else chosen.arms
        means = np.where(chosen.contexts[:, 0] > 0, 1.0, 0.2 * (arms % 3))
        return np.asarray(means + 0.3 * self._random.standard_normal(len(chosen)), np.float32).astype(
            np.float64
        )


def _accepts_arms(examined: Subject[Agent]) -> bool:
    """Whether to examine it with labelled arms; where it refuses them it must do without."""
    refusals = []
    for with_arms in (True, False):
        agent, problem = examined.make(), _Problem(0, with_arms=with_arms)
        try:
            _play(examined, agent, problem, 2)
        except ArmsError as refusal:
            refusals.append(str(refusal))
            continue
        return with_arms
    raise CheckError(
        f"{examined.name}: an agent takes candidates with arms or without, but: {'; '.join(refusals)}"
    )


def _play(
    examined: Subject[Agent], agent: Agent, problem: _Problem, rounds: int, scores: list[Floats] | None = None
) -> list[Floats]:
    """Play on and return the scores of every round, which alone make the choices."""
    seen = [] if scores is None else scores
    for _ in range(rounds):
        candidates = problem.candidates()
        seen.append(_scores(examined, agent, candidates))
        chosen = candidates[np.array([int(seen[-1].argmax())])]
        agent.learn(chosen, problem.rewards(chosen))
    return seen


def _scores(examined: Subject[Agent], agent: Agent, candidates: Candidates) -> Floats:
    scores = np.asarray(agent.score(candidates))
    contract = "score returns one finite number per candidate"
    examined.require(
        scores.shape == (len(candidates),), contract, f"{len(candidates)} candidates got shape {scores.shape}"
    )
    kept = scores.dtype.kind == "f" and np.isfinite(scores).all()
    examined.require(kept, contract, f"it returned {scores.tolist()}")
    return scores


def _experienced(examined: Subject[Agent]) -> Iterator[tuple[Agent, bool]]:
    """A new agent, and one that has played; with them, whether rows have arms."""
    with_arms = _accepts_arms(examined)
    yield examined.make(), with_arms
    agent = examined.make()
    _play(examined, agent, _Problem(1, with_arms=with_arms), examined.size)
    yield agent, with_arms


def _estimate(agent: Any, candidates: Candidates) -> Any:
    """The agent's estimate as arrays, None where it has none to give."""
    if not hasattr(agent, "estimate"):
        return None
    try:
        estimate = agent.estimate(candidates)
    except NotFittedError:
        return None
    return [estimate.mean, estimate.variance, estimate.count]


def _check_scores(examined: Subject[Agent]) -> None:
    for agent, with_arms in _experienced(examined):
        problem = _Problem(2, with_arms=with_arms)
        candidates = problem.candidates()
        before = candidates.contexts.copy()
        _scores(examined, agent, candidates)
        agent.learn(candidates[:1], problem.rewards(candidates[:1]))
        kept = same(before, candidates.contexts)
        examined.require(
            kept, "an agent leaves the contexts it is given as they are", "it has written into them"
        )


def _check_score_learns_nothing(examined: Subject[Agent]) -> None:
    contract = "score learns nothing"
    for agent, with_arms in _experienced(examined):
        problem = _Problem(3, with_arms=with_arms)
        probe, twin = problem.candidates(), deepcopy(agent)
        for _ in range(3):
            agent.score(problem.candidates())
            twin.score(problem.candidates())
        seen = "two copies that scored different candidates, equally many, {} differently"
        kept = same(_estimate(agent, probe), _estimate(twin, probe))
        examined.require(kept, contract, seen.format("estimate a row"))
        mine, others = (_play(examined, a, _Problem(4, with_arms=with_arms), 4) for a in (agent, twin))
        examined.require(same(mine, others), contract, seen.format("go on"))


def _check_seed(examined: Subject[Agent]) -> None:
    with_arms = _accepts_arms(examined)
    plays = [
        _play(examined, examined.make(), _Problem(1, with_arms=with_arms), examined.size) for _ in range(2)
    ]
    differing = [t for t, (a, b) in enumerate(zip(*plays, strict=True), 1) if not same(a, b)]
    examined.require(
        not differing, "the same seed gives the same choices", f"scores differ from round {differing[:1]} on"
    )


def _check_saving(examined: Subject[Agent]) -> None:
    contract = "a loaded agent goes on exactly as the saved one"
    for agent, with_arms in _experienced(examined):
        missing = [name for name in ("save", "load") if not hasattr(agent, name)]
        examined.require(not missing, contract, f"it has no method {' and no method '.join(missing)}")
        saved: Any = agent
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "agent.treebandit"
            saved.save(path)
            loaded = type(saved).load(path)
        probe = _Problem(5, with_arms=with_arms).candidates()
        kept = same(_estimate(saved, probe), _estimate(loaded, probe))
        examined.require(kept, contract, "its estimates differ right after loading")
        mine, others = (_play(examined, a, _Problem(6, with_arms=with_arms), 15) for a in (saved, loaded))
        examined.require(same(mine, others), contract, "its scores differ while both go on learning")


def _bad_calls(with_arms: bool) -> dict[str, Callable[[Any], Any]]:
    problem = _Problem(7, with_arms=with_arms)
    good = problem.candidates()
    row, two = good[:1], good[:2]
    infinite = Candidates(np.full_like(row.contexts, np.inf), row.arms, row.columns)
    return {
        "a reward of NaN": lambda agent: agent.learn(row, np.array([np.nan])),
        "an infinite reward": lambda agent: agent.learn(row, np.array([np.inf])),
        "a reward of NaN in a batch": lambda agent: agent.learn(two, np.array([1.0, np.nan])),
        "two rewards for one row": lambda agent: agent.learn(row, np.array([1.0, 0.0])),
        "no reward for one row": lambda agent: agent.learn(row, np.array([])),
        "text as a reward": lambda agent: agent.learn(row, np.array(["much"])),
        "an infinite context": lambda agent: agent.learn(infinite, np.array([1.0])),
        "no candidates": lambda agent: agent.score(good[:0]),
        "fewer arms than rows": lambda agent: agent.score(
            Candidates(good.contexts, np.zeros(1, np.intp), good.columns)
        ),
    }


def _bad_calls_later(with_arms: bool) -> dict[str, Callable[[Any], Any]]:
    """What is wrong for an agent only once it has learned rows of another kind."""
    good = _Problem(7, with_arms=with_arms).candidates()
    wide = Candidates(np.hstack([good.contexts, good.contexts]), good.arms, Columns.numeric(2 * _FEATURES))
    narrow = Candidates(good.contexts[:, 1:], good.arms, Columns.numeric(_FEATURES - 1))
    return {
        "rows that are too wide, to score": lambda agent: agent.score(wide),
        "rows that are too narrow, to score": lambda agent: agent.score(narrow),
        "rows that are too wide, to learn": lambda agent: agent.learn(wide[:1], np.array([1.0])),
        "rows that are too narrow, to learn": lambda agent: agent.learn(narrow[:1], np.array([1.0])),
    }


def _check_bad_input(examined: Subject[Agent]) -> None:
    has_learned = False
    for agent, with_arms in _experienced(examined):
        calls = _bad_calls(with_arms) | (_bad_calls_later(with_arms) if has_learned else {})
        if hasattr(agent, "choose"):
            calls["text as contexts"] = lambda a: a.choose([["red", "green", "blue", "grey"]] * 2)
        has_learned = True
        struck = deepcopy(agent)
        for what, call in calls.items():
            _refused(examined, struck, what, call)
        if _goes_on_alike(examined, agent, struck, with_arms):
            continue
        for what, call in calls.items():
            struck = deepcopy(agent)
            _refused(examined, struck, what, call)
            kept = _goes_on_alike(examined, agent, struck, with_arms)
            examined.require(kept, "refused input leaves an agent unchanged", f"{what} changed it")
        raise CheckError(
            f"{examined.name}: refused input leaves an agent unchanged, but several together changed it"
        )


def _refused(examined: Subject[Agent], agent: Agent, what: str, call: Callable[[Any], Any]) -> None:
    contract = "bad input is refused with an error of treebandit.errors"
    try:
        call(agent)
    except TreebanditError:
        return
    except Exception as error:
        raise CheckError(f"{examined.name}: {contract}, but {what} ended in {error!r}") from error
    examined.require(False, contract, f"{what} was accepted")


def _goes_on_alike(examined: Subject[Agent], agent: Agent, other: Agent, with_arms: bool) -> bool:
    plays = [_play(examined, deepcopy(a), _Problem(8, with_arms=with_arms), 4) for a in (agent, other)]
    return same(*plays)


def _check_late_rewards(examined: Subject[Agent]) -> None:
    """A log before the first decision, then decisions whose rewards come late, out of order and together."""
    with_arms = _accepts_arms(examined)
    agent, problem = examined.make(), _Problem(9, with_arms=with_arms)
    for _ in range(5):
        log = problem.candidates()
        agent.learn(log, problem.rewards(log))
    for _ in range(2):
        waiting = []
        for _ in range(examined.size // 2):
            candidates = problem.candidates()
            waiting.append(candidates[[int(_scores(examined, agent, candidates).argmax())]])
        contexts = np.concatenate([rows.contexts for rows in waiting[::-1]])
        arms = [rows.arms for rows in waiting[::-1] if rows.arms is not None]
        batch = Candidates(contexts, np.concatenate(arms) if arms else None, waiting[0].columns)
        agent.learn(batch, problem.rewards(batch))
    _play(examined, agent, problem, 3)


def _check_changing_candidates(examined: Subject[Agent]) -> None:
    for agent, with_arms in _experienced(examined):
        problem = _Problem(10, with_arms=with_arms)
        for n, first_arm in ((1, 0), (7, 0), (2, 5), (3, 40), (1, 3), (4, 39)):
            candidates = problem.candidates(n, first_arm=first_arm)
            _scores(examined, agent, candidates)
            agent.learn(candidates[-1:], problem.rewards(candidates[-1:]))
        _play(examined, agent, problem, 3)


def _check_real_rewards(examined: Subject[Agent]) -> None:
    with_arms = _accepts_arms(examined)
    for scale, shift in ((1e4, -3e4), (0.0, -2.5), (1e-4, 0.0)):
        agent, problem = examined.make(), _Problem(11, with_arms=with_arms)
        for _ in range(examined.size):
            candidates = problem.candidates()
            chosen = candidates[[int(_scores(examined, agent, candidates).argmax())]]
            agent.learn(chosen, shift + scale * problem.rewards(chosen))


def _check_missing_values(examined: Subject[Agent]) -> None:
    """NaN stands for a missing number, and a column may hold integer codes of categories."""
    with_arms = _accepts_arms(examined)
    agent, problem, random = examined.make(), _Problem(12, with_arms=with_arms), np.random.default_rng(0)
    columns = Columns((0,) * (_FEATURES - 1) + (3,))
    for _ in range(examined.size):
        given = problem.candidates()
        contexts = given.contexts.copy()
        contexts[:, -1] = random.integers(3)
        contexts[:, 0 if with_arms else 1] = np.nan if random.random() < 0.3 else contexts[:, 0]
        candidates = Candidates(contexts, given.arms, columns)
        chosen = candidates[[int(_scores(examined, agent, candidates).argmax())]]
        agent.learn(chosen, problem.rewards(chosen))


def _check_own_memory(examined: Subject[Agent]) -> None:
    contract = "an agent keeps no hold of the arrays it is given"
    for agent, with_arms in _experienced(examined):
        problem, twin = _Problem(13, with_arms=with_arms), deepcopy(agent)
        log = problem.candidates(12)
        rewards = problem.rewards(log)
        twin.learn(Candidates(log.contexts.copy(), log.arms, log.columns), rewards.copy())
        agent.learn(log, rewards)
        log.contexts[:], rewards[:] = 0.0, 0.0
        mine, others = (
            _play(examined, a, _Problem(14, with_arms=with_arms), examined.size) for a in (agent, twin)
        )
        examined.require(
            same(mine, others), contract, "it changed when the caller used a learned array again"
        )


_CONTRACTS: dict[str, Callable[[Subject[Agent]], None]] = {
    "scores": _check_scores,
    "score_learns_nothing": _check_score_learns_nothing,
    "seed": _check_seed,
    "description": check_description,
    "saving": _check_saving,
    "bad_input": _check_bad_input,
    "late_rewards": _check_late_rewards,
    "changing_candidates": _check_changing_candidates,
    "real_rewards": _check_real_rewards,
    "missing_values": _check_missing_values,
    "own_memory": _check_own_memory,
}
