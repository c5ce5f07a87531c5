import math

import numpy as np
import pytest

from treebandit import Bandit
from treebandit.errors import SavedFileError
from treebandit.models.kernel_scores import KernelScores, _scale

D = 20


def rings(n, seed=0):
    """Rows whose reward depends on their length alone, which no slope sees; arm 7 pays the opposite of arm 0."""
    random = np.random.default_rng(seed)
    contexts = random.normal(size=(n, D)).astype(np.float32)
    contexts *= random.choice([0.5, 1.5], size=(n, 1)).astype(np.float32)
    arms = random.integers(0, 2, n) * 7
    far = np.linalg.norm(contexts, axis=1) > np.sqrt(D)
    return contexts, arms, np.where(far == (arms == 0), 1.0, -1.0)


def fitted(*rows):
    return KernelScores.fit(*rows, random=np.random.default_rng(0))


def slow_scale(contexts):
    """Each column in standard deviations, less where it has heavy tails; a row's length is 1 on average."""
    centred = contexts.astype(float) - contexts.astype(float).mean(axis=0)
    scaled = centred / centred.std(axis=0)
    scaled /= np.sqrt(np.maximum((scaled**4).mean(axis=0) / 3.0, 1.0))
    scaled /= math.sqrt((scaled**2).sum(axis=1).mean())
    return np.clip(scaled, -5.0 / math.sqrt(D), 5.0 / math.sqrt(D))


def slow_kernel(one, other):
    kernel = np.empty((len(one), len(other)))
    for i, x in enumerate(one):
        for j, y in enumerate(other):
            product, length = x @ y, math.sqrt(x @ x) * math.sqrt(y @ y)
            angle = math.acos(min(max(product / length, -1.0), 1.0))
            kernel[i, j] = 1.0 / 64.0 + product * (1.0 - angle / math.pi)
    return kernel


def test_it_sees_what_slopes_do_not():
    scores = fitted(*rings(3000))
    contexts, arms, targets = rings(500, seed=1)
    assert np.mean(np.sign(scores(contexts, arms)) == targets) > 0.9


def test_with_few_rows_it_is_kernel_ridge_regression():
    contexts, arms, targets = rings(300)
    scores, z = fitted(contexts, arms, targets), slow_scale(contexts)
    level = targets.mean()
    for arm in (0, 7):
        own = arms == arm
        weights = np.linalg.solve(
            slow_kernel(z[own], z[own]) + 0.07 * np.eye(own.sum()), targets[own] - level
        )
        expected = level + slow_kernel(z, z[own]) @ weights
        np.testing.assert_allclose(scores(contexts, np.full(300, arm)), expected, atol=2e-3)


def test_with_many_rows_landmarks_come_close_to_it():
    contexts, arms, targets = rings(1200)
    scores, z = fitted(contexts, arms, targets), slow_scale(contexts)
    own, asked = arms == 7, slice(0, 50)
    weights = np.linalg.solve(slow_kernel(z[own], z[own]) + 0.07 * np.eye(own.sum()), targets[own])
    expected = slow_kernel(z[asked], z[own]) @ weights
    assert np.corrcoef(scores(contexts[asked], np.full(50, 7)), expected)[0, 1] > 0.95


def test_leverage_falls_with_rows_like_it():
    contexts, arms, targets = rings(400)
    own = arms == 0
    scores = fitted(contexts[own], arms[own], targets[own])
    _, known = scores.with_leverage(contexts[own], arms[own])
    _, unknown = scores.with_leverage(contexts[own], np.full(own.sum(), 99))
    assert (known < 0.5 * unknown).all()
    assert (known >= 0.0).all()


def kinds(n, count, spread=0.0):
    """Rows of so many kinds, equal but for `spread`, and the kind of each; with kinds enough, no two are of one."""
    random = np.random.default_rng(1)
    kind = random.integers(0, count, n) if count < n else np.arange(n)
    contexts = random.normal(size=(count, D))[kind] + spread * random.normal(size=(n, D))
    return contexts.astype(np.float32), kind


@pytest.mark.parametrize("n", [300, 1200])
@pytest.mark.parametrize(("count", "spread"), [(5, 0.0), (20, 0.0), (20, 1e-6), (20, 1e-4), (10_000, 0.0)])
def test_leverage_is_that_of_64_bits_where_rows_repeat_nearly_repeat_and_differ(n, count, spread):
    contexts, kind = kinds(n, count, spread)
    arms = np.arange(n) % 2 * 7
    scores = fitted(contexts, arms, (kind % 2).astype(float))
    z = slow_scale(contexts)
    _, first = np.unique(kind, return_index=True)
    # Any rows of different kinds tell the same, unless there are more kinds than are looked at: then the first drawn.
    told = first if count <= 20 else np.random.default_rng(0).permutation(n)[:32]
    prior, known = slow_kernel(z[told], z[told]), slow_kernel(z[arms == 7], z[told])
    inverse = np.linalg.inv(0.07 * prior + known.T @ known)
    kernel = slow_kernel(z[:50], z[told])
    expected = np.einsum("ij,jk,ik->i", kernel, inverse, kernel)
    _, leverage = scores.with_leverage(contexts[:50], np.full(50, 7))
    np.testing.assert_allclose(leverage, expected, rtol=0.02)


def test_kinds_of_rows_that_came_equally_often_are_known_equally_well():
    contexts, kind = kinds(2000, 20)
    random = np.random.default_rng(2)
    arms = np.arange(2000) % 2
    rewards = (random.random(2000) < np.where(kind % 2 == arms, 0.8, 0.2)).astype(float)
    agent = Bandit(seed=0)
    for start in range(0, 2000, 100):
        rows = slice(start, start + 100)
        agent.learn(contexts[rows], rewards[rows], arms=arms[rows])
    agent.model.kernel_errors[:2] = 0.8, 1.0  # the kernel's weight, so that the test can tell
    _, first = np.unique(kind, return_index=True)
    variance = agent.estimate(contexts[first], arms=np.zeros(20, np.intp)).variance
    assert variance.max() < 2.0 * variance.min()
    assert 0.03 < np.sqrt(variance.mean()) < 0.12  # about 50 rewards each, of deviation 0.4


@pytest.mark.parametrize(("factor", "offset"), [(1000.0, 0.0), (0.001, 5.0)])
def test_the_unit_of_a_column_does_not_matter(factor, offset):
    contexts, arms, targets = rings(300)
    other = contexts.copy()
    other[:, 3] = factor * other[:, 3] + offset
    np.testing.assert_allclose(
        fitted(other, arms, targets)(other, arms), fitted(contexts, arms, targets)(contexts, arms), atol=5e-3
    )


def test_missing_constant_equal_and_new_things_do_no_harm():
    contexts, arms, targets = rings(300)
    contexts[:, 0] = 3.0
    contexts[:, 1] = np.nan
    contexts[::3, 2] = np.nan
    contexts[150:] = contexts[:150]
    scores = fitted(contexts, arms, targets)
    assert np.isfinite(scores(contexts, arms)).all()
    contexts[:, :2] = 1e30
    assert np.isfinite(scores(contexts, arms)).all()
    np.testing.assert_array_equal(scores(contexts, np.full(300, 99)), targets.mean())
    nothing = fitted(np.zeros((50, D), np.float32), np.zeros(50, np.intp), np.ones(50))
    assert np.isfinite(nothing.with_leverage(contexts, arms)).all()


def test_rows_that_are_equal_score_as_each_would_alone():
    contexts, arms, targets = rings(300)
    scores = fitted(contexts, arms, targets)
    same = np.repeat(contexts[:1], 3, axis=0)
    alone = [scores(same[:1], np.array([arm]))[0] for arm in (0, 7, 99)]
    np.testing.assert_allclose(scores(same, np.array([0, 7, 99])), alone, atol=1e-6)


def test_what_was_decided_is_learned_with_the_same_score():
    contexts, arms, targets = rings(300)
    scores, fresh = fitted(contexts, arms, targets), fitted(contexts, arms, targets)
    offered = np.array([7, 0, 99])
    for row in (contexts[:1], contexts[1:2]):
        decided, leverage = scores.with_leverage(np.repeat(row, 3, axis=0), offered)
        for place in range(3):
            arm = offered[place : place + 1]
            assert scores(row, arm) == decided[place] == fresh(row, arm)
            np.testing.assert_allclose(fresh.with_leverage(row, arm)[1], leverage[place], atol=1e-6)


def test_many_rows_are_scored_in_blocks():
    contexts, arms, targets = rings(1200)
    scores = fitted(contexts, arms, targets)
    many, leverage = scores.with_leverage(contexts, arms)
    # Products of matrices are rounded by their shape, differently on each processor: for a row that is a landmark the
    # cosine 1 is off by 1e-7, and so the angle by the root of that.
    np.testing.assert_allclose(many[600:], scores(contexts[600:], arms[600:]), atol=1e-3)
    np.testing.assert_allclose(leverage[:5], scores.with_leverage(contexts[:5], arms[:5])[1], atol=1e-5)
    assert scores(contexts[:0], arms[:0]).shape == (0,)


def test_it_is_saved_and_forged_files_are_refused():
    contexts, arms, targets = rings(100)
    scores = fitted(contexts, arms, targets)
    again = KernelScores.restored(scores.state(), D)
    np.testing.assert_array_equal(again.with_leverage(contexts, arms), scores.with_leverage(contexts, arms))
    for name, value in {
        "scale": np.zeros((2, D), np.float32),
        "landmarks": np.zeros((513, D), np.float32),
        "weights": np.full((3, 100), np.nan),
        "roots": np.zeros((3, 32, 31), np.float32),
        "arms": np.zeros(2, np.intp),
        "rewards": np.zeros(3),
    }.items():
        with pytest.raises(SavedFileError):
            KernelScores.restored({**scores.state(), name: value}, D)


def test_what_numbers_add_is_the_score():
    contexts, arms, targets = rings(300)
    scores = fitted(contexts, arms, targets)
    mean, columns = scores.attribution(contexts, arms)
    constant = scores(contexts, arms) - mean - columns.sum(axis=1)
    for arm in np.unique(arms):
        assert np.ptp(constant[arms == arm]) < 1e-3


def test_the_level_and_the_unit_of_the_rewards_do_not_matter():
    contexts, arms, targets = rings(300)
    scores, other = fitted(contexts, arms, targets), fitted(contexts, arms, 1000.0 + 10.0 * targets)
    np.testing.assert_allclose(other(contexts, arms), 1000.0 + 10.0 * scores(contexts, arms), atol=1e-3)
    assert other.reward_sd == pytest.approx(10.0 * scores.reward_sd)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("size", [1e-45, 1e-40, 1e-38])
def test_the_scale_of_the_smallest_numbers_is_finite(size):
    values = (np.random.default_rng(0).normal(size=(60, 2)) * [size, 1.0]).astype(np.float32)
    assert np.isfinite(_scale(values)).all()
