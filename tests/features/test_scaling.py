import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from treebandit.core import Columns
from treebandit.errors import InputError, SavedFileError
from treebandit.features.scaling import ColumnUnits, Standardiser

X = np.random.default_rng(0).uniform(-1, 1, (200, 1))


def learned(values, batch=1, columns=None):
    """ColumnUnits after learning rows in batches, and all rows as features."""
    columns = columns or Columns.numeric(values.shape[1])
    units = ColumnUnits.none(columns)
    for start in range(0, len(values), batch):
        units = units.learned(values[start : start + batch], columns)
    return units, units.narrow(values, columns)


@pytest.mark.parametrize("batch", [1, 200])
@pytest.mark.parametrize(
    ("scale", "shift"), [(1, 1e6), (1, 1.7e9), (3600, 1.7e9), (1, -1.7e12), (1e-3, 45000.2), (1e9, 1.7e18)]
)
def test_large_columns_of_small_spread_keep_their_digits(batch, scale, shift):
    values = scale * X + shift
    units, features = learned(values, batch)
    assert features.dtype == np.float32
    assert abs(units.offset[0] - shift) <= scale
    given = np.diff(np.sort(values, axis=0), axis=0)
    np.testing.assert_allclose(np.diff(np.sort(features, axis=0), axis=0), given, atol=2e-7 * scale)


@pytest.mark.parametrize("batch", [1, 200])
@pytest.mark.parametrize(("scale", "shift"), [(1, 0), (1, 1e3), (1e30, 0), (1e-3, 0), (40, 40), (1e5, 0)])
def test_columns_of_ordinary_size_or_spread_stay_as_they_are(batch, scale, shift):
    values = np.round(scale * X + shift) if scale == 1e5 else scale * X + shift
    units, features = learned(values, batch)
    assert units.offset[0] == 0.0
    np.testing.assert_array_equal(features, values.astype(np.float32))


@pytest.mark.parametrize("batch", [1, 200])
@pytest.mark.parametrize("scale", [1e-6, 1e-12, 1e-30])
def test_very_small_numbers_get_a_unit_that_is_a_power_of_two(batch, scale):
    units, features = learned(scale * X, batch)
    assert np.log2(units.unit[0]).is_integer()
    assert units.unit[0] == max(2.0**-64, units.unit[0])
    np.testing.assert_array_equal(features, (scale * X / units.unit[0]).astype(np.float32))
    assert np.ptp(features) > (0.5 if scale > 1e-20 else 1e-12)


@pytest.mark.parametrize("fill", [999_999_999.0, 1e10, 2.0**31 - 1, -(2.0**31)])
def test_a_value_that_stands_for_missing_is_no_offset(fill):
    _, features = learned(np.vstack([[[fill]], X]))
    np.testing.assert_array_equal(features[1:], X.astype(np.float32))


def test_an_offset_waits_for_the_first_value():
    values = np.vstack([[[np.nan]] * 100, 1.7e9 + X])
    units, features = learned(values)
    assert units.offset[0] == values[100, 0]
    assert len(np.unique(features[100:])) > 190


def test_rows_to_choose_from_complete_the_offsets_for_the_moment():
    columns = Columns.numeric(1)
    units = ColumnUnits.none(columns)
    completed = units.completed(1.7e9 + X)
    assert len(np.unique(completed.narrow(1.7e9 + X, columns))) > 190
    assert np.isnan(units.offset).all()
    known = units.learned(np.array([[1.7e9 + 0.5]]), columns)
    assert known.completed(X) is known


def test_categories_have_no_offset():
    values = np.full((3, 1), 2.0**24 + 3)
    units, _ = learned(values, columns=Columns((2**25,)))
    assert units.offset[0] == 0.0


@pytest.mark.parametrize("values", [1.0 + 1e-9 * X, 1000 + 1e-7 * X, 1e-70 * X])
def test_values_that_32_bits_cannot_tell_apart_are_refused(values):
    with pytest.raises(InputError, match="column 0 differs only in digits that 32-bit numbers do not have"):
        learned(values)
    if abs(values[0, 0]) > 1e-30:
        assert len(np.unique(learned(values, batch=200)[1])) > 190


def test_a_first_value_that_costs_all_others_their_digits_is_refused():
    values = np.vstack([[[3.7e9]], X])
    with pytest.raises(
        InputError, match="column 0 was 3700000000.0 in the first row learned, and is .* since"
    ):
        learned(values)
    # Fill values among times, and times among fill values, cost nothing.
    for others in (np.where(X > 0, 1.7e9 + 1e5 * X, 0.0), np.zeros_like(X), 1.7e9 + 1e5 * X):
        units, _ = learned(np.vstack([[[1.7e9]], others]))
        assert units.offset[0] == 1.7e9


def test_infinite_and_too_large_numbers_are_refused():
    columns = Columns.numeric(2)
    for value in (np.inf, -1e39, 1e300):
        for rows in (2, 100):
            values = np.zeros((rows, 2))
            values[1, 1] = value
            with pytest.raises(InputError, match="column 1 is infinite in row 1, or too large for 32 bits"):
                ColumnUnits.plain(columns).narrow(values, columns)
    largest = np.full((100, 2), float(np.finfo(np.float32).max))
    assert np.isfinite(ColumnUnits.plain(columns).narrow(largest, columns)).all()


def test_one_row_serves_many():
    columns = Columns.numeric(2)
    shared = ColumnUnits.plain(columns).narrow(np.array([[1.0, np.nan]]), columns, rows=3)
    np.testing.assert_array_equal(shared, np.float32([[1, np.nan]] * 3))


def test_offsets_are_restored_and_checked():
    columns = Columns.numeric(1)
    units, features = learned(1.7e9 + X[:10])
    again = ColumnUnits.restored(units.state(), 1)
    np.testing.assert_array_equal(again.narrow(1.7e9 + X[:10], columns), features)
    np.testing.assert_array_equal(again.learned(1.7e9 + X, columns).offset, units.offset)
    inf, zero = np.full((3, 1), np.inf), np.zeros((3, 1))
    for wrong in ({"numbers": inf}, {"numbers": zero}, {"numbers": [1.0]}, {"equal": np.zeros((1, 1), int)}):
        with pytest.raises(SavedFileError, match="numbers|equal|units"):
            ColumnUnits.restored({**units.state(), **wrong}, 1)


NUMBERS = arrays(
    np.float64,
    st.tuples(st.integers(1, 20), st.just(3)),
    elements=st.floats(-1e6, 1e6, width=32) | st.just(np.nan),
)


@settings(deadline=None)
@given(NUMBERS)
def test_columns_are_standardised_by_their_moments(rows):
    standardiser = Standardiser.of(rows, np.array([True, True, False]))
    for place in range(2):
        values = rows[:, place][~np.isnan(rows[:, place])]
        middle = np.median(values) if len(values) else 0.0
        outlying = 64 * 1.4826 * np.median(np.abs(values - middle)) < values.std() if len(values) else False
        if len(values) and not outlying:
            np.testing.assert_allclose(standardiser.mean[place], values.mean(), atol=1e-6)
            spread = values.std() if values.std() > 1e-12 * abs(values.mean()) else 1.0
            np.testing.assert_allclose(standardiser.deviation[place], spread, rtol=1e-6, atol=1e-6)
    scaled = standardiser(rows)
    assert np.isfinite(scaled).all()
    np.testing.assert_array_equal(scaled[:, 2], np.nan_to_num(rows[:, 2]))
    np.testing.assert_allclose(
        (scaled * standardiser.deviation + standardiser.mean)[~np.isnan(rows)],
        rows[~np.isnan(rows)],
        atol=1e-6,
    )


@pytest.mark.parametrize("outlier", [1e3, 1e9, -3e38])
def test_an_outlier_does_not_make_all_other_values_one(outlier):
    rows = np.random.default_rng(0).random((100, 2))
    rows[30, 0] = outlier
    deviation = Standardiser.of(rows, np.array([True, True])).deviation
    assert 0.2 < deviation[0] < 1.0
    # A column of two values, one of them rare, is no column with outliers.
    rare = np.zeros((100, 1))
    rare[7] = 1e6
    assert Standardiser.of(rare, np.array([True])).deviation == pytest.approx(rare.std())


def test_a_standardiser_is_restored():
    rows = np.array([[1e9, 5.0], [1e9 + 1, 5.0], [np.nan, 5.0]])
    seen = Standardiser.of(rows, np.array([True, True]))
    np.testing.assert_allclose(seen(rows), [[-1, 0], [1, 0], [0, 0]])
    again = Standardiser.restored(seen.state(), 2)
    np.testing.assert_array_equal(again(rows), seen(rows))
    for wrong in (np.full((2, 2), np.nan), -np.ones((2, 2)), np.ones((3, 2))):
        with pytest.raises(SavedFileError, match="moments|deviations"):
            Standardiser.restored({"moments": wrong}, 2)


def test_columns_added_later_have_units_of_their_own():
    columns = Columns((0, 0, 0, 3))
    units = ColumnUnits.none(Columns.numeric(2))
    values = np.column_stack([np.arange(70.0), 1.7e9 + np.arange(70.0)])
    units = units.learned(values, Columns.numeric(2))
    assert units.fixed
    wide = units.widened(columns)
    assert (len(wide), wide.fixed) == (4, False)
    np.testing.assert_array_equal(wide.offset, [*units.offset, np.nan, 0.0])
    row = np.array([[3.0, 1.7e9 + 5.0, 1.8e9 + 7.0, 2.0]])
    after = wide.learned(row, columns)
    np.testing.assert_array_equal(after.narrow(row, columns), [[3.0, 5.0, 0.0, 2.0]])
    # Only the new column is watched: what the others may have in common was found when they were new.
    close = np.tile([3.0, 1.7e9, 1.0, 2.0], (20, 1))
    close[:, 1:3] += 1e-9 * np.arange(20)[:, None]
    for line in close[:8]:
        wide = wide.learned(line[None], columns)
    with pytest.raises(InputError, match="column 2 differs only in digits"):
        wide.learned(close[8:], columns)
