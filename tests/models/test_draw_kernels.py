"""How often each candidate is the best, against numpy; and when that is not enough to know."""

import numpy as np
import pytest

from treebandit.models.draw_kernels import count_best


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("shape", [(2, 2), (100, 10), (7, 300)])
def test_counts_are_those_of_argmax(shape, order):
    scores = np.asarray(np.random.default_rng(3).normal(size=shape), order=order)
    scores[0, 1] = np.inf
    counts = np.zeros(shape[1])
    assert count_best(scores, counts)
    np.testing.assert_array_equal(counts, np.bincount(scores.argmax(axis=1), minlength=shape[1]))


@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize("value", [-np.inf, np.nan])
def test_what_may_not_be_chosen_is_for_others_to_tell(value, place):
    scores = np.array([[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]])
    scores[1, place] = value
    assert not count_best(scores, np.zeros(3))


def test_equals_share_a_draw_elsewhere():
    assert not count_best(np.array([[0.0, 1.0, 1.0]]), np.zeros(3))
    assert not count_best(np.array([[np.inf, 1.0, np.inf]]), np.zeros(3))
    counts = np.zeros(3)
    assert count_best(np.array([[0.5, 0.5, 1.0]]), counts)
    assert counts.tolist() == [0.0, 0.0, 1.0]
