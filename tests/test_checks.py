"""Each contract can fail: classes broken on purpose, each caught by the contract it breaks."""

import threading
import time
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from treebandit.agents import BaseAgent, Uniform
from treebandit.checks import check_agent, check_environment, check_tree_learner
from treebandit.core import Candidates, Columns, Estimate, Outcome, Round
from treebandit.environments import Synthetic
from treebandit.errors import ArmsError, CheckError, InputError, MissingExtraError, ParameterError
from treebandit.oracles import best_arm
from treebandit.trees import Forest, RandomForestTrees, XGBoostTrees


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
    def _scores(self, candidates):
        return super()._scores(candidates)[1:]


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


class Plain:
    """Neither a dataclass nor saved, but it decides and learns, whole and one caller at a time."""

    def __init__(self):
        self.lock, self.learned = threading.Lock(), (0.0, 0)

    def __getstate__(self):
        return {name: value for name, value in vars(self).items() if name != "lock"}

    def __setstate__(self, members):
        vars(self).update(members, lock=threading.Lock())

    def score(self, candidates):
        if not len(candidates) or candidates.contexts.shape[1] != 4:
            raise InputError("4 columns")
        if candidates.arms is not None and len(candidates.arms) != len(candidates):
            raise InputError("one arm per row")
        total, count = self.learned
        return total / max(count, 1) * np.nan_to_num(candidates.contexts[:, 0]).astype(float)

    def learn(self, chosen, rewards):
        if rewards.dtype.kind != "f" or rewards.shape != (len(chosen),) or not np.isfinite(rewards).all():
            raise InputError("rewards")
        if chosen.contexts.shape[1] != 4 or np.isinf(chosen.contexts).any():
            raise InputError("contexts")
        with self.lock:
            self.add(rewards)

    def add(self, rewards):
        total, count = self.learned
        self.learned = total + rewards.sum(), count + len(rewards)


class Racy(Plain):
    def learn(self, chosen, rewards):
        with self.lock:
            total, count = self.learned
        time.sleep(1e-4)
        with self.lock:
            self.learned = total + rewards.sum(), count + len(rewards)


class OneThread(Plain):
    def learn(self, chosen, rewards):
        if threading.current_thread() is not threading.main_thread():
            raise RuntimeError("not from here")
        super().learn(chosen, rewards)


class HalfChanged(Plain):
    def add(self, rewards):
        self.learned = self.learned[0] + rewards.sum(), self.learned[1]
        self.learned = self.learned[0], self.learned[1] + len(rewards)


class HalfDecided(Plain):
    def score(self, candidates):
        scores = super().score(candidates)
        self.learned = self.learned[0] + 1.0, self.learned[1]
        self.learned = self.learned[0] - 1.0, self.learned[1]
        return scores


UNSAVED = ("description", "saving")


@pytest.mark.parametrize(
    ("agent", "seen"),
    [
        (Racy, "several threads, but 24 rows learned by 4 threads"),
        (OneThread, "several threads, but a call ended in .RuntimeError"),
        (HalfChanged, "interrupted in learn is as before or as after, but it is neither"),
        (HalfDecided, "interrupted in score is as before or as after, but it is neither"),
    ],
)
def test_half_and_lost_changes_are_caught(agent, seen):
    skip = ("bad_input",) if agent is Racy else ()
    with pytest.raises(CheckError, match=seen) as caught:
        check_agent(agent, skip=(*UNSAVED, *skip))
    assert str(caught.value).startswith(f"{agent.__name__}: ")


def test_sound_agents_pass():
    check_agent(Means)
    check_agent(Means(seed=5))
    check_agent(lambda: Means(noise=0.2, seed=5))
    check_agent(WithoutArms)
    check_agent(Plain, skip=UNSAVED)


def test_the_names_of_all_contracts_are_documented():
    for check in (check_agent, check_environment, check_tree_learner):
        with pytest.raises(ParameterError) as refused:
            check(
                Plain if check is check_agent else Synthetic if check is check_environment else Sound,
                skip=["?"],
            )
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


@dataclass(frozen=True)
class Sound:
    """A sound learner to break."""

    n_trees: int = 5

    def fit(self, features, targets, *, seed):
        return XGBoostTrees(n_trees=self.n_trees).fit(features, targets, seed=seed)


class Model(Sound):
    def fit(self, features, targets, *, seed):
        return "a model"


class Narrow(Sound):
    def fit(self, features, targets, *, seed):
        return super().fit(features[:, :-1], targets, seed=seed)


class Vain(Sound):
    def fit(self, features, targets, *, seed):
        forest = super().fit(features, targets, seed=seed)
        targets[:] = 0.0
        return forest


class Deaf(Sound):
    def fit(self, features, targets, *, seed):
        return super().fit(features, np.full(len(targets), 9.0), seed=seed)


class Moody(Sound):
    def fit(self, features, targets, *, seed):
        return RandomForestTrees(n_trees=3).fit(
            features, targets, seed=int(np.random.default_rng().integers(2**30))
        )


class Whole(Sound):
    def fit(self, features, targets, *, seed):
        if np.isnan(features).any():
            raise ValueError("no NaN please")
        return super().fit(features, targets, seed=seed)


class Shifted(Sound):
    def fit(self, features, targets, *, seed):
        forest = super().fit(features, targets, seed=seed)
        return replace(forest, base=forest.base + 0.01)


class Lonely(Sound):
    def fit(self, features, targets, *, seed):
        """One tree that sets a single row apart."""
        if len(targets) < 50:
            return super().fit(features, targets, seed=seed)
        cut = np.sort(features[:, 0])[-1]
        low = np.nanmean(targets)
        return Forest.from_nodes(
            sizes=[3],
            left=[1, -1, -1],
            right=[2, -1, -1],
            feature=[0, 0, 0],
            threshold=[cut, 0, 0],
            missing_left=[True, False, False],
            value=[0.0, low, targets[features[:, 0].argmax()]],
            n_features=features.shape[1],
        )


class Unreal(Sound):
    def fit(self, features, targets, *, seed):
        forest = super().fit(features, targets, seed=seed)
        return replace(forest, values=forest.values * np.nan)


class Crooked(Forest):
    """A forest whose predictions are not the sums of its leaves."""

    def predict(self, features):
        return super().predict(features) * 0.99


class Bent(Sound):
    def fit(self, features, targets, *, seed):
        forest = super().fit(features, targets, seed=seed)
        return Crooked(**forest.state()) if np.var(targets) else forest


def test_sound_learners_pass():
    check_tree_learner(Sound)
    check_tree_learner(Sound(n_trees=2))


@pytest.mark.parametrize(
    ("learner", "seen"),
    [
        (Model, "fit returns a Forest .*, but it returned a str"),
        (Narrow, "the forest has 2 features, not 3"),
        (Vain, "leaves its arrays as they are"),
        (Deaf, "better than their mean does"),
        (Moody, "same seed grows the same trees"),
        (Whole, "'missing_values' ended in ValueError: no NaN please"),
        (Shifted, "grown on equal targets predict them"),
        (Lonely, "one row alone reaches a leaf of tree 0"),
        (Unreal, "one finite number per row"),
        (Bent, "the mean is the forest's prediction"),
    ],
)
def test_broken_learners_are_caught(learner, seen):
    with pytest.raises(CheckError, match=seen) as caught:
        check_tree_learner(learner)
    assert str(caught.value).startswith(f"{learner.__name__}: ")


def test_leaf_statistics_are_measured_against_a_slow_reference(monkeypatch):
    from treebandit.trees import LeafStatistics

    honest = LeafStatistics.estimate

    def doubled(self, features):
        estimate = honest(self, features)
        return replace(estimate, variance=2 * estimate.variance)

    monkeypatch.setattr(LeafStatistics, "estimate", doubled)
    with pytest.raises(CheckError, match="the variance rests on the leaves' own rows, but it is off by"):
        check_tree_learner(Sound)


def test_a_saved_agent_needs_both_methods():
    class Unsaved(Plain):
        pass

    with pytest.raises(CheckError, match="it has no method save and no method load"):
        check_agent(Unsaved, skip=["description"])


def test_uniform_is_sound():
    check_agent(Uniform)
