import numpy as np
import pytest

from treebandit.datasets import load
from treebandit.datasets.generated import GENERATED
from treebandit.environments import Classification
from treebandit.errors import DataError

SHAPES = {"letters": (10_000, 16, 26), "mixed": (6_000, 10, 5), "sparse": (10_000, 50, 4)}


@pytest.mark.parametrize("name", GENERATED)
def test_tables_are_what_they_say(name):
    table = load(name)
    assert (*table.contexts.shape, len(table.classes)) == SHAPES[name]
    assert set(table.labels.tolist()) == set(range(len(table.classes)))
    assert table.contexts.dtype == np.float32


def test_each_time_the_same():
    random = np.random.default_rng(7)
    np.testing.assert_array_equal(GENERATED["letters"](random).contexts, load("letters").contexts)


def test_mixed_has_categories_and_missing_numbers():
    table = load("mixed")
    assert table.columns.categories[:4] == (5, 12, 30, 3)
    codes, numbers = table.contexts[:, :4], table.contexts[:, 4:]
    assert (codes == np.round(codes)).all()
    assert (codes.max(0) + 1).tolist() == [5, 12, 30, 3]
    assert 0.08 < np.isnan(numbers).mean() < 0.12


def test_five_columns_of_sparse_tell_its_classes_apart():
    table = load("sparse")
    means = np.stack([table.contexts[table.labels == label].mean(0) for label in range(4)])
    apart = np.ptp(means, axis=0)
    assert (apart > 0.5).sum() >= 4
    assert (np.sort(apart)[:45] < 0.2).all()


def test_a_study_can_name_them():
    environment = Classification("letters", seed=0)
    assert (environment.horizon, len(environment.observe().candidates)) == (10_000, 26)


def test_a_name_that_is_neither_is_told_of_both():
    with pytest.raises(DataError, match="adult.*letters"):
        load("letter")
