"""Estimators: unbiased where they shall be, and equal to each other where the formulas meet."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from treebandit.errors import ParameterError
from treebandit.evaluation import ESTIMATORS, Sample, Tuning, contributions
from treebandit.evaluation.estimators import shrinkage_dr, switch_dr

numbers = st.integers(1, 60).flatmap(
    lambda n: st.tuples(
        st.just(n),
        st.integers(0, 2**31),
        st.floats(0.001, 1.0),
    )
)


def made(n, seed, least):
    random = np.random.default_rng(seed)
    weight = random.random(n) / random.uniform(least, 1, n)
    return Sample(random.normal(size=n), weight, random.normal(size=n), random.normal(size=n))


@settings(max_examples=60, deadline=None)
@given(numbers)
def test_formulas_meet(case):
    sample = made(*case)
    w, r, q, v = sample.weight, sample.reward, sample.chosen, sample.value
    estimate = {name: contributions(name, sample).mean() for name in ESTIMATORS}
    assert estimate["ips"] == pytest.approx((w * r).mean())
    assert estimate["snips"] == pytest.approx((w * r).sum() / w.sum())
    assert estimate["dm"] == pytest.approx(v.mean())
    assert estimate["dr"] == pytest.approx((v + w * (r - q)).mean())
    assert estimate["sndr"] == pytest.approx(v.mean() + (w * (r - q)).sum() / w.sum())
    largest = float(w.max())
    assert contributions("clipped-ips", sample, Tuning(clip=largest)) == pytest.approx(w * r)
    assert switch_dr(r, w, q, v, threshold=largest) == pytest.approx(v + w * (r - q))
    assert switch_dr(r, w, q, v, threshold=-1) == pytest.approx(v)
    assert shrinkage_dr(r, w, q, v, shrinkage=0) == pytest.approx(v)
    assert shrinkage_dr(r, w, q, v, shrinkage=np.inf) == pytest.approx(v + w * (r - q))
    zeros = np.zeros_like(q)
    assert contributions("dr", Sample(r, w, zeros, zeros)) == pytest.approx(w * r)


def test_errors_of_self_normalised_estimators_are_those_of_their_influence():
    random = np.random.default_rng(0)
    spread, errors = [], []
    for _ in range(400):
        sample = made(500, int(random.integers(2**31)), 0.2)
        values = contributions("snips", Sample(sample.reward + 3, sample.weight))
        spread.append(values.mean())
        errors.append(values.std(ddof=1) / np.sqrt(len(values)))
    assert np.mean(errors) == pytest.approx(np.std(spread), rel=0.15)


def test_weights_of_zero_give_nothing_to_normalise():
    values = contributions("snips", Sample(np.ones(3), np.zeros(3)))
    assert np.isnan(values).all()


def test_tuning_is_set_by_the_number_of_decisions_where_none_is_given():
    assert Tuning().resolved(400) == Tuning(20.0, 20.0, 400.0)
    with pytest.raises(ParameterError, match="clip is -1"):
        Tuning(clip=-1)


@pytest.mark.parametrize("name", ["dr", "dm", "switch-dr"])
def test_estimators_that_need_predictions_say_so(name):
    with pytest.raises(ParameterError, match="needs predictions of a reward model"):
        contributions(name, Sample(np.ones(3), np.ones(3)))


def test_unknown_names_are_told():
    with pytest.raises(ParameterError, match="estimator 'magic' is not known; give some of ips"):
        contributions("magic", Sample(np.ones(3), np.ones(3)))
