"""Contracts of environments."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import numpy as np

from treebandit.agents.simple import Uniform
from treebandit.checks.contracts import Subject, differing, run, same
from treebandit.core import Columns, Environment, Indices, Outcome, Round, play_round

_SMALLEST_REGRET = -1e-9


def check_environment(
    environment: Environment | Callable[[], Environment],
    *,
    rounds: int = 20,
    skip: Collection[str] = (),
) -> None:
    """Raise a CheckError where an environment breaks a contract; the environment given is left as it is.

    environment: one that was not played yet, or a class or function that returns one. A dataclass with
        `seed=None` is examined with a seed.
    rounds: how many rounds to play; at most as many as it has.
    skip: names of contracts that are not promised: 'rounds', 'outcomes', 'seed', 'same_rounds', 'repeated_rounds',
        'bad_choice', 'loop'.
    """
    run(_CONTRACTS, Subject.of(environment, method="observe", size=rounds), skip)


def _play(
    examined: Subject[Environment], environment: Environment, seed: int
) -> list[tuple[Round, Indices, Outcome]]:
    """Rounds, choices and outcomes of random scores."""
    random = np.random.default_rng(seed)
    played = []
    for _ in range(examined.size):
        this_round = environment.observe()
        choice = this_round.oracle(random.random(len(this_round.candidates)))
        played.append((this_round, choice, environment.pull(choice)))
    return played


def _check_rounds(examined: Subject[Environment]) -> None:
    environment = examined.make()
    columns: Columns | None = None
    for t in range(1, examined.size + 1):
        this_round = environment.observe()
        columns = columns or this_round.candidates.columns
        _check_candidates(examined, this_round, columns, t)
        environment.pull(this_round.oracle(np.zeros(len(this_round.candidates))))


def _check_repeated_rounds(examined: Subject[Environment]) -> None:
    """A round is shown until it is chosen in, however often it is observed."""
    environment, twin = examined.make(), examined.make()
    for t in range(1, min(examined.size, 5) + 1):
        rounds = [environment.observe() for _ in range(3)]
        once = twin.observe()
        scores = np.random.default_rng(t).random(len(once.candidates))
        for this_round in rounds:
            examined.require(
                same(_shown(this_round), _shown(once)),
                "observe repeats a round until pull",
                f"observed again, round {t} has other candidates",
            )
        mine, others = (e.pull(r.oracle(scores)) for e, r in ((environment, rounds[-1]), (twin, once)))
        examined.require(
            same([mine.rewards, mine.regret], [others.rewards, others.regret]),
            "observe repeats a round until pull",
            f"the outcome of round {t} differs where it was observed again",
        )


def _shown(this_round: Round) -> list[Any]:
    return [this_round.candidates.contexts, this_round.candidates.arms]


def _check_candidates(examined: Subject[Environment], this_round: Round, columns: Columns, t: int) -> None:
    candidates = this_round.candidates
    contexts, arms = candidates.contexts, candidates.arms
    examined.require(
        contexts.dtype == np.float32 and contexts.ndim == 2 and len(contexts),
        "contexts are float32 with at least one row",
        f"round {t} has {contexts.dtype} of shape {contexts.shape}",
    )
    examined.require(
        not np.isinf(contexts).any(), "contexts are finite or NaN", f"round {t} has an infinite one"
    )
    examined.require(
        arms is None or (arms.shape == (len(contexts),) and arms.dtype.kind in "iu"),
        "arms are one whole number per row, or None",
        f"round {t} has {None if arms is None else (arms.dtype.name, arms.shape)} for {len(contexts)} rows",
    )
    examined.require(
        candidates.columns == columns and len(columns) == contexts.shape[1],
        "the columns are the same in every round",
        f"round {t} has {contexts.shape[1]} features and the columns {candidates.columns}, not {columns}",
    )
    for j, categories in enumerate(columns.categories):
        codes = contexts[~np.isnan(contexts[:, j]), j]
        examined.require(
            not categories or bool(((codes >= 0) & (codes < categories) & (codes % 1 == 0)).all()),
            "categories come as integer codes from 0 on",
            f"column {j} of {categories} categories holds {np.unique(codes).tolist()} in round {t}",
        )


def _check_outcomes(examined: Subject[Environment]) -> None:
    for t, (this_round, choice, outcome) in enumerate(_play(examined, examined.make(), seed=1), 1):
        n, rewards = len(this_round.candidates), np.asarray(outcome.rewards)
        examined.require(
            choice.ndim == 1 and len(choice) and choice.min() >= 0 and choice.max() < n,
            "the oracle chooses rows of the round",
            f"it chose {choice.tolist()} of {n} rows in round {t}",
        )
        examined.require(
            rewards.shape == choice.shape and rewards.dtype.kind == "f" and np.isfinite(rewards).all(),
            "each chosen row gets one finite reward",
            f"{len(choice)} rows of round {t} got {rewards.tolist()}",
        )
        examined.require(
            _SMALLEST_REGRET <= outcome.regret < np.inf,
            "the regret in expectation is at least 0",
            f"it is {outcome.regret} in round {t}",
        )
        if (feedback := outcome.feedback) is not None:
            examined.require(
                len(feedback.chosen) == len(feedback.rewards),
                "feedback has one reward per row",
                f"round {t} has {len(feedback.rewards)} for {len(feedback.chosen)}",
            )


def _facts(played: list[tuple[Round, Indices, Outcome]]) -> list[list[Any]]:
    return [
        [*_shown(r), choice, outcome.rewards, np.float64(outcome.regret)] for r, choice, outcome in played
    ]


def _check_seed(examined: Subject[Environment]) -> None:
    differs = differing(*(_facts(_play(examined, examined.make(), seed=2)) for _ in range(2)))
    examined.require(
        not differs, "the same seed and choices give the same rounds", f"round {differs} differs"
    )


def _check_same_rounds(examined: Subject[Environment]) -> None:
    played = (_play(examined, examined.make(), seed=seed) for seed in (3, 4))
    differs = differing(*([_shown(this_round) for this_round, _, _ in rounds] for rounds in played))
    contract = "agents that choose differently are shown the same candidates"
    examined.require(not differs, contract, f"those of round {differs} differ")


def _check_bad_choice(examined: Subject[Environment]) -> None:
    environment, twin = examined.make(), examined.make()

    def refuses(choice: Indices, seen: str) -> None:
        examined.refuses(lambda: environment.pull(choice), "a choice that is not possible", seen)

    refuses(np.array([0]), "a choice before the first round")
    for t in range(min(examined.size, 5)):
        this_round, its = environment.observe(), twin.observe()
        n = len(this_round.candidates)
        scores = np.random.default_rng(t).random(n)
        choice, other = this_round.oracle(scores), its.oracle(scores)
        for bad in ([n], [-1], [*choice[:-1], n], [*choice[:-1], -1], []):
            rows = np.array(bad, np.intp)
            refuses(rows, f"the choice {rows.tolist()} of {n} rows")
        mine, others = environment.pull(choice), twin.pull(other)
        examined.require(
            same([mine.rewards, mine.regret], [others.rewards, others.regret]),
            "a refused choice leaves the environment unchanged",
            "the next outcome differs from that of an environment without it",
        )
        refuses(choice, "a second choice in one round")


def _check_loop(examined: Subject[Environment]) -> None:
    """Rounds can be played with an agent of this package, late feedback included."""
    agent, environment = Uniform(seed=0), examined.make()
    for _ in range(examined.size):
        play_round(agent, environment)


_CONTRACTS: dict[str, Callable[[Subject[Environment]], None]] = {
    "rounds": _check_rounds,
    "outcomes": _check_outcomes,
    "seed": _check_seed,
    "same_rounds": _check_same_rounds,
    "repeated_rounds": _check_repeated_rounds,
    "bad_choice": _check_bad_choice,
    "loop": _check_loop,
}
