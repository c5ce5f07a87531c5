from itertools import pairwise

import numpy as np
import pytest

from treebandit.errors import ParameterError, SavedFileError
from treebandit.steps import exhausted
from treebandit.trees import HistogramForest, LeafStatistics, TreeEnsembleRegressor, XGBoostTrees
from treebandit.trees.calibration import PROBABILITIES, Calibration
from treebandit.trees.calibration_fit import (
    FEWEST_ROWS,
    HeldOut,
    calibrate_steps,
    find_neighbours,
    noise_variance,
)

FOREST = HistogramForest(n_trees=50)


def problem(seed, n=600, noise=0.5):
    random = np.random.default_rng(seed)
    features = random.uniform(-1, 1, (n, 4)).astype(np.float32)
    mean = np.sin(3 * features[:, 0]) + features[:, 1] * features[:, 2]
    return features, mean, mean + noise * random.standard_normal(n)


@pytest.fixture(scope="module")
def model():
    features, _, targets = problem(0)
    return TreeEnsembleRegressor(FOREST, random_state=0).fit(features, targets)


@pytest.mark.parametrize("trees", [FOREST, XGBoostTrees(n_trees=30, max_depth=6)], ids=["forest", "boosting"])
@pytest.mark.parametrize("noise", [0.1, 1.0])
def test_intervals_hold_the_true_mean_as_often_as_they_say(trees, noise):
    held, leaf, new = [], [], []
    for seed in range(3):
        features, _, targets = problem(seed, noise=noise)
        test, mean, observed = problem(100 + seed, n=1000, noise=noise)
        model = TreeEnsembleRegressor(trees, random_state=seed).fit(features, targets)
        predicted, deviation = model.predict(test, return_std=True)
        held.append([np.abs(predicted - mean) <= z * deviation for z in (1.2816, 1.96, 2.5758)])
        sums = model.leaves_.leaf_sums(test)
        leaf.append(np.abs(predicted - mean) <= 1.96 * model.scale_.deviation * np.sqrt(sums.variance))
        lower, upper = model.predict(test, interval=0.9)
        new.append((lower <= observed) & (observed <= upper))
    np.testing.assert_allclose(np.mean(held, (0, 2)), [0.8, 0.95, 0.99], atol=0.12)
    assert np.mean(leaf) < 0.6  # so the test can tell
    assert 0.84 < np.mean(new) < 0.96


def test_intervals_of_new_observations_follow_their_skew_and_grow_with_the_level():
    random = np.random.default_rng(0)
    features = random.uniform(-1, 1, (2000, 2)).astype(np.float32)
    targets = features[:, 0] + random.exponential(1.0, 2000)
    model = TreeEnsembleRegressor(FOREST, random_state=0).fit(features[:1000], targets[:1000])
    ends = [model.predict(features[1000:], interval=level) for level in (0.5, 0.8, 0.95)]
    for (inner_low, inner_high), (low, high) in pairwise(ends):
        assert (low < inner_low).all()
        assert (high > inner_high).all()
    below, above = (targets[1000:] < ends[-1][0]).mean(), (targets[1000:] > ends[-1][1]).mean()
    assert 0.01 < below < 0.05  # normal intervals would be missed below by none, above by twice as many
    assert 0.01 < above < 0.05


def test_intervals_of_new_observations_stay_as_wide_as_the_noise_when_rows_come():
    random = np.random.default_rng(0)

    def drawn(n):
        features = random.uniform(-1, 1, (n, 3))
        return features, (features[:, 0] > 0) + random.standard_normal(n)

    model, (test, observed) = TreeEnsembleRegressor(FOREST, random_state=0).fit(*drawn(400)), drawn(4000)
    first = np.subtract(*model.predict(test, interval=0.95)[::-1]).mean()
    model.partial_fit(*drawn(10_000))
    lower, upper = model.predict(test, interval=0.95)
    assert 3.7 < (upper - lower).mean() < first  # the noise alone needs 3.92
    assert np.mean((lower <= observed) & (observed <= upper)) > 0.93


def test_only_the_error_of_the_mean_falls_with_leaf_variances():
    calibration = Calibration(1.0, 2.0, 3.0, PROBABILITIES - 0.5)
    for leaf_variance, scale in ((2.0, 1.0), (0.0, 0.5), (8.0, 2.5)):
        low, high = calibration.interval(0.8, np.array([leaf_variance]))
        assert high[0] == pytest.approx(0.4 * np.sqrt((3.0 + scale) / 4.0), rel=1e-3)
        assert low[0] == pytest.approx(-high[0])
    certain = Calibration(0.0, 0.0, 0.0, np.zeros(101))
    assert certain.interval(0.8, np.zeros(1)) == (0.0, 0.0)


@pytest.mark.parametrize("rate", [0.002, 0.01])
def test_intervals_hold_a_value_that_nearly_all_observations_have(rate):
    random = np.random.default_rng(0)
    for seed in range(6):
        features = random.uniform(-1, 1, (2000, 3))
        model = TreeEnsembleRegressor(FOREST, random_state=seed)
        model.fit(features, (random.random(2000) < rate).astype(float))
        lower, upper = model.predict(random.uniform(-1, 1, (1000, 3)), interval=0.95)
        assert np.mean((lower <= 0.0) & (upper >= 0.0)) > 0.94


def test_an_end_is_moved_to_the_next_frequent_value_and_no_further():
    random = np.random.default_rng(0)
    features = random.uniform(0, 1, (200, 8))
    grades = np.clip(np.round(4.5 * (features[:, 0] + features[:, 1]) + random.normal(0, 2.5, 200)), 0, 9)
    models = [TreeEnsembleRegressor(FOREST, random_state=0).fit(features, sign * grades) for sign in (1, -1)]
    test = random.uniform(0, 1, (500, 8))
    (lower, upper), (other_lower, other_upper) = (each.predict(test, interval=0.5) for each in models)
    np.testing.assert_allclose([lower, upper], [-other_upper, -other_lower], atol=1e-6)
    sums, scale = models[0].leaves_.leaf_sums(test.astype(np.float32)), models[0].scale_
    low, high = models[0].leaves_.calibration.interval(0.5, sums.variance)
    ends = (scale.mean + scale.deviation * (sums.mean + end) for end in (low, high))
    for moved, end, sign in zip((lower, upper), ends, (-1, 1), strict=True):
        assert (sign * (moved - end) >= -1e-9).all()
        assert (sign * (moved - end) < 1.0).all()
    assert models[0].predict(test, return_std=True)[1].mean() > 0.8


def test_frequent_values_far_from_an_interval_stay_outside():
    random = np.random.default_rng(0)
    features = random.uniform(-1, 1, (2000, 2))
    targets = np.where(features[:, 0] > 0, 5.0 + random.standard_normal(2000), 0.0)
    model = TreeEnsembleRegressor(FOREST, random_state=0).fit(features, targets)
    lower, _ = model.predict(features[features[:, 0] > 0.1], interval=0.8)
    assert (lower > 0.0).mean() > 0.95


@pytest.mark.parametrize("memory", ["all", 5000, "auto"])
def test_targets_that_are_equal_at_first_may_differ_later(memory):
    random = np.random.default_rng(0)
    model = TreeEnsembleRegressor(HistogramForest(n_trees=20), random_state=0, memory=memory)
    for _ in range(2):
        model.partial_fit(random.normal(size=(60, 3)), np.zeros(60))
    assert not model.predict(np.zeros((1, 3)), return_std=True)[1].any()
    for _ in range(3):
        features = random.normal(size=(100, 3))
        model.partial_fit(
            features, np.where(features[:, 0] > 0, 2.0, 0.0) + 0.1 * random.standard_normal(100)
        )
    mean, deviation = model.predict(np.array([[-1.0, 0, 0], [1, 0, 0]]), return_std=True)
    assert mean[1] > mean[0] + 0.5
    assert (deviation > 0.0).all()
    lower, upper = model.predict(features, interval=0.9)
    assert (upper - lower > 0.1).all()


def test_the_unit_of_the_targets_does_not_matter(model):
    features, _, targets = problem(0)
    other = TreeEnsembleRegressor(FOREST, random_state=0).fit(features, 4.0 * targets)
    for asked in ({"return_std": True}, {"interval": 0.8}):
        for one, four in zip(model.predict(features, **asked), other.predict(features, **asked), strict=True):
            np.testing.assert_allclose(4.0 * one, four)


def test_neighbours_are_those_that_share_most_leaves():
    leaves = np.random.default_rng(0).integers(0, 4, (20, 30)).astype(np.int16)
    found, shared = find_neighbours(leaves, 3)
    for row in range(30):
        counts = (leaves == leaves[:, [row]]).sum(0)
        others = sorted((j for j in range(30) if j != row), key=lambda j: (-counts[j], j))[:3]
        assert found[row].tolist() == others
        assert shared[row].tolist() == counts[others].tolist()


def test_noise_is_what_rows_alike_do_not_have_in_common():
    """Against the calculation written out; and rows in pairs of one bias each give the noise they were made with."""
    random = np.random.default_rng(1)
    n = 4000
    bias, noise = np.repeat(random.standard_normal(n // 2), 2), 0.5 * random.standard_normal(n)
    partner = np.arange(n) ^ 1
    unrelated = random.standard_normal((3, n))
    part = HeldOut(
        bias + noise, unrelated[:2], np.ones((2, n)), partner[:, None], np.ones((n, 1)), unrelated[2]
    )
    found, uncertainty = noise_variance([part])
    assert abs(found - 0.25) < 3 * uncertainty < 0.15

    shares = np.where(np.arange(n) < 1000, 0.25, 0.9)[:, None]
    columns = np.array([np.ones(n), unrelated[2], unrelated[:2].mean(0)]).T
    errors = part.targets - columns @ np.linalg.solve(columns.T @ columns, columns.T @ part.targets)
    common = sum(errors[i] * errors[partner[i]] for i in range(n)) / n
    fading = sum(min(share / 0.625, 1.0) for share in shares[:, 0]) / n
    halves = [
        HeldOut(
            *(each[..., half] for each in part[:3]),
            partner[:2000][:, None],
            shares[half],
            part.companion[half],
        )
        for half in (slice(0, 2000), slice(2000, None))
    ]
    assert noise_variance(halves)[0] == pytest.approx(np.mean(errors**2) - common / fading)


def test_the_variance_is_half_common_and_half_in_proportion_to_that_of_the_leaf(model):
    features, _, _ = problem(1)
    calibration = model.leaves_.calibration
    leaf = model.leaves_.leaf_sums(features).variance
    expected = calibration.error * (0.5 + 0.5 * leaf / calibration.leaf_variance)
    np.testing.assert_allclose(model.leaves_.estimate(features).variance, expected)
    assert Calibration(2.0, 0.0, 1.0, PROBABILITIES).variance(np.zeros(3)).tolist() == [2.0] * 3


def test_joint_draws_have_the_calibrated_variance(model):
    leaves, features = model.leaves_, problem(1)[0][:5]
    estimate = leaves.estimate(features)
    draws = leaves.sample(features, exploration=2.0, key=3, draws=20_000)
    np.testing.assert_allclose(draws.mean(0), estimate.mean, atol=0.05)
    np.testing.assert_allclose(draws.var(0), 4 * estimate.variance, rtol=0.05)


def test_rows_whose_leaves_are_sure_are_drawn_too():
    features = np.arange(40, dtype=np.float32)[:, None]
    targets = np.where(features[:, 0] < 20, 0.0, 1.0)
    trees = HistogramForest(n_trees=5, bootstrap=False)
    leaves = LeafStatistics.measure(trees.fit(features, targets, seed=0), features, targets)
    assert not leaves.estimate(features).variance.any()
    leaves.calibration = Calibration(0.25, 0.0, 0.0, PROBABILITIES)
    draws = leaves.sample(features[:3], exploration=1.0, key=3, draws=10_000)
    np.testing.assert_allclose(draws.std(0), 0.5, rtol=0.05)


def test_further_rows_make_it_surer_without_new_trees():
    features, _, targets = problem(0, n=3000)
    model = TreeEnsembleRegressor(FOREST, random_state=0).fit(features[:300], targets[:300])
    calibration, before = model.leaves_.calibration, model.predict(features, return_std=True)[1]
    model.partial_fit(features[300:], targets[300:])
    after = model.predict(features, return_std=True)[1]
    assert model.leaves_.calibration is calibration
    assert after.mean() < 0.95 * before.mean()


def test_few_rows_tell_nothing_but_their_spread():
    features, _, targets = problem(0, n=FEWEST_ROWS - 1)
    model = TreeEnsembleRegressor(FOREST, random_state=0).fit(features, targets)
    deviation = model.predict(features, return_std=True)[1]
    assert np.sqrt(np.mean(deviation**2)) == pytest.approx(targets.std())
    TreeEnsembleRegressor(FOREST, random_state=0).fit(*problem(0, n=FEWEST_ROWS)[::2])


@pytest.mark.parametrize("rows", [1, 50])
def test_trees_of_fewer_rows_than_tell_of_errors_do_not_stay(rows):
    features, _, targets = problem(1, n=200)
    model = TreeEnsembleRegressor(FOREST, random_state=0).fit(features[:2], targets[:2])
    for start in range(2, 200, rows):
        model.partial_fit(features[start : start + rows], targets[start : start + rows])
    grown = FEWEST_ROWS if rows == 1 else 2 + rows
    first = TreeEnsembleRegressor(FOREST, random_state=0).fit(features[:grown], targets[:grown])
    first.partial_fit(features[grown:], targets[grown:])
    test, _, observed = problem(2, n=1000)
    np.testing.assert_allclose(model.predict(test), first.predict(test))
    lower, upper = model.predict(test, interval=0.95)
    assert np.mean((lower <= observed) & (observed <= upper)) > 0.85


def test_nothing_of_the_size_of_the_rows_is_kept_and_steps_can_be_counted():
    features, _, targets = problem(0)
    leaves = LeafStatistics.measure(FOREST.fit(features, targets, seed=0), features, targets)

    def grow(rows, of, seed):
        yield 0.0
        return FOREST.fit(rows, of, seed=seed)

    shares = list(calibrate_steps(grow, leaves, features, targets, seed=0))
    assert shares == sorted(shares)
    assert 0.0 <= shares[0] < shares[-1] < 1.0
    calibration = exhausted(calibrate_steps(grow, leaves, features, targets, seed=0))
    assert calibration.quantiles.shape == (101,)
    assert [type(each) for each in calibration[:3]] == [float] * 3


def test_saved_calibrations_come_back_and_forged_ones_do_not(model):
    leaves = model.leaves_
    restored = LeafStatistics.restored(leaves.state())
    features = problem(1)[0]
    np.testing.assert_array_equal(restored.estimate(features).variance, leaves.estimate(features).variance)
    np.testing.assert_array_equal(restored.calibration.quantiles, leaves.calibration.quantiles)
    good = leaves.calibration.state()
    for bad in (
        {"error": -1.0},
        {"error": float("nan")},
        {"leaf_variance": "a"},
        {"noise": -1.0},
        {"noise": None},
        {"quantiles": good["quantiles"][::-1].copy()},
        {"quantiles": good["quantiles"][:7]},
    ):
        with pytest.raises(SavedFileError):
            LeafStatistics.restored({**leaves.state(), "calibration": {**good, **bad}})


@pytest.mark.parametrize("level", [0.0, 1.0, -0.5, 95, "a", float("nan")])
def test_levels_that_are_none_are_refused(model, level):
    with pytest.raises(ParameterError, match="interval is"):
        model.predict(problem(0)[0], interval=level)


def test_intervals_need_a_calibration_and_go_alone(model):
    features, _, targets = problem(0)
    with pytest.raises(ParameterError, match="one at a time"):
        model.predict(features, return_std=True, interval=0.9)
    plain = TreeEnsembleRegressor(FOREST, variance="leaf", random_state=0).fit(features, targets)
    with pytest.raises(ParameterError, match="fit with variance='calibrated'"):
        plain.predict(features, interval=0.9)
    np.testing.assert_array_equal(plain.predict(features), model.predict(features))
    with pytest.raises(ParameterError, match="variance is 'some'"):
        TreeEnsembleRegressor(FOREST, variance="some").fit(features, targets)
