"""Contracts of agents: what they score, choose and learn."""

from __future__ import annotations

from collections.abc import Callable, Collection
from copy import deepcopy
from typing import Any

import numpy as np

from treebandit.agents.base import BaseAgent
from treebandit.checks import safety
from treebandit.checks.contracts import check_description, differing, run, same
from treebandit.checks.play import ARMS, FEATURES, AgentSubject, estimated
from treebandit.core import Agent, Candidates, Columns


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
    skip: names of contracts that are not promised: 'scores', 'score_learns_nothing', 'seed', 'description',
        'saving', 'bad_input', 'late_rewards', 'changing_candidates', 'real_rewards', 'reward_units',
        'missing_values', 'arm_names', 'probabilities', 'own_memory', 'interruptions', 'threads'.
    """
    run(_CONTRACTS, AgentSubject.of(agent, method="score", size=rounds), skip)


def _check_scores(examined: AgentSubject) -> None:
    for agent in examined.experienced():
        problem = examined.problem(2)
        candidates = problem.candidates()
        before = candidates.contexts.copy()
        examined.scored(agent, candidates)
        agent.learn(candidates[:1], problem.rewards(candidates[:1]))
        contract = "an agent leaves the contexts it is given as they are"
        examined.require(same(before, candidates.contexts), contract, "it has written into them")


def _check_score_learns_nothing(examined: AgentSubject) -> None:
    contract = "score learns nothing"
    for agent in examined.experienced():
        problem = examined.problem(3)
        probe, twin = problem.candidates(), deepcopy(agent)
        for _ in range(3):
            agent.score(problem.candidates())
            twin.score(problem.candidates())
        seen = "two copies that scored different candidates, equally many, {} differently"
        kept = same(estimated(agent, probe), estimated(twin, probe))
        examined.require(kept, contract, seen.format("estimate a row"))
        kept = examined.plays_alike(agent, twin, seed=4, rounds=4)
        examined.require(kept, contract, seen.format("go on"))


def _check_seed(examined: AgentSubject) -> None:
    problems = (examined.problem(1) for _ in range(2))
    differs = differing(*(examined.play(examined.make(), problem, examined.size) for problem in problems))
    contract = "the same seed gives the same choices"
    examined.require(not differs, contract, f"scores differ from round {differs} on")


def _check_late_rewards(examined: AgentSubject) -> None:
    """A log before the first decision, then decisions whose rewards come late, out of order and together."""
    agent, problem = examined.make(), examined.problem(9)
    for _ in range(5):
        log = problem.candidates()
        agent.learn(log, problem.rewards(log))
    for _ in range(2):
        waiting = []
        for _ in range(examined.size // 2):
            candidates = problem.candidates()
            waiting.append(candidates[[int(examined.scored(agent, candidates).argmax())]])
        batch = Candidates.joined(waiting[::-1])
        agent.learn(batch, problem.rewards(batch))
    examined.play(agent, problem, 3)


def _check_changing_candidates(examined: AgentSubject) -> None:
    for agent in examined.experienced():
        problem = examined.problem(10)
        for n, first_arm in ((1, 0), (7, 0), (2, 5), (3, 40), (1, 3), (4, 39)):
            candidates = problem.candidates(n, first_arm=first_arm)
            examined.scored(agent, candidates)
            agent.learn(candidates[-1:], problem.rewards(candidates[-1:]))
        examined.play(agent, problem, 3)


def _check_real_rewards(examined: AgentSubject) -> None:
    for scale, shift in ((1e4, -3e4), (0.0, -2.5), (1e-4, 0.0)):
        problem = examined.problem(11)
        examined.play(examined.make(), problem, examined.size, scale=scale, shift=shift)


def _check_reward_units(examined: AgentSubject) -> None:
    """Rewards in another unit change no choice; powers of two, so that rounding does not either."""
    choices = []
    for scale in (1.0, 2.0**12, 2.0**-20):
        scores = examined.play(examined.make(), examined.problem(17), examined.size, scale=scale)
        choices.append([int(row.argmax()) for row in scores])
        differs = differing(choices[0], choices[-1])
        seen = f"with rewards times {scale:g} they differ from round {differs} on"
        examined.require(not differs, "choices do not depend on the unit of rewards", seen)


def _check_arm_names(examined: AgentSubject) -> None:
    """An agent that takes names of arms chooses as with numbers from 0 on, from the first decision on."""
    if not examined.with_arms or not hasattr(examined.make(), "choose"):
        return
    choices = []
    for labels in (range(ARMS), [f"arm {i}" for i in range(ARMS)]):
        agent: Any = examined.make()
        problem, chosen = examined.problem(18), []
        for _ in range(examined.size):
            candidates = problem.candidates()
            chosen.append(int(agent.choose(candidates.contexts[0], arms=list(labels))[0]))
            row = candidates[[chosen[-1]]]
            agent.learn(row.contexts, problem.rewards(row), arms=[labels[chosen[-1]]])
        choices.append(chosen)
    differs = differing(*choices)
    contract = "arms with names are counted like arms with numbers"
    examined.require(not differs, contract, f"choices differ from round {differs} on")


def _check_probabilities(examined: AgentSubject) -> None:
    """`probabilities` tells those of the next decision; it cannot where chance is not the agent's own stream."""
    contract = "probabilities are those of the decision that follows; draw from self._random alone"
    for agent in examined.experienced():
        if not isinstance(agent, BaseAgent):
            return
        problem = examined.problem(19)
        for _ in range(3):
            candidates = problem.candidates()
            told = agent.probabilities(candidates, draws=20, floor=0.0)
            decided = agent.decide(candidates, draws=20, floor=0.0).probabilities
            examined.require(same(told, decided), contract, f"{told} were told and then {decided}")


def _check_missing_values(examined: AgentSubject) -> None:
    """NaN is a missing number, and a column may hold integer codes of categories."""
    agent, problem, random = examined.make(), examined.problem(12), np.random.default_rng(0)
    columns = Columns((0,) * (FEATURES - 1) + (3,))
    for _ in range(examined.size):
        given = problem.candidates()
        contexts = given.contexts.copy()
        contexts[:, -1] = random.integers(3)
        contexts[:, 0 if examined.with_arms else 1] = np.nan if random.random() < 0.3 else contexts[:, 0]
        candidates = Candidates(contexts, given.arms, columns)
        chosen = candidates[[int(examined.scored(agent, candidates).argmax())]]
        agent.learn(chosen, problem.rewards(chosen))


_CONTRACTS: dict[str, Callable[[AgentSubject], None]] = {
    "scores": _check_scores,
    "score_learns_nothing": _check_score_learns_nothing,
    "seed": _check_seed,
    "description": check_description,
    "saving": safety.check_saving,
    "bad_input": safety.check_bad_input,
    "late_rewards": _check_late_rewards,
    "changing_candidates": _check_changing_candidates,
    "real_rewards": _check_real_rewards,
    "reward_units": _check_reward_units,
    "missing_values": _check_missing_values,
    "arm_names": _check_arm_names,
    "probabilities": _check_probabilities,
    "own_memory": safety.check_own_memory,
    "interruptions": safety.check_interruptions,
    "threads": safety.check_threads,
}
