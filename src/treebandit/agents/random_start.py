"""Rounds in which arms are chosen at random or in turn, before a model decides (T_I in the paper)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from treebandit.core import Candidates, Floats, Indices, Random
from treebandit.parameters import check_number
from treebandit.policies.floor import ScoreDraws

StartRule = Literal["per_arm", "rounds", "in_turn"]


@dataclass(frozen=True, slots=True)
class RandomStart:
    """How long the random start is.

    rounds, rule: 'per_arm', that many random rounds times the number of arms (paper; times one where the features
        alone tell candidates apart); 'rounds', that many in all; 'in_turn', each arm in turn, that many times.

    Where rewards come late, an agent has nothing to decide by after these rounds either. Turns are not taken for so
    long: the order of the decisions, such as two per page, would settle who is shown what, and other policies could not
    be judged by such a log. Any choice is as likely then.
    """

    rounds: int
    rule: StartRule

    def __post_init__(self) -> None:
        check_number("random_rounds", self.rounds, least=0, whole=True)

    def length(self, arms: int) -> int:
        """T_I for this many arms: rounds before the model decides."""
        return self.rounds if self.rule == "rounds" else self.rounds * arms

    def scores(self, candidates: Candidates, t: int, random: Random, *, arms: int) -> Floats:
        """Any choice as likely as any other, or the arm whose turn it is: (n,)."""
        scores = random.random(len(candidates))
        return scores - _turns(candidates, t) if self._in_turn(t, arms) else scores

    def draws(self, candidates: Candidates, t: int, random: Random, size: int, *, arms: int) -> ScoreDraws:
        """What `scores` may give."""
        if not self._in_turn(t, arms):
            return ScoreDraws.random(len(candidates))
        return ScoreDraws(random.random((size, len(candidates))) - _turns(candidates, t))

    def _in_turn(self, t: int, arms: int) -> bool:
        return self.rule == "in_turn" and t <= self.length(arms)


def _turns(candidates: Candidates, t: int) -> Indices:
    """In how many rounds it is each candidate's turn, (n,); 0: now."""
    arms = np.arange(len(candidates)) if candidates.arms is None else candidates.arms
    place = np.unique(arms, return_inverse=True)[1]
    turns: Indices = (place - t) % (place.max() + 1)
    return turns
