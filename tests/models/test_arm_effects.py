import numpy as np
import pytest

from treebandit.errors import SavedFileError
from treebandit.models.arm_effects import ArmEffects

ARMS = 40


def made_rows(*, between=1.0, within=0.5, rows=20, seed=0, relative=False):
    """Arms, predictions and rewards; each arm pays its own effect besides."""
    random = np.random.default_rng(seed)
    arms = np.repeat(np.arange(ARMS) * 3, rows)
    effects = between * random.normal(size=ARMS)
    predicted = random.uniform(-30.0, -1.0, len(arms))
    size = -predicted if relative else 1.0
    rewards = predicted + size * (effects[arms // 3] + within * random.normal(size=len(arms)))
    return arms, predicted, rewards, effects


def test_effects_are_found_and_shrunk():
    arms, predicted, rewards, truth = made_rows()
    effects = ArmEffects.fit(arms, predicted, rewards)
    labels = np.arange(ARMS) * 3
    mean, variance = effects.estimate(labels, np.full(ARMS, -10.0))
    residuals = (rewards - predicted).reshape(ARMS, -1).mean(axis=1)
    shares = mean / residuals
    assert ((shares > 0.9) & (shares < 1.0)).all()
    np.testing.assert_allclose(mean, truth, atol=0.5)
    np.testing.assert_allclose(variance, 0.5**2 / 20, rtol=0.5)


def test_an_arm_without_rows_has_the_variance_of_all_arms():
    effects = ArmEffects.fit(*made_rows()[:3])
    mean, variance = effects.estimate(np.array([1, 10_000]), np.full(2, -10.0))
    np.testing.assert_array_equal(mean, 0.0)
    np.testing.assert_allclose(variance, 1.0, rtol=0.5)


def test_arms_that_differ_by_chance_only_have_hardly_an_effect():
    variances = [
        ArmEffects.fit(*made_rows(between=0.0, within=1.0, seed=seed)[:3]).variances for seed in range(20)
    ]
    assert np.mean([between / within for between, within in variances]) < 0.02
    assert any(between == 0.0 for between, _ in variances)


def test_few_arms_have_no_effect():
    arms, predicted, rewards, _ = made_rows()
    few = arms < 9
    assert not ArmEffects.fit(arms[few], predicted[few], rewards[few]).active


def test_effects_grow_with_the_prediction_where_residuals_do():
    arms, predicted, rewards, truth = made_rows(between=0.3, within=0.1, relative=True)
    effects = ArmEffects.fit(arms, predicted, rewards)
    labels = np.arange(ARMS) * 3
    near, far = (effects.estimate(labels, np.full(ARMS, place))[0] for place in (-5.0, -20.0))
    np.testing.assert_allclose(far / near, 4.0, rtol=0.15)
    np.testing.assert_allclose(far, 20.0 * truth, atol=1.5)


@pytest.mark.parametrize(("factor", "offset"), [(60.0, 0.0), (1.0, 1000.0), (0.01, -7.0)])
def test_nothing_depends_on_the_unit_of_rewards(factor, offset):
    arms, predicted, rewards, _ = made_rows(relative=True)
    labels, asked = np.array([0, 3, 7]), np.array([-5.0, -9.0, -2.0])
    plain = ArmEffects.fit(arms, predicted, rewards)
    other = ArmEffects.fit(arms, factor * predicted + offset, factor * rewards + offset)
    mean, variance = plain.estimate(labels, asked)
    found = other.estimate(labels, factor * asked + offset)
    np.testing.assert_allclose(found[0], factor * mean, rtol=1e-6)
    np.testing.assert_allclose(found[1], factor**2 * variance, rtol=1e-6)


def test_draws_are_joint_and_have_the_moments_of_the_estimate():
    effects = ArmEffects.fit(*made_rows()[:3])
    arms, predicted = np.array([0, 3, 0, 999]), np.full(4, -10.0)
    drawn = effects.sample(arms, predicted, 20_000, np.random.default_rng(0), scale=1.0)
    mean, variance = effects.estimate(arms, predicted)
    np.testing.assert_allclose(drawn.mean(axis=0), mean, atol=0.03)
    np.testing.assert_allclose(drawn.var(axis=0), variance, rtol=0.05)
    np.testing.assert_array_equal(drawn[:, 0], drawn[:, 2])
    assert abs(np.corrcoef(drawn[:, 0], drawn[:, 1])[0, 1]) < 0.03
    still = effects.sample(arms, predicted, 2, np.random.default_rng(0), scale=0.0)
    np.testing.assert_allclose(still, np.tile(mean, (2, 1)))


def test_draws_belong_to_arms_in_whatever_order_they_come():
    random = np.random.default_rng(0)
    arms = random.integers(0, 50, 500)
    effects = ArmEffects.fit(arms, np.ones(500), 1.0 + 0.01 * arms + random.normal(size=500))
    rising, order = np.arange(50), random.permutation(50)
    first = effects.sample(rising, np.ones(50), 3, np.random.default_rng(1), scale=1.0)
    other = effects.sample(order, np.ones(50), 3, np.random.default_rng(1), scale=1.0)
    np.testing.assert_array_equal(first[:, order], other)


def test_arms_never_tried_share_a_draw_with_their_group():
    effects = ArmEffects.fit(*made_rows()[:3])
    arms, predicted = np.array([0, 3, 1000, 1001, 1002, 1000]), np.full(6, -10.0)
    groups = np.array([7, 7, 7, 7, 8, 8])  # that of an arm's first row counts
    drawn = effects.sample(arms, predicted, 20_000, np.random.default_rng(0), scale=1.0, groups=groups)
    mean, variance = effects.estimate(arms, predicted)
    np.testing.assert_allclose(drawn.mean(axis=0), mean, atol=0.03)
    np.testing.assert_allclose(drawn.var(axis=0), variance, rtol=0.05)
    np.testing.assert_array_equal(drawn[:, 2], drawn[:, 3])
    np.testing.assert_array_equal(drawn[:, 2], drawn[:, 5])
    others = np.corrcoef(drawn[:, [0, 1, 2, 4]].T) - np.eye(4)
    assert (abs(others) < 0.03).all()
    order = np.array([4, 2, 1, 0, 3])
    again = effects.sample(
        arms[order], predicted[order], 20_000, np.random.default_rng(0), scale=1.0, groups=groups[order]
    )
    np.testing.assert_array_equal(again, drawn[:, order])


def test_rows_change_their_arm_at_once_and_once_only():
    arms, predicted, rewards, _ = made_rows()
    effects = ArmEffects.fit(arms, predicted, rewards)
    asked = np.array([0, 500])
    before = effects.estimate(asked, np.zeros(2))
    rows = np.array([0, 500, 0])
    update = effects.prepared_update(rows, np.full(3, -10.0), np.full(3, -2.0))
    np.testing.assert_array_equal(effects.estimate(asked, np.zeros(2))[0], before[0])
    update()
    once = effects.estimate(asked, np.zeros(2))
    update()  # may be repeated
    np.testing.assert_array_equal(effects.estimate(asked, np.zeros(2)), once)
    assert (once[0] > before[0]).all()
    assert (once[1] < before[1]).all()
    assert effects.first[0] == 1.0


def test_new_arms_that_were_predicted_badly_widen_the_variance():
    arms, predicted, rewards, _ = made_rows(between=0.0)
    effects = ArmEffects.fit(arms, predicted, rewards)
    new = np.arange(1000, 1030)
    effects.prepared_update(new, np.full(30, -10.0), np.full(30, -10.0) + 3.0 * np.tile([-1.0, 1.0], 15))()
    again = ArmEffects.fit(arms, predicted, rewards, first=effects.first)
    variance = again.estimate(np.array([-1]), np.full(1, -10.0))[1]
    np.testing.assert_allclose(variance, 9.0, rtol=0.1)


@pytest.mark.parametrize("rows", [2, 20])
def test_arms_held_out_tell_what_trees_have_learned_of_the_others(rows):
    arms, predicted, rewards, effects = made_rows(rows=rows)
    learned = predicted + effects[arms // 3]  # as of trees that see the arm
    unseen = arms, predicted, rewards
    plain = ArmEffects.fit(arms, learned, rewards).variances[0]
    held_out = ArmEffects.fit(arms, learned, rewards, unseen=unseen)
    variance = held_out.estimate(np.array([-1]), np.full(1, -10.0))[1]
    np.testing.assert_allclose(variance, np.mean(effects**2), rtol=0.3)
    few, enough = (
        ArmEffects.fit(arms, learned, rewards, unseen=unseen, first=np.array([n, 0.0])) for n in (15.0, 16.0)
    )
    assert few.unseen[0] == held_out.unseen[0] > 10.0 * plain
    assert enough.unseen[0] == 0.0
    known = np.array([0, 3]), np.full(2, -10.0)
    np.testing.assert_array_equal(held_out.estimate(*known), enough.estimate(*known))
    held_out.prepared_update(np.array([500]), np.array([-10.0]), np.array([-8.0]))()
    assert 1.0 < held_out.estimate(np.array([500]), np.array([-10.0]))[0][0] < 2.0


def test_the_noise_of_arms_held_out_is_no_effect():
    found = []
    for seed in range(20):
        arms, predicted, rewards, _ = made_rows(between=0.0, within=1.0, rows=3, seed=seed)
        learned = predicted + 0.5 * (rewards - predicted)  # as of trees that fit noise
        effects = ArmEffects.fit(arms, learned, rewards, unseen=(arms, predicted, rewards))
        found.append(effects.estimate(np.array([-1]), np.full(1, -10.0))[1])
    assert np.mean(found) < 0.1


def test_single_rows_of_arms_held_out_tell_nothing():
    arms, predicted, rewards, _ = made_rows()
    unseen = np.arange(30), np.zeros(30), np.full(30, 100.0)
    assert ArmEffects.fit(arms, predicted, rewards, unseen=unseen).unseen[0] == 0.0


def test_it_is_saved_and_forged_files_are_refused():
    effects = ArmEffects.fit(*made_rows()[:3])
    asked = np.array([0, 3, 1]), np.array([-5.0, -9.0, -2.0])
    again = ArmEffects.restored(effects.state())
    np.testing.assert_array_equal(again.estimate(*asked), effects.estimate(*asked))
    for name, value in {
        "unit": np.array([1.0, 0.0, 0.0]),
        "variances": np.array([-1.0, 1.0]),
        "sums": effects.sums[:-1],
        "first": np.array([np.nan, 0.0]),
        "unseen": np.array([-1.0, 3.0]),
        "arms": np.zeros(ARMS, np.intp),
    }.items():
        with pytest.raises(SavedFileError):
            ArmEffects.restored({**effects.state(), name: value})
    with pytest.raises(SavedFileError):
        ArmEffects.restored({**effects.state(), "sums": -effects.sums})
    with pytest.raises(SavedFileError, match="unseen"):
        ArmEffects.restored({**effects.state(), "unseen": np.array([0.0, 1e9])})


def made_units(*, between=0.5, rows=20, seed=0, arms=200):
    """As `made_rows`, but rewards vary by an own amount around each arm, which a row tells as its unit."""
    random = np.random.default_rng(seed)
    labels = np.repeat(np.arange(arms) * 3, rows)
    units = np.repeat(random.choice([0.2, 1.0, 10.0], arms), rows)
    effects = np.repeat(between * random.normal(size=arms), rows)
    predicted = random.uniform(-30.0, -1.0, len(labels))
    return labels, predicted, predicted + units * (effects + random.normal(size=len(labels))), units


@pytest.mark.parametrize("between", [0.3, 1.0])
def test_noise_that_differs_by_row_is_told_right(between):
    arms, predicted, rewards, units = made_units(between=between)
    effects = ArmEffects.fit(arms, predicted, rewards, units=units)
    np.testing.assert_allclose(effects.variances, [between**2, 1.0], rtol=0.25)
    asked = np.array([10_000, 10_001]), np.full(2, -5.0)
    mean, variance = effects.estimate(*asked, units=np.array([0.2, 10.0]))
    np.testing.assert_array_equal(mean, 0.0)
    np.testing.assert_allclose(variance, between**2 * np.array([0.2, 10.0]) ** 2, rtol=0.25)
    drawn = effects.sample(*asked, 20_000, np.random.default_rng(0), scale=1.0, units=np.array([0.2, 10.0]))
    np.testing.assert_allclose(drawn.var(axis=0), variance, rtol=0.05)


def test_units_have_a_least_value():
    arms, predicted, rewards, units = made_units()
    effects = ArmEffects.fit(arms, predicted, rewards, units=units)
    variance = effects.estimate(np.array([10_000]), np.zeros(1), units=np.zeros(1))[1]
    np.testing.assert_allclose(variance, effects.variances[0] * (0.05 * units.mean()) ** 2)
    still = ArmEffects.fit(arms, predicted, predicted, units=np.zeros(len(arms)))
    assert not still.active
    assert np.isfinite(still.estimate(arms, predicted, units=np.zeros(len(arms)))).all()


@pytest.mark.parametrize("paid", [-1e3, 1e9])
def test_one_outlier_moves_an_arm_by_four_units_at_most(paid):
    arms, predicted, rewards, units = made_units()
    first = np.array([30.0, 200.0])
    effects = ArmEffects.fit(arms, predicted, rewards, units=units, first=first)
    new = np.array([10_000]), np.array([-10.0])
    effects.prepared_update(*new, np.array([paid]), units=np.array([2.0]))()
    moved = effects.estimate(*new, units=np.array([2.0]))[0][0]
    assert 4.0 < np.sign(paid) * moved < 8.0
    assert effects.first[1] == 200.0 + 16.0
    rewards[0] = paid
    outlying = ArmEffects.fit(arms, predicted, rewards, units=units)
    np.testing.assert_allclose(outlying.variances, [0.25, 1.0], rtol=0.3)


@pytest.mark.parametrize(("factor", "offset"), [(60.0, 0.0), (1.0, 1000.0), (0.01, -7.0)])
def test_with_units_nothing_depends_on_the_unit_of_rewards(factor, offset):
    arms, predicted, rewards, units = made_units()
    labels, asked, sizes = np.array([0, 3, 7]), np.array([-5.0, -9.0, -2.0]), np.array([0.1, 1.0, 5.0])
    mean, variance = ArmEffects.fit(arms, predicted, rewards, units=units).estimate(
        labels, asked, units=sizes
    )
    other = ArmEffects.fit(
        arms, factor * predicted + offset, factor * rewards + offset, units=factor * units
    ).estimate(labels, factor * asked + offset, units=factor * sizes)
    np.testing.assert_allclose(other[0], factor * mean, rtol=1e-6)
    np.testing.assert_allclose(other[1], factor**2 * variance, rtol=1e-6)


def test_with_units_fitted_arms_have_what_trees_have_left_of_them():
    arms, predicted, rewards, units = made_units(between=0.3)
    plain = ArmEffects.fit(arms, predicted, rewards, units=units)
    wide = ArmEffects.fit(arms, predicted, rewards, units=units, first=np.array([30.0, 150.0]))
    assert plain.left == plain.variances[0] == wide.left < 1.0 < wide.variances[0]
    asked = np.array([0, 3]), np.full(2, -10.0)
    np.testing.assert_array_equal(
        wide.estimate(*asked, units=np.ones(2))[0], plain.estimate(*asked, units=np.ones(2))[0]
    )
    assert (wide.estimate(*asked, units=np.ones(2))[1] > plain.estimate(*asked, units=np.ones(2))[1]).all()
    new = np.array([10_000]), np.zeros(1)
    moved = []
    for effects in (plain, wide):
        effects.prepared_update(*new, np.ones(1), units=np.ones(1))()
        moved.append(effects.estimate(*new, units=np.ones(1))[0][0])
    assert 0.0 < moved[0] < 0.2 < 0.7 < moved[1] < 1.0


def test_some_rows_stand_for_all_of_an_arm():
    arms, predicted, rewards, units = made_units(rows=4)
    some = ArmEffects.fit(arms, predicted, rewards, units=units, counts=np.where(arms == 0, 4, 40))
    alone = ArmEffects.fit(arms, predicted, rewards, units=units)
    np.testing.assert_array_equal(some.variances, alone.variances)
    assert some.left == alone.left
    np.testing.assert_allclose(some.sums[2:], 10.0 * alone.sums[2:])
    np.testing.assert_array_equal(some.sums[:2], alone.sums[:2])
    asked = np.array([0, 3]), np.zeros(2)
    few, many = alone.estimate(*asked, units=np.ones(2))[1], some.estimate(*asked, units=np.ones(2))[1]
    assert few[0] == many[0]
    assert many[1] < 0.3 * few[1]


def test_effects_with_units_are_saved_and_forged_files_are_refused():
    arms, predicted, rewards, units = made_units(between=0.3)
    effects = ArmEffects.fit(arms, predicted, rewards, units=units, first=np.array([30.0, 150.0]))
    asked = np.array([0, 3, 1]), np.array([-5.0, -9.0, -2.0])
    again = ArmEffects.restored(effects.state())
    np.testing.assert_array_equal(
        again.estimate(*asked, units=np.ones(3)), effects.estimate(*asked, units=np.ones(3))
    )
    for forged in (-1.0, np.nan, "1", 2.0 * effects.variances[0]):
        with pytest.raises(SavedFileError, match="left"):
            ArmEffects.restored({**effects.state(), "left": forged})
    state = effects.state()
    del state["left"]
    with pytest.raises(SavedFileError, match="left"):
        ArmEffects.restored(state)
