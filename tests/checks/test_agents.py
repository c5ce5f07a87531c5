"""Each contract of agents can fail: classes broken on purpose, each caught by the contract it breaks."""

import json
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from checks.plain import UNSAVED, Plain

from treebandit.agents import BaseAgent, Uniform
from treebandit.checks import check_agent, check_environment, check_tree_learner
from treebandit.core import Estimate
from treebandit.environments import Synthetic
from treebandit.errors import ArmsError, CheckError, InputError, MissingExtraError, ParameterError
from treebandit.trees import RandomForestTrees


@dataclass(eq=False)
class Means(BaseAgent):
    """A sound agent: the mean reward of what it has learned, plus a little noise."""

    noise: float = 0.1
    seed: int | None = None

    def __post_init__(self):
        super().__post_init__()
        self.learned = 0.0, 0

    @property
    def mean(self):
        return self.learned[0] / max(self.learned[1], 1)

    def _scores(self, candidates):
        mean = self.mean
        noise = self.noise * self._random.random(len(candidates))
        return mean * np.nan_to_num(candidates.contexts[:, 0]) + abs(mean) * noise

    def _prepared(self, chosen, rewards, *, t):
        learned = self.learned[0] + float(rewards.sum()), self.learned[1] + len(rewards)
        return lambda: setattr(self, "learned", learned)

    def _estimate(self, candidates):
        mean = np.full(len(candidates), self.mean)
        return Estimate(mean, np.ones(len(mean)), np.full(len(mean), float(self.learned[1])))

    def _state(self):
        return {"total": self.learned[0], "count": self.learned[1]}

    def _restore(self, state):
        self.learned = state["total"], state["count"]


class Short(Means):
    def score(self, candidates):
        return super().score(candidates)[1:]


class NotANumber(Means):
    def _scores(self, candidates):
        return super()._scores(candidates) * (np.nan if self.learned[1] > 20 else 1.0)


class Scribbler(Means):
    def _scores(self, candidates):
        candidates.contexts[:] = 0.0
        return super()._scores(candidates)


class LearnsByLooking(Means):
    def _scores(self, candidates):
        self.learned = self.learned[0] + float(candidates.contexts[:, 0].sum()), self.learned[1]
        return super()._scores(candidates)


class EstimatesByLooking(Means):
    def _scores(self, candidates):
        self.seen = candidates.contexts[0, 0]
        return super()._scores(candidates)

    def _estimate(self, candidates):
        estimate = super()._estimate(candidates)
        return replace(estimate, mean=estimate.mean + getattr(self, "seen", 0.0))


class Unseeded(Means):
    def __post_init__(self):
        super().__post_init__()
        self._random = np.random.default_rng()


@dataclass(eq=False)
class Undescribed(Means):
    """An argument that JSON does not know."""

    kernel: object = field(default_factory=object)


@dataclass(eq=False)
class Restless(Means):
    """An argument that does not come out as it went in."""

    def __post_init__(self):
        super().__post_init__()
        self.noise = self.noise / 2


class Forgetful(Means):
    def _state(self):
        return {"total": self.learned[0], "count": 0}


class ForgetsLater(Means):
    """Right after loading all is well, but what it draws from is another stream."""

    def _restore(self, state):
        super()._restore(state)
        self._random = np.random.default_rng(0)


class Gullible(Means):
    """Takes any reward."""

    def learn(self, contexts, rewards, arms=None):
        values = np.asarray(rewards, float)
        super().learn(contexts, np.where(np.isfinite(values), values, 0.0), arms)


class Blunt(Means):
    """Refuses with an error of another kind."""

    def learn(self, contexts, rewards, arms=None):
        if len(contexts) != len(rewards):
            raise RuntimeError("no")
        super().learn(contexts, rewards, arms)


class Stained(Means):
    """Refuses, but only after it has learned."""

    def learn(self, contexts, rewards, arms=None):
        finite = np.asarray(rewards).dtype.kind == "f" and np.isfinite(rewards).all()
        self.learned = self.learned[0], self.learned[1] + (not finite)
        super().learn(contexts, rewards, arms)


class Impatient(Means):
    """Wants each reward at once."""

    def _prepared(self, chosen, rewards, *, t):
        if len(rewards) > 1:
            raise InputError("one at a time")
        return super()._prepared(chosen, rewards, t=t)


class NeverSeen(Means):
    def _scores(self, candidates):
        scores = super()._scores(candidates)
        return scores if candidates.arms is None else scores + np.zeros(3)[candidates.arms]


class OnlyProbabilities(Means):
    def _prepared(self, chosen, rewards, *, t):
        if (np.abs(rewards) > 10).any():
            raise InputError("rewards between 0 and 1")
        return super()._prepared(chosen, rewards, t=t)


class NoHoles(Means):
    def _scores(self, candidates):
        return super()._scores(candidates) + candidates.contexts.sum(1)


class Borrower(Means):
    """Keeps the caller's array and reads it again later."""

    def _prepared(self, chosen, rewards, *, t):
        commit = super()._prepared(chosen, rewards, t=t)
        return lambda: (commit(), setattr(self, "borrowed", chosen.contexts))

    def _scores(self, candidates):
        return super()._scores(candidates) + float(np.nansum(getattr(self, "borrowed", 0.0)))

    def _state(self):
        return {**super()._state(), "borrowed": getattr(self, "borrowed", np.zeros(1))}

    def _restore(self, state):
        super()._restore(state)
        self.borrowed = state["borrowed"]


class OwnUnit(Means):
    """Noise of one size, whatever rewards are."""

    def _scores(self, candidates):
        return super()._scores(candidates) + self.noise * self._random.random(len(candidates))


class OwnChance(Means):
    """Draws from a generator of its own, which it saves and copies as it should."""

    def __post_init__(self):
        super().__post_init__()
        self.own = np.random.default_rng(self.seed)

    def _scores(self, candidates):
        return super()._scores(candidates) + abs(self.learned[0]) * self.own.random(len(candidates))

    def _state(self):
        return {**super()._state(), "own": json.dumps(self.own.bit_generator.state)}

    def _restore(self, state):
        super()._restore(state)
        self.own.bit_generator.state = json.loads(state["own"])


class Named(Means):
    """Treats arms with names as one."""

    def choose(self, contexts, arms=None, **more):
        return super().choose(contexts, self._as_one(arms), **more)

    def learn(self, contexts, rewards, arms=None):
        super().learn(contexts, rewards, self._as_one(arms))

    def _as_one(self, arms):
        return [0] * len(arms) if arms is not None and isinstance(arms[0], str) else arms

    def _scores(self, candidates):
        scores = super()._scores(candidates)
        return scores if candidates.arms is None else scores + candidates.arms * abs(self.learned[0])


class NothingWillDo(Means):
    def _scores(self, candidates):
        raise ArmsError("not these")


class WithoutArms(Means):
    def _scores(self, candidates):
        if candidates.arms is not None:
            raise ArmsError("leave them out")
        return super()._scores(candidates)


def test_sound_agents_pass():
    check_agent(Means)
    check_agent(Means(seed=5))
    check_agent(lambda: Means(noise=0.2, seed=5))
    check_agent(WithoutArms)
    check_agent(Plain, skip=UNSAVED)


def test_the_names_of_all_contracts_are_documented():
    checks = {check_agent: Plain, check_environment: Synthetic, check_tree_learner: RandomForestTrees}
    for check, examined in checks.items():
        with pytest.raises(ParameterError) as refused:
            check(examined, skip=["?"])
        for name in str(refused.value).split("there are ")[1].split(", "):
            assert f"'{name}'" in check.__doc__


@pytest.mark.parametrize("arguments", [{"rounds": 0}, {"rounds": "9"}, {"skip": "seed"}, {"skip": 3}])
def test_arguments_of_a_check_are_checked(arguments):
    with pytest.raises(ParameterError, match=f"{next(iter(arguments))} is"):
        check_agent(Means, **arguments)
    with pytest.raises(ParameterError, match=f"{next(iter(arguments))} is"):
        check_environment(Synthetic, **arguments)


@pytest.mark.parametrize(
    ("agent", "seen"),
    [
        (Short, "one finite number per candidate, but 3 candidates got shape"),
        (NotANumber, "one finite number per candidate, but it returned .nan"),
        (Scribbler, "written into them"),
        (LearnsByLooking, "score learns nothing, but"),
        (EstimatesByLooking, "score learns nothing, but two copies .* estimate a row differently"),
        (Unseeded, "same seed gives the same choices"),
        (Undescribed, "describe an object completely, but rebuilding"),
        (Restless, "describe an object completely"),
        (Plain, "describe an object completely, but it is not a dataclass"),
        (Named, "names are counted like arms with numbers, but choices differ from round"),
        (
            OwnChance,
            r"those of the decision that follows; draw from self._random alone, but \[.*\] were told",
        ),
        (OwnUnit, "do not depend on the unit of rewards, but with rewards times 4096"),
        (Forgetful, "goes on exactly as the saved one, but its estimates differ"),
        (ForgetsLater, "goes on exactly as the saved one, but its scores differ"),
        (Gullible, "a reward of NaN was accepted"),
        (Blunt, "two rewards for one row ended in RuntimeError"),
        (Stained, "leaves an agent unchanged, but a reward of NaN changed it"),
        (Impatient, "'late_rewards' ended in InputError: one at a time"),
        (NeverSeen, "'changing_candidates' ended in IndexError"),
        (OnlyProbabilities, "'real_rewards' ended in InputError"),
        (NoHoles, "one finite number per candidate, but it returned .*nan"),
        (Borrower, "keeps no hold of the arrays"),
        (NothingWillDo, "with arms or without, but: not these; not these"),
    ],
)
def test_broken_agents_are_caught(agent, seen):
    with pytest.raises(CheckError, match=seen) as caught:
        check_agent(agent)
    assert str(caught.value).startswith(f"{agent.__name__}: ")


def test_a_contract_can_be_left_out():
    random = [
        "seed",
        "score_learns_nothing",
        "saving",
        "bad_input",
        "own_memory",
        "reward_units",
        "arm_names",
        "probabilities",
    ]
    check_agent(Unseeded, skip=[*random, "interruptions", "threads"])
    with pytest.raises(ParameterError, match="no contract 'speed' to skip; there are scores, "):
        check_agent(Means, skip=["speed"])


def test_the_agent_given_is_left_as_it_is():
    agent = Means(seed=0)
    check_agent(agent)
    assert (agent.clock, agent.learned) == (0, (0.0, 0))


def test_what_is_no_agent_is_refused():
    with pytest.raises(ParameterError, match="has no method score"):
        check_agent(3)
    with pytest.raises(ParameterError, match="returns a list without a method score"):
        check_agent(list)


def test_a_missing_library_is_not_a_broken_contract():
    class Elsewhere(Means):
        def _scores(self, candidates):
            raise MissingExtraError("torch", "neural")

    with pytest.raises(MissingExtraError):
        check_agent(Elsewhere)


def test_uniform_is_sound():
    check_agent(Uniform)


class WholeScores(Plain):
    """Scores by how many rows it has learned: whole numbers."""

    def score(self, candidates):
        super().score(candidates)
        return np.full(len(candidates), self.learned[1])


def test_whole_numbers_are_scores():
    check_agent(WholeScores, skip=UNSAVED)
