import numpy as np
import pytest

from treebandit.errors import SavedFileError
from treebandit.models.fourier import FourierScores

D = 20


def rings(n, seed=0):
    """Rows whose reward depends on their length alone, which no slope sees; arm 1 pays the opposite of arm 0."""
    random = np.random.default_rng(seed)
    contexts = random.normal(size=(n, D)).astype(np.float32)
    contexts *= random.choice([0.5, 1.5], size=(n, 1)).astype(np.float32)
    arms = random.integers(0, 2, n) * 7
    far = np.linalg.norm(contexts, axis=1) > np.sqrt(D)
    return contexts, arms, np.where(far == (arms == 0), 1.0, -1.0)


def fitted(*rows):
    return FourierScores.fit(*rows, random=np.random.default_rng(0))


def test_it_sees_what_slopes_do_not():
    scores = fitted(*rings(2000))
    contexts, arms, targets = rings(500, seed=1)
    assert np.mean(np.sign(scores(contexts, arms)) == targets) > 0.95


def test_it_is_the_ridge_regression_on_its_features():
    contexts, arms, targets = rings(300)
    scores = fitted(contexts, arms, targets)
    z = scores._transformed(contexts).astype(float)
    np.testing.assert_allclose(np.square(z[:, 1:]).mean(), 1.0, rtol=0.05)
    own = arms == 7
    theta = np.linalg.solve(z[own].T @ z[own] + 30.0 * np.eye(z.shape[1]), z[own].T @ targets[own])
    np.testing.assert_allclose(scores(contexts[own], arms[own]), z[own] @ theta, atol=1e-3)


def test_features_give_a_gaussian_kernel_of_the_median_distance():
    contexts = np.random.default_rng(0).normal(size=(400, D)).astype(np.float32)
    scores = fitted(contexts, np.zeros(400, np.intp), np.zeros(400))
    z = scores._transformed(contexts)[:, 1:]
    near = np.square(contexts[:200] - contexts[200:]).sum(axis=1)
    kernel = (z[:200] * z[200:]).mean(axis=1)
    np.testing.assert_allclose(kernel, np.exp(-near / (2.0 * np.median(near))), atol=0.15)


@pytest.mark.parametrize(("factor", "offset"), [(1000.0, 0.0), (0.001, 5.0)])
def test_the_unit_of_a_column_does_not_matter(factor, offset):
    contexts, arms, targets = rings(300)
    other = contexts.copy()
    other[:, 3] = factor * other[:, 3] + offset
    np.testing.assert_allclose(
        fitted(other, arms, targets)(other, arms), fitted(contexts, arms, targets)(contexts, arms), atol=2e-3
    )


def test_missing_constant_and_new_things_do_no_harm():
    contexts, arms, targets = rings(300)
    contexts[:, 0] = 3.0
    contexts[:, 1] = np.nan
    contexts[::3, 2] = np.nan
    scores = fitted(contexts, arms, targets)
    assert np.isfinite(scores(contexts, arms)).all()
    contexts[:, :2] = 1e30
    assert np.isfinite(scores(contexts, arms)).all()
    np.testing.assert_array_equal(scores(contexts, np.full(300, 99)), 0.0)


def test_rows_that_are_equal_score_as_each_would_alone():
    contexts, arms, targets = rings(300)
    scores = fitted(contexts, arms, targets)
    same = np.repeat(contexts[:1], 3, axis=0)
    alone = [scores(same[:1], np.array([arm]))[0] for arm in (0, 7, 99)]
    np.testing.assert_allclose(scores(same, np.array([0, 7, 99])), alone, atol=1e-6)


def test_it_is_saved_and_forged_files_are_refused():
    contexts, arms, targets = rings(100)
    scores = fitted(contexts, arms, targets)
    again = FourierScores.restored(scores.state(), D)
    np.testing.assert_array_equal(again(contexts, arms), scores(contexts, arms))
    for name, value in {
        "key": -1,
        "scale": np.zeros((2, D + 1)),
        "theta": np.full((3, 10), np.nan),
        "arms": np.zeros(2, np.intp),
    }.items():
        with pytest.raises(SavedFileError):
            FourierScores.restored({**scores.state(), name: value}, D)
    with pytest.raises(SavedFileError):
        FourierScores.restored({**scores.state(), "theta": np.zeros((3, 1))}, D)
