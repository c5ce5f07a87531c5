import numpy as np
import pytest

from treebandit.core import Candidates, Columns
from treebandit.errors import ParameterError, SavedFileError
from treebandit.models.forgetting import Forgetting
from treebandit.models.history import History
from treebandit.models.memory import Memory
from treebandit.models.ridge import Ridge

COLUMNS = Columns.numeric(1)
RANDOM = np.random.default_rng


def rows(x, arms):
    return Candidates(np.asarray(x, np.float32).reshape(-1, 1), np.asarray(arms, np.intp), COLUMNS)


def history(arms):
    return History().appended(rows(np.arange(len(arms)), arms), np.arange(float(len(arms))))


def knowing(arms=range(4), **options):
    """The memory of a model that was fitted to eight rows of each of these arms."""
    return Memory("auto", **options).fitted(history(np.repeat(arms, 8)))


def watched(arms, errors, memory=None):
    """The memory at its first alarm, and how many rows it had seen; or after the last row."""
    memory = knowing() if memory is None else memory.answered()
    for seen in range(1, len(arms) + 1):
        memory = memory.after(arms[seen - 1 : seen], errors[seen - 1 : seen])
        if memory.alarm:
            break
    return memory, seen


def drifting(changed, n=1200, at=800, step=1.0):
    """Rows of four arms, their errors, which of them have changed."""
    random = RANDOM(3)
    arms = random.integers(0, 4, n)
    return arms, random.normal(size=n) * 0.5 - step * (np.isin(arms, changed) & (np.arange(n) >= at))


@pytest.mark.parametrize("wrong", ["some", 9, 0, -5, 2.5, True, None])
def test_other_rules_are_refused(wrong):
    with pytest.raises(ParameterError, match="memory"):
        Memory(wrong)


def test_a_number_keeps_the_newest_rows_and_all_keeps_all():
    of = history(np.zeros(50))
    assert Memory("all").kept(of) is None
    assert Memory(50).kept(of) is None
    assert of.only(Memory(20).kept(of)).rewards.tolist() == list(range(30, 50))


def test_all_arms_are_forgotten_where_all_have_changed():
    memory, seen = watched(*drifting([0, 1, 2, 3]))
    assert 800 < seen < 860
    arms = drifting([0, 1, 2, 3])[0][:seen]
    kept = memory.kept(history(arms))
    assert not kept[:780].any()
    assert kept[-20:].all()


def test_only_the_arm_that_has_changed_is_forgotten():
    arms, errors = drifting([2])
    memory, seen = watched(arms, errors)
    assert 800 < seen < 1000
    kept, mine = memory.kept(history(arms[:seen])), arms[:seen] == 2
    assert kept[~mine].all()
    assert not kept[mine][:190].any()
    assert kept[mine][-8:].all()


def test_no_more_than_the_newest_rows_are_kept_where_all_arms_have_changed_slowly():
    """A small change takes many rows to show: where means go on moving, the oldest of them are out of date."""
    arms, errors = drifting([0, 1, 2, 3], n=6000, at=3000, step=0.0)
    memory, seen = watched(arms, 2.0 * errors - 0.17 * (np.arange(6000) >= 3000))
    assert memory.alarm
    assert seen > 3600
    kept = memory.kept(history(arms[:seen]))
    assert not kept[:-512].any()
    assert kept[-512:].all()


@pytest.mark.parametrize("changed", [[2], [0, 1, 2, 3]])
def test_a_model_that_stays_wrong_after_an_alarm_raises_the_next_one(changed):
    """As where the truth goes on changing: errors are compared with those of before the first change."""
    arms, errors = drifting(changed, n=3000)
    memory, seen = watched(arms, errors)
    mine = np.isin(arms, changed)
    errors[seen:][mine[seen:]] += 0.6  # the new model is less wrong
    again, later = watched(arms[seen:], errors[seen:], memory)
    assert again.alarm
    assert 20 < later < 1000
    kept = again.kept(history(arms[: seen + later]))
    assert not kept[:seen][mine[:seen]].any()


@pytest.mark.parametrize("changed", [[2], [0, 1, 2, 3]])
def test_a_model_that_is_right_again_after_an_alarm_raises_none(changed):
    arms, errors = drifting(changed, n=3000)
    memory, seen = watched(arms, errors)
    errors[seen:][np.isin(arms[seen:], changed)] += 1.0
    assert not watched(arms[seen:], errors[seen:], memory)[0].alarm


def test_a_change_may_come_within_many_rows_that_are_learned_at_once():
    arms, errors = drifting([0, 1, 2, 3], n=3000)
    memory = knowing().after(arms, errors)
    assert memory.alarm
    kept = memory.kept(history(arms))
    assert not kept[:700].any()
    assert kept[-500:].all()
    assert not memory.after(arms[:50], errors[:50]).alarm
    new = np.r_[arms, np.full(600, 4)], np.r_[errors, np.zeros(600)]
    assert knowing().after(*new).alarm


def test_arms_are_forgotten_together_where_the_model_does_not_see_them():
    arms, errors = drifting([0, 1, 2, 3])
    memory, seen = watched(arms, errors, knowing(per_arm=False))
    kept = memory.kept(history(arms[:seen]))
    assert not kept[:780].any()
    before, _ = watched(arms[:700], errors[:700], knowing(per_arm=False))
    again = Memory.restored(before.state(), "auto", history(arms[:700]), per_arm=False)
    assert repr(again.state()) == repr(before.state())


def new_arm(n=900, at=600, step=3.0):
    """Rows of three arms that never change, and of a fourth that has most of the rows from `at` on."""
    random = RANDOM(4)
    arms = np.where((np.arange(n) >= at) & (random.random(n) < 0.8), 3, random.integers(0, 3, n))
    return arms, random.normal(size=n) * 0.5 + step * (arms == 3)


def test_errors_on_an_arm_that_the_model_was_not_fitted_to_are_no_change():
    arms, errors = new_arm()
    memory, seen = watched(arms, errors, knowing(range(3)))
    assert not memory.alarm
    known = memory.fitted(history(arms[:seen]))
    assert known.after(np.array([3]), np.array([3.0])).state()["newest"][1, -1] == 3.0
    few = memory.fitted(history([0] * 20 + [3] * 7))
    assert np.isnan(few.after(np.array([3]), np.array([3.0])).state()["newest"][1, -1])


def test_arms_are_known_by_fewer_rows_where_most_have_fewer():
    arms = np.repeat(range(40), [1] * 10 + [2] * 10 + [3] * 20)
    memory = Memory("auto").fitted(history(arms))
    assert memory.state()["known"].tolist() == list(range(20, 40))
    assert memory.fitted(history([*arms, 5, 5]), new=2).state()["known"].tolist() == [5, *range(20, 40)]
    common = Memory("auto").fitted(history([*arms, *[50] * 200]))
    assert common.state()["known"].tolist() == [50]


def test_rows_that_come_one_by_one_make_an_arm_known():
    memory = knowing(range(3))
    for count in range(1, 9):
        memory = memory.fitted(history([0] * 20 + [3] * count), new=1)
        assert (3 in memory.state()["known"]) == (count == 8)


def test_an_arm_that_was_never_predicted_well_tells_nothing_of_the_others():
    arms, errors = new_arm()
    memory, seen = watched(arms, errors)
    assert memory.alarm
    assert memory.kept(history(arms[:seen]))[arms[:seen] < 3].all()


def test_an_arm_too_rare_to_be_known_is_forgotten_with_the_others():
    arms, errors = drifting([0, 1, 2])
    arms[arms == 3], arms[[100, 200, 300, 810]] = 0, 3
    memory, seen = watched(arms, errors, knowing(range(3)))
    kept = memory.kept(history(arms[:seen]))
    np.testing.assert_array_equal(kept[[100, 200, 300, 810]], [False, False, False, True])


def test_errors_without_change_and_errors_that_shrink_raise_no_alarm():
    arms, errors = drifting([])
    assert not watched(arms, errors)[0].alarm
    assert not watched(arms, errors + np.linspace(2, 0, len(errors)))[0].alarm


def test_rare_large_rewards_are_no_change():
    random = RANDOM(0)
    spent = np.where(random.random(20_000) < 0.02, random.lognormal(3.0, 1.5, 20_000), 0.0)
    errors = (spent - spent.mean()) / spent.std()
    assert errors.max() > 20
    assert not watched(random.integers(0, 3, 20_000), errors)[0].alarm


def test_nothing_of_a_memory_changes_but_what_after_gives():
    arms, errors = drifting([0])
    memory, _ = watched(arms[:100], errors[:100])
    before = repr(memory.state())
    memory.after(arms[100:200], errors[100:200])
    assert repr(memory.state()) == before


def test_a_memory_goes_on_where_it_was_saved():
    arms, errors = drifting([1, 2])
    memory, _ = watched(arms[:805], errors[:805])
    again = Memory.restored(memory.state(), "auto", history(arms[:805]))
    one, other = (each.after(arms[805:900], errors[805:900]) for each in (memory, again))
    assert one.alarm
    of = history(arms[:900])
    np.testing.assert_array_equal(one.kept(of), other.kept(of))


def test_a_memory_that_has_forgotten_goes_on_where_it_was_saved():
    arms, errors = drifting([2], n=3000)
    memory, seen = watched(arms, errors)
    rows = history(arms[:seen])
    rows, memory = rows.only(memory.kept(rows)), memory.answered()
    assert (rows.arms == 2).sum() < 100
    again = Memory.restored(memory.state(), "auto", rows)
    one, other = (watched(arms[seen:], errors[seen:], each) for each in (memory, again))
    assert one[0].alarm
    assert one[1] == other[1]
    assert repr(one[0].state()) == repr(other[0].state())


@pytest.mark.parametrize(
    "forged",
    [
        {"before": np.full(4, 10**6)},
        {"before": np.full(4, -1)},
        {"before": np.zeros(3, np.int64)},
        {"before": None},
        {"arms": np.array([0, 0, 1, 2])},
        {"arms": np.array([0, 1, 2])},
        {"newest": np.zeros((2, 2049))},
        {"newest": np.full((2, 3), 17.0)},
        {"newest": np.full((2, 3), np.nan)},
        {"known": np.array([0, 17])},
        {"known": np.array([1, 1])},
        {"fewest": 0},
        {"fewest": 9},
        {"known": None},
        {"seen": None},
    ],
)
def test_forged_memories_are_refused(forged):
    arms, errors = drifting([])
    memory, _ = watched(arms[:200], errors[:200])
    with pytest.raises(SavedFileError):
        Memory.restored({**memory.state(), **forged}, "auto", history(arms[:200]))
    with pytest.raises(SavedFileError, match="more rows"):
        Memory.restored(memory.state(), "auto", history(arms[:100]))


def turning(n=1600, at=1000, unit=1.0, width=3):
    """Rows of two arms; from `at` on, what predictions miss of arm 1 goes with the first feature, its mean still 0."""
    random = RANDOM(5)
    contexts, arms = random.normal(size=(n, width)).astype(np.float32), random.integers(0, 2, n)
    missed = 1.2 * contexts[:, 0] * ((arms == 1) & (np.arange(n) >= at))
    return contexts * np.float32(unit), arms, 0.7 * random.normal(size=n) + missed


def slopes_watched(contexts, arms, errors, memory, start=0, step=1):
    """The memory at its first alarm, and how many rows had come by then."""
    for end in range(start + step, len(arms) + 1, step):
        memory = memory.after(arms[end - step : end], errors[end - step : end], contexts[:end])
        if memory.alarm:
            break
    return memory, end


@pytest.mark.parametrize("step", [1, 7, 100, 1600])
def test_an_arm_whose_errors_go_with_features_is_forgotten(step):
    contexts, arms, errors = turning()
    assert not watched(arms, errors, knowing(range(2)))[0].alarm
    memory, seen = slopes_watched(contexts, arms, errors, knowing(range(2)), step=step)
    assert memory.alarm
    assert 1000 < seen < max(1150, 1000 + step + 1)
    kept, mine = memory.kept(history(arms[:seen])), arms[:seen] == 1
    assert kept[~mine].all()
    assert not kept[mine & (np.arange(seen) < 960)].any()
    assert kept[mine][-16:].all()


def test_slopes_of_errors_do_not_depend_on_the_unit_of_features():
    one, other = (slopes_watched(*turning(unit=unit), knowing(range(2)))[1] for unit in (1.0, 2.0**20))
    assert one == other < 1150


def test_without_change_errors_go_with_no_features():
    assert not slopes_watched(*turning(n=6000, at=6000), knowing(range(2)))[0].alarm


def test_slopes_of_wide_rows_are_not_watched():
    assert slopes_watched(*turning(width=32), knowing(range(2)))[0].alarm
    assert not slopes_watched(*turning(width=33), knowing(range(2)))[0].alarm


def test_errors_stay_those_of_their_rows_once_an_arm_is_forgotten():
    contexts, arms, errors = turning()
    memory, seen = slopes_watched(contexts, arms, errors, knowing(range(2)))
    of = history(arms[:seen])
    kept, newest = of.only(memory.kept(of)), memory.answered().state()["newest"]
    np.testing.assert_array_equal(newest[0], kept.arms[-newest.shape[1] :])
    finite = np.isfinite(newest[1])
    place = kept.rewards[-newest.shape[1] :].astype(int)
    np.testing.assert_array_equal(newest[1, finite], errors[place][finite])
    assert not finite[-32:].any()
    again = Memory.restored(memory.answered().state(), "auto", kept)
    assert repr(again.state()) == repr(memory.answered().state())


def test_saved_errors_of_rows_that_were_dropped_are_left_out():
    arms, errors = drifting([])
    memory, _ = watched(arms[:200], errors[:200])
    other = {**memory.state(), "newest": memory.state()["newest"][:, ::-1].copy()}
    assert Memory.restored(other, "auto", history(arms[:200])).state()["newest"].shape == (2, 0)


def test_a_forgetting_ridge_is_a_ridge_fitted_to_the_rows_kept():
    random = RANDOM(0)
    model = Forgetting(Ridge, 100)
    for _ in range(50):
        x, arms = random.normal(size=9), random.integers(0, 2, 9)
        model.prepared(rows(x, arms), x * arms, t=1, random=random)()
        kept = len(model.history)
        assert kept <= 100 * 1.125 + 9
    fitted = Ridge()
    fitted.learn(model.history.rows(COLUMNS), model.history.rewards)
    asked = rows([0.5, 0.5], [0, 1])
    assert kept >= 100
    np.testing.assert_allclose(model.estimate(asked).mean, fitted.estimate(asked).mean, atol=1e-9)
