import numpy as np
import polars as pl
import pytest

from treebandit.core import play_round
from treebandit.datasets import load
from treebandit.datasets.labelled import encode
from treebandit.environments import Classification
from treebandit.environments.classification import BLOCK
from treebandit.errors import ChoiceError, DataError, InputError, ParameterError, RoundError


class Fixed:
    """Always the same arm."""

    def __init__(self, arm):
        self.arm, self.seen = arm, []

    def score(self, candidates):
        self.seen.append(candidates.contexts[0].copy())
        return (np.arange(len(candidates)) == self.arm).astype(float)

    def learn(self, chosen, rewards):
        self.last = chosen, rewards


class Even:
    """Equal scores, so that the oracle draws the arm."""

    def score(self, candidates):
        return np.zeros(len(candidates))

    def learn(self, chosen, rewards):
        pass


def small(rows=BLOCK + 44, classes=3):
    return encode(pl.DataFrame({"x": range(rows), "y": [row % classes for row in range(rows)]}), "y")


def test_every_row_once_and_rewards_from_its_class():
    table = small()
    environment = Classification(table, seed=4)
    agent, regret = Fixed(1), 0.0
    for _ in range(environment.horizon):
        choice, outcome = play_round(agent, environment)
        chosen, rewards = agent.last
        right = int(chosen.contexts[0, 0]) % 3 == 1
        assert choice.tolist() == chosen.arms.tolist() == [1]
        assert rewards.tolist() == outcome.rewards.tolist() == [float(right)]
        assert outcome.regret == 1.0 - right
        regret += outcome.regret
    shown = [row[0] for row in agent.seen]
    assert sorted(shown) == table.contexts[:, 0].tolist()
    assert shown != sorted(shown)
    assert regret == 200
    with pytest.raises(InputError, match="all 300 rows have been shown"):
        environment.observe()


def test_all_arms_are_candidates_with_the_same_context():
    environment = Classification("shuttle", seed=0)
    candidates = environment.observe().candidates
    assert candidates.contexts.shape == (7, 9)
    assert candidates.contexts.dtype == np.float32
    assert candidates.contexts.flags.c_contiguous
    assert (candidates.contexts == candidates.contexts[0]).all()
    assert candidates.arms.tolist() == list(range(7))
    assert len(candidates.columns) == 9


def test_observing_twice_shows_the_same_round():
    environment = Classification("magic", seed=0)
    first, again = environment.observe(), environment.observe()
    np.testing.assert_array_equal(first.candidates.contexts, again.candidates.contexts)


def test_rounds_do_not_depend_on_the_agent_or_on_ties():
    even, fixed = Classification("mushroom", seed=3), Classification("mushroom", seed=3)
    for _ in range(400):
        one, other = even.observe(), fixed.observe()
        np.testing.assert_array_equal(one.candidates.contexts, other.candidates.contexts)
        even.pull(one.oracle(np.zeros(2)))
        fixed.pull(np.array([0]))
    other_seed = Classification("mushroom", seed=4)
    assert (other_seed.observe().candidates.contexts != one.candidates.contexts).any()


@pytest.mark.parametrize("name", ["adult", "shuttle"])
def test_regret_of_a_uniform_agent_is_its_expectation(name):
    environment, rounds = Classification(name, seed=1), 6000
    regret = sum(play_round(Even(), environment)[1].regret for _ in range(rounds))
    arms = len(load(name).classes)
    sd = np.sqrt(rounds * (1 - 1 / arms) / arms)
    assert abs(regret - rounds * (1 - 1 / arms)) < 4 * sd


def test_flip_noise_keeps_the_regret_expected():
    environment = Classification("mushroom", flip_noise=0.2, seed=0)
    outcomes = [play_round(Fixed(0), environment)[1] for _ in range(5000)]
    assert sorted({outcome.regret for outcome in outcomes}) == pytest.approx([0.0, 0.6])
    wrong = [outcome.rewards[0] for outcome in outcomes if outcome.regret > 0]
    right = [outcome.rewards[0] for outcome in outcomes if outcome.regret == 0]
    assert np.mean(wrong) == pytest.approx(0.2, abs=4 * 0.4 / np.sqrt(len(wrong)))
    assert np.mean(right) == pytest.approx(0.8, abs=4 * 0.4 / np.sqrt(len(right)))


def test_gaussian_noise_leaves_rounds_and_regret_alone():
    noisy, plain = (Classification("magic", gaussian_noise=noise, seed=2) for noise in (0.5, 0.0))
    errors = []
    for _ in range(2000):
        one, other = play_round(Fixed(0), noisy)[1], play_round(Fixed(0), plain)[1]
        assert one.regret == other.regret
        errors.append(one.rewards[0] - other.rewards[0])
    assert np.std(errors) == pytest.approx(0.5, rel=0.1)
    assert np.mean(errors) == pytest.approx(0.0, abs=4 * 0.5 / np.sqrt(2000))


def test_a_table_of_ones_own(tmp_path):
    path = tmp_path / "my.csv"
    path.write_text("x,colour,y\n1,red,no\n2,blue,yes\n3,red,no\n")
    environment = Classification(csv=str(path), label="y", seed=0)
    assert environment.horizon == 3
    assert environment.classes == ("no", "yes")
    assert environment.columns.categories == (0, 2)
    path.write_text("x,y\n1,a\n2,b\n")
    with pytest.raises(DataError, match="no column 'z'"):
        Classification(csv=str(path), label="z")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "nothing given"),
        ({"data": "adult", "csv": "my.csv"}, "data and csv given"),
        ({"data": "adult", "label": "y"}, "leave it out with data"),
        ({"csv": "my.csv"}, "without label"),
        ({"data": "adult", "label": 3}, "leave it out with data"),
        ({"data": 3}, "data is 3; give the name"),
        ({"data": ["adult"]}, "data is .*; give the name"),
        ({"csv": 3, "label": "y"}, "csv is 3; give text"),
        ({"parquet": "my.parquet", "label": ["y"]}, "label is .*; give text"),
        ({"csv": "my.csv", "label": "y", "sha256": 3}, "sha256 is 3; give text"),
        ({"data": "adult", "seed": "abc"}, "seed is 'abc'; give a whole number"),
        ({"data": "adult", "seed": -1}, "seed is -1"),
        ({"data": "adult", "flip_noise": "0.1"}, "flip_noise is '0.1'; give a finite number"),
        ({"data": "adult", "gaussian_noise": np.nan}, "gaussian_noise is nan"),
        ({"data": "adult", "flip_noise": 0.7}, "flip_noise is 0.7"),
        ({"data": "adult", "gaussian_noise": -1.0}, "gaussian_noise is -1.0"),
    ],
)
def test_wrong_arguments(arguments, message):
    with pytest.raises(ParameterError, match=message):
        Classification(**arguments)


def test_wrong_choices_leave_the_round_open():
    environment = Classification(small(), seed=0)
    with pytest.raises(RoundError, match="call observe"):
        environment.pull(np.array([0]))
    shown = environment.observe()
    for choice in ([], [0, 1], [3], [-1], [0.0], [True], "a", None, 0, [[0]], [[0], [1, 2]], {"a": 1}, ["0"]):
        with pytest.raises(ChoiceError, match="choice .*; "):
            environment.pull(choice)
    assert environment.observe() is shown
    environment.pull([2])
    with pytest.raises(RoundError, match="call observe"):
        environment.pull([2])


def test_decimals_are_cut_off_towards_zero():
    plain, cut, tenths = (Classification("magic", decimals=d, seed=0) for d in (None, 0, 1))
    rows = plain.observe().candidates.contexts
    np.testing.assert_array_equal(cut.observe().candidates.contexts, np.trunc(rows))
    np.testing.assert_allclose(tenths.observe().candidates.contexts, np.trunc(rows * 10.0) / 10.0, atol=1e-5)
    with pytest.raises(ParameterError, match="decimals is -1"):
        Classification("magic", decimals=-1)


def test_rows_in_the_order_of_the_table():
    table, agent = small(40), Fixed(0)
    environment = Classification(table, shuffle=False, seed=4)
    for _ in range(40):
        play_round(agent, environment)
    assert [row[0] for row in agent.seen] == table.contexts[:, 0].tolist()


def test_classes_pay_for_the_next_arm_after_a_change():
    table, agent = small(40), Fixed(0)
    environment = Classification(table, shuffle=False, change_every=15, seed=4)
    regrets = [play_round(agent, environment)[1].regret for _ in range(40)]
    assert [regret == 0.0 for regret in regrets] == [(row % 3 + row // 15) % 3 == 0 for row in range(40)]
    with pytest.raises(ParameterError, match="change_every"):
        Classification(table, change_every=0)
    with pytest.raises(ParameterError, match="shuffle"):
        Classification(table, shuffle="no")
