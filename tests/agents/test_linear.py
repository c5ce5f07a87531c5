import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from treebandit import Candidates, Columns, LinTS, LinUCB, check_agent, play_round
from treebandit.environments import Classification
from treebandit.errors import InputError, NotFittedError, ParameterError

MIXED = Columns((0, 3, 0, 2))


def mixed_rows(n, random, columns=MIXED):
    numbers = random.normal([5.0, 0.0, -300.0, 0.0], [2.0, 1.0, 80.0, 1.0], (n, 4))
    for place, count in enumerate(columns.categories):
        if count:
            numbers[:, place] = random.integers(count, size=n)
    return numbers.astype(np.float32)


def test_linucb_adds_its_bonus_to_the_mean():
    random = np.random.default_rng(0)
    agent, query = LinUCB(exploration=0.7), Candidates(mixed_rows(3, random), np.arange(3), MIXED)
    agent.learn(query, [1.0, 0.0, 0.5])
    estimate = agent.estimate(query)
    np.testing.assert_allclose(agent.score(query), estimate.mean + 0.7 * np.sqrt(estimate.variance))


def test_a_column_cannot_change_its_kind():
    agent = LinUCB()
    agent.learn(Candidates(np.zeros((1, 2), np.float32), np.zeros(1, np.intp), Columns((0, 2))), [1.0])
    before = agent.score(Candidates(np.ones((1, 2), np.float32), np.zeros(1, np.intp), Columns((0, 2))))
    with pytest.raises(InputError, match="column 0 held numbers and now holds categories"):
        agent.learn(Candidates(np.zeros((1, 2), np.float32), np.zeros(1, np.intp), Columns((3, 2))), [1.0])
    after = agent.score(Candidates(np.ones((1, 2), np.float32), np.zeros(1, np.intp), Columns((0, 2))))
    np.testing.assert_array_equal(before, after)


def test_the_scale_of_a_column_does_not_matter():
    random = np.random.default_rng(0)
    contexts, arms, rewards = random.normal(size=(200, 3)), random.integers(2, size=200), random.random(200)
    agents = [LinUCB(), LinUCB()]
    for agent, factor, shift in zip(agents, (1.0, 1000.0), (0.0, 2000.0), strict=True):
        for t in range(200):
            agent.learn(contexts[t : t + 1] * factor + shift, rewards[t : t + 1], arms[t : t + 1])
    plain = agents[0].estimate(contexts[:5], arms[:5]).mean
    other = agents[1].estimate(contexts[:5] * 1000 + 2000, arms[:5]).mean
    np.testing.assert_allclose(plain, other, rtol=1e-3, atol=1e-4)


def test_shared_coefficients_teach_arms_not_met():
    random = np.random.default_rng(0)
    contexts = random.normal(size=(300, 3)).astype(np.float32)
    agent = LinUCB(shared=True)
    agent.learn(contexts, 2.0 * contexts[:, 0], arms=random.integers(10, size=300))
    low, high = agent.estimate(np.array([[-1.0, 0.0, 0.0], [1.0, 0.0, 0.0]]), [77, 78]).mean
    assert high - low == pytest.approx(4.0, rel=0.1)
    disjoint = LinUCB()
    disjoint.learn(contexts, 2.0 * contexts[:, 0], arms=random.integers(10, size=300))
    mean = disjoint.estimate(contexts[:2], [77, 78]).mean
    np.testing.assert_allclose(mean, (2.0 * contexts[:, 0]).mean(), atol=1e-6)


@pytest.mark.parametrize("kind", [LinUCB, LinTS])
@pytest.mark.parametrize("shared", [False, True])
def test_contract(kind, shared):
    check_agent(kind(shared=shared, seed=0))


def test_contexts_without_arms_share_one_model():
    agent = LinTS(exploration=0.01, seed=0)
    random = np.random.default_rng(0)
    for _ in range(200):
        contexts = random.normal(size=(4, 3))
        row = agent.choose(contexts)
        agent.learn(contexts[row], contexts[row, 1])
    assert (agent.estimate(np.eye(3)).mean.argmax()) == 1


@pytest.mark.parametrize(
    "wrong", [{"exploration": -1.0}, {"ridge": 0.0}, {"exploration": np.nan}, {"ridge": np.inf}]
)
def test_wrong_arguments_are_named(wrong):
    with pytest.raises(ParameterError, match=next(iter(wrong))):
        LinUCB(**wrong)


def test_no_estimate_before_the_first_row():
    with pytest.raises(NotFittedError):
        LinUCB().estimate(np.zeros((1, 2)), [0])


def played(agent, rounds=150, scale=1.0, shift=0.0):
    """Choices in a problem whose rewards are scale · r + shift."""
    random, choices = np.random.default_rng(3), []
    for _ in range(rounds):
        context = random.normal(size=3)
        reward = context * [1.0, -1.0, 0.5] > random.normal(size=3)
        choice = int(agent.choose(context, arms=[0, 1, 2])[0])
        agent.learn(context, scale * float(reward[choice]) + shift, arms=[choice])
        choices.append(choice)
    return choices


@pytest.mark.parametrize("kind", [LinUCB, LinTS])
@pytest.mark.parametrize("shared", [False, True])
@given(power=st.integers(-100, 100))
@settings(max_examples=6, deadline=None)
def test_choices_do_not_depend_on_the_scale_of_rewards(kind, shared, power):
    plain, scaled = (kind(shared=shared, seed=0) for _ in range(2))
    assert played(plain) == played(scaled, scale=2.0**power)


@pytest.mark.parametrize("kind", [LinUCB, LinTS])
@pytest.mark.parametrize(("scale", "shift"), [(1e-12, 0.0), (1e30, 0.0), (1.0, -1.0), (1.0, 1e9), (3.7, 1e3)])
def test_choices_do_not_depend_on_the_unit_of_rewards(kind, scale, shift):
    # Rounding may turn a tie; from there on two agents learn different rows.
    plain, other = played(kind(seed=0)), played(kind(seed=0), scale=scale, shift=shift)
    assert plain[:40] == other[:40]
    assert np.mean(np.array(plain) == other) > 0.8


def test_rewards_as_they_are_follow_the_paper():
    contexts = np.random.default_rng(0).normal(size=(50, 2))
    agent = LinUCB(exploration=0.1, standardise=False)
    agent.learn(contexts, np.full(50, 1000.0), arms=[0] * 50)
    estimate = agent.estimate(contexts[:1], arms=[1])
    assert estimate.mean == [0.0]
    assert agent.estimate(contexts[:1], arms=[0]).mean == pytest.approx(1000.0, rel=0.05)


@pytest.mark.parametrize("kind", [LinUCB, LinTS])
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("value", [1e5, 1e9, 1e20, 3e38])
def test_learned_outliers_do_not_make_an_agent_useless(kind, shared, value):
    def right(outliers):
        agent, random, count = kind(shared=shared, seed=0), np.random.default_rng(1), 0
        for t in range(700):
            if t == 60 and outliers:
                agent.learn(np.full((3, 4), value), [1.0, 0.0, 1.0], arms=[0, 1, 2])
            context = random.normal(size=4)
            choice = int(agent.choose(context, arms=[0, 1, 2])[0])
            best = 0 if shared else int(context[:3].argmax())
            agent.learn(context, float(choice == best), arms=[choice])
            count += t >= 400 and choice == best
        return count

    assert right(outliers=True) > 0.85 * right(outliers=False)


@pytest.mark.parametrize("kind", [LinUCB, LinTS])
@pytest.mark.parametrize(
    "outliers", [{0: 1e3}, {10: 1e3}, {15: 1e5}, {3: 20.0}, {0: -1e30}, {0: 1e5, 12: -1e5}]
)
def test_outliers_among_the_first_rows_are_got_over(kind, outliers):
    agent, random, right = kind(seed=0), np.random.default_rng(1), 0
    for t in range(400):
        context = outliers.get(t, random.random())
        choice = int(agent.choose([context], arms=[0, 1])[0])
        agent.learn([context], float(choice == (context > 0.5)), arms=[choice])
        right += t >= 200 and choice == (context > 0.5)
    assert right > 180


@pytest.mark.parametrize("shared", [False, True])
def test_a_column_begun_anew_counts_as_missing_in_the_rows_before(shared):
    random = np.random.default_rng(2)
    first, later = random.normal(size=(20, 3)), random.normal(size=(60, 3))
    first[:, 1] = 1e6 * random.normal(size=20)
    before, after = random.normal(size=20), later @ [1.0, 2.0, -1.0]
    agent, unaware = LinUCB(shared=shared, seed=0), LinUCB(shared=shared, seed=0)
    agent.learn(first, before, arms=[0] * 20)
    unaware.learn(np.where([False, True, False], np.nan, first), before, arms=[0] * 20)
    for row, reward in zip(later, after, strict=True):
        for each in (agent, unaware):
            each.learn(row, reward, arms=[0])
    estimates = [each.estimate(later[:10], arms=[0] * 10).mean for each in (agent, unaware)]
    np.testing.assert_allclose(*estimates, atol=0.5)
    np.testing.assert_allclose(estimates[0], after[:10], atol=1.5)


@pytest.mark.parametrize("change", ["narrower", "rare flag"])
def test_a_column_that_varies_less_later_is_not_forgotten(change):
    """What the first 600 rows taught of it still holds."""
    random, agent, right = np.random.default_rng(3), LinUCB(seed=0), 0
    for t in range(1500):
        if change == "narrower":
            x = (100.0 if t < 600 else 1.0) * random.normal()
        else:
            x = float(random.random() < (0.5 if t < 600 else 0.02))
        context, means = [x, random.normal()], np.array([0.0, 2.0 * x - 0.7, 0.5 - x])
        choice = int(agent.choose(context, arms=[0, 1, 2])[0])
        agent.learn(context, means[choice] + 0.1 * random.normal(), arms=[choice])
        right += t >= 1000 and means[choice] > means.max() - 0.3
    assert right > 400


def test_a_wide_table_costs_what_its_rows_have():
    random = np.random.default_rng(0)
    contexts, columns = random.integers(0, 100, (1500, 8)).astype(np.float32), Columns((100,) * 8)
    agent = LinUCB(seed=0)
    agent.learn(Candidates(contexts[:100], np.arange(100) % 8, columns), np.ones(100))
    started = time.process_time()
    for t in range(100, 1500):
        rows = Candidates(np.repeat(contexts[t : t + 1], 8, axis=0), np.arange(8), columns)
        choice = agent.choose(rows)
        agent.learn(rows[choice], [float(choice[0] == t % 8)])
    # 10,000 rounds took 213 s when every arm's whole matrix was read for a score.
    assert time.process_time() - started < 5.0


def test_mushrooms_are_learned_in_a_thousand_rounds():
    environment, agent = Classification("mushroom", seed=0), LinUCB(exploration=0.1, seed=0)
    assert sum(play_round(agent, environment)[1].regret for _ in range(1000)) < 60


@pytest.mark.parametrize("agent", [LinUCB, LinTS])
@pytest.mark.parametrize("features", ["raw", "unit"])
def test_plain_rows_keep_the_contracts_but_for_units(agent, features):
    check_agent(agent(features=features, standardise=False, seed=0), skip=["reward_units"])


def test_plain_rows_need_regressions_per_arm_on_rewards_as_they_are():
    with pytest.raises(ParameterError, match="standardise=False"):
        LinUCB(features="unit")
    with pytest.raises(ParameterError, match="shared=False"):
        LinUCB(features="raw", standardise=False, shared=True)
    with pytest.raises(ParameterError, match="features is 'other'"):
        LinUCB(features="other")


def test_what_thousands_of_untried_arms_have_of_their_own_is_drawn_apart():
    agent, arms = LinTS(shared=True, seed=0), list(range(3000))
    for reward in (1.0, 0.0, 1.0, 0.0):
        agent.learn([0.1, 0.2], reward, arms=0)
    samples = agent.model.sample(
        Candidates(np.float32([[0.1, 0.2]] * 3000), np.array(arms), agent._inputs.columns),
        200,
        np.random.default_rng(0),
    )
    # Those never tried share the intercept and the slopes, and have an effect of variance 1 / λ of their own.
    alone = samples[:, 1:] - samples[:, 1:].mean(axis=1, keepdims=True)
    assert alone.std() == pytest.approx(agent.model._noise, rel=0.05)
    assert samples[:, 0].std() < samples[:, 1].std()
