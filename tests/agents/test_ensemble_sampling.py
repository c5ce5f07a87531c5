import numpy as np
import pytest

from treebandit import Candidates, Columns, EnsembleSampling, LinUCB, Uniform, play_round
from treebandit.environments import Classification
from treebandit.errors import NotFittedError, ParameterError
from treebandit.models.ensemble import EnsembleModel, EnsembleSettings

COLUMNS = Columns((0, 3))


def rows_of(n, random, arms=2):
    contexts = np.column_stack([random.normal(3.0, 2.0, n), random.integers(3, size=n)])
    return Candidates(contexts.astype(np.float32), random.integers(arms, size=n), COLUMNS)


def learn(model, rows, rewards, t=1):
    model.prepared(rows, rewards, t=t, random=np.random.default_rng(0))()


def test_members_are_draws_from_the_posterior_of_bayesian_regression():
    random = np.random.default_rng(0)
    rows, rewards = rows_of(50, random, arms=1), random.normal(size=50)
    settings = EnsembleSettings(members=4000, exploration=0.5, ridge=2.0, standardise=False)
    model = EnsembleModel(settings, seed=1)
    learn(model, rows, rewards)
    z = model.encoded(rows.contexts, COLUMNS)
    inverse = np.linalg.inv(2.0 * np.eye(z.shape[1]) + z.T @ z)
    theta = inverse @ z.T @ rewards
    found = model.estimate(rows[:5])
    variance = 0.25 * np.einsum("ni,ij,nj->n", z[:5], inverse, z[:5])
    np.testing.assert_allclose(found.variance, variance, rtol=0.1)
    np.testing.assert_allclose(found.mean, z[:5] @ theta, atol=4 * np.sqrt(variance.max() / 4000))


def test_the_noise_of_a_row_is_always_the_same():
    model = EnsembleModel(EnsembleSettings(members=7), seed=3)
    np.testing.assert_array_equal(model.noise(0, 40)[17:], model.noise(17, 23))
    noise = EnsembleModel(EnsembleSettings(members=30, exploration=2.0), seed=3).noise(0, 2000)
    assert noise.std() == pytest.approx(2.0, rel=0.02)
    assert noise.mean() == pytest.approx(0.0, abs=0.04)


def test_a_row_is_learned_as_in_a_rebuild():
    random = np.random.default_rng(2)
    rows, rewards = rows_of(30, random), random.normal(size=30)
    model = EnsembleModel(EnsembleSettings(standardise=False), seed=0)
    learn(model, rows, rewards)
    fixed = model._rows
    learn(model, rows[:1], rewards[:1])
    z = np.vstack([model.encoded(rows.contexts, COLUMNS), model.encoded(rows.contexts[:1], COLUMNS)])
    assert model._rows is fixed
    labels, targets = (
        np.append(rows.arms, rows.arms[0]),
        np.append(rewards, rewards[0])[:, None] + model.noise(0, 31),
    )
    own, arm = labels == rows.arms[0], model._arms[int(rows.arms[0])]
    np.testing.assert_allclose(arm.inverse, np.linalg.inv(np.eye(z.shape[1]) + z[own].T @ z[own]), atol=1e-10)
    moments = model.prior(int(rows.arms[0]), z.shape[1]) + z[own].T @ targets[own]
    np.testing.assert_allclose(arm.moments, moments, atol=1e-10)


def test_one_member_decides_for_all_candidates():
    random = np.random.default_rng(4)
    model = EnsembleModel(EnsembleSettings(members=3), seed=0)
    learn(model, rows_of(20, random), random.normal(size=20))
    query = rows_of(6, random)
    members = model.scale.mean + model.scale.deviation * model.predictions(query)
    for draw in model.sample(query, 20, random):
        assert np.isclose(members.T, draw).all(axis=1).any()


def test_it_learns_and_an_unseen_arm_is_open():
    regret = {}
    for agent in (EnsembleSampling(seed=0), Uniform(seed=0)):
        environment = Classification("mushroom", seed=0)
        regret[type(agent)] = sum(play_round(agent, environment)[1].regret for _ in range(1500))
    assert regret[EnsembleSampling] < 0.2 * regret[Uniform]
    agent = EnsembleSampling(seed=0)
    with pytest.raises(NotFittedError):
        agent.estimate(np.zeros((1, 2)), ["a"])
    agent.learn(np.zeros((2, 2)), [1.0, 0.0], arms=["a", "a"])
    known, unseen = agent.estimate(np.zeros((2, 2)), arms=["a", "b"]).variance
    assert unseen > known


@pytest.mark.parametrize(
    "wrong",
    [
        {"members": 0},
        {"members": 2.5},
        {"exploration": -1},
        {"ridge": 0},
        {"rebuild": "soon"},
        {"standardise": 2},
    ],
)
def test_bad_arguments_are_refused(wrong):
    with pytest.raises(ParameterError):
        EnsembleSampling(**wrong)


def test_without_noise_it_is_the_ridge_regression():
    random = np.random.default_rng(5)
    rows, rewards = rows_of(200, random), random.normal(size=200)
    ensemble, ridge = EnsembleSampling(exploration=0.0, rebuild="every 1"), LinUCB(exploration=0.0)
    for agent in (ensemble, ridge):
        agent.learn(rows, rewards)
    np.testing.assert_allclose(ensemble.estimate(rows[:9]).mean, ridge.estimate(rows[:9]).mean, atol=0.02)
    assert ensemble.estimate(rows[:9]).variance.max() < 1e-20
