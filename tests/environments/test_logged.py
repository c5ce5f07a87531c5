"""Logs as environments."""

import numpy as np
import polars as pl
import pytest

from treebandit import LinUCB, Uniform, play_round
from treebandit.environments import Logged
from treebandit.errors import ChoiceError, InputError, LogError, ParameterError
from treebandit.evaluation import DecisionLog, shop_log, shop_value
from treebandit.trees import HistogramForest

QUICK = HistogramForest(n_trees=10, max_depth=5, min_samples_leaf=20)


def played(agent, log, rounds=None, **arguments):
    environment = Logged(log, reward_model=QUICK, **arguments)
    for _ in range(rounds or environment.horizon):
        play_round(agent, environment)
    return environment


def test_replay_of_a_uniform_log_uses_matching_events_and_tells_how_many():
    environment = played(Uniform(seed=0), shop_log(3_000, policy="uniform", seed=1), seed=0)
    assert environment.replays
    assert environment.shown == 3_000
    assert environment.used == pytest.approx(1_000, abs=100)
    assert environment.note == f"{environment.used:,} of 3,000 events of the log were used"
    value, error = environment.value
    assert abs(value - shop_value("uniform")) < 4 * error
    assert error < 0.02


def test_other_logs_are_doubly_robust():
    environment = played(Uniform(seed=0), shop_log(4_000, seed=1), seed=0)
    assert not environment.replays
    value, error = environment.value
    assert abs(value - shop_value("uniform")) < 4 * error
    # Rejection: the used events are those of a uniform policy, 0.05 of all.
    assert environment.used == pytest.approx(4_000 * 0.05, rel=0.3)


def test_a_learning_agent_earns_more_than_chance():
    log = shop_log(6_000, policy="uniform", seed=2)
    learner = played(LinUCB(seed=0), log, seed=1)
    assert learner.value[0] > shop_value("uniform") - 0.01
    assert 0 < learner.used < 4_000


def test_rounds_show_what_was_logged_and_feedback_is_the_logged_reward():
    log = shop_log(50, policy="uniform", seed=3)
    records = {
        (r["context"]["hour"], r["context"]["age"], r["chosen"][0]): r["reward"] for r in log.records()
    }
    environment = Logged(log, reward_model=QUICK, seed=0)
    hits = 0
    for _ in range(50):
        candidates = environment.observe().candidates
        assert candidates.contexts.shape == (3, 3)
        hour, age, _ = candidates.contexts[0].tolist()
        outcome = environment.pull([1])
        assert outcome.regret >= 0
        if len(outcome.feedback.rewards):
            hits += 1
            assert outcome.feedback.rewards[0] == records[(hour, age, 1)]
    assert hits == environment.used == sum(r["chosen"] == [1] for r in log.records())
    with pytest.raises(InputError, match="all 50 events have been shown"):
        environment.observe()


def test_the_order_is_the_seeds():
    log = shop_log(60, policy="uniform", seed=3)

    def contexts(seed):
        environment = Logged(log, reward_model=QUICK, seed=seed)
        found = []
        for _ in range(60):
            found.append(environment.observe().candidates.contexts.copy())
            environment.pull([0])
        return np.array(found)

    assert np.array_equal(contexts(1), contexts(1))
    assert not np.array_equal(contexts(1), contexts(2))


def test_mistakes_are_told(tmp_path):
    log = shop_log(60, seed=3)
    environment = Logged(log, reward_model=QUICK)
    environment.observe()
    with pytest.raises(ChoiceError, match="exactly one of the 3 rows"):
        environment.pull([0, 1])
    with pytest.raises(LogError, match="lacks probabilities"):
        Logged(shop_log(60, probabilities=False))
    with pytest.raises(LogError, match="does not exist"):
        Logged(str(tmp_path / "none.parquet"))
    with pytest.raises(ParameterError, match="mode is 'x'"):
        Logged(log, mode="x")
    with pytest.raises(ParameterError, match="log is 3"):
        Logged(3)
    with pytest.raises(LogError, match="no decision with a reward"):
        Logged(DecisionLog.from_frame(log.frame.with_columns(reward=pl.lit(None, pl.Float64))))


def test_a_log_in_a_file_is_read_once(tmp_path):
    path = tmp_path / "log.parquet"
    shop_log(80, policy="uniform", seed=3).write(path)
    first, second = (Logged(str(path), reward_model=QUICK, seed=seed) for seed in (0, 1))
    assert first._events is second._events
    assert first.horizon == 80
