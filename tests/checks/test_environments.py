"""Each contract of environments can fail: classes broken on purpose, each caught by the contract it breaks."""

from dataclasses import replace

import numpy as np
import pytest

from treebandit.checks import check_environment
from treebandit.core import Candidates, Columns, Outcome, Round
from treebandit.environments import Synthetic
from treebandit.errors import CheckError
from treebandit.oracles import best_arm


class SameForAll(Synthetic):
    """A sound environment to break: four arms, eight features."""


class Double(SameForAll):
    def observe(self):
        this_round = super().observe()
        c = this_round.candidates
        return Round(replace(c, contexts=c.contexts.astype(float)), this_round.oracle)


class Infinite(SameForAll):
    def observe(self):
        this_round = super().observe()
        this_round.candidates.contexts[0, 0] = np.inf
        return this_round


class TooFewArms(SameForAll):
    def observe(self):
        this_round = super().observe()
        c = this_round.candidates
        return Round(Candidates(c.contexts, c.arms[1:], c.columns), this_round.oracle)


class NewColumns(SameForAll):
    def observe(self):
        this_round = super().observe()
        c = this_round.candidates
        names = tuple(f"{self._round}{j}" for j in range(8))
        return Round(replace(c, columns=Columns((0,) * 8, names)), this_round.oracle)


class BadCodes(SameForAll):
    def observe(self):
        this_round = super().observe()
        c = this_round.candidates
        return Round(replace(c, columns=Columns((3,) + (0,) * 7)), this_round.oracle)


class Beyond(SameForAll):
    """Its oracle counts from the end, and it lets that pass."""

    def observe(self):
        return Round(super().observe().candidates, lambda scores: best_arm(scores) - len(scores))

    def pull(self, choice):
        return super().pull(choice + 4)


class OneRewardTooMany(SameForAll):
    def pull(self, choice):
        outcome = super().pull(choice)
        return replace(outcome, rewards=np.append(outcome.rewards, 0.0))


class NegativeRegret(SameForAll):
    def pull(self, choice):
        return replace(super().pull(choice), regret=-0.5)


class OtherLuck(SameForAll):
    def __post_init__(self):
        super().__post_init__()
        self._luck = np.random.default_rng()


class Revenge(SameForAll):
    """What comes next depends on what was chosen."""

    def pull(self, choice):
        self._stream.random(int(choice[0]))
        return super().pull(choice)


class Restive(SameForAll):
    """Goes on to the next round each time it is observed."""

    def observe(self):
        self._shown = None
        return super().observe()


class Costly(SameForAll):
    """Looking costs luck."""

    def __post_init__(self):
        self.rewards = "continuous"
        super().__post_init__()

    def observe(self):
        self._luck.random()
        return super().observe()


class Lenient(SameForAll):
    def pull(self, choice):
        return super().pull(np.clip(choice, 0, 3))


class Offended(SameForAll):
    """Refuses, but the refused choice has used up a draw."""

    def pull(self, choice):
        if self._shown is not None:
            self._luck.random()
        return super().pull(choice)


class Unplayable(SameForAll):
    """Feedback that no agent can learn."""

    def pull(self, choice):
        outcome = super().pull(choice)
        return Outcome(np.array([np.inf]), outcome.regret)


def test_sound_environments_pass():
    check_environment(SameForAll)
    check_environment(Synthetic(seed=3))
    check_environment(lambda: Synthetic("interactions", seed=3))


@pytest.mark.parametrize(
    ("environment", "skip", "seen"),
    [
        (Double, (), "contexts are float32 .*, but round 1 has float64"),
        (Infinite, (), "finite or NaN"),
        (TooFewArms, (), "one whole number per row"),
        (NewColumns, (), "the same in every round, but round 2"),
        (BadCodes, (), "integer codes from 0 on, but column 0 of 3 categories"),
        (Beyond, (), "oracle chooses rows of the round, but it chose .-"),
        (OneRewardTooMany, (), "one finite reward"),
        (NegativeRegret, (), "at least 0, but it is -0.5 in round 1"),
        (OtherLuck, (), "same seed and choices"),
        (Revenge, (), "are shown the same candidates"),
        (Restive, (), "observe repeats a round until pull, but observed again, round 1 has other candidates"),
        (Costly, (), "observe repeats a round until pull, but the outcome of round 1 differs"),
        (Lenient, (), r"refused .*, but the choice \[4\] of 4 rows was accepted"),
        (Offended, (), "leaves the environment unchanged"),
        (Unplayable, ("outcomes",), "'loop' ended in InputError"),
    ],
)
def test_broken_environments_are_caught(environment, skip, seen):
    with pytest.raises(CheckError, match=seen) as caught:
        check_environment(environment, skip=skip)
    assert str(caught.value).startswith(f"{environment.__name__}: ")
