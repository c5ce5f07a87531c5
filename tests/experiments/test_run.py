import numpy as np
import polars as pl
import pytest

from treebandit.core import play_round
from treebandit.environments import Classification
from treebandit.errors import StudyError
from treebandit.experiments.build import build_agent, build_environment
from treebandit.experiments.records import SCHEMA
from treebandit.experiments.run import TimedAgent, final_estimates, play, split_seed, warm_up
from treebandit.experiments.spec import RunSpec

MUSHROOM = {"name": "mushroom", "class": "Classification", "data": "mushroom"}
TIMES = ["choosing", "learning", "rebuilding"]


def spec(agent="toys:Means", environment=MUSHROOM, seed=0, rounds=120, **arguments):
    return RunSpec({"name": "A", "class": agent, **arguments}, environment, seed, rounds, study="s")


def test_a_record_tells_the_rounds_as_they_were_played():
    record = play(spec())
    agent_seed, environment_seed = split_seed(0)
    agent, environment = (
        build_agent(spec().agent, seed=agent_seed),
        build_environment(MUSHROOM, seed=environment_seed),
    )
    rows = [play_round(agent, environment) for _ in range(120)]
    assert record.frame.schema == SCHEMA
    assert record.frame["round"].to_list() == list(range(1, 121))
    assert record.frame["arms"].to_list() == [choice.tolist() for choice, _ in rows]
    assert record.frame["rewards"].to_list() == [outcome.rewards.tolist() for _, outcome in rows]
    assert record.frame["regret"].to_list() == [outcome.regret for _, outcome in rows]
    assert record.spec == spec().to_dict()


def test_provenance():
    provenance = play(spec(noise=0.25)).provenance
    assert provenance["note"] == "noise 0.25"
    assert provenance["packages"]["numpy"] == np.__version__
    assert provenance["packages"]["polars"] == pl.__version__
    assert provenance["started"].endswith("+00:00")
    assert provenance["seed"] == 0
    assert provenance["cpu_seconds"] > 0
    assert set(provenance["machine"]) == {"system", "architecture", "processor", "cores", "python"}


def test_rebuilding_is_kept_out_of_learning():
    frame = play(spec(rounds=110)).frame
    rebuilt = frame.filter(pl.col("rebuilding") > 0)
    assert rebuilt["round"].to_list() == [50, 100]
    assert rebuilt["rebuilding"].to_list() == pytest.approx([0.01, 0.01], abs=1e-6)
    assert (frame["learning"] >= 0).all()


def test_times_start_anew_in_every_round():
    environment, timed = Classification("mushroom", seed=0), TimedAgent(build_agent(spec().agent, seed=0))
    for _ in range(50):
        play_round(timed, environment)
    assert timed.rebuilding > 0
    timed.score(environment.observe().candidates)
    assert (timed.rebuilding, timed.learning) == (0.0, 0.0)


def test_all_agents_of_one_seed_meet_the_same_rounds():
    seen = []
    for noise in (0.0, 5.0):
        _, environment_seed = split_seed(3)
        agent, environment = (
            build_agent(spec(noise=noise).agent, seed=1),
            build_environment(MUSHROOM, seed=environment_seed),
        )
        contexts = []
        for _ in range(200):
            contexts.append(environment.observe().candidates.contexts[0])
            play_round(agent, environment)
        seen.append(np.array(contexts))
    np.testing.assert_array_equal(*seen)
    assert split_seed(3) != split_seed(4)
    assert len(set(split_seed(3))) == 2


def test_the_horizon_ends_a_run():
    synthetic = {"name": "s", "class": "Synthetic"}
    assert play(spec("treebandit.agents:Uniform", rounds=9000)).frame.height == 8124
    assert play(spec("treebandit.agents:Uniform", rounds=None)).frame.height == 8124
    assert play(spec(environment=synthetic, rounds=30)).frame.height == 30
    with pytest.raises(StudyError, match="'s' has no end"):
        play(spec(environment=synthetic, rounds=None))


def test_delayed_rewards_are_recorded_in_their_own_round():
    frame = play(spec(environment={**MUSHROOM, "batch": 40}, noise=0.0)).frame
    assert frame["rewards"].list.len().unique().to_list() == [1]
    assert frame["learning"].gt(0).arg_true().to_list() == [39, 79, 119]


def test_choices_of_several_rows_without_labels():
    environment = {"name": "d", "class": "DescribedArms", "slots": 3}
    record = play(spec("treebandit.agents:Uniform", environment=environment, rounds=20))
    assert record.frame["arms"].list.len().to_list() == [3] * 20
    assert record.frame["arms"].explode().is_between(0, 19).all()


def test_progress_and_warm_up_change_nothing():
    calls = []
    warm_up(spec())
    record = play(spec(rounds=450), progress=lambda done, total: calls.append((done, total)))
    assert calls == [(0, 450), (200, 450), (400, 450)]
    plain = play(spec(rounds=450))
    assert record.frame.drop(TIMES).equals(plain.frame.drop(TIMES))


def test_warm_up_leaves_failing_to_the_run():
    warm_up(spec("toys:Broken"))
    with pytest.raises(RuntimeError, match="broken in round 5"):
        play(spec("toys:Broken"))


def test_regret_of_the_uniform_agent_is_its_expectation():
    adult = {"name": "adult", "class": "Classification", "data": "adult"}
    regrets = [
        play(spec("treebandit.agents:Uniform", environment=adult, seed=seed, rounds=1000))
        .frame["regret"]
        .sum()
        for seed in range(5)
    ]
    assert abs(np.mean(regrets) - 500) < 4 * np.sqrt(250 / 5)


TOWN = {"name": "town", "class": "Navigation", "roads": "small-town", "start": "B2", "end": "K3"}


def test_the_agents_last_word_on_every_arm_is_kept():
    record = play(spec("LinUCB", TOWN, rounds=4))
    agent_seed, environment_seed = split_seed(0)
    agent = build_agent(spec("LinUCB").agent, seed=agent_seed)
    environment = build_environment(TOWN, seed=environment_seed)
    for _ in range(4):
        play_round(agent, environment)
    asked = environment.final_candidates()
    np.testing.assert_array_equal(record.estimates, agent.estimate(asked).mean)
    assert len(record.estimates) == len(environment.network)


def test_no_last_word_where_nobody_asks_or_answers():
    assert play(spec("LinUCB", rounds=2)).estimates is None
    assert play(spec("Uniform", TOWN, rounds=2)).estimates is None


def test_arms_that_are_not_asked_for_have_no_estimate(monkeypatch):
    environment = build_environment(TOWN, seed=0)
    agent = build_agent(spec("LinUCB").agent, seed=0)
    play_round(agent, environment)
    asked = environment.final_candidates()[np.array([5, 2])]
    monkeypatch.setattr(environment, "final_candidates", lambda: asked)
    means = final_estimates(agent, environment)
    np.testing.assert_array_equal(np.flatnonzero(np.isfinite(means)), [2, 5])
    assert len(means) == 6
