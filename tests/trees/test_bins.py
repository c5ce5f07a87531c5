import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trees.library import tables

from treebandit.errors import ParameterError
from treebandit.trees.bins import Bins
from treebandit.trees.grower import NODE
from treebandit.trees.split_search import ALL_CODES


def one_hot(codes, width):
    return (codes[:, None] == np.arange(width)).astype(np.float32)


def splits_of(bins):
    """Every split of every group: one code of a one-hot one, else a cut with missing values on either side."""
    for group, (width, hot) in enumerate(zip(bins.widths.tolist(), bins.one_hot, strict=True)):
        for low in range(1, width + 1):
            for high in (low + 1,) if hot else (width, ALL_CODES):
                if low < high and not (hot and low == width):
                    node = np.zeros(1, NODE)
                    node["group"], node["low"], node["high"] = group, low, high
                    yield node


@settings(deadline=None, max_examples=60)
@given(tables(), st.integers(2, 9))
def test_codes_and_thresholds_part_the_rows_alike(table, most_bins):
    features = np.hstack([table.features, one_hot(np.arange(len(table.features)) % 4, 3)])
    bins = Bins.fit(features, most_bins, [(features.shape[1] - 3, features.shape[1])])
    codes = bins.encode(features)
    assert (bins.widths[:-1] <= most_bins).all()
    assert bins.widths[-1] == 4
    for node in splits_of(bins):
        columns, thresholds, missing_left = bins.thresholds(node)
        column, code = features[:, columns[0]], codes[:, node["group"][0]]
        right = np.where(np.isnan(column), not missing_left[0], column >= thresholds[0])
        assert np.array_equal(right, (code >= node["low"]) & (code < node["high"]))


def test_bins_of_many_values_are_of_about_equal_weight():
    column = np.random.default_rng(0).standard_exponential((10_000, 1)).astype(np.float32)
    codes = Bins.fit(column, 64).encode(column)[:, 0]
    assert np.bincount(codes).tolist() == pytest.approx([10_000 / 64] * 64, abs=1.01)


def test_every_row_counts_when_columns_are_cut():
    """Cut by every second of 40,000 rows, a column that alternates would be constant, and a rare value lost."""
    column = np.tile([0, 1], 20_000).astype(np.float32)
    column[12_345] = 7
    codes = Bins.fit(column[:, None], 64).encode(column[:, None])[:, 0]
    assert [np.unique(column[codes == code]).tolist() for code in range(3)] == [[0], [1], [7]]


def test_only_columns_that_are_told_so_are_a_group():
    codes = np.arange(60) % 7
    features = np.hstack([one_hot(codes, 6), one_hot(codes % 2, 2), codes[:, None]]).astype(np.float32)
    assert not Bins.fit(features, 64).one_hot.any()
    bins = Bins.fit(features, 64, [(0, 6)])
    assert bins.one_hot.tolist() == [True, False, False, False]
    assert np.array_equal(bins.encode(features)[:, 0], np.where(codes == 6, 0, codes + 1))


def test_a_category_of_more_columns_than_a_byte_has_codes_is_several_groups():
    codes = np.arange(600) % 300
    features = one_hot(codes, 300)
    bins = Bins.fit(features, 64, [(0, 300)])
    first, second = bins.encode(features).T
    assert np.array_equal(first, np.where(codes < 254, codes + 1, 0))
    assert np.array_equal(second, np.where(codes < 254, 0, codes - 253))


@pytest.mark.parametrize("groups", [[(0, 9)], [(2, 1)], [(1, 3), (2, 4)], [(-1, 2)]])
def test_refuses_groups_that_are_no_columns(groups):
    with pytest.raises(ParameterError, match="groups"):
        Bins.fit(np.zeros((5, 4), np.float32), 64, groups)


@pytest.mark.parametrize("row", [[1, 1], [0, 2], [0.5, 0], [0.5, 0.5], [2, -1], [np.nan, 0], [0, -1]])
def test_refuses_a_group_that_is_not_one_hot(row):
    features = np.array([[1, 0], [0, 0], row], np.float32)
    with pytest.raises(ParameterError, match="one-hot"):
        Bins.fit(features, 64, [(0, 2)]).encode(features)
