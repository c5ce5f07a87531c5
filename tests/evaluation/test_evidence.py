"""What a log can tell: decisions of several rows, rare rewards, holdouts, and intervals of every kind."""

import json

import numpy as np
import polars as pl
import pytest

import treebandit
from treebandit.environments import Logged
from treebandit.errors import LogError, ParameterError
from treebandit.evaluation import DecisionLog, Settings, difference_between_logs, evaluate, replay, shop_log
from treebandit.evaluation.intervals import UNKNOWN, of_share


def sets_log(decisions, arms=20, chosen=10, paid=None, seed=0):
    """Uniform sets; each row pays 1 with probability 0.1, or what `paid` draws."""
    random = np.random.default_rng(seed)
    paid = paid or (lambda: (random.random(chosen) < 0.1).astype(float))
    return DecisionLog.from_records(
        {
            "id": f"d{number}",
            "arms": [f"a{arm}" for arm in range(arms)],
            "chosen": random.choice(arms, chosen, replace=False).tolist(),
            "probabilities": [chosen / arms] * arms,
            "rewards": paid().tolist(),
        }
        for number in range(decisions)
    )


def rare_log(decisions, rate, seed=0, arms=3):
    random = np.random.default_rng(seed)
    return DecisionLog.from_frame(
        pl.DataFrame(
            {
                "id": [str(number) for number in range(decisions)],
                "arms": [["a", "b", "c"][:arms]] * decisions,
                "chosen": random.integers(0, arms, decisions).astype(np.int32),
                "probability": np.full(decisions, 1 / arms),
                "reward": (random.random(decisions) < rate).astype(float),
            }
        )
    )


def test_rows_of_one_decision_are_no_further_decisions():
    few = evaluate(sets_log(5), ["uniform"], estimators=("ips",))["uniform"]
    assert few.diagnostics.decisions == 5
    assert few.diagnostics.effective == pytest.approx(5)
    assert "5 decisions" in few.refusal
    enough = evaluate(sets_log(60), ["uniform", "arm:a0"], estimators=("ips",), anyway=True)
    assert enough["uniform"].refusal is None
    for name in ("uniform", "arm:a0"):
        found = enough[name].diagnostics
        assert found.expected_effective == pytest.approx(found.effective, rel=0.35)


@pytest.mark.parametrize("interval", ["normal", "bootstrap"])
def test_intervals_of_rare_rewards_hold_the_truth(interval):
    held = 0
    for seed in range(40):
        found = evaluate(rare_log(1_000, 0.003, seed), ["arm:a"], estimators=("snips",), interval=interval)[
            "arm:a"
        ]
        limits = found["snips"].interval
        assert limits.high > limits.low
        held += limits.holds(0.003)
        assert any("another reward than the most common" in text for text in found.diagnostics.warnings())
    assert held >= 37
    plenty = evaluate(rare_log(1_000, 0.3), ["arm:a"], estimators=("snips",), interval=interval)["arm:a"]
    assert not plenty.diagnostics.rare


def test_differences_of_rare_rewards_have_an_interval():
    found = evaluate(rare_log(300, 0.0), ["arm:a", "arm:b"])
    limits = found.difference("arm:a", "arm:b").interval
    assert -1 < limits.low < 0 < limits.high < 1


def test_differences_have_the_interval_that_was_asked_for():
    log, both = shop_log(2_000), ["arm:coffee", "arm:tea"]
    normal, bootstrap, uniform = (
        evaluate(log, both, estimators=("ips", "snips"), interval=kind)
        for kind in ("normal", "bootstrap", "time-uniform")
    )
    limits = [each.difference(*both, estimator="ips") for each in (normal, bootstrap, uniform)]
    assert len({each.value for each in limits}) == 1
    lengths = [each.interval.high - each.interval.low for each in limits]
    assert lengths[1] != lengths[0]
    assert lengths[2] > max(lengths[:2])
    assert uniform.difference(*both, estimator="snips").interval.high == np.inf


def test_time_uniform_intervals_of_an_arm_in_sets_take_the_range_of_all_rows():
    random = np.random.default_rng(1)
    log = sets_log(400, arms=4, chosen=2, paid=lambda: random.uniform(1, 5, 2))
    found = evaluate(
        log, ["uniform", "arm:a0"], estimators=("ips",), interval="time-uniform", reward_range=(2, 10)
    )
    assert found["uniform"]["ips"].interval.holds(6.0)
    assert found["arm:a0"]["ips"].interval.holds(3.0)
    assert found["arm:a0"]["ips"].interval.high <= 5.0


def test_what_was_never_chosen_is_null_in_json():
    record = {"arms": ["a", "b", "c"], "chosen": [0], "probability": 0.5, "reward": 1.0}
    log = DecisionLog.from_records({"id": f"d{number}", **record} for number in range(40))
    found = evaluate(log, ["arm:c"], estimators=("snips",), anyway=True)
    text = json.dumps(found.as_dict(), allow_nan=False)
    assert json.loads(text)["policies"][0]["estimates"]["snips"]["value"] is None


def test_two_files_of_one_name_are_two_policies(tmp_path):
    log, paths = shop_log(300), []
    for folder in ("v1", "v2"):
        (tmp_path / folder).mkdir()
        agent = treebandit.LinUCB(seed=0)
        agent.learn(log)
        agent.save(tmp_path / folder / "agent.treebandit")
        paths.append(str(tmp_path / folder / "agent.treebandit"))
    found = evaluate(log, paths, estimators=("ips",), anyway=True)
    assert [policy.name for policy in found.policies] == paths
    with pytest.raises(ParameterError, match="same name"):
        evaluate(log, [paths[0], paths[0]])


def holdout_log():
    random = np.random.default_rng(12345)
    size = 3_000
    holdout = random.random(size) < 0.5
    chosen = np.where(holdout, 0, random.integers(0, 2, size))
    reward = (random.random(size) < np.where(chosen == 0, 0.1, 0.9)).astype(float)
    return DecisionLog.from_frame(
        pl.DataFrame(
            {
                "id": [str(number) for number in range(size)],
                "arms": [["old", "new"]] * size,
                "context": ['{"x":1}'] * size,
                "chosen": chosen.astype(np.int32),
                "probability": np.where(holdout, 1.0, 0.5),
                "reward": reward,
                "holdout": holdout,
            }
        )
    )


def test_a_replay_leaves_a_holdout_of_one_arm_out():
    log = holdout_log()
    found = replay(log, treebandit.Uniform(seed=0))
    assert found.seen == log.frame.select((~pl.col("holdout")).sum()).collect().item()
    assert found.interval.holds(0.5)
    assert abs(found.estimate - 0.5) < 4 * found.error
    environment = Logged(log, mode="replay", seed=0)
    assert environment.horizon == found.seen
    agent = treebandit.Uniform(seed=0)
    for _ in range(environment.horizon):
        treebandit.play_round(agent, environment)
    value, error = environment.value
    assert abs(value - 0.5) < 4 * error


def test_all_chosen_rows_have_a_probability():
    record = {"id": "1", "arms": ["a", "b", "c"], "reward": 1.0, "probabilities": [1.0, 0.0, 1.0]}
    for chosen in ([0, 1], [1, 0]):
        with pytest.raises(LogError, match="chosen row of probability 0"):
            DecisionLog.from_records([{**record, "chosen": chosen}])
    assert len(DecisionLog.from_records([{**record, "chosen": [0, 2]}])) == 1


def test_the_probability_of_one_chosen_row_is_found_among_all():
    records = [
        {
            "id": str(n),
            "arms": ["a", "b"],
            "chosen": [n % 2],
            "probabilities": [0.5, 0.5],
            "reward": float(n % 2),
        }
        for n in range(80)
    ]
    log = DecisionLog.from_records(records)
    assert log.frame.collect()["probability"].to_list() == [0.5] * 80
    assert replay(log, treebandit.Uniform(seed=0)).seen == 80


@pytest.mark.parametrize("known", [True, False])
def test_rare_rewards_of_sets_have_the_range_of_all_rows_played(known):
    """Three of six rows are shown at a time; no row pays in 140 decisions, and a page may pay for all three."""
    random = np.random.default_rng(0)
    rows = [random.permutation(6)[:3].tolist() for _ in range(140)]
    log = DecisionLog.from_records(
        {
            "id": str(number),
            "arms": list("abcdef"),
            "chosen": chosen,
            "probabilities": [0.5] * 6,
            **({"rewards": [0.0] * 3} if known else {"reward": 0.0}),
        }
        for number, chosen in enumerate(rows)
    )
    policies = {"logging": 3, "uniform": 3, "arm:a": 1} if known else {"logging": 3}
    found = evaluate(log, list(policies), estimators=("ips",))
    for name, played in policies.items():
        size = found[name].diagnostics.effective
        wanted = of_share(0.0, size, reward_range=(0.0, float(played)))
        assert found[name]["ips"].interval.high == pytest.approx(wanted.high), name


def test_differences_between_logs_of_rare_rewards_have_an_interval():
    none, some = (evaluate(rare_log(600, rate), ["arm:a"], estimators=("ips",)) for rate in (0.0, 0.5))
    for first, second in ((none, none), (some, none), (none, some)):
        ours, theirs = first["arm:a"]["ips"], second["arm:a"]["ips"]
        gap = difference_between_logs(ours, theirs)
        assert gap.interval.holds(ours.value - theirs.interval.high)
        assert gap.interval.holds(ours.interval.high - theirs.value)
        assert gap.interval.high - gap.interval.low > 0.01
    many = some["arm:a"]["ips"]
    gap = difference_between_logs(many, many).interval
    assert gap.high == pytest.approx(1.959964 * np.sqrt(2) * many.error)


def test_one_decision_tells_nothing_of_a_difference_between_logs():
    found = evaluate(rare_log(1, 0.5), ["logging"], estimators=("ips",), anyway=True)["logging"]["ips"]
    assert difference_between_logs(found, found).interval == UNKNOWN


@pytest.mark.parametrize("mode", ["replay", "doubly_robust"])
def test_a_replay_of_rare_rewards_has_an_interval(mode):
    log = rare_log(600, 0.0)
    played = replay(log, treebandit.Uniform(seed=0))
    assert played.value == 0
    assert played.interval.high == pytest.approx(of_share(0, played.used, reward_range=(0.0, 1.0)).high)
    assert 1e-3 < played.error < 0.01
    environment, agent = Logged(log, mode=mode, seed=0), treebandit.Uniform(seed=0)
    for _ in range(environment.horizon):
        treebandit.play_round(agent, environment)
    value, error = environment.value
    assert value == 0
    assert 1e-3 < error < 0.02


def test_the_value_of_a_policy_does_not_depend_on_the_others():
    log, estimators = holdout_log(), ("ips", "dr")
    names = ["logging", "uniform", "arm:old"]
    together = evaluate(log, names, estimators=estimators)
    for name in names:
        alone = evaluate(log, [name], estimators=estimators)[name]
        assert alone.as_dict() == together[name].as_dict()
    mean = log.frame.select(pl.col("reward").mean()).collect().item()
    assert together["logging"]["ips"].value == pytest.approx(mean)
    assert (together.decisions, together.used) == (3_000, 3_000)
    assert together["uniform"]["ips"].interval.holds(0.5)


def test_the_logging_policy_is_compared_with_its_control_group():
    found = evaluate(holdout_log(), ["uniform", "logging"], estimators=("ips",))
    gap, one, two = (
        found.difference("uniform", "logging", estimator="ips"),
        *(found[name]["ips"] for name in ("uniform", "logging")),
    )
    assert gap.value == pytest.approx(one.value - two.value)
    assert gap.interval.holds(0.5 - 0.3)
    assert abs(one.error - two.error) < gap.error < one.error + two.error


def test_a_log_whose_only_rewards_are_those_of_the_control_group_tells_nothing_of_others():
    log = holdout_log()
    held = pl.when("holdout").then("reward")
    found = evaluate(DecisionLog(log.frame.with_columns(reward=held)), ["uniform", "logging"])
    assert "no decision of the log can be used" in found["uniform"].refusal
    assert found["logging"]["ips"].value == pytest.approx(0.1, abs=0.03)


@pytest.mark.parametrize("interval", ["normal", "bootstrap", "time-uniform"])
@pytest.mark.parametrize(
    "given", [(0, 0), (0,), "ab", "01", (1, 0), (np.nan, 1), (0, np.inf), (0, 1, 2), 3, (None, 1)]
)
def test_a_range_of_rewards_is_two_numbers(interval, given):
    with pytest.raises(
        ParameterError, match="reward_range is .*; give the least and the greatest possible reward"
    ):
        Settings(reward_range=given, interval=interval)


@pytest.mark.parametrize("interval", ["normal", "bootstrap", "time-uniform"])
def test_rewards_outside_of_the_range_are_told(interval):
    log = rare_log(300, 0.5)
    options = {"estimators": ("ips",), "interval": interval}
    with pytest.raises(ParameterError, match="the log holds rewards from 0 to 1"):
        evaluate(log, ["uniform"], reward_range=(0, 0.5), **options)
    missing = DecisionLog(log.frame.with_columns(reward=pl.when(pl.col("reward") == 1).then("reward")))
    with pytest.raises(ParameterError, match="the log holds rewards from -2 to 1"):
        evaluate(missing, ["uniform"], reward_range=(0, 1), missing_reward=-2, **options)
    assert evaluate(log, ["uniform"], reward_range=[0, 1], **options)["uniform"]["ips"].interval.low > 0
