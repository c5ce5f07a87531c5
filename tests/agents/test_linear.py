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


def slow_rows(seen, contexts, columns=MIXED):
    """(1, numbers scaled by all rows seen, one-hot categories), written out."""
    parts = [np.ones((len(contexts), 1))]
    for place, count in enumerate(columns.categories):
        column = contexts[:, place].astype(np.float64)
        if count:
            parts.append(np.eye(count)[column.astype(int)])
        else:
            past = seen[:, place].astype(np.float64)
            parts.append(((column - past.mean()) / past.std())[:, None])
    return np.hstack(parts)


def slow_disjoint(rows, arms, rewards, query, query_arms, ridge):
    means, variances = [], []
    for row, arm in zip(query, query_arms, strict=True):
        mine = rows[arms == arm]
        gram = ridge * np.eye(rows.shape[1]) + mine.T @ mine
        means.append(row @ np.linalg.solve(gram, mine.T @ rewards[arms == arm]))
        variances.append(row @ np.linalg.solve(gram, row))
    return np.array(means), np.array(variances)


def slow_shared(rows, arms, rewards, query, query_arms, ridge, labels):
    """The same model with the levels as plain columns."""
    wide = np.hstack([rows, arms[:, None] == labels])
    asked = np.hstack([query, query_arms[:, None] == labels])
    gram = ridge * np.eye(wide.shape[1]) + wide.T @ wide
    return asked @ np.linalg.solve(gram, wide.T @ rewards), np.sum(
        asked * np.linalg.solve(gram, asked.T).T, axis=1
    )


def rescale_now(agent):
    """Bring the scale up to date, as the next large enough batch would."""
    agent._model.rescale(*agent._scaling.renew())


@pytest.mark.parametrize("ridge", [1.0, 0.01])
@pytest.mark.parametrize("shared", [False, True])
def test_thousands_of_rank_one_updates_equal_one_direct_solve(ridge, shared):
    random = np.random.default_rng(0)
    contexts, arms = mixed_rows(3000, random), random.integers(3, size=3000) * 7
    rewards = (0.1 * contexts[:, 0] + (contexts[:, 1] == arms // 7) + random.normal(size=3000)).astype(
        np.float32
    )
    agent = LinUCB(ridge=ridge, shared=shared)
    for t in range(3000):
        agent.learn(Candidates(contexts[t : t + 1], arms[t : t + 1], MIXED), rewards[t : t + 1])
    rescale_now(agent)
    # Again one row at a time after the last inversion, so that the updates themselves are under test.
    more, more_arms = mixed_rows(300, random), random.integers(3, size=300) * 7
    scale = contexts.copy()
    for t in range(300):
        agent._model.learn(agent._scaling(more[t : t + 1]), more_arms[t : t + 1], np.ones(1))
    all_arms, all_rewards = np.concatenate([arms, more_arms]), np.concatenate([rewards, np.ones(300)])
    rows = slow_rows(scale, np.concatenate([contexts, more]))
    query, query_arms = mixed_rows(20, random), np.repeat([0, 7, 14, 99], 5)
    asked = slow_rows(scale, query)
    if shared:
        labels = np.array([0, 7, 14, 99])
        mean, variance = slow_shared(rows, all_arms, all_rewards, asked, query_arms, ridge, labels)
    else:
        mean, variance = slow_disjoint(rows, all_arms, all_rewards, asked, query_arms, ridge)
    estimate = agent.estimate(Candidates(query, query_arms, MIXED))
    np.testing.assert_allclose(estimate.mean, mean, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(estimate.variance, variance, rtol=1e-6, atol=1e-10)
    np.testing.assert_array_equal(estimate.count[query_arms == 99], 0)


@pytest.mark.parametrize("shared", [False, True])
@given(sizes=st.lists(st.integers(1, 30), min_size=1, max_size=6), seed=st.integers(0, 1000))
@settings(max_examples=25, deadline=None)
def test_batches_teach_what_single_rows_teach(shared, sizes, seed):
    random = np.random.default_rng(seed)
    single, batched = LinUCB(shared=shared), LinUCB(shared=shared)
    for size in sizes:
        contexts, arms, rewards = mixed_rows(size, random), random.integers(4, size=size), random.random(size)
        batched.learn(Candidates(contexts, arms, MIXED), rewards)
        for t in range(size):
            single.learn(Candidates(contexts[t : t + 1], arms[t : t + 1], MIXED), rewards[t : t + 1])
    rescale_now(single)
    rescale_now(batched)
    query = Candidates(mixed_rows(5, random), np.arange(5), MIXED)
    ours, theirs = single.estimate(query), batched.estimate(query)
    np.testing.assert_allclose(ours.mean, theirs.mean, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(ours.variance, theirs.variance, rtol=1e-6, atol=1e-8)
    np.testing.assert_array_equal(ours.count, theirs.count)


def test_linucb_adds_its_bonus_to_the_mean():
    random = np.random.default_rng(0)
    agent, query = LinUCB(exploration=0.7), Candidates(mixed_rows(3, random), np.arange(3), MIXED)
    agent.learn(query, [1.0, 0.0, 0.5])
    estimate = agent.estimate(query)
    np.testing.assert_allclose(agent.score(query), estimate.mean + 0.7 * np.sqrt(estimate.variance))


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("arms", [[0, 1, 5], [0, 0, 1], [5, 5, 5]])
def test_lints_draws_have_the_posterior_mean_and_covariance(shared, arms):
    random = np.random.default_rng(1)
    agent = LinTS(exploration=0.5, ridge=0.5, shared=shared, seed=3)
    contexts = mixed_rows(40, random)
    agent.learn(Candidates(contexts, random.integers(2, size=40), MIXED), contexts[:, 1])
    query = Candidates(mixed_rows(3, random), np.array(arms), MIXED)
    draws = np.array([agent.score(query) for _ in range(5000)])
    estimate = agent.estimate(query)
    deviation = 0.5 * np.sqrt(estimate.variance)
    np.testing.assert_allclose(draws.mean(axis=0), estimate.mean, atol=0.08 * deviation.max())
    np.testing.assert_allclose(draws.std(axis=0), deviation, rtol=0.05)
    joint = np.cov(draws.T) / np.outer(deviation, deviation)
    for i, j in ((0, 1), (0, 2), (1, 2)):
        rows = agent._scaling(query.contexts)
        if shared:
            weight = agent._model._counts[agent._model._slots.find(query.arms)] + 0.5
            centred = rows - agent._model._sums[agent._model._slots.find(query.arms)] / weight[:, None]
            expected = centred[i] @ agent._model._inverse @ centred[j] + (arms[i] == arms[j]) / weight[i]
        else:
            slot = agent._model._slots.find(query.arms)[i]
            expected = (arms[i] == arms[j]) * rows[i] @ agent._model._inverses[slot] @ rows[j]
        assert joint[i, j] == pytest.approx(0.25 * expected / deviation[i] / deviation[j], abs=0.07)


@pytest.mark.parametrize("shared", [False, True])
def test_new_categories_widen_the_model_and_leave_the_others_alone(shared):
    random = np.random.default_rng(0)
    narrow, wide = Columns((0, 2, 0, 2)), Columns((0, 4, 0, 2))
    agent, known = LinUCB(shared=shared), LinUCB(shared=shared)
    first = mixed_rows(30, random, narrow)
    arms, rewards = random.integers(2, size=30), random.random(30)
    agent.learn(Candidates(first, arms, narrow), rewards)
    known.learn(Candidates(first, arms, wide), rewards)
    second = mixed_rows(10, random, wide)
    for one in (agent, known):
        one.learn(Candidates(second, arms[:10], wide), rewards[:10])
    query = Candidates(mixed_rows(6, random, wide), np.arange(6) % 3, wide)
    np.testing.assert_allclose(agent.score(query), known.score(query), rtol=1e-9)


def test_a_column_cannot_change_its_kind():
    agent = LinUCB()
    agent.learn(Candidates(np.zeros((1, 2), np.float32), np.zeros(1, np.intp), Columns((0, 2))), [1.0])
    before = agent.score(Candidates(np.ones((1, 2), np.float32), np.zeros(1, np.intp), Columns((0, 2))))
    with pytest.raises(InputError, match="column 0 held numbers and now holds categories"):
        agent.learn(Candidates(np.zeros((1, 2), np.float32), np.zeros(1, np.intp), Columns((3, 2))), [1.0])
    after = agent.score(Candidates(np.ones((1, 2), np.float32), np.zeros(1, np.intp), Columns((0, 2))))
    np.testing.assert_array_equal(before, after)


def test_missing_numbers_count_as_the_mean():
    random = np.random.default_rng(0)
    contexts = mixed_rows(50, random)
    agent = LinUCB()
    agent.learn(Candidates(contexts, np.zeros(50, np.intp), MIXED), random.random(50))
    with_gap, with_mean = contexts[:1].copy(), contexts[:1].copy()
    with_gap[0, 0] = np.nan
    with_mean[0, 0] = contexts[:, 0].mean()
    gap, mean = (
        agent.estimate(Candidates(rows, np.zeros(1, np.intp), MIXED)) for rows in (with_gap, with_mean)
    )
    np.testing.assert_allclose(gap.mean, mean.mean, rtol=1e-5)
    all_missing = np.full((1, 4), np.nan, np.float32)
    assert np.isfinite(agent.score(Candidates(all_missing, np.zeros(1, np.intp), MIXED))).all()


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


def test_thousands_of_arms_take_room_only_once_met():
    agent = LinUCB(seed=0)
    arms = np.arange(5651)
    contexts = np.random.default_rng(0).random((5651, 12), np.float32)
    columns = Columns.numeric(12)
    agent.learn(Candidates(contexts[:50], arms[:50], columns), np.ones(50))
    assert sum(array.nbytes for array in agent._model._arrays()) < 1e6
    for start in range(0, 5651, 300):
        rows = slice(start, start + 300)
        agent.learn(Candidates(contexts[rows], arms[rows], columns), np.ones(len(arms[rows])))
    assert sum(array.nbytes for array in agent._model._arrays()) < 30e6
    scores = agent.score(Candidates(contexts, arms, columns))
    some = np.array([0, 17, 5650])
    np.testing.assert_allclose(scores[some], agent.score(Candidates(contexts[some], arms[some], columns)))


def test_shared_coefficients_teach_arms_not_met():
    random = np.random.default_rng(0)
    contexts = random.normal(size=(300, 3)).astype(np.float32)
    agent = LinUCB(shared=True)
    agent.learn(contexts, 2.0 * contexts[:, 0], arms=random.integers(10, size=300))
    low, high = agent.estimate(np.array([[-1.0, 0.0, 0.0], [1.0, 0.0, 0.0]]), [77, 78]).mean
    assert high - low == pytest.approx(4.0, rel=0.1)
    disjoint = LinUCB()
    disjoint.learn(contexts, 2.0 * contexts[:, 0], arms=random.integers(10, size=300))
    np.testing.assert_array_equal(disjoint.estimate(contexts[:2], [77, 78]).mean, 0.0)


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


def test_mushrooms_are_learned_in_a_thousand_rounds():
    environment, agent = Classification("mushroom", seed=0), LinUCB(exploration=0.1, seed=0)
    assert sum(play_round(agent, environment)[1].regret for _ in range(1000)) < 60
