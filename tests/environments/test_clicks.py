import numpy as np
import pytest

from treebandit.environments import Clicks
from treebandit.errors import ChoiceError, ParameterError, ShapeError


@pytest.mark.parametrize("kind", ["discrete", "numbers", "three-way"])
@pytest.mark.parametrize("spend", [False, True])
def test_rewards_and_regret_follow_the_true_means(kind, spend):
    environment = Clicks(kind, arms=4, lowest=0.2, highest=0.6, spend=spend, seed=0)
    errors = []
    for place in range(3000):
        means = environment.means(environment.observe().candidates.contexts[0])
        assert ((means >= 0.2) & (means <= 0.6)).all()
        outcome = environment.pull(np.array([place % 4]))
        assert outcome.regret == pytest.approx(means.max() - means[place % 4])
        errors.append(outcome.rewards[0] - means[place % 4])
    assert np.mean(errors) == pytest.approx(0.0, abs=4 * np.std(errors) / np.sqrt(len(errors)))
    assert (np.max(errors) > 2.0) == spend


@pytest.mark.parametrize(
    ("kind", "categories", "numbers", "sums"),
    [("discrete", True, False, True), ("numbers", True, True, True), ("three-way", True, False, False)],
)
def test_what_the_kinds_depend_on(kind, categories, numbers, sums):
    environment = Clicks(kind, seed=3)

    def effects(*row):
        rates = (environment.means(np.float32(row)) - 0.01) / 0.07
        return 1.0 + np.log(rates / (1.0 - rates))

    base = effects(0, 0, 0, 0, 0, 0)
    assert np.allclose(base, effects(1, 0, 0, 0, 0, 0)) != categories
    assert np.allclose(base, effects(0, 0, 0, 0, 1, -1)) != numbers
    together = effects(1, 1, 0, 0, 0, 0) - effects(0, 1, 0, 0, 0, 0)
    assert np.allclose(together, effects(1, 0, 0, 0, 0, 0) - base, atol=1e-6) == sums


def test_one_seed_one_problem_whatever_is_chosen():
    one, other, third = (Clicks(seed=seed) for seed in (5, 5, 6))
    rewards = []
    for place in range(50):
        contexts = one.observe().candidates.contexts
        np.testing.assert_array_equal(contexts, other.observe().candidates.contexts)
        np.testing.assert_array_equal(one.means(contexts[0]), other.means(contexts[0]))
        assert (contexts != third.observe().candidates.contexts).any()
        rewards.append([one.pull([0]).rewards[0], other.pull([0]).rewards[0]])
        third.pull([place % 10])
    assert all(mine == others for mine, others in rewards)


@pytest.mark.parametrize(
    "arguments",
    [
        {"kind": "other"},
        {"arms": 0},
        {"lowest": 0.5, "highest": 0.1},
        {"highest": 2.0},
        {"spend": 1},
        {"seed": -1},
    ],
)
def test_what_cannot_be_is_refused(arguments):
    with pytest.raises(ParameterError):
        Clicks(**arguments)


def test_choices_and_rows_that_cannot_be_are_refused():
    environment = Clicks(seed=0)
    environment.observe()
    with pytest.raises(ChoiceError):
        environment.pull([0, 1])
    with pytest.raises(ShapeError):
        environment.means(np.zeros(5))
