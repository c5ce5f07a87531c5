import os
from functools import partial

import numpy as np
import pytest
from small_roads import SQUARE, network

from treebandit.checks import check_environment
from treebandit.core import Environment, play_round
from treebandit.datasets.roads import random_pairs, read_roads, roads_checksum
from treebandit.environments import Delayed, Navigation
from treebandit.environments.navigation import FINAL_TIME, INSTANCES, NAMES
from treebandit.errors import ChoiceError, ParameterError, RoadsError, RoundError
from treebandit.experiments import load_study

HOURS = [3 * 3600.0, 8 * 3600.0]


@pytest.fixture
def square():
    """By b at 3 h (11 s), by c at 8 h (22 s against 105 s); of the two edges a -> b the second is faster."""
    day = [
        [(HOURS[0], 9.0), (HOURS[1], 99.0)],
        [(HOURS[0], 6.0), (HOURS[1], 100.0)],
        [(HOURS[0], 5.0), (HOURS[1], 5.0)],
        [(HOURS[0], 11.0), (HOURS[1], 11.0)],
        [(HOURS[0], 11.0), (HOURS[1], 11.0)],
        [],
    ]
    return network(SQUARE, day)


def on_the_day(environment, rounds=40):
    """Times, scores and outcomes of a driver who draws random positive costs."""
    random = np.random.default_rng(0)
    seen = []
    for _ in range(rounds):
        this = environment.observe()
        choice = this.oracle(-random.random(len(this.candidates)))
        outcome = environment.pull(choice)
        seen.append((environment.time, choice.tolist(), outcome.rewards.tolist(), outcome.regret))
    return seen


def test_contexts_are_the_papers_twelve_variables(square):
    environment = Navigation("a", "d", roads=square, seed=0)
    candidates = environment.observe().candidates
    assert isinstance(environment, Environment)
    assert candidates.contexts.shape == (6, 12)
    assert candidates.contexts.dtype == np.float32
    assert candidates.columns.names == NAMES
    assert candidates.arms.tolist() == list(range(6))
    tail, head = square.positions[0], square.positions[1]
    expected = [*tail, *head, *np.abs(tail - head), 10.0, 0.0, environment.time]
    np.testing.assert_allclose(candidates.contexts[0], expected, rtol=1e-6)


def test_only_the_time_changes_and_old_rounds_stay_as_they_were(square):
    environment = Navigation("a", "d", roads=square, seed=0)
    first = environment.observe()
    kept = first.candidates.contexts.copy()
    environment.pull(first.oracle(-np.ones(6)))
    second = environment.observe()
    assert np.array_equal(first.candidates.contexts, kept)
    assert np.array_equal(second.candidates.contexts[:, :-1], kept[:, :-1])
    assert second.candidates.contexts[0, -1] != kept[0, -1]


def test_the_best_path_depends_on_the_time_of_day(square):
    environment = Navigation("a", "d", roads=square, seed=0)
    assert environment.best_path(HOURS[0]).tolist() == [1, 2]
    assert environment.best_path(HOURS[1]).tolist() == [3, 4]
    assert environment.expected_times(HOURS[1])[5] == pytest.approx(square.lengths[5] / 10, rel=1e-4)


def test_regret_is_expected_time_above_the_best_path(square):
    environment = Navigation("a", "d", roads=square, seed=3)
    for _ in range(30):
        this = environment.observe()
        expected = environment.expected_times()
        paths = [[0, 2], [1, 2], [3, 4]]
        chosen = paths[int(environment.time) % 3]
        outcome = environment.pull(np.array(chosen))
        best = min(expected[path].sum() for path in paths)
        assert outcome.regret == pytest.approx(expected[chosen].sum() - best, abs=1e-9)
        assert outcome.rewards.shape == (2,)
        assert (outcome.rewards < 0).all()
        assert len(this.candidates) == 6


def test_who_knows_the_expectations_has_no_regret(square):
    environment = Navigation("a", "d", roads=square, seed=1)

    class Knowing:
        def score(self, candidates):
            return -environment.expected_times()

        def learn(self, chosen, rewards):
            assert len(chosen) == len(rewards)

    assert sum(play_round(Knowing(), environment)[1].regret for _ in range(50)) == 0.0


def test_rewards_average_to_the_expected_times(square):
    environment = Navigation("a", "d", roads=square, seed=5)
    seconds, expected = [], []
    for _ in range(3000):
        environment.observe()
        expected.append(environment.expected_times()[[3, 4]])
        seconds.append(-environment.pull(np.array([3, 4])).rewards)
    np.testing.assert_allclose(np.mean(seconds, axis=0), np.mean(expected, axis=0), rtol=0.02)


def test_the_seed_decides_everything(square):
    first, again, other = (on_the_day(Navigation("a", "d", roads=square, seed=s)) for s in (7, 7, 8))
    assert first == again
    assert [row[0] for row in first] != [row[0] for row in other]


def test_all_drivers_of_one_seed_meet_the_same_times(square):
    one, other = (Navigation("a", "d", roads=square, seed=7) for _ in range(2))
    for turn in range(30):
        one.observe()
        other.observe()
        assert one.time == other.time
        common = one.pull(np.array([1, 2])).rewards
        met = other.pull(np.array([1, 2] if turn % 3 == 0 else [3, 4])).rewards
        if turn % 3 == 0:
            assert np.array_equal(common, met)


def test_observing_twice_shows_the_same_round(square):
    environment = Navigation("a", "d", roads=square, seed=0)
    first, second = environment.observe(), environment.observe()
    assert np.array_equal(first.candidates.contexts, second.candidates.contexts)


def test_a_closed_road_is_no_candidate(square):
    environment = Navigation("a", "d", roads=square, seed=0, closures={"bd2": [2, 3]})
    arms = []
    for _ in range(4):
        this = environment.observe()
        arms.append(this.candidates.arms.tolist())
        choice = this.oracle(np.where(this.candidates.arms == 2, -0.1, -1.0))
        driven = this.candidates.arms[choice].tolist()
        outcome = environment.pull(choice)
        assert driven == ([3, 4] if len(arms) in (2, 3) else [0, 2])
        if len(arms) in (2, 3):
            assert outcome.regret == 0.0
    assert arms == [[0, 1, 2, 3, 4, 5], [0, 1, 3, 4, 5], [0, 1, 3, 4, 5], [0, 1, 2, 3, 4, 5]]


@pytest.mark.parametrize(
    ("closures", "number"), [({"bd2": [1, 1], "cd4": [1, 1]}, 1), ({"bd2": [2, 7], "cd4": [7, 9]}, 7)]
)
def test_closures_that_cut_the_target_off_are_refused_before_the_first_round(square, closures, number):
    with pytest.raises(ParameterError, match=f"closures: in round {number} no path leads from 'a' to 'd'"):
        Navigation("a", "d", roads=square, closures=closures)


def test_closures_of_all_edges_are_refused_before_the_first_round(square):
    every = dict.fromkeys(square.edge_names, (4, 4))
    with pytest.raises(ParameterError, match="closures: in round 4 none of the 6 edges is open"):
        Navigation("a", "d", roads=square, closures=every)


def test_negative_and_zero_predictions_still_give_a_path(square):
    environment = Navigation("a", "d", roads=square, seed=0)
    this = environment.observe()
    assert this.oracle(np.array([0.0, 5.0, 1.0, 0.0, 2.0, 3.0])).tolist() in ([0, 2], [1, 2], [3, 4])


NO_PATHS = [[], [3], [2, 1], [3, 2], [1, 2, 5], [1, 99], [-1, 2], [0.5, 1.0], [[1, 2]]]


@pytest.mark.parametrize("choice", NO_PATHS)
def test_what_is_no_path_is_refused_and_the_round_stays_open(square, choice):
    environment = Navigation("a", "d", roads=square, seed=0)
    environment.observe()
    with pytest.raises(ChoiceError):
        environment.pull(np.array(choice))
    assert len(environment.pull(np.array([1, 2])).rewards) == 2


def test_a_pull_needs_a_round(square):
    environment = Navigation("a", "d", roads=square, seed=0)
    with pytest.raises(RoundError, match="observe"):
        environment.pull(np.array([1, 2]))
    environment.observe()
    environment.pull([1, 2])
    with pytest.raises(RoundError, match="observe"):
        environment.pull([1, 2])


def test_bad_arguments_are_refused(square, monkeypatch):
    with pytest.raises(RoadsError, match="no node 'x'"):
        Navigation("a", "x", roads=square)
    with pytest.raises(RoadsError, match="no edge 'zz'"):
        Navigation("a", "d", roads=square, closures={"zz": [1, 2]})
    for rounds in ([3, 2], [1], [1, 2, 3], ["1", "2"], "12", None, 3, [0, 2], [1.0, 2.0], [True, 2], {1, 2}):
        with pytest.raises(ParameterError, match=r"closures\['bd2'\] is .*; give the first and the last"):
            Navigation("a", "d", roads=square, closures={"bd2": rounds})
    for closures in (None, ["bd2"], "bd2", 3):
        with pytest.raises(ParameterError, match="closures is"):
            Navigation("a", "d", roads=square, closures=closures)
    for name, value in (("start", 3), ("end", None), ("start", ["a"]), ("seed", "abc"), ("sha256", 3)):
        with pytest.raises(ParameterError, match=f"{name} is"):
            Navigation(**{"start": "a", "end": "d", "roads": square, name: value})
    for roads in (3, ["small-town"], b"x", np.ones(2)):
        with pytest.raises(RoadsError, match="roads is .*; give"):
            Navigation("a", "d", roads=roads)
    for time in ("8", np.nan, [1.0]):
        with pytest.raises(ParameterError, match="time is"):
            Navigation("a", "d", roads=square).best_path(time)
    with pytest.raises(ParameterError, match="navigation-1"):
        Navigation.instance("navigation-9")
    monkeypatch.delenv("TREEBANDIT_ROADS", raising=False)
    with pytest.raises(RoadsError, match="TREEBANDIT_ROADS"):
        Navigation("a", "d")


def test_the_shipped_town_has_time_dependent_paths():
    environment = Navigation("B2", "K3", roads="small-town", seed=0)
    paths = {tuple(environment.best_path(hour * 3600.0)) for hour in range(24)}
    assert len(paths) > 1
    assert all(regret >= 0 for *_, regret in on_the_day(environment))


@pytest.fixture(scope="module")
def luxembourg():
    if not os.environ.get("TREEBANDIT_ROADS"):
        pytest.skip("TREEBANDIT_ROADS is not set: no Luxembourg road network to test on")
    network = read_roads()
    if not {node for pair in INSTANCES.values() for node in pair} <= set(network.node_names):
        pytest.skip("TREEBANDIT_ROADS names another road network than Luxembourg's")
    return network


def test_luxembourg_has_the_papers_size(luxembourg):
    assert abs(len(luxembourg) - 5651) < 150
    assert abs(len(set(luxembourg.starts.tolist())) - 2247) < 50


@pytest.mark.parametrize(
    ("name", "edges", "seconds"),
    [("navigation-1", (55, 56), (655, 832)), ("navigation-2", (31, 41), (558, 706))],
)
def test_the_two_instances_are_as_documented(luxembourg, name, edges, seconds):
    environment = Navigation.instance(name, seed=0)
    for hour, length, time in zip((3, 8), edges, seconds, strict=True):
        path = environment.best_path(hour * 3600.0)
        assert len(path) == length
        assert environment.expected_times(hour * 3600.0)[path].sum() == pytest.approx(time, rel=0.05)
    assert all(regret >= 0 for *_, regret in on_the_day(environment, rounds=5))


def test_the_random_pairs_of_the_study_are_drawn_as_it_says(luxembourg):
    study = load_study("navigation-random")
    pairs = [(table["start"], table["end"]) for table in study.environments]
    assert pairs == random_pairs(luxembourg, 20, apart=6000, seed=0)


def test_the_study_has_the_two_instances():
    study = load_study("paper-navigation")
    assert {table["name"]: (table["start"], table["end"]) for table in study.environments} == INSTANCES


def test_contracts_hold_with_and_without_closures():
    town = partial(Navigation, "B2", "K3", roads="small-town", seed=0)
    check_environment(town)
    check_environment(partial(town, closures={"B2B3": [2, 4]}))


def test_rewards_may_come_late(square):
    environment = Delayed(Navigation("a", "d", roads=square, seed=0), batch=3)
    seen = []
    for _ in range(3):
        this = environment.observe()
        seen.append(environment.pull(this.oracle(-np.ones(6))).feedback)
    assert [len(feedback.rewards) for feedback in seen] == [0, 0, 6]


def test_the_checksum_of_the_folder_is_looked_at():
    found = roads_checksum("small-town")
    assert len(Navigation("B2", "K3", roads="small-town", sha256=found).network)
    with pytest.raises(RoadsError, match="expected 000000"):
        Navigation("B2", "K3", roads="small-town", sha256="0" * 64)


def test_noise_is_the_share_of_the_deviation_that_is_seen(square):
    whole, part, none = (
        Navigation("a", "d", roads=square, seed=5, noise=noise) for noise in (1.0, 0.25, 0.0)
    )
    for _ in range(20):
        seconds = []
        for environment in (whole, part, none):
            environment.observe()
            seconds.append(-environment.pull([3, 4]).rewards)
        expected = whole.expected_times()[[3, 4]]
        np.testing.assert_allclose(seconds[2], expected)
        np.testing.assert_allclose(seconds[1] - expected, 0.25 * (seconds[0] - expected), atol=1e-9)
        assert whole.time == part.time == none.time


def test_interval_means_smooth_single_drives():
    drives = [[(HOURS[1] + 60.0 * i, 20.0 if i % 2 else 10.0) for i in range(40)]] * 6
    roads = network(SQUARE, drives)
    single, means = (
        Navigation("a", "d", roads=roads, seed=1, **more)
        for more in ({}, {"traversals": "interval means", "interval": 15})
    )
    seen = {single: [], means: []}
    for environment, seconds in seen.items():
        for _ in range(300):
            environment.observe()
            seconds.extend(-environment.pull([3, 4]).rewards)
    assert np.std(seen[single]) > 4 * np.std(seen[means])
    assert np.mean(seen[means]) == pytest.approx(15.0, abs=0.5)
    np.testing.assert_allclose(means.expected_times(HOURS[1]), single.expected_times(HOURS[1]), rtol=0.05)
    assert means.network is single.network


@pytest.mark.parametrize(
    "arguments",
    [
        {"noise": -0.1},
        {"noise": 1.5},
        {"noise": "all"},
        {"traversals": "means"},
        {"interval": 0},
        {"interval": 3000},
        {"interval": None},
    ],
)
def test_noise_and_traversals_are_checked(square, arguments):
    with pytest.raises(ParameterError, match=f"{next(iter(arguments))} is"):
        Navigation("a", "d", roads=square, **arguments)


def test_the_study_of_noise_varies_what_drivers_see():
    study = load_study("navigation-noise")
    kept = {(e["start"], e.get("noise", 1.0), e.get("interval")) for e in study.environments}
    settings = [(0.0, None), (0.3, None), (1.0, None), (1.0, 15), (1.0, 60)]
    assert kept == {(start, *setting) for start, _ in INSTANCES.values() for setting in settings}
    assert {"TEUCB-XGBoost", "TETS-RF", "NeuralTS", "LinTS", "TreeBootstrap-DT"} <= {
        a["name"] for a in study.agents
    }


def test_of_equally_long_paths_one_is_drawn():
    environment, twin = (Navigation("B2", "K3", roads="small-town", seed=0) for _ in range(2))
    seen = set()
    for _ in range(20):
        this, other = environment.observe(), twin.observe()
        equal = np.full(len(this.candidates), -10.0)
        path = this.oracle(equal)
        seen.add(tuple(path))
        environment.pull(path)
        np.testing.assert_array_equal(this.candidates.contexts, other.candidates.contexts)
        twin.pull(twin.best_path(0.0))
    assert len(seen) > 1


def test_final_candidates_are_all_edges_at_one_time(square):
    environment = Navigation("a", "d", roads=square, closures={"ab0": [1, 5]})
    environment.observe()
    asked = environment.final_candidates()
    assert asked.arms.tolist() == list(range(len(square)))
    assert set(asked.contexts[:, -1].tolist()) == {FINAL_TIME}
    assert environment.observe().candidates.contexts[0, -1] != FINAL_TIME
