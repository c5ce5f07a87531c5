"""Contracts of agents: nothing is lost or half changed by files, bad input, threads or interruptions."""

from __future__ import annotations

import sys
import tempfile
import threading
from collections.abc import Callable
from copy import deepcopy
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

from treebandit.checks.contracts import same
from treebandit.checks.play import FEATURES, AgentSubject, estimated
from treebandit.core import Agent, Candidates, Columns
from treebandit.errors import CheckError

_STOPS, _THREADS, _CALLS = 12, 4, 6


def check_saving(examined: AgentSubject) -> None:
    """A file holds all that an agent has learned, and its random stream."""
    contract = "a loaded agent goes on exactly as the saved one"
    for agent in examined.experienced():
        missing = [name for name in ("save", "load") if not hasattr(agent, name)]
        examined.require(not missing, contract, f"it has no method {' and no method '.join(missing)}")
        saved: Any = agent
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "agent.treebandit"
            saved.save(path)
            loaded = type(saved).load(path)
        probe = examined.problem(5).candidates()
        kept = same(estimated(saved, probe), estimated(loaded, probe))
        examined.require(kept, contract, "its estimates differ right after loading")
        kept = examined.plays_alike(saved, loaded, seed=6, rounds=15)
        examined.require(kept, contract, "its scores differ while both go on learning")


def _bad_calls(good: Candidates) -> dict[str, Callable[[Any], Any]]:
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


def _bad_calls_later(good: Candidates) -> dict[str, Callable[[Any], Any]]:
    """What is wrong for an agent only once it has learned rows of another kind."""
    wide = Candidates(np.hstack([good.contexts, good.contexts]), good.arms, Columns.numeric(2 * FEATURES))
    narrow = Candidates(good.contexts[:, 1:], good.arms, Columns.numeric(FEATURES - 1))
    return {
        "rows that are too wide, to score": lambda agent: agent.score(wide),
        "rows that are too narrow, to score": lambda agent: agent.score(narrow),
        "rows that are too wide, to learn": lambda agent: agent.learn(wide[:1], np.array([1.0])),
        "rows that are too narrow, to learn": lambda agent: agent.learn(narrow[:1], np.array([1.0])),
    }


def check_bad_input(examined: AgentSubject) -> None:
    """Input that cannot be used is refused, and changes nothing."""
    good, has_learned = examined.problem(7).candidates(), False
    for agent in examined.experienced():
        calls = _bad_calls(good)
        if has_learned and not getattr(agent, "new_columns", False):
            calls |= _bad_calls_later(good)
        if hasattr(agent, "choose"):
            calls["text as contexts"] = lambda a: a.choose([["red", "green", "blue", "grey"]] * 2)
        has_learned = True
        struck = deepcopy(agent)
        for what, call in calls.items():
            examined.refuses(partial(call, struck), "bad input", what)
        if examined.goes_on_alike(agent, struck):
            continue
        for what, call in calls.items():
            struck = deepcopy(agent)
            examined.refuses(partial(call, struck), "bad input", what)
            kept = examined.goes_on_alike(agent, struck)
            examined.require(kept, "refused input leaves an agent unchanged", f"{what} changed it")
        raise CheckError(
            f"{examined.name}: refused input leaves an agent unchanged, but several together changed it"
        )


def check_own_memory(examined: AgentSubject) -> None:
    """Arrays that were learned may be used again by the caller."""
    contract = "an agent keeps no hold of the arrays it is given"
    for agent in examined.experienced():
        problem, twin = examined.problem(13), deepcopy(agent)
        log = problem.candidates(12)
        rewards = problem.rewards(log)
        twin.learn(Candidates(log.contexts.copy(), log.arms, log.columns), rewards.copy())
        agent.learn(log, rewards)
        log.contexts[:], rewards[:] = 0.0, 0.0
        kept = examined.plays_alike(agent, twin, seed=14, rounds=examined.size)
        examined.require(kept, contract, "it changed when the caller used a learned array again")


class _InterruptedError(BaseException):
    """What Ctrl-C raises, in tests."""


def check_interruptions(examined: AgentSubject) -> None:
    """Ctrl-C or an exception at any line of `score` or `learn` leaves no half-changed agent."""
    _, agent = examined.experienced()
    problem = examined.problem(19)
    rows = problem.candidates(12)
    rewards = problem.rewards(rows)
    calls: dict[str, Callable[[Agent], Any]] = {
        "learn": lambda a: a.learn(rows, rewards),
        "score": lambda a: a.score(rows),
    }
    packages = {"treebandit", type(agent).__module__.partition(".")[0]}
    for name, call in calls.items():
        after = deepcopy(agent)
        lines = _call_until(lambda a=after, c=call: c(a), packages, None)  # type: ignore[misc]
        for stop in sorted({1 + lines * i // _STOPS for i in range(_STOPS)}):
            struck = deepcopy(agent)
            _call_until(lambda a=struck, c=call: c(a), packages, stop)  # type: ignore[misc]
            kept = any(examined.goes_on_alike(whole, struck) for whole in (agent, after))
            examined.require(
                kept,
                f"an agent interrupted in {name} is as before or as after",
                f"it is neither after an exception at line {stop} of {lines}",
            )


def _call_until(call: Callable[[], Any], packages: set[str], stop: int | None) -> int:
    """Make a call, raise at the line `stop` of those that run in these packages; how many lines were run."""
    lines = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal lines
        if str(frame.f_globals.get("__name__")).partition(".")[0] not in packages:
            return None
        if event == "line":
            lines += 1
            if lines == stop:
                raise _InterruptedError
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    except _InterruptedError:
        pass
    finally:
        sys.settrace(before)
    return lines


def check_threads(examined: AgentSubject) -> None:
    """Rows that threads learn at the same time are all learned, as if they came one after the other."""
    _, agent = examined.experienced()
    problem = examined.problem(20)
    # Equal rows, so that the order in which threads come does not matter.
    row, rewards, alone = problem.candidates()[:1], np.array([0.5]), deepcopy(agent)
    for _ in range(_THREADS * _CALLS):
        alone.learn(row, rewards)
    contract = "an agent may be used by several threads"
    _in_threads(examined, contract, lambda: agent.learn(row, rewards))
    examined.require(
        examined.goes_on_alike(alone, agent),
        contract,
        f"{_THREADS * _CALLS} rows learned by {_THREADS} threads are not what one thread learns from them",
    )
    candidates = problem.candidates()

    def decide() -> None:
        agent.score(candidates)
        estimated(agent, candidates)
        agent.learn(row, rewards)

    _in_threads(examined, contract, decide)
    examined.play(agent, problem, 3)


def _in_threads(examined: AgentSubject, contract: str, call: Callable[[], Any]) -> None:
    failures: list[BaseException] = []

    def repeat() -> None:
        try:
            for _ in range(_CALLS):
                call()
        except Exception as error:
            failures.append(error)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # so that threads take turns within calls
    try:
        threads = [threading.Thread(target=repeat) for _ in range(_THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    examined.require(not failures, contract, f"a call ended in {failures[:1]}")
