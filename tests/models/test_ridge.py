import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from models.ridge_reference import KINDS, MIXED, by_hand, mixed_rows, taught

from treebandit import Candidates, Columns
from treebandit.errors import InputError, SavedFileError
from treebandit.models import ridge_store
from treebandit.models.ridge import Ridge, SharedRidge


@pytest.mark.parametrize("standardise", [True, False])
@pytest.mark.parametrize("ridge", [1.0, 0.01])
@pytest.mark.parametrize("batch", [1, 2000])
@pytest.mark.parametrize("kind", KINDS)
def test_estimates_are_those_of_one_direct_solve(kind, batch, ridge, standardise):
    model, contexts, arms, rewards, random = taught(kind, 2000, batch, ridge, standardise)
    asked, asked_arms = mixed_rows(20, random), np.repeat([0, 7, 14, 99], 5)
    base, noise = (rewards.mean(), rewards.var()) if standardise else (0.0, 1.0)
    mean, covariance = by_hand(model, contexts, arms, rewards - base, asked, asked_arms, ridge)
    estimate = model.estimate(Candidates(asked, asked_arms, MIXED))
    np.testing.assert_allclose(estimate.mean, base + mean, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(estimate.variance, noise * np.diag(covariance), rtol=1e-6)
    np.testing.assert_array_equal(estimate.count, [(arms == arm).sum() for arm in asked_arms])


@pytest.mark.parametrize("kind", KINDS)
@given(sizes=st.lists(st.integers(1, 30), min_size=1, max_size=6), seed=st.integers(0, 1000))
@settings(max_examples=25, deadline=None)
def test_batches_teach_what_single_rows_teach(kind, sizes, seed):
    # Without numbers there are no scales, which are compared after each batch.
    random, columns = np.random.default_rng(seed), Columns((4, 3))
    single, batched = kind(), kind()
    for size in sizes:
        contexts = random.integers(0, (4, 3), (size, 2)).astype(np.float32)
        arms, rewards = random.integers(4, size=size), random.random(size)
        batched.learn(Candidates(contexts, arms, columns), rewards)
        for t in range(size):
            single.learn(Candidates(contexts[t : t + 1], arms[t : t + 1], columns), rewards[t : t + 1])
    asked = Candidates(random.integers(0, (4, 3), (8, 2)).astype(np.float32), np.arange(8) % 5, columns)
    ours, theirs = single.estimate(asked), batched.estimate(asked)
    np.testing.assert_allclose(ours.mean, theirs.mean, rtol=1e-8)
    np.testing.assert_allclose(ours.variance, theirs.variance, rtol=1e-8)
    np.testing.assert_array_equal(ours.count, theirs.count)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("arms", [[0, 7, 5], [0, 0, 7], [5, 5, 6]])
def test_draws_have_the_posterior_mean_and_covariance(kind, arms):
    model, contexts, all_arms, rewards, random = taught(kind, 40)
    asked, arms = mixed_rows(3, random), np.array(arms)
    mean, covariance = by_hand(model, contexts, all_arms, rewards - rewards.mean(), asked, arms, 1.0)
    draws = model.sample(Candidates(asked, arms, MIXED), 20_000, np.random.default_rng(1), scale=0.5)
    wanted = 0.25 * rewards.var() * covariance
    np.testing.assert_allclose(draws.mean(0), rewards.mean() + mean, atol=0.03 * np.sqrt(wanted.max()))
    np.testing.assert_allclose(np.cov(draws.T), wanted, atol=0.05 * wanted.max())


@pytest.mark.parametrize("kind", KINDS)
def test_draws_of_more_rows_than_coordinates(kind):
    model, contexts, all_arms, rewards, random = taught(kind, 40)
    asked, arms = mixed_rows(30, random), np.repeat([0, 7, 99], 10)
    _, covariance = by_hand(model, contexts, all_arms, rewards, asked, arms, 1.0)
    draws = model.sample(Candidates(asked, arms, MIXED), 20_000, np.random.default_rng(1))
    wanted = rewards.var() * covariance
    np.testing.assert_allclose(np.cov(draws.T), wanted, atol=0.06 * wanted.max())


def test_equal_rows_have_equal_draws():
    model, contexts, *_ = taught(Ridge, 40)
    rows = Candidates(contexts[[3, 3, 5]], np.zeros(3, np.intp), MIXED)
    draws = model.sample(rows, 50, np.random.default_rng(0))
    np.testing.assert_allclose(draws[:, 0], draws[:, 1], atol=1e-5)
    assert np.std(draws[:, 0] - draws[:, 2]) > 0.01


def test_before_the_first_row_all_is_at_the_prior():
    rows = Candidates(np.array([[0.5, 1.0]], np.float32), np.zeros(1, np.intp), Columns((0, 2)))
    for kind, variance in ((Ridge, 1.0 + 0.25 + 1.0), (SharedRidge, 1.0 + 0.25 + 1.0 + 1.0)):
        estimate = kind(0.5).estimate(rows)
        assert estimate.mean == [0.0]
        assert estimate.variance == [2.0 * variance]
        assert estimate.count == [0.0]


@pytest.mark.parametrize("kind", KINDS)
def test_new_categories_leave_the_others_alone(kind):
    random = np.random.default_rng(0)
    narrow, wide = Columns((0, 2, 0, 2)), Columns((0, 4, 0, 2))
    late, early = kind(), kind()
    first, second = mixed_rows(30, random, narrow), mixed_rows(10, random, wide)
    arms, rewards = random.integers(2, size=30), random.random(30)
    late.learn(Candidates(first, arms, narrow), rewards)
    early.learn(Candidates(first, arms, wide), rewards)
    for model in (late, early):
        model.learn(Candidates(second, arms[:10], wide), rewards[:10])
    asked = Candidates(mixed_rows(6, random, wide), np.arange(6) % 3, wide)
    np.testing.assert_allclose(late.estimate(asked).mean, early.estimate(asked).mean, rtol=1e-9)
    np.testing.assert_allclose(late.estimate(asked).variance, early.estimate(asked).variance, rtol=1e-9)


def test_a_column_cannot_change_its_kind():
    model, rows = Ridge(), Candidates(np.zeros((1, 2), np.float32), np.zeros(1, np.intp), Columns((0, 2)))
    model.learn(rows, np.ones(1))
    with pytest.raises(InputError, match="column 0 held numbers and now holds categories"):
        model.learn(Candidates(rows.contexts, rows.arms, Columns((3, 2))), np.ones(1))
    assert len(model) == 1


def test_memory_follows_the_rows_and_not_the_categories():
    model, random = Ridge(), np.random.default_rng(0)
    columns = Columns((3000,))
    contexts, arms = random.integers(3000, size=(500, 1)).astype(np.float32), random.integers(185, size=500)
    for t in range(500):
        model.learn(Candidates(contexts[t : t + 1], arms[t : t + 1], columns), random.random(1))
    assert sum(part.nbytes for part in model.state().values() if isinstance(part, np.ndarray)) < 5e6


def test_what_takes_too_much_memory_is_refused_before_anything_changes(monkeypatch):
    monkeypatch.setattr(ridge_store, "MOST_BYTES", 1 << 20)
    model, columns = Ridge(), Columns.numeric(100)
    contexts = np.random.default_rng(0).normal(size=(50, 100)).astype(np.float32)
    model.learn(Candidates(contexts[:1], np.zeros(1, np.intp), columns), np.ones(1))
    with pytest.raises(InputError, match=r"regressions of 50 arms with up to 101 features would take 6 MiB"):
        model.learn(Candidates(contexts, np.arange(50), columns), np.ones(50))
    assert len(model) == 1


def test_thousands_of_arms_take_room_only_once_seen():
    model, random = Ridge(), np.random.default_rng(0)
    arms, contexts = np.arange(5651), random.random((5651, 12), np.float32)
    columns = Columns.numeric(12)
    for start in range(0, 5651, 300):
        rows = slice(start, start + 300)
        model.learn(Candidates(contexts[rows], arms[rows], columns), np.ones(len(arms[rows])))
    assert model.state()["store"].nbytes < 10e6
    some = np.array([0, 17, 5650])
    np.testing.assert_allclose(
        model.estimate(Candidates(contexts, arms, columns)).variance[some],
        model.estimate(Candidates(contexts[some], arms[some], columns)).variance,
    )


def test_missing_numbers_count_as_the_mean():
    random = np.random.default_rng(0)
    contexts = mixed_rows(50, random)
    model = Ridge()
    model.learn(Candidates(contexts, None, MIXED), random.random(50))
    with_gap, with_mean = contexts[:1].copy(), contexts[:1].copy()
    with_gap[0, 0] = np.nan
    with_mean[0, 0] = contexts[:, 0].mean()
    gap, mean = (model.estimate(Candidates(rows, None, MIXED)) for rows in (with_gap, with_mean))
    np.testing.assert_allclose(gap.mean, mean.mean, rtol=1e-5)
    missing = Candidates(np.full((1, 4), np.nan, np.float32), None, MIXED)
    model.learn(missing, np.ones(1))
    assert np.isfinite(model.estimate(missing).mean).all()


def test_zeros_and_ones_are_not_scaled():
    random = np.random.default_rng(0)
    codes, rewards = random.integers(4, size=200), random.random(200)
    category, numbers = Ridge(), Ridge()
    one_hot = np.eye(4, dtype=np.float32)[codes]
    for t in range(200):
        category.learn(
            Candidates(codes[t : t + 1, None].astype(np.float32), None, Columns((4,))), rewards[t : t + 1]
        )
        numbers.learn(Candidates(one_hot[t : t + 1], None, Columns.numeric(4)), rewards[t : t + 1])
    mine = category.estimate(Candidates(np.arange(4, dtype=np.float32)[:, None], None, Columns((4,))))
    other = numbers.estimate(Candidates(np.eye(4, dtype=np.float32), None, Columns.numeric(4)))
    np.testing.assert_allclose(mine.mean, other.mean, rtol=1e-9)
    np.testing.assert_allclose(mine.variance, other.variance, rtol=1e-9)


@pytest.mark.parametrize("ridge", [1e-8, 1.0])
def test_outliers_do_not_last(ridge):
    random = np.random.default_rng(0)
    contexts = random.normal(size=(2000, 3)).astype(np.float32)
    model, columns = Ridge(ridge), Columns.numeric(3)
    for t in range(2000):
        if t == 60:
            for value in (1e9, 3e38, -1e20):
                model.learn(Candidates(np.full((1, 3), value, np.float32), None, columns), np.array([1.0]))
        model.learn(Candidates(contexts[t : t + 1], None, columns), contexts[t : t + 1, 0].astype(float))
    asked = Candidates(np.array([[-1, 0, 0], [1, 0, 0]], np.float32), None, columns)
    estimate = model.estimate(asked)
    np.testing.assert_allclose(estimate.mean, [-1.0, 1.0], atol=0.3)
    assert (estimate.variance > 0).all()
    assert np.isfinite(model.sample(asked, 5, random)).all()


def test_outliers_among_the_first_rows_leave_arms_alone_that_came_later():
    random, columns = np.random.default_rng(0), Columns.numeric(3)
    contexts, rewards = random.normal(size=(60, 3)).astype(np.float32), random.normal(size=60)
    contexts[0, 1] = 1e6
    arms = np.where(np.arange(60) < 18, np.arange(60) % 9, np.arange(60) % 10)
    models = Ridge(), Ridge()
    for rows in (slice(18), *(slice(t, t + 1) for t in range(18, 60))):
        for model in models:
            model.learn(Candidates(contexts[rows], arms[rows], columns), rewards[rows])
        models[1].restore(models[1].state())  # without spare room for arms
    found, expected = (model.estimate(Candidates(contexts, arms, columns)).mean for model in models)
    np.testing.assert_allclose(found, expected)


def test_cross_fitted_scores_are_those_of_the_other_folds():
    model, contexts, arms, rewards, random = taught(Ridge, 60)
    folds = random.integers(0, 4, 60)
    scores = model.cross_fitted(Candidates(contexts, arms, MIXED), rewards, folds)
    for row in range(60):
        others = folds != folds[row]
        expected, _ = by_hand(
            model,
            contexts[others],
            arms[others],
            rewards[others] - rewards.mean(),
            contexts[row : row + 1],
            arms[row : row + 1],
            1.0,
        )
        assert scores[row] == pytest.approx(rewards.mean() + expected[0], abs=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_learning_is_prepared_without_change_and_done_once(kind):
    model, *_, random = taught(kind, 30)
    asked = Candidates(mixed_rows(5, random), np.arange(5), MIXED)
    before = model.estimate(asked)
    wider = Columns((0, 5, 0, 2))
    commit = model.prepared(
        Candidates(mixed_rows(9, random, wider), np.arange(9), wider), np.ones(9), t=31, random=random
    )
    np.testing.assert_array_equal(model.estimate(asked).mean, before.mean)
    assert len(model) == 30
    commit()
    after = model.estimate(asked)
    commit()
    assert len(model) == 39
    np.testing.assert_array_equal(model.estimate(asked).mean, after.mean)
    assert (after.mean != before.mean).all()


@pytest.mark.parametrize("kind", KINDS)
def test_restored_it_goes_on_alike(kind):
    model, *_, random = taught(kind, 100)
    again = kind()
    again.restore(model.state())
    later, arms = mixed_rows(50, random), random.integers(9, size=50)
    for one in (model, again):
        for t in range(50):
            one.learn(Candidates(later[t : t + 1], arms[t : t + 1], MIXED), np.array([float(t)]))
    asked = Candidates(mixed_rows(9, random), np.arange(9), MIXED)
    np.testing.assert_array_equal(model.estimate(asked).mean, again.estimate(asked).mean)
    np.testing.assert_array_equal(model.estimate(asked).variance, again.estimate(asked).variance)


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
@settings(max_examples=150, deadline=None)
def test_forged_states_are_refused_or_harmless(kind, data):
    model, *_, random = taught(kind, 30)
    state = model.state()
    inner = state.get("ridge", state)
    owner = data.draw(st.sampled_from([state, inner]))
    name = data.draw(st.sampled_from([key for key, value in owner.items() if isinstance(value, np.ndarray)]))
    forged = np.array(owner[name])
    change = data.draw(st.sampled_from(["value", "shape", "type", "less"]))
    if change == "value" and forged.size:
        place = data.draw(st.integers(0, forged.size - 1))
        values = [-1, 0, 1, 2**31 - 1, -(2**31)]
        values += [np.nan, np.inf, 1e300, -1e300] if forged.dtype.kind == "f" else []
        forged.flat[place] = data.draw(st.sampled_from(values))
    elif change == "shape":
        forged = forged.reshape(-1)[: data.draw(st.integers(0, forged.size))]
    elif change == "type":
        forged = forged.astype(data.draw(st.sampled_from(["f4", "i8", "f8", "i4", "u1"])))
    elif forged.size:
        forged = forged[:-1]
    again = kind()
    try:
        again.restore(
            {**state, "ridge": {**inner, name: forged}} if owner is not state else {**state, name: forged}
        )
    except SavedFileError:
        return
    rows = Candidates(mixed_rows(5, random), np.array([0, 7, 7, 14, 3]), MIXED)
    again.estimate(rows)
    again.sample(rows, 3, random)
    again.learn(rows, np.ones(5))
    again.estimate(rows)


@pytest.mark.parametrize("kind", KINDS)
@given(power=st.integers(-60, 60), seed=st.integers(0, 50))
@settings(max_examples=20, deadline=None)
def test_estimates_scale_with_the_unit_of_rewards(kind, power, seed):
    random = np.random.default_rng(seed)
    contexts, arms, rewards = mixed_rows(40, random), random.integers(3, size=40), random.normal(size=40)
    plain, scaled = kind(), kind()
    for t in range(40):
        row = Candidates(contexts[t : t + 1], arms[t : t + 1], MIXED)
        plain.learn(row, rewards[t : t + 1])
        scaled.learn(row, rewards[t : t + 1] * 2.0**power)
    asked = Candidates(mixed_rows(6, random), np.arange(6) % 4, MIXED)
    mine, theirs = plain.estimate(asked), scaled.estimate(asked)
    np.testing.assert_array_equal(mine.mean * 2.0**power, theirs.mean)
    np.testing.assert_array_equal(mine.variance * 4.0**power, theirs.variance)


@pytest.mark.parametrize("kind", KINDS)
def test_estimates_shift_with_the_rewards(kind):
    random = np.random.default_rng(0)
    contexts, arms = mixed_rows(100, random), random.integers(3, size=100)
    rewards = random.integers(0, 2, 100).astype(float)
    plain, shifted = kind(), kind()
    plain.learn(Candidates(contexts, arms, MIXED), rewards)
    shifted.learn(Candidates(contexts, arms, MIXED), rewards + 1e9)
    asked = Candidates(mixed_rows(6, random), np.arange(6) % 4, MIXED)
    np.testing.assert_allclose(shifted.estimate(asked).mean - 1e9, plain.estimate(asked).mean, atol=1e-6)
    np.testing.assert_allclose(shifted.estimate(asked).variance, plain.estimate(asked).variance, rtol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("batch", [1, 7])
def test_columns_added_later_are_as_if_they_had_been_missing_before(kind, batch):
    random = np.random.default_rng(3)
    n, wide = 120, Columns((0, 3, 0, 2, 0, 4, 0))
    contexts = np.column_stack(
        [
            mixed_rows(n, random),
            random.normal(900.0, 50.0, n),
            random.integers(4, size=n),
            random.integers(2, size=n),
        ]
    ).astype(np.float32)
    arms, rewards = random.integers(3, size=n) * 7, random.normal(size=n) + 0.01 * contexts[:, 4]
    late = {49: 4, 77: 6}  # rows after which the first so many columns are there
    contexts[:49, 4:], contexts[49:77, 6:] = np.nan, np.nan
    grown, whole = kind(), kind()
    starts = sorted({*range(0, n, batch), *late})
    for start, stop in zip(starts, [*starts[1:], n], strict=True):
        width = 4 if start < 49 else 6 if start < 77 else 7
        for model, d in ((grown, width), (whole, 7)):
            rows = Candidates(contexts[start:stop, :d].copy(), arms[start:stop], Columns(wide.categories[:d]))
            model.learn(rows, rewards[start:stop])
        if start in (48, 70):
            # Columns that were not learned yet are left out.
            asked = Candidates(contexts[:5], arms[:5], wide)
            cut = Candidates(contexts[:5, :width].copy(), arms[:5], Columns(wide.categories[:width]))
            np.testing.assert_array_equal(grown.estimate(asked).mean, grown.estimate(cut).mean)
            draws = [grown.sample(each, 3, np.random.default_rng(0)) for each in (asked, cut)]
            np.testing.assert_array_equal(*draws)
    restored = kind()
    restored.restore(grown.state())
    asked = Candidates(contexts[-20:], np.append(arms[-20:-1], 99), wide)
    expected = whole.estimate(asked)
    for model in (grown, restored):
        found = model.estimate(asked)
        np.testing.assert_allclose(found.mean, expected.mean, rtol=1e-9)
        np.testing.assert_allclose(found.variance, expected.variance, rtol=1e-9)


def test_rows_without_a_late_number_count_as_its_first_value():
    random = np.random.default_rng(0)
    model = Ridge()
    early = random.normal(size=(200, 1)).astype(np.float32)
    model.learn(Candidates(early, None, Columns.numeric(1)), np.zeros(200))
    late = np.column_stack([random.normal(size=200), random.normal(1e4, 10.0, 200)]).astype(np.float32)
    for row in late:
        model.learn(Candidates(row[None], None, Columns.numeric(2)), np.array([(row[1] - 1e4) / 10.0]))
    asked = np.array([[0.0, 1e4 - 10.0], [0.0, 1e4 + 10.0]], np.float32)
    low, high = model.estimate(Candidates(asked, None, Columns.numeric(2))).mean
    assert high - low == pytest.approx(2.0, rel=0.3)
