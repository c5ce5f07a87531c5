"""Told probabilities are true: choices come as often as they say, and as often as `choose` makes them."""

from collections import Counter, defaultdict
from dataclasses import dataclass

import numpy as np
import pytest
from every import EVERY
from scipy import stats

from treebandit import (
    Assignment,
    BaseAgent,
    Candidates,
    Columns,
    LinUCB,
    ShortestPath,
    TopK,
    Uniform,
    best_arm,
)
from treebandit.errors import InputError, NoFeasibleChoiceError, ParameterError
from treebandit.policies.floor import ScoreDraws, choices

#: Under so small a p-value two distributions differ; seeds are fixed.
LEAST = 1e-4
AGENTS = {**EVERY, "Uniform": lambda seed=0: Uniform(seed=seed)}
#: Agents that take a millisecond or more for a few draws make fewer decisions.
SLOW = ("TreeBootstrap", "NeuralTS", "NeuralUCB", "BanditForest")
#: Arms of nearly equal reward and much noise, so that agents stay unsure.
random = np.random.default_rng(3)
X = random.normal(size=(150, 3)).astype(np.float32)
ARMS = random.integers(0, 4, 150)
Y = X[:, 0] + 0.1 * ARMS + 2.0 * random.normal(size=150)
OFFERED = [0, 1, 2, 3]
ORACLES = {
    "best_arm": best_arm,
    "TopK": TopK(2),
    "ShortestPath": ShortestPath("aabc", "bcdd", "a", "d"),  # over b or over c
    "Assignment": Assignment([0, 0, 1, 1], [0, 1, 0, 1]),
}


def unsure(name):
    agent = AGENTS[name](seed=1)
    agent.learn(X, Y - 5.0, arms=ARMS)  # negative, as costs of a path are
    agent.choose(X[0], arms=OFFERED)
    return agent


def in_round(agent, clock, decide):
    """A decision in a given round: scores of some agents change with it."""
    agent.clock = clock
    return decide()


def differ(counts, probabilities, *, trials):
    """The p-value of so many choices out of so many trials, if these are their probabilities."""
    counts, expected = np.asarray(counts, float), trials * np.asarray(probabilities, float)
    assert counts[expected == 0.0].sum() == 0.0
    rare = expected < 5.0
    counts = np.append(counts[~rare], counts[rare].sum())
    expected = np.append(expected[~rare], expected[rare].sum())
    counts, expected = counts[expected > 0.0], expected[expected > 0.0]
    if len(counts) < 2:
        return 1.0
    return stats.chi2.sf(((counts - expected) ** 2 / expected).sum(), len(counts) - 1)


@pytest.mark.parametrize("name", AGENTS)
def test_choices_come_as_often_as_they_are_told_to(name):
    agent = unsure(name)
    decisions = 20_000 if name in ("Bandit", "EpsilonGreedy") else 500 if name in SLOW else 2_000
    made = agent.decide_many(np.tile(X[1], (decisions, 1)), arms=OFFERED, draws=5, floor=0.1)
    reported = np.mean([decision.probabilities for decision in made], axis=0)
    found = np.bincount([decision.row for decision in made], minlength=4)
    assert differ(found, reported, trials=decisions) > LEAST


@pytest.mark.parametrize("name", AGENTS)
def test_told_probabilities_are_the_frequencies_of_choose(name):
    agent = unsure(name)
    clock, chosen = agent.clock, np.zeros(4)
    many, times = (400, 4) if name in SLOW else (3_000, 30)
    for _ in range(many):
        chosen[in_round(agent, clock, lambda: agent.choose(X[1], arms=OFFERED))[0]] += 1.0
    reported = np.zeros(4)
    for _ in range(times):
        reported += in_round(agent, clock, lambda: agent.decide(X[1], arms=OFFERED, floor=0.0)).probabilities
    drawn = 100 * reported  # of 100 draws each, exactly
    if drawn.max() == drawn.sum():  # no chance in it, or so little that no draw shows it
        assert chosen.argmax() == drawn.argmax()
        assert chosen.max() >= 0.997 * many
    else:
        both = np.stack([chosen, drawn])[:, chosen + drawn > 10.0]
        assert stats.chi2_contingency(both).pvalue > LEAST


@pytest.mark.parametrize("oracle", ["TopK", "ShortestPath", "Assignment"])
@pytest.mark.parametrize("name", ["Bandit", "LinTS", "EpsilonGreedy", "UCB1"])
def test_sets_come_as_often_as_they_are_told_to_and_as_choose_has_them(name, oracle):
    agent, found, reported = unsure(name), np.zeros(4), np.zeros(4)
    clock, weights, chosen, times = agent.clock, defaultdict(list), Counter(), 200
    for _ in range(times):
        decision = in_round(
            agent, clock, lambda: agent.decide(X[1], arms=OFFERED, oracle=ORACLES[oracle], draws=5, floor=0.2)
        )
        reported += decision.probabilities
        found[decision.rows] += 1.0
        weights[frozenset(decision.rows.tolist())].append(1.0 / decision.probability)
    assert reported.sum() == pytest.approx(2.0 * times)
    # Marginals: each candidate is in the set as often as reported.
    for row in range(4):
        share = reported[row] / times
        assert abs(found[row] - reported[row]) <= 4.5 * np.sqrt(times * share * (1.0 - share)) + 1e-6
    # Sets: 1 / probability of those that came adds up to the number of decisions, for every set there is.
    for each in weights.values():
        assert abs(sum(each) - times) <= 4.5 * np.sqrt(times * max(each))
    # Without a floor, sets are those of `choose`.
    without = np.zeros(4)
    for _ in range(20):
        without += in_round(
            agent,
            clock,
            lambda: agent.decide(X[1], arms=OFFERED, oracle=ORACLES[oracle], draws=25, floor=0.0),
        ).probabilities
    for _ in range(300):
        rows = in_round(agent, clock, lambda: agent.choose(X[1], arms=OFFERED, oracle=ORACLES[oracle]))
        chosen.update(rows.tolist())
    for row in range(4):
        first, second = chosen[row] / 300, without[row] / 20
        share = (300 * first + 500 * second) / 800
        assert abs(first - second) <= 4.5 * np.sqrt(share * (1.0 - share) * (1 / 300 + 1 / 500)) + 1e-6


@dataclass(eq=False)
class RareArm(BaseAgent):
    """Thinks of the second arm as the better one in a hundredth of its draws."""

    seed: int | None = None

    def _scores(self, candidates):
        return np.array([0.0, self._random.random() - 0.99])

    def _draws(self, candidates, size):
        chance = self._random.random(size) - 0.99
        return ScoreDraws(np.column_stack([np.zeros(size), chance]))

    def _prepared(self, chosen, rewards, *, t):
        return lambda: None


def weighted_mean(floor, decisions=20_000):
    """Inverse propensity estimate of the rare arm's reward, 1, and its standard error."""
    agent = RareArm(seed=5)
    made = agent.decide_many(np.zeros((decisions, 1)), arms=["usual", "rare"], floor=floor)
    weights = np.array([decision.row / decision.probability for decision in made])
    return weights.mean(), weights.std() / np.sqrt(decisions)


def test_a_rare_arm_is_estimated_without_bias_by_logs_with_a_floor():
    estimate, error = weighted_mean(0.01)
    assert estimate == pytest.approx(1.0, abs=4.0 * error)
    assert error < 0.08


def test_a_rare_arm_is_missed_by_logs_without_a_floor():
    """100 draws miss it in 0.99¹⁰⁰ = 37 % of the decisions, whose reported, and true, probability of it is 0."""
    estimate, error = weighted_mean(0.0)
    assert estimate == pytest.approx(1.0 - 0.99**100, abs=4.0 * error)
    assert estimate < 1.0 - 4.0 * error


# The distribution itself


def drawn_from(scores, oracle, *, uniform=0.0, floor=0.0, size=20, seed=0):
    return choices(
        ScoreDraws(np.asarray(scores, float), uniform),
        oracle,
        floor=floor,
        size=size,
        random=np.random.default_rng(seed),
    )


def test_sets_of_k_all_have_the_floor():
    scores = [[4.0, 3.0, 2.0, 1.0, 0.0]]
    reported = drawn_from(scores, TopK(2), floor=0.3)
    generator, seen = np.random.default_rng(1), {}
    for _ in range(3000):
        rows, probability = reported.draw(generator)
        assert seen.setdefault(frozenset(rows.tolist()), probability) == probability
        assert np.diff(np.asarray(scores[0])[rows]) < 0.0  # best first
    assert len(seen) == 10
    assert seen.pop(frozenset({0, 1})) == pytest.approx(0.7 + 0.03)
    assert all(probability == pytest.approx(0.03) for probability in seen.values())
    assert reported.marginals == pytest.approx([0.82, 0.82, 0.12, 0.12, 0.12])


def test_sets_of_other_oracles_have_the_floor_that_random_scores_give_them():
    graph = ShortestPath("aabbc", "bccdd", "a", "d")
    reported = drawn_from([[-1.0, -9.0, -9.0, -1.0, -9.0]], graph, floor=0.5, size=400)
    generator = np.random.default_rng(1)
    drawn = (reported.draw(generator) for _ in range(500))
    seen = {tuple(rows.tolist()): probability for rows, probability in drawn}
    assert set(seen) == {(0, 3), (1, 4), (0, 2, 4)}
    assert sum(seen.values()) == pytest.approx(1.0)
    assert seen[0, 3] > 0.5
    # One vector of random scores, and only one other path can come.
    few = drawn_from([[-1.0, -9.0, -9.0, -1.0, -9.0]], graph, floor=0.5, size=1)
    assert len({tuple(few.draw(generator)[0].tolist()) for _ in range(200)}) <= 2


def test_the_probability_of_one_of_very_many_sets_is_not_zero():
    reported = drawn_from(np.arange(3000.0)[None], TopK(1000), floor=0.5)
    generator = np.random.default_rng(0)
    probabilities = {reported.draw(generator)[1] for _ in range(20)}
    assert min(probabilities) > 0.0
    assert max(probabilities) == pytest.approx(0.5)
    assert reported.marginals.sum() == pytest.approx(1000.0)


def test_equal_scores_of_sets_are_drawn_by_the_oracle():
    reported = drawn_from([[1.0, 1.0, 1.0, 0.0]], TopK(2), size=600)
    assert reported.marginals == pytest.approx([2 / 3, 2 / 3, 2 / 3, 0.0], abs=0.08)
    assert drawn_from([[3.0, 2.0, 1.0]], TopK(2)).marginals.tolist() == [1.0, 1.0, 0.0]


def test_an_oracle_with_chance_of_its_own_is_asked_for_every_draw():
    own = np.random.default_rng(0)

    def any_of_the_best_two(scores):
        return [int(own.choice(np.argsort(-scores)[:2]))]

    reported = drawn_from([[3.0, 2.0, 1.0]], any_of_the_best_two, size=400)
    assert reported.marginals == pytest.approx([0.5, 0.5, 0.0], abs=0.1)


def test_nothing_of_probability_zero_is_drawn():
    reported = drawn_from([[1.0, 0.0, -1.0]], best_arm)
    generator = np.random.default_rng(0)
    assert {int(reported.draw(generator)[0][0]) for _ in range(500)} == {0}
    last = drawn_from([[-1.0, 0.0]], best_arm)

    class High:
        def random(self):
            return np.nextafter(1.0, 0.0)

    assert last.draw(High())[0] == [1]
    assert reported.draw(High())[0] == [0]


@pytest.mark.parametrize("k", [1, 2, 4, 9])
def test_sets_of_many_draws_are_those_of_the_oracle(k):
    """All at once, with draws that have equals among them."""
    generator = np.random.default_rng(k)
    scores = generator.normal(size=(300, 5))
    expected = Counter(frozenset(TopK(k)(each).tolist()) for each in scores)
    reported = drawn_from(scores, TopK(k), size=300)
    for _ in range(50):
        rows, probability = reported.draw(generator)
        if k > 1:
            assert probability == pytest.approx(expected[frozenset(rows.tolist())] / 300)
    shares = sum(np.bincount(TopK(k)(each), minlength=5) for each in scores) / 300
    assert reported.marginals == pytest.approx(shares)
    equal = np.round(scores)
    shares = np.mean([np.bincount(TopK(k)(each, generator), minlength=5) for each in equal], axis=0)
    assert drawn_from(equal, TopK(k), size=300).marginals == pytest.approx(shares, abs=0.12)


def test_scores_that_are_no_numbers_are_refused():
    for oracle in (best_arm, TopK(2)):
        with pytest.raises(InputError, match="the score of candidate 1 is NaN"):
            drawn_from([[1.0, 2.0, 3.0], [0.0, np.nan, 1.0]], oracle)
        with pytest.raises(NoFeasibleChoiceError):
            drawn_from([[1.0, 2.0, 3.0], [-np.inf, -np.inf, -np.inf]], oracle)


def test_probabilities_are_told_by_other_draws_once_these_are_renewed():
    agent = unsure("TETS-leaves")
    clock, told = agent.clock, [agent.probabilities(X[0], arms=OFFERED) for _ in range(2)]
    agent.renew_draws()
    after = agent.probabilities(X[0], arms=OFFERED)
    assert np.array_equal(*told)
    assert not np.array_equal(told[0], after)
    assert np.allclose(told[0], after, atol=0.3)
    assert agent.clock == clock


def test_an_agent_draws_by_the_seed_that_it_is_given_later():
    mine, same, own = (unsure("TETS-leaves") for _ in range(3))
    mine.reseed(5)
    same.reseed(5)
    own.reseed()
    chosen = [[each.choose(X[0], arms=OFFERED) for _ in range(60)] for each in (mine, same, own)]
    assert chosen[0] == chosen[1] != chosen[2]
    with pytest.raises(ParameterError, match="seed"):
        mine.reseed(-1)


def test_an_agent_tells_whether_its_arms_are_numbers():
    named, numbered, without, given = (LinUCB(seed=0) for _ in range(4))
    assert not named.numbered_arms
    named.choose([1.0], arms=["a", "b"])
    numbered.learn([[1.0]], [0.5], arms=[3])
    without.learn([[1.0]], [0.5])
    given.score(Candidates(np.ones((2, 1), np.float32), np.arange(2), Columns.numeric(1)))
    agents = named, numbered, without, given
    assert [agent.numbered_arms for agent in agents] == [False, True, False, True]
