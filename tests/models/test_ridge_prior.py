import numpy as np
import pytest
from models.ridge_reference import MIXED, design, mixed_rows, taught

from treebandit import Bandit, Candidates, Columns, load
from treebandit.errors import SavedFileError
from treebandit.models.linear_scores import LinearEncoder
from treebandit.models.ridge import Ridge
from treebandit.models.ridge_prior import evidence_of, learned_prior, lost_levels, saved_ridge


def by_hand(model, contexts, arms, rewards, ridge):
    """The log density of all rewards, as normal numbers whose covariance is written out row by row."""
    z, errors = design(model, contexts), rewards - rewards.mean()
    squares = determinant = 0.0
    for arm in np.unique(arms):
        own = arms == arm
        covariance = np.eye(own.sum()) + z[own] @ z[own].T / ridge
        squares += errors[own] @ np.linalg.solve(covariance, errors[own])
        determinant += np.linalg.slogdet(covariance)[1]
    return -0.5 * (len(rewards) * np.log(squares / (errors @ errors)) + determinant)


@pytest.mark.parametrize("ridge", [1.0, 16.0, 500.0])
@pytest.mark.parametrize("batch", [1, 300])
def test_the_evidence_is_the_density_of_all_rewards(ridge, batch):
    model, contexts, arms, rewards, _ = taught(Ridge, 300, batch)
    expected = by_hand(model, contexts, arms, rewards, ridge)
    evidence, explained = evidence_of(model.parts, ridge)
    assert evidence == pytest.approx(expected, rel=1e-6)
    assert 0.0 < explained < 1.0


@pytest.mark.parametrize("ridge", [16.0, 12.7])
def test_solved_anew_is_as_learned_at_once_with_that_prior_to_the_last_bit(ridge):
    random = np.random.default_rng(0)
    rows = Candidates(mixed_rows(400, random), random.integers(3, size=400), MIXED)
    rewards = random.normal(size=400)
    model, expected = Ridge(), Ridge(ridge)
    model.learn(rows, rewards)
    expected.learn(rows, rewards)
    assert model.solve_anew(ridge)
    assert model.ridge == ridge
    for part, wanted in zip(model.parts, expected.parts, strict=True):
        np.testing.assert_array_equal(part, wanted)


def test_few_rows_of_an_arm_are_not_solved_anew():
    random = np.random.default_rng(0)
    model = Ridge()
    model.learn(Candidates(mixed_rows(60, random), (np.arange(60) > 0).astype(np.intp), MIXED), np.ones(60))
    before = [part.copy() for part in model.parts]
    assert not model.solve_anew(4.0)
    assert model.ridge == 1.0
    for part, wanted in zip(model.parts, before, strict=True):
        np.testing.assert_array_equal(part, wanted)


def learned_from(slope, noise, *, n=2000, most=1e6, seed=0):
    random = np.random.default_rng(seed)
    contexts, arms = mixed_rows(n, random), random.integers(5, size=n)
    slopes = slope * random.normal(size=(5, 2))
    numbers = (contexts[:, [0, 2]] - [5.0, -300.0]) / [2.0, 80.0]
    rewards = (numbers * slopes[arms]).sum(1) + noise * random.normal(size=n)
    model = Ridge()
    model.learn(Candidates(contexts, arms, MIXED), rewards)
    return learned_prior(model.parts, most)


def test_the_prior_is_weak_where_slopes_are_plain_and_strong_under_noise():
    assert learned_from(1.0, 0.1).ridge == 1.0
    assert learned_from(0.1, 1.0).ridge >= 64.0
    assert learned_from(0.03, 1.0).ridge > learned_from(0.3, 1.0).ridge


def test_it_tells_noise_and_the_greatest_evidence_of_any_prior():
    assert not learned_from(1.0, 0.1).noisy
    free, bounded = learned_from(0.1, 1.0), learned_from(0.1, 1.0, most=4.0)
    assert free.noisy
    assert bounded.ridge == 4.0 < free.ridge
    assert bounded.evidence == pytest.approx(free.evidence, abs=1.0)
    assert learned_from(1.0, 0.1, most=1.0) == (1.0, 0.0, False)


@pytest.mark.parametrize("most", [0.5, 1.0, 3.0, 50.0])
def test_the_prior_is_no_stronger_than_allowed(most):
    assert learned_from(0.0, 1.0, most=most).ridge == max(most, 1.0)


@pytest.mark.parametrize("rewards", [np.zeros(3), np.ones(3)])
def test_equal_rewards_tell_nothing(rewards):
    model = Ridge()
    model.learn(Candidates(mixed_rows(3, np.random.default_rng(0)), np.zeros(3, np.intp), MIXED), rewards)
    assert learned_prior(model.parts, 100.0) == (1.0, 0.0, False)


def noisy_encoder():
    random = np.random.default_rng(0)
    contexts, arms = random.normal(size=(2000, 3)).astype(np.float32), random.integers(4, size=2000)
    rows = Candidates(contexts, arms, Columns.numeric(3))
    rewards = (random.random(2000) < 0.05).astype(float)
    return LinearEncoder.fit(rows, rewards, arm_encoding="auto", random=random)[0], rows


def test_regressions_of_clicks_have_a_learned_prior_and_keep_it_when_saved():
    encoder, rows = noisy_encoder()
    assert encoder.ridge.ridge == 2000 / 20
    again = LinearEncoder.from_state(encoder.state())
    assert again.ridge.ridge == encoder.ridge.ridge
    np.testing.assert_array_equal(again(rows.contexts, rows.arms), encoder(rows.contexts, rows.arms))


def test_the_bonus_of_a_learned_prior_is_the_deviation_under_it():
    encoder, _ = noisy_encoder()
    assert encoder.bonus_of(0.3) == pytest.approx(0.3)
    encoder.ridge.ridge = 1.0
    assert encoder.bonus_of(0.3) == pytest.approx(0.3 * np.sqrt(2.0 / 4.0))


@pytest.mark.parametrize(("arms", "share"), [(1, 1.0), (2, 1.0), (4, 0.5), (50, 0.04)])
def test_rows_of_a_prior_count_the_more_arms_have_taught_it(arms, share):
    encoder, _ = noisy_encoder()
    encoder._arms = arms
    few, width, left_out, counted = encoder.few_rows
    prior = 4.0 * (encoder.ridge.ridge - 1.0) / 4.0
    assert (few, width) == (0.25 * 2000 / arms, 4.0)
    assert (left_out, counted) == pytest.approx((share * prior, (1.0 - share) * prior))


@pytest.mark.parametrize("failures", [0, 5])
def test_an_arm_that_comes_later_is_tried_however_strong_the_prior(failures, tmp_path):
    random, agent, rates = np.random.default_rng(0), Bandit(seed=0), np.linspace(0.01, 0.03, 20)
    contexts, arms = random.normal(size=(10_000, 4)), random.integers(20, size=10_000)
    rewards = (random.random(10_000) < rates[arms]) * 1.0
    arms[-failures - 1 : -1], rewards[-failures - 1 : -1] = 20, 0.0
    agent.learn(contexts, rewards, arms=arms)
    assert agent.model.encoder.ridge.ridge > 100.0
    agent.save(tmp_path / "agent")
    again, tried = load(tmp_path / "agent"), 0
    for t in range(200):
        choices = [each.choose(contexts[t], arms=np.arange(21))[0] for each in (agent, again)]
        assert choices[0] == choices[1]
        tried += choices[0] == 20
        for each in (agent, again):
            each.learn(contexts[t], 0.0, arms=choices[:1])
    assert 20 < tried < 180


def test_what_a_prior_takes_from_a_level_is_what_is_left_of_the_rewards():
    model, contexts, arms, rewards, _ = taught(Ridge, 300, ridge=40.0)
    rows = Candidates(contexts, arms, MIXED)
    left = rewards - model.predict(rows)[0]
    labels, places = np.unique(arms, return_inverse=True)
    expected = np.bincount(places, left) / (np.bincount(places) + 10.0)
    np.testing.assert_allclose(lost_levels(model, labels), expected, atol=1e-8)
    np.testing.assert_allclose(lost_levels(model, np.array([99])), 0.0, atol=1e-12)
    assert not lost_levels(Ridge(), labels).any()


def test_an_arm_that_comes_later_is_learned_however_strong_the_prior():
    random, agent = np.random.default_rng(0), Bandit(seed=0)
    contexts, arms = random.normal(size=(6000, 4)), random.integers(10, size=6000)
    agent.learn(contexts, random.normal(size=6000), arms=arms)
    assert agent.model.encoder.ridge.ridge > 100.0
    agent.learn(contexts[:30], np.full(30, 4.0), arms=[10] * 30)
    estimate, explanation = (ask(contexts[50], arms=[0, 10]) for ask in (agent.estimate, agent.explain))
    assert estimate.mean[1] > 2.5
    np.testing.assert_allclose(explanation.mean, estimate.mean)
    assert explanation.contributions[1, explanation.parts.index("(arm)")] > 2.0


@pytest.mark.parametrize("forged", [0.5, np.nan, np.inf, -3.0, 2.0**60])
def test_a_forged_prior_is_refused(forged):
    state = noisy_encoder()[0].ridge.state()
    state["numbers"] = state["numbers"].copy()
    state["numbers"][0] = forged
    with pytest.raises(SavedFileError):
        saved_ridge(state)


def test_regressions_without_rows_have_the_prior_of_the_start():
    assert saved_ridge({"columns": None}) == 1.0
