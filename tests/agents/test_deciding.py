"""`decide`, `decide_many`, `probabilities`, and learning from decisions."""

import pickle
import threading
from copy import deepcopy
from dataclasses import dataclass

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from every import EVERY
from taught import ARMS, OFFERS, Interrupted, X, Y, fingerprint, taught

import treebandit
from treebandit import TETS, Bandit, BaseAgent, Candidates, Columns, LinTS, LinUCB, TopK, Uniform
from treebandit.errors import (
    ArmsError,
    ChoiceError,
    InputError,
    NoFeasibleChoiceError,
    ParameterError,
    ShapeError,
    TreebanditError,
)
from treebandit.policies.floor import ScoreDraws


def test_a_decision_tells_what_was_chosen_and_how_likely_that_was():
    agent = taught("Bandit")
    decision = agent.decide(X[0], arms=[0, 1, 2], id="visit 7")
    assert decision.id == "visit 7"
    assert decision.arm == decision.row == decision.rows[0]
    assert decision.arms == (decision.arm,)
    assert decision.labels == (0, 1, 2)
    assert decision.probability == decision.probabilities[decision.row]
    assert decision.probabilities.sum() == pytest.approx(1.0, abs=1e-12)
    assert decision.probabilities.min() >= 0.01 / 3
    assert decision.scores.shape == (3,)
    assert len({agent.decide(X[0], arms=[0, 1, 2]).id for _ in range(20)}) == 20


def test_sets_have_rows_and_no_row():
    decision = LinUCB(seed=0).decide(X[:4], oracle=TopK(2))
    assert len(decision.rows) == 2
    assert decision.probabilities.sum() == pytest.approx(2.0)
    with pytest.raises(ChoiceError, match="2 rows were chosen, not one; use `rows`"):
        decision.row
    with pytest.raises(ArmsError, match="have no arms; use `row` or `rows`"):
        decision.arm
    with pytest.raises(ChoiceError, match="use `rows` and `arms`"):
        LinUCB(seed=0).decide(X[:3], arms=[4, 5, 6], oracle=TopK(2)).arm


@pytest.mark.parametrize("name", EVERY)
def test_probabilities_change_nothing_and_are_what_decide_tells(name):
    agent = taught(name)
    before = fingerprint(agent)
    reported = agent.probabilities(X[0], arms=[0, 1, 2], draws=20)
    assert fingerprint(agent) == before
    assert reported.tolist() == agent.decide(X[0], arms=[0, 1, 2], draws=20).probabilities.tolist()


@pytest.mark.parametrize("name", EVERY)
def test_many_draws_leave_an_agent_as_one_decision_would(name):
    """All but the random stream, whatever the number of draws."""
    agent = taught(name)
    states = []
    for draws in (1, 30):
        twin = deepcopy(agent)
        twin.decide(X[0], arms=[0, 1, 2], draws=draws)
        states.append({**fingerprint(twin), "random": None})
    twin = deepcopy(agent)
    twin.choose(X[0], arms=[0, 1, 2])
    assert states[0] == states[1] == {**fingerprint(twin), "random": None}


@pytest.mark.parametrize("name", EVERY)
def test_the_first_decisions_have_probabilities_too(name):
    agent = EVERY[name]()
    for t in range(12):
        decision = agent.decide(X[t], arms=OFFERS, draws=10)
        assert 0.0 < decision.probability <= 1.0
        assert decision.probabilities.sum() == pytest.approx(1.0)
        agent.learn(decision, Y[t])
    assert agent.clock == 12


def test_random_starts_and_uniform_agents_are_told_exactly():
    for agent in (Uniform(seed=0), TETS(seed=0), treebandit.BanditForest(seed=0)):
        assert agent.decide(X[0], arms=OFFERS).probabilities.tolist() == [1 / 3] * 3
    chosen = [(each := Bandit(seed=0)).decide(X[0], arms=OFFERS, floor=0.0) for _ in range(2)]
    assert {decision.probability for decision in chosen} == {1.0}  # each in turn
    assert each.clock == 1


def test_turns_end_with_the_start_where_rewards_come_late():
    """Else the order of the decisions would settle who is shown what until the first reward: here two per page."""
    agent, shown = Bandit(seed=0), np.zeros((2, 2))
    for t in range(400):
        decision = agent.decide(X[t % 2], arms=[0, 1])
        shown[t % 2, decision.row] += 1
        assert t < agent.start_rounds or decision.probabilities.tolist() == [0.5, 0.5]
    assert agent.start_rounds == 4
    assert shown.min() > 70
    agent.choose(X[0], arms=[0, 1])
    assert [agent.choose(X[0], arms=[0, 1])[0] for _ in range(20)] != [0, 1] * 10


def test_epsilon_greedy_is_told_exactly():
    agent = treebandit.EpsilonGreedy(epsilon=0.3, seed=0)
    agent.learn(X[:50], Y[:50] + ARMS[:50], arms=ARMS[:50])
    best = agent.estimate(X[:3], arms=[0, 1, 2]).mean.argmax()
    reported = agent.probabilities(X[:3], arms=[0, 1, 2], floor=0.0)
    assert reported[best] == pytest.approx(0.7 + 0.1)
    assert np.delete(reported, best) == pytest.approx([0.1, 0.1])


def test_equals_share_exactly():
    agent = treebandit.UCB1(seed=0)
    assert agent.probabilities(None, arms=OFFERS, floor=0.0) == pytest.approx([1 / 3] * 3)
    agent.learn(None, [1.0, 1.0, 0.0], arms=OFFERS)
    assert agent.probabilities(None, arms=OFFERS, floor=0.0) == pytest.approx([0.5, 0.5, 0.0])
    assert agent.probabilities(None, arms=OFFERS, floor=0.3) == pytest.approx([0.45, 0.45, 0.1])


def test_what_cannot_be_chosen_is_not_chosen_by_chance_either():
    @dataclass(eq=False)
    class Closed(BaseAgent):
        closed: int = 1
        seed: int | None = None

        def _scores(self, candidates):
            return np.where(np.arange(len(candidates)) == self.closed, -np.inf, 1.0)

    agent = Closed(seed=0)
    assert agent.probabilities(X[:3], floor=0.5).tolist() == [0.5, 0.0, 0.5]
    assert agent.probabilities(X[:3], floor=0.5, oracle=TopK(2)).tolist() == [1.0, 0.0, 1.0]
    with pytest.raises(NoFeasibleChoiceError):
        agent.decide(X[:3], oracle=TopK(3))
    with pytest.raises(NoFeasibleChoiceError):
        Closed(closed=0, seed=0).decide(X[:1])


@dataclass(eq=False)
class Own(BaseAgent):
    """An agent of a user, who has written `_scores` only; it keeps what it scored last."""

    seed: int | None = None

    def _scores(self, candidates):
        self.calls = getattr(self, "calls", 0) + 1
        return self._random.normal([0.0, 0.5, 1.0])

    def _prepared(self, chosen, rewards, *, t):
        return lambda: None


def test_an_agent_with_scores_only_is_asked_again_and_again():
    agent = Own(seed=0)
    reported = np.mean([agent.probabilities(X[:3], draws=400, floor=0.0) for _ in range(1)], axis=0)
    assert not hasattr(agent, "calls")
    assert reported[2] > reported[1] > reported[0] > 0.0
    decision = agent.decide(X[:3])
    assert (agent.clock, agent.calls) == (1, 1)
    agent.learn(decision, 1.0)


@dataclass(eq=False)
class OwnChance(BaseAgent):
    """Explores in a share of its decisions, by a generator that the base does not know."""

    share: float = 1.0
    seed: int | None = None

    def __post_init__(self):
        super().__post_init__()
        self.generator = np.random.default_rng(self.seed)

    def _scores(self, candidates):
        explores = self.generator.random() < self.share
        return self.generator.random(len(candidates)) if explores else np.arange(len(candidates), dtype=float)

    def _prepared(self, chosen, rewards, *, t):
        return lambda: None


@pytest.mark.parametrize("share", [1.0, 0.05])
def test_chance_of_an_agents_own_generator_is_in_its_probabilities(share):
    agent = OwnChance(share, seed=0)
    made = [agent.decide(X[0], arms=["a", "b"], floor=0.0) for _ in range(400)]
    told = np.mean([each.probabilities for each in made], axis=0)
    assert told == pytest.approx([share / 2, 1 - share / 2], abs=0.02)
    frequency = np.mean([each.row == 0 for each in made])
    assert frequency == pytest.approx(told[0], abs=4 * np.sqrt(told[0] / 400))


def test_what_is_learned_must_come_as_a_function():
    class Wrong(Own):
        def _prepared(self, chosen, rewards, *, t):
            self.learned = True

    agent = Wrong(seed=0)
    with pytest.raises(ParameterError, match="return a function that makes the change"):
        agent.learn(X[0], 1.0, arms=["a"])
    assert agent.decide(X[0], arms=["a", "b", "c"]).arm in ("a", "b", "c")


@pytest.mark.parametrize("scores", [np.zeros(4), np.zeros(2), np.zeros((3, 1)), 0.5, np.zeros(1)])
@pytest.mark.parametrize("drawn", [False, True])
def test_scores_that_are_not_one_per_candidate_are_refused(scores, drawn):
    class Wrong(Own):
        def _scores(self, candidates):
            self._random.random()
            return scores

        if drawn:

            def _draws(self, candidates, size):
                return ScoreDraws(np.repeat(np.atleast_1d(scores)[None], size, axis=0))

    agent, rows = Wrong(seed=0), Candidates(X[:3].astype(np.float32), None, Columns.numeric(X.shape[1]))
    for ask in (agent.choose, agent.decide, agent.probabilities, agent.score):
        with pytest.raises(ShapeError, match="for 3 candidates; give one number per candidate"):
            ask(rows)
    assert agent.clock == 0


def test_scores_of_a_subclass_count_more_than_draws_of_its_parent():
    class Stubborn(LinTS):
        def _scores(self, candidates):
            return np.arange(len(candidates), dtype=float)

    agent = Stubborn(seed=0)
    agent.learn(X[:50], Y[:50], arms=ARMS[:50])
    assert agent.probabilities(X[0], arms=[0, 1, 2], floor=0.0).tolist() == [0.0, 0.0, 1.0]


@pytest.mark.parametrize("name", EVERY)
def test_many_decisions_are_those_one_after_the_other(name):
    agent = taught(name)
    twin = deepcopy(agent)
    many = agent.decide_many(X[:4], arms=[0, 1, 2], draws=10, ids=dict.fromkeys("abcd").keys())
    apart = [twin.decide(row, arms=[0, 1, 2], draws=10) for row in X[:4]]
    assert [each.probabilities.tolist() for each in many] == [each.probabilities.tolist() for each in apart]
    assert [each.row for each in many] == [each.row for each in apart]
    assert [each.id for each in many] == list("abcd")
    assert fingerprint(agent) == fingerprint(twin)
    agent.learn(many, [0.0, 1.0, 2.0, 3.0])


@pytest.mark.parametrize("frame", [pl.DataFrame, pd.DataFrame, lambda rows: rows])
def test_many_rows_with_names(frame):
    rows = [{"x": 1.0, "kind": "a"}, {"x": 2.0, "kind": "b"}]
    agent = Bandit(seed=0)
    decisions = agent.decide_many(frame(rows), arms=OFFERS)
    agent.learn(decisions, [1.0, 0.0])
    agent.learn(decisions[1], 1.0)
    assert agent.model.history.contexts.tolist() == [[1.0, 0.0], [2.0, 1.0], [2.0, 1.0]]


@pytest.mark.parametrize("form", [pl.DataFrame, pd.DataFrame, pa.Table.from_pylist, list, np.array])
def test_a_pickled_decision_of_many_holds_its_own_row_only(form):
    values = [1111.25 + row for row in range(500)]
    given = form([[value] for value in values] if form is np.array else [{"x": value} for value in values])
    agent, twin = LinUCB(seed=0), LinUCB(seed=0)
    decisions = agent.decide_many(given, arms=OFFERS)
    assert len(decisions) == 500
    copies = [pickle.loads(pickle.dumps(each)) for each in decisions[::100]]
    assert len(pickle.dumps(decisions[300])) < 3000
    rewards = [1.0, 0.0, 2.0, 3.0, 0.0]
    agent.learn(decisions[::100], rewards)
    twin.learn(copies, rewards)
    assert agent.estimate(given, arms=OFFERS[:1] * 500).mean.tolist() == (
        twin.estimate(given, arms=OFFERS[:1] * 500).mean.tolist()
    )


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"contexts": X[0]}, ShapeError, "one row of features per decision"),
        ({"contexts": {"x": 1}}, ShapeError, "one row; give a list of rows"),
        ({"contexts": None}, InputError, "no contexts"),
        ({"arms": None}, InputError, "no arms"),
        ({"arms": []}, ShapeError, "no arms; give at least one"),
        ({"ids": ["a"]}, ShapeError, "1 ids for 2 decisions"),
        ({"ids": ["a", "a"]}, ParameterError, "a text twice"),
        ({"ids": ["a", None]}, ParameterError, "ids hold None"),
        ({"ids": "ab"}, ParameterError, "give a list of texts"),
        ({"ids": 7}, ParameterError, "give a list of texts"),
        ({"ids": {"a", "b"}}, ParameterError, "give a list of texts"),
        ({"ids": ["a", 7]}, ParameterError, "id is 7"),
        ({"contexts": Candidates(X[:2], None, Columns.numeric(4))}, InputError, "use decide"),
    ],
)
def test_many_decisions_refuse_what_they_cannot_use(arguments, error, words):
    agent = LinUCB(seed=0)
    before = fingerprint(agent)
    with pytest.raises(error, match=words):
        agent.decide_many(**{"contexts": X[:2], "arms": OFFERS, **arguments})
    assert fingerprint(agent) == before
    assert agent.decide_many(np.empty((0, 4)), arms=OFFERS) == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"draws": 0}, "draws is 0; give a whole number of at least 1"),
        ({"draws": 10.0}, "draws is 10.0"),
        ({"draws": True}, "draws is True"),
        ({"draws": 1 << 40}, "give at most"),
        ({"floor": -0.1}, "floor is -0.1"),
        ({"floor": 1.5}, "floor is 1.5; give a finite number of at least 0 and at most 1"),
        ({"floor": np.nan}, "floor is nan"),
        ({"floor": "small"}, "floor is 'small'"),
        ({"id": 7}, "id is 7; give text"),
        ({"id": ""}, "id is ''"),
        ({"oracle": TopK}, "the class TopK"),
        ({"oracle": lambda scores: [7]}, "rows go from 0 to 2"),
    ],
)
def test_bad_arguments_change_nothing(arguments, words):
    agent = taught("Bandit")
    before = fingerprint(agent)
    with pytest.raises(InputError, match=words):
        agent.decide(X[0], arms=[0, 1, 2], **arguments)
    if "id" not in arguments:
        with pytest.raises(InputError, match=words):
            agent.probabilities(X[0], arms=[0, 1, 2], **arguments)
    assert fingerprint(agent) == before


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("fails", [1, 7])
def test_a_decision_that_is_cut_short_is_undone(name, fails):
    agent, calls = taught(name), []

    def breaking(scores):
        calls.append(1)
        if len(calls) >= fails:
            raise Interrupted
        return [0]

    before = fingerprint(agent)
    for method in (agent.decide, agent.probabilities):
        calls.clear()
        with pytest.raises(Interrupted):
            method(X[:3], arms=[0, 1, 2], oracle=breaking, draws=10)
        assert fingerprint(agent) == before


def test_an_oracle_may_not_decide():
    agent = taught("Bandit")

    def deciding(scores):
        agent.decide(X[:3], arms=[0, 1, 2])
        return [0]

    with pytest.raises(TreebanditError, match="decide was called while this agent decides"):
        agent.decide(X[:3], arms=[0, 1, 2], oracle=deciding)


def test_threads_may_decide_and_learn():
    agent, errors, ids = EVERY["Bandit"](), [], []

    def work(number):
        mine = np.random.default_rng(number)
        try:
            for _ in range(40):
                decision = agent.decide(mine.normal(size=4), arms=OFFERS)
                agent.probabilities(mine.normal(size=4), arms=OFFERS, draws=5)
                agent.learn(decision, float(decision.arm == "tea"))
                ids.append(decision.id)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert agent.clock == len(agent.model.history) == len(set(ids)) == 240
