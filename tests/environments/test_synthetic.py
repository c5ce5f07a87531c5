import numpy as np
import pytest

from treebandit.environments import DescribedArms, Synthetic
from treebandit.errors import ChoiceError, InputError, ParameterError, RoundError

PROBLEMS = [
    Synthetic("linear", seed=1),
    Synthetic("linear", rewards="continuous", noise=0.3, seed=1),
    Synthetic("interactions", features=10, seed=1),
    Synthetic("interactions", rewards="continuous", drift=1.0, change_every=100, seed=1),
    Synthetic("linear", change_every=300, change="gradual", seed=1),
    Synthetic("interactions", change_every=300, change="one_arm", seed=1),
    DescribedArms(seed=1),
    DescribedArms(slots=4, rewards="continuous", seed=1),
]


def truth(environment, candidates):
    if isinstance(environment, Synthetic):
        return environment.means(candidates.contexts[0])
    return environment.means(candidates.contexts)


@pytest.mark.parametrize("environment", PROBLEMS, ids=repr)
def test_regret_and_rewards_follow_the_true_means(environment):
    random, errors = np.random.default_rng(0), []
    slots = getattr(environment, "slots", 1)
    for _ in range(1500):
        this_round = environment.observe()
        means = truth(environment, this_round.candidates)
        choice = this_round.oracle(random.random(len(means)))
        outcome = environment.pull(choice)
        assert len(choice) == len(outcome.rewards) == slots
        assert outcome.regret == pytest.approx(np.sort(means)[-slots:].sum() - means[choice].sum(), abs=1e-9)
        errors.extend(outcome.rewards - means[choice])
    assert np.mean(errors) == pytest.approx(0.0, abs=4 * np.std(errors) / np.sqrt(len(errors)))
    best = this_round.oracle(truth(environment, environment.observe().candidates))
    assert environment.pull(best).regret == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("make", [Synthetic, DescribedArms])
def test_one_seed_one_problem_whatever_is_chosen(make):
    one, other, third = make(seed=5), make(seed=5), make(seed=6)
    for position in range(20):
        contexts = one.observe().candidates.contexts
        np.testing.assert_array_equal(contexts, other.observe().candidates.contexts)
        assert (contexts != third.observe().candidates.contexts).any()
        one.pull(np.array([0]))
        other.pull(np.array([position % 3]))
        third.pull(np.array([0]))


def test_only_the_informative_features_matter():
    environment = Synthetic("interactions", features=6, informative=2, seed=0)
    row = np.float32([0.5, -0.5, 0.1, 0.2, 0.3, 0.4])
    changed = row.copy()
    changed[2:] *= -3
    np.testing.assert_array_equal(environment.means(row), environment.means(changed))
    changed[0] *= -1
    assert (environment.means(row) != environment.means(changed)).all()


def test_arms_swap_their_truths_on_time():
    environment, row = Synthetic(arms=6, change_every=10, seed=0), np.ones(8, dtype=np.float32)
    seen = []
    for _ in range(30):
        environment.observe()
        seen.append(tuple(environment.means(row)))
        environment.pull(np.array([0]))
    assert len(set(seen[:10])) == len(set(seen[10:20])) == 1
    assert seen[0] != seen[10]
    assert sorted(seen[0]) == sorted(seen[10])


def test_drift_moves_the_contexts():
    def centre(drift):
        environment = Synthetic(drift=drift, seed=0)
        rows = []
        for _ in range(600):
            rows.append(environment.observe().candidates.contexts[0])
            environment.pull(np.array([0]))
        return np.linalg.norm(np.mean(rows[400:], axis=0))

    assert centre(3.0) > 5 * centre(0.0)


@pytest.mark.parametrize(
    ("make", "arguments"),
    [
        (Synthetic, {"problem": "cubic"}),
        (Synthetic, {"rewards": "ordinal"}),
        (Synthetic, {"arms": 0}),
        (Synthetic, {"informative": 9}),
        (Synthetic, {"noise": -0.1}),
        (Synthetic, {"change_every": 0}),
        (Synthetic, {"problem": ["linear"]}),
        (Synthetic, {"rewards": None}),
        (Synthetic, {"arms": "4"}),
        (Synthetic, {"features": 2.0}),
        (Synthetic, {"noise": "0.1"}),
        (Synthetic, {"noise": np.nan}),
        (Synthetic, {"drift": None}),
        (Synthetic, {"drift": np.inf}),
        (Synthetic, {"drift": 1e300}),
        (Synthetic, {"noise": 1e300}),
        (Synthetic, {"seed": "abc"}),
        (Synthetic, {"change_every": "often"}),
        (Synthetic, {"arms": 10**30}),
        (Synthetic, {"features": 10**9}),
        (DescribedArms, {"arms": [200]}),
        (DescribedArms, {"arms": 10**12}),
        (DescribedArms, {"seed": -3}),
        (DescribedArms, {"offered": 300}),
        (DescribedArms, {"slots": 21}),
    ],
)
def test_wrong_arguments(make, arguments):
    with pytest.raises(ParameterError):
        make(**arguments)


def test_wrong_choices():
    environment = DescribedArms(slots=2, seed=0)
    with pytest.raises(RoundError, match="call observe"):
        environment.pull(np.array([0, 1]))
    environment.observe()
    for choice in ([0], [1, 1], [0, -1], [0, 20], [0.0, 1.0], ["0", "1"], None, 3, "ab", [[0, 1]]):
        with pytest.raises(ChoiceError):
            environment.pull(choice)
    environment.pull([0, 1])
    with pytest.raises(RoundError, match="call observe"):
        environment.pull([0, 1])


@pytest.mark.parametrize("make", [Synthetic, DescribedArms])
def test_observing_twice_shows_the_same_round(make):
    environment, twin = make(seed=5), make(seed=5)
    for _ in range(5):
        rounds = [environment.observe() for _ in range(3)]
        contexts = twin.observe().candidates.contexts
        assert all(np.array_equal(this.candidates.contexts, contexts) for this in rounds)
        mine, others = environment.pull([0]), twin.pull([0])
        assert (mine.rewards.tolist(), mine.regret) == (others.rewards.tolist(), others.regret)


@pytest.mark.parametrize(
    "contexts", [np.ones(3), np.ones((2, 3)), "a", None, [["a"]], np.ones((2, 2, 8)), 3.0]
)
def test_means_of_contexts_of_another_shape(contexts):
    for environment in (Synthetic(seed=0), DescribedArms(seed=0)):
        with pytest.raises(InputError, match="contexts"):
            environment.means(contexts)


def truths(change, rounds, problem="linear", **settings):
    """What all arms pay for one context, round by round."""
    environment = Synthetic(problem, arms=4, features=5, change_every=10, change=change, seed=3, **settings)
    row, found = np.float32([0.5, -0.5, 0.1, 0.2, 0.3]), []
    for _ in range(rounds):
        environment.observe()
        found.append(environment.means(row))
        environment.pull(np.array([0]))
    return np.array(found)


@pytest.mark.parametrize("problem", ["linear", "interactions"])
def test_truths_change_when_they_should(problem):
    swap, gradual, recurring, one = (
        truths(change, 30, problem) for change in ("swap", "gradual", "recurring", "one_arm")
    )
    for each in (swap, recurring, one):
        steps = np.abs(np.diff(each, axis=0)).sum(1) > 0
        assert set(np.flatnonzero(steps)) <= {9, 19}
        assert steps.any()
    np.testing.assert_array_equal(np.sort(swap[0]), np.sort(swap[25]))
    np.testing.assert_array_equal(recurring[0], recurring[25])
    assert (recurring[0] != recurring[15]).all()
    assert (one[0] != one[15]).sum() == 1
    np.testing.assert_allclose(gradual[[0, 9, 19]], swap[[0, 9, 15]])
    np.testing.assert_allclose(np.diff(gradual[9:20], axis=0), (swap[15] - swap[5])[None].repeat(10, 0) / 10)


def test_new_arms_are_offered_one_by_one():
    environment, offered = Synthetic(arms=3, change_every=10, change="new_arms", seed=0), []
    for _ in range(40):
        offered.append(environment.observe().candidates.arms.tolist())
        assert environment.pull(np.array([0])).regret >= 0
    assert offered[0] == offered[9] == [0]
    assert offered[10] == [0, 1]
    assert offered[20] == offered[39] == [0, 1, 2]


def test_unknown_changes_are_refused():
    with pytest.raises(ParameterError, match="change"):
        Synthetic(change="sudden")
