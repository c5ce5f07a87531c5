"""Evidence that errors go with features, against the formula in numpy, and whether it can be believed."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from treebandit.models.error_slopes import rows_since_change, slope_evidence

RANDOM = np.random.default_rng


def reference(contexts, errors, variance, lengths):
    """By the formula, with dense matrices."""
    mean, deviation = np.nanmean(contexts, axis=0, dtype=float), np.nanstd(contexts, axis=0, dtype=float)
    scaled = (contexts.astype(float) - mean) / np.where(deviation > 0, deviation, np.inf)
    z = np.column_stack([np.ones(len(errors)), np.clip(np.nan_to_num(scaled), -5, 5)])
    found = []
    for n in lengths:
        mine, missed = z[-n:], errors[-n:]
        weights = (missed**2 + 2 * max(variance, 0.25)) / 3
        precision = 16.0 * np.eye(z.shape[1]) + (mine * weights[:, None]).T @ mine
        moment = mine.T @ missed
        spread = np.linalg.slogdet(precision / 16.0)[1]
        found.append((0.5 * moment @ np.linalg.solve(precision, moment) - 0.5 * spread, n))
    return max(found)


@settings(max_examples=60)
@given(st.integers(0, 10**6), st.integers(1, 8), st.floats(0.01, 4.0))
def test_the_evidence_is_that_of_the_formula(seed, width, variance):
    random = RANDOM(seed)
    contexts = (random.standard_t(2, size=(90, width)) * 10.0 ** random.integers(-3, 4, width)).astype(
        np.float32
    )
    contexts[random.random(contexts.shape) < 0.1] = np.nan
    contexts[:, random.integers(width)] = 7.0
    errors = random.standard_t(3, size=90)
    lengths = np.array([16, 32, 45])
    evidence, count = slope_evidence(contexts, errors, variance, lengths)
    expected, rows = reference(contexts, errors, variance, lengths)
    assert evidence == pytest.approx(expected, rel=1e-6, abs=1e-6)
    assert count == rows


@pytest.mark.parametrize("noise", ["normal", "clicks", "heavy"])
def test_it_is_an_e_value_whatever_the_distribution_of_errors(noise):
    """If errors have mean 0, its expectation is at most 1."""
    random, values = RANDOM(0), []
    draw = {
        "normal": lambda: random.normal(size=64),
        "clicks": lambda: ((random.random(64) < 0.02) - 0.02) / 0.14,
        "heavy": lambda: random.standard_t(5, size=64) * 0.6**0.5,
    }[noise]
    for _ in range(4000):
        contexts = random.normal(size=(64, 3)).astype(np.float32)
        values.append(np.exp(slope_evidence(contexts, draw(), 1.0, np.array([64]))[0]))
    assert np.mean(values) < 1.0
    assert np.mean(np.array(values) > 20.0) < 0.05


def rows_of(seed=0, n=256, changed=64, before=0.0, noise=0.5, step=1.0):
    """Features, and errors whose slope is `before` and, in the newest rows, greater by `step`."""
    random = RANDOM(seed)
    contexts = random.normal(size=(n, 4)).astype(np.float32)
    slope = before + step * (np.arange(n) >= n - changed)
    return contexts, noise * random.normal(size=n) + slope * contexts[:, 1]


def found(contexts, errors, delta=1e-3):
    return rows_since_change(contexts, errors, float(np.mean(errors**2)), delta)


@pytest.mark.parametrize("seed", range(5))
def test_a_slope_that_is_new_is_found_with_its_rows(seed):
    assert 48 <= found(*rows_of(seed)) <= 96
    assert not found(*rows_of(seed, changed=0))


@pytest.mark.parametrize("before", [0.2, 0.5, 1.0])
def test_a_slope_that_was_there_before_is_no_change(before):
    assert sum(found(*rows_of(seed, before=before, step=0.0)) > 0 for seed in range(100)) <= 3


def test_errors_that_are_smaller_than_usual_are_no_change():
    contexts, errors = rows_of(step=0.6)
    assert found(contexts, errors)
    errors[:192:10] = 4.0
    assert not found(contexts, errors)


def test_few_rows_and_small_errors_tell_nothing():
    contexts, errors = rows_of(noise=0.0, step=0.05)
    assert not found(contexts, errors)
    assert not found(contexts[:20], 100.0 * errors[-20:])
    assert not rows_since_change(contexts[:0], errors[:0], 1.0, 1e-3)
